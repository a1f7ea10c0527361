"""Whole programs' profiles: recorded ones, documented variants, and files that are none.

Recorded: `torch_trace_*.json.gz` are of facebookresearch/HolisticTraceAnalysis (MIT), tests/data;
the V100's is an excerpt. The variants follow the tools' documentation.
"""

from __future__ import annotations

import gzip
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from roofsmith.domain.program import TracedProgram
from roofsmith.profilers import program_files
from roofsmith.profilers.program_files import NotATraceError, read_program

RECORDED = Path(__file__).parents[1] / "golden" / "gpu"

NSYS_STATS = """
NOTICE: Existing SQLite export found: report1.sqlite
        Consider using --force-export=true if needed.

Processing [report1.sqlite] with [/opt/nvidia/reports/cuda_gpu_kern_sum.py]...

 ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):

Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name
60.0,600000,3,200000.0,200000.0,100000,300000,1.0,"void rows<(int)4>(float *, int)"
40.0,400000,4,100000.0,100000.0,100000,100000,0.0,ampere_sgemm_128x64_nn

Processing [report1.sqlite] with [/opt/nvidia/reports/cuda_gpu_mem_time_sum.py]...

Time (%),Total Time (ns),Count,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Operation
100.0,2411520,48,50240.0,50176.0,49920,51200,320.1,[CUDA memcpy Host-to-Device]
"""


def seen(program: TracedProgram) -> list[tuple[str, int, float]]:
    return [(k.name, k.launches, round(k.time_s * 1e6, 3)) for k in program.kernels]


def test_a_pytorch_trace_has_kernels_operators_and_the_device() -> None:
    program = read_program(RECORDED / "torch_trace_mi250.json.gz")
    assert (program.tool, program.device) == ("torch.profiler", "AMD Radeon Graphics")
    hottest = program.kernels[0]
    assert (hottest.name, hottest.is_copy, hottest.operator) == ("Memcpy HtoD", True, "aten::copy_")
    assert sum(kernel.share for kernel in program.kernels) == pytest.approx(1)
    relu = next(k for k in program.kernels if "launch_clamp_scalar" in k.name)
    assert relu.operator == "aten::clamp_min"
    assert relu.least_bytes == 2 * 5 * 128 * 4
    assert program.span_s is not None
    assert program.part(hottest) < 0.01 < hottest.share


def test_a_triton_kernel_of_inductor_says_where_it_is_from() -> None:
    (kernel,) = read_program(RECORDED / "torch_trace_triton_a100.json.gz").kernels
    assert kernel.source is not None
    assert kernel.source.endswith(".py")
    assert kernel.least_bytes == 3 * 100 * 4


def test_a_launch_has_registers_occupancy_and_its_limiter() -> None:
    program = read_program(RECORDED / "torch_trace_v100.json.gz")
    assert program.device == "Tesla V100-SXM2-32GB"
    sgemm = next(k for k in program.kernels if k.name.startswith("volta_sgemm"))
    assert sgemm.get("registers_per_thread")
    assert sgemm.limiters


@pytest.mark.parametrize("age", ["mi300x", "before_1_1", "rocpd_export"])
def test_a_kernel_trace_of_rocprofv3_has_registers_where_it_says_so(age: str) -> None:
    program = read_program(RECORDED / f"rocprofv3_kernel_trace_{age}.csv")
    own = [kernel for kernel in program.kernels if not kernel.is_copy]
    assert own
    assert all((k.get("registers_per_thread") is None) == (age == "before_1_1") for k in own)


def test_a_folder_of_rocprofv3_is_one_run(tmp_path: Path) -> None:
    place = tmp_path / "host"
    place.mkdir()
    for kind in ("kernel_trace", "agent_info"):
        text = (RECORDED / f"rocprofv3_{kind}_mi300x.csv").read_text()
        (place / f"17_{kind}.csv").write_text(text)
    (place / "17_counter_collection.csv").write_text(
        '"Correlation_Id","Dispatch_Id","Agent_Id","Kernel_Name","Counter_Name","Counter_Value",'
        '"Start_Timestamp","End_Timestamp"\n'
        '5,5,"Agent 2","kernel_step_2_c534_0_kernel_16_range_for","OccupancyPercent",7.5,1,900000\n'
        '5,5,"Agent 2","kernel_step_2_c534_0_kernel_16_range_for","SQ_WAVES",64,1,900000\n'
    )
    (place / "stats_ui_output_agent_2_dispatch_5.csv").write_text(
        "CodeObj,Vaddr,Instruction,Hitcount,Latency,Stall,Idle,Source\n"
        "1,0,; kernel_step_2_c534_0_kernel_16_range_for,0,0,0,0,kernel_step_2_c534_0_kernel_16_"
        "range_for\n"
        "1,4,s_waitcnt vmcnt(0),4,100,90,10,step.hip:12\n"
        "1,8,s_barrier,4,20,10,0,step.hip:14\n"
    )
    program = read_program(tmp_path)
    assert program.device == "AMD Instinct MI300X"
    step = next(k for k in program.kernels if k.name.startswith("kernel_step_2"))
    assert step.time_s == pytest.approx(122.782e-6)  # by the trace: counting slows it down
    assert step.get("achieved_occupancy") == pytest.approx(0.075)
    assert step.get("stall_vmcnt_share") == pytest.approx(0.9)
    assert step.hotspots[0].source == "step.hip:12"
    assert step.get("theoretical_occupancy") is not None
    assert "registers" in step.limiters


def test_sums_of_nsys_are_read_among_what_it_prints(tmp_path: Path) -> None:
    path = tmp_path / "nsys_stats.csv"
    path.write_text(NSYS_STATS)
    program = read_program(path)
    assert seen(program) == [("rows<(int)4>", 3, 600), ("ampere_sgemm_128x64_nn", 4, 400)]
    assert program.span_s is None


def test_a_trace_of_nsys_has_its_own_unit(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(
        "Start (us),Duration (us),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),"
        "DymSMem (MB),Bytes (MB),Throughput (MB/s),SrcMemKd,DstMemKd,Device,Ctx,Strm,Name\n"
        "100.0,50.0,1,,,,,,,,,,8.389,167.0,Pageable,Device,NVIDIA A100-SXM4-80GB (0),1,7,"
        "[CUDA memcpy Host-to-Device]\n"
        "200.0,300.0,2,64,64,1,256,1,1,64,0.001,0.000,,,,,NVIDIA A100-SXM4-80GB (0),1,7,"
        '"scale(double *, int)"\n'
    )
    program = read_program(path)
    assert seen(program)[0] == ("scale", 1, 300)
    assert program.device == "NVIDIA A100-SXM4-80GB"
    assert program.span_s == pytest.approx(400e-6)
    assert [k.is_copy for k in program.kernels] == [False, True]
    assert program.kernels[0].get("registers_per_thread") == 64


def nsys_export(path: Path, *, name: str = "demangledName") -> None:
    database = sqlite3.connect(path)
    database.executescript(
        "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);"
        "CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT, smCount INTEGER,"
        " computeMajor INTEGER, computeMinor INTEGER);"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INTEGER, end INTEGER, deviceId INTEGER);"
        f"CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER,"
        f" {name} INTEGER, registersPerThread INTEGER, gridX INTEGER, gridY INTEGER, gridZ INTEGER,"
        " blockX INTEGER, blockY INTEGER, blockZ INTEGER, staticSharedMemory INTEGER,"
        " dynamicSharedMemory INTEGER);"
        "INSERT INTO StringIds VALUES (1, 'void rows<(int)4>(float *)');"
        "INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA H100 80GB HBM3', 132, 9, 0);"
        "INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (0, 1000, 0);"
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES"
        " (1000, 3000, 0, 1, 128, 132, 1, 1, 256, 1, 1, 1024, 0),"
        " (2000, 4000, 0, 1, 128, 132, 1, 1, 256, 1, 1, 1024, 0);"
    )
    database.commit()
    database.close()


@pytest.mark.parametrize("name", ["demangledName", "name", "shortName"])
def test_an_export_of_nsys_tells_what_overlaps(tmp_path: Path, name: str) -> None:
    nsys_export(tmp_path / "r.sqlite", name=name)
    program = read_program(tmp_path / "r.sqlite")
    rows = program.kernels[0]
    assert (rows.launches, rows.time_s, rows.busy_s) == pytest.approx((2, 4e-6, 3e-6))
    assert program.part(rows) == pytest.approx(0.75)
    assert rows.get("theoretical_occupancy") == pytest.approx(0.25)
    assert rows.limiters == ("registers",)
    assert program.device == "NVIDIA H100 80GB HBM3"


def test_ncu_counts_stand_with_the_kernel() -> None:
    (kernel,) = read_program(RECORDED / "ncu_set_full_page_raw_softmax_h100.csv").kernels
    assert kernel.get("dram_throughput") is not None
    assert kernel.time_s > 0


def test_a_tool_that_only_sums_has_launches(tmp_path: Path) -> None:
    path = tmp_path / "x_kernel_stats.csv"
    path.write_text(
        '"Name","Calls","TotalDurationNs","AverageNs","Percentage","MinNs","MaxNs","StdDev"\n'
        '"__amd_rocclr_copyBuffer",10,1000,100,10,1,1,1\n"jacobi(float*)",3,9000,3000,90,1,1,1\n'
    )
    program = read_program(path)
    assert seen(program) == [("jacobi", 3, 9.0), ("__amd_rocclr_copyBuffer", 10, 1.0)]
    (tmp_path / "x_memory_copy_stats.csv").write_text("Name,Calls,TotalDurationNs\nCOPY,1,99\n")
    assert read_program(tmp_path) == program
    with pytest.raises(NotATraceError, match="not of kernels"):
        read_program(tmp_path / "x_memory_copy_stats.csv")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.json", b"", "is empty"),
        ("a.json", b'{"traceEvents": [', "no whole JSON"),
        ("a.json", b'{"metrics": [1, 2]}', "no trace of torch.profiler"),
        ("a.json", b'{"traceEvents": [{"ph": "X", "cat": "cpu_op"}]}', "no launch"),
        ("a.json.gz", gzip.compress(b'{"traceEvents": []}' * 99, mtime=0)[:-20], "cut off"),
        ("a.csv", b"M,N,us\n1,2,3\n", "is no trace"),
        ("a.csv", b'"ID","Kernel Name","Metric Name","Metric Value"\n', "details"),
        ("a.nsys-rep", b"\x00\x01", "own tool"),
        ("a.sqlite", b"SQLite format 3\0" + b"\0" * 99, "database"),
        ("a.bin", bytes(range(256)), "is no trace"),
    ],
)
def test_what_is_no_trace_is_said_in_one_message(
    tmp_path: Path, name: str, content: bytes, said: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(NotATraceError, match=said) as refused:
        read_program(path)
    assert refused.value.exit_code == 2
    assert refused.value.hint


def test_a_file_beyond_the_limit_is_refused_packed_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program_files, "MAX_BYTES", 1000)
    events = json.dumps({"traceEvents": [{"ph": "X"}] * 500}).encode()
    (tmp_path / "a.json").write_bytes(events)
    (tmp_path / "b.json.gz").write_bytes(gzip.compress(events))
    for path in tmp_path.iterdir():
        with pytest.raises(NotATraceError, match="more than"):
            read_program(path)


def test_a_folder_without_a_trace_names_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "results.csv").write_text("M,N\n1,2\n")
    with pytest.raises(NotATraceError, match=r"results\.csv"):
        read_program(tmp_path)


def test_a_row_of_rocprof_and_a_database_of_rocpd_say_what_a_kernel_takes(tmp_path: Path) -> None:
    (tmp_path / "results.csv").write_text(
        "Index,KernelName,gpu-id,grd,wgr,lds,scr,arch_vgpr,accum_vgpr,sgpr,BeginNs,EndNs,DurationNs"
        '\n0,"stencil(float*) [clone .kd]",4,16777216,256,1024,0,28,4,32,2000,302000,300000\n'
    )
    (old,) = read_program(tmp_path / "results.csv").kernels
    database = sqlite3.connect(tmp_path / "r.db")
    database.executescript(
        "CREATE TABLE rocpd_info_agent"
        " (type TEXT, absolute_index INT, name TEXT, product_name TEXT);"
        "CREATE TABLE rocpd_info_kernel_symbol (id INT, arch_vgpr_count INT, accum_vgpr_count INT,"
        " sgpr_count INT);"
        "CREATE TABLE kernels (name TEXT, agent_abs_index INT, kernel_id INT, start INT, end INT,"
        " grid_x INT, grid_y INT, grid_z INT, workgroup_x INT, workgroup_y INT, workgroup_z INT,"
        " lds_size INT, scratch_size INT);"
        "INSERT INTO rocpd_info_agent VALUES ('GPU', 4, 'gfx942', 'AMD Instinct MI300X');"
        "INSERT INTO rocpd_info_kernel_symbol VALUES (1, 28, 4, 32);"
        "INSERT INTO kernels VALUES"
        " ('stencil(float*)', 4, 1, 2000, 302000, 16777216, 1, 1, 256, 1, 1, 1024, 0);"
    )
    database.commit()
    program = read_program(tmp_path / "r.db")
    assert program.device == "AMD Instinct MI300X"
    (new,) = program.kernels
    names = ("registers_per_thread", "accumulation_registers", "shared_bytes_per_block", "threads")
    assert [old.get(name) for name in names] == [new.get(name) for name in names]
    assert (old.name, old.time_s) == (new.name, new.time_s)
    assert new.get("theoretical_occupancy") == 1


ODD = {
    "a.csv": "Name,Start,End,Counter_Name,Counter_Value\nk,1,2,SQ_WAVES,3\n",
    "b.csv": "Dispatch_Id,Kernel_Name,Start_Timestamp,End_Timestamp,Counter_Name,Counter_Value\n"
    "1,k,1,2,SQ_WAVES,nan\n1,k,1,2,SQ_WAVES,inf\n",
    "c.sqlite": "CREATE TABLE StringIds (id, value);"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end);"
    "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1, 2);"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start, end);"
    "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (5, 1), (1, 9e999), (NULL, 3), (3, 4);",
    "d.db": "CREATE TABLE rocpd_info_agent (type, absolute_index, name);"
    "INSERT INTO rocpd_info_agent VALUES ('GPU', 1, NULL);"
    "CREATE TABLE rocpd_info_kernel_symbol (id); CREATE TABLE kernels (name, start, end);"
    "INSERT INTO kernels VALUES ('k', 1, 2);",
}


@pytest.mark.parametrize("name", ODD)
def test_an_odd_cell_takes_nothing_else_along(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name.endswith(".csv"):
        path.write_text(ODD[name])
    else:
        with closing(sqlite3.connect(path)) as database:
            database.executescript(ODD[name])
    kernels = read_program(path).kernels
    assert sum(one.time_s for one in kernels if not one.is_copy) == pytest.approx(1e-9)
    assert sum(one.time_s for one in kernels if one.is_copy) == (name == "c.sqlite") * 1e-9


@pytest.mark.parametrize(
    "kernels",
    [
        "INSERT INTO rocpd_info_agent VALUES ('GPU', 9e999, 'gfx942')",
        "CREATE VIEW kernels AS SELECT zeroblob(900000000) AS name, 1 AS start, 2 AS end",
    ],
)
def test_a_database_that_no_tool_wrote_is_refused(tmp_path: Path, kernels: str) -> None:
    with closing(sqlite3.connect(tmp_path / "r.db")) as database:
        database.executescript(
            "CREATE TABLE rocpd_info_agent (type, absolute_index, name);"
            f"CREATE TABLE rocpd_info_kernel_symbol (id); {kernels};"
            "CREATE TABLE IF NOT EXISTS kernels (name, start, end);"
        )
    with pytest.raises(NotATraceError, match="can't be read"):
        read_program(tmp_path / "r.db")


def test_a_database_without_end_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_files, "DATABASE_S", 0.1)
    database = sqlite3.connect(tmp_path / "r.db")
    database.executescript(
        "CREATE TABLE rocpd_info_agent (type TEXT);"
        "CREATE TABLE rocpd_info_kernel_symbol (id INT);"
        "CREATE VIEW kernels AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
        " SELECT max(i) FROM n;"
    )
    database.commit()
    with pytest.raises(NotATraceError, match="interrupted"):
        read_program(tmp_path / "r.db")


@pytest.mark.parametrize(
    ("operator", "kernel", "shapes", "types", "strides", "moved"),
    [
        ("aten::add", "elementwise_kernel", [[4, 8], [8], []], ["float", "float", "Scalar"], None,
         4 * (32 + 8 + 32)),
        ("aten::add", "elementwise_kernel", [[4, 8], [4, 8]], ["float"] * 2, [[8, 1], [0, 1]],
         4 * (32 + 8 + 32)),
        ("aten::lt", "elementwise_kernel", [[4, 8], [4, 8]], ["double"] * 2, None, 8 * 64 + 32),
        ("aten::mul_", "elementwise_kernel", [[4, 8], [4, 8]], ["c10::Half"] * 2, None, 2 * 96),
        ("aten::copy_", "elementwise_kernel", [[4, 8], [4, 8]], ["float", "c10::Half"], None,
         6 * 32),
        ("aten::_softmax", "softmax_warp", [[4, 8], [], []], ["float", "Scalar", "Scalar"], None,
         4 * 64),
        ("aten::sum", "reduce_kernel", [[4, 8]], ["float"], None, 4 * 32),
        ("aten::sum", "reduce_kernel", [[0, 8]], ["float"], None, 0),
        ("triton_poi_fused_0", "triton_poi_fused_0", [[32], [32]], ["float"] * 2, None, 4 * 64),
        ("aten::arange", "elementwise_kernel", [[], []], ["Scalar", "Scalar"], None, None),
        ("aten::add", "elementwise_kernel", [[4]], ["quint4x2"], None, None),
        ("aten::cat", "CatArrayBatchedCopy", [[[4], [4]]], ["TensorList"], None, None),
    ],
)  # fmt: skip
def test_an_operators_shapes_say_what_it_has_to_move(
    tmp_path: Path, operator: str, kernel: str, shapes: object, types: object, strides: object,
    moved: float | None,
) -> None:  # fmt: skip
    arguments = {"External id": 7, "Input Dims": shapes, "Input type": types}
    arguments |= {} if strides is None else {"Input Strides": strides}
    events = [
        {"ph": "X", "cat": "cpu_op", "name": operator, "ts": 1, "dur": 9, "args": arguments},
        {"ph": "X", "cat": "kernel", "name": kernel, "ts": 5, "dur": 2, "args": {"External id": 7}},
    ]
    (tmp_path / "t.json").write_text(json.dumps({"traceEvents": events}))
    (found,) = read_program(tmp_path / "t.json").kernels
    assert found.least_bytes == moved
    assert found.operator == operator
