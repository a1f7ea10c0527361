"""Yardsticks on a real GPU: PyTorch's softmax beside a CUDA kernel and beside a Triton kernel."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpu_judging import REFERENCE, candidate, cuda, triton

from roofsmith.api.benching import Benched, bench
from roofsmith.config import Settings
from roofsmith.domain.kernel import Language
from roofsmith.domain.options import Subject
from roofsmith.testing.observer import SilentObserver

pytestmark = pytest.mark.device


@pytest.mark.usefixtures("ceilings")
@pytest.mark.parametrize(("language", "text"), [("cuda", cuda()), ("triton", triton(4))])
def test_a_kernel_is_held_against_eager_and_compile(
    language: Language, text: str, tmp_path: Path, shared_cache: Path
) -> None:
    found = benched(language, text, tmp_path, shared_cache)
    assert found.measured.outcome.kind == "passed", found.measured.outcome
    assert [result.name for result in found.yardsticks] == [
        "eager",
        "torch.compile",
        "torch.compile max-autotune-no-cudagraphs",
    ]
    assert found.yardsticks[0].calls == ("torch.softmax",)
    for result in found.yardsticks:
        judgement = result.judgement
        assert judgement.outcome.kind == "passed", (result.name, judgement.outcome)
        assert judgement.comparison is not None
        low, high = judgement.comparison.overall.ci
        print(
            f"{language} {result.name}: {judgement.comparison.overall} in {judgement.wall_s:.1f} s"
        )
        assert 0.1 < low <= high < 10


def benched(language: Language, text: str, folder: Path, cache: Path) -> Benched:
    """`roofsmith bench` on one kernel file, without its profile."""
    kernel = folder / candidate(language, text).kernel.path
    kernel.write_text(text)
    reference = folder / "reference.py"
    reference.write_text(REFERENCE)
    subject = Subject(path=kernel, reference=reference, workloads=("N=4096,D=4096",))
    return bench(subject, Settings(cache, folder), SilentObserver(), profiled=False)
