"""Which kept value is the incumbent's own: what is stored counts, not what holds it."""

from __future__ import annotations

import pytest

from roofsmith.analysis.overfitting import audit
from roofsmith.analysis.transfer import bucket_of
from roofsmith.domain.kernel import Candidate, SourceFile

WEIGHTS = """
import torch

BITS = 8
_packed = {}

def pack(w):
    return (w * BITS).round()

def weight(w):
    key = (id(w), w._version)
    if key not in _packed:
        _packed[key] = pack(w)
    return _packed[key]

def run_kernel(x, w, out):
    out.copy_(x @ weight(w))
"""
BRANCH = """
_kept = {}

def run_kernel(x, w, out):
    tile = 64
    found = _kept.get(id(x))
    if found is None:
        found = x.double()
        _kept[id(x)] = found
    out.copy_(blocked(found, w, tile))
"""
LEAVES = """
_kept = {}

def run_kernel(x, w, out):
    if id(x) in _kept:
        out.copy_(_kept[id(x)])
        return
    made = x.abs()
    made.mul_(2)
    _kept[id(x)] = made
    out.copy_(made)
"""
HELPER = """
_kept = {}

def kept(key, make):
    if key not in _kept:
        _kept[key] = make()
    return _kept[key]

def run_kernel(x, w, out):
    out.copy_(kept(id(x), lambda: x.double()) @ w)
"""
DECORATOR = """
import functools

@functools.lru_cache
def widened(x):
    return x.double()

def run_kernel(x, w, out):
    out.copy_(widened(x) @ w)
"""
C = """
static const float *last;
static float kept[1024];

static void fill(float *to, const float *from, int n)
{
    for (int i = 0; i < n; i++) to[i] = from[i];
}

void solve(const float *x, float *y, int n)
{
    if (last != x) {
        fill(kept, x, n);
        last = x;
    }
    for (int i = 0; i < n; i++) y[i] = 2 * kept[i];
}
"""
MORE = (
    (WEIGHTS, "BITS = 8", "BITS = 4"),
    (WEIGHTS, "(w * BITS).round()", "(w * BITS).round().t().contiguous().t()"),
    (WEIGHTS, "= pack(w)", "= pack(w) @ w"),
    (WEIGHTS, "(id(w), w._version)", "(id(w), w._version, w.shape)"),
    (BRANCH, "found = x.double()", "found = x.double().abs()"),
    (LEAVES, "made.mul_(2)", "made.mul_(2).exp_()"),
    (LEAVES, "made = x.abs()", "made = x.abs() @ w"),
    (HELPER, "lambda: x.double()", "lambda: x.double() @ w"),
    (DECORATOR, "x.double()", "x.double().softmax(-1)"),
    (C, "to[i] = from[i];", "to[i] = from[i] * from[i];"),
    (C, "fill(kept, x, n);", "fill(kept, x, n); for (int i = 0; i < n; i++) kept[i] += x[i];"),
)
SAME = (
    (WEIGHTS, "x @ weight(w)", "(weight(w).t() @ x.t()).t()"),
    (WEIGHTS, "    return _packed[key]", "    # packed\n    return _packed[key]"),
    (BRANCH, "tile = 64", "tile = 128"),
    (BRANCH, "blocked(", "streamed("),
    (LEAVES, "    made = x.abs()", "    made = (  # of both signs\n        x.abs()\n    )"),
    (HELPER, "    out.copy_(", "    y = w * 1\n    out.copy_("),
    (C, "y[i] = 2 * kept[i]", "y[i] = kept[i] + kept[i]"),
)


def candidate(text: str) -> Candidate:
    is_c = text.lstrip().startswith("static")
    source = SourceFile(path="k.c" if is_c else "k.py", text=text)
    return Candidate(language="c" if is_c else "torch", sources=(source,))


def inherited(text: str, before: str) -> set[bool]:
    values = audit(candidate(text), candidate(before)).kept_values
    assert values
    return {value.inherited for value in values}


@pytest.mark.parametrize(("before", "old", "new"), MORE, ids=lambda text: text[:24].strip())
def test_more_under_the_same_name_is_news(before: str, old: str, new: str) -> None:
    assert old in before
    assert False in inherited(before.replace(old, new), before)


@pytest.mark.parametrize(("before", "old", "new"), SAME, ids=lambda text: text[:24].strip())
def test_other_work_around_it_is_not(before: str, old: str, new: str) -> None:
    assert old in before
    assert inherited(before.replace(old, new), before) == {True}


def test_what_another_file_computes_counts_as_well() -> None:
    cached = WEIGHTS.replace(WEIGHTS[WEIGHTS.index("def pack") : WEIGHTS.index("def weight")], "")

    def of(packing: str) -> Candidate:
        files = {"k.py": "from packing import pack\n" + cached, "packing.py": packing}
        sources = tuple(SourceFile(path=path, text=text) for path, text in files.items())
        return Candidate(language="torch", sources=sources)

    before = of("def pack(w):\n    return w.round()\n")
    more = of("def pack(w):\n    return w.round().inverse()\n")
    (same,), (other,) = (audit(c, before).kept_values for c in (before, more))
    assert (same.inherited, other.inherited) == (True, False)
    assert bucket_of("K1", (same,)) == "K1"
    assert bucket_of("K1", (other,)) == "W1", "its gain is bounded"
