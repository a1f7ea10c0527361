"""What a repository's own profiler says: one run's file, whatever else a candidate writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from roofsmith.analysis.gpu_bottleneck import findings
from roofsmith.domain.command import CommandSpec, ProfileCommand
from roofsmith.domain.kernel import Built, Signature
from roofsmith.domain.workload import Workload
from roofsmith.repository.profiler import CommandProfiler

TABLE = "Kernel_Name,Start_Timestamp,End_Timestamp\\npa_main,0,{}\\n"


def profiled(folder: Path, command: str, steps: int | None = None) -> tuple[CommandProfiler, Built]:
    """A profiler that runs a command in a checkout."""
    checkout = folder / "checkout"
    checkout.mkdir()
    spec = CommandSpec(
        repo="/r", editable=("a.c",), benchmark="b", metric="us", unit="us", rows=("n",),
        profile=ProfileCommand(command=command, results="*.csv", steps=steps),
    )  # fmt: skip
    built = Built(
        candidate_id="0" * 12, language="command", library=checkout, library_sha256="",
        signature=Signature(parameters=()), environment={}, command="", log=folder / "build.log",
        build_time_s=0,
    )  # fmt: skip
    return CommandProfiler(spec, folder / "logs"), built


def writes(name: str, end_ns: int) -> str:
    """A command that writes a table of one launch."""
    return f"printf '{TABLE.format(end_ns)}' > {name}"


def test_the_file_of_one_run_is_read(tmp_path: Path) -> None:
    profiler, built = profiled(tmp_path, writes("a.csv", 2000))
    (built.library / "old.csv").write_text("of an earlier run")
    assert profiler.kernel_time(built) == pytest.approx(2e-6)


def test_equal_files_are_one(tmp_path: Path) -> None:
    profiler, built = profiled(tmp_path, f"{writes('a.csv', 2000)}; cp a.csv b.csv; mkdir -p c.csv")
    assert profiler.kernel_time(built) == pytest.approx(2e-6)
    assert profiler.kernel_time(built) == pytest.approx(2e-6)  # the folder is still there


@pytest.mark.parametrize(
    ("steps", "time_s", "what"),
    [(None, 2e-6, "mean kernel time over"), (4, 0.5e-6, "kernel time per step over")],
)
def test_the_profile_says_what_its_time_is_of(
    tmp_path: Path, steps: int | None, time_s: float, what: str
) -> None:
    profiler, built = profiled(tmp_path, writes("a.csv", 2000), steps)
    found = profiler.profile(built, Workload(dims={"n": 1}, config_class="all"))
    assert found.counters[0].value == pytest.approx(time_s)
    assert what in found.notes[0]


@pytest.mark.parametrize("last", ["a", "b"])
def test_whoever_writes_last_does_not_choose(tmp_path: Path, last: str) -> None:
    first = "ab".replace(last, "")
    command = f"{writes(f'{first}.csv', 2000)}; sleep 0.02; {writes(f'{last}.csv', 1000)}"
    profiler, built = profiled(tmp_path, command)
    said = profiler.kernel_time(built)
    assert isinstance(said, str)
    assert "2 different files" in said
    assert {"a.csv", "b.csv"} <= set(said.replace(",", " ").replace(";", " ").split())
    assert "`profile.results`" in said
    profile = profiler.profile(built, Workload(dims={"n": 1}, config_class="all"))
    assert (profile.tool, profile.counters) == ("none", ())
    assert "2 different files" in profile.notes[0]


ROCPROF = Path(__file__).parents[1] / "golden" / "gpu"


def on_gpu(folder: Path, kernel: str = "", **more: str) -> tuple[CommandProfiler, Built]:
    """A profiler whose command leaves what rocprofv3 does."""
    for kind in ("kernel_trace", "agent_info"):
        text = (ROCPROF / f"rocprofv3_{kind}_mi300x.csv").read_text()
        (folder / f"{kind}.csv").write_text(text)
    command = f"mkdir -p prof && cp {folder}/kernel_trace.csv prof/1_kernel_trace.csv"
    command += f" && cp {folder}/agent_info.csv prof/1_agent_info.csv"
    timer, built = profiled(folder, command)
    profile = ProfileCommand(command=command, results="prof/*_trace.csv", kernel=kernel, **more)
    spec = timer._spec.model_copy(update={"profile": profile, "device": "gpu"})
    return CommandProfiler(spec, folder / "logs"), built


def test_what_the_profiler_left_is_every_kernel_with_what_it_takes(tmp_path: Path) -> None:
    profiler, built = on_gpu(tmp_path, kernel="^kernel_step")
    (built.library / "of_before.csv").write_text("Name,Calls,TotalDurationNs\nold,1,99\n")
    found = profiler.profile(built, Workload(dims={"n": 1}, config_class="all"))
    assert found.tool == "rocprofv3"  # so that the rules of GPUs apply
    assert found.kernels[0].name.startswith("_kernel_solve_body")
    assert found.kernel is not None
    assert found.kernel.startswith("kernel_step_2")  # the hottest of those that count
    assert found.get("registers_per_thread") == 128
    assert found.get("accumulation_registers") == 160
    assert found.kernels[0].limiters == ("registers",)
    assert not any(kernel.name == "old" for kernel in found.kernels)


def test_further_commands_count_and_what_fails_is_a_note(tmp_path: Path) -> None:
    row = "5,kernel_step_2_c534_0_kernel_16_range_for,OccupancyPercent,7.5,1,9"
    head = "Dispatch_Id,Kernel_Name,Counter_Name,Counter_Value,Start_Timestamp,End_Timestamp"
    count = f"printf '{head}\\n{row}\\n' > prof/2_counter_collection.csv"
    profiler, built = on_gpu(tmp_path, kernel="^kernel_step", counters=count, trace="exit 3")
    found = profiler.profile(built, Workload(dims={"n": 1}, config_class="all"))
    assert found.get("achieved_occupancy") == pytest.approx(0.075)
    assert any("profile.trace" in note and "exited with 3" in note for note in found.notes)


THREAD_TRACE = """\
"CodeObj","Vaddr","Instruction","Hitcount","Latency","Stall","Idle","Source"
1,0,"; kernel_step",0,0,0,0,"kernel_step_2_c534_0_kernel_16_range_for"
1,4,"buffer_load_dwordx4 v[0:3], v4, s[0:3], 0 offen",8,100,60,0,"pa.py:11"
1,8,"s_waitcnt vmcnt(0)",8,500,400,0,"pa.py:12"
1,12,"ds_read_b128 v[0:3], v9",8,90,50,0,"pa.py:13"
1,16,"s_waitcnt lgkmcnt(0)",8,200,190,0,"pa.py:14"
1,20,"s_barrier",8,300,300,0,"pa.py:15"
1,24,"v_mfma_f32_32x32x8_f16 a[0:15], v[0:1], v[2:3], a[0:15]",8,64,0,600,"pa.py:16"
"""


def test_a_repositorys_thread_trace_says_what_waves_wait_for_and_where(tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text(THREAD_TRACE)
    trace = f"cp {tmp_path}/trace.csv prof/stats_ui_output_agent_2_dispatch_5.csv"
    profiler, built = on_gpu(tmp_path, kernel="^kernel_step", trace=trace)
    found = profiler.profile(built, Workload(dims={"n": 1}, config_class="all"))
    shares = [found.get(f"stall_{what}_share") for what in ("vmcnt", "barrier", "vmem", "lds")]
    assert shares == [0.4, 0.3, 0.06, 0.05]
    assert found.get("stall_lgkmcnt_share") == 0.19
    assert [(spot.source, spot.stall_share) for spot in found.hotspots[:2]] == [
        ("pa.py:12", 0.4), ("pa.py:15", 0.3),
    ]  # fmt: skip
    assert (found.hotspots[-1].source, found.hotspots[-1].idle_share) == ("pa.py:16", 1.0)
    said = findings({counter.name: counter.value for counter in found.counters})
    assert any(line.startswith("waiting for memory") for line in said)
    assert any(line.startswith("idle before matrix instructions") for line in said)


def test_a_table_of_ones_own_still_gives_the_time(tmp_path: Path) -> None:
    profiler, built = profiled(tmp_path, "printf 'Kernel_Name,us\\nf,3\\n' > a.csv")
    profile = ProfileCommand(command=profiler._spec.profile.command, results="*.csv", time="us",
                             unit="us")  # fmt: skip
    spec = profiler._spec.model_copy(update={"profile": profile})
    found = CommandProfiler(spec, tmp_path / "logs").profile(
        built, Workload(dims={"n": 1}, config_class="all")
    )
    assert found.counters[0].value == pytest.approx(3e-6)
    assert (found.tool, found.kernels) == ("command", ())
