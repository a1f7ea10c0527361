"""Kernels that compute what they should, and would bring a machine down on the way.

What they do doesn't make their results wrong, so they pass; nothing of it may outlast the check.
"""

from __future__ import annotations

import uuid
from pathlib import Path

import psutil
import pytest
from judge_bench import Bench, marked, needs_gcc

from roofsmith.domain.outcome import Passed
from roofsmith.judge.sandbox.inside import FILTER, TASKS
from roofsmith.judge.sandbox.isolation import probe
from roofsmith.namespaces import MOUNT

pytestmark = needs_gcc

KERNEL = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static void *waits(void *nothing) { pause(); return nothing; }
static int done;
void solve(const float *x, float *y, int n) {
    for (int i = 0; i < n; i++) y[i] = x[i] * x[i] + 1.0f;
    if (done++) return;
    (void)waits;
    ROUGH
}
"""
FORKS = "for (int i = 0; i < 20; i++) if (fork() == 0) i = 0;"
THREADS = "pthread_t t; for (int i = 0; i < 20000 && !pthread_create(&t, 0, waits, 0); i++);"
FILES = """
    static char block[1 << 20];
    memset(block, 'x', sizeof block);
    for (int i = 0; i < 300; i++) {
        char name[32];
        snprintf(name, sizeof name, "junk-%d", i);
        int fd = open(name, O_WRONLY | O_CREAT, 0600);
        if (fd < 0) break;
        ssize_t written = write(fd, block, sizeof block);
        close(fd);
        if (written < 0) break;
    }
"""
NOISE = 'for (int i = 0; i < 10000; i++) fprintf(stderr, "line %d of many\\n", i);'


def granted(layer: str) -> pytest.MarkDecorator:
    """Only where the host has this wall: what it bounds has no bound without."""
    return pytest.mark.skipif(probe()[layer] is not None, reason=f"no {layer}: {probe()[layer]}")


@pytest.mark.parametrize(
    "rough",
    [
        pytest.param(FORKS, id="fork bomb", marks=granted(FILTER)),
        pytest.param(THREADS, id="thread bomb", marks=[granted(TASKS), pytest.mark.whole]),
        pytest.param(FILES, id="full disk", marks=granted(MOUNT)),
        pytest.param(NOISE, id="ten thousand lines"),
    ],
)
def test_a_right_kernel_passes_and_leaves_a_clean_machine(
    squares: Bench, scratch: Path, rough: str
) -> None:
    mark = uuid.uuid4().hex
    free = psutil.disk_usage(str(scratch)).free
    found = squares.check(KERNEL.replace("ROUGH", rough), OMP_SAMPLE_MARK=mark).outcome
    assert isinstance(found, Passed), found
    _, left = psutil.wait_procs(marked(mark), timeout=60)  # dying takes a moment
    assert not left
    assert not list(scratch.rglob("junk-*"))
    # Others write to that disk as well, but hardly as much as one of these would.
    assert free - psutil.disk_usage(str(scratch)).free < 250 * 1024**2
