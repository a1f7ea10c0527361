"""How often the judge is wrong on a kernel of about a millisecond, and how long it takes.

    python benchmarks/judge_rates.py --threads 1 --pairs 400 --gain 0.02 0.03 --gain-trials 200 \\
        --out benchmarks/results/judge_rates.json

Identical pairs differ in a comment only, so that each `faster` is a false win. True gains come from
a kernel that does a known number of rows twice; what that is worth in time is measured on the pair
itself, with many more samples than the judge takes. Interrupting keeps the trials that were made.
"""

from __future__ import annotations

import argparse
import math
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Literal

from naive_harness import NaivePair, naive_pair
from rate_kernels import KERNELS, RateKernel
from result_file import (
    Made,
    Rate,
    Times,
    log_ratios,
    made_now,
    pair_times,
    percent,
    rate,
    say,
    write,
)
from roofsmith.analysis.compare import estimate
from roofsmith.api import settings
from roofsmith.api.hardware import fork_server_for
from roofsmith.api.wiring import OpenTarget, open_target
from roofsmith.domain.comparison import PairSample
from roofsmith.domain.kernel import Built
from roofsmith.domain.outcome import BuildFailed, Passed
from roofsmith.domain.target import KeepPolicy
from roofsmith.domain.values import Value
from roofsmith.errors import BaselineError
from roofsmith.judge.correctness.examiner import Examiner
from roofsmith.judge.timing.sampling import Sampler
from roofsmith.judge.version import judge_version
from roofsmith.repository.judging.oracle import RowOracle
from roofsmith.testing.observer import SilentObserver
from roofsmith.toolchains.c import CToolchain

SAVE_EVERY_S = 30.0
MAX_VOID_FACTOR = 4
"""A calibration ends after this many times the pairs that were asked for, however few are valid."""
Kind = Literal["identical", "gain"]


class Trial(Value):
    """One candidate, built and judged."""

    kind: Kind
    gain: float
    """By the row counts: incumbent over candidate, minus 1; 0 for an identical pair."""
    outcome: str
    verdict: str
    first_verdict: str | None
    """What the first measurement said, before the winner was measured again."""
    speedup: float | None
    ci: tuple[float, float] | None
    build_s: float
    wall_s: float
    """Build, check and all measurements."""
    void: int
    """Pairs, of both measurements, that don't count."""
    first_ns: tuple[Times, ...]
    """Valid pairs of the first measurement."""
    confirmation_ns: tuple[Times, ...]
    naive: NaivePair | None = None
    """The same two libraries under a plain timing loop; identical pairs only."""


class Calibration(Value):
    """What the extra rows cost in time, measured at length."""

    gain: float
    rows: int
    extra_rows: int
    speedup: float | None
    """None if every pair was disturbed."""
    ci: tuple[float, float] | None
    void: int
    pairs_ns: tuple[Times, ...]


class GainRate(Value):
    """True gains of one size, found."""

    gain: float
    found: Rate


class Summary(Value):
    """Follows from the trials; `summarize` makes it again."""

    false_wins: Rate
    naive_mean_of_7: Rate
    naive_median_of_30: Rate
    gains: tuple[GainRate, ...]
    verdicts: dict[str, int]
    """Of identical pairs."""
    first_verdicts: dict[str, int]
    """Of identical pairs, before any win was confirmed."""
    median_wall_s: float | None
    p95_wall_s: float | None
    max_wall_s: float | None


class JudgeRates(Value):
    """A result file."""

    made: Made
    judge: str | None = None
    """Digest of its sources, `judge_version`; None: of a version from before this was kept."""
    kernel: str
    threads: int
    policy: KeepPolicy
    kernel_time_s: float | None
    """Median over the incumbents of identical pairs."""
    summary: Summary
    calibrations: tuple[Calibration, ...]
    trials: tuple[Trial, ...]


def summarize(trials: Sequence[Trial]) -> Summary:
    """Rates and durations of these trials."""
    identical = [trial for trial in trials if trial.kind == "identical"]
    naive = [trial.naive for trial in identical if trial.naive is not None]
    gains = sorted({trial.gain for trial in trials if trial.kind == "gain"})
    walls = sorted(trial.wall_s for trial in trials)
    return Summary(
        false_wins=rate([trial.verdict == "faster" for trial in identical]),
        naive_mean_of_7=rate([pair.mean_of_7 for pair in naive]),
        naive_median_of_30=rate([pair.median_of_30 for pair in naive]),
        gains=tuple(
            GainRate(
                gain=gain, found=rate([t.verdict == "faster" for t in trials if t.gain == gain])
            )
            for gain in gains
        ),
        verdicts=dict(Counter(trial.verdict for trial in identical)),
        first_verdicts=dict(Counter(str(trial.first_verdict) for trial in identical)),
        median_wall_s=median(walls) if walls else None,
        p95_wall_s=walls[math.ceil(0.95 * len(walls)) - 1] if walls else None,
        max_wall_s=walls[-1] if walls else None,
    )


@dataclass(frozen=True, slots=True)
class Bench:
    """A judge with an incumbent that has passed, ready for any number of candidates."""

    kernel: RateKernel
    gain: float
    opened: OpenTarget
    toolchain: CToolchain
    """Over an empty cache: the builds of the trials are real."""
    incumbent: Built

    def trial(self, number: int) -> Trial:
        """Build a candidate that nobody has seen, and judge it."""
        begin = time.monotonic()
        candidate = self.candidate(f"trial {number}")
        build_s = time.monotonic() - begin
        judgement = self.opened.evaluator.judge.compare(candidate, self.incumbent, SilentObserver())
        wall_s = time.monotonic() - begin
        overall = judgement.comparison.overall if judgement.comparison else None
        samples = (*judgement.samples, *judgement.confirmation)
        first = pair_times(judgement.samples)
        return Trial(
            kind="gain" if self.gain else "identical",
            gain=self.gain,
            outcome=judgement.outcome.kind,
            verdict=judgement.verdict,
            first_verdict=verdict_of(first, self.opened.target.keep),
            speedup=overall.speedup if overall else None,
            ci=overall.ci if overall else None,
            build_s=build_s,
            wall_s=wall_s,
            void=sum(sample.void is not None for sample in samples),
            first_ns=first,
            confirmation_ns=pair_times(judgement.confirmation),
            naive=None if self.gain else self._naive(candidate),
        )

    def candidate(self, note: str) -> Built:
        """The kernel without extra rows, built under a comment of its own."""
        text = self.kernel.source(0, note).text
        return _built(self.toolchain, self.opened, text)

    def calibrate(self, pairs: int) -> Calibration:
        """Measure the pair far longer than a judgement does, decided or not."""
        opened = self.opened
        assert not isinstance(opened.oracle, RowOracle), "kernels only"
        with (
            fork_server_for(opened.target.language) as fork_server,
            opened.machine.bench(
                opened.target, opened.oracle, opened.survey.environment, fork_server
            ) as bench,
        ):
            examiner = Examiner(opened.target, bench)
            sampler = Sampler(opened.target, bench, examiner)
            candidate = self.candidate("calibration")
            for built in (self.incumbent, candidate):
                outcome, _ = examiner.examine(built, lambda *_: None)
                if not isinstance(outcome, Passed):
                    raise BaselineError(f"a benchmark's own kernel fails: {outcome.detail}")

            def is_over(samples: Sequence[PairSample], spent_s: float) -> bool:  # noqa: ARG001
                valid = sum(sample.void is None for sample in samples)
                return valid >= pairs or len(samples) >= MAX_VOID_FACTOR * pairs

            measured = sampler.pairs(self.incumbent, candidate, is_over, instance=0)
            valid = pair_times(measured.samples)
            found = estimate(log_ratios(valid), opened.target.keep) if valid else None
            return Calibration(
                gain=self.gain,
                rows=self.kernel.rows,
                extra_rows=self.kernel.extra_rows(self.gain),
                speedup=found.speedup if found else None,
                ci=found.ci if found else None,
                void=len(measured.samples) - len(valid),
                pairs_ns=valid,
            )

    def _naive(self, candidate: Built) -> NaivePair:
        arguments = self.opened.oracle.inputs(
            self.opened.target.workloads[0], random.getrandbits(31)
        )
        runner = self.opened.machine.runner
        return naive_pair(runner, self.incumbent, candidate, arguments, self.kernel.threads)


@contextmanager
def bench(kernel: RateKernel, gain: float, budget_s: float, builds: Path) -> Iterator[Bench]:
    """A judge, with one reference process for all trials, and an incumbent slower by `gain`."""
    target = kernel.target(kernel.extra_rows(gain), budget_s)
    with open_target(target, settings(), SilentObserver()) as opened:
        toolchain = CToolchain(builds)
        incumbent = _built(toolchain, opened, target.kernel.text)
        measured = opened.evaluator.judge.measure(incumbent, SilentObserver(), timed=False)
        if not isinstance(measured.outcome, Passed):
            raise BaselineError(f"a benchmark's own kernel fails: {measured.outcome.detail}")
        yield Bench(kernel, gain, opened, toolchain, incumbent)


def _built(toolchain: CToolchain, opened: OpenTarget, text: str) -> Built:
    built = toolchain.build(opened.target.baseline.with_kernel_text(text))
    if isinstance(built, BuildFailed):
        raise BaselineError(
            f"a benchmark's own kernel doesn't build: {built.detail}", log=built.log
        )
    return built


def verdict_of(pairs: Sequence[Times], policy: KeepPolicy) -> str | None:
    """What these pairs say; None without any."""
    return estimate(log_ratios(pairs), policy).verdict if pairs else None


def run(options: argparse.Namespace) -> JudgeRates:
    """Calibrate, then make the trials of all kinds in a random order."""
    kernel = KERNELS[options.threads]
    made, trials = made_now(), list[Trial]()
    calibrations: list[Calibration] = []

    def result() -> JudgeRates:
        incumbents = [p[0] for t in trials if t.kind == "identical" for p in t.first_ns]
        return JudgeRates(
            made=made,
            judge=judge_version(),
            kernel=kernel.name,
            threads=kernel.threads,
            policy=KeepPolicy(judge_budget_s=options.budget_s),
            kernel_time_s=median(incumbents) * 1e-9 if incumbents else None,
            summary=summarize(trials),
            calibrations=tuple(calibrations),
            trials=tuple(trials),
        )

    try:
        with tempfile.TemporaryDirectory(prefix="roofsmith-rates-") as builds, ExitStack() as stack:
            benches = {
                gain: stack.enter_context(bench(kernel, gain, options.budget_s, Path(builds)))
                for gain in (0.0, *options.gain)
            }
            for gain in options.gain if options.calibration_pairs else ():
                say(f"calibrating a gain of {gain:.1%}")
                calibrations.append(benches[gain].calibrate(options.calibration_pairs))
            plan = [0.0] * options.pairs + [
                g for g in options.gain for _ in range(options.gain_trials)
            ]
            random.shuffle(plan)
            _make_trials(
                [benches[gain].trial for gain in plan], trials, lambda: _save(result(), options)
            )
    except KeyboardInterrupt:
        say(f"interrupted after {len(trials)} trials")
    finally:
        _save(result(), options)
    return result()


def _make_trials(
    todo: Sequence[Callable[[int], Trial]], trials: list[Trial], save: Callable[[], None]
) -> None:
    begin = saved = time.monotonic()
    for number, make in enumerate(todo, start=1):
        trials.append(make(number))
        now = time.monotonic()
        left_min = (now - begin) / number * (len(todo) - number) / 60
        last = trials[-1]
        say(
            f"{number}/{len(todo)}  {last.kind} {last.gain:.1%}: {last.verdict}"
            f" in {last.wall_s:.1f} s  ({left_min:.0f} min left)"
        )
        if now - saved > SAVE_EVERY_S:
            save()
            saved = now


def _save(result: JudgeRates, options: argparse.Namespace) -> None:
    write(result, options.out)


def table(result: JudgeRates) -> str:
    """The result for people."""
    found = result.summary
    time_ms = "" if result.kernel_time_s is None else f", {result.kernel_time_s * 1e3:.2f} ms"
    lines = [
        f"{result.kernel}{time_ms}",
        f"  false wins, judge         {percent(found.false_wins)}",
        f"  false wins, mean of 7     {percent(found.naive_mean_of_7)}",
        f"  false wins, median of 30  {percent(found.naive_median_of_30)}",
        *(f"  gains of {g.gain:.1%} found      {percent(g.found)}" for g in found.gains),
        *(
            f"  {c.gain:.1%} by rows is {c.speedup:.4f}x [{c.ci[0]:.4f}, {c.ci[1]:.4f}] by time"
            for c in result.calibrations
            if c.speedup is not None and c.ci is not None
        ),
        f"  identical pairs, verdicts {found.verdicts}; first measurement {found.first_verdicts}",
    ]
    if found.median_wall_s is not None:
        lines.append(
            f"  seconds per candidate     median {found.median_wall_s:.2f},"
            f" 95% {found.p95_wall_s:.2f}, most {found.max_wall_s:.2f}"
        )
    return "\n".join(lines)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    made.add_argument("--threads", type=int, choices=sorted(KERNELS), default=1)
    made.add_argument("--pairs", type=int, default=400, help="identical pairs")
    made.add_argument("--gain", type=float, nargs="*", default=[0.03], help="such as 0.02 0.03")
    made.add_argument("--gain-trials", type=int, default=200, help="for every gain")
    made.add_argument("--calibration-pairs", type=int, default=1000, help="for every gain; 0: none")
    made.add_argument("--budget-s", type=float, default=6.0, help="for one judgement")
    made.add_argument("--out", type=Path, required=True)
    return made


def main() -> None:
    """Run and print."""
    options = parser().parse_args()
    print(table(run(options)))
    print(f"wrote {options.out}")


if __name__ == "__main__":
    main()
