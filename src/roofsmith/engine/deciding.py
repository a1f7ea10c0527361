"""Keep or roll back: what is looked at before, and the rule.

A new check is a file of its own, and a line in one or both of these lists.
"""

from __future__ import annotations

from collections.abc import Callable

from roofsmith.analysis import held_out, vetoes
from roofsmith.analysis.dispatch import divergence
from roofsmith.analysis.evidence import Evidence
from roofsmith.domain.campaign import Decision, Kept, RolledBack
from roofsmith.domain.finding import OddSizes
from roofsmith.engine import holding_out, inspecting, odd_sizes, profiling, transferring
from roofsmith.engine.case import Case, KeepCheck
from roofsmith.overfitting import rule as transfer

KEEP_CHECKS: tuple[KeepCheck, ...] = (
    holding_out.check,
    inspecting.check,
    profiling.check,
    transferring.check,
    odd_sizes.check,
)
"""In the order in which they look: what is cheap or may reject for good comes first."""

Veto = Callable[[Evidence], RolledBack | None]

VETOES: tuple[Veto, ...] = (
    vetoes.not_passed,
    vetoes.not_sampled,
    vetoes.not_verified,
    vetoes.no_such_class,
    vetoes.not_faster,
    vetoes.others_lose,
    vetoes.class_may_lose,
    vetoes.workload_may_lose,
    vetoes.not_confirmed,
    vetoes.not_clocked,
    vetoes.clock_replaced,
    vetoes.kernels_disagree,
    vetoes.gained_once,
    vetoes.gained_on_even_groups_alone,
    vetoes.lost_twice,
    vetoes.profiler_contradicts,
    vetoes.total_falls,
    vetoes.dispatch_misses,
    held_out.fails_unseen,
    transfer.over_fitted,
    transfer.little_left,
)
"""Why a candidate isn't kept, in order: each relies on those before it having nothing to say."""


ABLATION_VETOES: tuple[Veto, ...] = (
    vetoes.not_passed,
    vetoes.not_sampled,
    vetoes.not_verified,
    vetoes.carries,
    vetoes.others_lose,
    vetoes.workload_may_lose,
    held_out.fails_unseen,
    transfer.over_fitted,
)
"""Why a kernel that leaves out a kept change, and isn't faster for it, isn't kept as the simpler
one: it has to be shown to be as fast, its whole interval within the noise band or above."""


def decide(evidence: Evidence) -> Decision:
    """Whether the candidate becomes the incumbent: unless a veto speaks, of which the first counts.

    A candidate that isn't kept says as well whether config classes diverged.
    """
    if evidence.ablates:
        return _decided_on_ablation(evidence)
    for veto in VETOES:
        if found := veto(evidence):
            diverged = divergence(*evidence.twice) is not None
            return vetoes.by_kernels(found, evidence).model_copy(update={"diverged": diverged})
    return _kept(evidence)


def _decided_on_ablation(evidence: Evidence) -> Decision:
    """A proven gain is kept as any other; a tie, because the kernel is simpler."""
    compared = evidence.judgement.comparison
    gains = compared is not None and compared.overall.verdict == "faster"
    for veto in VETOES if gains else ABLATION_VETOES:
        if found := veto(evidence):  # it looks back: no idea failed, and no dispatch follows
            return found.model_copy(update={"regression": False})
    return _kept(evidence) if gains else Kept(rule=vetoes.tie_of(evidence), simpler=True)


def _kept(evidence: Evidence) -> Kept:
    left = transfer.left_of(evidence)
    real = f"; {transfer.ASTERISK} of it a step of training gains {left:.3f}x" if left else ""
    relied = "".join(f"; {one}" for one in evidence.findings if isinstance(one, OddSizes))
    return Kept(rule=vetoes.gain_of(evidence) + real + relied, dispatch=evidence.dispatch)


def would_be_kept(case: Case) -> bool:
    """Whether nothing speaks against a candidate so far."""
    return isinstance(decide(case.evidence), Kept)
