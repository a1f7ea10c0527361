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
    dead = dead_spans(text, workloads, [{}, {"LIMIT": limit}])
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
        (HUGE, (16, 8), True),
    ],
)  # fmt: skip
def test_what_a_workload_reaches(body: str, sizes: tuple[int, int], *, expected: bool) -> None:
    assert is_reached(body, told(*sizes)) is expected


def test_one_workload_or_one_setting_that_reaches_it_is_enough() -> None:
    assert is_reached(BRANCH, told(16, 8), told(16, 8192))
    assert is_reached(BRANCH, told(16, 2048), limit=1024)
