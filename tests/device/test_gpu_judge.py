"""The judge on a real NVIDIA GPU: honest kernels pass, failures have names, ratios are right."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from gpu_bench import environment_or_skip
from gpu_judging import GpuJudging, cuda, judging, softmax_target, triton

pytestmark = pytest.mark.device


AGAIN = cuda(after="softmax_rows<<<N / 10, 256>>>(x, y, D);")
FOUR_TIMES = cuda(after="softmax_rows<<<N, 256>>>(x, y, D);" * 3)
CALLS_BACK = cuda(
    "static void note(void* calls) { ++*(int*)calls; }",
    after="static int calls; cudaLaunchHostFunc(0, note, &calls);",
)
ENDLESS = cuda(inside="while (*(volatile const float*)row == *(volatile const float*)row) {}")
GREEDY = cuda().replace("<<<N, 256>>>", "<<<N, 256, 1 << 20>>>")
FAILURES = {
    "a factor": (cuda(inside="scale *= 1.001f;"), "incorrect", "wrong_output"),
    "a row left out": (cuda(inside="if (blockIdx.x == 7) return;"), "incorrect", "skipped_work"),
    "an address that is not mapped": (
        cuda(inside="if (threadIdx.x == 0) *(float*)16 = 1;"),
        "crashed",
        "illegal_address",
    ),
    "an element before its output": (
        cuda(inside="if (!blockIdx.x && !threadIdx.x) y[-3] = 0;"),
        "incorrect",
        "out_of_bounds",
    ),
    "an element of its input": (
        cuda(inside="if (!blockIdx.x && !threadIdx.x) ((float*)x)[5] = 0;"),
        "incorrect",
        "input_altered",
    ),
}


@pytest.fixture(scope="module")
def softmax(shared_cache: Path) -> Iterator[GpuJudging]:
    environment_or_skip()
    with judging(softmax_target("cuda", cuda()), shared_cache) as made:
        same, after = cuda("// the same"), cuda("// after it")
        wrong = (text for text, _, _ in FAILURES.values())
        made.prepare([cuda(), same, AGAIN, FOUR_TIMES, CALLS_BACK, *wrong, ENDLESS, after, GREEDY])
        yield made


@pytest.fixture(scope="module")
def triton_softmax(shared_cache: Path) -> Iterator[GpuJudging]:
    environment_or_skip()
    with judging(softmax_target("triton", triton(4)), shared_cache) as made:
        yield made


def test_identical_kernels_are_not_told_apart(softmax: GpuJudging) -> None:
    found = softmax.compare(cuda("// the same"), cuda())
    assert found.verdict in ("tie", "inconclusive")
    assert found.comparison is not None
    assert abs(found.comparison.overall.speedup - 1) < 0.01


def test_work_done_twice_is_slower(softmax: GpuJudging) -> None:
    assert softmax.compare(AGAIN, cuda()).verdict == "slower"
    assert softmax.compare(cuda(), AGAIN).verdict == "faster"


def test_a_winner_may_need_its_process_while_it_runs(softmax: GpuJudging) -> None:
    """Callbacks run on the host: where the judge's clock counts, it is stopped at first."""
    assert softmax.compare(CALLS_BACK, FOUR_TIMES).verdict == "faster"


@pytest.mark.parametrize("name", FAILURES)
def test_failures_have_names(softmax: GpuJudging, name: str) -> None:
    text, kind, reason = FAILURES[name]
    outcome = softmax.check(text).outcome
    assert (outcome.kind, getattr(outcome, "reason", None)) == (kind, reason)


def test_a_kernel_that_hangs_ends_its_worker_only(softmax: GpuJudging) -> None:
    softmax.check(cuda())
    outcome = softmax.check(ENDLESS).outcome
    assert (outcome.kind, getattr(outcome, "reason", None)) == ("timed_out", "call_deadline")
    assert softmax.check(cuda("// after it")).outcome.kind == "passed"


def test_a_launch_that_asks_too_much_is_found(softmax: GpuJudging) -> None:
    outcome = softmax.check(GREEDY).outcome
    assert outcome.kind in ("crashed", "incorrect")


def test_triton_kernels_are_judged(triton_softmax: GpuJudging) -> None:
    same = triton_softmax.compare(triton(4, "the same"), triton(4))
    assert same.verdict in ("tie", "inconclusive")
    assert triton_softmax.compare(triton(1), triton(4)).verdict == "slower"


def test_a_module_that_raises_is_named(triton_softmax: GpuJudging) -> None:
    text = triton(4).replace("softmax_rows[(N,)]", "raise ValueError('no'); softmax_rows[(N,)]")
    outcome = triton_softmax.check(text).outcome
    assert (outcome.kind, getattr(outcome, "reason", None)) == ("crashed", "raised")
    assert "ValueError: no" in getattr(outcome, "detail", "")
