"""The seeded corpus: every over-fitted kernel is hinted at; honest ones may be: a trace decides."""

from __future__ import annotations

from pathlib import Path

import pytest

from roofsmith.domain.kernel import Candidate, Language, SourceFile
from roofsmith.overfitting.hints import Audit, audit

CORPUS = Path(__file__).parent.parent / "golden" / "overfitting"
LANGUAGES: dict[str, Language] = {".py": "torch", ".c": "c", ".cpp": "cpp", ".cu": "cuda"}
FOLDERS = ("W1", "W2", "W3", "uniform", "inherited")

EXAMPLES = sorted(p for folder in FOLDERS for p in (CORPUS / folder).iterdir() if p.is_file())
HINTED = {
    "method that keeps results": """\
from functools import lru_cache as memo
class Op:
    @memo(maxsize=8)
    def half(self, x): return x.half()
op = Op()
def run_kernel(x, w, out): out.copy_(op.half(x).float() @ w)
""",
    "closure": """\
def make():
    last, half = None, None
    def run(x, w, out):
        nonlocal last, half
        if last is not x:
            last, half = x, x.half()
        out.copy_(half.float() @ w)
    return run
run_kernel = make()
""",
    "attribute of the function": """\
def run_kernel(x, w, out):
    kept = getattr(run_kernel, "kept", None)
    if kept is None:
        kept = run_kernel.kept = {}
    if id(x) not in kept:
        kept[id(x)] = x.half()
    out.copy_(kept[id(x)].float() @ w)
""",
    "container handed to a helper": """\
_C = {}
def fetch(kept, x):
    if id(x) not in kept:
        kept[id(x)] = x.half()
    return kept[id(x)]
def run_kernel(x, w, out): out.copy_(fetch(_C, x).float() @ w)
""",
    "in one expression": """\
_C = {}
def run_kernel(x, w, out):
    half = _C[id(x)] if id(x) in _C else _C.setdefault(id(x), x.half())
    out.copy_(half.float() @ w)
""",
}


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


def seen_in(text: str, path: str = "kernel.py") -> Audit:
    source = SourceFile(path=path, text=text)
    return audit(Candidate(language="torch", sources=(source,)))


@pytest.mark.rule("hints", "uneven-groups-hint")
def test_every_over_fitted_kernel_is_hinted_at():
    for path in EXAMPLES:
        seen = audit(candidate_of(path))
        codes = {assumption.code for assumption in seen.assumptions}
        expected = set(header(path, "finds").split(", "))
        assert seen.kept_values or expected <= codes, path


@pytest.mark.rule("hints")
@pytest.mark.parametrize("way", HINTED)
def test_who_an_argument_is_may_be_asked_in_many_ways(way: str) -> None:
    assert {value.bucket for value in seen_in(HINTED[way]).kept_values} == {"W2"}


@pytest.mark.parametrize("name", ["packed_by_pointer.cpp", "unversioned_dict.py"])
def test_what_is_found_by_a_weight_is_another_thing(name: str) -> None:
    (value,) = audit(candidate_of(CORPUS / "W1" / name)).kept_values
    assert (value.bucket, value.versioned) == ("W1", False)


@pytest.mark.parametrize(
    "name",
    ["plain.py", "shared_within_call.py", "saved_for_backward.py", "swizzled_gemm.py",
     "quantized_groups.py", "aligned_path.cpp", "grouped_by_offsets.cpp"],
)  # fmt: skip
def test_what_keeps_nothing_is_not_hinted_at(name: str) -> None:
    seen = audit(candidate_of(CORPUS / "honest" / name))
    assert (seen.kept_values, seen.assumptions) == ((), ())


def test_a_size_that_a_launch_is_given_is_no_place_to_keep_things() -> None:
    text = """\
def run_kernel(x, y):
    D = x.shape[-1]
    if D > 4096:
        long_rows[(x.numel() // D,)](x, y, D)
        return
    rows[(x.numel() // D,)](x, y, D)
"""
    assert seen_in(text).kept_values == ()


def test_calling_what_remembers_is_no_hint_of_its_own() -> None:
    text = """\
from functools import lru_cache
_lib = None
_sizes = lru_cache(8)(lambda m, n: (m, n))
def run_kernel(x, w, out):
    global _lib
    if x.dtype is w.dtype and _lib is None:
        _lib = _sizes(*x.shape)
    out.copy_(x @ w)
"""
    assert {v.name: v.bucket for v in seen_in(text).kept_values} == {"_lib": "W3", "_sizes": "W2"}


def test_lines_are_told_that_look_up_and_that_store() -> None:
    (value,) = audit(candidate_of(CORPUS / "W1" / "versioned_dict.py")).kept_values
    assert (value.bucket, value.versioned, value.stored) == ("W1", True, (14,))
    assert 11 in value.looked_up


@pytest.mark.rule("inherited-caches")
@pytest.mark.parametrize(
    ("name", "same"), [("widened_same.py", True), ("widened_more.py", False),
                       ("packed_more.c", False)],
)  # fmt: skip
def test_what_was_there_before_is_no_news_unless_it_holds_more(name: str, same: bool) -> None:
    path = CORPUS / "inherited" / name
    incumbent = candidate_of(path.with_stem(path.stem.partition("_")[0]))
    ours, theirs = candidate_of(path).sources[0], incumbent.sources[0]
    same_file = ours.model_copy(update={"path": theirs.path})
    found = audit(Candidate(language=incumbent.language, sources=(same_file,)), incumbent)
    assert [value.inherited for value in found.kept_values] == [same] * len(found.kept_values)
    assert found.kept_values
    elsewhere = audit(Candidate(language=incumbent.language, sources=(ours,)), incumbent)
    assert not any(value.inherited for value in elsewhere.kept_values)
