from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from process_runner import ProcessRunner
from tool_stand_ins import GOLDEN, OneArray, seen, small_library, stand_in

from roofsmith.domain.profile import Profile
from roofsmith.domain.workload import Workload
from roofsmith.profilers import rocprof
from roofsmith.profilers.launches import profile_of
from roofsmith.profilers.rocprof import COUNTER_GROUPS, RocprofProfiler
from roofsmith.profilers.rocprof_att import counters, find, group, hotspots, parse_att_stats
from roofsmith.profilers.rocprof_output import parse_agents, parse_counters, parse_kernel_trace
from roofsmith.profilers.vocabulary import vocabulary

WORKLOAD = Workload(dims={"N": 8})
AGENTS = parse_agents((GOLDEN / "rocprofv3_agent_info_mi300x.csv").read_text())


def golden(name: str) -> str:
    return (GOLDEN / f"rocprofv3_kernel_trace_{name}.csv").read_text()


def test_the_recorded_agent() -> None:
    (agent,) = AGENTS
    assert (agent.node, agent.architecture, agent.compute_units) == (2, "gfx942", 304)


def test_the_recorded_trace_of_an_mi300x() -> None:
    launches = parse_kernel_trace(golden("mi300x"), AGENTS)
    assert len(launches) == 5
    profile = profile_of("rocprofv3", "N=8", launches)
    assert profile.kernel == "_kernel_solve_body_tiled_wc_amdgpu_c530_0_kernel_0_range_for"
    expected = {
        "duration_s": 3.555319e-3,
        "registers_per_thread": 128,
        "accumulation_registers": 160,
        "scalar_registers": 112,
        "shared_bytes_per_block": 8192,
        "scratch_bytes_per_thread": 352,
        "block_size": 64,
        "grid_size": 1024,
        "threads": 65_536,
        "sm_count": 304,
        # 288 of 512 registers: one wave per SIMD, whatever the rest allows
        "block_limit_registers": 4,
        "block_limit_scalar_registers": 28,
        "block_limit_shared": 8,
        "block_limit_warps": 32,
        "theoretical_occupancy": 1 / 8,
        "waves_per_sm": 1024 / (4 * 304),
    }
    assert {name: profile.get(name) for name in expected} == pytest.approx(expected)


def test_an_architecture_without_rules_is_named() -> None:
    unknown = [replace(agent, architecture="gfx1100") for agent in AGENTS]
    profile = profile_of("rocprofv3", "N=8", parse_kernel_trace(golden("mi300x"), unknown))
    assert profile.get("theoretical_occupancy") is None
    assert "occupancy not known: no rules for gfx1100" in profile.notes


def test_the_generation_before_registers_were_traced() -> None:
    profile = profile_of("rocprofv3", "N=8", parse_kernel_trace(golden("before_1_1"), AGENTS))
    assert profile.kernel == "taylor_base"
    assert profile.get("scratch_bytes_per_thread") == 1024
    assert profile.get("shared_bytes_per_block") == 0
    assert profile.get("grid_size") == 390_625
    for name in ("registers_per_thread", "scalar_registers", "theoretical_occupancy"):
        assert profile.get(name) is None


def test_the_export_of_the_rocpd_database() -> None:
    profile = profile_of("rocprofv3", "N=8", parse_kernel_trace(golden("rocpd_export")))
    assert profile.kernel == "__omp_offloading_30_57b9f__QMnorm_modPnorm_l23"
    assert profile.get("registers_per_thread") == 16
    assert profile.get("shared_bytes_per_block") == 8456
    assert profile.get("theoretical_occupancy") is None  # no agent, so no architecture
    assert profile.get("kernels_per_call") == 2


@given(st.text(max_size=300))
def test_any_text_is_parsed_without_an_error(text: str) -> None:
    for recorded in (golden("mi300x"), ""):
        parse_kernel_trace(recorded + text, AGENTS)
        parse_counters(recorded + text, "k")
        parse_agents(recorded + text)
    parse_att_stats(text)
    group(text)


@given(st.lists(st.floats() | st.integers(-9, 2000), min_size=13, max_size=13))
def test_any_numbers_make_a_profile(numbers: list[float]) -> None:
    header = golden("mi300x").splitlines()[0].replace('"', "")
    row = f"KERNEL_DISPATCH,Agent 2,1,0,7,1,1,k,1,{','.join(map(str, numbers))}"
    if launches := parse_kernel_trace(f"{header}\n{row}\n{row}\n", AGENTS):
        profile_of("rocprofv3", "N=8", launches)


# Counters ----------------------------------------------------------------------------------------

COLUMNS = (
    "Correlation_Id", "Dispatch_Id", "Agent_Id", "Queue_Id", "Process_Id", "Thread_Id",
    "Grid_Size", "Kernel_Id", "Kernel_Name", "Workgroup_Size", "LDS_Block_Size", "Scratch_Size",
    "VGPR_Count", "Accum_VGPR_Count", "SGPR_Count", "Counter_Name", "Counter_Value",
    "Start_Timestamp", "End_Timestamp",
)  # fmt: skip
"""As AMD's documentation of rocprofv3 prints them."""


def collection(*rows: tuple[str, str, object, int]) -> str:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    for place, (kernel, counter, value, begin) in enumerate(rows, 1):
        writer.writerow([place, place, "Agent 2", 1, 7, 7, 512, 3, kernel, 64, 0, 0, 8, 0, 16,
                         counter, value, begin, begin + 1000])  # fmt: skip
    return text.getvalue()


def test_counters_come_to_our_units() -> None:
    text = collection(
        ("k(int)", "FETCH_SIZE", 2.5, 0), ("k(int)", "L2CacheHit", 80.0, 0),
        ("k(int)", "SQ_WAVE_CYCLES", 1000, 0), ("k(int)", "SQ_WAIT_ANY", 250, 0),
        ("k(int)", "VALUUtilization", "nan", 0), ("other(int)", "FETCH_SIZE", 9e9, 0),
    )  # fmt: skip
    found = vocabulary().complete(vocabulary().read("rocprofv3", parse_counters(text, "k")))
    values = {counter.name: counter.value for counter in found}
    assert values["dram_bytes_read"] == 2560
    assert values["l2_hit_rate"] == 0.8
    assert values["wave_cycles"] == 4000  # the counter is in quad-cycles
    assert values["stall_wait_share_of_waves"] == 0.25
    assert "active_lanes" not in values


def test_dispatches_of_the_first_call_do_not_count() -> None:
    rows = [("k", "MfmaUtil", 0.0, 10), ("k", "MfmaUtil", 40.0, 2_000), ("k", "MfmaUtil", 44, 3000)]
    assert parse_counters(collection(*rows), "k", since_ns=1000) == {"MfmaUtil": 42.0}
    assert parse_counters(collection(*rows), "k", since_ns=10**9) == {"MfmaUtil": 40.0}


# Thread trace ------------------------------------------------------------------------------------

STATS = """CodeObj,Vaddr,Instruction,Hitcount,Latency,Stall,Idle,Source
11,5880,"; _Z4gemmPf",0,0,0,0,"gemm(float*)"
11,5888,"s_load_dwordx4 s[40:43], s[0:1], 0x18",48,276,96,48,"gemm.hip:39"
11,5900,"global_load_dwordx4 v[0:3], v[4:5], off",48,300,4,0,"gemm.hip:41"
11,5904,"s_waitcnt vmcnt(0)",48,900,600,0,"gemm.hip:42"
11,5908,"ds_read_b128 v[0:3], v9",48,200,0,0,"gemm.hip:43"
11,5912,"s_waitcnt lgkmcnt(0)",48,300,200,0,"gemm.hip:44"
11,5914,"s_waitcnt vmcnt(3) lgkmcnt(0)",48,100,50,0,"gemm.hip:44"
11,5916,"s_barrier",48,120,50,12,"gemm.hip:45"
11,5920,"v_mfma_f32_32x32x8_f16 a[0:15], v[0:1], v[2:3], a[0:15]",48,400,0,140,""
11,5924,"s_endpgm",48,4,0,0,"gemm.hip:50"
11,6000,"; _Z4initPf",0,0,0,0,"init(float*)"
11,6008,"v_mov_b32 v0, 0",8,8,2,0,"gemm.hip:9"
"""


def test_stalls_by_instruction_group() -> None:
    kernels = parse_att_stats(STATS)
    assert [kernel.name for kernel in kernels] == ["gemm", "init"]
    gemm = find(kernels, "gemm")
    assert gemm is not None
    shares = {counter.name: counter.value for counter in counters(gemm)}
    assert shares["stall_vmcnt_share"] == 0.6
    assert shares["stall_lgkmcnt_share"] == 0.2
    assert shares["stall_waitcnt_share"] == 0.05
    assert shares["stall_barrier_share"] == 0.05
    assert shares["stall_smem_share"] == pytest.approx(0.096)
    assert shares["stall_mfma_share"] == 0
    assert shares["trace_idle_share"] == pytest.approx(200 / 2800)
    assert sum(v for n, v in shares.items() if n.startswith("stall")) == pytest.approx(1)


def test_hotspots_have_their_source_lines() -> None:
    gemm = find(parse_att_stats(STATS), "gemm")
    assert gemm is not None
    worst = hotspots(gemm)
    assert (worst[0].source, worst[0].stall_share, worst[0].hits) == ("gemm.hip:42", 0.6, 48)
    assert worst[0].instruction == "s_waitcnt vmcnt(0)"
    assert [spot.instruction[:6] for spot in worst if not spot.stall_share] == ["v_mfma"]
    assert worst[-1].idle_share == pytest.approx(0.7)
    shares = {counter.name: counter.value for counter in counters(gemm)}
    assert (shares["idle_mfma_share"], shares["idle_valu_share"]) == (pytest.approx(0.7), 0)


@pytest.mark.parametrize(
    ("instruction", "named"),
    [("s_waitcnt vmcnt(0)", "vmcnt"), ("s_waitcnt lgkmcnt(0)", "lgkmcnt"), ("s_nop 0", "salu"),
     ("v_mfma_f32_4x4x1f32", "mfma"), ("v_fma_f32", "valu"), ("ds_write_b32", "lds"),
     ("buffer_load_dword", "vmem"), ("s_load_dword", "smem"), ("s_barrier", "barrier"),
     ("s_wait_loadcnt 0x0", "vmcnt"), ("s_waitcnt_vscnt null, 0x0", "vmcnt"), ("x", "other")],
)  # fmt: skip
def test_instruction_groups(instruction: str, named: str) -> None:
    assert group(instruction) == named


# rocprofv3 around a worker -----------------------------------------------------------------------

FAKE = """
begin = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
code = run()
end = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
out = Path(options[options.index("-d") + 1]) / "host"
out.mkdir(parents=True)
rows = [("tune(int)", begin, 10**9)]
for call in range(5):
    rows += [("gemm(float*)", end + call, 40_000 + call), ("init(float*)", end + call, 1_000)]
    rows += [("__amd_rocclr_fillBufferAligned", end + call, 2_000)]
if "--kernel-trace" in options:
    (out / "7_agent_info.csv").write_text(Path(AGENTS).read_text())
    lines = ["Kind,Agent_Id,Kernel_Name,Start_Timestamp,End_Timestamp,LDS_Block_Size,Scratch_Size,"
             "VGPR_Count,Accum_VGPR_Count,SGPR_Count,Workgroup_Size_X,Workgroup_Size_Y,"
             "Workgroup_Size_Z,Grid_Size_X,Grid_Size_Y,Grid_Size_Z"]
    for name, at, took in rows:
        lines.append(f'KERNEL_DISPATCH,"Agent 2","{name}",{at},{at + took},0,0,64,0,32,256,1,1,'
                     "65536,1,1")
    (out / "7_kernel_trace.csv").write_text("\\n".join(lines))
elif "--att" in options:
    (out / "stats_ui_output_agent_2_dispatch_1.csv").write_text(STATS)
elif "FETCH_SIZE" in options:
    sys.exit("error: these counters can't be collected together")
else:
    names = options[options.index("--pmc") + 1 : options.index("--output-format")]
    lines = ["Dispatch_Id,Kernel_Name,Counter_Name,Counter_Value,Start_Timestamp,End_Timestamp"]
    for counter in names:
        for name, at, took in rows:
            lines.append(f'1,"{name}",{counter},50,{at},{at + took}')
    (out / "7_counter_collection.csv").write_text("\\n".join(lines))
"""


def under(folder: Path, body: str, decoder: Path | None = None) -> Profile:
    text = body.replace("STATS", repr(STATS)).replace(
        "AGENTS", repr(str(GOLDEN / "rocprofv3_agent_info_mi300x.csv"))
    )
    program = stand_in(folder, "rocprofv3", text)
    return RocprofProfiler(
        ProcessRunner(), OneArray(), find_rocprof=lambda: program, find_decoder=lambda: decoder
    ).profile(small_library(folder), WORKLOAD)


@pytest.mark.rule("profilers")
def test_a_profile_from_workers_under_rocprofv3(tmp_path: Path) -> None:
    found = under(tmp_path, FAKE, decoder=Path("/opt/rocm/lib"))
    assert (found.tool, found.kernel) == ("rocprofv3", "gemm"), found.notes
    assert found.get("kernel_time_s") == pytest.approx(41.002e-6)
    assert found.get("kernels_per_call") == 2
    assert found.get("theoretical_occupancy") == 1.0
    assert found.get("tensor_pipe") == 0.5
    assert found.get("stall_vmcnt_share") == 0.6
    assert found.get("dram_bytes_read") is None
    assert found.hotspots[0].source == "gemm.hip:42"
    assert any("not counted: FETCH_SIZE, VALUBusy" in note for note in found.notes)
    assert any("5 fills and copies of the HIP runtime" in note for note in found.notes)
    starts = seen(tmp_path)
    assert len(starts) == 2 + len(COUNTER_GROUPS)
    assert starts[0][:3] == ["--kernel-trace", "--output-format", "csv"]
    assert starts[-1][:3] == ["--att", "--att-library-path", "/opt/rocm/lib"]
    assert starts[-1][4] == "gemm"


def test_without_the_decoder_there_is_no_thread_trace(tmp_path: Path) -> None:
    found = under(tmp_path, FAKE)
    assert found.get("stall_vmcnt_share") is None
    assert found.hotspots == ()
    assert any("librocprof-trace-decoder.so isn't installed" in note for note in found.notes)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("run()", "saw no kernel dispatch, or wrote no kernel trace"),
        ("sys.exit(1)", "did not survive rocprofv3"),
    ],
)
def test_a_failure_of_rocprofv3_is_a_note(tmp_path: Path, body: str, said: str) -> None:
    found = under(tmp_path, body)
    assert found.tool == "none"
    assert any(said in note for note in found.notes), found.notes


def test_rocprofv3_is_looked_for_on_path_and_in_rocm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setenv("ROCM_PATH", str(tmp_path))
    (tmp_path / "bin").mkdir()
    program = stand_in(tmp_path / "bin", "rocprofv3", "pass")
    assert rocprof.find_rocprof() == program
    assert rocprof.find_decoder() is None
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "librocprof-trace-decoder.so").touch()
    assert rocprof.find_decoder() == tmp_path / "lib"
