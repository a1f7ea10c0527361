"""Kernels in languages that are packages of Python, judged on a real GPU."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
from gpu_bench import environment_or_skip
from test_campaign_on_device import roofsmith

pytestmark = pytest.mark.device

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.mark.parametrize(
    ("example", "package"),
    [
        ("gluon", "triton"),
        ("cutedsl/softmax", "cutlass"),
        ("cutedsl/sgemm", "cutlass"),
        ("helion", "helion"),
    ],
)
def test_an_example_is_a_baseline(
    example: str, package: str, tmp_path: Path, shared_cache: Path
) -> None:
    environment_or_skip()
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    campaign, target = tmp_path / "campaign", EXAMPLES / example / "target.yaml"
    asked = ("--output", str(campaign), "--proposer", "none")
    roofsmith(shared_cache, "optimize", str(target), *asked)
    roofsmith(shared_cache, "verify", str(campaign))
