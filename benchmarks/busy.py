"""What the judge finds on a busy machine, and how long it takes, beside an earlier version of it.

    python benchmarks/busy.py --slice-s 80 --before ../earlier --out benchmarks/results/busy.json

Incumbents (`rate_kernels.py`) do 1, 1.2, 1.5, 2 and 5 times the candidate's work, with one thread
and with two, while none, 0.5, 1 and 2 processes per processor compute. A trial is a first try: one
judgement, a few of them in a process of their own, with the code of this checkout or of the one in
`--before`. Every trial is written as it comes; the same command goes on with what is due, for
another slice of time, until there are `--identical` and `--each`.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any, Literal

from rate_kernels import RateKernel
from result_file import Made, Rate, made_now, percent, rate, say, write
from roofsmith.api import settings
from roofsmith.api.wiring import OpenTarget, open_target
from roofsmith.domain.comparison import Judgement, PairSample
from roofsmith.domain.kernel import Built
from roofsmith.domain.outcome import Passed
from roofsmith.domain.target import KeepPolicy
from roofsmith.domain.values import Value
from roofsmith.errors import BaselineError
from roofsmith.judge.version import judge_version
from roofsmith.testing.observer import SilentObserver
from roofsmith.toolchains.c import CToolchain

SOURCES = Path(__file__).parent.parent / "src"
GAINS = (1.0, 1.2, 1.5, 2.0, 5.0)
LOADS = (0.0, 0.5, 1.0, 2.0)
THREADS = (1, 2)
NO_USE = (1.0, "before")
"""An earlier judge's false wins are another benchmark's."""
ROWS = 800
AT_ONCE, IDENTICAL_AT_ONCE = 4, 16
"""Trials of one process, which takes a while to begin; fewer where there are many cells."""
COMPUTES = "import os; begun = os.getppid()\nwhile os.getppid() == begun: pass"
"""Until whoever started it is gone."""
TRIAL_DEADLINE_S = 300.0

Which = Literal["now", "before"]


class Cell(Value):
    """What trials have in common."""

    judge: Which
    threads: int
    gain: float
    """The incumbent's rows over the candidate's."""
    load: float
    """Processes that compute, per processor."""


class Trial(Value):
    """One first try."""

    cell: Cell
    version: str
    """Of the judge: `judge_version`."""
    outcome: str
    verdict: str
    speedup: float | None
    ci: tuple[float, float] | None
    wall_s: float
    """Of the judgement, checks included."""
    void: int
    pairs_ns: tuple[tuple[int, int, int, int], ...]
    """Of both measurements: the incumbent's and the candidate's time per call, and for how long
    others may have held each up."""
    notes: tuple[str, ...]


class CellRate(Value):
    """Of one cell's trials."""

    cell: Cell
    faster: Rate
    median_wall_s: float
    median_pairs: float


class Busy(Value):
    """A result file."""

    made: Made
    cells: tuple[CellRate, ...]
    trials: tuple[Trial, ...]


def summarize(trials: Sequence[Trial]) -> tuple[CellRate, ...]:
    """Rates and durations, cell by cell."""
    by_cell: dict[str, list[Trial]] = {}
    for trial in trials:
        by_cell.setdefault(trial.cell.model_dump_json(), []).append(trial)
    rates = [
        CellRate(
            cell=of[0].cell,
            faster=rate([trial.verdict == "faster" for trial in of]),
            median_wall_s=median(trial.wall_s for trial in of),
            median_pairs=median(len(trial.pairs_ns) for trial in of),
        )
        for of in by_cell.values()
    ]
    return tuple(
        sorted(rates, key=lambda r: (r.cell.threads, r.cell.gain, r.cell.load, r.cell.judge))
    )


@contextmanager
def _loaded(load: float) -> Iterator[None]:
    """While so many processes per processor compute."""
    count = round(load * len(os.sched_getaffinity(0)))
    processes = [subprocess.Popen([sys.executable, "-S", "-c", COMPUTES]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def trials(cell: Cell, count: int) -> Iterator[Trial]:
    """First tries of candidates of one cell; the load is there from the first check."""
    kernel = RateKernel(cell.threads, ROWS)
    target = kernel.target(kernel.extra_rows(cell.gain - 1), KeepPolicy().judge_budget_s)
    with (
        tempfile.TemporaryDirectory(prefix="roofsmith-busy-") as builds,
        open_target(target, settings(), SilentObserver()) as opened,
    ):
        toolchain = CToolchain(Path(builds))
        incumbent = _built(toolchain, opened, opened.target.kernel.text)
        notes = [f"trial {random.getrandbits(31)}" for _ in range(count)]
        candidates = [_built(toolchain, opened, kernel.source(0, note).text) for note in notes]
        judge = opened.evaluator.judge
        with _loaded(cell.load):
            measured = judge.measure(incumbent, SilentObserver(), timed=False)
            if not isinstance(measured.outcome, Passed):
                raise BaselineError(f"a benchmark's own kernel fails: {measured.outcome.detail}")
            for candidate in candidates:
                begin = time.monotonic()
                found = judge.compare(candidate, incumbent, SilentObserver())
                yield _trial(cell, found, time.monotonic() - begin)


def _trial(cell: Cell, found: Judgement, wall_s: float) -> Trial:
    overall = found.comparison.overall if found.comparison else None
    samples = (*found.samples, *found.confirmation)
    return Trial(
        cell=cell, version=judge_version(), outcome=found.outcome.kind, verdict=found.verdict,
        speedup=overall.speedup if overall else None, ci=overall.ci if overall else None,
        wall_s=wall_s, void=sum(sample.void is not None for sample in samples),
        pairs_ns=tuple(map(_pair_ns, samples)), notes=found.notes,
    )  # fmt: skip


def _pair_ns(sample: PairSample) -> tuple[int, int, int, int]:
    waited_s = getattr(sample, "waited_s", (0.0, 0.0))  # earlier judges have no such figure
    sides = (sample.incumbent_time_s, sample.candidate_time_s)
    incumbent, candidate = (round(sum(times) / len(times) * 1e9) for times in sides)
    return incumbent, candidate, round(waited_s[0] * 1e9), round(waited_s[1] * 1e9)


def _built(toolchain: CToolchain, opened: OpenTarget, text: str) -> Built:
    built = toolchain.build(opened.target.baseline.with_kernel_text(text))
    if not isinstance(built, Built):
        raise BaselineError(f"a benchmark's own kernel doesn't build: {built.detail}")
    return built


def _tried(cell: Cell, sources: Path, count: int) -> Iterator[Trial]:
    """The same in a process of its own, with the package in a folder; each as it comes."""
    words = [sys.executable, __file__, "--trials", str(count), "--cell", cell.model_dump_json()]
    environment = {**os.environ, "PYTHONPATH": str(sources)}
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True) as process:
        deadline = threading.Timer(TRIAL_DEADLINE_S, process.kill)
        deadline.start()
        try:
            assert process.stdout is not None, "it is a pipe"
            for line in process.stdout:
                yield Trial.model_validate_json(line)
        finally:
            deadline.cancel()
            process.kill()


def due(trials: Sequence[Trial], identical: int, each: int, *, before: bool) -> Cell | None:
    """The cell that lacks the most: identical kernels first, then every gain; None: none does."""
    judges: tuple[Which, ...] = ("now", "before") if before else ("now",)
    share = math.ceil(identical / len(THREADS) / len(LOADS))
    wanted = {
        Cell(judge=judge, threads=threads, gain=gain, load=load): each if gain > 1 else share
        for judge, threads, load, gain in product(judges, THREADS, LOADS, GAINS)
        if (gain, judge) != NO_USE
    }
    made = Counter(one.cell for one in trials)
    lacking = [cell for cell, count in wanted.items() if made[cell] < count]
    random.shuffle(lacking)
    return min(lacking, key=lambda cell: (cell.gain > 1, made[cell]), default=None)


def run(options: argparse.Namespace) -> Busy:
    """What is due, until the time is up; each trial is written as it comes.

    A process is started only where the longest one so far would have ended in time.
    """
    begin, longest_s = time.monotonic(), 0.0
    made, trials = made_now(), list[Trial]()
    if options.out.is_file():
        known = Busy.model_validate_json(options.out.read_text(encoding="utf-8"))
        made, trials = known.made, list(known.trials)
    folders = {"now": SOURCES, "before": options.before and options.before / "src"}
    before = options.before is not None
    while cell := due(trials, options.identical, options.each, before=before):
        began = time.monotonic()
        if began - begin + longest_s > options.slice_s:
            break
        count = AT_ONCE if cell.gain > 1 else IDENTICAL_AT_ONCE
        for one in _tried(cell, folders[cell.judge], count):
            trials.append(one)
            say(
                f"{len(trials)}: {cell.judge}, {cell.threads} threads, {cell.gain:g}x under"
                f" {cell.load:g}: {one.verdict} after {len(one.pairs_ns)} pairs, {one.wall_s:.1f} s"
            )
            write(Busy(made=made, cells=summarize(trials), trials=tuple(trials)), options.out)
            if time.monotonic() - begin > options.slice_s:
                break
        longest_s = max(longest_s, time.monotonic() - began)
    return Busy(made=made, cells=summarize(trials), trials=tuple(trials))


def table(result: Busy) -> str:
    """The result for people."""
    return "\n".join(
        f"{r.cell.threads} threads  {r.cell.gain:3.1f}x  load {r.cell.load:3.1f}"
        f"  {r.cell.judge:6}  {percent(r.faster)}  {r.median_wall_s:5.1f} s"
        f"  {r.median_pairs:4.0f} pairs"
        for r in result.cells
    )


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    made.add_argument("--slice-s", type=float, default=80.0, help="after which it stops")
    made.add_argument("--identical", type=int, default=500, help="pairs without a gain")
    made.add_argument("--each", type=int, default=20, help="trials of every gain under every load")
    made.add_argument("--before", type=Path, help="checkout of an earlier version")
    made.add_argument("--out", type=Path)
    made.add_argument("--trials", type=int, default=0, help=argparse.SUPPRESS)
    made.add_argument("--cell", help=argparse.SUPPRESS)
    return made


def main() -> None:
    """Run and print."""
    options: Any = parser().parse_args()
    if options.trials:
        for one in trials(Cell.model_validate_json(options.cell), options.trials):
            print(one.model_dump_json(), flush=True)
        return
    if options.out is None:
        parser().error("the following arguments are required: --out")
    print(table(run(options)))
    print(f"wrote {options.out}")


if __name__ == "__main__":
    main()
