"""The rest of a brief: one part of a campaign whole, from its ledger alone."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from roofsmith.analysis import figures as fmt
from roofsmith.analysis import kernel_table
from roofsmith.analysis.bottleneck import decided_by
from roofsmith.analysis.compiled import described
from roofsmith.analysis.doubt import doubt_about
from roofsmith.analysis.fractions import fractions_within
from roofsmith.analysis.ladder import attempts, gathered, held_listing
from roofsmith.analysis.moved import moved, profile_before
from roofsmith.analysis.recommend import recommended_line
from roofsmith.api.reading import read_campaign
from roofsmith.asking.brief import references_of
from roofsmith.domain.campaign import Baseline, Campaign, Round
from roofsmith.domain.comparison import Judgement
from roofsmith.domain.profile import Bottleneck, Profile
from roofsmith.domain.proposal import Hypothesis
from roofsmith.engine.profiling import is_due
from roofsmith.engine.records import held_profile
from roofsmith.errors import UsageError
from roofsmith.report.arithmetic import before_and_after


@dataclass(frozen=True, slots=True)
class Shown:
    """One part of a campaign."""

    what: str
    text: str
    """For people and models."""
    document: Any
    """For programs: plain values in SI units."""

    @property
    def visible(self) -> str:
        """The text without what a terminal would obey."""
        return fmt.visible(self.text)


def show_part(directory: Path, words: Sequence[str]) -> Shown:
    """A part of a campaign whole: its words, such as `counters` or `round 4`.

    Args:
        directory: the campaign's.
        words: the part's name, and the number of a round where it takes one.

    Raises:
        UsageError: there is no such part, no such round, or no baseline yet.
        LedgerError: a record was changed.
    """
    said = " ".join(words).split()
    campaign = _campaign(directory)
    name, *numbers = said or [""]
    if name not in PARTS or len(numbers) > 1:
        raise UsageError(
            f"there is no part called {' '.join(said)!r} of a campaign",
            hint=f"one of {', '.join(PARTS)}; round and diff take the number of a round",
        )
    event = _event(campaign, numbers[0] if numbers else None, name)
    text, document = PARTS[name](campaign, event)
    return Shown(" ".join(said), text, document)


def unlooked(directory: Path, words: Sequence[str]) -> dict[str, Any] | None:
    """The round that a profiler has to look at before somebody is shown what it sees, as an open
    campaign is asked for it; None: it did, or there is nothing that it could see.

    Raises:
        UsageError: there is no campaign with a baseline.
    """
    name, *numbers = " ".join(words).split() or [""]
    if name not in _LOOKED_AT or len(numbers) != 1:
        return None
    wanted = (r for r in _campaign(directory).rounds if str(r.round) == numbers[0])
    listing = name == "listing"
    due = next((r.round for r in wanted if is_due(r, listing=listing)), None)
    return None if due is None else {"round": due, "listing": listing, "idle_only": True}


def _campaign(directory: Path) -> Campaign:
    campaign = read_campaign(directory)
    if campaign.baseline is None:
        place = shlex.quote(str(directory))
        raise UsageError(
            "this campaign has no baseline yet", hint=f"`roofsmith resume {place}` measures it"
        )
    return campaign


def _event(campaign: Campaign, number: str | None, name: str) -> Baseline | Round | None:
    """The round that is asked for; None: what holds now.

    Raises:
        UsageError: there is none of that number, or the part takes one and has none.
    """
    assert campaign.baseline is not None, "looked at before"
    if number is None:
        if name in _OF_ROUND:
            raise UsageError(f"which {name}?", hint=f"{name} N, with the number of a round")
        return None
    events: list[Baseline | Round] = [campaign.baseline, *campaign.rounds]
    found = next((event for event in events if str(event.round) == number), None)
    if found is None:
        known = f"1 to {campaign.last_round}"
        raise UsageError(f"there is no round {number!r}", hint=f"rounds are {known}")
    if found.round in campaign.masked:
        raise UsageError(
            f"round {number} is masked: {campaign.mask_reason(found.round)}",
            hint="`roofsmith campaign memory unmask` lets it be seen again",
        )
    return found


_Part = tuple[str, Any]


def _counters(campaign: Campaign, event: Baseline | Round | None) -> _Part:
    """Every counter, of what holds or of a round; of one, beside the incumbent's of its time."""
    profile, bottleneck = _seen(campaign, event)
    if profile is None:
        return "no profile was taken\n", None
    before = profile_before(campaign, event) if isinstance(event, Round) else None
    rows = [f"{profile.workload} ({profile.tool}{f', {profile.kernel}' * bool(profile.kernel)})"]
    for one in profile.counters:
        old = None if before is None else before.get(one.name)
        beside = "" if old is None else f"  (before: {fmt.counter(old, one.unit, one.name)})"
        rows.append(f"{one.name:36} {fmt.counter(one.value, one.unit, one.name)}{beside}")
    for spot in profile.hotspots:
        place = f"{spot.source or '?'}: {fmt.one_line(spot.instruction)}"
        rows.append(f"{kernel_table.waits(spot)} at {place}")
    rows += [described(kernel) for kernel in profile.resources]
    rows += [f"note: {fmt.one_line(note)}" for note in profile.notes]
    if bottleneck is not None:
        rows += [f"bottleneck: {bottleneck.kind}", decided_by(bottleneck), *bottleneck.evidence]
    seen = {
        "profile": profile.model_dump(mode="json"),
        "before": None if before is None else before.model_dump(mode="json"),
        "bottleneck": None if bottleneck is None else bottleneck.model_dump(mode="json"),
    }
    return _lines(rows), seen


def _seen(
    campaign: Campaign, event: Baseline | Round | None
) -> tuple[Profile | None, Bottleneck | None]:
    if event is None:
        return held_profile(campaign)
    return event.profile, event.bottleneck


def _listing(campaign: Campaign, event: Baseline | Round | None) -> _Part:
    """The hot loops' instructions, of what holds now as they were last looked at, or of a round."""
    found = held_listing(campaign) if event is None else event.disassembly
    if found is None or not found.loops:
        how = (
            "roofsmith kernel listing KERNEL"
            if campaign.started.target.command is None
            else "a profile"
        )
        missing = "" if found is None else "".join(f"{one}\n" for one in found.missing)
        whose = "what holds now" if event is None else f"round {event.round}"
        return f"no listing was recorded of {whose}; {how} makes one\n{missing}", None
    rows = list[str]()
    for loop in found.loops:
        rows += [f"{loop.function} ({loop.chosen})", *loop.remarks, "", loop.listing, ""]
    return _lines([*rows, *found.notes, *found.missing]), found.model_dump(mode="json")


def _kernel(campaign: Campaign, event: Baseline | Round | None) -> _Part:
    candidate = campaign.incumbent if event is None else event.candidate
    files = {source.path: source.text for source in candidate.sources}
    return _files(files), {"build": candidate.build.model_dump(mode="json"), "files": files}


def _reference(campaign: Campaign, _event: Baseline | Round | None) -> _Part:
    target = campaign.started.target
    if target.reference is None:
        return "a repository has no reference: its own test and gate say what is right\n", None
    return target.reference.text, references_of(target)


def _round(campaign: Campaign, event: Baseline | Round | None) -> _Part:
    assert event is not None, "its number was asked for"
    if isinstance(event, Baseline):
        rows = [f"round 1: the baseline, {event.outcome.kind}"]
        measure = campaign.started.target.measure
        rows += [f"{t.workload}: {fmt.measured(t.time_s, measure)}" for t in event.timings]
        shown = event.model_dump(mode="json", exclude={"candidate", "profile"})
        return _lines(rows), shown
    judged, doubt = event.judgement, doubt_about(event, campaign)
    differing = moved(profile_before(campaign, event), event.profile)
    rows = [
        f"round {event.round}: {event.decision.kind.replace('_', ' ')} ({judged.verdict})",
        event.decision.rule,
        *_said(event.hypothesis),
        *_figures(judged, campaign),
        *(f"beside the incumbent: {one}" for one in differing),
        *([judged.outcome.detail] if judged.outcome.detail else []),
        *([f"why: {doubt.why}", f"next: {doubt.next}"] if doubt is not None else []),
        *(f"note: {note}" for note in judged.notes),
        *(f"without a source: {one}" for one in event.unsourced),
    ]
    raw = {"samples", "confirmation", "clock", "quick", "kernels"}
    document = event.model_dump(
        mode="json", exclude={"candidate": True, "screened": True, "judgement": raw}
    )
    return _lines(rows), {**document, "doubt": None if doubt is None else asdict(doubt)}


def _said(hypothesis: Hypothesis) -> list[str]:
    fields = hypothesis.model_dump()
    rows = []
    for name, value in fields.items():
        if value not in (None, "", (), []):
            text = "; ".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
            rows.append(f"{name.replace('_', ' ')}: {text}")
    return rows


def _figures(judged: Judgement, campaign: Campaign) -> list[str]:
    comparison, measure = judged.comparison, campaign.started.target.measure
    if comparison is None:
        return []
    overall = comparison.overall
    rows = [f"overall {fmt.ratio(overall.speedup, overall.ci)}, {overall.pairs} pairs"]
    if ends := fractions_within(comparison):
        rows.append(f"{' to '.join(map(fmt.percent, ends))} of the roofline")
    rows += [
        f"class {one.config_class}: {fmt.ratio(one.estimate.speedup, one.estimate.ci)}"
        for one in comparison.classes
    ]
    rate = campaign.started.target.keep.error_rate
    for one in comparison.workloads:
        before, after, shares = before_and_after(judged, one, measure, rate)
        gain = fmt.ratio(one.estimate.speedup, one.estimate.ci)
        rows.append(f"{one.workload}: {gain}, {before} to {after}, {shares} of roofline")
    return rows


def _diff(campaign: Campaign, event: Baseline | Round | None) -> _Part:
    if not isinstance(event, Round):
        raise UsageError("the baseline changes nothing", hint="diff N, with N from 2")
    before, after = campaign.held_before(event), event.candidate
    rows = list[str]()
    old = {source.path: source.text for source in before.sources}
    for source in after.sources:
        lines = old.get(source.path, "").split("\n"), source.text.split("\n")
        names = f"a/{source.path}", f"b/{source.path}"
        rows += difflib.unified_diff(*lines, *names, lineterm="")
    if before.build != after.build:
        command = [one.build.command_line(one.language) for one in (before, after)]
        rows += [f"build: {command[0]}", f"now:   {command[1]}"]
    return _lines(rows), {"round": event.round, "diff": "\n".join(rows)}


def _history(campaign: Campaign, _event: Baseline | Round | None) -> _Part:
    rows, documents = list[str](), list[Any]()
    for past in campaign.remembered:
        comparison = past.judgement.comparison
        differing = moved(profile_before(campaign, past), past.profile)
        speed = None if comparison is None else comparison.overall.speedup
        hoped = past.hypothesis.predicted_speedup
        rows.append(
            f"round {past.round}: {past.decision.kind.replace('_', ' ')},"
            f" {fmt.speedup(speed)}, predicted {fmt.speedup(hoped)}:"
            f" {fmt.one_line(past.hypothesis.statement)}; {past.decision.rule}"
            + _counted(differing)
        )
        documents.append(
            {
                "round": past.round,
                "decision": past.decision.kind,
                "speedup": speed,
                "predicted": hoped,
                "change": past.hypothesis.statement,
                "why": past.decision.rule,
                "moved": list(differing),
            }
        )
    return _lines(rows), documents


def _counted(differing: Sequence[str]) -> str:
    return f"; {', '.join(differing)}" if differing else ""


def _refused(campaign: Campaign, _event: Baseline | Round | None) -> _Part:
    rows = [
        f"after round {one.after_round}: {one.reason}: {fmt.one_line(one.detail)}"
        for one in campaign.refusals
    ]
    return _lines(rows), [one.model_dump(mode="json") for one in campaign.refusals]


def _facts(campaign: Campaign, _event: Baseline | Round | None) -> _Part:
    rows = [str(fact) for fact in campaign.started.facts.facts()]
    return _lines(rows), rows


def _tips(campaign: Campaign, _event: Baseline | Round | None) -> _Part:
    rows = [
        f"{tip.takeaway} (seen: {tip.signal}; on: {tip.context}; holds: {tip.applicability})"
        for tip in campaign.started.tips
    ]
    return _lines(rows), [tip.model_dump(mode="json") for tip in campaign.started.tips]


def _knowledge(campaign: Campaign, _event: Baseline | Round | None) -> _Part:
    rows = [
        f"{', '.join(one.answers)}: {one.title} ({one.page}): {one.change} Moves: {one.moves}."
        f" Hurts: {one.hurts}."
        for one in campaign.started.directions
    ]
    return _lines(rows), [one.model_dump(mode="json") for one in campaign.started.directions]


def _experience(campaign: Campaign, _event: Baseline | Round | None) -> _Part:
    rows = campaign.started.learned
    lines = [recommended_line(one) for one in rows] or ["no earlier campaign was like this one"]
    return _lines(lines), [one.model_dump(mode="json") for one in rows]


def _diagnosis(campaign: Campaign, _event: Baseline | Round | None) -> _Part:
    rows = [
        f"round {one.round}: {fmt.one_line(one.statement)}: {one.came_to}; {one.why}"
        for one in attempts(campaign)
    ]
    last = campaign.diagnoses[-1] if campaign.diagnoses else None
    review = None if last is None else last.material.review
    if review is not None:
        rows += [f"led nowhere: {one.category} ({one.came_to})" for one in review.dead_ends]
        rows += [f"worth a try: {one.category}: {one.what}" for one in review.directions]
    for found in gathered(campaign).profiles:
        said = "; ".join(found.bottleneck.evidence)
        rows.append(f"{found.workload}: {found.bottleneck.kind}: {said}")
    listing, _ = _listing(campaign, None)
    return _lines(rows) + listing, None if last is None else last.model_dump(mode="json")


def _files(files: Mapping[str, str]) -> str:
    if len(files) == 1:
        return next(iter(files.values()))
    return "\n".join(f"==> {path} <==\n{text}" for path, text in files.items())


def _lines(rows: Sequence[str]) -> str:
    return "".join(f"{row}\n" for row in rows)


PARTS: Final[Mapping[str, Callable[[Campaign, Baseline | Round | None], _Part]]] = {
    "counters": _counters,
    "listing": _listing,
    "kernel": _kernel,
    "reference": _reference,
    "history": _history,
    "refused": _refused,
    "facts": _facts,
    "tips": _tips,
    "knowledge": _knowledge,
    "experience": _experience,
    "diagnosis": _diagnosis,
    "round": _round,
    "diff": _diff,
}
"""By name; counters, listing and kernel take a round's number too."""
_OF_ROUND: Final = frozenset(("round", "diff"))
_LOOKED_AT: Final = frozenset(("counters", "listing", "round"))
