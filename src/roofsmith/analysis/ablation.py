"""Which of the kept changes carry the total: the final kernel without one of them. Pure.

A change is taken out as a merge of three would: the kernel that holds, the one that the change
made, and the one that it was made to. Lines that a later change touched, too, can't be told apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final, Literal, TypeAlias

from roofsmith.analysis.compare import LARGEST_RATIO
from roofsmith.domain.campaign import Campaign, Kept, Round
from roofsmith.domain.kernel import BuildSpec, Candidate, SourceFile
from roofsmith.domain.outcome import Passed

TACTIC: Final = "ablation"

Lines: TypeAlias = tuple[str, ...]
Finding = Literal["carries", "left_out", "open", "needed", "built_upon", "unseen"]
"""carries: slower without it; left_out: no slower without it, so it was dropped; open: its
measurement says neither; needed: without it the kernel fails; built_upon: later changes touch the
same lines; unseen: no time was left to look."""


@dataclass(frozen=True, slots=True)
class CarriedGain:
    """What one kept change brings to the kernel that holds."""

    change: Round
    finding: Finding
    seen_in: int | None = None
    """The round that shows it: its own, if it was the last change, else the one without it."""
    speedup: float | None = None
    """Time without it over time with it; None where that wasn't measured."""
    ci: tuple[float, float] | None = None


def carried(campaign: Campaign) -> tuple[CarriedGain, ...]:
    """Of every kept change, in order; empty where there are fewer than two, or none was looked at.

    A dispatch of two kernels isn't taken apart.
    """
    changes = _changes(campaign)
    ablations = {r.ablates: r for r in campaign.rounds if r.ablates is not None}
    if len(changes) < 2 or not ablations:
        return ()
    earlier = (_carried(campaign, change, ablations.get(change.round)) for change in changes[:-1])
    return (*earlier, _last(changes[-1]))


def due_ablation(campaign: Campaign) -> tuple[Round, Candidate] | None:
    """The next change to leave out, the oldest first, and the kernel without it; None: no more."""
    tried = {r.ablates for r in campaign.rounds}
    for change in _changes(campaign)[:-1]:
        if change.round not in tried and (rest := kernel_without(campaign, change)) is not None:
            return change, rest
    return None


def kernel_without(campaign: Campaign, change: Round) -> Candidate | None:
    """The kernel that holds without a change; None if they can't be told apart."""
    before, after, final = campaign.held_before(change), change.candidate, campaign.incumbent
    sources = _sources(before, after, final)
    build = _build(before.build, after.build, final.build)
    if sources is None or build is None:
        return None
    rest = final.model_copy(update={"sources": sources, "build": build})
    return None if rest.id == final.id else rest


def merged(before: Lines, after: Lines, final: Lines) -> Lines | None:
    """`final` with what `after` changed of `before` undone; None where other changes touch that.

    >>> merged(("a", "b", "c"), ("A", "b", "c"), ("A", "b", "C"))
    ('a', 'b', 'C')
    """
    undone, later = _edits(after, before), _edits(after, final)
    if any(a <= d and c <= b for a, b, _ in undone for c, d, _ in later):
        return None
    rest: list[str] = []
    place = 0
    for start, end, lines in sorted([*undone, *later]):
        rest += [*after[place:start], *lines]
        place = end
    return (*rest, *after[place:])


def _changes(campaign: Campaign) -> tuple[Round, ...]:
    """Kept changes; none where one is a dispatch, whose kernels only stand beside each other."""
    kept = tuple(r for r in campaign.kept if r.ablates is None)
    return () if any(r.splits is not None for r in kept) else kept


def _carried(campaign: Campaign, change: Round, without: Round | None) -> CarriedGain:
    if without is None:
        separable = kernel_without(campaign, change) is not None
        return CarriedGain(change, "unseen" if separable else "built_upon")
    passed = isinstance(without.judgement.outcome, Passed)
    comparison = without.judgement.comparison
    if not passed or comparison is None:
        return CarriedGain(change, "open" if passed else "needed", without.round)
    found = comparison.overall
    low, high = found.ci
    carries = without.decision.kind == "rolled_back" and high < 1
    finding: Finding = "carries" if carries else "open"
    if isinstance(without.decision, Kept):
        finding = "left_out"
    ci = (min(1 / high, LARGEST_RATIO), min(1 / low, LARGEST_RATIO))
    return CarriedGain(change, finding, without.round, 1 / found.speedup, ci)


def _last(change: Round) -> CarriedGain:
    """The last change was judged against the kernel without it when it was kept."""
    comparison = change.judgement.comparison
    assert comparison is not None, "nothing is kept without a comparison"
    found = comparison.overall
    return CarriedGain(change, "carries", change.round, found.speedup, found.ci)


def _edits(old: Lines, new: Lines) -> list[tuple[int, int, Lines]]:
    """Which lines of the old text are replaced, and by what."""
    codes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return [(a, b, tuple(new[c:d])) for tag, a, b, c, d in codes if tag != "equal"]


def _sources(
    before: Candidate, after: Candidate, final: Candidate
) -> tuple[SourceFile, ...] | None:
    """The kernel file stays the first one."""
    texts = [{s.path: s.text for s in one.sources} for one in (before, after, final)]
    found = []
    for path in dict.fromkeys(s.path for s in (*final.sources, *before.sources)):
        was, became, is_now = (text.get(path) for text in texts)
        if (text := _text(was, became, is_now)) is _CONFLICT:
            return None
        if text is not None:
            found.append(SourceFile(path=path, text=text))
    return tuple(found)


_CONFLICT: Final = "\0"


def _text(before: str | None, after: str | None, final: str | None) -> str | None:
    """A file without a change, None where there is none then, or `_CONFLICT`."""
    if before == after:
        return final
    if final == after:
        return before
    if before is None or after is None or final is None:
        return _CONFLICT
    rest = merged(*(tuple(text.splitlines(keepends=True)) for text in (before, after, final)))
    return _CONFLICT if rest is None else "".join(rest)


def _build(before: BuildSpec, after: BuildSpec, final: BuildSpec) -> BuildSpec | None:
    """A setting is either the change's or a later one's."""
    update: dict[str, object] = {}
    for name in BuildSpec.model_fields:
        was, became, is_now = (getattr(spec, name) for spec in (before, after, final))
        if was != became and is_now != became:
            return None
        update[name] = is_now if was == became else was
    return final.model_copy(update=update)
