"""A whole campaign on a real GPU, by the command line: `pytest -m device -rs tests/device`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from gpu_bench import environment_or_skip

pytestmark = pytest.mark.device

SOFTMAX = Path(__file__).resolve().parents[2] / "examples" / "cuda" / "softmax" / "target.yaml"


def roofsmith(*arguments: str, code: int = 0) -> str:
    """What a command prints.

    Args:
        arguments: of the command line.
        code: that it has to exit with.
    """
    ran = subprocess.run(
        [sys.executable, "-m", "roofsmith", *arguments],
        capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert ran.returncode == code, ran.stdout + ran.stderr
    return ran.stdout


def test_a_campaign_has_every_number_cited_and_every_decision_recomputed(tmp_path: Path) -> None:
    environment_or_skip()
    campaign = tmp_path / "campaign"
    roofsmith("optimize", str(SOFTMAX), "--max-iterations", "1", "--output", str(campaign))
    roofsmith("specs", "audit", str(campaign))
    roofsmith("verify", str(campaign))
    page = (campaign / "benchmark.md").read_text(encoding="utf-8")
    assert "torch.compile" in page
