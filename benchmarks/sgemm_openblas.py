"""A matrix-product kernel against NumPy's OpenBLAS with the same threads.

    python benchmarks/sgemm_openblas.py campaigns/sgemm --sizes 512 768 1000 1024 --threads 2 \\
        --out benchmarks/results/sgemm_openblas.json

Both sides are processes of their own on the same processors, with buffers that are aligned alike.
In every turn both get the same fresh inputs and run one after the other, in a random order, while
the other side is stopped: threads that spin while they wait would take its processors. A turn
counts as one ratio, of the medians of its calls.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import IO

import numpy as np
from numpy.typing import NDArray

from numpy_worker import inputs
from result_file import Made, Times, log_ratios, made_now, say, write
from roofsmith.analysis.clock import MESSAGES_S
from roofsmith.analysis.statistics import median_interval
from roofsmith.api.subjects import candidate_from
from roofsmith.domain.arrays import ArraySpec
from roofsmith.domain.campaign import replay
from roofsmith.domain.kernel import Built, Candidate
from roofsmith.domain.values import Value
from roofsmith.judge.host.arena import Arena
from roofsmith.judge.host.process import WorkerProcess
from roofsmith.judge.timing.segment import MAX_WAIT_SHARE
from roofsmith.judge.version import judge_version
from roofsmith.store.ledger import JsonlLedger
from roofsmith.toolchains.c import CToolchain

ERROR_RATE = 0.005
"""Of either side of the intervals: that of the judge's default policy."""
SEGMENT_S = 10e-3
"""Timed calls of a segment take at least about this long."""
MAX_CALLS = 16
TURNS_PER_INSTANCE = 10
"""Then both processes are replaced: where their memory lies makes them fast or slow for life."""
MAX_ERROR = 1e-5
"""Norm-wise; a float32 product of 1024 terms is off by about 1e-7 to 1e-6."""


class SizeRow(Value):
    """Both sides on square matrices of one size."""

    size: int
    ratio: float | None
    """NumPy's time over the kernel's, median over turns: above 1, the kernel is faster."""
    ci: tuple[float, float] | None
    """Anytime-valid; None while there are too few turns."""
    kernel_gflop_per_s: float | None
    numpy_gflop_per_s: float | None
    void: int
    """Turns in which a side's threads waited for a processor."""
    calls: int
    """Timed calls of a segment."""
    worst_error: float
    """Of the kernel's product, norm-wise against float64."""
    pairs_ns: tuple[Times, ...]
    """Valid turns: NumPy, kernel."""


class SgemmOpenblas(Value):
    """A result file."""

    made: Made
    judge: str | None = None
    """Its version, `judge_version`; None: from before this was kept."""
    kernel: str
    """Its source."""
    build_flags: tuple[str, ...]
    threads: int
    blas: str
    """What NumPy was built with."""
    sizes: tuple[SizeRow, ...]


@dataclass(frozen=True, slots=True)
class Segment:
    """One side's part of a turn."""

    time_ns: float
    """Median over the timed calls."""
    is_disturbed: bool


class KernelSide:
    """The kernel in one of the judge's workers."""

    def __init__(self, built: Built, size: int, threads: int) -> None:
        pointers = built.signature.arrays
        specs = [ArraySpec(p.name, p.role, p.dtype, (size, size)) for p in pointers]
        self._names = [p.name for p in pointers]
        self._arena = Arena(specs, 1)
        self._worker = WorkerProcess(built, threads=threads)
        self._worker.wait_until_loaded()
        self._number = self._worker.map(self._arena)
        self._arguments = [
            size if p.role == "size" else self._arena.offset(0, p.name)
            for p in built.signature.parameters
        ]
        self._worker.pause()

    def turn(self, a: NDArray[np.float32], b: NDArray[np.float32], calls: int) -> Segment:
        """Run on fresh inputs; an untimed call comes first."""
        self._arena.prepare(0, dict(zip(self._names, (a, b), strict=False)))
        with self._worker.awake():
            self._worker.stage(self._number, self._arena, [0])
            segment = self._worker.run(self._number, [self._arguments] * (calls + 1), 60.0)
            self._worker.collect(self._number, self._arena, [0])
        times_s = segment.times_s[1:]
        return Segment(median(times_s) * 1e9, _waited_too_long(segment.waited_s, segment.wall_s))

    def product(self) -> NDArray[np.generic]:
        """C, as the last call left it."""
        return self._arena.view(0, self._names[2])

    def close(self) -> None:
        """End the process."""
        self._worker.close()
        self._arena.close()


class NumpySide:
    """NumPy in a process with the same number of threads, on the same processors."""

    def __init__(self, size: int, threads: int) -> None:
        self._size = size
        count = str(threads)
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("numpy_worker.py"))],
            env=os.environ | {"OPENBLAS_NUM_THREADS": count, "OMP_NUM_THREADS": count},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.turn(0, 1)

    def turn(self, seed: int, calls: int) -> Segment:
        """Run on the inputs of this seed; an untimed call comes first."""
        waited, begin = self._waited_s(), time.perf_counter()
        self._process.send_signal(signal.SIGCONT)
        question, answer = _pipes(self._process)
        question.write(json.dumps({"size": self._size, "seed": seed, "calls": calls}) + "\n")
        question.flush()
        line = answer.readline()
        wall_s = time.perf_counter() - begin
        waited_s = self._waited_s() - waited
        self._process.send_signal(signal.SIGSTOP)
        # Returns when every thread has stopped, or the process has ended.
        os.waitpid(self._process.pid, os.WUNTRACED)
        if not line:
            raise SystemExit("the NumPy worker ended; its message is above")
        return Segment(median(json.loads(line)), _waited_too_long(waited_s, wall_s))

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        for pipe in _pipes(self._process):
            pipe.close()

    def _waited_s(self) -> float:
        """Second field of schedstat, as in the judge's own workers."""
        tasks = Path(f"/proc/{self._process.pid}/task").glob("*/schedstat")
        return sum(int(task.read_text().split()[1]) for task in tasks) * 1e-9


def _pipes(process: subprocess.Popen[str]) -> tuple[IO[str], IO[str]]:
    assert process.stdin is not None, "opened with pipes"
    assert process.stdout is not None, "opened with pipes"
    return process.stdin, process.stdout


def _waited_too_long(waited_s: float, wall_s: float) -> bool:
    """The judge's rule for a segment that another process disturbed."""
    return waited_s > MESSAGES_S + MAX_WAIT_SHARE * wall_s


@contextmanager
def sides(built: Built, size: int, threads: int) -> Iterator[tuple[KernelSide, NumpySide]]:
    """A fresh pair of processes, both stopped."""
    kernel = KernelSide(built, size, threads)
    try:
        numpy = NumpySide(size, threads)
        try:
            yield kernel, numpy
        finally:
            numpy.close()
    finally:
        kernel.close()


def measure(built: Built, size: int, threads: int, turns: int) -> SizeRow:
    """Take turns on one size."""
    pairs, void, worst, calls = list[Times](), 0, 0.0, 0
    for start in range(0, turns, TURNS_PER_INSTANCE):
        with sides(built, size, threads) as (kernel, numpy):
            calls = calls or _calls(numpy)
            for _ in range(min(TURNS_PER_INSTANCE, turns - start)):
                seed = random.getrandbits(31)
                a, b = inputs(size, seed)
                if random.getrandbits(1):
                    ours, theirs = kernel.turn(a, b, calls), numpy.turn(seed, calls)
                else:
                    theirs, ours = numpy.turn(seed, calls), kernel.turn(a, b, calls)
                worst = max(worst, product_error(a, b, kernel.product()))
                if ours.is_disturbed or theirs.is_disturbed:
                    void += 1
                else:
                    pairs.append((theirs.time_ns, ours.time_ns))
    return size_row(size, pairs, void, worst, calls)


def _calls(numpy: NumpySide) -> int:
    time_s = numpy.turn(0, 3).time_ns * 1e-9
    return max(1, min(math.ceil(SEGMENT_S / time_s), MAX_CALLS))


def product_error(
    a: NDArray[np.float32], b: NDArray[np.float32], product: NDArray[np.generic]
) -> float:
    """Norm-wise error of a product, seen through a random vector (Freivalds, MFCS 1979).

    Sums in float64 and without BLAS, whose threads would go on spinning here afterwards.
    """
    x = np.random.default_rng().standard_normal(size=(b.shape[1],))
    expected = _times(a, _times(b, x))
    difference = _times(product, x) - expected
    error = math.sqrt((difference * difference).sum() / (expected * expected).sum())
    if not error <= MAX_ERROR:
        raise SystemExit(f"the kernel's product is wrong: off by {error:.2g}, norm-wise")
    return error


def _times(matrix: NDArray[np.generic], x: NDArray[np.float64]) -> NDArray[np.float64]:
    product: NDArray[np.float64] = np.einsum("ij,j->i", matrix.astype(np.float64), x)
    return product


def size_row(size: int, pairs: Sequence[Times], void: int, worst: float, calls: int) -> SizeRow:
    """Figures of one size, from its valid turns."""
    ratio, ci = None, None
    if pairs:
        ratios = log_ratios(pairs)
        middle, (low, high) = median(ratios), median_interval(ratios, ERROR_RATE)
        ratio = math.exp(middle)
        ci = (math.exp(low), math.exp(high)) if math.isfinite(low) else None
    return SizeRow(
        size=size,
        ratio=ratio,
        ci=ci,
        kernel_gflop_per_s=_gflop_per_s(size, [ours for _, ours in pairs]),
        numpy_gflop_per_s=_gflop_per_s(size, [theirs for theirs, _ in pairs]),
        void=void,
        calls=calls,
        worst_error=worst,
        pairs_ns=tuple(pairs),
    )


def _gflop_per_s(size: int, times_ns: Sequence[float]) -> float | None:
    """2 n^3 operations over the median; per nanosecond is 1e9 per second."""
    return 2 * size**3 / median(times_ns) if times_ns else None


def candidate_in(place: Path, flags: str | None) -> Candidate:
    """The kernel that holds at the end of a campaign, or a kernel file.

    Raises:
        TargetError: the file can't be read.
        LedgerError: the campaign's ledger was changed.
    """
    if not place.is_dir():
        return candidate_from(place, flags)
    campaign = replay(JsonlLedger(place / "ledger.jsonl").events())
    if campaign is None:
        raise SystemExit(f"{place} holds no campaign: name its directory, or a kernel file")
    return campaign.incumbent


def run(options: argparse.Namespace) -> SgemmOpenblas:
    """Build the kernel and measure every size; an interrupt keeps the sizes that are done."""
    made, rows = made_now(), list[SizeRow]()
    candidate = candidate_in(options.place, options.flags)
    with tempfile.TemporaryDirectory(prefix="roofsmith-sgemm-") as builds:
        built = CToolchain(Path(builds)).build(candidate)
        if not isinstance(built, Built):
            raise SystemExit(f"the kernel doesn't build: {built.detail}")
        try:
            for size in options.sizes:
                say(f"{size}: {options.turns} turns")
                rows.append(measure(built, size, options.threads, options.turns))
        except KeyboardInterrupt:
            say(f"interrupted after {len(rows)} sizes")
    result = SgemmOpenblas(
        made=made,
        judge=judge_version(),
        kernel=candidate.kernel.text,
        build_flags=(*candidate.build.flags, *candidate.build.link),
        threads=options.threads,
        blas=blas_name(),
        sizes=tuple(rows),
    )
    write(result, options.out)
    return result


def blas_name() -> str:
    """Such as `scipy-openblas 0.3.27`."""
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    return f"{blas['name']} {blas['version']}"


def table(result: SgemmOpenblas) -> str:
    """The result for people."""
    lines = [f"{result.blas}, {result.threads} threads; above 1 the kernel is faster"]
    for row in result.sizes:
        if row.ratio is None:
            lines.append(f"{row.size:>6}  every turn was disturbed by other processes")
            continue
        ci = f" [{row.ci[0]:.3f}, {row.ci[1]:.3f}]" if row.ci else ""
        lines.append(
            f"{row.size:>6}  {row.ratio:.3f}x{ci}  kernel {row.kernel_gflop_per_s:.0f} GFLOP/s,"
            f" NumPy {row.numpy_gflop_per_s:.0f}  ({len(row.pairs_ns)} turns, {row.void} void)"
        )
    return "\n".join(lines)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    made.add_argument("place", type=Path, help="a campaign directory, or a kernel file")
    made.add_argument("--sizes", type=int, nargs="+", default=[512, 768, 1000, 1024])
    made.add_argument("--threads", type=int, default=2)
    made.add_argument("--turns", type=int, default=100, help="for every size")
    made.add_argument("--flags", help="of a kernel file; by default -O3 -march=native")
    made.add_argument("--out", type=Path, required=True)
    return made


def main() -> None:
    """Run and print."""
    options = parser().parse_args()
    print(table(run(options)))
    print(f"wrote {options.out}")


if __name__ == "__main__":
    main()
