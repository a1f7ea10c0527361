"""What the judge finds on a busy machine, and how long it takes, beside an earlier version of it.

    python benchmarks/busy.py --minutes 110 --before ../earlier --out benchmarks/results/busy.json

A kernel makes the softmax of N rows, and of some of them again into a scratch buffer. Two versions
differ in the comment and in the one word that says of how many: their machine code is the same, and
the row counts say by how much one is slower. Incumbents do 1, 1.2, 1.5, 2 and 5 times the
candidate's work, with one thread and with two, while none, 0.5, 1 and 2 processes per processor
compute. A trial is a first try: one judgement in a process of its own, with the code of this
checkout or of the one in `--before`. Every trial is written as it comes; with the same `--out` the
next run goes on.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any, Literal

from result_file import Made, Rate, made_now, percent, rate, say, write
from roofsmith.api import settings
from roofsmith.api.wiring import OpenTarget, open_target
from roofsmith.domain.comparison import PairSample
from roofsmith.domain.kernel import BuildSpec, Built, SourceFile
from roofsmith.domain.outcome import Passed
from roofsmith.domain.target import KeepPolicy, Target
from roofsmith.domain.values import Value
from roofsmith.domain.workload import Workload
from roofsmith.errors import BaselineError
from roofsmith.judge.version import judge_version
from roofsmith.testing.observer import SilentObserver
from roofsmith.toolchains.c import CToolchain

SOURCES = Path(__file__).parent.parent / "src"
GAINS = (1.0, 1.2, 1.5, 2.0, 5.0)
LOADS = (0.0, 0.5, 1.0, 2.0)
THREADS = (1, 2)
ROWS, COLUMNS = 400, 256
BUDGET_S = 20.0
"""`keep.judge_budget_s` by default."""
CALM = ("-c", "while True: pass")
TRIAL_DEADLINE_S = 300.0

_KERNEL = """\
// @NOTE@
#include <math.h>

int extra_rows = @EXTRA@;
float scratch[@ROWS@ * @COLUMNS@];

static void softmax_row(const float *row, float *result, int D)
{
    float largest = row[0], sum = 0.0f;
    for (int j = 1; j < D; j++)
        if (row[j] > largest)
            largest = row[j];
    for (int j = 0; j < D; j++) {
        result[j] = expf(row[j] - largest);
        sum += result[j];
    }
    for (int j = 0; j < D; j++)
        result[j] /= sum;
}

void solve(const float *input, float *output, int N, int D)
{
    const int rows = N + extra_rows;
    @PRAGMA@
    for (int i = 0; i < rows; i++) {
        const long from = (long)(i % N) * D;
        softmax_row(input + from, (i < N ? output : scratch) + from, D);
    }
}
"""
_REFERENCE = """\
import numpy as np


def setup(N, D, seed=0):
    values = np.random.default_rng(seed).standard_normal((N, D), dtype=np.float32)
    output = np.empty((N, D), dtype=np.float32)
    return {"inputs": {"input": values, "output": output, "N": N, "D": D}, "outputs": ["output"]}


def reference(input, output, N, D):
    np.exp(input - input.max(axis=1, keepdims=True), out=output)
    output /= output.sum(axis=1, keepdims=True)
"""

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


def _source(gain: float, threads: int, note: str) -> SourceFile:
    filled = {
        "@NOTE@": note, "@EXTRA@": str(round(ROWS * (gain - 1))), "@ROWS@": str(ROWS),
        "@COLUMNS@": str(COLUMNS),
        "@PRAGMA@": "#pragma omp parallel for schedule(static)" if threads > 1 else "",
    }  # fmt: skip
    text = _KERNEL
    for name, value in filled.items():
        text = text.replace(name, value)
    return SourceFile(path="kernel.c", text=text)


def _target(cell: Cell) -> Target:
    return Target(
        name=f"busy-{cell.threads}",
        language="c",
        kernel=_source(cell.gain, cell.threads, "the incumbent"),
        build=BuildSpec(flags=("-O3", "-march=native", "-fopenmp")),
        reference=SourceFile(path="reference.py", text=_REFERENCE),
        workloads=(Workload(dims={"N": ROWS, "D": COLUMNS}),),
        family="softmax",
        threads=cell.threads,
        keep=KeepPolicy(judge_budget_s=BUDGET_S),
    )


@contextmanager
def _loaded(load: float) -> Iterator[None]:
    """While so many processes per processor compute."""
    count = round(load * len(os.sched_getaffinity(0)))
    processes = [subprocess.Popen([sys.executable, "-S", *CALM]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def trial(cell: Cell) -> Trial:
    """Judge once, with the code that this process has; the load is there from the first check."""
    with (
        tempfile.TemporaryDirectory(prefix="roofsmith-busy-") as builds,
        open_target(_target(cell), settings(), SilentObserver()) as opened,
    ):
        toolchain = CToolchain(Path(builds))
        incumbent = _built(toolchain, opened, opened.target.kernel.text)
        note = f"trial {random.getrandbits(31)}"
        candidate = _built(toolchain, opened, _source(1.0, cell.threads, note).text)
        with _loaded(cell.load):
            measured = opened.evaluator.judge.measure(incumbent, SilentObserver(), timed=False)
            if not isinstance(measured.outcome, Passed):
                raise BaselineError(f"a benchmark's own kernel fails: {measured.outcome.detail}")
            begin = time.monotonic()
            found = opened.evaluator.judge.compare(candidate, incumbent, SilentObserver())
            wall_s = time.monotonic() - begin
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


def _tried(cell: Cell, sources: Path) -> Trial:
    """The same in a process of its own, with the package in a folder."""
    done = subprocess.run(
        [sys.executable, __file__, "--trial", cell.model_dump_json()],
        env={**os.environ, "PYTHONPATH": str(sources)},
        stdout=subprocess.PIPE, text=True, check=True, timeout=TRIAL_DEADLINE_S,
    )  # fmt: skip
    return Trial.model_validate_json(done.stdout.splitlines()[-1])


def plan(before: bool) -> list[Cell]:
    """Every cell once, in an order of chance; identical kernels as often as all gains together."""
    judges: tuple[Which, ...] = ("now", "before") if before else ("now",)
    cells = [
        Cell(judge=judge, threads=threads, gain=gain, load=load)
        for judge, threads, load, gain in product(judges, THREADS, LOADS, GAINS)
        for _ in range(len(GAINS) - 1 if gain == 1.0 and judge == "now" else 1)
    ]
    random.shuffle(cells)
    return cells


def run(options: argparse.Namespace) -> Busy:
    """Rounds over all cells until the time is up; each trial is written as it comes."""
    until = time.monotonic() + options.minutes * 60
    made, trials = made_now(), list[Trial]()
    if options.out.is_file():
        known = Busy.model_validate_json(options.out.read_text(encoding="utf-8"))
        made, trials = known.made, list(known.trials)
    folders = {"now": SOURCES, "before": options.before and options.before / "src"}
    result = Busy(made=made, cells=summarize(trials), trials=tuple(trials))
    while True:
        for cell in plan(options.before is not None):
            if time.monotonic() > until:
                return result
            one = _tried(cell, folders[cell.judge])
            trials.append(one)
            result = Busy(made=made, cells=summarize(trials), trials=tuple(trials))
            write(result, options.out)
            say(
                f"{len(trials)}: {cell.judge}, {cell.threads} threads, {cell.gain:g}x under"
                f" {cell.load:g}: {one.verdict} after {len(one.pairs_ns)} pairs, {one.wall_s:.1f} s"
            )


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
    made.add_argument("--minutes", type=float, default=110.0)
    made.add_argument("--before", type=Path, help="checkout of an earlier version")
    made.add_argument("--out", type=Path)
    made.add_argument("--trial", help=argparse.SUPPRESS)
    return made


def main() -> None:
    """Run and print."""
    options: Any = parser().parse_args()
    if options.trial:
        print(json.dumps(trial(Cell.model_validate_json(options.trial)).model_dump(mode="json")))
        return
    if options.out is None:
        sys.exit("say where to write: --out FILE")
    print(table(run(options)))
    print(f"wrote {options.out}")


if __name__ == "__main__":
    main()
