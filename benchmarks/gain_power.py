"""How often a true gain is called faster, and how many pairs that takes.

    python benchmarks/gain_power.py --out benchmarks/results/gain_power.json

Judge, statistics and the second measurement are the real ones, on kernels whose true ratio is
known; the noise of the pairs is that of identical kernels, recorded and multiplied, since a busy
machine's is larger. Needs no quiet machine.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from statistics import median
from unittest.mock import patch

from result_file import Made, Rate, made_now, rate, say, write
from roofsmith.analysis.statistics import least_observations
from roofsmith.domain.comparison import Judgement
from roofsmith.domain.outcome import BuildFailed
from roofsmith.domain.target import KeepPolicy
from roofsmith.domain.values import Value
from roofsmith.domain.workload import ConfigClass, Workload
from roofsmith.judge import stopping
from roofsmith.judge.parent import ProcessJudge
from roofsmith.ports import Scope
from roofsmith.testing.engine import fake_idea, fake_target
from roofsmith.testing.judge import FakeKernels
from roofsmith.testing.observer import SilentObserver
from roofsmith.testing.toolchain import FakeToolchain
from simulated_bench import Noise, SimulatedBench, VirtualClock, trials_of

WORKLOAD = Workload(dims={"n": 1})
TIME_S = 1e-3
GAINS = (0.0, 0.01, 0.015, 0.02, 0.03, 0.05)
SCALES = (1, 2)
"""Multiples of the recorded noise, in logarithms."""
PATIENCES = (stopping.PATIENCE, 6, stopping.LEANING_PATIENCE)
"""Multiples of the fewest pairs that a measurement gets whose ratio lies beyond the noise band."""


class Case(Value):
    """One true gain under one noise, with so much patience."""

    scale: int
    gain: float
    patience: int
    faster: Rate
    median_pairs: float
    """Of both measurements together."""
    most_pairs: int


class GainPower(Value):
    """The result file."""

    made: Made
    noise: str
    policy: KeepPolicy
    cases: tuple[Case, ...]


def judged(
    trials: Sequence[Sequence[float]], rng: random.Random, gain: float, *, proves_ties: bool = False
) -> Judgement:
    """One judgement of a kernel with a true gain."""
    target = fake_target(workloads=(WORKLOAD,))
    candidate = fake_idea(target, "a gain").candidate
    kernels = FakeKernels(default_time_s=TIME_S)
    kernels.add(candidate, time_s=TIME_S / (1 + gain))
    clock = VirtualClock()
    bench = SimulatedBench(kernels.time_s, Noise(trials, rng), clock)
    classes = (ConfigClass(name="all", workloads=(WORKLOAD.label,), reason="there is only one"),)
    judge = ProcessJudge(target, bench, classes, (), clock.monotonic)
    new, old = (FakeToolchain().build(one) for one in (candidate, target.baseline))
    assert not isinstance(new, BuildFailed)
    assert not isinstance(old, BuildFailed)
    return judge.compare(new, old, SilentObserver(), Scope(classes, proves_ties=proves_ties))


def case(
    trials: Sequence[Sequence[float]], scale: int, gain: float, patience: int, times: int
) -> Case:
    """So many judgements of one gain."""
    rng = random.Random(f"{scale} {gain} {patience}")
    louder = [[scale * ratio for ratio in trial] for trial in trials]
    with patch.object(stopping, "LEANING_PATIENCE", patience):
        found = [judged(louder, rng, gain) for _ in range(times)]
    pairs = [len(one.samples) + len(one.confirmation) for one in found]
    return Case(
        scale=scale, gain=gain, patience=patience,
        faster=rate([one.verdict == "faster" for one in found]),
        median_pairs=median(pairs), most_pairs=max(pairs),
    )  # fmt: skip


def table(result: GainPower) -> str:
    """For the page: a row per noise and gain, a column per patience."""
    found = {(one.scale, one.gain, one.patience): one for one in result.cases}
    least = least_observations(result.policy.error_rate)
    limits = sorted({one.patience for one in result.cases})
    head = " | ".join(f"up to {limit * least} pairs" for limit in limits)
    lines = [
        f"| noise | true gain | {head} | pairs (median, most) |",
        "|---" * (len(limits) + 3) + "|",
    ]
    for scale, gain in dict.fromkeys((one.scale, one.gain) for one in result.cases):
        row = [found[scale, gain, limit] for limit in limits]
        shares = " | ".join(f"{one.faster.share:.1%}" for one in row)
        spent = f"{row[-1].median_pairs:g}, {row[-1].most_pairs}"
        lines.append(f"| {scale}x | {gain:.1%} | {shares} | {spent} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Every case; a table and a file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--times", type=int, default=400)
    parser.add_argument(
        "--noise", type=Path, default=Path("benchmarks/results/judge_rates_1_thread.json")
    )
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    trials = trials_of(json.loads(options.noise.read_text()))
    made, cases = made_now(), []
    for scale, gain, patience in product(SCALES, GAINS, PATIENCES):
        cases.append(case(trials, scale, gain, patience, options.times))
        say(f"{len(cases)}/{len(SCALES) * len(GAINS) * len(PATIENCES)}")
    result = GainPower(
        made=made, noise=options.noise.name, policy=fake_target().keep, cases=tuple(cases)
    )
    print(table(result), end="")
    write(result, options.out)


if __name__ == "__main__":
    main()
