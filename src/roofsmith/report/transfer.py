"""Whether gains are there for a caller whose inputs change: a round's check, a campaign's sum."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from roofsmith.analysis import figures as fmt
from roofsmith.domain.category import TRANSFERRING, Bucket
from roofsmith.domain.transfer import Trace, TransferCheck
from roofsmith.overfitting.rule import ASTERISK, is_untried, real_speedup, refusal
from roofsmith.report.summary import Attribution, BucketShare, SummaryStep
from roofsmith.wording import some_of

BUCKETS: dict[Bucket, str] = {
    "K1": "inside the kernel",
    "K2": "layout variants",
    "K3": "fusion into one launch",
    "K4": "data flow within a call",
    "W1": "a cache keyed on weights",
    "W2": "a cache keyed on activations",
    "W3": "memoised calls",
}
"""The over-fitting buckets in words (see `domain.proposal.Bucket`)."""

LARGEST_GAP = 0.01
"""Share of the baseline's speed by which a headline may exceed what a caller gets, unnamed."""


def bucket_of(step: SummaryStep) -> Bucket:
    """What was found, or else what the hypothesis says; the baseline changes nothing."""
    if step.transfer is not None:
        return step.transfer.bucket
    return step.hypothesis.bucket if step.hypothesis is not None else "K1"


def transfer_rows(step: SummaryStep) -> tuple[tuple[str, str], ...]:
    """A round's transfer check, name and value."""
    bucket, check = bucket_of(step), step.transfer
    rows = [("bucket", f"{bucket}, {BUCKETS[bucket]}")]
    if check is None:
        rows.append(("audit", "none: this ledger is older than the audit"))
    else:
        kept = [value.text + _inherited(inherited=value.inherited) for value in check.kept_values]
        rows.append(("may be kept between calls", "; ".join(kept) or "nothing"))
        rows += [("not audited", _unread(check.unread))] if check.unread else []
        rows.append(("groups", _groups(check)))
        rows.append(("trace", _trace(check)))
        rows += [("hits in the trace", text) for text in _hits(check.trace)]
    if step.ratio is not None:
        rows.append(("gain in the benchmark", fmt.speedup(step.ratio.value)))
        rows += [("estimated gain in training", text) for text in _estimate(step)]
    rows.append(("decision", _decision(step)))
    return tuple(rows)


def bucket_shares(steps: Sequence[SummaryStep]) -> Iterator[BucketShare]:
    """How much of the gain came from each kind of change that was kept."""
    kept = [step for step in steps if step.mark == "kept" and step.ratio is not None]
    for bucket, meaning in BUCKETS.items():
        members = [step for step in kept if bucket_of(step) == bucket]
        if members:
            yield BucketShare(
                bucket=bucket,
                meaning=meaning,
                rounds=tuple(step.number for step in members),
                speedup=math.prod(step.gain for step in members),
                real_speedup=math.prod(map(_real, members)),
                transfers=bucket in TRANSFERRING,
            )


def attribution(steps: Sequence[SummaryStep], headline: float) -> Attribution | None:
    """What the campaign's total is made of; None where nothing was kept."""
    shares = tuple(bucket_shares(steps))
    if not shares:
        return None
    structural = math.prod(s.real_speedup for s in shares if s.bucket in TRANSFERRING)
    weights = math.prod(s.real_speedup for s in shares if s.bucket == "W1")
    real = structural * weights
    return Attribution(
        headline=headline,
        structural=structural,
        weights=weights,
        residual=headline / real,
        gap=round(headline - real, 9),
        is_inflated=headline - real > LARGEST_GAP,
        rounds=tuple(n for s in shares if s.real_speedup < s.speedup for n in s.rounds),
    )


def _real(step: SummaryStep) -> float:
    return real_speedup(step.transfer, step.gain, bucket_of(step))


def _estimate(step: SummaryStep) -> Iterator[str]:
    """Nothing for what a step showed to be wrong."""
    bucket, trace = bucket_of(step), step.transfer.trace if step.transfer is not None else None
    text = fmt.speedup(_real(step))
    if trace is not None and trace.failure is not None:
        return
    if bucket in TRANSFERRING and trace is None:
        yield "not tried: no step was run"
    elif bucket in TRANSFERRING:
        yield f"{text}: all of it, whatever the inputs are"
    elif bucket == "W1":
        yield f"{text}{ASTERISK}: at most what a step saves by making it of its weights once"
    else:
        yield f"{text}: none of it, since no caller has the same inputs twice"


def _groups(check: TransferCheck) -> str:
    taken = [a.text + _inherited(inherited=a.inherited) for a in check.assumptions]
    if taken:
        return "; ".join(taken)
    if check.trace is not None and check.trace.skewed and check.trace.failure is None:
        return f"right with rows dealt unevenly ({check.trace.skewed})"
    return "nothing is taken for granted"


def _unread(paths: Sequence[str]) -> str:
    return f"{some_of(paths)}: nothing that the audit can read"


def _trace(check: TransferCheck) -> str:
    trace = check.trace
    if trace is None:
        return f"none: {check.untraced}" if check.untraced else "none"
    if trace.failure is not None:
        ran = fmt.plural(trace.steps, "step")
        return f"{trace.failure.reason} after {ran}: {trace.failure.detail}"
    changed = f"{', '.join(trace.weights)} changed in place" if trace.weights else "no weights"
    return (
        f"{fmt.plural(trace.steps, 'step')} of two calls on {trace.workload}, new activations in"
        f" every call, {changed}: every output right"
    )


def _hits(trace: Trace | None) -> Iterator[str]:
    for seen in trace.caches if trace is not None else ():
        rate = f" ({fmt.percent(seen.rate)})" if seen.rate is not None else ""
        yield f"{seen.name}: {seen.hits} of {fmt.plural(seen.lookups, 'call')}{rate}"


def _decision(step: SummaryStep) -> str:
    refused = refusal(step.transfer) if step.transfer is not None else None
    if step.mark == "kept":
        bounded = bucket_of(step) == "W1"
        return f"accepted{ASTERISK}, with its gain bounded" if bounded else "accepted"
    if step.transfer is not None and is_untried(step.transfer):
        return f"rejected: {refused}"
    if refused is not None:
        return f"rejected as over-fitted: {refused}"
    return f"not accepted, for another reason: {step.rule}"


def _inherited(*, inherited: bool) -> str:
    return " (so does the incumbent)" if inherited else ""
