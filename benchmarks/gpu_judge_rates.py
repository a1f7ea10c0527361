"""How often the judge is wrong on a GPU, and how long it takes.

    python benchmarks/gpu_judge_rates.py \\
        --identical softmax=100 small-softmax=100 gemm=100 triton-softmax=100 \\
        --slower 0.01=100 0.02=40 --faster 0.01=100 0.02=200 --invocations 3 \\
        --out benchmarks/results/gpu_judge_rates.json

Identical pairs differ in a comment only, so that each `faster` is a false win. Slower ones do a
known number of rows twice; of faster ones, the incumbent does. A result of the same judge that is
there already is gone on with: what it lacks is made. Invocations are whole commands, `roofsmith
judge`, on the same two files, of which one does 1% more rows where a kernel can. Candidates are
compiled one by one, as in a campaign, or with `--ahead` some at once, before any of them is judged:
durations are those of judging, and compiling is told apart. Where several GPUs
of one product are at hand, start the command once for each with an `--out` of its own; a last one
takes their trials together: `--with one.json two.json`.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import fmean, median

from gpu_rate_kernels import KERNELS, GpuRateKernel
from result_file import Made, Rate, Times, made_now, pair_times, percent, rate, say, write
from roofsmith.api import settings
from roofsmith.api.wiring import OpenTarget, open_target
from roofsmith.domain.kernel import Candidate
from roofsmith.domain.outcome import BuildFailed, Passed
from roofsmith.domain.target import KeepPolicy
from roofsmith.domain.values import Value
from roofsmith.errors import BaselineError, UsageError
from roofsmith.judge.version import judge_version
from roofsmith.machine.choice import source_for
from roofsmith.ports import Scope, required
from roofsmith.testing.observer import SilentObserver

SAVE_EVERY_S = 20.0
AGREEMENT = 0.005
FIRST_JUDGE = "inputs first, then calls"
"""Inputs were in place before calls were queued; winners were not held against its own clock."""
SECOND_JUDGE = "calls first, then inputs"
"""Inputs come once all calls are held back; winners are held against the judge's own clock."""
INVOKED_SLOWDOWN = 0.01


class GpuTrial(Value):
    """One candidate, built and judged."""

    kernel: str
    slowdown: float
    """By the row counts; 0 for an identical pair, negative if the incumbent does more rows."""
    outcome: str
    reason: str = ""
    """Why it didn't pass; empty if it did."""
    verdict: str
    speedup: float | None
    ci: tuple[float, float] | None
    build_s: float | None
    """None: it was built beside others, before any of them was judged."""
    wall_s: float
    """Check and all measurements, and the build, if it has a time."""
    void: int
    first_ns: tuple[Times, ...]
    """Valid pairs of the first measurement."""
    instances: tuple[int, ...]
    """Which pair of processes made each."""
    confirmation_ns: tuple[Times, ...]
    clock_ns: tuple[Times, ...] = ()
    """Valid pairs of a winner's long segments, by the judge's own clock."""
    judge: str = FIRST_JUDGE
    """Which version of it: a name, or the digest that `judge_version` gives."""
    order: int | None = None
    """How many candidates the same judge had judged before."""


class Group(Value):
    """Trials of one kernel and one slowdown."""

    kernel: str
    slowdown: float
    kernel_time_s: float | None
    called_faster: Rate
    called_slower: Rate
    median_speedup: float | None
    repeatability: float | None
    """Share of all pairs of these invocations whose ratios differ by less than 0.5%."""
    verdicts: dict[str, int]
    median_build_s: float | None
    """Of candidates that were built one by one; None if none was."""
    median_wall_s: float
    """Check and all measurements, without the build; so are the next two."""
    p95_wall_s: float
    max_wall_s: float


class Invocation(Value):
    """One `roofsmith judge` on two files."""

    kernel: str
    slowdown: float
    verdict: str
    speedup: float | None
    ci: tuple[float, float] | None
    wall_s: float
    """Of the command as a whole, by itself: it starts everything anew."""


class GpuJudgeRates(Value):
    """A result file."""

    made: Made
    policy: KeepPolicy
    groups: tuple[Group, ...]
    """Follow from the trials; `summarize` makes them again."""
    trials: tuple[GpuTrial, ...]
    invocations: tuple[Invocation, ...] = ()


def summarize(trials: Sequence[GpuTrial]) -> tuple[Group, ...]:
    """Rates and durations, by kernel and slowdown."""
    kinds = sorted({(trial.kernel, trial.slowdown) for trial in trials})
    return tuple(
        _group(*kind, [t for t in trials if (t.kernel, t.slowdown) == kind]) for kind in kinds
    )


def _group(kernel: str, slowdown: float, trials: Sequence[GpuTrial]) -> Group:
    walls = sorted(trial.wall_s - (trial.build_s or 0.0) for trial in trials)
    builds = [trial.build_s for trial in trials if trial.build_s is not None]
    speedups = [trial.speedup for trial in trials if trial.speedup is not None]
    incumbents = [incumbent for trial in trials for incumbent, _ in trial.first_ns]
    return Group(
        kernel=kernel,
        slowdown=slowdown,
        kernel_time_s=median(incumbents) * 1e-9 if incumbents else None,
        called_faster=rate([trial.verdict == "faster" for trial in trials]),
        called_slower=rate([trial.verdict == "slower" for trial in trials]),
        median_speedup=median(speedups) if speedups else None,
        repeatability=repeatability(speedups),
        verdicts=dict(Counter(trial.verdict for trial in trials)),
        median_build_s=median(builds) if builds else None,
        median_wall_s=median(walls),
        p95_wall_s=walls[math.ceil(0.95 * len(walls)) - 1],
        max_wall_s=walls[-1],
    )


def repeatability(speedups: Sequence[float]) -> float | None:
    """Share of pairs of invocations that agree to half a percent; None for fewer than two."""
    pairs = list(combinations(speedups, 2))
    close = [abs(math.log(a / b)) < AGREEMENT for a, b in pairs]
    return fmean(close) if close else None


@dataclass(frozen=True, slots=True)
class GpuBenchmark:
    """A judge with an incumbent that has passed, ready for any number of candidates."""

    kernel: GpuRateKernel
    opened: OpenTarget
    incumbents: dict[float, Candidate]
    """By how much more they do than they need."""

    def candidate(self, slowdown: float) -> Candidate:
        """One that nobody has seen."""
        extra_rows = self.kernel.extra_rows(max(slowdown, 0.0))
        text = self.kernel.source(extra_rows, f"trial {random.getrandbits(64)}").text
        return self.opened.target.baseline.with_kernel_text(text)

    def trial(self, candidate: Candidate, slowdown: float, order: int, *, ahead: bool) -> GpuTrial:
        """Judge a candidate: the first has order 0."""
        begin = time.monotonic()
        require_built(self.opened, candidate)
        build_s = None if ahead else time.monotonic() - begin
        incumbent = self.incumbents[max(-slowdown, 0.0)]
        judgement = required(
            self.opened.evaluator.evaluate(candidate, incumbent, Scope()).judgement
        )
        overall = judgement.comparison.overall if judgement.comparison else None
        samples = (*judgement.samples, *judgement.confirmation)
        return GpuTrial(
            kernel=self.kernel.name,
            slowdown=slowdown,
            outcome=judgement.outcome.kind,
            reason=getattr(judgement.outcome, "reason", ""),
            verdict=judgement.verdict,
            speedup=overall.speedup if overall else None,
            ci=overall.ci if overall else None,
            build_s=build_s,
            wall_s=time.monotonic() - begin,
            void=sum(sample.void is not None for sample in samples),
            first_ns=pair_times(judgement.samples),
            instances=tuple(s.instance for s in judgement.samples if s.void is None),
            confirmation_ns=pair_times(judgement.confirmation),
            clock_ns=pair_times(judgement.clock),
            judge=judge_version(),
            order=order,
        )


def require_built(opened: OpenTarget, candidate: Candidate) -> None:
    """Build a version of the kernel, which may have been built ahead.

    Raises:
        BaselineError: it doesn't build.
    """
    made = opened.machine.toolchain.build(candidate)
    if isinstance(made, BuildFailed):
        raise BaselineError(f"a benchmark's own kernel doesn't build: {made.detail}", log=made.log)


@contextmanager
def benchmark(
    kernel: GpuRateKernel, budget_s: float, needless: Iterable[float]
) -> Iterator[GpuBenchmark]:
    """A judge, with one reference process for all trials and an incumbent per needless share."""
    with open_target(kernel.target(budget_s), settings(), SilentObserver()) as opened:
        incumbents = {}
        for share in needless:
            text = kernel.source(kernel.extra_rows(share), "incumbent").text
            incumbents[share] = opened.target.baseline.with_kernel_text(text)
            checked = opened.evaluator.evaluate(incumbents[share], None, Scope(alone="check"))
            outcome = required(checked.measured).outcome
            if not isinstance(outcome, Passed):
                raise BaselineError(f"a benchmark's own kernel fails: {outcome.detail}")
        yield GpuBenchmark(kernel, opened, incumbents)


def run(options: argparse.Namespace) -> GpuJudgeRates:
    """Make the trials that are missing, in a random order, until all are made or time is up."""
    trials, invocations = earlier(options.out)
    made = made_now(source_for("cuda").environment())
    for path in options.together:
        others, more = elsewhere(path, made)
        trials += others
        invocations += more
    missing = Counter(plan(options))
    missing.subtract(Counter((trial.kernel, trial.slowdown) for trial in trials))
    todo = [kind for kind, count in missing.items() for _ in range(max(count, 0))]
    random.shuffle(todo)
    policy = KERNELS["softmax"].target(options.budget_s).keep
    begin = saved = time.monotonic()

    def save() -> GpuJudgeRates:
        result = GpuJudgeRates(
            made=made, policy=policy, groups=summarize(trials), trials=tuple(trials),
            invocations=tuple(invocations),
        )  # fmt: skip
        write(result, options.out)
        return result

    try:
        with ExitStack() as stack:
            names = sorted({name for name, _ in todo})
            benches = {
                name: stack.enter_context(
                    benchmark(
                        KERNELS[name], options.budget_s,
                        {max(-slowdown, 0.0) for kind, slowdown in todo if kind == name},
                    )
                )
                for name in names
            }  # fmt: skip
            judged: Counter[str] = Counter()
            drawn = [(benches[name], benches[name].candidate(how), how) for name, how in todo]
            for number, (bench, candidate, slowdown) in enumerate(drawn):
                name, ahead = bench.kernel.name, options.ahead > 0
                if ahead and number % options.ahead == 0:
                    build_ahead(drawn[number : number + options.ahead])
                trials.append(bench.trial(candidate, slowdown, judged[name], ahead=ahead))
                judged[name] += 1
                now = time.monotonic()
                if now - saved > SAVE_EVERY_S:
                    save()
                    saved = now
                if now - begin > options.limit_s:
                    say(f"time is up after {len(trials)} trials; the same command goes on")
                    break
        for name in KERNELS if options.invocations else ():
            done = sum(one.kernel == name for one in invocations)
            for _ in range(options.invocations - done):
                if time.monotonic() - begin > options.limit_s:
                    break
                invocations.append(invoked(KERNELS[name]))
    finally:
        result = save()
    return result


def build_ahead(drawn: Sequence[tuple[GpuBenchmark, Candidate, float]]) -> None:
    """Compile candidates side by side; nothing is judged meanwhile."""
    for bench in {bench.kernel.name: bench for bench, _, _ in drawn}.values():
        own = [candidate for other, candidate, _ in drawn if other is bench]
        bench.opened.machine.toolchain.build_all(own)


def earlier(path: Path) -> tuple[list[GpuTrial], list[Invocation]]:
    """What a result file that is there has of the present judge."""
    if not path.exists():
        return [], []
    found = GpuJudgeRates.model_validate_json(path.read_text())
    trials = [trial for trial in found.trials if trial.judge == judge_version()]
    if len(trials) < len(found.trials):
        say(f"{len(found.trials) - len(trials)} trials of other versions of the judge are left out")
        return trials, []
    return trials, list(found.invocations)


def elsewhere(path: Path, made: Made) -> tuple[list[GpuTrial], list[Invocation]]:
    """What a result file has of the present judge, on another GPU of the same product.

    Raises:
        UsageError: there is no such file, or it is of another product.
    """
    if not path.exists():
        raise UsageError(f"{path} isn't there", hint="--with takes what --out has written")
    there = GpuJudgeRates.model_validate_json(path.read_text()).made.environment.device.name
    if there != made.environment.device.name:
        raise UsageError(
            f"{path} is of {there}, not of {made.environment.device.name}",
            hint="rates of different products stay apart: give each its own --out",
        )
    return earlier(path)


def invoked(kernel: GpuRateKernel) -> Invocation:
    """Judge two files by the command line, as a user would.

    Raises:
        BaselineError: the command says something else than a judgement.
    """
    slowdown = INVOKED_SLOWDOWN if "@EXTRA@" in kernel.source_text else 0.0
    sources = [kernel.source(kernel.extra_rows(more), "invoked") for more in (0.0, slowdown)]
    with tempfile.TemporaryDirectory() as made:
        files = [Path(made, f"{i}-{source.path}") for i, source in enumerate(sources)]
        for file, source in zip(files, sources, strict=True):
            file.write_text(source.text)
        reference = Path(made, "reference.py")
        reference.write_text(kernel.reference)
        workload = ",".join(f"{name}={value}" for name, value in kernel.dims.items())
        begin = time.monotonic()
        ran = subprocess.run(
            [
                sys.executable, "-m", "roofsmith", "judge", str(files[1]),
                "--against", str(files[0]), "--ref", str(reference), "--workload", workload,
                "--json",
            ],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        wall_s = time.monotonic() - begin
    try:
        said = json.loads(ran.stdout)
    except ValueError as error:
        raise BaselineError(f"roofsmith judge said {ran.stderr[-500:]!r}") from error
    return Invocation(
        kernel=kernel.name,
        slowdown=slowdown,
        verdict=said["verdict"],
        speedup=said["speedup"],
        ci=said["ci"],
        wall_s=wall_s,
    )


def plan(options: argparse.Namespace) -> list[tuple[str, float]]:
    """(kernel, slowdown) of every trial that is asked for."""
    identical = [(name, 0.0) for name, count in options.identical for _ in range(count)]
    slower = [("softmax", float(how)) for how, count in options.slower for _ in range(count)]
    faster = [("softmax", -float(how)) for how, count in options.faster for _ in range(count)]
    return identical + slower + faster


def table(result: GpuJudgeRates) -> str:
    """The result for people."""
    lines = []
    for group in result.groups:
        kind = f"{abs(group.slowdown):.0%} {'slower' if group.slowdown > 0 else 'faster'}"
        kind = kind if group.slowdown else "identical"
        time_us = "" if group.kernel_time_s is None else f" ({group.kernel_time_s * 1e6:.1f} us)"
        again = "-" if group.repeatability is None else f"{group.repeatability:.1%}"
        lines += [
            f"{group.kernel}{time_us}, {kind}: {group.verdicts}, {group.median_speedup:.4f}x",
            f"  faster {percent(group.called_faster)}, slower {percent(group.called_slower)}",
            f"  two invocations within 0.5%: {again}",
            f"  seconds to judge: median {group.median_wall_s:.2f},"
            f" 95% {group.p95_wall_s:.2f}, most {group.max_wall_s:.2f}; to compile:"
            f" {'-' if group.median_build_s is None else f'{group.median_build_s:.2f}'}",
        ]
    for name in sorted({one.kernel for one in result.invocations}):
        same = [one for one in result.invocations if one.kernel == name]
        ratios = ", ".join("-" if one.speedup is None else f"{one.speedup:.4f}x" for one in same)
        lines.append(f"{name}, {same[0].slowdown:.0%} slower, by separate commands: {ratios}")
    return "\n".join(lines)


def counted(text: str) -> tuple[str, int]:
    """`softmax=70`."""
    name, _, count = text.partition("=")
    return name, int(count)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    made.add_argument("--identical", type=counted, nargs="*", default=[], help="softmax=70 ...")
    made.add_argument("--slower", type=counted, nargs="*", default=[], help="0.01=100 0.02=40")
    made.add_argument("--faster", type=counted, nargs="*", default=[], help="0.01=100 0.02=100")
    made.add_argument("--ahead", type=int, default=0, help="candidates that are compiled at once")
    made.add_argument("--invocations", type=int, default=0, help="commands, for every kernel")
    made.add_argument("--budget-s", type=float, default=6.0, help="for one judgement")
    made.add_argument("--limit-s", type=float, default=math.inf, help="for all of it")
    made.add_argument(
        "--with", dest="together", type=Path, nargs="*", default=[],
        help="results of other GPUs of this product",
    )  # fmt: skip
    made.add_argument("--out", type=Path, required=True)
    return made


def main() -> None:
    """Run and print."""
    options = parser().parse_args()
    print(table(run(options)))
    print(f"wrote {options.out}")


if __name__ == "__main__":
    main()
