"""An answer is applied strictly, or refused with what is wrong; whatever is left as one is read."""

from __future__ import annotations

import difflib
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofsmith.asking.edits import changed
from roofsmith.asking.evidence import evidence_of
from roofsmith.asking.matching import UnfitError
from roofsmith.asking.proposing import proposal_of
from roofsmith.domain.answer import Answer, Edit
from roofsmith.domain.kernel import Candidate, SourceFile
from roofsmith.domain.proposal import Proposal
from roofsmith.domain.refusal import BadAnswer
from roofsmith.ports import Brief
from roofsmith.store.answers import LARGEST_BYTES, MOST_FILES, NAME, parse_answer, read_answer
from roofsmith.testing.proposer import advance, brief_for

KERNEL = "void solve(const float* a, float* out, int N) {\n    out[0] = a[0];\n}\n"
FILES = {"kernel.c": KERNEL}
IDEA = {
    "statement": "Write twice",
    "rationale": "it is a test",
    "evidence": ["B1"],
    "answers": "unknown",
}


def edit(search: str, replace: str, path: str = "kernel.c") -> Answer:
    return Answer(edits=(Edit(path=path, search=search, replace=replace),))


def patch(before: str, after: str, path: str = "kernel.c", context: int = 3) -> str:
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    found = difflib.unified_diff(old, new, f"a/{path}", f"b/{path}", n=context)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
                   for line in found)  # fmt: skip


# -- edits -----------------------------------------------------------------------------------


def test_search_and_replace() -> None:
    made = changed(FILES, edit("a[0]", "a[1]"))
    assert made == {"kernel.c": KERNEL.replace("a[0]", "a[1]")}


@pytest.mark.parametrize(
    "answer",
    [
        Answer(),
        Answer(files={"kernel.c": ""}, diff="x"),
        Answer(files={"../kernel.c": ""}),
        Answer(files={"/etc/passwd": ""}),
        edit("nowhere", "x"),
        edit("o", "x"),
        edit("a[0]", "x", "other.c"),
        Answer(diff="I would change line 3."),
        Answer(diff="--- a/kernel.c\n+++ b/kernel.c\n@@ -1,2 +1,2 @@\n-wrong\n+right\n more\n"),
        Answer(diff="--- a/kernel.c\n+++ b/kernel.c\n@@ -1,9 +1,1 @@\n-void\n+x\n"),
        Answer(diff="--- a/k\n+++ b/../../k\n@@ -1,1 +1,1 @@\n-a\n+b\n"),
    ],
)
def test_what_does_not_fit_is_not_applied(answer: Answer) -> None:
    with pytest.raises(UnfitError):
        changed(FILES, answer)


CRLF = (
    "void solve(const float *x, float *y, int N) {\r\n\tfor (int i = 0; i < N; i++) {\r\n"
    "\t\ty[i] = x[i] * x[i] + 1.0f;   \r\n\t}\r\n}\r\n"
)
HEAD = "void solve(const float *x, float *y, int N) {"
FITS = {
    "lf": (
        f"{HEAD}\n\tfor (int", f"{HEAD}\n\t/* a */\n\tfor (int",
        f"{HEAD}\r\n\t/* a */\r\n\tfor (int",
    ),
    "blanks": (
        "    for (int i = 0; i < N; i++) {", "    /* a */\n    for (int i = 0; i < N; i++) {",
        "\t/* a */\r\n\tfor (int i = 0; i < N; i++) {",
    ),
    "trailing": ("+ 1.0f;\r\n\t}", "+ 2.0f;\r\n\t}", "+ 2.0f;\r\n\t}"),
    "listing": (
        "    2\t\tfor (int i = 0; i < N; i++) {\n    3\t\t\ty[i] = x[i] * x[i] + 1.0f;",
        "    2\t\tfor (int i = 0; i < N; i++) {\n    3\t\t\ty[i] = 2.0f;",
        "\tfor (int i = 0; i < N; i++) {\r\n\t\ty[i] = 2.0f;",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", FITS)
def test_what_differs_in_blanks_alone_is_applied_in_the_files_own(kind: str) -> None:
    search, replace, expected = FITS[kind]
    made = changed({"kernel.c": CRLF}, edit(search, replace))["kernel.c"]
    assert expected in made
    assert made.count("\n") == made.count("\r\n")


PYTHON = "if a:\n    b()\nelse:\n        b()\n"
DEEP = "class A:\n\tdef f(self):\n\t\tif a:\n\t\t\treturn 1\n\t\treturn 2\n"


PLAIN = (
    "#include <math.h>\n\nvoid solve(const float *x, float *y, int N) {\n"
    "\tfor (int i = 0; i < N; i++) {\n\t\tfloat a = x[i] * 2.0f;\n"
    "\t\ty[i] = sqrtf(a) - 1.0f; // 'a' \"b\"\n\t}\n}\n"
)
LOOP, STEP = "\tfor (int i = 0; i < N; i++) {", "\tfor (int i = 0; i < N; i += 1) {"
HEAD_OF_PLAIN = "void solve(const float *x, float *y, int N) {"
WRAPPED = {
    "typographic": ("// \u2018a\u2019 \u201cb\u201d", "// \u2018c\u2019", "// 'a' \"b\"", "// 'c'"),
    "a long dash": ("sqrtf(a) \u2013 1.0f;", "sqrtf(a);", "sqrtf(a) - 1.0f;", "sqrtf(a);"),
    "a hard blank": ("float\u00a0a = x[i] * 2.0f;", "float a = 0;", "float a = x[i] * 2.0f;",
                     "float a = 0;"),
    "numbers and arrows": (f"4\u2192{LOOP}\n5\u2192\t\tfloat a = x[i] * 2.0f;",
                           f"4\u2192{STEP}\n5\u2192\t\tfloat a = x[i] * 2.0f;", LOOP, STEP),
    "fenced": (f"```c\n{LOOP}\n```", f"```c\n{STEP}\n```", LOOP, STEP),
    "entities": (LOOP.replace("<", "&lt;"), STEP.replace("<", "&lt;"), LOOP, STEP),
    "marks of a diff": (f"-{LOOP}", f"+{STEP}", LOOP, STEP),
    "blanks between signs": ("for(int i=0; i<N; i++) {", LOOP.strip(), LOOP, LOOP),
    "an empty line less": (f"#include <math.h>\n{HEAD_OF_PLAIN}", f"#include <math.h>\n\n{LOOP}",
                           HEAD_OF_PLAIN, LOOP),
    "gaps": (f"{HEAD_OF_PLAIN}\n...\n}}", f"{LOOP}\n...\n}}", HEAD_OF_PLAIN, LOOP),
}  # fmt: skip


@pytest.mark.parametrize("kind", WRAPPED)
def test_what_models_write_around_and_for_a_text_is_seen_through(kind: str) -> None:
    search, replace, before, after = WRAPPED[kind]
    made = changed({"kernel.c": PLAIN}, edit(search, replace))["kernel.c"]
    assert made == PLAIN.replace(before, after)


def test_a_gap_in_one_text_alone_stands_for_nothing() -> None:
    with pytest.raises(UnfitError, match="write them out"):
        changed({"kernel.c": PLAIN}, edit(f"{LOOP}\n\t\t// ... as before ...\n\t}}", STEP))


def test_indentation_is_translated() -> None:
    search = "        if a:\n            return 1\n"
    made = changed({"k.py": DEEP}, edit(search, f"{search}            return 3\n", "k.py"))
    assert made["k.py"] == DEEP.replace("return 1\n", "return 1\n\t\t\treturn 3\n")


UNFIT = {
    "twice": (CRLF, "float *", ["2 times", "line 1", f"`{HEAD}"]),
    "numbered": (CRLF, f"1 {HEAD}", ["line numbers aren't part", "line 1"]),
    "other": (CRLF, "\ty[i] = x[i] * 1.0f;", ["nearest", "`→→y[i] = x[i] * x[i] + 1.0f;···\\r`"]),
    "ambiguous": (PYTHON, "\tb()", ["2 places", "line 2", "line 4"]),
    "nothing": (CRLF, "import torch", ["no line of it is like that"]),
}  # fmt: skip


@pytest.mark.parametrize("kind", UNFIT)
def test_what_fits_no_place_is_told_with_the_nearest_lines(kind: str) -> None:
    text, search, words = UNFIT[kind]
    with pytest.raises(UnfitError) as told:
        changed({"kernel.py": text}, edit(search, "x", "kernel.py"))
    assert all(word in str(told.value) for word in words), told.value


def test_a_diff_of_another_editor_fits_by_its_text() -> None:
    diff = patch(
        CRLF.replace("\r", "").replace(";   ", ";"),
        CRLF.replace("\r", "").replace("1.0f;   ", "2.0f;"),
    )
    made = changed({"kernel.c": CRLF}, Answer(diff=diff.replace("-1,", "-2,")))["kernel.c"]
    assert "2.0f" in made
    assert made.count("\n") == made.count("\r\n")


def test_whole_files_keep_the_line_ends_that_they_had() -> None:
    whole = Answer(files={"kernel.c": CRLF.replace("\r", "").replace("1.0f", "2.0f")})
    assert changed({"kernel.c": CRLF}, whole)["kernel.c"] == CRLF.replace("1.0f", "2.0f")


lines = st.lists(st.text("ab +-@", max_size=4), max_size=8)


@given(lines, lines, st.booleans(), st.integers(0, 3))
def test_a_diff_makes_of_one_text_the_other(
    old: list[str], new: list[str], ends: bool, context: int
) -> None:
    end = "\n" if ends else ""
    before, after = "\n".join(["top", *old, "end"]) + end, "\n".join(["top", *new, "end"]) + end
    if before == after:
        return
    diff = patch(before, after, context=context)
    assert changed({"kernel.c": before}, Answer(diff=diff)) == {"kernel.c": after}


# -- proposals -------------------------------------------------------------------------------


@pytest.fixture
def brief() -> Brief:
    source = SourceFile(path="kernel.c", text=KERNEL)
    return brief_for(Candidate(language="c", sources=(source,)))


def answer(**values: object) -> Answer:
    return Answer.model_validate({**IDEA, "files": {"kernel.c": f"// new\n{KERNEL}"}, **values})


def test_an_answer_becomes_a_proposal(brief: Brief) -> None:
    made = proposal_of(
        answer(tokens=5, cost_usd=0.5, category="tiling", risks="none"), brief, "agent:x"
    )
    assert isinstance(made, Proposal)
    assert made.candidate.kernel.text.startswith("// new")
    assert (made.tokens, made.cost_usd, made.proposer) == (5, 0.5, "agent:x")
    assert made.hypothesis.tactic == "agent:x:tiling"
    assert made.hypothesis.risks == "none"
    assert made.hypothesis.evidence == (f"B1: {evidence_of(brief)['B1']}",)


def test_who_names_no_bottleneck_answers_the_kernels_own(brief: Brief) -> None:
    own = brief.bottleneck.model_copy(update={"kind": "latency"})
    seen = replace(brief, bottleneck=own)
    bare = Answer.model_validate({key: value for key, value in IDEA.items() if key != "answers"})
    change = bare.model_copy(update={"files": {"kernel.c": f"// new\n{KERNEL}"}})
    for said in (change, change.model_copy(update={"answers": "unknown"})):
        made = proposal_of(said, seen, "agent:x")
        assert isinstance(made, Proposal), made
        assert made.hypothesis.answers == "latency"
    wrong = proposal_of(change.model_copy(update={"answers": "tail"}), seen, "agent:x")
    assert isinstance(wrong, BadAnswer)


def test_flags_alone_are_a_change(brief: Brief) -> None:
    made = proposal_of(answer(files={}, flags="-O2 -march=native"), brief, "x")
    assert isinstance(made, Proposal)
    assert made.candidate.build.flags == ("-O2", "-march=native")
    assert made.candidate.kernel.text == KERNEL


def test_flags_are_the_incumbents_also_after_others_were_rolled_back(brief: Brief) -> None:
    other = proposal_of(answer(flags="-O1"), brief, "x")
    assert isinstance(other, Proposal)
    later, usual = advance(brief, other, kept=False), brief.incumbent.build.flags
    plain = proposal_of(answer(files={"kernel.c": f"// newer\n{KERNEL}"}), later, "x")
    assert isinstance(plain, Proposal)
    assert plain.candidate.build.flags == usual
    parallel = KERNEL.replace("    out", "#pragma omp parallel\n    out")
    made = proposal_of(answer(files={"kernel.c": parallel}), later, "x")
    assert isinstance(made, Proposal)
    assert made.candidate.build.flags == (*usual, "-fopenmp")


@pytest.mark.rule("answers-bottleneck")
@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"statement": " "}, "malformed"),
        ({"evidence": []}, "uncited"),
        ({"evidence": ["E99"]}, "uncited"),
        ({"answers": "tail"}, "malformed"),
        ({"round": 7}, "malformed"),
        ({"files": {}}, "malformed"),
        ({"flags": "'"}, "malformed"),
    ],
)
def test_what_is_wrong_is_said(brief: Brief, values: dict[str, object], reason: str) -> None:
    bad = proposal_of(answer(tokens=3, cost_usd=0.25, **values), brief, "x")
    assert isinstance(bad, BadAnswer)
    assert (bad.reason, bad.tokens, bad.cost_usd, bad.proposer) == (reason, 3, 0.25, "x")
    said = None if bad.hypothesis is None else bad.hypothesis.statement
    assert said == (str(values.get("statement", IDEA["statement"])).strip() or None)


@pytest.mark.rule("not-tried-again")
def test_code_that_was_judged_needs_a_reason(brief: Brief) -> None:
    made = proposal_of(answer(), brief, "x")
    assert isinstance(made, Proposal)
    later = advance(brief, made, kept=False)
    repeated = proposal_of(answer(evidence=["R2"]), later, "x")
    assert isinstance(repeated, BadAnswer)
    assert repeated.reason == "repeated"
    assert isinstance(proposal_of(answer(again="it was noisy"), later, "x"), Proposal)


def test_giving_up_is_no_proposal(brief: Brief) -> None:
    found = proposal_of(Answer(give_up="it is at the roofline", tokens=3), brief, "x")
    assert isinstance(found, BadAnswer)
    assert (found.reason, found.tokens) == ("gave_up", 3)


# -- files -----------------------------------------------------------------------------------


def left(folder: Path, answer: object, **files: str) -> Path:
    (folder / NAME).write_text(answer if isinstance(answer, str) else json.dumps(answer))
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def test_a_file_and_a_folder_are_read(tmp_path: Path) -> None:
    folder = left(tmp_path, {**IDEA, "files": {"kernel.c": "x"}})
    assert read_answer(folder, FILES) == read_answer(folder / NAME, FILES)


def test_changed_files_beside_it_are_the_change(tmp_path: Path) -> None:
    (tmp_path / "kernel.c").write_text("int x;\n")
    found = read_answer(left(tmp_path, IDEA), FILES)
    assert isinstance(found, Answer)
    assert found.files == {"kernel.c": "int x;\n"}


@pytest.mark.parametrize(
    "text",
    ["", "I would vectorise it.", "[]", "{", '{"statement": 3}', '{"rm": "-rf"}', "[" * 10_000],
)
def test_garbage_is_a_bad_answer(text: str) -> None:
    found = parse_answer(text)
    assert isinstance(found, BadAnswer)
    assert found.reason == "malformed"


def test_an_answer_that_does_not_fit_is_known_by_its_statement() -> None:
    found = parse_answer(json.dumps({**IDEA, "answers": "bandwidth"}))
    assert isinstance(found, BadAnswer)
    assert found.hypothesis.statement == IDEA["statement"]


def test_what_is_no_plain_text_is_not_read(tmp_path: Path) -> None:
    folder = left(tmp_path, IDEA)
    secret = tmp_path.parent / "secret"
    secret.write_text("a key")
    for number, spoil in enumerate((
        lambda path: path.symlink_to(secret),
        lambda path: os.mkfifo(path),
        lambda path: path.write_bytes(b"\xff\xfe\x00"),
        lambda path: path.write_text("x" * (LARGEST_BYTES + 1)),
        lambda path: path.write_text("stray"),
    )):  # fmt: skip
        path = folder / ("kernel.c" if number < 4 else "stray.c")
        spoil(path)
        assert isinstance(read_answer(folder, FILES), BadAnswer)
        path.unlink()
    (folder / NAME).unlink()
    (folder / NAME).symlink_to(secret)
    assert isinstance(read_answer(folder, FILES), BadAnswer)


def test_ten_thousand_files_are_too_many(tmp_path: Path) -> None:
    folder = left(tmp_path, IDEA)
    (folder / "a").mkdir()
    for number in range(MOST_FILES + 1):
        (folder / "a" / f"{number}.c").write_text("")
    assert isinstance(read_answer(folder, FILES), BadAnswer)


def test_no_answer_is_a_bad_one(tmp_path: Path) -> None:
    assert isinstance(read_answer(tmp_path, FILES), BadAnswer)
