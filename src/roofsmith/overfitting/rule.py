"""Whether a gain is there for a caller whose inputs change: the rule, and the gain that is left."""

from __future__ import annotations

from collections.abc import Iterable

from roofsmith.analysis.evidence import Evidence
from roofsmith.domain.campaign import RolledBack
from roofsmith.domain.category import TRANSFERRING, Bucket
from roofsmith.domain.comparison import Judgement
from roofsmith.domain.proposal import Hypothesis
from roofsmith.domain.transfer import CacheHits, KeptValue, Trace, TransferCheck
from roofsmith.overfitting.hints import Audit

RULES = 7
"""Version of the audit: what an older one found isn't found again by a newer one."""
HINTS_SINCE = 7
"""Up to then the source alone said what is kept; from then on it hints, and a trace decides."""
LEAST_HIT_RATE = 0.5
"""Of a weight cache: the backward pass finds what the forward pass left. Below it, the work that is
saved is saved in a benchmark only."""
ASTERISK = "*"
"""Marks a gain that is bounded by what a step of training saves."""

_RANK: dict[Bucket, int] = {"K1": 0, "K2": 0, "K3": 0, "K4": 0, "W1": 1, "W2": 2, "W3": 3}


def check_of(
    hypothesis: Hypothesis,
    audit: Audit,
    trace: Trace | None = None,
    untraced: str = "",
    *,
    needs_trace: bool = False,
) -> TransferCheck:
    """What the source and the trace say about a candidate."""
    return TransferCheck(
        bucket=bucket_of(hypothesis.bucket, audit.kept_values, trace),
        kept_values=audit.kept_values,
        assumptions=audit.assumptions,
        unread=audit.unread,
        trace=trace,
        untraced=untraced,
        needs_trace=needs_trace,
        rules=RULES,
    )


def bucket_of(declared: Bucket, kept_values: Iterable[KeptValue], trace: Trace | None) -> Bucket:
    """The worst of what a hypothesis says it is and what steps show of its candidate's hints."""
    shown = (_shown(value, trace) for value in kept_values if not value.inherited)
    return max((declared, *(b for b in shown if b is not None)), key=lambda bucket: _RANK[bucket])


def _shown(value: KeptValue, trace: Trace | None) -> Bucket | None:
    """What the hits of a kept value say of it; None: nothing, or that no input decides them.

    What is found again whatever weights and activations hold, such as a workspace by shape, is
    stored in fewer calls than there are steps. A weight's is stored once in every step at least.
    """
    seen = hits_of(value, trace)
    if trace is None or seen is None or seen.rate is None:
        return None
    if seen.lookups - seen.hits < max(trace.steps, 1):
        return None
    return "W1" if seen.rate >= LEAST_HIT_RATE else value.bucket


def hits_of(value: KeptValue, trace: Trace | None) -> CacheHits | None:
    """What a trace counted of a kept value; None where nothing can be counted."""
    counted = trace.caches if trace is not None else ()
    return next((c for c in counted if (c.path, c.name) == (value.path, value.name)), None)


def over_fitted(evidence: Evidence) -> RolledBack | None:
    """It gains in a benchmark only; ledgers from before there was a check have nothing to say."""
    why = refusal(evidence.transfer) if evidence.transfer is not None else None
    return RolledBack(rule=why) if why else None


def little_left(evidence: Evidence) -> RolledBack | None:
    """What a weight cache leaves of the gain to a step of training is within the noise band."""
    left = left_of(evidence)
    if left is None or left > 1 + evidence.policy.noise_band:
        return None
    return RolledBack(
        rule=f"over-fitted (W1): a step of training gains {left:.3f}x at most, which is within"
        f" the {100 * evidence.policy.noise_band:g}% noise band"
    )


def left_of(evidence: Evidence) -> float | None:
    """The gain of a weight cache that a step of training has at most; None: it is no such cache."""
    check = evidence.transfer
    if check is None or check.bucket != "W1":
        return None
    return real_speedup(check, _headline(evidence.judgement))


def refusal(check: TransferCheck) -> str | None:
    """Why a candidate isn't kept whatever it gains; None if nothing speaks against it."""
    added = [value for value in check.kept_values if not value.inherited]
    trace = check.trace
    if check.rules < HINTS_SINCE and (why := _said_by_source(check, added)):
        return why
    if trace is not None and trace.failure is not None:
        return f"wrong in step {trace.steps + 1} of a trace: {trace.failure.detail}"
    if check.bucket in ("W2", "W3"):
        shown = (v.text for v in added if _shown(v, trace) == check.bucket)
        return f"over-fitted ({check.bucket}): {next(shown, 'as its hypothesis says')}"
    if check.needs_trace and trace is None:
        return _needed(check)
    if trace is not None and check.rules >= HINTS_SINCE:
        for value in added:
            seen = hits_of(value, trace)
            if value.bucket != "W3" and seen is not None and seen.rate is None:
                return f"over-fitted ({value.bucket}), or no step looked it up: {value.text}"
        added = [v for v in added if v.bucket == "W1" or _shown(v, trace) == "W1"]
    return _not_proven(check, added) if check.bucket == "W1" else None


def _said_by_source(check: TransferCheck, added: Iterable[KeptValue]) -> str | None:
    """Why audits that followed every value rejected a candidate."""
    for value in sorted(added, key=lambda v: -_RANK[v.bucket]):
        if value.bucket != "W1":
            return f"over-fitted ({value.bucket}): {value.text}"
        if not value.versioned:
            return f"over-fitted (W1 without a version): {value.text}"
    if check.bucket in ("W2", "W3"):
        return f"over-fitted ({check.bucket}), as its hypothesis says"
    assumed = (a.text for a in check.assumptions if not a.inherited)
    return next((f"made for uniform groups: {text}" for text in assumed), None)


def _needed(check: TransferCheck) -> str:
    hints = [value.text for value in check.kept_values if not value.inherited]
    hints += [assumption.text for assumption in check.assumptions if not assumption.inherited]
    if not hints or check.rules < HINTS_SINCE:
        return f"no step of a trace was run, though command.transfer is there: {check.untraced}"
    return f"no step of a trace was run, and a hint needs one: {hints[0]}: {check.untraced}"


def is_untried(check: TransferCheck) -> bool:
    """Whether nothing but the missing trace speaks against a candidate."""
    tried = check.model_copy(update={"needs_trace": False})
    return refusal(check) is not None and refusal(tried) is None


def _not_proven(check: TransferCheck, added: Iterable[KeptValue]) -> str | None:
    """Why a weight cache isn't believed; a guard that can't decide rejects."""
    trace = check.trace
    if trace is None:
        why = check.untraced or "nothing here can run one"
        return f"a weight cache (W1) needs a trace of its hits, and there is none: {why}"
    if not trace.weights:
        return "a weight cache (W1), but no input is known to be a weight: name them in setup"
    for value in added:
        seen = hits_of(value, trace)
        if seen is None or seen.rate is None:
            return f"a weight cache (W1) that no step looked up: {value.text}"
        if seen.rate < LEAST_HIT_RATE:
            return (
                f"over-fitted (W1): {value.name} was found by {seen.hits} of {seen.lookups} calls;"
                f" {LEAST_HIT_RATE:.0%} are needed"
            )
        if not value.versioned:
            return f"over-fitted (W1 without a version): {value.text}"
    if bound_of(trace) is None:
        return "a weight cache (W1) whose calls could not be timed in the trace"
    return None


def bound_of(trace: Trace | None) -> float | None:
    """Most that a step gains from finding what was made of its weights; None: it wasn't timed.

    A step without the cache makes it in both of its calls, and with it in the first one alone, so
    the share of the step that is saved is (fresh - kept) / (2 fresh).
    """
    if trace is None or trace.fresh_time_s is None or trace.kept_time_s is None:
        return None
    step_s = 2 * trace.fresh_time_s
    saved_s = max(trace.fresh_time_s - trace.kept_time_s, 0.0)
    return step_s / (step_s - saved_s) if saved_s < step_s else None


def real_speedup(check: TransferCheck | None, headline: float, declared: Bucket = "K1") -> float:
    """What is left of a ratio for a caller whose inputs change.

    All of it for K1 to K4, what a step saves at most for W1, and nothing for W2 and W3.

    Args:
        check: None in older ledgers, where the hypothesis is all there is.
        headline: the proven ratio.
        declared: the hypothesis's bucket.
    """
    bucket = check.bucket if check is not None else declared
    if bucket in TRANSFERRING:
        return headline
    bound = bound_of(check.trace) if check is not None and bucket == "W1" else None
    return min(headline, bound) if bound is not None else 1.0


def _headline(judgement: Judgement) -> float:
    return judgement.comparison.overall.speedup if judgement.comparison is not None else 1.0
