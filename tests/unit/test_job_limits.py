"""Limits of shells and batch systems: nothing that is set here goes beyond them."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from roofsmith import job_limits
from roofsmith.job_limits import granted, job_processors, memory_limit

REFERENCE = """
import numpy as np

def reference(x, y, N):
    y[:] = 2 * x
"""
KERNEL = (
    "void solve(const float *x, float *y, int N) { for (int i = 0; i < N; i++) y[i] = x[i] * 2; }"
)


def test_a_limit_of_ones_own_is_never_exceeded(monkeypatch: pytest.MonkeyPatch) -> None:
    unlimited = resource.RLIM_INFINITY
    for limits, most in {
        (unlimited, unlimited): 100,
        (50, unlimited): 50,
        (unlimited, 70): 70,
    }.items():
        monkeypatch.setattr(job_limits.resource, "getrlimit", lambda _, limits=limits: limits)
        assert granted(resource.RLIMIT_AS, 100) == most


@pytest.mark.parametrize(
    ("environment", "limit_bytes", "processors"),
    [
        ({}, None, None),
        ({"SLURM_JOB_ID": "1", "SLURM_MEM_PER_NODE": "2", "SLURM_CPUS_PER_TASK": "3"}, 2 << 20, 3),
        ({"SLURM_MEM_PER_CPU": "2", "SLURM_CPUS_ON_NODE": "4"}, 8 << 20, None),
        ({"SLURM_MEM_PER_NODE": "0"}, None, None),
        ({"PBS_JOBID": "1", "PBS_RESC_TOTAL_MEM": "4096", "NCPUS": "2"}, 4096, 2),
        ({"NCPUS": "2"}, None, None),
    ],
)
def test_what_a_batch_system_grants_is_read(
    environment: dict[str, str],
    limit_bytes: int | None,
    processors: int | None,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(job_limits, "CGROUPS", tmp_path)
    found = memory_limit(environment)
    assert (found and found.bytes) == limit_bytes
    assert job_processors(environment) == processors


@pytest.mark.slow
def test_a_kernel_is_checked_under_an_address_space_limit(tmp_path: Path) -> None:
    (tmp_path / "ref.py").write_text(REFERENCE)
    (tmp_path / "k.c").write_text(KERNEL)
    command = (
        f"ulimit -v 2000000; exec {sys.executable} -m roofsmith check k.c --ref ref.py -w N=500"
    )
    ran = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
