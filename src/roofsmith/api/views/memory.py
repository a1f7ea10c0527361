"""Memory notes for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from roofsmith.analysis import figures as fmt
from roofsmith.api.views.blocks import Blocks, Table
from roofsmith.domain.campaign import Masked, Noted
from roofsmith.domain.memory import Memory
from roofsmith.report.reported import LABEL

if TYPE_CHECKING:
    from roofsmith.api.memory import Planning, Restarted

_STATEMENT = 60
_NOTHING = "  nothing yet"


def listing(notes: Sequence[Memory]) -> Blocks:
    """A row per note."""
    yield Table(
        ("note", "round", "decision", f"ratio{_own(notes)}", "kind", "what", "planning"),
        [
            (
                found.version,
                str(found.round),
                found.decision.replace("_", " "),
                fmt.speedup(found.speedup) if found.speedup is not None else "-",
                found.optimization.action_category,
                fmt.one_line(found.optimization.action_description, _STATEMENT),
                f"masked: {found.masked_because or 'by hand'}" if found.masked else "sees it",
            )
            for found in notes
        ],
    )


def note(found: Memory) -> Blocks:
    """A line per value of one; those that are unknown or empty left out."""
    yield from _flat("", found.model_dump(mode="json"))


def _flat(name: str, value: Any) -> Iterator[str]:
    match value:
        case None:
            return
        case dict():
            for key, inner in value.items():
                yield from _flat(f"{name}.{key}" if name else key, inner)
        case list():
            for place, inner in enumerate(value, start=1):
                yield from _flat(f"{name}.{place}", inner)
        case float():
            yield f"{name}: {value:.6g}"
        case _:
            yield f"{name}: {fmt.one_line(str(value))}"


def summary(found: Planning) -> Blocks:
    """What planning sees, in the order: where it stands, what held, dead ends, open directions."""
    last, told = found.last, dict[str, str]()
    fraction = fmt.percent(last.roofline_fraction)
    yield f"{last.campaign}: {fmt.speedup(last.total_speedup)} over the baseline{_own([last])}"
    yield f"{fraction} of the roofline, after {fmt.plural(last.round - 1, 'round')}"
    yield from ("", "what held:")
    yield from [
        f"  {one.version}  {fmt.speedup(one.speedup)}  {_change(one)}" for one in found.kept
    ] or [_NOTHING]
    yield "what led nowhere:"
    yield from [
        f"  {one.version}  {_change(one)}:"
        f" {fmt.one_line(one.quality_gate.failure_reason or one.rule)}"
        for one in found.dead_ends
    ] or [_NOTHING]
    yield "what is open:"
    for one in found.open:
        for way in one.open_directions:
            told.setdefault(fmt.one_line(f"{way.direction} ({way.rationale})"), one.version)
    yield from (f"  {version}  {line}" for line, version in told.items())
    if found.masked:
        yield f"masked: {', '.join(found.masked)}"


def _change(found: Memory) -> str:
    return fmt.one_line(found.optimization.action_description)


def masked(event: Masked) -> Blocks:
    """What changed."""
    yield f"{'masked' if event.masked else 'unmasked'} {_versions(event.rounds)}"


def noted(event: Noted) -> Blocks:
    """Under which number it can be replaced."""
    yield f"note {event.number} on {_versions([event.round])}: {fmt.one_line(event.text)}"


def restarted(found: Restarted) -> Blocks:
    """What was forgotten, and how to go on."""
    yield f"masked {_versions(found.event.rounds)}: {found.event.reason}"
    yield f"planning still sees {_versions(found.remembered) or 'the baseline alone'}"
    yield f"next: {found.command}"


def _own(notes: Sequence[Memory]) -> str:
    return f", {LABEL}" if any(found.self_reported for found in notes) else ""


def _versions(rounds: Sequence[int]) -> str:
    return ", ".join(f"v{number - 1}" for number in rounds)
