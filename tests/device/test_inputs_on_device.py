"""Inputs, guard bands and the names of wrong results on a real GPU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from gpu_bench import environment_or_skip
from gpu_judging import GpuJudging, cuda, judging, softmax_target, triton

from roofsmith.domain.outcome import Outcome, Passed

pytestmark = pytest.mark.device

TIMES = 5


def reason(outcome: Outcome) -> str | None:
    return getattr(outcome, "reason", None)


LAUNCH = "softmax_rows<<<N, 256>>>(x, y, D);"

KEEPS = """
    static float* kept = nullptr;
    size_t size = (size_t)N * D * sizeof(float);
"""
FIRST = (
    KEEPS
    + """
    if (kept) { cudaMemcpyAsync(y, kept, size, cudaMemcpyDefault, 0); return; }
    softmax_rows<<<N, 256>>>(x, y, D);
    cudaMalloc(&kept, size);
    cudaMemcpyAsync(kept, y, size, cudaMemcpyDefault, 0);
"""
)

WRONG = {
    "nothing": (cuda().replace(LAUNCH, ""), {"skipped_work"}),
    "one row not written": (cuda(inside="if (blockIdx.x == 7) return;"), {"skipped_work"}),
    "remembers its first answer": (cuda().replace(LAUNCH, FIRST), {"memoised_result"}),
    "writes behind": (
        cuda(inside="if (!blockIdx.x && !threadIdx.x) y[(size_t)gridDim.x * D] = 0;"),
        {"out_of_bounds"},
    ),
    "reads behind": (
        cuda(inside="if (blockIdx.x == gridDim.x - 1) scale *= row[D] == row[D] ? 2.0f : 3.0f;"),
        {"out_of_bounds", "wrong_output"},
    ),
    "stores ten bits": (
        cuda().replace(
            "out[i] = __expf(row[i] - largest) * scale;",
            "out[i] = __uint_as_float((__float_as_uint(__expf(row[i] - largest) * scale)"
            " + 0x1000) & ~0x1fffu);",
        ),
        {"precision"},
    ),
    "a factor": (cuda(inside="scale *= 1.001f;"), {"wrong_output"}),
}


CARELESS = cuda().replace("__expf(row[i] - largest)", "__expf(row[i] - fminf(largest, 9.0f))")
"""Right as long as no element is beyond what normal draws give."""


def honest(turn: int) -> str:
    return cuda(f"// turn {turn}")


@pytest.fixture(scope="module")
def softmax(shared_cache: Path) -> Iterator[GpuJudging]:
    environment_or_skip()
    with judging(softmax_target("cuda", cuda()), shared_cache) as made:
        wrong = (text for text, _ in WRONG.values())
        made.prepare([*wrong, CARELESS, cuda(), *(honest(turn) for turn in range(TIMES))])
        yield made


@pytest.fixture(scope="module")
def triton_softmax(shared_cache: Path) -> Iterator[GpuJudging]:
    environment_or_skip()
    with judging(softmax_target("triton", triton(4)), shared_cache) as made:
        yield made


@pytest.mark.parametrize("name", WRONG)
def test_wrong_results_have_names(name: str, softmax: GpuJudging) -> None:
    text, expected = WRONG[name]
    outcome = softmax.check(text).outcome
    assert reason(outcome) in expected, outcome.detail


def test_large_numbers_are_tried(softmax: GpuJudging) -> None:
    found = softmax.compare(CARELESS, cuda())
    assert reason(found.outcome) in ("nan_output", "wrong_output"), found.outcome.detail


@pytest.mark.parametrize("turn", range(TIMES))
def test_honest_kernels_pass_on_whatever_is_drawn(turn: int, softmax: GpuJudging) -> None:
    found = softmax.check(honest(turn))
    assert isinstance(found.outcome, Passed), found.outcome.detail
    assert {"as drawn by setup"} < {error.inputs for error in found.errors}


@pytest.mark.parametrize("turn", range(2))
def test_honest_triton_kernels_pass_too(turn: int, triton_softmax: GpuJudging) -> None:
    found = triton_softmax.check(triton(4) + f"\n# turn {turn}\n")
    assert isinstance(found.outcome, Passed), found.outcome.detail
