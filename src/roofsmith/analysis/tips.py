"""Which lessons of experiments are worth telling other campaigns, in a few sentences. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from roofsmith.analysis.ablation import TACTIC as ABLATION
from roofsmith.analysis.experiment_words import movement
from roofsmith.domain.device import Device
from roofsmith.domain.experiment import Experiment
from roofsmith.domain.knowledge import library_arch
from roofsmith.domain.target import plain_name
from roofsmith.domain.tip import Tip
from roofsmith.domain.values import canonical_json, content_id

WORTH_TELLING: Final = 0.05
"""Five noise bands of one percent: what is smaller may not repeat on another kernel."""
MOST_READ: Final = 50
"""The newest tips that a campaign begins with: its first record holds them."""
_FREE_TEXT: Final = frozenset(("external", "sweep", "split"))
"""Tactics that say nothing of what was changed: the statement does."""


def tips(rows: Iterable[Experiment]) -> tuple[Tip, ...]:
    """What of the rows another campaign on the same device can use, in order, each lesson once.

    A lesson is a change that was measured and made a difference of `WORTH_TELLING` or more, either
    way, or a recipe whose results were wrong. What is masked, and a gain that depends on inputs
    coming again, is never told.
    """
    found: dict[str, Tip] = {}
    for row in rows:
        tip = tip_of(row)
        if tip is not None:
            found.setdefault(tip.lesson or tip.takeaway, tip)
    return tuple(found.values())


def tips_near(rows: Sequence[Experiment], device: Device) -> tuple[Tip, ...]:
    """The newest `MOST_READ` for a device: its own last, and those that only its neighbours of one
    architecture taught, marked, before them."""
    here, arch = _spelled(device.name), library_arch(device)
    own = tips(row for row in rows if _spelled(row.device) == here)
    known = {tip.lesson or tip.takeaway for tip in own}
    near = [row for row in rows if arch and row.arch == arch and _spelled(row.device) != here]
    new = dict[str, Tip]()
    for row in near:
        if (tip := tip_of(row)) is not None and (tip.lesson or tip.takeaway) not in known:
            new.setdefault(tip.lesson or tip.takeaway, neighbours(row, tip))
    return (*new.values(), *own)[-MOST_READ:]


def neighbours(row: Experiment, tip: Tip) -> Tip:
    """A tip, marked as another device's of the same architecture."""
    marked = f"learned on {row.device}, a neighbour ({row.arch}); {tip.applicability}"
    return tip.model_copy(update={"applicability": marked})


def _spelled(device: str) -> str:
    """A device's name as a folder's."""
    return plain_name(device.lower())


def tip_of(row: Experiment) -> Tip | None:
    """What one of them teaches; None: nothing, or nothing that may be told."""
    if not row.may_be_recommended:
        return None
    taught = _taught(row)
    return _tip(row, *taught) if taught is not None else row.tip


def _taught(row: Experiment) -> tuple[str, str, str] | None:
    hypothesis = row.hypothesis
    if hypothesis is None or hypothesis.tactic == ABLATION:
        return None
    change = hypothesis.statement.rstrip(".")
    if row.status == "incorrect":
        if hypothesis.tactic in _FREE_TEXT or row.repairs is not None:
            return None
        reason = row.error_message.partition(":")[0]
        return "breaks", f"Don't, as it is: {change}", f"wrong results: {reason}"
    if row.status == "reported" and row.outcome == "success":
        return "pays", f"Try early: {change}", f"{row.score:.2f}x, as somebody reported"
    if row.aim is None:
        return None
    low, high = row.aim.ci
    where = "" if hypothesis.target_class == "global" else f" on {hypothesis.target_class}"
    measured = f"{row.aim.speedup:.2f}x [{low:.2f}, {high:.2f}]{where}"
    if row.decision == "kept" and row.aim.speedup >= 1 + WORTH_TELLING:
        return "pays", f"Try early: {change}", f"{measured}, measured twice"
    if row.verdict == "slower" and high <= 1 - WORTH_TELLING:
        return "costs", f"Leave: {change}", f"{measured}, provably slower"
    return None


def _tip(row: Experiment, effect: str, takeaway: str, signal: str) -> Tip:
    if row.self_reported:
        signal += ", self-reported by a repository's own benchmark"
    return Tip(
        lesson=_identity(row, effect),
        context=_context(row),
        signal=". ".join((signal, *movement(row))),
        takeaway=takeaway,
        applicability=_applicability(row),
        origin=f"{row.campaign}, round {row.round}" if row.round else row.proposer or row.id,
        at=row.time[:16],
    )


def _identity(row: Experiment, effect: str) -> str:
    assert row.hypothesis is not None, "the baseline teaches nothing"
    what = row.hypothesis.tactic
    if what in _FREE_TEXT:
        what = " ".join(row.hypothesis.statement.lower().rstrip(".").split())
    kind = row.bottleneck.kind if row.bottleneck is not None else "unknown"
    return content_id(canonical_json([row.operator, row.backend, what, effect, kind]))[:12]


def _context(row: Experiment) -> str:
    kernel = f"{row.operator} in {row.backend} on {row.device or row.arch}"
    if row.bottleneck is None:
        return kernel
    share = row.bottleneck.roofline_fraction
    at = f" at {share:.0%} of the roofline" if share is not None else ""
    return f"{kernel}; the kernel before it was held back by {row.bottleneck.kind}{at}"


def _applicability(row: Experiment) -> str:
    hypothesis = row.hypothesis
    assert hypothesis is not None, "the baseline teaches nothing"
    kind = f"kernels held back by {row.bottleneck.kind}" if row.bottleneck else "any kernel"
    only = hypothesis.target_class
    classes = "" if only == "global" else f"; meant for class {only}"
    return (
        f"{kind}; judged on {', '.join(row.dims)}{classes}; {hypothesis.tactic}, category"
        f" {hypothesis.category}, bucket {hypothesis.bucket}; measure again before you rely on it"
    )
