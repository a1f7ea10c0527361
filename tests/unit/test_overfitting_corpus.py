"""The seeded corpus: every over-fitted kernel is found with its reason, no honest one is."""

from __future__ import annotations

from pathlib import Path

import pytest

from roofsmith.analysis.overfitting import audit
from roofsmith.domain.kernel import Candidate, Language, SourceFile

CORPUS = Path(__file__).parent.parent / "golden" / "overfitting"
LANGUAGES: dict[str, Language] = {".py": "torch", ".c": "c", ".cpp": "cpp", ".cu": "cuda"}
FOLDERS = ("W1", "W2", "W3", "uniform", "honest", "inherited")

EXAMPLES = sorted(p for folder in FOLDERS for p in (CORPUS / folder).iterdir() if p.is_file())


def candidate_of(path: Path) -> Candidate:
    source = SourceFile(path=path.name, text=path.read_text(encoding="utf-8"))
    return Candidate(language=LANGUAGES[path.suffix], sources=(source,))


def header(path: Path, name: str) -> str:
    """What a line such as `# finds: W2 _cache` in front of an example says; empty without one."""
    for line in path.read_text(encoding="utf-8").splitlines():
        words = line.lstrip("/# ").partition(": ")
        if words[0] == name:
            return words[2].strip()
    return ""


def found_in(path: Path) -> set[str]:
    seen = audit(candidate_of(path))
    values = {
        f"{v.bucket} {v.name}"
        + ((" versioned" if v.versioned else " unversioned") if v.bucket == "W1" else "")
        for v in seen.kept_values
    }
    return values | {a.code for a in seen.assumptions}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_no_misses_and_no_false_alarms(path):
    expected = header(path, "finds")
    assert found_in(path) == (set(expected.split(", ")) if expected else set())


def test_the_corpus_is_as_large_as_it_should_be():
    honest = [p for p in EXAMPLES if p.parent.name == "honest"]
    assert len(EXAMPLES) >= 25
    assert len(honest) >= 12
    assert all(header(p, "finds") for p in EXAMPLES if p not in honest)
    assert {p.suffix for p in honest} == set(LANGUAGES)


@pytest.mark.parametrize(
    ("name", "is_same"),
    [(f"{n}_{k}{s}", k == "same") for n, s in (("widened", ".py"), ("packed", ".c"))
     for k in ("same", "more")],
)  # fmt: skip
def test_what_was_there_before_is_no_news_unless_it_holds_more(name, is_same):
    path = CORPUS / "inherited" / name
    incumbent = candidate_of(path.with_stem(path.stem.partition("_")[0]))
    ours, theirs = candidate_of(path).sources[0], incumbent.sources[0]
    same_file = ours.model_copy(update={"path": theirs.path})
    found = audit(Candidate(language=incumbent.language, sources=(same_file,)), incumbent)
    assert [value.inherited for value in found.kept_values] == [is_same] * len(found.kept_values)
    assert found.kept_values
    elsewhere = audit(Candidate(language=incumbent.language, sources=(ours,)), incumbent)
    assert not any(value.inherited for value in elsewhere.kept_values)
