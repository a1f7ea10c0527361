"""What is worth the work in a program, and why all else isn't."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from roofsmith.analysis.program_plan import library_of, planned
from roofsmith.cli import main as _main  # noqa: F401 - registers every command
from roofsmith.cli.root import cli
from roofsmith.domain.facts import Citation, Fact
from roofsmith.domain.profile import Counter, ProfiledKernel
from roofsmith.domain.program import TracedProgram

RECORDED = Path(__file__).parents[1] / "golden" / "gpu"
RATE = Fact(metric="bandwidth", value=1e12, unit="byte/s", citation=Citation(path="wiki/x.yaml"))


def kernel(name: str, time_s: float, whole_s: float = 1.0, **more: object) -> ProfiledKernel:
    given = {"launches": 1, "time_s": time_s, "busy_s": time_s, "share": time_s / whole_s, **more}
    return ProfiledKernel.model_validate({"name": name, **given})


def program(*kernels: ProfiledKernel, span_s: float | None = None) -> TracedProgram:
    return TracedProgram(tool="nsys", kernels=kernels, span_s=span_s)


def test_amdahl_bounds_what_a_kernel_could_gain() -> None:
    half, rest = kernel("half", 0.5), kernel("rest", 0.5)
    (first, _) = planned(program(half, rest)).prospects
    assert first.most_speedup == pytest.approx(2)
    (first, _) = planned(program(half, rest, span_s=2.0)).prospects
    assert first.most_speedup == pytest.approx(4 / 3)  # GPUs were idle for half of the run
    (only,) = planned(program(kernel("only", 1.0))).prospects
    assert only.most_speedup is None


def test_what_can_save_next_to_nothing_is_no_work() -> None:
    (only,) = planned(program(kernel("only", 1.0), span_s=1000.0)).prospects
    assert only.dropped is not None
    assert planned(program(kernel("only", 1.0), span_s=100.0)).prospects[0].dropped is None


def test_share_times_headroom_ranks() -> None:
    near = kernel("near", 0.6, least_bytes=0.5e12)
    far = kernel("far", 0.4, least_bytes=0.1e12)
    found = planned(program(near, far), RATE).prospects
    assert [one.kernel.name for one in found] == ["far", "near"]
    assert found[0].fraction == pytest.approx(0.25)
    assert found[0].most_speedup == pytest.approx(1 / (1 - 0.4 * 0.75))


def test_every_other_kernel_has_a_reason() -> None:
    counted = (
        Counter(name="dram_throughput", value=0.93, unit="fraction"),
        Counter(name="sm_throughput", value=0.4, unit="fraction"),
    )
    found = planned(
        program(
            kernel("mine", 0.3),
            kernel("Memcpy HtoD", 0.2, is_copy=True),
            kernel("volta_sgemm_64x64_nt", 0.2),
            kernel("copy_rows", 0.15, least_bytes=0.14e12),
            kernel("scale", 0.145, counters=counted),
            kernel("tiny", 0.005),
        ),
        RATE,
    ).prospects
    reasons = {one.kernel.name: one.dropped for one in found}
    assert reasons.pop("mine") is None
    words = {"Memcpy HtoD": "copies", "volta_sgemm_64x64_nt": "cuBLAS", "copy_rows": "roofline",
             "scale": "roofline", "tiny": "below"}  # fmt: skip
    assert all(word in (reasons[name] or "") for name, word in words.items())


def test_a_kernel_faster_than_its_bytes_allow_has_no_known_headroom() -> None:
    (cached,) = planned(program(kernel("cached", 1.0, least_bytes=2e12)), RATE).prospects
    assert (cached.fraction, cached.dropped) == (None, None)


@pytest.mark.parametrize(
    ("name", "library"),
    [
        ("ncclKernel_AllReduce_RING_LL_Sum_float", "NCCL or RCCL"),
        ("cudnn::bn_bw_1C11_kernel_new<float, float, float2, 128>", "cuDNN"),
        ("cudnn_infer_volta_scudnn_128x64_relu_small_nn_v1", "cuDNN"),
        ("sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc", "cuDNN"),
        ("sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize32x32x64", "cuBLAS"),
        ("ampere_sgemm_32x32_sliced1x4_tn", "cuBLAS"),
        ("ampere_fp16_s1688gemm_fp16_64x128_sliced1x2_ldg8_f2f_tn", "cuBLAS"),
        ("nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_NNT", "cuBLAS"),
        ("cutlass::Kernel<cutlass_80_tensorop_s1688gemm_256x64_16x4_tn>", "cuBLAS or CUTLASS"),
        ("Cijk_Ailk_Bljk_SB_MT128x128x16_MI32x32x2x1_SN", "rocBLAS or hipBLASLt"),
        ("MIOpenBatchNormBwdSpatial", "MIOpen"),
        ("pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64>>", "FlashAttention"),
    ],
)
def test_a_librarys_kernel_is_known_by_its_name(name: str, library: str) -> None:
    assert library_of(name) == library


@pytest.mark.parametrize(
    "name",
    [
        "softmax_rows", "gemm_fp64_kernel", "my_gemm", "flash_attention_prefill_f16",
        "at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>",
        "triton_poi_fused_add_cos_sin_0", "void_batched_norm", "sgemm_tiled", "matmul_kernel",
        "cutlass::Kernel2<MyGemm>", "attention_cuda",
    ],
)  # fmt: skip
def test_a_programs_own_kernel_is_no_librarys(name: str) -> None:
    assert library_of(name) is None


def run(*words: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(cli, words, env={"COLUMNS": "200"})
    return done.exit_code, done.stdout, done.stderr


def test_plan_cites_the_ceiling_and_says_what_to_type() -> None:
    trace = str(RECORDED / "torch_trace_v100.json.gz")
    code, out, _ = run("plan", trace, "--json")
    found = json.loads(out)
    assert code == 0
    assert "nvidia-v100-sxm2.yaml" in found["ceiling"]
    kept = [one for one in found["prospects"] if one["dropped"] is None]
    assert kept
    assert all(one["next"].startswith("roofsmith init ") for one in kept)
    assert not any(one["next"] for one in found["prospects"] if one["dropped"])
    code, out, _ = run("kernel", "plan", trace)
    assert code == 0
    assert "cuDNN" in out


def test_plan_finds_a_kernel_in_the_programs_sources(tmp_path: Path) -> None:
    trace, sources = tmp_path / "k_kernel_stats.csv", tmp_path / "repository"
    trace.write_text(
        "Name,Calls,TotalDurationNs,AverageNs,Percentage\n"
        '"void ops::rows<4>(float*)",1,500,500,50\n_Z6columnPf,1,300,300,30\ntile,1,200,200,20\n'
    )
    (sources / "src").mkdir(parents=True)
    (sources / "src" / "a.cu").write_text(
        "template <int N> __global__ void __launch_bounds__(256)\nrows(float* x) {}\n"
        'extern "C" __global__ void column(float* x) {}\nvoid f() { tile(1); }\n'
    )
    (sources / "b.py").write_text("@triton.jit\ndef tile(x):\n    pass\n")
    code, out, _ = run("plan", str(trace), "--in", str(sources), "--json")
    assert code == 0
    where = [one["next"].split("--editable ")[1].split()[0] for one in json.loads(out)["prospects"]]
    assert where == ["src/a.cu", "src/a.cu", "b.py"]


@pytest.mark.parametrize("words", [(), ("--platform", "no such product"), ("--in", "/nowhere")])
def test_plan_ends_with_2_where_its_input_is_wrong(tmp_path: Path, words: tuple[str, ...]) -> None:
    good = RECORDED / "torch_trace_v100.json.gz"
    code, out, _ = run("plan", str(good if words else tmp_path / "none.json"), *words, "--json")
    assert code == 2
    assert json.loads(out)["error"]["hint"]


def fake_profiler(folder: Path) -> Path:
    """A program called like AMD's that leaves what that would."""
    program = folder / "rocprofv3"
    kinds = ("kernel_trace", "agent_info")
    copies = (f"cp {RECORDED}/rocprofv3_{kind}_mi300x.csv 1_{kind}.csv" for kind in kinds)
    program.write_text("\n".join(("#!/bin/sh", *copies, "exit ${1:-0}\n")))
    program.chmod(0o755)
    return program


def test_trace_analysis_shows_what_each_kernel_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    program = fake_profiler(tmp_path)
    (tmp_path / "old_kernel_stats.csv").write_text("Name,Calls,TotalDurationNs\nold,1,9\n")
    code, out, _ = run("trace-analysis", "--", str(program))
    assert code == 0
    assert "128 + 160 accumulation, 112 scalar" in out
    assert "by accumulation registers" in out
    assert "old" not in out
    code, _, said = run("trace-analysis", "--", str(program), "3")
    assert code == 2
    assert "exited with 3" in said


def test_trace_analysis_makes_do_with_ncu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    program = tmp_path / "ncu"
    page = RECORDED / "ncu_set_full_page_raw_softmax_h100.csv"
    program.write_text(
        "#!/bin/sh\nwhile [ $1 != --log-file ]; do shift; done\n"
        f"cp {page} $2 && shift 2 && exec $@\n"
    )
    program.chmod(0o755)
    monkeypatch.setattr("roofsmith.profilers.left_behind.find_rocprof", lambda: None)
    only = {"ncu": program}
    monkeypatch.setattr("roofsmith.profilers.left_behind.find_program", only.get)
    code, out, _ = run("trace-analysis", "--", "true")
    assert code == 0
    assert "softmax_v3" in out
    assert run("trace-analysis", "--", "false")[0] == 2


@pytest.mark.parametrize("command", [("true",), ("sh", "-c", "true # rocprofv3")])
def test_trace_analysis_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("roofsmith.profilers.left_behind.find_rocprof", lambda: None)
    monkeypatch.setattr("roofsmith.profilers.left_behind.find_program", lambda _: None)
    code, out, _ = run("trace-analysis", "--json", "--", *command)
    assert code == 2
    assert json.loads(out)["error"]["hint"]


def test_what_a_trace_says_steers_no_terminal(tmp_path: Path) -> None:
    operator = {"name": "aten::x\n; rm -rf ~ \x1b[31m", "cat": "cpu_op", "args": {"External id": 1}}
    kernel_ = {"name": "at::native::a\x1b[2J\n$(id)", "cat": "kernel", "args": {"External id": 1}}
    events = [{"ph": "X", "ts": 1, "dur": 1, **one} for one in (operator, kernel_)]
    (tmp_path / "t.json").write_text(json.dumps({"traceEvents": events}))
    code, out, _ = run("plan", str(tmp_path / "t.json"))
    assert code == 0
    assert "\x1b" not in out
    assert not any(line.startswith(("; rm", "$(id)")) for line in out.splitlines())
