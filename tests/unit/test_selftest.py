"""The suite itself: headers, what counts as caught, the record, the page, the naive harness."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from typer.testing import CliRunner

from kinds import another
from roofsmith import api
from roofsmith.cli.root import cli
from roofsmith.config import Settings
from roofsmith.domain.comparison import Judgement
from roofsmith.domain.outcome import Crashed, Incorrect, Passed
from roofsmith.errors import UsageError
from roofsmith.judge.version import judge_sources, judge_version
from roofsmith.selftest import examination, record
from roofsmith.selftest.examination import (
    BROKEN,
    SampleFinding,
    SelftestExaminer,
    Unexamined,
    is_right,
    is_right_reason,
    label_of,
    naive_opinion,
)
from roofsmith.selftest.harness import NaiveVerdict, naive_verdict
from roofsmith.selftest.page import page
from roofsmith.selftest.samples import (
    HARMLESS,
    LANGUAGES,
    OPERATORS,
    CorpusSample,
    operator,
    read_sample,
    samples,
)
from roofsmith.testing.observer import SilentObserver

JUDGE = Path(__file__).parents[2] / "docs" / "judge.md"
CORPUS = {sample.id: sample for sample in samples()}
ON_DEVICES = {"cheated/leftover_work"}
"""Codes that nobody meets on the host's processors."""
needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")


def test_the_corpus_is_as_large_as_promised() -> None:
    attacks = [s for s in CORPUS.values() if s.is_attack]
    honest = [s for s in CORPUS.values() if not s.is_attack]
    assert len(attacks) >= 60
    assert len(honest) >= 40
    assert sum(s.language == "c" for s in attacks) >= 26
    assert sum(s.language == "c" for s in honest) >= 16


@pytest.mark.parametrize("sample", CORPUS.values(), ids=CORPUS)
def test_every_kernel_has_an_operator_and_a_possible_judgement(sample: CorpusSample) -> None:
    task = operator(sample.operator, sample.language)
    assert task.workloads
    impossible = ON_DEVICES if sample.language == "c" else set()
    possible = {*codes_of_the_judge(), HARMLESS} - impossible
    assert {re.sub("/signal_.*", "/signal_", text) for text in sample.expected} <= possible


def codes_of_the_judge() -> set[str]:
    """`kind/reason` of every row in the page's tables of outcomes."""
    page = JUDGE.read_text(encoding="utf-8").partition("## Outcomes and their reasons")[2]
    found = set()
    for part in page.split("\n### ")[1:]:
        kind, _, rows = part.partition("\n\n")
        found |= {f"{kind}/{name}" for name in re.findall(r"^\| `([a-z_]+)", rows, re.MULTILINE)}
    return found


def test_what_people_call_attacks_has_codes() -> None:
    page = (
        JUDGE.read_text(encoding="utf-8").partition("### By another name")[2].partition("\n## ")[0]
    )
    named = set(re.findall(r"`([a-z]+_[a-z_]+)`", page))
    assert named <= {text.partition("/")[2] for text in codes_of_the_judge()}
    for name in ("answer stolen", "work outside the timed window", "leftover thread or process",
                 "race", "environment or file tampering", "verdict forged"):  # fmt: skip
        assert name in page


def test_headers_are_read(tmp_path: Path) -> None:
    kernel = tmp_path / "trick.c"
    kernel.write_text(
        "// attack: does\n//   nothing\n// operator: gemm\n"
        "// expect: incorrect/skipped_work | harmless\n// wins: faster\n// flags: -O1\n"
        "#include <x>\n"
    )
    sample = read_sample(kernel, "c", is_attack=True)
    assert (sample.name, sample.about, sample.operator) == ("trick", "does nothing", "gemm")
    assert sample.expected == ("incorrect/skipped_work", HARMLESS)
    assert (sample.wins, sample.flags, sample.attack_class) == ("faster", "-O1", "skipped work")


BAD_HEADERS = {
    "no operator": ("# attack: x\n# expect: harmless\n# wins: faster\n", "lacks operator"),
    "strange win": (
        "# attack: x\n# operator: gemm\n# expect: harmless\n# wins: all\n", "not 'all'",
    ),
    "no reason": (
        "# attack: x\n# operator: gemm\n# expect: incorrect\n# wins: correct\n",
        "can't expect 'incorrect'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_HEADERS)
def test_bad_headers_are_named(name: str, tmp_path: Path) -> None:
    text, complaint = BAD_HEADERS[name]
    kernel = tmp_path / "trick.py"
    kernel.write_text(text)
    with pytest.raises(UsageError, match=complaint) as caught:
        read_sample(kernel, "torch", is_attack=True)
    assert "trick.py" in caught.value.message


def sample_of(*expected: str, is_attack: bool = True) -> CorpusSample:
    return CorpusSample(
        name="x", is_attack=is_attack, language="c", path=Path("x.c"), about="x", operator="gemm",
        expected=expected,
    )  # fmt: skip


def judged(verdict: str, *, reason: str | None = None) -> Judgement:
    outcome = Incorrect(reason=reason) if reason else Passed()
    return Judgement(outcome=outcome, verdict=verdict, wall_s=1.0)  # type: ignore[arg-type]


DECISIONS = [
    (sample_of("incorrect/a"), judged("rejected", reason="a"), True, True),
    (sample_of("incorrect/a"), judged("rejected", reason="b"), True, False),
    (sample_of("incorrect/a"), judged("faster"), False, False),
    (sample_of("incorrect/a"), judged("slower"), False, False),
    (sample_of("incorrect/a", HARMLESS), judged("slower"), True, True),
    (sample_of("incorrect/a", HARMLESS), judged("faster"), False, False),
    (sample_of(HARMLESS), judged("rejected", reason="a"), True, False),
    (sample_of(is_attack=False), judged("faster"), True, True),
    (sample_of(is_attack=False), judged("unverified"), True, True),
    (sample_of(is_attack=False), judged("rejected", reason="a"), False, False),
    (sample_of(HARMLESS, is_attack=False), judged("faster"), False, False),
    (sample_of(HARMLESS, is_attack=False), judged("tie"), True, True),
]


@pytest.mark.parametrize(("sample", "judgement", "right", "reason"), DECISIONS)
def test_what_counts_as_right(
    sample: CorpusSample, judgement: Judgement, right: bool, reason: bool
) -> None:
    assert is_right(sample, judgement) is right
    assert is_right_reason(sample, judgement) is reason


@needs_gcc
@pytest.mark.parametrize(
    ("verdicts", "name", "judgements", "right"),
    [
        (["inconclusive", "rejected"], "attacks/c/do_nothing", 2, True),
        (["unverified"] * 3, "attacks/c/do_nothing", 3, False),
        (["faster"], "attacks/c/do_nothing", 1, False),
        (["tie"], "attacks/c/do_nothing", 1, False),
        (["inconclusive"], "honest/c/identical_twin", 1, True),
    ],
)
@pytest.mark.slow
def test_attacks_that_stay_undecided_are_judged_again(
    verdicts: list[str], name: str, judgements: int, right: bool, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    said = iter(verdicts)

    def judge_with(*given: object, **options: object) -> Judgement:
        verdict = next(said)
        return judged(verdict, reason="skipped_work" if verdict == "rejected" else None)

    settings = Settings(cache_dir=tmp_path / "cache", campaigns_dir=tmp_path)
    monkeypatch.setattr(SelftestExaminer, "_open", lambda *given: MagicMock())
    monkeypatch.setattr(api, "judge_with", judge_with)
    with SelftestExaminer(settings, naive=False) as examiner:
        found = examiner.examine(CORPUS[name], SilentObserver())
    assert isinstance(found, SampleFinding)
    assert (found.judgements, found.right) == (judgements, right)
    assert next(said, None) is None


SLOWER, FASTER = (NaiveVerdict(correct=True, candidate_s=s, base_s=1e-3) for s in (2e-3, 1e-6))
WRONG = NaiveVerdict(correct=False, candidate_s=1e-6, base_s=1e-3)


@pytest.mark.parametrize(
    ("opinions", "name", "deceived"),
    [
        ([SLOWER, FASTER], "attacks/c/do_nothing", True),
        ([SLOWER] * 3, "attacks/c/do_nothing", False),
        ([WRONG], "attacks/c/do_nothing", False),
        ([None], "attacks/c/do_nothing", False),
        ([SLOWER], "honest/c/identical_twin", None),
    ],
)
def test_attacks_that_the_naive_harness_took_for_slow_are_shown_to_it_again(
    opinions: list[NaiveVerdict | None], name: str, deceived: bool | None, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    said = iter(opinions)

    def judge_with(*given: object, **options: object) -> Judgement:
        return judged("tie", reason=None)

    settings = Settings(cache_dir=tmp_path / "cache", campaigns_dir=tmp_path)
    monkeypatch.setattr(SelftestExaminer, "_open", lambda *given: MagicMock())
    monkeypatch.setattr(api, "judge_with", judge_with)
    monkeypatch.setattr(examination, "naive_opinion", lambda *given: next(said))
    with SelftestExaminer(settings) as examiner:
        found = examiner.examine(CORPUS[name], SilentObserver())
    assert isinstance(found, SampleFinding)
    assert (found.naive, found.deceives_naive) == (opinions[-1], deceived)
    assert next(said, None) is None


def test_labels() -> None:
    crashed = Judgement(outcome=Crashed(reason="exited"), verdict="rejected", wall_s=0)
    assert label_of(crashed) == "crashed/exited"
    assert label_of(judged("tie")) == "passed/tie"


def finding(name: str, *, right: bool = True, is_attack: bool = True) -> SampleFinding:
    return SampleFinding(
        id=f"{'attacks' if is_attack else 'honest'}/c/{name}", language="c", is_attack=is_attack,
        attack_class="skipped work" if is_attack else "", about="a | b", expected=(),
        outcome="passed/tie", right=right, right_reason=right,
        naive=NaiveVerdict(correct=True, candidate_s=1e-6, base_s=1e-3), deceives_naive=is_attack,
        seconds=1.0,
    )  # fmt: skip


def test_record_survives_its_file_and_keeps_other_languages(tmp_path: Path) -> None:
    run = record.run_of([finding("one"), finding("two", is_attack=False)], "x", record.now())
    file = tmp_path / "deep" / "record.json"
    record.write(run.record.text, file)
    assert record.read(file) == run.record
    other = record.SelftestRecord(sections={"cuda": run.record.sections["c"]})
    assert set(other.updated(run.record).sections) == {"cuda", "c"}
    file.write_text("{}x")
    with pytest.raises(UsageError, match="isn't a record"):
        record.read(file)


def test_what_a_newer_run_did_not_judge_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    old = record.run_of([finding("one"), finding("two")], "x", record.now()).record
    new = record.run_of([finding("two", right=False)], "y", record.now()).record
    both = old.updated(new).sections["c"]
    assert [(found.id, found.right) for found in both.findings] == [
        ("attacks/c/one", True), ("attacks/c/two", False)
    ]  # fmt: skip
    assert both.command == "y"
    elsewhere = old.sections["c"].model_copy(
        update={
            "environment": both.environment.model_copy(
                update={"device": both.environment.device.model_copy(update={"name": "other"})}
            )
        }
    )
    other = record.SelftestRecord(sections={"c": elsewhere})
    assert len(other.updated(new).sections["c"].findings) == 1


def test_a_kernel_is_another_one_if_its_operator_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = CORPUS["attacks/c/do_nothing"]
    monkeypatch.setattr("roofsmith.selftest.samples.OPERATORS", tmp_path)
    copied = []
    for name in (f"{sample.operator}.py", f"{sample.operator}.c"):
        (tmp_path / name).write_bytes((OPERATORS / name).read_bytes())
        copied.append(tmp_path / name)
    before = sample.digest
    for path in copied:
        text = path.read_text()
        path.write_text(text + "\n")
        assert sample.digest != before
        path.write_text(text)
    assert sample.digest == before


def test_a_judge_is_another_one_if_what_it_imports_is() -> None:
    names = {f"{path.parent.name}/{path.name}" for path in judge_sources()}
    assert {"judge/parent.py", "gpu/slots.py", "analysis/compare.py"} <= names
    assert "analysis/statistics.py" in names, "compare.py imports it"
    assert not {"analysis/experiments.py", "command/judge.py"} & names


def test_resuming_leaves_out_what_this_judge_judged_here(monkeypatch: pytest.MonkeyPatch) -> None:
    sample = CORPUS["attacks/c/do_nothing"]
    have = finding("do_nothing").model_copy(
        update={"source": sample.digest, "judge": judge_version()}
    )

    def missing(found: SampleFinding) -> bool:
        made = record.run_of([found], "x", record.now()).record
        return made.missing([sample]) == (sample,)

    assert not missing(have)
    for change in ({"judge": "0" * 12}, {"source": ""}, {"outcome": BROKEN}, {"id": "x"}):
        assert missing(have.model_copy(update=change))
    monkeypatch.setattr(record, "device_name", lambda language: "another machine")
    assert missing(have)


@pytest.mark.whole
@needs_gcc
@pytest.mark.slow
def test_a_run_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    file = tmp_path / "record.json"
    chosen = ["selftest", "--only", "do_nothing", "--language", "c", "--no-naive"]
    first = CliRunner().invoke(cli, [*chosen, "--json", str(file)])
    assert first.exit_code == 0, first.output
    written = file.read_text()
    again = CliRunner().invoke(cli, [*chosen, "--json", str(file), "--resume"])
    assert again.exit_code == 0, again.output
    assert file.read_text() == written
    assert "1 of 1 attacks caught" in again.output
    refused = CliRunner().invoke(cli, [*chosen, "--resume"])
    assert refused.exit_code == 2
    assert "--json" in refused.stderr


def test_a_run_is_flawless_only_if_everything_was_right() -> None:
    absent = Unexamined(id="attacks/cuda/x", reason="no GPU")
    assert record.run_of([finding("one"), absent], "x", record.now()).flawless
    assert not record.run_of([finding("one", right=False)], "x", record.now()).flawless


def test_page_shows_every_finding() -> None:
    run = record.run_of(
        [finding("one"), finding("two", right=False), finding("three", is_attack=False)],
        "roofsmith selftest", record.now(),
    )  # fmt: skip
    text = page(run.record)
    assert "| skipped work | 1 of 2 |" in text
    assert "| **honest kernels let through** | 1 of 1 |" in text
    assert r"| `one` | a \| b | harmless: passed/tie | correct, 1e+03x |" in text
    assert "| harmless | 1 of 2 |" in text
    assert "| of those with the right reason | 0 of 0 |" in text
    assert "**passed/tie**" in text


def test_page_abridges_commands_that_name_many_kernels() -> None:
    command = "roofsmith selftest --only one --only two --only three --json record.json"
    text = page(record.run_of([finding("one")], command, record.now()).record)
    assert "`roofsmith selftest --only one --only ... --json record.json`" in text
    few = "roofsmith selftest --only one --only two"
    assert f"`{few}`" in page(record.run_of([finding("one")], few, record.now()).record)


@needs_gcc
@pytest.mark.parametrize(
    "name", ["do_nothing", *map(another, ["exits_with_verdict", "writes_behind"])]
)
def test_naive_harness_is_deceived(name: str, tmp_path: Path) -> None:
    sample = CORPUS[f"attacks/c/{name}"]
    settings = Settings(cache_dir=tmp_path / "cache", campaigns_dir=tmp_path)
    opinion = naive_opinion(sample, operator(sample.operator, "c"), settings)
    assert opinion.correct


@needs_gcc
def test_naive_harness_sees_what_is_plainly_wrong(tmp_path: Path) -> None:
    kernel = tmp_path / "wrong.c"
    kernel.write_text(
        "// honest: adds one instead\n// operator: inplace\n"
        "void solve(float *x, int N) { for (int i = 0; i < N; i++) x[i] += 1.0f; }\n"
    )
    sample = read_sample(kernel, "c", is_attack=False)
    settings = Settings(cache_dir=tmp_path / "cache", campaigns_dir=tmp_path)
    opinion = naive_opinion(sample, operator("inplace", "c"), settings)
    assert not opinion.correct
    assert not opinion.faster


def test_naive_harness_keeps_attacks_from_ones_own_compilation_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("triton")
    attack = CORPUS["attacks/triton/poisoned_cache"].path
    reference = tmp_path / "reference.py"
    reference.write_text(
        "import numpy as np\n"
        "def setup(N, seed): return {'inputs': {'x': np.zeros(N)}, 'outputs': ['x']}\n"
        "def reference(x): pass\n"
    )
    ours = tmp_path / "cache" / "another" / "kernel.cubin"
    ours.parent.mkdir(parents=True)
    ours.write_bytes(b"compiled")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache" / "triton"))
    assert naive_verdict("c", attack, attack, reference, {"N": 1}) is None  # Triton takes no arrays
    assert ours.read_bytes() == b"compiled"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [(["--language", "fortran"], "fortran"), (["--only", "no_such_kernel"], "no_such_kernel")],
)
def test_what_is_not_in_the_corpus_is_named(arguments: list[str], complaint: str) -> None:
    done = CliRunner().invoke(cli, ["selftest", *arguments])
    assert done.exit_code == 2
    assert complaint in done.stderr


def test_a_suite_of_which_nothing_can_run_is_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    done = CliRunner().invoke(cli, ["selftest", "--language", "cuda", "--only", "async_copies"])
    assert (done.exit_code, done.stdout) == (2, "")
    assert "no kernel of 1 could be judged here: " in done.stderr
    assert "roofsmith doctor" in done.stderr


def test_no_language_is_without_kernels() -> None:
    for language in LANGUAGES:
        assert {s.is_attack for s in samples((language,))} == {True, False}
