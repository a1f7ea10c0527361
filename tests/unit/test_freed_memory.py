"""Memory that is freed stays with the process, so that touching it again costs no page faults."""

from __future__ import annotations

import ctypes
import resource
import subprocess
import sys

import pytest

FAULTS = """
import resource
import numpy as np
from roofsmith.freed_memory import keep_freed_memory

def faults():
    [np.ones(2**20, np.uint8) for _ in range(8)]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(50):
        [np.ones(2**20, np.uint8) for _ in range(8)]
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

without = faults()
keep_freed_memory()
print(without, faults())
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="no glibc")
def test_arrays_that_come_and_go_are_mapped_once() -> None:
    said = subprocess.run(
        [sys.executable, "-c", FAULTS], capture_output=True, text=True, check=True
    )
    without, kept = map(int, said.stdout.split())
    pages = 2**20 // resource.getpagesize()
    assert without > 10 * pages
    assert kept < pages
