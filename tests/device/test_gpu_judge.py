"""The judge on a real NVIDIA GPU: honest kernels pass, failures have names, ratios are right."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from gpu_bench import environment_or_skip
from gpu_judging import GpuJudging, cuda, judging, triton

pytestmark = pytest.mark.device


@pytest.fixture(scope="module")
def softmax(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GpuJudging]:
    environment_or_skip()
    with judging("cuda", cuda(), tmp_path_factory.mktemp("judge")) as made:
        yield made


@pytest.fixture(scope="module")
def triton_softmax(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GpuJudging]:
    environment_or_skip()
    with judging("triton", triton(4), tmp_path_factory.mktemp("judge")) as made:
        yield made


def test_identical_kernels_are_not_told_apart(softmax: GpuJudging) -> None:
    found = softmax.compare(cuda("// the same"), cuda())
    assert found.verdict in ("tie", "inconclusive")
    assert found.comparison is not None
    assert abs(found.comparison.overall.speedup - 1) < 0.01


def test_work_done_twice_is_slower(softmax: GpuJudging) -> None:
    again = "softmax_rows<<<N / 10, 256>>>(x, y, D);"
    assert softmax.compare(cuda(after=again), cuda()).verdict == "slower"
    assert softmax.compare(cuda(), cuda(after=again)).verdict == "faster"


@pytest.mark.parametrize(
    ("changes", "kind", "reason"),
    [
        ({"inside": "scale *= 1.001f;"}, "incorrect", "wrong_output"),
        ({"inside": "if (blockIdx.x == 7) return;"}, "incorrect", "skipped_work"),
        ({"inside": "if (threadIdx.x == 0) *(float*)16 = 1;"}, "crashed", "illegal_address"),
        ({"inside": "if (!blockIdx.x && !threadIdx.x) y[-3] = 0;"}, "incorrect", "out_of_bounds"),
        (
            {"inside": "if (!blockIdx.x && !threadIdx.x) ((float*)x)[5] = 0;"},
            "incorrect",
            "input_altered",
        ),
    ],
)
def test_failures_have_names(
    softmax: GpuJudging, changes: dict[str, str], kind: str, reason: str
) -> None:
    outcome = softmax.check(cuda(**changes)).outcome
    assert (outcome.kind, getattr(outcome, "reason", None)) == (kind, reason)


def test_a_kernel_that_hangs_ends_its_worker_only(softmax: GpuJudging) -> None:
    softmax.check(cuda())
    endless = "while (*(volatile const float*)row == *(volatile const float*)row) {}"
    outcome = softmax.check(cuda(inside=endless)).outcome
    assert (outcome.kind, getattr(outcome, "reason", None)) == ("timed_out", "call_deadline")
    assert softmax.check(cuda("// after it")).outcome.kind == "passed"


def test_a_launch_that_asks_too_much_is_found(softmax: GpuJudging) -> None:
    text = cuda().replace("<<<N, 256>>>", "<<<N, 256, 1 << 20>>>")
    outcome = softmax.check(text).outcome
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
