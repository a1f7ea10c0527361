"""Which settings of a module matter at the target's sizes."""

from __future__ import annotations

import pytest

from roofsmith.domain.arrays import ArraySpec
from roofsmith.domain.description import WorkloadDescription
from roofsmith.proposers.tunables_reach import dead_spans

HEAD = """import triton
import triton.language as tl

LIMIT = 4096
FEW = 64


@triton.jit
def near(x, BLOCK: tl.constexpr):
    pass


@triton.jit
def far(x, BLOCK: tl.constexpr):
    pass


"""


def told(rows: int, columns: int) -> WorkloadDescription:
    x = ArraySpec("x", "input", "float32", (rows, columns))
    return WorkloadDescription(
        arrays=(x,), scalars={"N": rows}, flops=None, bytes=None, atol=None, rtol=None
    )


def is_reached(body: str, *workloads: WorkloadDescription, limit: int = 4096) -> bool:
    """Whether `far` may be launched."""
    text = HEAD + body
    dead = dead_spans(text, workloads, [{}, {"LIMIT": limit}, {"LIMIT": limit - 1}])
    at = text.encode().index(b"def far")
    return not any(start <= at < end for start, end in dead)


BRANCH = """def run_kernel(x, N):
    D = x.shape[-1]
    if D > LIMIT:
        far[(N,)](x, BLOCK=FEW)
        return
    near[(N,)](x, BLOCK=64)
"""
TABLE = """def small(x, N):
    near[(N,)](x, BLOCK=64)


def other(x, N):
    far[(N,)](x, BLOCK=FEW)


TABLE = {(16, 8): small}


def run_kernel(x, N):
    TABLE.get((N, x.size(1)), other)(x=x, N=N)
"""
UNSURE = """def run_kernel(x, N):
    if x.is_contiguous():
        near[(N,)](x, BLOCK=64)
    else:
        far[(N,)](x, BLOCK=FEW)
"""
PASSED_ON = """def other(x):
    far[(1,)](x, BLOCK=FEW)


def run_kernel(x, N):
    near[(N,)](x, BLOCK=64)
    list(map(other, [x]))
"""
COUNTED = """def run_kernel(x, N):
    parts = 1
    for size in x.shape[:1]:
        parts *= size
    if parts == N and N is not None and not min(parts, 8) == 8:
        far[(N,)](x, BLOCK=FEW)
"""
CHANGED = """KNOWN = {}


def other(x):
    far[(1,)](x, BLOCK=FEW)


def run_kernel(x, N):
    KNOWN["f"] = other
    KNOWN["f"](x)
"""
ENDLESS = """def run_kernel(x, N):
    if N < 0:
        far[(N,)](x, BLOCK=FEW)
    run_kernel(x, N)
"""
DECORATED = """def pick(names):
    return FEW


@triton.heuristics({"BLOCK": pick})
@triton.jit
def third(x, BLOCK: tl.constexpr):
    pass


def run_kernel(x, N):
    third[(N,)](x)
    far[(N,)](x, BLOCK=FEW)
"""
DERIVED = """WIDE = LIMIT < 4096


def run_kernel(x, N):
    if WIDE:
        far[(N,)](x, BLOCK=FEW)
"""
DEFAULTED = """def go(x, n, wide=False):
    if wide:
        far[(n,)](x, BLOCK=FEW)


def run_kernel(x, N):
    go(x, N, **options())
"""
TABLE_CHANGED = """def run_kernel(x, N):
    sizes = {"B": 64}
    sizes["B"] *= 2
    if sizes["B"] > 64:
        far[(N,)](x, BLOCK=FEW)
"""
REBOUND = """def run_kernel(x, N):
    size = 0
    if (size := x.shape[1]) > 5:
        near[(N,)](x, BLOCK=64)
    if size != 0:
        far[(N,)](x, BLOCK=FEW)
"""
UNHASHABLE = "BAD = {{}: 1}\n\n\n" + UNSURE
GIGANTIC = "import math\n\nBAD = math.prod((3000000000, 'a'))\n\n\n" + UNSURE
TURNS = tuple(range(16))
LONG = (
    f"def run_kernel(x, N):\n    for a in {TURNS}:\n        for b in {TURNS}:\n"
    f"            for c in {TURNS}:\n                s = {' + '.join(['a'] * 400)}\n"
)
HUGE = "def run_kernel(x, N):\n    a = (N,)\n" + "    a = (a, a)\n" * 60 + "    return a * 9\n"


@pytest.mark.parametrize(
    ("body", "sizes", "expected"),
    [
        (BRANCH, (16, 8), False),
        (BRANCH, (16, 8192), True),
        (TABLE, (16, 8), False),
        (TABLE, (17, 8), True),
        (UNSURE, (16, 8), True),
        (PASSED_ON, (16, 8), True),
        (COUNTED, (4, 8), True),
        (COUNTED, (16, 8), False),
        (CHANGED, (16, 8), True),
        (ENDLESS, (16, 8), True),
        (DECORATED, (16, 8), True),
        (DERIVED, (16, 8), True),
        (DEFAULTED, (16, 8), True),
        (TABLE_CHANGED, (16, 8), True),
        (REBOUND, (16, 8), True),
        (UNHASHABLE, (16, 8), True),
        (GIGANTIC, (16, 8), True),
        (LONG, (16, 8), True),
        (HUGE, (16, 8), True),
    ],
)  # fmt: skip
def test_what_a_workload_reaches(body: str, sizes: tuple[int, int], *, expected: bool) -> None:
    assert is_reached(body, told(*sizes)) is expected


def test_one_workload_or_one_setting_that_reaches_it_is_enough() -> None:
    assert is_reached(BRANCH, told(16, 8), told(16, 8192))
    assert is_reached(BRANCH, told(16, 2048), limit=1024)


def test_what_follows_on_a_dead_line_lives() -> None:
    text = HEAD + "OLD = 5; MINE = 64\n\n\ndef run_kernel(x, N):\n    near[(N,)](x, BLOCK=MINE)\n"
    at = text.encode().index(b"MINE = 64")
    dead = dead_spans(text, [told(16, 8)])
    assert dead
    assert not any(start <= at < end for start, end in dead)
