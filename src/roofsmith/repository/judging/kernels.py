"""Runs of both checkouts under a command target's own profiler, until it has spoken."""

from __future__ import annotations

import secrets
import time

from roofsmith.analysis.clock import CLOCK_ERROR_RATE
from roofsmith.analysis.kernel_times import kernels_have_spoken
from roofsmith.analysis.statistics import least_observations
from roofsmith.domain.command import RunPair
from roofsmith.domain.comparison import Comparison
from roofsmith.domain.kernel import Built
from roofsmith.domain.outcome import Unstable
from roofsmith.domain.target import KeepPolicy
from roofsmith.ports import Observer
from roofsmith.repository.judging.evidence import BenchmarkEvidence, RunFailedError, Side
from roofsmith.repository.profiler import CommandProfiler

PATIENCE = 3
"""Multiple of the fewest pairs that can decide, after which the profiler has said nothing."""


def time_kernels(
    timer: CommandProfiler,
    kernels: dict[Side, Built],
    claimed: Comparison | None,
    evidence: BenchmarkEvidence,
    observer: Observer,
    policy: KeepPolicy,
) -> None:
    """Interleaved pairs: a number per run, all rows together.

    Args:
        timer: the profiler.
        kernels: both checkouts.
        claimed: what the script's number says, where that is a win; None: what matters is a loss.
        evidence: that the pairs are added to.
        observer: is told how far it is.
        policy: noise band, and the time that may be spent beyond the fewest pairs.

    Raises:
        RunFailedError: a run gave no time.
    """
    begin, least = time.monotonic(), least_observations(CLOCK_ERROR_RATE)
    for sweep in range(PATIENCE * least):
        is_late = time.monotonic() - begin > policy.judge_budget_s / 2
        has_spoken = kernels_have_spoken(evidence.kernels, claimed, policy)
        if sweep >= least and (has_spoken or is_late):
            return
        evidence.kernels.append(_pair(timer, kernels, sweep))
        observer.progress(min((sweep + 1) / least, 1.0))


def _pair(timer: CommandProfiler, kernels: dict[Side, Built], sweep: int) -> RunPair:
    order: list[Side] = ["incumbent", "candidate"]
    secrets.SystemRandom().shuffle(order)
    times_s: dict[Side, float] = {}
    for side in order:
        found = timer.kernel_time(kernels[side])
        if isinstance(found, str):
            detail = f"the target's profiler gave no kernel time of the {side}: {found}"
            raise RunFailedError(Unstable(reason="no_kernel_time", detail=detail))
        times_s[side] = found
    return RunPair(
        sweep=sweep,
        first=order[0],
        incumbent_time_s=times_s["incumbent"],
        candidate_time_s=times_s["candidate"],
    )
