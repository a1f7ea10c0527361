"""Of every gain that doesn't count: the cause, with both figures, and what to do."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from test_timing_claims import NOTHING_SEEN, pairs, round_of, timed, told

from roofsmith.analysis.doubt import Doubt, doubt_about
from roofsmith.api import documents
from roofsmith.domain.campaign import Event, replay
from roofsmith.judge.parent import Evidence
from roofsmith.judge.timing.sampling import Measurement


def about(events: list[Event]) -> Doubt | None:
    campaign = replay(events)
    assert campaign is not None
    return doubt_about(round_of(events), campaign)


def claiming(measured: Measurement, incumbent_s: float, candidate_s: float) -> Measurement:
    """Long segments of which the workers say something of their own."""
    samples = (s.model_copy(update={"claimed_s": (incumbent_s, candidate_s)})
               for s in measured.samples)  # fmt: skip
    return replace(measured, samples=tuple(samples))


NOISY = pairs(1.01, noise=8.0)
CASES: dict[str, tuple[Evidence, tuple[str, ...], str]] = {
    "void": (Evidence(pairs(1.2, void="threads waited")), ("22 of 22", "waited"), "quiet|nothing"),
    "clock sees nothing valid": (timed(1.2, pairs(1.0, void="moved")), ("1.200x",), "nothing else"),
    "clock can't tell": (
        timed(1.145, pairs(1.01, noise=30.0)), ("1.145x", "1.010x"), "larger",
    ),
    "threads go on": (
        timed(1.145, claiming(NOISY, 1e-3, 0.9e-3)), ("1.145x", "1.010x", "outside"), "join",
    ),
    "short segments alone": (
        timed(1.145, claiming(NOISY, 1e-3, 0.99e-3)), ("1.145x", "1.010x"), "cold",
    ),
    "forged": (timed(4.0, pairs(1.0)), ("4.000x", "1.000x"), "cold"),
    "a tie": (Evidence(pairs(1.004, noise=0.5)), ("1.004x", "1.01x"), "beyond"),
    "undecided": (Evidence(pairs(1.03, noise=12.0)), ("1.030x", "11 pairs"), "larger"),
    "gone again": (
        Evidence(pairs(1.2), pairs(1.001, noise=0.5)), ("1.200x", "1.001x", "second"), "process",
    ),
    "below the floor": (timed(20.0, NOTHING_SEEN), (), "reference"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_cause_has_both_figures_and_a_way_on(monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    evidence, figures, way = CASES[case]
    events = told(monkeypatch, evidence)
    found = about(events)
    assert [one for one in figures if one not in found.why] == []
    assert any(one in found.next for one in way.split("|"))
    campaign = replay(events)
    document: dict[str, Any] = documents.round_document(campaign.rounds[0], campaign)
    assert document["doubt"] == {"why": found.why, "next": found.next}
    json.dumps(document)


def test_what_is_kept_or_plainly_slower_is_not_doubted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert about(told(monkeypatch, timed(4.0, pairs(4.0)))) is None
    assert about(told(monkeypatch, Evidence(pairs(0.8)))) is None
