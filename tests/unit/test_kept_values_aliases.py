"""What a Python kernel keeps in a place that it changes by another name: cheating and honest."""

from __future__ import annotations

import pytest

from roofsmith.analysis.overfitting import audit
from roofsmith.domain.kernel import Candidate, SourceFile

CHEATING = {
    "W2 _C: local": """\
_C = {}
def run_kernel(x, w, out):
    c = _C
    hit = c.get(id(x))
    if hit is None:
        hit = c[id(x)] = (x, x.half())
    out.copy_(hit[1].float() @ w)
""",
    "W2 self.cache: attribute": """\
class Op:
    def __init__(self): self.cache = {}
    def __call__(self, x, w):
        cache = self.cache
        if id(x) not in cache: cache[id(x)] = x.half()
        return cache[id(x)].float() @ w
op = Op()
def run_kernel(x, w, out): out.copy_(op(x, w))
""",
    "W2 Op.cache: class attribute": """\
class Op:
    cache = {}
def run_kernel(x, w, out):
    c = Op.cache
    if id(x) not in c: c[id(x)] = x.half()
    out.copy_(c[id(x)].float() @ w)
""",
    "W2 _s: object": """\
class S:
    def __init__(self): self.p, self.q = 0, None
_s = S()
def run_kernel(x, w, out):
    s = _s
    if s.p != x.data_ptr():
        s.p, s.q = x.data_ptr(), x.half()
    out.copy_(s.q.float() @ w)
""",
    "W2 _C: element": """\
_C = {"fp8": {}}
def run_kernel(x, w, out):
    if id(x) not in _C["fp8"]: _C["fp8"][id(x)] = x.half()
    out.copy_(_C["fp8"][id(x)].float() @ w)
""",
    "W2 _C: local of an element": """\
from collections import defaultdict
_C = defaultdict(dict)
def run_kernel(x, w, out):
    c = _C[x.device]
    if id(x) not in c: c[id(x)] = x.half()
    out.copy_(c[id(x)].float() @ w)
""",
    "W2 _L: list of lists": """\
_L = [[None, None] for _ in range(4)]
def run_kernel(x, w, out):
    e = _L[0]
    if e[0] is not x: e[0], e[1] = x, x.half()
    out.copy_(e[1].float() @ w)
""",
    "W2 _L: repeated": """\
_L = [None] * 2
def run_kernel(x, w, out):
    e = _L
    if e[0] is not x: e[0], e[1] = x, x.half()
    out.copy_(e[1].float() @ w)
""",
    "W2 _C: one of a tuple": """\
_C = ({}, {})
def run_kernel(x, w, out):
    c = _C[1]
    if id(x) not in c: c[id(x)] = x.half()
    out.copy_(c[id(x)].float() @ w)
""",
    "W2 _C: parameter": """\
_C = {}
def find(cache, t):
    if id(t) not in cache: cache[id(t)] = t.half()
    return cache[id(t)]
def run_kernel(x, w, out): out.copy_(find(_C, x).float() @ w)
""",
    "W2 _c: default argument": """\
def run_kernel(x, w, out, _c={}):
    c = _c
    if id(x) not in c: c[id(x)] = x.half()
    out.copy_(c[id(x)].float() @ w)
""",
    "W2 seen: closure": """\
def make():
    seen = {}
    def run(x, w, out):
        c = seen
        if id(x) not in c: c[id(x)] = x.half()
        out.copy_(c[id(x)].float() @ w)
    return run
run_kernel = make()
""",
    "W3 _C: found by shape": """\
_C = {}
def run_kernel(x, w, out):
    c = _C
    if x.shape not in c: c[x.shape] = x.half()
    out.copy_(c[x.shape].float() @ w)
""",
    "W1 _C: weight": """\
_C = {}
def run_kernel(x, w, out):
    c = _C
    if id(w) not in c: c[id(w)] = w.t().contiguous()
    out.copy_(x @ c[id(w)].t())
""",
}

HONEST = {
    "compiled": """\
import torch
_fns = {}
def run_kernel(x, w, out):
    fns = _fns
    if x.shape not in fns: fns[x.shape] = torch.compile(torch.mm)
    out.copy_(fns[x.shape](x, w))
""",
    "workspace": """\
import torch
_bufs = {}
def run_kernel(x, w, out):
    bufs = _bufs
    if x.shape not in bufs: bufs[x.shape] = torch.empty(x.shape)
    buf = bufs[x.shape]
    buf.copy_(x)
    out.copy_(buf @ w)
""",
    "settings": """\
_CONFIG = {"packs": True}
class Options:
    def __init__(self): self.last = True
_options = Options()
_buf = []
_last = {}
def run_kernel(x, w, out):
    if _CONFIG["packs"]:
        _buf[0].copy_(x)
    if _options.last:
        _last["x"] = x.half()
    out.copy_(_buf[0] @ w)
""",
    "table": """\
_SCALES = [1.0, 0.5]
def run_kernel(x, w, out):
    scales = _SCALES
    out[0] = x[0] * scales[0]
    out[1] = x[1] * scales[1]
""",
    "filled for one call": """\
_ORDER = [0, 1]
def run_kernel(x, w, out):
    parts = {}
    for n in _ORDER:
        if n not in parts: parts[n] = x[n] @ w
        out[n] = parts[n]
""",
    "object of one call": """\
class Plan:
    def __init__(self, x): self.x, self.parts = x, {}
    def half(self):
        parts = self.parts
        if "x" not in parts: parts["x"] = self.x.half()
        return parts["x"]
def run_kernel(x, w, out):
    plan = Plan(x)
    out.copy_(plan.half().float() @ w)
""",
}


def kept(text: str) -> list[str]:
    candidate = Candidate(language="torch", sources=(SourceFile(path="k.py", text=text),))
    return [f"{v.bucket} {v.name}" for v in audit(candidate).kept_values]


@pytest.mark.parametrize("way", CHEATING)
def test_cheating(way: str) -> None:
    assert kept(CHEATING[way]) == [way.partition(":")[0]]


@pytest.mark.parametrize("way", HONEST)
def test_honest(way: str) -> None:
    assert kept(HONEST[way]) == []


def test_a_weight_cache_by_another_name_has_its_lines_and_no_version() -> None:
    text = CHEATING["W1 _C: weight"]
    candidate = Candidate(language="torch", sources=(SourceFile(path="k.py", text=text),))
    (found,) = audit(candidate).kept_values
    assert (found.versioned, found.key, found.stored) == (False, "id(w)", (4,))
    assert 3 in found.looked_up
