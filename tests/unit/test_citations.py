"""Citations in text: what they look like, where they lead, whether they hold."""

from __future__ import annotations

import html
import json
from pathlib import Path

import pytest
from campaign_builder import campaign_of, softmax_campaign, softmax_events
from hypothesis import given, settings
from hypothesis import strategies as st
from test_report_datasheets import gpu_campaign

from roofsmith.analysis.own_facts import own_facts
from roofsmith.analysis.quantities import hardware_quantities, quantity
from roofsmith.api.citations import citation_check, lookup_for
from roofsmith.citations.check import CitationAudit, audit, check
from roofsmith.citations.form import citations_in, parse
from roofsmith.citations.sources import CitationSource, CitationSources
from roofsmith.config import Settings
from roofsmith.domain.campaign import Campaign, Round
from roofsmith.domain.citations import CheckedCitations
from roofsmith.domain.facts import Citation, Fact
from roofsmith.domain.profile import Counter
from roofsmith.domain.proposal import Hypothesis
from roofsmith.report.campaign_files import render_campaign
from roofsmith.specs.wiki import Wiki

NOWHERE = Settings(cache_dir=Path("/nowhere"), campaigns_dir=Path("/nowhere"))
LOOKUP = lookup_for(NOWHERE)
CHECK = citation_check(NOWHERE)
PAGE = Wiki.load().page("nvidia-h100-sxm5-80gb")
BANDWIDTH = PAGE.entries["memory.bandwidth_byte_per_s"].fact()
L2 = PAGE.entries["caches.l2_bytes"].fact()
SMS = PAGE.entries["execution.sm_count"].fact()
PLACE = str(BANDWIDTH.citation)
GPU = gpu_campaign(identified=True)


def sources(campaign: Campaign | None = None) -> CitationSources:
    return CitationSources(LOOKUP, own_facts(campaign.started) if campaign else ())


def audited(text: str, campaign: Campaign | None = None) -> CitationAudit:
    return audit({"notes.md": text}, sources(campaign))


def kinds(found: CitationAudit) -> list[str]:
    return [problem.kind for problem in found.problems]


def checked(
    statement: str = "unroll", *facts: str, campaign: Campaign | None = None, **more: object
) -> CheckedCitations:
    said = {"statement": statement, "rationale": "", "tactic": "hand", "facts": facts, **more}
    return CHECK(Hypothesis.model_validate(said), campaign)


# -- the form -----------------------------------------------------------------------------------

words = st.text(st.characters(categories=["L", "N"], include_characters=" ,()."), min_size=1)
metrics = words.map(lambda text: " ".join(text.split())).filter(bool)
units = st.sampled_from(
    sorted({e.told.unit for p in Wiki.load().pages for e in p.entries.values()})
)
magnitudes = st.floats(1e-9, 1e18) | st.integers(0, 2**53).map(float)
paths = st.sampled_from(
    ["wiki/a-b.yaml", "/home/joe b/(x)/mine.yaml", "/c/ceilings-0a_1b.json", "CUDA driver, f"]
)
commands = st.none() | st.just("roofsmith specs show --threads 2")
citations = st.builds(
    Citation, path=paths, line=st.none() | st.integers(1, 999), command=commands,
    date=st.none() | st.just("2026-04-12 09:58"),
)  # fmt: skip
facts = st.builds(Fact, metric=metrics, value=magnitudes, unit=units, citation=citations)


@given(facts)
def test_what_a_fact_prints_is_read_back(fact: Fact) -> None:
    cited = parse(str(fact))
    assert (cited.metric, cited.place) == (fact.metric, str(fact.citation))
    assert cited.quantity.says(fact)
    assert check(cited, CitationSources(lambda _: (), [fact])) is None


@given(facts.filter(lambda fact: " " not in fact.unit))
def test_what_a_fact_prints_holds_in_every_kind_of_file(fact: Fact) -> None:
    known = CitationSources(lambda _: (), [fact])
    for line in (
        f"- {fact}", f"| {fact} | {fact} |", f"<td>{html.escape(str(fact))}</td>",
        json.dumps({"description": str(fact)}, ensure_ascii=False), f"Rests on: {fact}",
    ):  # fmt: skip
        found = audit({"a": line}, known)
        assert found.citations >= 1
        assert found.problems == ()


@pytest.mark.parametrize(
    "text", ["", "bandwidth", "3 TB/s", str(Fact(metric="a", value=None, unit="1"))]
)
def test_what_is_not_in_the_form(text: str) -> None:
    assert parse(text) is None
    assert len(checked("unroll", text).problems) == 1


@given(st.text(max_size=200) | st.lists(st.sampled_from(
    [" <- ", "&lt;-", "a/b.c", ":1", "bandwidth: ", "3 TB/s", "<td>", '"', "\\", PLACE]
)).map("".join))  # fmt: skip
def test_any_text_can_be_read(text: str) -> None:
    audited(text)
    checked(text, text, evidence=(text,))


@pytest.mark.parametrize(
    "text",
    [
        "a: 1e400 GB/s <- b/c:1", "a: 1e99999 GB/s <- b/c:1", f"a: 1 GB/s <- b/c:{'9' * 5000}",
        f"{'a: 1 b ' * 20000}<- ", f"{'1' * 5000} GB/s <- b/c:1", f"{'a: ' * 50000}1 B <- b/c:1",
        "1 B <- " * 20000, "a/b:" * 50000 + " <- " + "a/b:" * 50000, "٣ GB/s <- b/c:٣",
    ],
)  # fmt: skip
def test_hostile_text_is_read_at_once(text: str) -> None:
    assert checked("unroll", text).problems
    checked(text, campaign=GPU, evidence=(text,))


@pytest.mark.parametrize("line", ["x[i] <- y:3", "a <- b", "r2 <- r1 + 4:8", "if (a<-1) b();"])
def test_other_arrows_are_no_citations(line: str) -> None:
    assert list(citations_in(line)) == []


# -- numbers ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "unit", "fact", "agrees"),
    [
        ("3.35", "TB/s", BANDWIDTH, True),
        ("3350", "GB/s", BANDWIDTH, True),
        ("3.35e+12", "byte/s", BANDWIDTH, True),
        ("3,350", "GB/s", BANDWIDTH, True),
        ("3.3", "TB/s", BANDWIDTH, False),
        ("3", "TB/s", BANDWIDTH, False),
        ("3.45", "TB/s", BANDWIDTH, False),
        ("3.35", "GB/s", BANDWIDTH, False),
        ("3.35", "TB", BANDWIDTH, False),
        ("3.35", "TFLOP/s", BANDWIDTH, False),
        ("3.35", "Tb/s", BANDWIDTH, False),
        ("50", "MiB", L2, True),
        ("50", "MB", L2, True),
        ("52.4", "MB", L2, True),
        ("51", "MB", L2, False),
        ("132", "SM", SMS, True),
        ("132", "SMs", SMS, True),
        ("114", "SMs", SMS, False),
    ],
)
def test_value_and_unit_agree_to_the_digits_shown(
    number: str, unit: str, fact: Fact, agrees: bool
) -> None:
    assert quantity(number, unit).says(fact) is agrees


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("228 KB, 50MB, 64 KiB", ["228 KB", "50 MB", "64 KiB"]),
        ("2.1 TB/s or 900 GB/s or 3e12 byte/s", ["2.1 TB/s", "900 GB/s", "3e12 byte/s"]),
        ("989 TFLOPS, 67 TFLOP/s, 1979 TOPS", ["989 TFLOPS", "67 TFLOP/s", "1979 TOPS"]),
        ("1980 MHz and 1.98 GHz", ["1980 MHz", "1.98 GHz"]),
        ("16-byte loads, 8 warps, 25%, 2 ms, 4096 rows, 137 GFLOP", []),
        ("16 KB/thread, v100GB, 2.KBs, fp16 GB", []),
    ],
)
def test_numbers_with_a_unit_of_hardware(text: str, found: list[str]) -> None:
    assert [number.text for number in hardware_quantities(text)] == found


# -- sources ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metric", "known"),
    [
        ("memory.bandwidth_byte_per_s", True),
        ("bandwidth", True),
        ("memory bandwidth", True),
        ("- H100 SXM bandwidth", True),
        ('"fact": "bandwidth', True),
        ("L2 bandwidth", False),
        ("fp16", False),
        ("A100 bandwidth", False),
    ],
)
def test_the_metric_agrees(metric: str, known: bool) -> None:
    found = audited(f"{metric}: 3.35 TB/s <- {PLACE}")
    assert kinds(found) == ([] if known else ["differs"])


@pytest.mark.rule("citations-checked")
@pytest.mark.parametrize(
    ("text", "problems"),
    [
        (f"bandwidth: 3.35 TB/s <- {PLACE}", []),
        (f"bandwidth: 3.35 TB/s <- {PLACE.replace(':', ':L')}", []),
        (f"the H100 has **3.35 TB/s** <- `{PLACE}`, so stream", []),
        (f"see <- {PLACE}", []),
        (f"bandwidth: 3.45 TB/s <- {PLACE}", ["differs"]),
        (f"the H100 has 3.45 TB/s <- {PLACE}", ["differs"]),
        (f"bandwidth: 3.35 TB/s <- {PLACE}0", ["unresolved"]),
        ("bandwidth: 3.35 TB/s <- wiki/none.yaml:2", ["unresolved"]),
        ("see <- wiki/none.yaml:2", ["unresolved"]),
        ("bandwidth: 3.35 TB/s <- a blog", ["malformed"]),
        (f"identity.vendor: NVIDIA <- {PAGE.entries['identity.vendor'].citation}", []),
        (f"it has 3 dies <- {PAGE.entries['identity.vendor'].citation}", ["differs"]),
    ],
)
def test_citations_in_a_file(text: str, problems: list[str]) -> None:
    found = audited(text)
    assert (found.citations, kinds(found)) == (1, problems)


def test_a_problem_says_where_and_what_to_do() -> None:
    (problem,) = audited(f"# Plan\n\nbandwidth: 3.45 TB/s <- {PLACE}\n").problems
    assert (problem.file, problem.line, problem.number) == ("notes.md", 3, "3.45 TB/s")
    assert BANDWIDTH.metric in problem.why
    assert problem.fix


def test_a_source_without_lines_is_known_by_its_facts() -> None:
    where = Citation(path="CUDA driver, cuDeviceGetAttribute", command="nvidia-smi -q")
    told = [
        Fact(metric="memory", value=8e10, unit="byte", citation=where),
        Fact(metric="multiprocessors", value=132, unit="SM", citation=where),
    ]
    known = CitationSources(lambda _: (), told)
    assert audit({"a": "\n".join(map(str, told))}, known).problems == ()
    assert kinds(audit({"a": str(told[0]).replace("memory", "multiprocessors")}, known)) == [
        "differs"
    ]


def test_the_ledgers_copy_counts_beside_a_file_that_was_measured_again() -> None:
    old = Fact(metric="copy", value=2e10, unit="byte/s", citation=Citation(path="a/b.json", line=6))
    new = old.model_copy(update={"value": 3e10})
    known = CitationSources(lambda _: (CitationSource(new),), [old])
    assert audit({"a": f"{old}\n{new}"}, known).problems == ()
    assert kinds(audit({"a": str(old)}, CitationSources(lambda _: (CitationSource(new),)))) == [
        "differs"
    ]


# -- hypotheses ---------------------------------------------------------------------------------


@pytest.mark.rule("hypothesis-facts")
@pytest.mark.parametrize(
    ("sentence", "unsourced"),
    [
        ("The tile must fit into the 228 KB of shared memory per SM", ["228 KB"]),
        ("memory-bound at 2.1 TB/s of the 3.35 TB/s peak", ["2.1 TB/s", "3.35 TB/s"]),
        ("H100 has 132 SMs, so launch 132 persistent blocks", ["132 SMs"]),
        ("L2 is 50MB and the weights are 34 MB, keep them resident", ["50 MB", "34 MB"]),
        ("Prefetch 64-byte cache lines from L1 (32 KB)", ["32 KB"]),
        ("Boost clock is 1980 MHz; expect 989 TFLOPS", ["1980 MHz", "989 TFLOPS"]),
        ("Each SM has 65536 registers, limit to 128 per thread", ["65536 registers"]),
        ("A warp has 32 threads, so reduce with shuffles", []),
        ("raise occupancy from 25% to 50%", []),
    ],
)
def test_no_sentence_is_refused(sentence: str, unsourced: list[str]) -> None:
    found = checked(sentence)
    assert found.problems == ()
    assert found.unsourced == tuple(f"statement: {number}" for number in unsourced)


@pytest.mark.parametrize(
    "field", ["statement", "rationale", "evidence", "expected_change", "source"]
)
def test_every_free_text_is_looked_at(field: str) -> None:
    text = f"at 3.45 TB/s, of 3.35 TB/s <- {PLACE}; 3.55 TB/s <- {PLACE}"
    found = checked(**{"statement": "a", field: (text,) if field == "evidence" else text})
    assert [number.split()[1] for number in found.unsourced] == ["3.45", "3.55"]
    (problem,) = found.problems
    assert problem.startswith(field)


@given(st.sampled_from(["3.35 TB/s", "3350 GB/s", "3350000 MB/s", "3.35e12 byte/s", "3.350TB/s"]))
def test_a_number_is_covered_by_a_citation_in_any_prefix(text: str) -> None:
    said = {"rationale": f"{text} are there", "evidence": (f"of {text}",)}
    assert checked("stream", **said).unsourced
    assert checked("stream", str(BANDWIDTH), **said) == CheckedCitations()


@pytest.mark.rule("hypothesis-facts")
@pytest.mark.parametrize(
    ("fact", "holds"),
    [
        (str(BANDWIDTH), True),
        (f"bandwidth: 3.35 TB/s <- {PLACE}", True),
        (f"bandwidth: 3.45 TB/s <- {PLACE}", False),
        (f"L2: 3.35 TB/s <- {PLACE}", False),
        (f"3.35 TB/s <- {PLACE}", False),
        (f"bandwidth <- {PLACE}", False),
        (str(softmax_campaign().started.facts.bandwidth[0].fact), False),
    ],
)
def test_given_facts_hold_or_are_problems(fact: str, holds: bool) -> None:
    found = checked("unroll", fact)
    assert (found.problems == ()) is holds
    assert all(problem.startswith("facts[0]: ") for problem in found.problems)


@pytest.mark.rule("hypothesis-facts")
def test_numbers_without_a_source_are_struck_and_the_nearest_facts_offered() -> None:
    said = "Keep 40 MB of the 50 MB resident; 132 SMs read at 3.35 TB/s for 9 cycles"
    found = checked(said, str(BANDWIDTH), campaign=GPU)
    assert found.struck is not None
    assert found.struck.statement == (
        "Keep 40 MB of the 50 MB resident; [unsourced] read at 3.35 TB/s for 9 cycles"
    )
    assert found.struck.facts == (str(BANDWIDTH),)
    assert str(L2) in found.nearest
    assert str(SMS) in found.nearest
    assert all(" <- " in fact for fact in found.nearest)
    assert checked(found.struck.statement, str(BANDWIDTH), campaign=GPU).struck is None


@pytest.mark.parametrize("field", ["risks", "rollback", "again", "rationale"])
def test_every_word_that_is_recorded_is_struck(field: str) -> None:
    struck = checked("unroll", **{field: "more than 64 GB/s"}).struck
    assert struck is not None
    assert getattr(struck, field) == "more than [unsourced]"


def test_what_the_campaign_counted_needs_no_citation() -> None:
    counter = Counter(name="dram_rate", value=2.31e10, unit="byte/s")
    profile = GPU.baseline.profile.model_copy(update={"counters": (counter,)})
    seen = GPU.model_copy(update={"baseline": GPU.baseline.model_copy(update={"profile": profile})})
    assert checked("23.1 GB/s are moved", campaign=seen).unsourced == ()
    assert checked("23.9 GB/s are moved", campaign=seen).unsourced == ("statement: 23.9 GB/s",)


def test_a_problem_is_no_citation_where_a_report_shows_it() -> None:
    wrong = (f"3.35 TB/s <- {PLACE}", f"a: 1 B <- {PLACE}", "a: 1 B <- b", "a: 1 B <- c/d:5")
    problems = checked("unroll", *wrong).problems
    assert len(problems) == len(wrong)
    assert audited("\n".join(problems)).citations == 0
    assert audited("\n".join(map(html.escape, problems))).citations == 0


def test_a_campaigns_facts_may_be_cited_and_its_words_are_no_claims() -> None:
    campaign = softmax_campaign()
    for fact in own_facts(campaign.started):
        assert checked("unroll", str(fact), campaign=campaign).problems == ()
    held = campaign.baseline.bottleneck.model_copy(update={"evidence": ("copies at 23.1 GB/s",)})
    first = campaign.baseline.model_copy(update={"bottleneck": held})
    measured = campaign.model_copy(update={"baseline": first})
    for known, marked in ((campaign, 1), (measured, 0)):
        found = checked("unroll", campaign=known, evidence=held.evidence)
        assert len(found.unsourced) == marked


def test_a_hypothesis_of_before_has_no_facts() -> None:
    document = softmax_campaign().rounds[0].hypothesis.model_dump(mode="json")
    del document["facts"]
    assert Hypothesis.model_validate(document).facts == ()


# -- campaigns ----------------------------------------------------------------------------------


def citing(fact: str) -> Campaign:
    """The softmax campaign, whose first idea rests on a fact."""
    events = softmax_events()
    number = next(n for n, event in enumerate(events) if isinstance(event, Round))
    first = events[number]
    assert isinstance(first, Round)
    hypothesis = first.hypothesis.model_copy(update={"facts": (fact,)})
    events[number] = first.model_copy(update={"hypothesis": hypothesis})
    return campaign_of(events)


def test_a_rounds_facts_are_shown_and_audited() -> None:
    campaign = citing(str(BANDWIDTH))
    files = render_campaign(campaign).files
    shown = {path for path, text in files.items() if str(BANDWIDTH) in text}
    assert "rounds/round-2/hypothesis.txt" in shown
    assert audit(files, sources(campaign)).problems == ()
    wrong = citing(str(BANDWIDTH).replace("3.35", "3.45"))
    assert {p.file for p in audit(render_campaign(wrong).files, sources(wrong)).problems} >= shown


RENDERED = {
    path: text
    for path, text in render_campaign(GPU).files.items()
    if "<-" in text or "&lt;-" in text
}
LINES = [
    (path, number)
    for path, text in RENDERED.items()
    for number, line in enumerate(text.splitlines())
    if any(cited.quantity is not None for cited in citations_in(line))
]


@pytest.mark.rule("citations-checked")
@settings(max_examples=60, deadline=None)
@given(st.sampled_from(LINES), st.integers(2, 9))
def test_a_number_that_was_changed_is_found(place: tuple[str, int], factor: int) -> None:
    path, number = place
    lines = RENDERED[path].splitlines()
    cited = next(c for c in citations_in(lines[number]) if c.quantity is not None)
    written = cited.quantity.text.split()[0]
    other = repr(float(written) * factor)
    lines[number] = lines[number].replace(f"{written} ", f"{other} ", 1)
    found = audit({path: "\n".join(lines)}, sources(GPU))
    assert [(p.line, p.kind) for p in found.problems] == [(number + 1, "differs")]


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from([f for f in GPU.started.facts.facts() if "wiki/" in str(f.citation)]),
    st.integers(1, 10**5),
)
def test_a_citation_that_leads_elsewhere_is_found(fact: Fact, line: int) -> None:
    moved = fact.model_copy(update={"citation": fact.citation.model_copy(update={"line": line})})
    holds = audited(str(moved)).problems == ()
    assert holds is (line == fact.citation.line)
