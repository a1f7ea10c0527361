"""Step 0 for devices that aren't plugged in: a real reference process, and the bundled pages."""

from __future__ import annotations

from pathlib import Path

import pytest

from roofsmith import api
from roofsmith.api.documents import roofline_document
from roofsmith.api.views.bounded import bounded
from roofsmith.domain.bound import Bound
from roofsmith.errors import AmbiguousNameError, UnknownNameError, UsageError
from roofsmith.testing.observer import SilentObserver

C = "void solve(const float* x, float* y, int N) { for (int i = 0; i < N; i++) y[i] = 2 * x[i]; }\n"
OF_C = "import numpy as np\n\ndef reference(x, y, N):\n    y[:N] = 2 * x[:N]\n"

MATMUL = """
import torch

def setup(M, seed):
    g = torch.Generator(device="cuda").manual_seed(seed)
    a = torch.randn(M, M, dtype=torch.bfloat16, device="cuda", generator=g)
    b = torch.randn(M, M, dtype=torch.bfloat16).cuda()
    return {"inputs": {"a": a, "b": b, "out": torch.empty_like(a)}, "outputs": ["out"]}

def reference(a, b, out):
    if len(a) < 100:  # looks at numbers, which tensors without any don't have
        assert a.max().item() < 1e9
    out.copy_((a @ b).to("cuda:0"))
"""
MODULE = (
    "import triton\n\n@triton.jit\ndef k(x):\n    pass\n\ndef run_kernel(**inputs):\n    pass\n"
)


def on_paper(
    folder: Path, platform: str, kernel: str, reference: str, *workloads: str
) -> tuple[Bound, ...]:
    file = folder / ("kernel.c" if "void" in kernel else "kernel.py")
    file.write_text(kernel)
    (folder / "ref.py").write_text(reference)
    subject = api.Subject(path=file, reference=folder / "ref.py", workloads=workloads)
    found = api.roofline(subject, api.settings(), SilentObserver(), platform)
    assert "## Stop Conditions" in "\n".join(map(str, bounded(found)))
    assert roofline_document(found)["plugged_in"] is False
    return found.survey.bounds


def test_floors_follow_from_cited_ceilings_alone(tmp_path: Path) -> None:
    memory, compute = on_paper(tmp_path, "MI355X", MODULE, MATMUL, "M=64", "M=65536")
    assert (memory.limiter, compute.limiter) == ("memory", "compute")
    assert memory.floor_time_s == pytest.approx(3 * 2 * 64**2 / 8e12)
    assert compute.floor_time_s == pytest.approx(2 * 65536**3 / 2.5e15)
    assert compute.measured is None
    assert str(compute.peak.citation).startswith("wiki/amd-mi355x.yaml:")


def test_a_kernel_for_processors_has_its_operator_on_a_gpu(tmp_path: Path) -> None:
    (bound,) = on_paper(tmp_path, "h200-sxm", C, OF_C, "N=4096")
    assert bound.floor_time_s == pytest.approx(2 * 4 * 4096 / 4.8e12)


def test_what_no_page_says_stays_unknown(tmp_path: Path) -> None:
    (bound,) = on_paper(tmp_path, "nvidia-h20-3e", C, OF_C, "N=4096")
    assert (bound.floor_time_s, bound.limiter) == (None, "unknown")


@pytest.mark.parametrize(
    ("platform", "error", "named"),
    [
        ("H2O", UnknownNameError, "H20"),
        ("H100", AmbiguousNameError, "nvidia-h100-nvl"),
        ("Gaudi 3", UsageError, "specs list"),
    ],
)
def test_other_platforms_are_refused_with_a_cure(
    tmp_path: Path, platform: str, error: type[UsageError], named: str
) -> None:
    with pytest.raises(error) as caught:
        on_paper(tmp_path, platform, C, OF_C, "N=64")
    assert named in (caught.value.hint or "")
