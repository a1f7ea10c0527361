"""What to try next goes by the campaign's own records."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from campaign_builder import WORKLOADS, campaign_of, events_for

from roofsmith.domain.campaign import Baseline, Campaign, Event, Kept, Round
from roofsmith.domain.category import Category
from roofsmith.domain.outcome import Cheated
from roofsmith.domain.profile import Bottleneck, Counter, Profile
from roofsmith.domain.refusal import Refusal, RefusalReason
from roofsmith.report.summarize import summarize
from roofsmith.report.summary import NextStep

PACKED = Counter(name="vector_fraction", value=0.98, unit="share")
BUSY = (
    Counter(name="processors_used", value=1.96, unit="processors"),
    Counter(name="processors_allowed", value=2.0, unit="processors"),
)


def with_profile(event: Event, profile: Profile | None, evidence: str) -> Event:
    if not isinstance(event, Baseline | Round):
        return event
    kind = "unknown" if evidence.startswith("roofline unknown") else "compute"
    found = Bottleneck(kind=kind, confidence=0.5, evidence=(evidence,), roofline_fraction=0.1)
    bottleneck = None if profile is None else found
    return event.model_copy(update={"profile": profile, "bottleneck": bottleneck})


def of_category(event: Event, categories: Sequence[Category]) -> Event:
    if not isinstance(event, Round) or event.round - 2 >= len(categories):
        return event
    hypothesis = event.hypothesis.model_copy(update={"category": categories[event.round - 2]})
    return event.model_copy(update={"hypothesis": hypothesis})


def profiled(*counters: Counter, notes: tuple[str, ...] = ()) -> Profile:
    tool = "valgrind" if counters else "none"
    return Profile(tool=tool, workload=WORKLOADS[0].label, counters=counters, notes=notes)


def steps_of(events: Sequence[Event]) -> dict[str, NextStep]:
    return {step.title.split(" at ")[0]: step for step in summarize(campaign_of(events)).next_steps}


def refused(campaign: Campaign, reason: RefusalReason, category: Category) -> Refusal:
    said = campaign.rounds[0].hypothesis
    hypothesis = said.model_copy(update={"category": category, "statement": "pad the tiles"})
    return Refusal(
        reason=reason, detail="line 9 says otherwise", after_round=2, proposer="model",
        hypothesis=hypothesis, wall_s=1.0, at="2026-04-12 11:00:00",
    )  # fmt: skip


def test_the_evidence_of_the_kernel_that_holds_is_read_and_nothing_against_it_recommended() -> None:
    events = [
        with_profile(
            of_category(event, ["algebra", "tiling"]), profiled(PACKED, *BUSY), "few bytes"
        )
        for event in events_for(["kept", "regression"], stop="out_of_ideas")
    ]
    why = steps_of(events)["Answer the compute bottleneck"].why
    untried, _, rest = why.partition(" Tried: ")
    assert "Round 2, which holds, shows: few bytes." in untried
    assert "Break dependency chains" in untried
    for category in ("packs", "all processors", "Compute less", "Block the loops"):
        assert category not in untried
    assert rest.startswith("algebra (round 2 kept); tiling (round 3 slower).")
    assert "98% of floating-point instructions are packed" in rest
    assert "2.0 of 2 processors are busy" in rest


def test_an_older_kernel_s_bottleneck_is_nothing_to_answer() -> None:
    begun, baseline, *rest = events_for(["kept"], stop="out_of_ideas")
    found = steps_of([begun, baseline, *(with_profile(event, None, "-") for event in rest)])
    assert not any(title.startswith("Answer") for title in found)
    assert found["Profile the kernel that holds"].command == "roofsmith campaign show . counters"


@pytest.mark.parametrize(
    ("note", "is_counters"),
    [
        ("no profiler: the target names no profile command (`command.profile`)", False),
        ("perf counts no cycles: this machine has no counters or hides them", True),
    ],
)
def test_what_nobody_could_say_names_what_is_missing(note: str, is_counters: bool) -> None:
    profile = profiled(notes=(note,))
    events = [
        with_profile(event, profile, "roofline unknown: no bound")
        for event in events_for(["regression"], stop="out_of_ideas")
    ]
    why = steps_of(events)["Find out what limits the kernel"].why
    assert note in why
    assert ("roofsmith doctor" in why) is is_counters
    assert "roofline unknown" not in why


def test_refused_ideas_are_told_with_their_reasons_and_repeated_ones_count_as_tried() -> None:
    events = events_for(["kept"], stop="out_of_ideas")
    campaign = campaign_of(events)
    told = [refused(campaign, "uncited", "layout"), refused(campaign, "repeated", "scheduling")]
    found = steps_of([*events[:-1], *told, events[-1]])
    why = found["Propose again what was refused"].why
    assert why.endswith("pad the tiles (uncited: line 9 says otherwise).")
    assert "scheduling (repeated after round 2)" in found["Answer the compute bottleneck"].why


def test_neither_a_cheat_nor_what_was_mended_since_is_to_be_repaired() -> None:
    *before, cheat, wrong, mended, stop = events_for(
        ["incorrect", "incorrect", "kept"], stop="out_of_ideas"
    )
    assert isinstance(cheat, Round)
    assert isinstance(wrong, Round)
    assert isinstance(mended, Round)
    assert isinstance(mended.decision, Kept)
    outcome = Cheated(reason="clock_forged", detail="1.9x by its own clock")
    judgement = cheat.judgement.model_copy(update={"outcome": outcome})
    cheat = cheat.model_copy(update={"judgement": judgement})
    mended = mended.model_copy(update={"repairs": wrong.round})
    assert not [t for t in steps_of([*before, cheat, wrong, mended, stop]) if "Repair" in t]
