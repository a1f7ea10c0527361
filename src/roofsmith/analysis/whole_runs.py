"""What whole runs of a repository's benchmark take by the judge's own clock, beside what it claims.

A benchmark measures in the process of candidate code, which may read or replace its clock. Nothing
of a real gain may be seen in whole runs either, where kernels are a small part of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean

from roofsmith.analysis.compare import is_win
from roofsmith.analysis.statistics import median_interval
from roofsmith.domain.command import RunPair
from roofsmith.domain.comparison import Comparison, Judgement

_MOST = 3
"""Remarks that stand beside a gain; the notes have all."""


def is_unseen(claimed: Comparison | None, runs: Sequence[RunPair], error_rate: float) -> bool:
    """Whether whole runs show nothing of a gain: their ratio may as well be 1."""
    if claimed is None or not runs or not is_win(claimed):
        return False
    ratios = [pair.incumbent_time_s / pair.candidate_time_s for pair in runs]
    return median_interval(ratios, error_rate)[0] <= 1


def by_own_clock(runs: Sequence[RunPair], *, unseen: bool) -> str:
    """What they took, for people, and whether that is nothing of the gain."""
    before = fmean(pair.incumbent_time_s for pair in runs)
    after = fmean(pair.candidate_time_s for pair in runs)
    seen = ": nothing of the gain is seen by it" if unseen else ""
    return (
        f"a whole run of the benchmark took {before:.3g} s (incumbent) and {after:.3g} s"
        f" (candidate) by the judge's own clock{seen}"
    )


def warnings(found: Judgement, error_rate: float) -> Iterator[str]:
    """What stands beside a gain that a repository's own benchmark claims."""
    if not found.self_reported or found.comparison is None or not is_win(found.comparison):
        return
    if is_unseen(found.comparison, found.whole_runs, error_rate):
        yield by_own_clock(found.whole_runs, unseen=True)
    yield from (remark.text for remark in found.remarks[:_MOST])
