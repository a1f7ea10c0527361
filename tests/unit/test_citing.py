"""What proposers and tips say is checked before it is taken, so that every campaign passes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from pathlib import Path

import pytest
from campaign_builder import softmax_campaign
from hypothesis import given
from hypothesis import strategies as st
from test_audit import BANDWIDTH, sources
from test_audit_rule import SAID_OF_A_DEVICE, SAID_OF_A_KERNEL
from typer.testing import CliRunner

from roofsmith.analysis.audit import Sources, audit, audit_text
from roofsmith.analysis.audit_strike import LEFT_OUT, struck
from roofsmith.app.citing import CitedProposer, CitedTips, require_cited
from roofsmith.app.wiring import make_proposer
from roofsmith.cli.root import cli
from roofsmith.config import Settings
from roofsmith.domain.campaign import Campaign
from roofsmith.domain.kernel import Candidate, SourceFile
from roofsmith.domain.outcome import Passed
from roofsmith.domain.proposal import Hypothesis, Proposal, ScreenedPoint
from roofsmith.domain.tip import Tip
from roofsmith.errors import UsageError
from roofsmith.ports import Brief
from roofsmith.report.campaign_files import render_campaign
from roofsmith.specs.wiki import Wiki
from roofsmith.testing.proposer import (
    FakeScreen,
    ProposerConformance,
    ScriptedProposer,
    brief_for,
)
from roofsmith.testing.store import MemoryTips

KERNEL = Candidate(
    language="c", sources=(SourceFile(path="solve.c", text="void solve(float *out, int N) {}\n"),)
)
CITED = f"the H100 has 3.35 TB/s <- {BANDWIDTH.citation}"
CLAIM = "the H100 has 3.35 TB/s"
WIKI = Sources(Wiki.load().resolve)
FIELDS = ("statement", "rationale", "evidence", "expected_change", "source")


@pytest.fixture
def places(tmp_path: Path) -> Settings:
    """Folders of a user of their own."""
    (tmp_path / "wiki").mkdir()
    return Settings.from_environment(
        {"ROOFSMITH_CACHE": str(tmp_path / "cache"), "ROOFSMITH_WIKI": str(tmp_path / "wiki")},
        tmp_path,
    )


def proposal(field: str = "statement", words: str = "unroll") -> Proposal:
    """One change that says the words in one place."""
    said = {"statement": "unroll", "rationale": "fewer branches", "tactic": "hand"}
    value: object = (words,) if field == "evidence" else words
    hypothesis = Hypothesis.model_validate(said | ({field: value} if field != "screened" else {}))
    point = ScreenedPoint(label=words, candidate_id="a", outcome=Passed(), speedup=None)
    changed = KERNEL.model_copy(
        update={"sources": (SourceFile(path="solve.c", text="/* two */\n"),)}
    )
    return Proposal(
        hypothesis=hypothesis, candidate=changed, screened=(point,) if field == "screened" else ()
    )


def recorded(tmp_path: Path, *proposals: Proposal) -> Path:
    """The changes as a file that can be replayed."""
    path = tmp_path / "changes.jsonl"
    path.write_text("".join(f"{p.model_dump_json()}\n" for p in proposals))
    return path


# -- proposals ------------------------------------------------------------------------------


class TestCitedProposer(ProposerConformance):
    """It is a proposer like any other."""

    def proposer(self) -> CitedProposer:
        settings = Settings(cache_dir=Path("/nowhere"), campaigns_dir=Path("/nowhere"))
        return CitedProposer(ScriptedProposer([proposal()]), settings)

    def brief(self) -> Brief:
        return brief_for(KERNEL)


@pytest.mark.parametrize("field", [*FIELDS, "screened"])
def test_whoever_proposes_a_number_without_a_citation_is_refused(
    places: Settings, field: str
) -> None:
    proposer = CitedProposer(ScriptedProposer([proposal(field, CLAIM)]), places)
    with pytest.raises(UsageError, match=r"scripted proposes .*\n.* 3\.35 TB/s: .*citation"):
        proposer.ask(brief_for(KERNEL), FakeScreen())
    cited = CitedProposer(ScriptedProposer([proposal(field, CITED)]), places)
    assert cited.ask(brief_for(KERNEL), FakeScreen()) == proposal(field, CITED)


def test_what_the_campaign_s_own_profile_says_is_no_claim_of_the_proposer(
    places: Settings,
) -> None:
    brief = brief_for(KERNEL)
    held = brief.bottleneck.model_copy(update={"evidence": (CLAIM,)})
    brief = brief_for(KERNEL, bottleneck=held)
    proposer = CitedProposer(ScriptedProposer([proposal("evidence", CLAIM)]), places)
    assert proposer.ask(brief, FakeScreen()) is not None


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("names", ["replay:{}", "recipes,replay:{}"])
def test_a_file_with_such_a_number_is_refused_before_anything_begins(
    places: Settings, tmp_path: Path, names: str, field: str
) -> None:
    path = recorded(tmp_path, proposal(), proposal(field, CLAIM))
    with pytest.raises(UsageError, match=rf"changes\.jsonl proposes .*\n.*{field}: 3\.35 TB/s"):
        make_proposer(names.format(path), places)


def test_nothing_is_left_of_a_campaign_that_was_refused(tmp_path: Path) -> None:
    path = recorded(tmp_path, proposal("rationale", CLAIM))
    target = Path(__file__).parents[2] / "examples" / "softmax"
    arguments = ["optimize", str(target), "--proposer", f"replay:{path}", "-o"]
    result = CliRunner().invoke(cli, [*arguments, str(tmp_path / "run")])
    assert (result.exit_code, (tmp_path / "run").exists()) == (2, False)
    assert "rationale: 3.35 TB/s" in result.stderr
    assert "try: " in result.stderr


def test_a_citation_of_the_ledger_is_looked_up_once_there_is_one(
    places: Settings, tmp_path: Path
) -> None:
    words = f"it has 2 cores <- {softmax_campaign().started.facts.other[0].citation}"
    proposer = make_proposer(f"replay:{recorded(tmp_path, proposal('statement', words))}", places)
    with pytest.raises(UsageError, match="no number is known at"):
        proposer.ask(brief_for(KERNEL), FakeScreen())


def test_what_is_taken_passes_in_every_file_that_shows_it() -> None:
    words = iter([*SAID_OF_A_KERNEL, CITED, f"{'so ' * 40}{CITED}"])
    padding = cycle(SAID_OF_A_KERNEL)
    left = True
    while left:
        campaign = softmax_campaign()
        rounds = []
        for round_ in campaign.rounds:
            said = [next(words, "") for _ in FIELDS]
            left = bool(said[-1])
            said = [text or next(padding) for text in said]
            update = {f: (t,) if f == "evidence" else t for f, t in zip(FIELDS, said, strict=True)}
            hypothesis = round_.hypothesis.model_copy(update=update)
            require_cited(hypothesis, sources(campaign))
            rounds.append(round_.model_copy(update={"hypothesis": hypothesis}))
        assert_passes(campaign.model_copy(update={"rounds": tuple(rounds)}))


def assert_passes(campaign: Campaign) -> None:
    """Every file of statements of a campaign passes its audit."""
    files = {n: text for n, text in render_campaign(campaign).files.items() if "snapshot" not in n}
    assert [str(problem) for problem in audit(files, sources(campaign)).problems] == []


# -- tips -----------------------------------------------------------------------------------


def tip(takeaway: str, **fields: str) -> Tip:
    """A tip that somebody wrote."""
    common = dict.fromkeys(("lesson", "context", "signal", "applicability", "at"), "")
    return Tip.model_validate(common | {"takeaway": takeaway, "origin": "Ada"} | fields)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (CLAIM, f"the H100 has {LEFT_OUT}"),
        (CITED, CITED),
        ("reaches 2.1 TB/s", "reaches 2.1 TB/s"),
        ("tile for the 50 MB L2", f"tile for the {LEFT_OUT} L2"),
        ("tile for the **50** MB L2", f"tile for the {LEFT_OUT} L2"),
        ("copy: 2.31e+10 byte/s <- /a/b.json:6 (x, y), so tile", f"copy: {LEFT_OUT}, so tile"),
        (f"{CITED.replace('3.35', '3.45')}, so tile", f"the H100 has {LEFT_OUT}, so tile"),
        ("all of the 132 SMs, 132 SMs", f"all of the {LEFT_OUT}, {LEFT_OUT}"),
        ("see <- ledger.jsonl:1", f"see {LEFT_OUT}"),
    ],
)  # fmt: skip
def test_numbers_that_do_not_hold_are_taken_out(text: str, left: str) -> None:
    assert struck(text, WIKI) == left


@given(
    st.lists(st.sampled_from((*SAID_OF_A_DEVICE, *SAID_OF_A_KERNEL, CITED)), max_size=4)
    | st.lists(st.text(max_size=60), max_size=4)
)
def test_what_is_left_of_any_text_holds(sentences: Sequence[str]) -> None:
    text = "; ".join(sentences)
    left = struck(text, WIKI)
    assert left is None or not audit_text("x", left, WIKI)
    if not audit_text("x", text, WIKI):
        assert left == text


def test_a_shelf_without_numbers_that_nobody_vouches_for(places: Settings) -> None:
    told = [
        tip("one block per row"),
        tip("tile for the 50 MB L2", context=CITED),
        tip("stream", signal="2.3e+10 byte/s <- /gone/ceilings-1.json:6"),
        tip("x", context="sm_count: 132"),
    ]
    found = CitedTips(MemoryTips(told), places).read()
    takeaways = ["one block per row", f"tile for the {LEFT_OUT} L2", "stream"]
    assert [t.takeaway for t in found] == takeaways
    assert (found[1].context, found[2].signal) == (CITED, LEFT_OUT)
    assert CitedTips(MemoryTips(), places).read() == ()


def test_a_campaign_with_tips_of_anybody_passes(places: Settings) -> None:
    told = [tip(text, context=text, signal=text, applicability=text) for text in SAID_OF_A_DEVICE]
    tips = CitedTips(MemoryTips(told), places).read()
    assert len(tips) > len(told) / 2
    campaign = softmax_campaign()
    started = campaign.started.model_copy(update={"tips": tips})
    assert_passes(campaign.model_copy(update={"started": started}))
    as_they_were = campaign.started.model_copy(update={"tips": tuple(told)})
    files = render_campaign(campaign.model_copy(update={"started": as_they_were})).files
    assert audit(files, sources(campaign)).problems
