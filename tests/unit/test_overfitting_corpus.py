"""The seeded corpus: every over-fitted kernel is found with its reason, no honest one is."""

from __future__ import annotations

from pathlib import Path

import pytest

from roofsmith.analysis.overfitting import audit
from roofsmith.domain.kernel import Candidate, Language, SourceFile

CORPUS = Path(__file__).parent.parent / "golden" / "overfitting"
LANGUAGES: dict[str, Language] = {".py": "torch", ".c": "c", ".cpp": "cpp", ".cu": "cuda"}
FOLDERS = ("W1", "W2", "W3", "uniform", "honest")

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
