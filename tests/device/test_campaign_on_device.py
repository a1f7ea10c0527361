"""A whole campaign on a real GPU, by the command line: `pytest -m device -rs tests/device`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.device

SOFTMAX = Path(__file__).resolve().parents[2] / "examples" / "cuda" / "softmax"
SECOND = "  - {N: 16384, D: 1000}\n"
"""A workload that shows nothing here, and costs as much as the first one."""


def roofsmith(cache: Path, *arguments: str, code: int = 0) -> str:
    """What a command prints.

    Args:
        cache: of ceilings and builds.
        arguments: of the command line.
        code: that it has to exit with.
    """
    ran = subprocess.run(
        [sys.executable, "-m", "roofsmith", *arguments],
        env={**os.environ, "ROOFSMITH_CACHE": str(cache)},
        capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert ran.returncode == code, ran.stdout + ran.stderr
    return ran.stdout


@pytest.mark.usefixtures("ceilings")
def test_a_campaign_has_every_number_cited_and_every_decision_recomputed(
    tmp_path: Path, shared_cache: Path
) -> None:
    shutil.copytree(SOFTMAX, tmp_path / "softmax")
    target, campaign = tmp_path / "softmax" / "target.yaml", tmp_path / "campaign"
    text = target.read_text(encoding="utf-8")
    assert SECOND in text
    target.write_text(text.replace(SECOND, ""), encoding="utf-8")
    asked = ("optimize", str(target), "--max-iterations", "1", "--output", str(campaign))
    roofsmith(shared_cache, *asked)
    roofsmith(shared_cache, "specs", "audit", str(campaign))
    roofsmith(shared_cache, "verify", str(campaign))
    page = (campaign / "benchmark.md").read_text(encoding="utf-8")
    assert "torch.compile" in page
