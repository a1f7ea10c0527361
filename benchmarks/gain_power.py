"""How often a true gain is called faster, and how many pairs that takes.

    python benchmarks/gain_power.py --out benchmarks/results/gain_power.json
    python benchmarks/gain_power.py --times 0 --retries 150 --out benchmarks/results/retries.json

Judge, statistics and the second measurement are the real ones, on kernels whose true ratio is
known; the noise of the pairs is that of identical kernels, recorded and multiplied, since a busy
machine's is larger. A change that isn't faster is tried again, up to three times, with the pairs of
earlier tries and without them. Needs no quiet machine.
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
from roofsmith.judge import patience as rules
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
TRIES = 3
RETRIED = (0.0, 0.01, 0.02)
"""Gains that are tried again: none, one at the edge of the noise band, which is none either, and a
small one."""
PATIENCES = (rules.PATIENCE, 6, rules.LEANING_PATIENCE)
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


class Retries(Value):
    """One true gain that is tried again, whatever was found, until it is called faster."""

    gain: float
    pooled: bool
    """Whether pairs of earlier tries count."""
    faster: tuple[Rate, ...]
    """After one try, after two and so on."""
    first_won: Rate
    """Changes that won any first measurement, which is at a rate of its own."""
    median_pairs: float
    """Of all tries together."""


class GainPower(Value):
    """The result file."""

    made: Made
    noise: str
    policy: KeepPolicy
    cases: tuple[Case, ...]
    retries: tuple[Retries, ...] = ()


def judged(
    trials: Sequence[Sequence[float]],
    rng: random.Random,
    gain: float,
    *,
    proves_ties: bool = False,
    earlier: tuple[Judgement, ...] = (),
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
    scope = Scope(classes, earlier, proves_ties=proves_ties)
    return judge.compare(new, old, SilentObserver(), scope)


def retried(trials: Sequence[Sequence[float]], gain: float, times: int, *, pooled: bool) -> Retries:
    """So many changes with one gain, under the louder noise."""
    rng = random.Random(f"{gain}")
    louder = [[SCALES[-1] * ratio for ratio in trial] for trial in trials]
    after, won, pairs = list[int](), list[bool](), list[int]()
    for _ in range(times):
        found: list[Judgement] = []
        while len(found) < TRIES and not (found and found[-1].verdict == "faster"):
            found.append(judged(louder, rng, gain, earlier=tuple(found) if pooled else ()))
        after.append(len(found) if found[-1].verdict == "faster" else TRIES + 1)
        won.append(any(one.confirmation for one in found))
        pairs.append(sum(len(one.samples) + len(one.confirmation) for one in found))
    return Retries(
        gain=gain, pooled=pooled, first_won=rate(won), median_pairs=median(pairs),
        faster=tuple(rate([n <= most for n in after]) for most in range(1, TRIES + 1)),
    )  # fmt: skip


def case(
    trials: Sequence[Sequence[float]], scale: int, gain: float, patience: int, times: int
) -> Case:
    """So many judgements of one gain."""
    rng = random.Random(f"{scale} {gain} {patience}")
    louder = [[scale * ratio for ratio in trial] for trial in trials]
    with patch.object(rules, "LEANING_PATIENCE", patience):
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


def retries_table(result: GainPower) -> str:
    """For the page: a row per gain and way to count."""
    names = "true gain", "earlier pairs", "faster after 1, 2, 3 tries", "won a first one", "pairs"
    lines = [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    for one in result.retries:
        shares = ", ".join(f"{found.share:.1%}" for found in one.faster)
        which, won = "count" if one.pooled else "don't", f"{one.first_won.share:.1%}"
        lines.append(f"| {one.gain:.1%} | {which} | {shares} | {won} | {one.median_pairs:g} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Every case; a table and a file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--times", type=int, default=400)
    parser.add_argument("--retries", type=int, default=0, help="changes that are tried again")
    parser.add_argument(
        "--noise", type=Path, default=Path("benchmarks/results/judge_rates_1_thread.json")
    )
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    trials = trials_of(json.loads(options.noise.read_text()))
    made, cases = made_now(), []
    for scale, gain, patience in product(SCALES if options.times else (), GAINS, PATIENCES):
        cases.append(case(trials, scale, gain, patience, options.times))
        say(f"{len(cases)}/{len(SCALES) * len(GAINS) * len(PATIENCES)}")
    retries = []
    for gain, pooled in product(RETRIED if options.retries else (), (True, False)):
        retries.append(retried(trials, gain, options.retries, pooled=pooled))
        say(f"tried again: {len(retries)}/{2 * len(RETRIED)}")
    result = GainPower(
        made=made, noise=options.noise.name, policy=fake_target().keep, cases=tuple(cases),
        retries=tuple(retries),
    )  # fmt: skip
    print(table(result) if result.cases else retries_table(result), end="")
    write(result, options.out)


if __name__ == "__main__":
    main()
