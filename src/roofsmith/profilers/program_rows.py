"""A row of a profiler's table as one launch or a sum of several, whichever tool wrote it.

Columns are those of rocprofv3's kernel trace, statistics and rocpd database (the view `kernels`:
ROCm/rocm-systems, rocprofiler-sdk-rocpd, data_views.sql), of rocprof before it, of `nsys stats`
(cuda_gpu_kern_sum, before 2023 gpukernsum; cuda_gpu_trace) and of nsys's SQLite (docs.nvidia.com/
nsight-systems, "Post-Collection Analysis Guide", "SQLite Export Schema Reference"), and of `perf
report -t, -F period,sample,sym` of cpu-clock, whose periods are nanoseconds. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from roofsmith.domain.profile import Counter
from roofsmith.profilers.dispatches import Dispatch
from roofsmith.profilers.rocprof_output import RUNTIME, RocprofAgent, static_counters
from roofsmith.profilers.torch_profiler_trace import launch_counters
from roofsmith.profilers.units import plausible

_SAME = {
    "kernel_name": "name kernelname symbol",
    "start_timestamp": "start beginns",
    "end_timestamp": "end endns",
    "total": "total_time totaldurationns period",
    "calls": "instances",
    "agent_id": "gpu-id device deviceid agent_abs_index",
    "lds_block_size": "lds lds_size",
    "scratch_size": "scr",
    "vgpr_count": "arch_vgpr arch_vgpr_count",
    "accum_vgpr_count": "accum_vgpr",
    "sgpr_count": "sgpr",
    "workgroup_size": "wgr",
    "grid_size": "grd",
    "registers": "reg/trd registersperthread",
    "static": "stcsmem staticsharedmemory",
    "dynamic": "dymsmem dynamicsharedmemory",
    **{f"block_{axis}": f"blk{axis} block{axis}" for axis in "xyz"},
    **{f"grid_size_{axis}": f"grd{axis} grid{axis} grid_{axis}" for axis in "xyz"},
    **{f"workgroup_size_{axis}": f"workgroup_{axis}" for axis in "xyz"},
}
_COLUMNS = {other: name for name, others in _SAME.items() for other in others.split()}
_UNITS = {"ns": 1.0, "nsec": 1.0, "us": 1e3, "usec": 1e3, "ms": 1e6, "msec": 1e6, "s": 1e9,
          "sec": 1e9, "kb": 1e3, "mb": 1e6}  # fmt: skip
"""That stand in columns' names, in nanoseconds and bytes: `Total Time (us)`."""
_COPIES = (RUNTIME, "[CUDA mem")

Row = Mapping[str, object]


def is_header(columns: Iterable[str]) -> bool:
    """Whether these columns are a table's of kernels."""
    names = {_split(column)[0] for column in columns}
    times = ({"start_timestamp", "end_timestamp"}, {"start_timestamp", "duration", "corrid"},
             {"total", "calls"}, {"total", "samples"})  # fmt: skip
    return "kernel_name" in names and any(some <= names for some in times)


def dispatch(
    row: Row, agents: Sequence[RocprofAgent] = (), device: Mapping[str, object] | None = None
) -> Dispatch | None:
    """What a row says; None where it holds no time.

    Args:
        row: column to text or number.
        agents: that rocprofv3 lists.
        device: of nsys, with torch.profiler's names: numSms, computeMajor, computeMinor.
    """
    told: dict[str, object] = {}
    for column, value in row.items():
        name, unit = _split(column)
        number = read_number(value) if unit in _UNITS else None
        told[name] = value if number is None else number * _UNITS[unit]
    times = ("start_timestamp", "end_timestamp", "duration", "total")
    begin, end, took, total = (read_number(told.get(name)) for name in times)
    calls = 0 if "samples" in told else read_number(told.get("calls")) or 1
    kernel = re.sub(r"^\[[.k]\] ", "", str(told.get("kernel_name")).strip())
    if took is None and end is not None and begin is not None:
        took = end - begin
    time_ns = total if took is None else took
    if time_ns is None or not 0 <= time_ns < 1e18 or calls < 0:
        return None
    return Dispatch(
        kernel,
        time_ns * 1e-9,
        None if took is None or begin is None else int(begin),
        str(told.get("agent_id", "")),
        calls=int(calls),
        is_copy=kernel.startswith(_COPIES),
        counters=partial(_counters, told, agents, device or {}, time_ns * 1e-9),
    )


def product(row: Row) -> str | None:
    """`NVIDIA A100-SXM4-80GB` of a row of nsys on device `NVIDIA A100-SXM4-80GB (0)`."""
    found = re.fullmatch(r"(.+) \(\d+\)", str(row.get("device", "")))
    return found[1] if found else None


def _counters(
    told: Row, agents: Sequence[RocprofAgent], device: Mapping[str, object], time_s: float
) -> tuple[Counter, ...]:
    if "block_x" not in told:
        texts = {name: str(value) for name, value in told.items() if value is not None}
        return static_counters(texts, agents, time_s)
    shared = [read_number(told.get(name)) for name in ("static", "dynamic")]
    details = {
        "block": [read_number(told.get(f"block_{axis}")) for axis in "xyz"],
        "grid": [read_number(told.get(f"grid_size_{axis}")) for axis in "xyz"],
        "registers per thread": read_number(told.get("registers")),
        "shared memory": None if None in shared else sum(filter(None, shared)),
    }
    return launch_counters(details, device, time_s)


def _split(column: str) -> tuple[str, str]:
    """Our name of a column, and the unit that stands in its own."""
    plain, _, unit = column.lower().strip("# \t").partition(" (")
    plain = plain.replace(" ", "_")
    return _COLUMNS.get(plain, plain), unit.rstrip(")")


def read_number(value: object) -> float | None:
    """A number that a tool could have counted; None for anything else."""
    try:
        return plausible(float(str(value).replace(",", "")))
    except ValueError:
        return None
