"""Cards for CUDA: they find the kernels that are launched, and what they write compiles."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda_card_kernels import DIMS, KERNELS, ODD
from cuda_on_host import compile_on_host
from recipe_bench import needs_gcc

from roofsmith.domain.device import Device
from roofsmith.domain.kernel import Candidate, Language, Parameter, Signature, SourceFile
from roofsmith.domain.profile import Bottleneck, Profile
from roofsmith.profilers.vocabulary import vocabulary
from roofsmith.proposers.cards import Card, CardChange, CardContext, all_cards
from roofsmith.proposers.recipes.cuda._kernels import CudaFile

CARDS = {card.id: card for card in all_cards() if "cuda" in card.languages and not card.families}
needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")


def context_of(text: str, dims: dict[str, int]) -> CardContext:
    """Of a CUDA file."""
    given = CudaFile(text, "solve").reached[0].parameters
    arrays, sizes = ([p.name for p in given if p.pointer is kind] for kind in (True, False))
    return context_for(text, "cuda", arrays, sizes, dims)


def context_for(
    text: str,
    language: Language,
    arrays: Sequence[str],
    sizes: Sequence[str],
    dims: dict[str, int] | None = None,
) -> CardContext:
    parameters = (
        *(Parameter(name=name, role="output", dtype="float32") for name in arrays),
        *(Parameter(name=name, role="size", dtype="int32") for name in sizes),
    )
    source = SourceFile(path="kernel", text=text)
    return CardContext(
        candidate=Candidate(language=language, sources=(source,)),
        signature=Signature(parameters=parameters),
        device=Device(kind="nvidia", name="a GPU", cores=132),
        threads=1,
        family=None,
        dims=(dims or {},),
        bounds=(),
        descriptions={},
        profile=Profile(tool="none", workload="w"),
        bottleneck=Bottleneck(
            kind="memory", confidence=0.6, evidence=("a",), roofline_fraction=0.5
        ),
        times_s={},
    )


@pytest.mark.parametrize(
    "body",
    [
        "if (i < n) y[i] = x[i] * s[blockIdx.x];",
        "if (i < n) y[i] = x[i] + i;",
        "if (i < n) y[i] = x[n - i];",
        "if (i < n) y[i] = __shfl_xor_sync(~0u, x[i], 1);",
        "if (i < n) { if (x[i] < 0) return; y[i] = x[i]; }",
        "if (i < n) y[i] = x[i]; y[0] = 1.0f;",
        "int lane = threadIdx.x % 32; if (i < n) y[i] = x[i] * s[lane];",
        "int group = blockIdx.x; group += 1; if (i < n) y[i] = x[i] * s[group];",
        "if (blockIdx.x == 0) y[n] = gridDim.x; if (i < n) y[i] = x[i];",
    ],
)
def test_elements_are_taken_one_by_one_where_more_depends_on_the_thread(body: str) -> None:
    text = f"""
__global__ void k(const float* x, const float* s, float* y, int n) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    {body}
}}
extern "C" void solve(const float* x, const float* s, float* y, int n) {{
    k<<<(n + 255) / 256, 256>>>(x, s, y, n);
}}"""
    assert CARDS["vector-accesses"].apply(context_of(text, {"n": 1000})) is None
    plain = text.replace(body, "if (i < n) y[i] = x[i];")
    assert CARDS["vector-accesses"].apply(context_of(plain, {"n": 1000})) is not None


ROWS = """
template <typename T>
__device__ float sum_of_block(float v, T t) {{ __syncthreads(); return v; }}
__device__ float weight(float x) {{ return expf(x); }}
float scale(int n) {{ return 1.0f / sqrtf(n) + expf(n); }}
__global__ void k(const float* x, const float* w, float* y, int n) {{
    {rows}
}}
extern "C" void solve(const float* x, const float* w, float* y, int n) {{
    {launch}
}}"""
TURNS = "for (int j = threadIdx.x; j < n; j += blockDim.x)"
LAUNCH = "dim3 grid(n), block(128); k<<<grid /* rows, all */, block>>>(x, w, y, n);"


@pytest.mark.parametrize(
    ("rows", "offered"),
    [
        (f"{TURNS} y[j] = x[j]; {TURNS} y[j] += j % 7;", False),
        (f"{TURNS} y[j] = x[j]; __syncthreads(); {TURNS} y[j] += j % 7;", True),
        (f"float t = w[threadIdx.x]; {TURNS} y[j] = x[j] * t;", False),
        (f"float t = w[threadIdx.x]; t = w[0]; {TURNS} y[j] = x[j] * t;", True),
        (f"__shared__ float a[128]; a[threadIdx.x] = 0; {TURNS} a[threadIdx.x] += x[j];", True),
        (f"float t = sum_of_block(1.0f, threadIdx.x); {TURNS} y[j] = x[j] * t;", True),
        ("for (int j = blockIdx.x * blockDim.x + threadIdx.x; j < n; "
         "j += blockDim.x * gridDim.x) y[j] = x[j]; y[blockIdx.x] = 1.0f;", False),
    ],
)  # fmt: skip
def test_another_thread_takes_an_element_only_if_none_notices(rows: str, *, offered: bool) -> None:
    context = context_of(ROWS.format(rows=rows, launch=LAUNCH), {"n": 1000})
    assert (CARDS["vector-accesses"].apply(context) is not None) == offered


@pytest.mark.parametrize(
    ("launch", "threads"),
    [
        (LAUNCH, 128),
        ("int t = 128; if (n < 9) t = 64; k<<<n, t>>>(x, w, y, n);", None),
        ("if (n < 9) { int t = 64; k<<<n, t>>>(x, w, y, n); } "
         "else { int t = 128; k<<<n, t>>>(x, w, y, n); }", None),
        ("for (int t = 64; t < 99; t += n) k<<<n, t>>>(x, w, y, n);", None),
        ("dim3 t(64); t.y = 2; k<<<n, t>>>(x, w, y, n);", None),
        ("int t = 64, b = n / t; k<<<b, t>>>(x, w, y, n);", 64),
    ],
)  # fmt: skip
def test_threads_are_told_where_they_can_be_no_others(launch: str, threads: int | None) -> None:
    file = CudaFile(ROWS.format(rows="", launch=launch), "solve")
    assert file.threads(file.kernels[0]) == threads


def test_what_the_host_computes_stays_exact() -> None:
    rows = f"{TURNS} y[j] = weight(x[j]);"
    launch = LAUNCH.replace("dim3", "scale(n); dim3")
    change = CARDS["fast-intrinsics"].apply(context_of(ROWS.format(rows=rows, launch=launch), {}))
    assert change is not None
    assert "sqrtf(n) + expf(n)" in change.candidate.kernel.text


def test_a_template_for_several_types_has_no_vectors_and_a_flat_tile_no_padding() -> None:
    both = KERNELS["two_outputs"] + "using other = __half;"
    assert CARDS["vector-accesses"].apply(context_of(both, DIMS["two_outputs"])) is None
    tile = KERNELS["transpose"].replace("__syncthreads();", "load(&tile[0][0]); __syncthreads();")
    change = CARDS["bank-padding"].apply(context_of(tile, DIMS["transpose"]))
    assert change is None or "tile[SIDE][SIDE + 1]" not in change.candidate.kernel.text


def changed(card: str, kernel: str) -> str | None:
    change = CARDS[card].apply(context_of(KERNELS[kernel], DIMS[kernel]))
    return change.candidate.kernel.text if change is not None else None


def test_kernels_launches_and_block_sizes_are_found() -> None:
    file = CudaFile(KERNELS["rmsnorm"], "solve")
    assert [kernel.name for kernel in file.kernels] == ["squares", "apply_scale"]
    assert [file.threads(kernel) for kernel in file.kernels] == [128, 128]
    file = CudaFile(KERNELS["two_outputs"], "solve")
    assert file.launches[0].grid == "(n + threads - 1) / threads"
    assert file.threads(file.kernels[0]) == 256


def rewritten() -> dict[str, list[str]]:
    """Every kernel; what each card makes of it, and all of them one after the other."""
    found = {}
    for kernel, text in KERNELS.items():
        context = together = context_of(text, DIMS[kernel])
        texts = [text]
        for card in CARDS.values():
            change = card.apply(context)
            if change is not None:
                assert change.candidate.id != context.candidate.id
                texts.append(change.candidate.kernel.text)
            change = card.apply(together)
            if isinstance(change, CardChange):
                together = context_of(change.candidate.kernel.text, DIMS[kernel])
                assert card.apply(together) is None, f"{card.id} is never done"
        found[kernel] = list(dict.fromkeys([*texts, together.candidate.kernel.text]))
    return found


@needs_gcc
def test_what_cards_write_computes_the_same(tmp_path: Path) -> None:
    kernels = rewritten()
    texts = {f"{k}_{n}": text for k, made in kernels.items() for n, text in enumerate(made)}
    library = compile_on_host(texts, tmp_path)
    for kernel, made in kernels.items():
        for dims in (DIMS[kernel], ODD[kernel]):
            first, *others = (
                outputs_of(library[f"solve_{kernel}_{n}"], kernel, dims) for n in range(len(made))
            )
            for number, other in enumerate(others, 1):
                np.testing.assert_allclose(other, first, 2e-5, 1e-6, err_msg=made[number])


def outputs_of(solve: Any, kernel: str, dims: dict[str, int]) -> np.ndarray:
    """All arrays after a call, in one; each is as long as the largest of the kernel."""
    length = int(np.prod(list(dims.values())))
    given = CudaFile(KERNELS[kernel], "solve").reached[0].parameters
    arrays = np.random.default_rng(3).uniform(-2, 2, (len(given), length)).astype(np.float32)
    solve(
        *(
            ctypes.c_void_p(arrays[n].ctypes.data) if p.pointer else ctypes.c_int(dims[p.name])
            for n, p in enumerate(given)
        )
    )
    return arrays


@needs_nvcc
@pytest.mark.slow
def test_what_cards_write_compiles(tmp_path: Path) -> None:
    include = "#include <cuda_runtime.h>\n"
    bodies = (
        text.replace(include, "").replace('extern "C"', "")
        for made in rewritten().values()
        for text in made
    )
    spaces = (f"namespace k{number} {{{body}}}\n" for number, body in enumerate(bodies))
    path = tmp_path / "all.cu"
    path.write_text(include + "".join(spaces))
    command = ["nvcc", "-O1", "-arch=sm_90", "-cubin", "-o", os.devnull, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stderr}\n{path.read_text()}"


@pytest.mark.parametrize("card", CARDS.values(), ids=lambda card: card.id)
def test_a_card_names_a_counter_and_a_modest_gain(card: Card) -> None:
    assert card.expected_counter in vocabulary().names
    assert card.expected_change.startswith(("up", "down"))
    for kernel, text in KERNELS.items():
        assert 1.0 <= card.predict(context_of(text, DIMS[kernel])) <= 2.0


@pytest.mark.parametrize(
    ("card", "kernel", "expected"),
    [
        (
            "read-only-path",
            "softmax",
            ["const float* __restrict__ input", "float* __restrict__ output"],
        ),
        (
            "read-only-path",
            "rmsnorm",
            ["const float * __restrict__ x, float *", "const float * __restrict__ w"],
        ),
        ("read-only-path", "two_outputs", ["const T* __restrict__ b", "T* __restrict__ sum"]),
        ("read-only-path", "in_place", None),
        ("warp-shuffle-reductions", "softmax", ["fmaxf(rs_value, rs_other)", "rs_parts[8]"]),
        ("warp-shuffle-reductions", "rmsnorm", ["rs_parts[4]"]),
        ("warp-shuffle-reductions", "gelu", None),
        ("bank-padding", "transpose", ["tile[SIDE][SIDE + 1], other[SIDE][SIDE];"]),
        ("bank-padding", "rmsnorm", None),
        ("fast-intrinsics", "rmsnorm", ["= rsqrtf(s_sum[0] / h + 1e-6f)"]),
        ("fast-intrinsics", "grid_stride", ["__expf(-y[i])"]),
        ("vector-accesses", "softmax", ["reinterpret_cast<const float4*>(row)[rs_v]"]),
        ("vector-accesses", "rmsnorm", ["(x + blockIdx.x*h)[rs_v]", "(y + blockIdx.x*h)[rs_v]"]),
        ("vector-accesses", "two_outputs", ["(((n + threads - 1) / threads) + 3) / 4, threads"]),
        ("vector-accesses", "gelu", ["4 * i + 3 < N"]),
        ("vector-accesses", "grid_stride", ["rs_v += stride"]),
    ],
)
def test_a_card_changes_what_it_should(card: str, kernel: str, expected: list[str] | None) -> None:
    text = changed(card, kernel)
    if expected is None:
        assert text is None
    else:
        assert text is not None
        assert [part for part in expected if part not in text] == [], text
