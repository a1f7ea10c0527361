"""Memory notes on stdout: tables and lines for people, JSON for programs."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from roofsmith.cli.output import print_json, print_lines, print_table
from roofsmith.domain.campaign import Masked
from roofsmith.domain.memory import Memory
from roofsmith.report import format as fmt
from roofsmith.report.reported import LABEL

_STATEMENT = 60


def listing(notes: Sequence[Memory], *, as_json: bool) -> None:
    """A row per note."""
    if as_json:
        print_json({"notes": [_row(found) for found in notes]})
        return
    print_table(
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


def note(found: Memory, *, as_json: bool) -> None:
    """All of one; for people a line per value, those that are unknown or empty left out."""
    document = found.model_dump(mode="json")
    if as_json:
        print_json(document)
        return
    print_lines(_flat("", document))


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


def summary(notes: Sequence[Memory], *, as_json: bool) -> None:
    """What planning sees, in the order: standing, what held, dead ends, open directions."""
    document = _summary(notes)
    if as_json:
        print_json(document)
    else:
        print_lines(_summary_lines(notes[-1], document))


def _summary(notes: Sequence[Memory]) -> dict[str, Any]:
    seen, last = [found for found in notes if not found.masked], notes[-1]
    return {
        "campaign": last.campaign,
        "self_reported": last.self_reported,
        "total_speedup": last.total_speedup,
        "roofline_fraction": last.roofline_fraction,
        "kept": [_row(found) for found in seen if found.decision == "kept"],
        "dead_ends": [_dead_end(found) for found in seen if _failed(found)],
        "open_directions": [
            {"version": found.version, **direction.model_dump(mode="json")}
            for found in _open_ones(seen)
            for direction in found.open_directions
        ],
        "masked": [found.version for found in notes if found.masked],
    }


def _summary_lines(last: Memory, document: dict[str, Any]) -> Iterator[str]:
    yield f"{last.campaign}: {fmt.speedup(last.total_speedup)} over the baseline{_own([last])}"
    rounds = fmt.plural(last.round - 1, "round")
    yield f"{fmt.percent(last.roofline_fraction)} of the roofline, after {rounds}"
    kept = [
        f"  {row['version']}  {fmt.speedup(row['speedup'])}  {fmt.one_line(row['description'])}"
        for row in document["kept"]
    ]
    failed = [
        f"  {row['version']}  {fmt.one_line(row['description'])}: {fmt.one_line(row['why'])}"
        for row in document["dead_ends"]
    ]
    yield from ("", "what held:", *(kept or ["  nothing yet"]))
    yield from ("what led nowhere:", *(failed or ["  nothing yet"]))
    yield "what is open:"
    told: dict[str, str] = {}
    for row in document["open_directions"]:
        line = fmt.one_line(f"{row['direction']} ({row['rationale']})")
        told.setdefault(line, row["version"])
    yield from (f"  {version}  {line}" for line, version in told.items())
    if document["masked"]:
        yield f"masked: {', '.join(document['masked'])}"


def masked(event: Masked, *, as_json: bool) -> None:
    """What changed."""
    if as_json:
        print_json(event.model_dump(mode="json"))
        return
    print_lines([f"{'masked' if event.masked else 'unmasked'} {_versions(event.rounds)}"])


def restarted(directory: Path, event: Masked, seen: Sequence[int], *, as_json: bool) -> None:
    """What was forgotten, and how to go on."""
    command = f"roofsmith resume {shlex.quote(str(directory))}"
    if as_json:
        document = event.model_dump(mode="json")
        print_json({**document, "remembered": list(seen), "next": command})
        return
    print_lines(
        [
            f"masked {_versions(event.rounds)}: {event.reason}",
            f"planning still sees {_versions(seen) or 'the baseline alone'}",
            f"next: {command}",
        ]
    )


def _own(notes: Sequence[Memory]) -> str:
    return f", {LABEL}" if any(found.self_reported for found in notes) else ""


def _open_ones(seen: Sequence[Memory]) -> list[Memory]:
    """Those whose directions are of the kernel that holds: the last kept one and what followed."""
    held = [place for place, found in enumerate(seen) if not _failed(found)]
    return list(seen[held[-1] :]) if held else list(seen)


def _failed(found: Memory) -> bool:
    return found.decision == "rolled_back"


def _row(found: Memory) -> dict[str, object]:
    return {
        "version": found.version,
        "round": found.round,
        "decision": found.decision,
        "outcome": found.outcome,
        "verdict": found.verdict,
        "self_reported": found.self_reported,
        "speedup": found.speedup,
        "category": found.optimization.action_category,
        "tactic": found.optimization.tactic,
        "description": found.optimization.action_description,
        "masked": found.masked,
        "masked_because": found.masked_because,
    }


def _dead_end(found: Memory) -> dict[str, object]:
    lessons = [pitfall.model_dump(mode="json") for pitfall in found.pitfalls_and_fixes]
    return {**_row(found), "why": found.quality_gate.failure_reason, "pitfalls_and_fixes": lessons}


def _versions(rounds: Sequence[int]) -> str:
    return ", ".join(f"v{number - 1}" for number in rounds)
