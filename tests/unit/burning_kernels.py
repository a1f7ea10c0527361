"""A C kernel that doubles, and takes as long on short and on long arrays as its text says."""

from __future__ import annotations

KERNEL = """\
#define TURNS(n) ((n) < 1000 ? {short} : {long})
static float burn(float x, int turns)
{{
    volatile float burnt = x;
    for (int turn = 0; turn < 8 * turns; turn++)
        burnt = burnt * 0.5f + 1.0f;
    return burnt;
}}

void solve(const float *x, float *y, int n)
{{
    for (int i = 0; i < n; i++)
        y[i] = {factor}.0f * x[i] + 0.0f * burn(0.0f, TURNS(n));
}}
"""
REFERENCE = """\
import numpy as np

def setup(n, seed=0):
    x = np.random.default_rng(seed).standard_normal(n, dtype=np.float32)
    return {"inputs": {"x": x, "y": np.empty_like(x), "n": n}, "outputs": ["y"]}

def reference(x, y, n):
    np.multiply(x, x.dtype.type(2), out=y)
"""
DISTURBED = "was disturbed by other processes"
"""What the judge says of a kernel where a busy machine left it no sample."""


def kernel(short: int, long: int, factor: int = 2) -> str:
    """Eights of turns per element of arrays under 1000 elements and of longer ones.

    Right if it doubles. Calls take tenths of milliseconds: the judge draws inputs for every one,
    and its long segments would hold hundreds of shorter ones.
    """
    return KERNEL.format(short=short, long=long, factor=factor)
