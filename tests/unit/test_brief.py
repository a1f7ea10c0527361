"""The brief: what it holds of a campaign, in which order, and that it always fits."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from briefs import SIGNATURE, brief_of
from campaign_builder import (
    BASELINE_TIMES_S,
    Story,
    baseline,
    bottleneck,
    campaign_of,
    crippled,
    events_for,
    no_maximum,
    online_softmax,
    parallel_rows,
    prefetch,
    softmax_campaign,
    started,
    target,
    vector_exp,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_recorded_bottlenecks import RECORDED, classified

from roofsmith.analysis.spending import spent_s
from roofsmith.api.documents import told_document
from roofsmith.api.session import ToldRounds
from roofsmith.api.views import results
from roofsmith.asking.brief import document, markdown
from roofsmith.asking.contract import contract_of, exactness_of, timing_of
from roofsmith.asking.evidence import MOST_COUNTERS, answerable, evidence_of, telling_counters
from roofsmith.asking.excerpt import Hot, excerpt, excerpts
from roofsmith.asking.page import BYTES_PER_TOKEN, DROPPED
from roofsmith.asking.proposing import proposal_of
from roofsmith.cli.output import print_blocks
from roofsmith.domain.answer import Answer, Edit
from roofsmith.domain.campaign import Campaign, Event, Round, Stopped
from roofsmith.domain.command import CommandSpec
from roofsmith.domain.comparison import ErrorReport
from roofsmith.domain.ending import StopCode
from roofsmith.domain.kernel import SourceFile
from roofsmith.domain.profile import Counter, Profile
from roofsmith.domain.proposal import Proposal
from roofsmith.domain.refusal import Refusal
from roofsmith.domain.target import StopPolicy, Target
from roofsmith.domain.tip import Tip
from roofsmith.ports import Brief
from roofsmith.store.asks import write_ask

HERE = Path("/somewhere/a campaign")


def fits(text: str, tokens: int) -> bool:
    return len(text.encode("utf-8", errors="backslashreplace")) <= tokens * BYTES_PER_TOKEN


def sections(text: str) -> list[str]:
    """Titles of a page, but for those in fences."""
    titles, fence = list[str](), ""
    for line in text.split("\n"):
        ticks = line[: len(line) - len(line.lstrip("`"))]
        if fence and line == fence:
            fence = ""
        elif not fence and len(ticks) >= 3:
            fence = ticks
        elif not fence and line.startswith("## "):
            titles.append(line[3:])
    assert not fence, "a fence stays open"
    return titles


def with_kernel(campaign: Campaign, text: str) -> Brief:
    brief = brief_of(campaign)
    return replace(brief, incumbent=brief.incumbent.with_kernel_text(text))


# -- size -----------------------------------------------------------------------------------


RARE = st.text(max_size=60) | st.sampled_from(["```", "| a |", "## Title", "a" * 9000, "é" * 999])
KINDS = st.sampled_from(["kept", "regression", "tie", "inconclusive", "build_failed", "incorrect"])


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    lines=st.lists(RARE, max_size=20),
    repeated=st.integers(1, 400),
    kinds=st.lists(KINDS, max_size=25),
    notes=RARE,
    tips=st.integers(0, 60),
    refusals=st.integers(0, 60),
    counters=st.integers(0, 200),
    tokens=st.integers(1500, 12_000),
)
@pytest.mark.slow
def test_a_page_fits_whatever_a_campaign_holds(
    lines: list[str], repeated: int, kinds: list[Any], notes: str, tips: int, refusals: int,
    counters: int, tokens: int,
) -> None:  # fmt: skip
    campaign = crowded(campaign_of(events_for(kinds)), notes[:8000], tips, refusals)
    brief = with_kernel(campaign, "\n".join(lines) * repeated)
    seen = tuple(Counter(name=f"counter_{n}", value=n, unit="1") for n in range(counters))
    found = document(replace(brief, profile=brief.profile.model_copy(update={"counters": seen})))
    json.dumps(found)
    assert fits(markdown(found, tokens), tokens)
    sections(markdown(found, tokens))


def crowded(campaign: Campaign, notes: str, tips: int, refusals: int) -> Campaign:
    tip = Tip(lesson="", context="c" * 500, signal="s" * 500, takeaway="t" * 900,
              applicability="a" * 500, origin="o", at="2026-01-01 00:00")  # fmt: skip
    bad = Refusal(reason="malformed", detail="x" * 3000, after_round=1, proposer="somebody",
                  wall_s=1.0, at="2026-01-01 00:00:00")  # fmt: skip
    held = campaign.started.target.model_copy(update={"notes": notes})
    first = campaign.started.model_copy(update={"tips": (tip,) * tips, "target": held})
    return campaign.model_copy(update={"started": first, "refusals": (bad,) * refusals})


def test_a_large_kernel_leaves_room_for_the_rest() -> None:
    filler = "".join(f"static int unused_{n}(int x) {{ return x + {n}; }}\n" for n in range(4000))
    hot = "void solve(const float* a) {\n    the_hot_statement(a);\n}\n"
    found = document(with_kernel(softmax_campaign(), filler + hot + filler))
    assert len(found["kernel"]["files"]["softmax.c"]) > 200_000
    text = markdown(found)
    assert fits(text, 12_000)
    assert "the_hot_statement" in text
    assert "unused_0(" in text
    assert f"asks/round-{found['round']}/sources/" in text
    small = markdown(document(brief_of(softmax_campaign())))
    assert sections(text) == sections(small)


def test_a_page_with_room_for_all_leaves_nothing_out() -> None:
    found = document(brief_of(softmax_campaign()))
    text = markdown(found)
    assert found["kernel"]["files"]["softmax.c"].strip() in text
    assert all(f"- R{row['round']} " in text for row in found["history"])
    assert markdown(found, 100_000) == text


def test_what_goes_first_goes_in_the_order_that_is_written_down() -> None:
    """Each step leaves out more; what matters most is there to the end."""
    campaign = crowded(campaign_of(events_for(["kept", "regression"] * 15)), "keep it", 40, 40)
    found = document(brief_of(campaign))
    least = markdown(found, 4000)
    assert fits(least, 4000)
    assert "## Contract" in least
    assert "keep it" in least
    assert found["commands"]["tell"] in least
    assert "t" * 200 in markdown(found, 60_000)
    assert "t" * 200 not in least
    names = [name for name, _, _ in DROPPED]
    assert names.index("facts") < names.index("history") < len(names) - names[::-1].index("kernel")
    levels: dict[str, int] = {}
    for name, level, what in DROPPED:
        assert level == levels.get(name, 0) + 1
        assert what
        levels[name] = level


# -- workloads, bottleneck, limits ----------------------------------------------------------


def test_workloads_come_slowest_first_with_floor_and_goal() -> None:
    campaign = softmax_campaign()
    rows = document(brief_of(campaign))["workloads"]
    times = [row["time_s"] for row in rows]
    assert times == sorted(times, reverse=True)
    assert sum(row["share"] for row in rows) == pytest.approx(1)
    for row in rows:
        assert row["goal_s"] == pytest.approx(row["floor_s"] / 0.9)
        assert row["roofline_fraction"] == pytest.approx(row["floor_s"] / row["time_s"])


def test_before_anything_is_kept_times_are_the_baselines() -> None:
    rows = document(brief_of(campaign_of([started(), baseline()])))["workloads"]
    assert {row["workload"]: row["time_s"] for row in rows} == pytest.approx(
        BASELINE_TIMES_S, rel=0.05
    )
    for row in rows:
        low, high = row["ci"]
        assert low <= row["time_s"] <= high


def test_what_is_unknown_is_no_number() -> None:
    found = document(brief_of(crippled()))
    (row,) = found["workloads"]
    assert (row["time_s"], row["floor_s"], row["goal_s"], row["share"]) == (None,) * 4
    assert "UNKNOWN" in markdown(found)


def test_counters_are_those_that_tell_of_the_bottleneck() -> None:
    many = [Counter(name=f"other_{n}", value=1.0, unit="1") for n in range(40)]
    occupied = Counter(name="theoretical_occupancy", value=0.25, unit="1")
    missed = Counter(name="llc_miss_rate", value=0.5, unit="1")
    profile = Profile(tool="ncu", workload="n=1", counters=(*many, missed, occupied))
    shown = telling_counters(profile, "occupancy")
    assert len(shown) == MOST_COUNTERS
    assert shown["C1"] == occupied
    assert telling_counters(profile, "memory")["C1"] == missed


def test_whatever_a_page_names_may_be_cited() -> None:
    brief = brief_of(softmax_campaign())
    found, known = document(brief), evidence_of(brief)
    assert found["evidence"] == known
    named = [*found["bottleneck"]["evidence"], *(c["id"] for c in found["bottleneck"]["counters"])]
    named += [row["id"] for row in found["workloads"]]
    named += [f"R{row['round']}" for row in found["history"]]
    named += [f"L{number}" for number, _ in enumerate(found["listing"]["loops"], start=1)]
    assert set(named) == set(known)
    answer = Answer(
        statement="one change",
        rationale="why",
        evidence=tuple(known),
        answers=brief.bottleneck.kind,
        edits=(Edit(path="softmax.c", search="float sum = 0.0f;", replace="float sum = -0.0f;"),),
    )
    assert isinstance(proposal_of(answer, brief, "somebody"), Proposal)


def test_facts_are_the_few_that_the_target_rests_on() -> None:
    campaign = softmax_campaign()
    found, sheet = document(brief_of(campaign)), campaign.started.facts
    assert 0 < len(found["facts"]) <= 10
    bound = campaign.started.bounds[0]
    assert {str(bound.bandwidth), str(bound.peak)} <= set(found["facts"])
    left = {str(fact) for fact in sheet.facts()} - set(found["facts"])
    assert found["facts_left_out"] == len(left)


def test_the_kinds_that_an_answer_may_name_are_listed() -> None:
    brief = brief_of(softmax_campaign())
    found = document(brief)
    assert found["bottleneck"]["answers"] == list(answerable(brief))
    assert all(kind in markdown(found) for kind in answerable(brief))


@pytest.mark.parametrize(
    ("code", "option"), [("max_iterations", "--max-iterations"), ("efficiency_reached", None)]
)
def test_an_end_is_said_at_the_top_with_the_way_on(code: StopCode, option: str | None) -> None:
    stop = Stopped(code=code, detail="7 of 7", wall_s=1.0, at="2026-01-01 00:00:00")
    ended = softmax_campaign().model_copy(update={"stopped": stop})
    top = markdown(document(brief_of(ended))).partition("## Contract")[0]
    assert [code in top, "7 of 7" in top] == [True, True]
    assert ("--max" in top) is (option is not None)
    going = softmax_campaign().model_copy(update={"stopped": None})
    assert document(brief_of(going))["stopped"] is None


def test_limits_are_those_in_force() -> None:
    stop = StopPolicy(max_iterations=9, budget_s=1e6, max_tokens=500)
    held = target().model_copy(update={"stop": stop})
    events = [started().model_copy(update={"target": held}), *events_for(["kept", "tie"])[1:]]
    left = document(brief_of(campaign_of(events)))["limits"]
    assert (left["rounds"], left["tokens"]) == (7, 500)
    assert left["seconds"] == pytest.approx(1e6 - spent_s(events))


# -- history --------------------------------------------------------------------------------


def told(*tellers: Any) -> list[Event]:
    story = Story.begin()
    return [started(), baseline(), *(teller(story) for teller in tellers)]


def test_history_has_what_was_predicted_and_what_was_measured() -> None:
    rows = {row["round"]: row for row in document(brief_of(softmax_campaign()))["history"]}
    kept = rows[2]
    assert (kept["decision"], kept["predicted"], kept["landing"]) == ("kept", 4.0, "hit")
    low, high = kept["ci"]
    assert low < kept["speedup"] < high
    assert rows[5]["came_to"] == "build_failed"
    assert "inlining failed" in rows[5]["detail"]


def test_masked_rounds_are_not_seen() -> None:
    campaign = softmax_campaign()
    brief = brief_of(campaign.model_copy(update={"masked": frozenset({4})}))
    found = document(brief)
    assert 4 not in [row["round"] for row in found["history"]]
    assert "R4" not in found["evidence"]
    assert 4 not in [row["round"] for row in found["open_again"]]


def test_an_idea_whose_basis_has_changed_is_open_again() -> None:
    before = document(brief_of(campaign_of(told(vector_exp, online_softmax))))
    assert before["open_again"] == []
    after = document(brief_of(campaign_of(told(vector_exp, online_softmax, parallel_rows))))
    (again,) = after["open_again"]
    assert (again["round"], again["kept_since"]) == (3, [4])
    assert (again["bottleneck_then"], again["bottleneck_now"]) == ("compute", "memory")
    assert again["change"] in markdown(after).partition("## Open again")[2]


def test_an_idea_that_was_tried_again_is_not_open_again() -> None:
    events = told(vector_exp, online_softmax, parallel_rows, online_softmax)
    assert document(brief_of(campaign_of(events)))["open_again"] == []


def test_a_verdict_that_is_not_believed_says_why() -> None:
    events = told(vector_exp, prefetch)
    (row,) = [r for r in document(brief_of(campaign_of(events)))["history"] if r["round"] == 3]
    assert row["doubt"]["why"]
    assert row["doubt"]["why"] in markdown(document(brief_of(campaign_of(events))))
    doubted = events[-1]
    assert isinstance(doubted, Round)
    samples = tuple(s.model_copy(update={"void": "waited"}) for s in doubted.judgement.samples)
    judgement = doubted.judgement.model_copy(update={"verdict": "unverified", "samples": samples})
    events[-1] = doubted.model_copy(update={"judgement": judgement})
    row = document(brief_of(campaign_of(events)))["history"][-1]
    assert "waited" in row["doubt"]["why"]
    kept = document(brief_of(campaign_of(events)))["history"][0]
    assert kept["doubt"] is None


def test_what_several_rounds_leave_open_is_said_once() -> None:
    found = document(brief_of(campaign_of(told(vector_exp, prefetch))))
    doubted = found["history"][-1]
    text = markdown({**found, "history": [doubted, doubted | {"round": 9}]})
    assert text.count(doubted["doubt"]["why"]) == 1
    assert text.count(doubted["doubt"]["next"]) == 1
    assert f"as R{doubted['round']}" in text


def test_a_diagnosis_without_material_is_no_section() -> None:
    found = document(brief_of(softmax_campaign()))
    empty = {"level": 1, "rounds": [3], "dead_ends": [], "profiles": [], "missing": []}
    assert "Diagnosis" not in sections(markdown({**found, "diagnosis": empty}))
    known = empty | {"missing": ["no yardstick"]}
    assert "Diagnosis" in sections(markdown({**found, "diagnosis": known}))


def test_tell_says_how_far_off_a_candidate_is(capsys: pytest.CaptureFixture[str]) -> None:
    campaign = softmax_campaign()
    told_ = ToldRounds(campaign.rounds[:1], campaign)
    (row,) = told_document(told_)["errors"]
    assert row["norm_error"] <= row["norm_budget"]
    print_blocks(results.told(told_))
    line = next(line for line in capsys.readouterr().out.splitlines() if "error" in line)
    assert f"{row['norm_error']:.2g}" in line
    assert f"{row['norm_budget']:.2g}" in line


def test_a_refusal_names_the_idea() -> None:
    campaign = crowded(softmax_campaign(), "", 0, 1)
    bad = campaign.refusals[0].model_copy(update={"hypothesis": campaign.rounds[0].hypothesis})
    text = markdown(document(brief_of(campaign.model_copy(update={"refusals": (bad,)}))))
    section = text.partition("## Refused")[2].partition("\n## ")[0]
    assert campaign.rounds[0].hypothesis.statement in section


def test_a_repair_comes_first_and_shows_what_was_wrong(tmp_path: Path) -> None:
    campaign = campaign_of(told(vector_exp, no_maximum))
    found = document(brief_of(campaign))
    assert found["repair"]["round"] == 3
    assert "not finite" in found["repair"]["detail"]
    wrong = campaign.rounds[-1].candidate.kernel.text
    assert found["repair"]["files"] == {"softmax.c": wrong}
    text = markdown(found)
    assert text.index(found["repair"]["reason"]) < text.index("## Contract")
    folder = tmp_path / "ask"
    write_ask(folder, found, text, {"reference.py": "pass\n"})
    assert (folder / "repair" / "softmax.c").read_text() == wrong
    assert (folder / "sources" / "softmax.c").read_text() == campaign.incumbent.kernel.text


def test_directions_say_what_the_kernel_has_already() -> None:
    plain = campaign_of(told())
    text = "void solve() { __m256 x = _mm256_set1_ps(1); }"
    source = plain.started.target.kernel.model_copy(update={"text": text})
    held = plain.started.target.model_copy(update={"kernel": source})
    started_ = plain.started.model_copy(update={"target": held})
    packed = plain.model_copy(update={"started": started_})
    bound = bottleneck("compute", 0.1)

    def rows(campaign: Campaign) -> dict[str, str | None]:
        brief = replace(brief_of(campaign), bottleneck=bound)
        found = document(brief)["directions"]["categories"]
        return {row["category"]: row["seen"] for row in found}

    assert next(iter(rows(plain))) == "vectorisation"
    assert rows(packed).get("vectorisation", "not suggested") is not None


# -- contracts ------------------------------------------------------------------------------


def of_language(language: str, text: str = "x") -> Target:
    name = {"cuda": "k.cu", "hip": "k.hip", "c": "k.c", "cpp": "k.cpp"}.get(language, "k.py")
    return Target.model_validate(
        {
            **target().model_dump(exclude={"build", "keep"}),
            "language": language,
            "kernel": {"path": name, "text": text},
        }
    )


def of_repository() -> Target:
    spec = CommandSpec(
        repo="/repo", commit="0123456789abcdef", editable=("src/*.c",), build="make all",
        test="make check", benchmark="./bench", metric="us", unit="us", rows=("n",),
        gate="err == 0",
    )  # fmt: skip
    return Target(name="r", language="command", kernel=SourceFile(path="src/a.c", text="x"),
                  command=spec)  # fmt: skip


@pytest.mark.parametrize(
    ("held", "named", "unnamed"),
    [
        (of_language("c"), ("solve", "OpenMP"), ("run_kernel", 'extern "C"')),
        (of_language("cpp"), ("solve", 'extern "C"', "OpenMP"), ("run_kernel",)),
        (of_language("cuda"), ("solve", 'extern "C"', "stream"), ("run_kernel", "OpenMP")),
        (of_language("hip"), ("solve", 'extern "C"', "stream"), ("run_kernel", "OpenMP")),
        (of_language("triton"), ("run_kernel", "setup"), ("solve", "OpenMP")),
        (of_language("torch"), ("run_kernel", "setup"), ("solve", "OpenMP")),
        (of_repository(), ("src/*.c", "make check", "./bench", "err == 0"), ("solve", "setup")),
    ],
    ids=["c", "cpp", "cuda", "hip", "triton", "torch", "command"],
)
def test_a_contract_is_that_of_its_language(
    held: Target, named: Sequence[str], unnamed: Sequence[str]
) -> None:
    text = contract_of(held)
    assert [one for one in named if one not in text] == []
    assert [one for one in unnamed if one in text] == []
    assert timing_of(held, 2)


def test_a_contract_names_the_parameters() -> None:
    text = contract_of(of_language("c"), SIGNATURE)
    assert all(f"`{parameter.name}`" in text for parameter in SIGNATURE.parameters)


# -- commands and notes ---------------------------------------------------------------------


def test_a_contract_says_how_exact_results_have_to_be() -> None:
    honest = ErrorReport(
        workload="N=1", output="y", norm_error=2e-7, norm_budget=4e-6, element_error=3e-7,
        element_budget=9e-6, honest_norm_error=1e-7, honest_element_error=1e-7,
    )  # fmt: skip
    harder = honest.model_copy(update={"norm_budget": 1e-6, "element_error": 5e-6})
    whole = honest.model_copy(update={"output": "n", "norm_budget": 0.0, "element_budget": 0.0})
    first, second = exactness_of((honest, harder, whole)).splitlines()
    assert [figure in first for figure in ("1e-06", "9e-06", "2e-07", "5e-06")] == [True] * 4
    assert "exactly" in second


def test_commands_have_the_campaigns_own_paths() -> None:
    found = document(brief_of(softmax_campaign()), HERE)
    assert all("'/somewhere/a campaign" in line for line in found["commands"].values())
    assert f"asks/round-{found['round']}/sources/softmax.c" in found["commands"]["check"]
    text = markdown(found)
    for name in ("tell", "check", "bench", "profile"):
        assert found["commands"][name] in text


def test_a_target_without_notes_has_the_digest_that_it_had() -> None:
    assert "notes" not in target().model_dump()
    noted = target().model_copy(update={"notes": "x"})
    assert noted.digest != target().digest
    assert Target.model_validate(noted.model_dump()) == noted


def test_of_an_h100_s_counters_those_of_the_bottleneck_are_shown() -> None:
    """Recorded ones: a kernel built to spill, one with bank conflicts, one of few warps."""
    shown = {name: telling(name) for name in ("register_spills", "bank_conflicts", "low_occupancy")}
    assert "spill_requests" in shown["register_spills"]
    assert "excess_shared_wavefronts" in shown["bank_conflicts"]
    assert {"achieved_occupancy", "registers_per_thread"} <= set(shown["low_occupancy"])


def telling(name: str) -> list[str]:
    profile, seen = classified(RECORDED[name])
    return [one.name for one in telling_counters(profile, seen.kind).values()]


FILLER = "".join(f"static int f{n}(int x) {{\n    return x + {n};\n}}\n" for n in range(2000))
HOT = "void solve(const float* a) {\n    if (a) {\n        work(a);\n    }\n}\n"


def size(text: str) -> int:
    return len(text.encode())


def test_a_short_file_is_whole() -> None:
    assert excerpts({"k.c": HOT}, Hot(("solve",)), 10_000) == {"k.c": HOT}


def test_the_hot_function_is_whole_wherever_it_stands() -> None:
    shown = excerpt(FILLER + HOT + FILLER, Hot(("solve",)), 4000)
    assert HOT.strip() in shown
    assert "f0(int" in shown
    assert size(shown) <= 4000


def test_a_declaration_is_no_definition() -> None:
    text = f"void solve(const float* a);\n{FILLER}{HOT}{FILLER}"
    assert "work(a);" in excerpt(text, Hot(("solve",)), 4000)


def test_a_function_of_python_ends_with_its_indentation() -> None:
    body = "def run_kernel(x, y):\n    first(x)\n\n    last(y)\n"
    filler = "".join(f"def g{n}():\n    return {n}\n\n\n" for n in range(2000))
    shown = excerpt(filler + body + filler, Hot(("run_kernel",)), 3000)
    assert body.strip() in shown


def test_hot_lines_come_before_functions() -> None:
    text = FILLER + HOT
    line = text.split("\n").index("    return x + 999;") + 1
    shown = excerpt(text, Hot(("solve",), {"k.c": [line]}), 1500, "k.c")
    assert "return x + 999;" in shown


def test_room_is_shared_among_files() -> None:
    files = {"a.c": FILLER, "b.c": HOT, "c.c": FILLER}
    shown = excerpts(files, Hot(("solve",)), 6000)
    assert list(shown) == list(files)
    assert shown["b.c"] == HOT
    assert sum(map(size, shown.values())) <= 6000


def test_of_ten_thousand_files_some_are_shown() -> None:
    files = {f"src/{n}.c": HOT for n in range(10_000)}
    shown = excerpts(files, Hot(("solve",)), 6000)
    assert 0 < len(shown) < 200


@given(st.lists(st.text(max_size=300), max_size=60), st.integers(200, 5000))
def test_it_fits(lines: list[str], room: int) -> None:
    text = "\n".join(lines)
    if size(text) > room:
        assert size(excerpt(text, Hot(("solve",)), room)) <= room
    (shown,) = (*excerpts({"k.c": text}, Hot(), room).values(), "")[:1]
    assert size(shown) <= room
