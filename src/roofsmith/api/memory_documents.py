"""A campaign's memory notes as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from roofsmith.domain.memory import Memory

if TYPE_CHECKING:
    from roofsmith.api.memory import Planning, Restarted


def notes_document(notes: Sequence[Memory]) -> dict[str, Any]:
    """Every memory note in short."""
    return {"notes": [_note(found) for found in notes]}


def planning_document(found: Planning) -> dict[str, Any]:
    """What planning sees of a campaign."""
    last = found.last
    return {
        "campaign": last.campaign,
        "self_reported": last.self_reported,
        "total_speedup": last.total_speedup,
        "roofline_fraction": last.roofline_fraction,
        "kept": [_note(one) for one in found.kept],
        "dead_ends": [_dead_end(one) for one in found.dead_ends],
        "open_directions": [
            {"version": one.version, **direction.model_dump(mode="json")}
            for one in found.open
            for direction in one.open_directions
        ],
        "masked": list(found.masked),
    }


def restarted_document(found: Restarted) -> dict[str, Any]:
    """What was forgotten, and how to go on."""
    forgotten = found.event.model_dump(mode="json")
    return {**forgotten, "remembered": list(found.remembered), "next": found.command}


def _note(found: Memory) -> dict[str, object]:
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
    return {**_note(found), "why": found.quality_gate.failure_reason, "pitfalls_and_fixes": lessons}
