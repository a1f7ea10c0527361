"""Results of calls that a Python kernel has memoised, by any name: cheating and honest."""

from __future__ import annotations

import pytest

from roofsmith.analysis.overfitting import audit
from roofsmith.domain.kernel import Candidate, SourceFile

CHEATING = {
    "mm: imported as": """\
from functools import lru_cache as memo
@memo(maxsize=4)
def mm(x, w): return x @ w
def run_kernel(x, w, out): out.copy_(mm(x, w))
""",
    "_mm: of a library's function": """\
import torch
from functools import lru_cache
_mm = lru_cache(4)(torch.mm)
def run_kernel(x, w, out): out.copy_(_mm(x, w))
""",
    "_mm: annotated": """\
import torch
from collections.abc import Callable
from functools import cache
_mm: Callable = cache(torch.mm)
def run_kernel(x, w, out): out.copy_(_mm(x, w))
""",
    "_f: of an autograd function": """\
import torch
from functools import lru_cache
class Op(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w): return x @ w
_f = lru_cache(4)(Op.apply)
def run_kernel(x, w, out): out.copy_(_f(x, w))
""",
    "_mm: compiled": """\
import torch
from functools import cache
_mm = cache(torch.compile(torch.mm))
def run_kernel(x: torch.Tensor, w: torch.Tensor, out: torch.Tensor): out.copy_(_mm(x, w))
""",
    "forward: under its own name": """\
from functools import lru_cache
def forward(x, w): return x @ w
forward = lru_cache(4)(forward)
def run_kernel(x, w, out): out.copy_(forward(x, w))
""",
    "forward: method": """\
from functools import lru_cache
class Op:
    def forward(self, x, w): return x @ w
Op.forward = lru_cache()(Op.forward)
op = Op()
def run_kernel(x, w, out): out.copy_(op.forward(x, w))
""",
    "_forward: in a constructor": """\
from functools import lru_cache
class Op:
    def __init__(self): self.forward = lru_cache()(self._forward)
    def _forward(self, x, w): return x @ w
op = Op()
def run_kernel(x, w, out): out.copy_(op.forward(x, w))
""",
    "mm: static method": """\
from functools import lru_cache
class Op:
    def mm(x, w): return x @ w
    mm = staticmethod(lru_cache(4)(mm))
def run_kernel(x, w, out): out.copy_(Op.mm(x, w))
""",
    "mm: memoiser under a name": """\
from functools import lru_cache
memo = lru_cache(8)
@memo
def mm(x, w): return x @ w
def run_kernel(x, w, out): out.copy_(mm(x, w))
""",
    "mm: memoiser under another name": """\
import functools
remember = functools.cache
@remember
def mm(x, w): return x @ w
def run_kernel(x, w, out): out.copy_(mm(x, w))
""",
    "mm: part of a memoiser": """\
from functools import lru_cache, partial
memo = partial(lru_cache, maxsize=8)
@memo()
def mm(x, w): return x @ w
def run_kernel(x, w, out): out.copy_(mm(x, w))
""",
    "mm: function that memoises": """\
from functools import cache
def memo(function):
    return cache(function)
def mm(x, w): return x @ w
mm = memo(mm)
def run_kernel(x, w, out): out.copy_(mm(x, w))
""",
}

HONEST = {
    "configuration": """\
from functools import lru_cache as memo
once = memo(None)
@once
def _config(m, n): return (64, 64) if m * n > 4096 else (32, 32)
_choose = memo(8)(_config)
def run_kernel(x, w, out):
    bm, bn = _choose(x.shape[0], w.shape[1])
    out.copy_(x @ w)
""",
    "device": """\
import os, torch
from functools import cache
_properties = cache(torch.cuda.get_device_properties)
_threads = cache(os.cpu_count)
def run_kernel(x, w, out):
    torch.set_num_threads(_threads())
    n = _properties(x.device).multi_processor_count
    out.copy_(x @ w)
""",
    "sizes": """\
import triton
from functools import lru_cache
_blocks = lru_cache(None)(triton.cdiv)
def run_kernel(x, w, out):
    for n in range(_blocks(x.shape[0], 16)):
        out[16 * n : 16 * n + 16] = x[16 * n : 16 * n + 16] @ w
""",
    "under its own name": """\
from functools import lru_cache
class Plan:
    def block(self, m): return 128 if m > 128 else 16
    block = lru_cache(8)(block)
plan = Plan()
def run_kernel(x, w, out):
    n = plan.block(x.shape[0])
    out[:n] = x[:n] @ w
    out[n:] = x[n:] @ w
""",
    "other decorator": """\
from contextlib import contextmanager as memo
traced = memo
@traced
def timed(x): yield x
def run_kernel(x, w, out):
    with timed(x): out.copy_(x @ w)
""",
}


def kept(text: str) -> list[str]:
    candidate = Candidate(language="torch", sources=(SourceFile(path="k.py", text=text),))
    return [f"{v.bucket} {v.name}" for v in audit(candidate).kept_values]


@pytest.mark.parametrize("way", CHEATING)
def test_cheating(way: str) -> None:
    assert kept(CHEATING[way]) == [f"W2 {way.partition(':')[0]}"]


@pytest.mark.parametrize("way", HONEST)
def test_honest(way: str) -> None:
    assert kept(HONEST[way]) == []
