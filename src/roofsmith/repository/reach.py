"""Whether what a target lets candidates edit is what its benchmark measures.

An installed copy, a stale binary, a file that no Makefile names: there every change is a tie, even
one that can't be compiled. So the repository is run once with its editable files broken.
"""

from __future__ import annotations

from collections.abc import Sequence

from roofsmith.domain.kernel import Built, Candidate
from roofsmith.domain.outcome import BuildFailed
from roofsmith.domain.workload import Workload
from roofsmith.repository.builds import CommandToolchain
from roofsmith.repository.checkouts import GitCheckouts
from roofsmith.repository.judging.runs import Benchmarked, Runs

BROKEN = "#error roofsmith broke this file\n)]}) roofsmith broke this file {([\n"
"""No language's, and no table's: a comment to Python, then nothing that closes was opened."""


def broken(baseline: Candidate) -> Candidate:
    sources = tuple(s.model_copy(update={"text": BROKEN}) for s in baseline.sources)
    return baseline.model_copy(update={"sources": sources})


def who_notices(
    baseline: Candidate,
    built: Built,
    toolchain: CommandToolchain,
    checkouts: GitCheckouts,
    runs: Runs,
    rows: Sequence[Workload],
) -> str | None:
    """Which command fails where the editable files are broken; None: none does.

    The benchmark is run where the build failed as well: what it measures then was built elsewhere,
    or before.
    """
    candidate = broken(baseline)
    try:
        made = toolchain.build(candidate)
        folder, _ = checkouts.make(candidate)
        there = built.model_copy(update={"candidate_id": candidate.id, "library": folder})
        if not isinstance(runs.benchmark(there, rows), Benchmarked):
            return "benchmark"
        if isinstance(made, BuildFailed) or runs.spec.test is None:
            return None
        return None if runs.test(there) is None else "test"
    finally:
        checkouts.drop(candidate.id)
