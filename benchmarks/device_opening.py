"""How long a process takes to open a CUDA device, by its number of hardware queues.

    python benchmarks/device_opening.py --out benchmarks/results/device_opening.json

Processes open the first visible device one at a time and eight side by side, with the driver's own
number of queues and with one (`CUDA_DEVICE_MAX_CONNECTIONS`), in a random order. A context is what
a worker of the judge needs before it can do anything; initialising the driver comes before it.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import random
import subprocess
import sys
import time
from itertools import product
from pathlib import Path
from statistics import median

from result_file import Made, made_now, write
from roofsmith.domain.values import Value
from roofsmith.judge.gpu.driver import Driver
from roofsmith.judge.gpu.process import ONE_QUEUE
from roofsmith.machine.choice import source_for

TOGETHER = 8
ROUNDS = 8
OPENS = "opens-the-device"


class Opening(Value):
    """Processes that opened the device side by side."""

    queues: int | None
    """None: the driver's own number."""
    processes: int
    initialised_s: tuple[float, ...]
    """Of each, until the driver was initialised."""
    opened_s: tuple[float, ...]
    """Of each, from there until it had a context."""
    ended_s: float
    """From the first kill until none was left."""


class DeviceOpening(Value):
    """A result file."""

    made: Made
    openings: tuple[Opening, ...]


def open_and_wait() -> None:
    """The process that is timed: says how long both steps took, and waits to be killed."""
    begin = time.perf_counter()
    ctypes.CDLL("libcuda.so.1").cuInit(0)
    middle = time.perf_counter()
    Driver("cuda")
    print(middle - begin, time.perf_counter() - middle, flush=True)
    sys.stdin.readline()


def opening(queues: int | None, processes: int) -> Opening:
    """Start so many processes and end them.

    Raises:
        ValueError: one has no device.
    """
    environment = {**os.environ, **(ONE_QUEUE if queues else {})}
    started = [
        subprocess.Popen(
            [sys.executable, __file__, OPENS], env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )
        for _ in range(processes)
    ]  # fmt: skip
    said = [tuple(map(float, one.stdout.readline().split())) for one in started if one.stdout]
    begin = time.perf_counter()
    for one in started:
        one.kill()
    for one in started:
        one.communicate()
    ended_s = time.perf_counter() - begin
    initialised, opened = zip(*said, strict=True)
    return Opening(
        queues=queues, processes=processes, initialised_s=initialised, opened_s=opened,
        ended_s=ended_s,
    )  # fmt: skip


def table(result: DeviceOpening) -> str:
    """The result for people."""
    lines = []
    for processes, queues in product((1, TOGETHER), (None, 1)):
        same = [o for o in result.openings if (o.processes, o.queues) == (processes, queues)]
        opened_s = median(seconds for one in same for seconds in one.opened_s)
        ended_s = median(one.ended_s for one in same)
        name = "one queue" if queues else "the driver's number of queues"
        lines.append(
            f"{processes} at once, {name}: a context in {opened_s * 1e3:.0f} ms,"
            f" ended after {ended_s * 1e3:.0f} ms"
        )
    return "\n".join(lines)


def main() -> None:
    """Run and print."""
    made = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    made.add_argument("--out", type=Path, required=True)
    options = made.parse_args()
    kinds = ROUNDS * list(product((None, 1), (1, TOGETHER)))
    random.shuffle(kinds)
    here = made_now(source_for("cuda").environment())
    opening(None, 1)  # the first one reads the driver from disk
    openings = tuple(opening(queues, count) for queues, count in kinds)
    result = DeviceOpening(made=here, openings=openings)
    write(result, options.out)
    print(table(result))
    print(f"wrote {options.out}")


if __name__ == "__main__":
    open_and_wait() if sys.argv[1:] == [OPENS] else main()
