"""How often a single workload vetoes: one that loses nothing, and one that loses much.

The rules are the judge's own; the noise of the pairs is that of identical kernels, recorded and
multiplied, since a busy machine's is larger.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections.abc import Sequence
from pathlib import Path

from result_file import Made, Rate, made_now, rate, write
from roofsmith.analysis.compare import estimate, leans_to_veto
from roofsmith.analysis.statistics import least_observations
from roofsmith.domain.comparison import WorkloadComparison
from roofsmith.domain.target import KeepPolicy
from roofsmith.domain.values import Value
from roofsmith.judge.patience import DOUBTING_PATIENCE, PATIENCE
from simulated_bench import SWEEPS_PER_INSTANCE, Noise, trials_of

POLICY = KeepPolicy()
SPEEDUPS = (1.0, 0.98, 0.95, 0.93, 0.9)
"""True ones of the workload."""
SCALES = (1, 3, 6, 10)
"""Multiples of the recorded noise, in logarithms."""


class Case(Value):
    """One true speedup under one noise."""

    scale: int
    speedup: float
    proven: Rate
    """Slower for certain, by the limit or more."""
    rule: Rate
    """That, or seems to lose half of the limit and isn't shown to be spared: vetoed."""
    not_cleared: Rate
    """The second measurement alone doesn't show that it loses less than the limit."""


class WorkloadVeto(Value):
    """The result file."""

    made: Made
    noise: str
    cases: tuple[Case, ...]


def measured(noise: Noise, scale: float, speedup: float) -> WorkloadComparison:
    """One measurement: as many pairs as any gets, and the most where there is doubt."""
    least = least_observations(POLICY.error_rate)
    ratios: list[float] = []
    while len(ratios) < DOUBTING_PATIENCE * least:
        ratios += [scale * ratio + math.log(speedup) for ratio in noise.of_instance()]
    found = _found(ratios[: PATIENCE * least])
    return _found(ratios) if leans_to_veto(found, None, POLICY) else found


def _found(ratios: Sequence[float]) -> WorkloadComparison:
    instances = [n // SWEEPS_PER_INSTANCE for n in range(len(ratios))]
    return WorkloadComparison(
        dims={"n": 1}, workload="n=1", config_class="all",
        estimate=estimate(ratios, POLICY, instances),
        candidate_time_s=1.0, incumbent_time_s=1.0, floor_time_s=None,
    )  # fmt: skip


def case(trials: Sequence[Sequence[float]], scale: int, speedup: float, times: int) -> Case:
    """So many gains elsewhere, each measured twice."""
    noise = Noise(trials, random.Random(f"{scale} {speedup}"))
    limit = 1 - POLICY.veto_slowdown
    proven, rule, not_cleared = [], [], []
    for _ in range(times):
        first, second = (measured(noise, scale, speedup) for _ in range(2))
        found = second.estimate
        proven.append(found.verdict == "slower" and found.speedup <= limit)
        rule.append(proven[-1] or leans_to_veto(second, first, POLICY))
        not_cleared.append(found.ci[0] <= limit)
    return Case(
        scale=scale, speedup=speedup, proven=rate(proven), rule=rate(rule),
        not_cleared=rate(not_cleared),
    )  # fmt: skip


def table(result: WorkloadVeto) -> str:
    """For the page: a row per case."""
    lines = [
        "| noise | the workload's true speed | proven | by the rule | not cleared |",
        "|---|---|---|---|---|",
    ]
    for found in result.cases:
        shares = (found.proven, found.rule, found.not_cleared)
        told = " | ".join(f"{one.share:.1%}" for one in shares)
        lines.append(f"| {found.scale}x | {found.speedup:.2f}x | {told} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Every case; a table and a file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--times", type=int, default=2000)
    parser.add_argument(
        "--noise", type=Path, default=Path("benchmarks/results/judge_rates_1_thread.json")
    )
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    trials = trials_of(json.loads(options.noise.read_text()))
    cases = tuple(case(trials, k, s, options.times) for k in SCALES for s in SPEEDUPS)
    result = WorkloadVeto(made=made_now(), noise=options.noise.name, cases=cases)
    print(table(result), end="")
    write(result, options.out)


if __name__ == "__main__":
    main()
