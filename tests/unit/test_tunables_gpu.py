"""Settings of GPU launches: what is found, what changes together, what is never built."""

from __future__ import annotations

import ast
import itertools
import shutil
import subprocess
from pathlib import Path

import pytest

from roofsmith.domain.kernel import Candidate, Language, SourceFile, default_build
from roofsmith.proposers.tunables import Tunable, apply, find_tunables

EXAMPLES = Path(__file__).parents[2] / "examples"

ELEMENTWISE = """\
import triton
import triton.language as tl

@triton.jit
def _kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask=offs < n), mask=offs < n)

def run_kernel(**kwargs):
    n = int(kwargs["n"])
    grid = lambda meta: (triton.cdiv(n, meta["BLOCK"]),)
    _kernel[grid](kwargs["x"], kwargs["out"], n, BLOCK=256)
"""
GEMM_KERNEL = """\
import torch, triton
from triton import language as tl

@triton.jit
def gemm(A, B, C, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr = 32):
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        total += tl.dot(tl.load(A + tl.arange(0, BK)), tl.load(B + tl.arange(0, BK)))
"""
AUTOTUNED = """\
import triton
import triton.language as tl

CONFIGS = [
    triton.Config({"BLOCK": b, "GROUP": 8}, num_warps=w) for b in (64, 128) for w in [4, 8]
]

@triton.autotune(configs=CONFIGS, key=["n"])
@triton.jit
def _kernel(x, n, BLOCK: tl.constexpr, GROUP: tl.constexpr):
    tl.store(x + tl.arange(0, BLOCK), 0)

def run_kernel(x, n):
    _kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](
        x,
        n,
    )
"""
SEED_CUDA = """\
__global__ void kernel(const float* in0, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in0[i];
}
extern "C" void solve(float* in0, float* out, int n) {
    int threads = 256;
    int blocks = (n + threads - 1) / threads;
    kernel<<<blocks, threads>>>(in0, out, n);
    cudaDeviceSynchronize();
}
"""
LITERALS = """\
#define CEIL_DIV(a, b) (((a) + (b) - 1) / (b))
// old<<<1, 999>>>(a);
template <int BM, int TM = 4>
__global__ void __launch_bounds__(256, 2) strided(const float* a, float* o, int n) {
  __shared__ float s[256];
  s[threadIdx.x] = BM * TM;
  #pragma unroll 4
  for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += 256 * gridDim.x) o[i] = a[i] + s[0];
}
__global__ void tile(const float* a, float* o, int n) {
  __shared__ float s[16][16 + 1];
  s[threadIdx.y][threadIdx.x] = a[(blockIdx.y * 16 + threadIdx.y) * n + blockIdx.x * 16];
  #pragma unroll 16
  for (int k = 0; k < n; k++) o[k] = s[0][0];
}
extern "C" void solve(const float* a, float* o, int n) {
    dim3 grid((n + 15) / 16, CEIL_DIV(n, 16)), block(16, 16);
    strided<64, 8><<<(n + 255) / 256, 256>>>(a, o, n);
    tile<<<grid, block, 0, 0>>>(a, o, n);
}
"""


def candidate(text: str, language: Language = "triton", *flags: str) -> Candidate:
    path = "kernel.py" if language == "triton" else "kernel.cu"
    build = default_build(language)
    return Candidate(
        language=language,
        sources=(SourceFile(path=path, text=text),),
        build=build.model_copy(update={"flags": (*build.flags, *flags)}),
    )


def source_tunables(one: Candidate) -> dict[str, Tunable]:
    found = find_tunables(one, threads=2)
    return {t.name: t for t in found.tunables if t.group != "build"}


class TestTriton:
    def test_a_block_and_the_warps_that_nobody_named(self) -> None:
        found = source_tunables(candidate(ELEMENTWISE))
        assert found["BLOCK"].choices == (64, 128, 256, 512, 1024, 2048)
        assert found["num_warps@12"].current == 4
        assert len(found) == 2  # without a loop there is nothing to pipeline
        changed = apply(candidate(ELEMENTWISE), {"BLOCK": 1024, "num_warps@12": 8})
        assert "n, BLOCK=1024, num_warps=8)" in changed.kernel.text
        assert source_tunables(changed)["num_warps@12"].current == 8

    def test_options_go_behind_brackets_and_what_the_host_computes(self) -> None:
        one = candidate(ELEMENTWISE.replace("n, BLOCK=256", "n, BLOCK=(256\n        # all\n    )"))
        assert "all\n    ), num_warps=8)" in apply(one, {"num_warps@12": 8}).kernel.text
        one = candidate(ELEMENTWISE.replace("=256)", "=256, num_warps=4 if n < 99 else 8)"))
        found = source_tunables(one)["num_warps@12"]
        assert found.choices == ("4 if n < 99 else 8", 1, 2, 4, 8, 16)
        assert "=256, num_warps=2)" in apply(one, {"num_warps@12": 2}).kernel.text

    def test_an_attribute_that_is_set_once_is_a_setting(self) -> None:
        model = "class Model:\n    def __init__(self):\n        self.block = 256\n\n"
        one = candidate(model + ELEMENTWISE.replace("BLOCK=256", "BLOCK=self.block"))
        assert "self.block = 64" in apply(one, {"block": 64}).kernel.text
        again = candidate(one.kernel.text + "    self.block = 512\n")
        assert "block" not in source_tunables(again)

    @pytest.mark.parametrize(
        ("launch", "written"),
        [
            (
                "    BM, BN = 64, 32\n    num_warps = 8\n"
                "    grid = (triton.cdiv(M, BM), triton.cdiv(N, BN))\n"
                "    gemm[grid](A, B, C, M, N, K, BM, BN=BN, num_warps=num_warps)\n",
                {"BM": "BM, BN = 128, 32", "BN": "BM, BN = 64, 128", "num_warps": "num_warps = 16"},
            ),
            (
                "    gemm[(triton.cdiv(M, 64), (N + 15) // 16)](A, B, C, M, N, K, BM=64, BN=16)\n",
                {
                    "BM": "cdiv(M, 128), (N + 15) // 16)](A, B, C, M, N, K, BM=128, BN=16",
                    "BN": "cdiv(M, 64), (N + 127) // 128)](A, B, C, M, N, K, BM=64, BN=128",
                    "BK": "BK: tl.constexpr = 128",
                },
            ),
        ],
    )  # fmt: skip
    def test_a_grid_changes_with_its_block(self, launch: str, written: dict[str, str]) -> None:
        one = candidate(f"{GEMM_KERNEL}\ndef run_kernel(A, B, C, M, N, K):\n{launch}")
        found = source_tunables(one)
        for name, text in written.items():
            setting = 16 if name == "num_warps" else 128
            assert setting in found[name].choices
            assert text in apply(one, {name: setting}).kernel.text

    def test_one_number_in_one_grid_is_one_setting(self) -> None:
        launch = "    gemm[(M // 64, N // 64)](A, B, C, M, N, K, BM=64, BN=64, BK=64)\n"
        one = candidate(f"{GEMM_KERNEL}\ndef run_kernel(A, B, C, M, N, K):\n{launch}")
        found = [t for t in source_tunables(one).values() if t.kind == "constant"]
        changed = apply(one, {found[0].name: 32}).kernel.text
        assert len(found) == 1
        assert "(M // 32, N // 32)](A, B, C, M, N, K, BM=32, BN=32, BK=32)" in changed

    def test_what_autotune_chooses_from_becomes_constants(self) -> None:
        one = candidate(AUTOTUNED)
        found = source_tunables(one)
        assert {t.current for t in found.values()} == {"autotuned"}
        assert found["BLOCK:_kernel"].choices == ("autotuned", 64, 128)
        changed = apply(one, {"BLOCK:_kernel": 128}).kernel.text
        assert "@triton.autotune" not in changed
        assert "n, BLOCK=128, GROUP=8, num_warps=4, num_stages=3,\n    )" in changed
        ast.parse(changed)

    @pytest.mark.parametrize(
        "text",
        [
            ELEMENTWISE.replace("triton", "numba.cuda").replace("tl.constexpr", "int"),
            ELEMENTWISE.replace("BLOCK=256", "BLOCK=triton.next_power_of_2(n), **options"),
            ELEMENTWISE.replace("BLOCK=256", "BLOCK=triton.next_power_of_2(n), **{}").replace(
                "_kernel[grid]", "_kernel[4]"
            ),
            AUTOTUNED.replace("num_warps=w)", "num_warps=w, pre_hook=zero)"),
            AUTOTUNED.replace("(64, 128)", "sizes()"),
        ],
    )
    def test_what_is_not_understood_is_left_alone(self, text: str) -> None:
        assert not source_tunables(candidate(text))

    def test_a_filtered_list_of_pairs_is_read(self) -> None:
        told = AUTOTUNED.replace("configs=CONFIGS", "configs=list(filter(keep, CONFIGS))")
        pairs = told.replace('"GROUP": 8', '"GROUP": g').replace(
            "for b in (64, 128)", "for b, g in [(64, 8), (128, 4)]"
        )
        found = source_tunables(candidate(pairs))
        assert found["BLOCK:_kernel"].choices == ("autotuned", 64, 128)
        assert found["GROUP:_kernel"].choices == ("autotuned", 4, 8)

    def test_a_list_that_a_function_returns_is_read_and_endless_ones_are_not(self) -> None:
        told = AUTOTUNED.replace("CONFIGS = [", "def told():\n  return [", 1)
        assert source_tunables(candidate(told.replace("configs=CONFIGS", "configs=told()")))
        for endless in ("CONFIGS = CONFIGS + CONFIGS", "def CONFIGS(): return CONFIGS()"):
            text = AUTOTUNED.replace("CONFIGS = [", f"{endless}\nOTHERS = [", 1)
            text = text.replace("configs=CONFIGS", "configs=CONFIGS()")
            assert not source_tunables(candidate(text))


class TestCuda:
    def test_a_variable_that_a_launch_takes_its_threads_from(self) -> None:
        found = source_tunables(candidate(SEED_CUDA, "cuda"))
        assert found["threads"].choices == (64, 128, 256, 512, 1024)
        again = SEED_CUDA.replace("kernel<<<", "threads *= 2;\n    kernel<<<")
        assert not source_tunables(candidate(again, "cuda"))

    def test_a_literal_changes_wherever_it_is_the_thread_count(self) -> None:
        one = candidate(LITERALS, "cuda")
        assert set(source_tunables(one)) == {
            "min_blocks", "threads", "block.x", "BM", "TM", "unroll@7", "unroll@13",
        }  # fmt: skip
        changed = apply(one, {"threads": 512, "block.x": 32, "TM": 4, "unroll@13": 8}).kernel.text
        for text in (
            "__launch_bounds__(512, 2)", "s[512]", "blockIdx.x * 512", "i += 512",
            "strided<64, 4><<<(n + 511) / 512, 512>>>", "s[32][32 + 1]", "#pragma unroll 8\n",
            "grid((n + 31) / 32, CEIL_DIV(n, 32)), block(32, 32)", "old<<<1, 999>>>",
        ):  # fmt: skip
            assert text in changed

    def test_shared_bytes_change_with_the_threads(self) -> None:
        launch = "kernel<<<(n + 255) / 256, 256, 256 * sizeof(float)>>>"
        one = candidate(SEED_CUDA.replace("kernel<<<blocks, threads>>>", launch), "cuda")
        changed = apply(one, {"threads": 512}).kernel.text
        assert "(n + 511) / 512, 512, 512 * sizeof(float)" in changed

    def test_hip_launches_and_constants_at_launches(self) -> None:
        hip = SEED_CUDA.replace(
            "kernel<<<blocks, threads>>>(",
            "hipLaunchKernelGGL(kernel, dim3(blocks), dim3(threads), 0, 0, ",
        )
        assert "threads" in source_tunables(candidate(hip, "hip"))
        named = "constexpr int SIDE = 16;\n" + SEED_CUDA.replace(
            "kernel<<<blocks, threads>>>",
            "dim3 block(SIDE, SIDE);\n    kernel<<<n / SIDE, block>>>",
        )
        assert set(source_tunables(candidate(named, "cuda"))) == {"SIDE"}

    @pytest.mark.parametrize(
        "launch", ["kernel<<<n >> 8, 256>>>", "kernel<<<n / 32, 32>>>", "kernel<<<n, sizes(n)>>>"]
    )
    def test_counts_that_mean_something_else_are_left_alone(self, launch: str) -> None:
        text = SEED_CUDA.replace("kernel<<<blocks, threads>>>", launch)
        assert not source_tunables(candidate(text, "cuda"))

    def test_registers_are_a_flag_of_nvcc(self) -> None:
        one = candidate(SEED_CUDA, "cuda", "-maxrregcount=64")
        (tunable,) = find_tunables(one, threads=2).of("build")
        assert tunable.current == "64"
        flags = apply(one, {tunable.name: "128"}).build.flags
        assert "-maxrregcount=128" in flags
        assert "-maxrregcount=64" not in flags


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*/*/kernel.*"), key=str))
def test_every_point_of_the_examples_still_reads(example: Path) -> None:
    language: Language = "triton" if example.suffix == ".py" else "cuda"
    one = candidate(example.read_text(), language)
    tunables = list(source_tunables(one).values())
    assert tunables
    for point in itertools.islice(itertools.product(*(t.choices for t in tunables)), 64):
        names = [t.name for t in tunables]
        changed = apply(one, dict(zip(names, point, strict=True)))
        assert (
            find_tunables(changed, threads=2).current.items()
            >= dict(zip(names, point, strict=True)).items()
        )
        if language == "triton":
            ast.parse(changed.kernel.text)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
def test_nvcc_takes_what_fits(tmp_path: Path) -> None:
    one = candidate(LITERALS, "cuda")
    changed = apply(one, {"threads": 512, "block.x": 32, "min_blocks": 4, "-maxrregcount": "64"})
    (tmp_path / "kernel.cu").write_text(changed.kernel.text)
    command = ["nvcc", "-arch=sm_90", "-cubin", *changed.build.flags, "kernel.cu"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
