"""The campaign on real kernels that was measured once: it is there on every machine, busy or not.

`verify` computes every comparison again from its samples, and every decision from the comparison.
"""

from __future__ import annotations

from real_walk import (
    golden,
    recorded,
    require_resumed_after_a_kill,
    require_stops_and_goes_on,
    require_walks_every_rule,
)

from roofsmith.analysis.rulebook import RULES
from roofsmith.domain.campaign import Round
from roofsmith.engine.verify import verified


def test_todays_rules_have_a_campaign_on_real_kernels_and_decide_it_alike() -> None:
    """If not, they are other rules: where these are still unreleased, record it once more."""
    assert golden(RULES).is_file(), "python tests/unit/real_walk.py"
    found = verified(recorded(RULES))
    assert (found.findings, found.notes, found.versions) == ((), (), ())


def test_it_walked_every_rule_stopped_and_went_on() -> None:
    events = recorded(RULES)
    require_walks_every_rule(events)
    require_stops_and_goes_on(events)
    require_resumed_after_a_kill(events)


def test_its_times_were_measured() -> None:
    rounds = [event for event in recorded(RULES) if isinstance(event, Round)]
    timed = [r.judgement for r in rounds if r.judgement.comparison is not None]
    assert len(timed) == 6
    kept = [j for j in timed if j.verdict == "faster"]
    assert all(j.samples and j.confirmation and j.clock for j in kept)
    times = [t for j in timed for s in j.samples for t in s.candidate_time_s]
    assert len(set(times)) > len(times) / 2, "no two calls take as long"


def test_a_recorded_decision_that_does_not_follow_is_found() -> None:
    events = recorded(RULES)
    at, round_ = next((n, e) for n, e in enumerate(events) if isinstance(e, Round))
    slower = tuple(
        s.model_copy(update={"candidate_time_s": tuple(9 * t for t in s.candidate_time_s)})
        for s in round_.judgement.samples
    )
    judgement = round_.judgement.model_copy(update={"samples": slower})
    events[at] = round_.model_copy(update={"judgement": judgement})
    assert any("round 2" in finding.where for finding in verified(events).findings)
