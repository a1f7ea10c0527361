"""Ways to keep things between calls of a Python kernel: cheating and honest ones."""

from __future__ import annotations

import pytest

from roofsmith.analysis.overfitting import audit
from roofsmith.domain.kernel import Candidate, SourceFile

CHEATING = {
    "method cache": """\
import functools
class Op:
    @functools.lru_cache(maxsize=8)
    def quant(self, x): return x.half()
    def __call__(self, x, w): return self.quant(x) @ w.half()
op = Op()
def run_kernel(x, w, out): out.copy_(op(x, w))
""",
    "own module": """\
import sys
def run_kernel(x, w, out):
    me = sys.modules[__name__]
    if getattr(me, "p", None) != x.data_ptr(): me.p, me.half = x.data_ptr(), x.half()
    out.copy_(me.half @ w.half())
""",
    "function's dict": """\
def run_kernel(x, w, out):
    mine = run_kernel.__dict__
    if x.data_ptr() not in mine: mine[x.data_ptr()] = x.half()
    out.copy_(mine[x.data_ptr()] @ w.half())
""",
    "instance call": """\
class Q:
    def __init__(self): self.c = {}
    def __call__(self, x):
        k = x.data_ptr()
        if k in self.c: return self.c[k]
        self.c[k] = x.half()
        return self.c[k]
q = Q()
def run_kernel(x, w, out): out.copy_(q(x).float() @ w)
""",
    "closure": """\
def make():
    state = {"x": None, "q": None}
    def run(x, w, out):
        if state["x"] is not x:
            state["x"] = x
            state["q"] = x.half()
        out.copy_(state["q"].float() @ w)
    return run
run_kernel = make()
""",
    "nonlocal": """\
def make():
    last, q = None, None
    def run(x, w, out):
        nonlocal last, q
        if last is not x:
            last, q = x, x.half()
        out.copy_(q.float() @ w)
    return run
run_kernel = make()
""",
    "function attr": """\
def run_kernel(x, w, out):
    cache = getattr(run_kernel, "cache", None)
    if cache is None:
        cache = run_kernel.cache = {}
    if id(x) not in cache:
        cache[id(x)] = x.half()
    out.copy_(cache[id(x)].float() @ w)
""",
    "ring": """\
from collections import deque
_ring = deque(maxlen=8)
def _q(x):
    for p, q in _ring:
        if p == x.data_ptr(): return q
    q = x.half()
    _ring.append((x.data_ptr(), q))
    return q
def run_kernel(x, w, out): out.copy_(_q(x).float() @ w)
""",
    "object": """\
class _State:
    ptr = 0
    q = None
_S = _State()
def run_kernel(x, w, out):
    if _S.ptr == x.data_ptr():
        q = _S.q
    else:
        q = x.half()
        _S.ptr = x.data_ptr()
        _S.q = q
    out.copy_(q.float() @ w)
""",
    "tls": """\
import threading
_t = threading.local()
def run_kernel(x, w, out):
    if getattr(_t, "ptr", None) != x.data_ptr():
        _t.q = x.half()
        _t.ptr = x.data_ptr()
    out.copy_(_t.q.float() @ w)
""",
    "walrus": """\
_c = {}
def run_kernel(x, w, out):
    if (q := _c.get(id(x))) is None:
        q = _c[id(x)] = x.half()
    out.copy_(q.float() @ w)
""",
    "setdefault": """\
_c = {}
def run_kernel(x, w, out):
    out.copy_(_c.setdefault(id(x), x.half()).float() @ w)
""",
    "fstring": """\
_c = {}
def run_kernel(x, w, out):
    key = f"{x.data_ptr()}_{tuple(x.shape)}"
    if key not in _c: _c[key] = x.half()
    out.copy_(_c[key].float() @ w)
""",
    "str id": """\
_c = {}
def run_kernel(x, w, out):
    key = hex(id(x))
    if key not in _c: _c[key] = x.half()
    out.copy_(_c[key].float() @ w)
""",
    "weakref alias": """\
import weakref as wr
_r = None
def run_kernel(x, w, out):
    global _r
    _r = wr.ref(x)
    out.copy_(x @ w)
""",
    "weakref from": """\
from weakref import ref
_r = {}
def run_kernel(x, w, out):
    if "r" not in _r or _r["r"]() is not x:
        _r["r"] = ref(x)
        _r["q"] = x.half()
    out.copy_(_r["q"].float() @ w)
""",
    "globals": """\
def run_kernel(x, w, out):
    g = globals()
    if "_q" not in g:
        g["_q"] = x.half()
    out.copy_(g["_q"].float() @ w)
""",
    "buffer": """\
import torch
class L(torch.nn.Module):
    def forward(self, x, w):
        if not hasattr(self, "wq"):
            self.register_buffer("wq", w.half())
        return x @ self.wq.float()
l = L()
def run_kernel(x, w, out): out.copy_(l(x, w))
""",
    "autograd class": """\
import torch
class F(torch.autograd.Function):
    cache = {}
    @staticmethod
    def forward(ctx, x, w):
        k = (id(x), x._version)
        if k not in F.cache: F.cache[k] = x.half()
        return F.cache[k].float() @ w
    @staticmethod
    def backward(ctx, g):
        k = id(g)
        if k not in F.cache: F.cache[k] = g.half()
        return F.cache[k], None
def run_kernel(x, w, out): out.copy_(F.apply(x, w))
""",
    "tuple ids": """\
_c = {}
def run_kernel(x, w, out):
    key = tuple((t.data_ptr(), t._version) for t in (x, w))
    if key not in _c: _c[key] = x @ w
    out.copy_(_c[key])
""",
    "skip second": """\
_done = set()
def run_kernel(x, w, out):
    key = out.data_ptr()
    if key in _done: return
    out.copy_(x @ w)
    _done.add(key)
""",
    "helper split": """\
_c = {}
def _get(k): return _c.get(k)
def _put(k, v): _c[k] = v
def run_kernel(x, w, out):
    k = x.data_ptr()
    q = _get(k)
    if q is None:
        q = x.half()
        _put(k, q)
    out.copy_(q.float() @ w)
""",
    "list index": """\
_slot = [None, None]
def run_kernel(x, w, out):
    if _slot[0] != x.data_ptr():
        _slot[1] = x.half()
        _slot[0] = x.data_ptr()
    out.copy_(_slot[1].float() @ w)
""",
    "counter reuse": """\
_n = 0
_q = None
def run_kernel(x, w, out):
    global _n, _q
    if _n % 100 == 0:
        _q = x.half()
    _n += 1
    out.copy_(_q.float() @ w)
""",
    "match": """\
_c = {}
def run_kernel(x, w, out):
    match _c.get(id(x)):
        case None:
            q = x.half()
            _c[id(x)] = q
        case q:
            pass
    out.copy_(q.float() @ w)
""",
    "digits of an address": """\
_c = {}
def run_kernel(x, w, out):
    key = (x.data_ptr() % 256, x.data_ptr() // 256 % 4096)
    if key not in _c: _c[key] = x.half()
    out.copy_(_c[key].float() @ w)
""",
    "large modulus": """\
_c = {}
def run_kernel(x, w, out):
    key = x.data_ptr() % 1000003
    if key not in _c: _c[key] = x.half()
    out.copy_(_c[key].float() @ w)
""",
    "aligned, and computed": """\
_c = {}
def run_kernel(x, w, out):
    key = (x.shape, x.data_ptr() % 16 == 0)
    if key not in _c: _c[key] = x.half()
    out.copy_(_c[key].float() @ w)
""",
    "view by a function": """\
import torch
_c = {}
def run_kernel(x, w, out):
    if x.shape not in _c: _c[x.shape] = torch.transpose(x.half(), 0, 1)
    out.copy_(_c[x.shape].t().float() @ w)
""",
    "adds to what it kept": """\
_c = {}
def run_kernel(x, w, out):
    _c["sum"] = _c.get("sum", 0) * 0.9 + x.half()
    out.copy_(_c["sum"] @ w)
""",
    "length": """\
_l = []
def run_kernel(x, w, out):
    if len(_l) == 0: _l.append(x @ w)
    out.copy_(_l[0])
""",
    "type of self": """\
class Op:
    cache = {}
    def run(self, x, w):
        c = type(self).cache
        if id(x) not in c: c[id(x)] = x.half()
        return self.__class__.cache[id(x)].float() @ w
def run_kernel(x, w, out): out.copy_(Op().run(x, w))
""",
    "class of self": """\
class Op:
    last, q = None, None
    def run(self, x, w):
        if self.__class__.last is not x:
            type(self).last, __class__.q = x, x.half()
        return self.__class__.q.float() @ w
def run_kernel(x, w, out): out.copy_(Op().run(x, w))
""",
    "default object": """\
class S: ptr, q = 0, None
def run_kernel(x, w, out, _s=S()):
    if _s.ptr != x.data_ptr():
        _s.ptr, _s.q = x.data_ptr(), x.half()
    out.copy_(_s.q.float() @ w)
""",
    "once": """\
def once(function):
    last, result = None, None
    def inner(x, w):
        nonlocal last, result
        if last is not x:
            last, result = x, function(x, w)
        return result
    return inner
@once
def mm(x, w): return x @ w
def run_kernel(x, w, out): out.copy_(mm(x, w))
""",
}

HONEST = {
    "modules of a model": """\
def run_kernel(x, layers, out):
    modules = list(layers)
    for place in range(len(modules)):
        if modules[place].active is None: modules[place].half = x.half()
    out.copy_(x)
""",
    "lengths": """\
import torch
_pool, _history = [], []
def run_kernel(x, w, out):
    while len(_pool) < 2: _pool.append(torch.empty(x.shape))
    if len(_history) > 16: _history.pop(0)
    _history.append(float(x.abs().amax()))
    for n in range(len(x)): out[n] = x[n] @ w
""",
    "class settings": """\
class Op:
    block = 64
    fns = {}
    def run(self, x, w):
        type(self).block = 128 if x.shape[0] > 128 else 64
        return x @ w * (self.__class__.block // __class__.block)
def run_kernel(x, w, out): out.copy_(Op().run(x, w))
""",
    "default settings": """\
_last = {}
class Config: keeps = True
def run_kernel(x, w, out, config=Config()):
    if config.keeps: _last["x"] = x.half()
    out.copy_(x @ w)
""",
    "planned for a type": """\
_last, _block = None, 64
def _blocks(dtype): return 128 if dtype.itemsize < 4 else 64
def _planned(dtype):
    global _last, _block
    if _last is not dtype: _last, _block = dtype, _blocks(dtype)
    return _block
def run_kernel(x, w, out):
    n = _planned(x.dtype)
    for m in range(0, len(x), n): out[m : m + n] = x[m : m + n] @ w
""",
    "planned by an object": """\
class Plan:
    def __init__(self): self.mode, self.block = None, 64
    def update(self, mode):
        if self.mode is not mode: self.mode, self.block = mode, len(str(mode))
        return self.block
plan = Plan()
def run_kernel(x, w, out, mode="fast"):
    plan.update(mode)
    out.copy_(x @ w)
""",
    "chosen by mode": """\
_best = {}
_MODE = "fast"
def run_kernel(x, w, out, mode=_MODE):
    key = (x.shape, mode is _MODE)
    if key not in _best: _best[key] = (64, 64) if mode is _MODE else (32, 32)
    out.copy_(x @ w)
""",
    "aligned key": """\
import torch
ALIGN = 16
_fns = {}
def run_kernel(x, w, out):
    key = (x.shape, x.data_ptr() % ALIGN == 0, (w.data_ptr() | out.data_ptr()) & 15 == 0)
    if key not in _fns: _fns[key] = torch.compile(torch.mm)
    out.copy_(_fns[key](x, w))
""",
    "halves by a table": """\
import torch
_tab = {}
def run_kernel(x, out):
    n = x.shape[1] // 2
    if n not in _tab: _tab[n] = torch.arange(n, device=x.device).cos()
    c = _tab[n]
    out[:, :n] = x[:, :n] * c
    out[:, n:] = x[:, n:] * c
""",
    "halves of new memory": """\
import torch
_tab = {}
def run_kernel(x, out):
    n = x.shape[1] // 2
    if n not in _tab: _tab[n] = torch.arange(n, device=x.device).cos()
    y = torch.empty_like(x)
    y[:, :n] = torch.mul(x[:, :n], _tab[n])
    y[:, n:] = y[:, :n] + x[:, n:] * _tab[n]
    out.copy_(y)
""",
    "changed product": """\
import torch
_tab = {}
def run_kernel(x, out):
    n = x.shape[1]
    if n not in _tab: _tab[n] = torch.arange(n, device=x.device).cos()
    y, z = x * _tab[n], _tab[n].mul(x)
    y[0] = y[0] + x[0]
    z[0] = z[0] + x[0]
    out.copy_(y + z)
""",
    "result of a kept function": """\
import torch
_fns = {}
def run_kernel(x, w, out):
    if x.dtype not in _fns: _fns[x.dtype] = torch.compile(torch.mm)
    y = _fns[x.dtype](x, w)
    y[0] = y[0] * 2
    out.copy_(y)
""",
    "table in a row": """\
import torch
_tab = {}
def run_kernel(x: torch.Tensor, out: torch.Tensor):
    if x.shape not in _tab: _tab[x.shape] = torch.arange(x.shape[1]).cos()
    out[0] = _tab[x.shape]
    out[1] = out[0] * x[1]
""",
    "compiled": """\
import torch
_fns = {}
def run_kernel(x, w, out):
    key = (x.dtype, x.shape[1])
    if key not in _fns:
        _fns[key] = torch.compile(lambda a, b: a @ b)
    out.copy_(_fns[key](x, w))
""",
    "sms": """\
import functools, torch
@functools.lru_cache
def _sms(device):
    return torch.cuda.get_device_properties(device).multi_processor_count
def run_kernel(x, w, out):
    n = _sms(x.device)
    out.copy_(x @ w)
""",
    "mask": """\
import functools, torch
@functools.lru_cache(8)
def _mask(n, dtype, device):
    return torch.triu(torch.full((n, n), float("-inf"), dtype=dtype, device=device), 1)
def run_kernel(q, k, v, out):
    s = q @ k.t() + _mask(q.shape[0], q.dtype, q.device)
    out.copy_(torch.softmax(s, -1) @ v)
""",
    "rope": """\
import torch
class Rope:
    def __init__(self, dim):
        self.inv = 1.0 / (10000 ** (torch.arange(0, dim, 2) / dim))
        self.n = 0
        self.cos = None
    def tables(self, x, n):
        if n > self.n:
            t = torch.arange(n, device=x.device)
            freqs = torch.outer(t, self.inv)
            self.cos = freqs.cos()
            self.n = n
        return self.cos[:n]
rope = Rope(64)
def run_kernel(x, out):
    out.copy_(x * rope.tables(x, x.shape[0]))
""",
    "delayed scaling": """\
import torch
class S:
    def __init__(self): self.h = torch.zeros(16)
    def scale(self, x):
        s = self.h.max()
        self.h = torch.roll(self.h, -1)
        self.h[0] = x.abs().amax()
        return s
s = S()
def run_kernel(x, w, out): out.copy_((x / s.scale(x)) @ w)
""",
    "outbuf": """\
import torch
_o = {}
def run_kernel(x, w, out):
    k = (x.shape[0], w.shape[1])
    buf = _o.get(k)
    if buf is None or buf.device != x.device:
        buf = torch.empty(k, dtype=torch.float64, device=x.device)
        _o[k] = buf
    torch.matmul(x.double(), w.double(), out=buf)
    out.copy_(buf)
""",
    "warn": """\
import warnings
_warned = False
_calls = {}
def run_kernel(x, w, out):
    global _warned
    if not _warned and x.shape[0] % 16:
        warnings.warn("slow path")
        _warned = True
    _calls["n"] = _calls.get("n", 0) + 1
    out.copy_(x @ w)
""",
    "splitk": """\
import torch, triton
_lock = {}
def _locks(n, device):
    if n not in _lock:
        _lock[n] = torch.zeros(n, dtype=torch.int32, device=device)
    return _lock[n]
def run_kernel(a, b, c):
    locks = _locks(a.shape[0], a.device)
    locks.zero_()
    c.copy_(a @ b)
""",
    "debug last": """\
_debug = {}
def run_kernel(x, w, out):
    y = x @ w
    _debug["last"] = y
    out.copy_(y)
""",
    "align": """\
import torch
def run_kernel(x, w, out):
    if x.data_ptr() % 16 == 0 and x.is_contiguous():
        torch.matmul(x, w, out=out)
    else:
        out.copy_(x.contiguous() @ w)
""",
    "module": """\
import torch
class MLP(torch.nn.Module):
    def __init__(self, w):
        super().__init__()
        self.weight = torch.nn.Parameter(w)
        self.register_buffer("scale", torch.ones(1))
    def forward(self, x):
        return x @ self.weight * self.scale
def run_kernel(x, w, out):
    out.copy_(MLP(w)(x))
""",
    "autotune class": """\
import time
class Tuner:
    def __init__(self): self.best = {}
    def pick(self, a, b, out):
        key = (a.shape, b.shape, str(a.dtype))
        if key in self.best: return self.best[key]
        times = {}
        for bs in (16, 32):
            t = time.perf_counter()
            self.launch(bs, a, b, out)
            times[bs] = time.perf_counter() - t
        self.best[key] = min(times, key=times.get)
        return self.best[key]
    def launch(self, bs, a, b, out):
        for i in range(0, a.shape[0], bs): out[i:i+bs] = a[i:i+bs] @ b
tuner = Tuner()
def run_kernel(a, b, out): tuner.launch(tuner.pick(a, b, out), a, b, out)
""",
    "local object": """\
class Plan:
    def __init__(self, x):
        self.q = None
        self.x = x
    def quant(self):
        if self.q is None:
            self.q = self.x.half()
        return self.q
def run_kernel(x, w, out):
    p = Plan(x)
    out.copy_(p.quant().float() @ w + p.quant().sum())
""",
    "ctx cache": """\
import torch
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.saved = {}
        ctx.saved["xq"] = x.half()
        ctx.w = w
        return ctx.saved["xq"].float() @ w
    @staticmethod
    def backward(ctx, g):
        if "gq" not in ctx.saved:
            ctx.saved["gq"] = g.half()
        return ctx.saved["gq"].float() @ ctx.w.t(), None
def run_kernel(x, w, out): out.copy_(F.apply(x, w))
""",
}


def kept(text: str) -> list[str]:
    candidate = Candidate(language="torch", sources=(SourceFile(path="k.py", text=text),))
    return [f"{v.bucket} {v.name}" for v in audit(candidate).kept_values]


@pytest.mark.parametrize("way", CHEATING)
def test_cheating(way: str) -> None:
    found = kept(CHEATING[way])
    assert found
    assert all(value.startswith(("W2", "W3")) for value in found)


@pytest.mark.parametrize("way", HONEST)
def test_honest(way: str) -> None:
    assert kept(HONEST[way]) == []


def test_what_cant_be_parsed_keeps_nothing() -> None:
    assert kept("def run_kernel(:\n") == []


def test_what_calls_itself_without_end_is_rejected() -> None:
    levels = [f"def f{n}(x):\n    {'; '.join([f'f{n + 1}(x)'] * 30)}\n" for n in range(12)]
    text = "".join([*levels, "def f12(x): return x.half()\n", "def run_kernel(x): f0(x)\n"])
    assert kept(text) == ["W3 anything"]


@pytest.mark.parametrize("deep", ["x" + ".t()" * 1500, "-" * 5000 + "x"])
def test_what_is_nested_too_deeply_is_rejected(deep: str) -> None:
    assert kept(f"def run_kernel(x):\n    y = {deep}\n") == ["W3 anything"]
