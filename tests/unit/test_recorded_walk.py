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
from roofsmith.engine.verify import verified


def test_todays_rules_have_a_campaign_on_real_kernels_and_decide_it_alike() -> None:
    """If not, they are other rules: where these are still unreleased, record it once more."""
    assert golden(RULES).is_file(), "PYTHONPATH=tests python tests/unit/real_walk.py"
    found = verified(recorded(RULES))
    assert (found.findings, found.notes, found.versions) == ((), (), ())


def test_it_walked_every_rule_stopped_and_went_on() -> None:
    events = recorded(RULES)
    require_walks_every_rule(events)
    require_stops_and_goes_on(events)
    require_resumed_after_a_kill(events)
