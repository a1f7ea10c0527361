from __future__ import annotations

from campaign_builder import campaign_of, softmax_events
from tool_stand_ins import GOLDEN

from roofsmith.domain.campaign import Baseline, Event
from roofsmith.domain.profile import Hotspot, Profile
from roofsmith.profilers.launches import profile_of
from roofsmith.profilers.ncu_output import parse_ncu_csv
from roofsmith.profilers.vocabulary import vocabulary
from roofsmith.report.campaign_files import render_campaign
from roofsmith.report.counters import CATEGORIES, HEADLINES, counter_rows, headlines

RAW = (GOLDEN / "ncu_set_full_page_raw_softmax_h100.csv").read_text()


def recorded() -> Profile:
    return profile_of("ncu", "N=4096,D=4096", parse_ncu_csv(RAW), notes=["clocks not fixed"])


def files(profile: Profile) -> dict[str, str]:
    events: list[Event] = [
        event.model_copy(update={"profile": profile}) if isinstance(event, Baseline) else event
        for event in softmax_events()
    ]
    return dict(render_campaign(campaign_of(events)).files)


def test_the_summary_of_a_gpu_profile_goes_category_by_category() -> None:
    summary = files(recorded())["rounds/round-1/profile_summary.md"]
    heads = [line[3:] for line in summary.splitlines() if line.startswith("## ")]
    assert heads == list(CATEGORIES)
    assert "ncu on N=4096,D=4096: softmax_v3" in summary
    for line in (
        "| sm_throughput | - | 50% |",
        "| duration_s | - | 53.3 µs |",
        "| dram_rate_byte_per_s | - | 2.13 TB/s |",
        "| achieved_occupancy | - | 91% |",
        "| stall_long_scoreboard_share | - | 46% |",
    ):
        assert line in summary.splitlines()
    assert "not_selected" not in summary  # being ready is no stall
    assert "stall_membar_share" not in summary


def test_the_details_have_every_counter_and_the_tools_name_for_it() -> None:
    profile = recorded()
    details = files(profile)["rounds/round-1/profile_details.md"]
    for counter in profile.counters:
        assert f"| {counter.name} | - | " in details
    assert "| l2_hit_rate | - | 51% | lts__t_sector_hit_rate.pct |" in details.splitlines()
    assert "Note: clocks not fixed" in details


def test_hotspots_name_their_source_lines() -> None:
    spot = Hotspot(source="a|b.hip:42", instruction="s_waitcnt vmcnt(0)", stall_share=0.6, hits=9)
    details = files(recorded().model_copy(update={"hotspots": (spot,)}))
    text = details["rounds/round-1/profile_details.md"]
    assert "| a\\|b.hip:42 | s_waitcnt vmcnt(0) | 60% | 0% | 9 |" in text.splitlines()


def test_a_profile_without_counters_has_no_tables() -> None:
    found = files(Profile(tool="none", workload="N=1", notes=("ncu is not installed",)))
    assert "The tool gave no counters." in found["rounds/round-1/profile_details.md"]
    assert "##" not in found["rounds/round-1/profile_summary.md"]


def test_headlines_are_words_of_the_vocabulary() -> None:
    assert set(vocabulary().names) >= HEADLINES


def test_counters_of_both_kernels_stand_side_by_side() -> None:
    before = recorded()
    after = before.model_copy(update={"counters": before.counters[:2]})
    rows = {row.name: row for row in counter_rows(before, after)}
    assert rows["duration_s"].before == rows["duration_s"].after
    assert rows["l2_hit_rate"].after is None
    assert {group.category for group in headlines(list(rows.values()))} == set(CATEGORIES)
