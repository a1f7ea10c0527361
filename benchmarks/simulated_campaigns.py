"""How often the loop keeps what it shouldn't, and whether a chain of wins adds up to its claim.

    python benchmarks/simulated_campaigns.py --campaigns 2000 --processes 2 \\
        --noise benchmarks/results/judge_rates_1_thread.json \\
        --out benchmarks/results/simulated_campaigns.json --plot docs/simulated_campaigns.svg

Engine, judge, statistics and rules are the real ones. Kernels aren't: every change has a known true
effect, and the noise of its pairs is that of identical kernels recorded on a real machine.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import repeat
from pathlib import Path
from statistics import median

from result_file import Made, Rate, made_now, percent, rate, say, write
from roofsmith.analysis.heard import first_look
from roofsmith.domain.campaign import Campaign, Round
from roofsmith.domain.kernel import Candidate
from roofsmith.domain.proposal import Hypothesis, Proposal
from roofsmith.domain.target import StopPolicy, Target
from roofsmith.domain.values import Value
from roofsmith.domain.workload import ConfigClass, Workload
from roofsmith.engine.loop import Engine
from roofsmith.judge.parent import ProcessJudge
from roofsmith.judge.version import judge_version
from roofsmith.ports import Brief, Screen
from roofsmith.testing.engine import FakeWorld, fake_target
from roofsmith.testing.judge import FakeKernels
from roofsmith.testing.toolchain import SCALE
from simulated_bench import Noise, SimulatedBench, VirtualClock, trials_of
from simulated_plot import claims_against_truth

START_S = 1e-3
SIZES = {"large": (4000, 6000), "small": (300,)}
"""Config classes, and the one dimension of their workloads."""
NOTHING = 0.003
"""Standard deviation of the true log ratio of a change that does nothing."""


class Change(Value):
    """One judged change; ratios are incumbent over candidate, geometric means over workloads."""

    kind: str
    true: float
    true_worst_class: float
    claimed: float | None
    verdict: str
    kept: bool


class SimulatedCampaign(Value):
    """One campaign."""

    seed: int
    changes: tuple[Change, ...]
    true_total: float
    """Final kernel over baseline."""
    claimed_total: float
    first_look_total: float
    """What the kept rounds' first measurements would have claimed."""


class Summary(Value):
    """Follows from the campaigns."""

    changes: int
    kept: int
    wrong_keeps: Rate
    """Of changes whose true effect is no gain at all."""
    within_band_keeps: Rate
    """Of changes whose true gain lies within the noise band."""
    losses_kept: Rate
    """Of changes that truly gain overall, and truly lose more than the noise band on a class."""
    worst_loss_kept: float
    """The largest true loss of a class that was kept, as a share of its time."""
    gains_kept: dict[str, Rate]
    """Of true gains at nobody's expense, by size."""
    total_error_median: float
    """Of the claimed over the true total, minus 1."""
    total_error_abs_median: float
    total_error_abs_p95: float
    totals_within_1_percent: Rate
    total_error_most: float
    """The one that is farthest from nothing, with its sign."""
    first_look_error_median: float
    mean_total_error: float
    """Geometric mean of claimed over true totals, minus 1."""


class SimulatedCampaigns(Value):
    """A result file."""

    made: Made
    judge: str | None = None
    """Its version, `judge_version`; None: from before this was kept."""
    noise: str
    noise_trials: int
    summary: Summary
    campaigns: tuple[SimulatedCampaign, ...]


def true_effect(rng: random.Random) -> tuple[str, dict[str, float]]:
    """Kind of a change, and its true log ratio by class.

    Most changes do nothing or harm, a few gain much, some gain on one class at the other's expense.
    """
    kind = rng.choices(("nothing", "harm", "small gain", "gain", "split"), (30, 25, 20, 15, 10))[0]
    match kind:
        case "nothing":
            effect = rng.gauss(0.0, NOTHING)
        case "harm":
            effect = -rng.expovariate(1 / 0.08)
        case "small gain":
            effect = rng.uniform(0.0, 0.03)
        case "gain":
            effect = 0.03 + rng.expovariate(1 / 0.15)
        case _:
            winner, loser = rng.sample(sorted(SIZES), 2)
            gain, loss = rng.expovariate(1 / 0.1), rng.expovariate(1 / 0.05)
            return kind, {winner: gain, loser: -loss}
    return kind, dict.fromkeys(SIZES, effect)


@dataclass
class KnownChanges:
    """Port `Proposer`: changes whose true effects are written down before they are judged."""

    kernels: FakeKernels
    target: Target
    rng: random.Random
    rounds: int
    kinds: dict[str, str] = field(default_factory=dict)
    name = "known-changes"

    def ask(self, brief: Brief, screen: Screen) -> Proposal | None:  # noqa: ARG002
        """The next change to the incumbent."""
        made = len(self.kinds)
        if made >= self.rounds:
            return None
        kind, effects = true_effect(self.rng)
        candidate = brief.incumbent.with_kernel_text(f"/* change {made} */\n{SCALE}")
        times = {
            w.label: self.kernels.time_s(brief.incumbent.id, w.label)
            / math.exp(effects[str(w.config_class)])
            for w in self.target.workloads
        }
        self.kernels.add(candidate, on=times)
        self.kinds[candidate.id] = kind
        hypothesis = Hypothesis(statement=kind, rationale="simulated", tactic=f"simulated:{made}")
        return Proposal(hypothesis=hypothesis, candidate=candidate)

    def tell(self, round: Round) -> None:
        """Nothing to learn."""


def campaign(seed: int, trials: Sequence[Sequence[float]], rounds: int) -> SimulatedCampaign:
    """One whole campaign through the real engine and judge."""
    rng = random.Random(seed)
    target = fake_target(
        workloads=tuple(
            Workload(dims={"n": size}, config_class=name)
            for name, sizes in SIZES.items()
            for size in sizes
        ),
        stop=StopPolicy(max_iterations=rounds, max_consecutive_regressions=rounds),
    )
    kernels = FakeKernels(default_time_s=START_S)
    world = FakeWorld(target, kernels, (), floor_time_s=None)
    proposer = KnownChanges(kernels, target, rng, rounds)
    clock = VirtualClock()
    bench = SimulatedBench(kernels.time_s, Noise(trials, rng), clock)
    judge = ProcessJudge(target, bench, _classes(target), (), clock.monotonic)
    done = Engine(replace(world, judge=judge, proposer=proposer).parts(), "simulated").run()
    return _summed(seed, done, kernels, proposer.kinds)


def _classes(target: Target) -> tuple[ConfigClass, ...]:
    labels: dict[str, list[str]] = {}
    for workload in target.workloads:
        labels.setdefault(str(workload.config_class), []).append(workload.label)
    return tuple(
        ConfigClass(name=name, workloads=tuple(members), reason="declared in the target")
        for name, members in labels.items()
    )


def _summed(
    seed: int, done: Campaign, kernels: FakeKernels, kinds: dict[str, str]
) -> SimulatedCampaign:
    """The campaign, without its samples."""
    target, classes = done.started.target, done.started.classes
    labels = [workload.label for workload in target.workloads]

    def true(incumbent_id: str, candidate: Candidate, on: Sequence[str]) -> float:
        logs = [
            math.log(kernels.time_s(incumbent_id, label) / kernels.time_s(candidate.id, label))
            for label in on
        ]
        return math.exp(sum(logs) / len(logs))

    changes, first_total = [], 1.0
    for made in done.rounds:
        comparison = made.judgement.comparison
        kept = made.decision.kind == "kept"
        changes.append(
            Change(
                kind=kinds[made.candidate.id],
                true=true(made.incumbent_id, made.candidate, labels),
                true_worst_class=min(
                    true(made.incumbent_id, made.candidate, c.workloads) for c in classes
                ),
                claimed=comparison.overall.speedup if comparison else None,
                verdict=made.judgement.verdict,
                kept=kept,
            )
        )
        if kept and (first := first_look(made.judgement, done.started)) is not None:
            first_total *= first.overall.speedup
    return SimulatedCampaign(
        seed=seed,
        changes=tuple(changes),
        true_total=true(target.baseline.id, done.incumbent, labels),
        claimed_total=done.total_speedup,
        first_look_total=first_total,
    )


def summarize(campaigns: Sequence[SimulatedCampaign]) -> Summary:
    """Rates and errors of these campaigns."""
    changes = [change for made in campaigns for change in made.changes]
    band = fake_target().keep.noise_band
    no_gain = [c for c in changes if c.true <= 1]
    within = [c for c in changes if 1 < c.true <= 1 + band]
    losing = [c for c in changes if c.true > 1 and c.true_worst_class < 1 - band]
    moved = [made for made in campaigns if made.claimed_total != 1.0]
    errors = [made.claimed_total / made.true_total - 1 for made in moved]
    first = [made.first_look_total / made.true_total - 1 for made in moved]
    sizes = ((0.01, 0.02), (0.02, 0.03), (0.03, 0.05), (0.05, 0.1), (0.1, math.inf))
    return Summary(
        changes=len(changes),
        kept=sum(change.kept for change in changes),
        wrong_keeps=rate([change.kept for change in no_gain]),
        within_band_keeps=rate([change.kept for change in within]),
        losses_kept=rate([change.kept for change in losing]),
        worst_loss_kept=max((1 / c.true_worst_class - 1 for c in changes if c.kept), default=0.0),
        gains_kept={
            f"{low:.0%} and more" if high == math.inf else f"{low:.0%} to {high:.0%}": rate(
                [c.kept for c in changes if low < c.true - 1 <= high and c.true_worst_class >= 1]
            )
            for low, high in sizes
        },
        total_error_median=median(errors),
        total_error_abs_median=median(map(abs, errors)),
        total_error_abs_p95=sorted(map(abs, errors))[math.ceil(0.95 * len(errors)) - 1],
        totals_within_1_percent=rate([abs(error) <= 0.01 for error in errors]),
        total_error_most=max(errors, key=abs),
        first_look_error_median=median(first),
        mean_total_error=math.exp(
            sum(math.log(m.claimed_total / m.true_total) for m in moved) / len(moved)
        )
        - 1,
    )


def table(result: SimulatedCampaigns) -> str:
    """The result for people."""
    found = result.summary
    lines = [
        f"{len(result.campaigns)} campaigns, {found.changes} changes, {found.kept} kept",
        f"kept without a gain:         {percent(found.wrong_keeps)}",
        f"kept within the noise band:  {percent(found.within_band_keeps)}",
        f"kept though a class loses:   {percent(found.losses_kept)}, at most"
        f" {found.worst_loss_kept:.1%}",
        *(f"true gains of {size} kept: {percent(kept)}" for size, kept in found.gains_kept.items()),
        f"claimed over true total: median {found.total_error_median:+.2%}, mean"
        f" {found.mean_total_error:+.2%}, 95% within {found.total_error_abs_p95:.2%}",
        f"within 1% of the truth:      {percent(found.totals_within_1_percent)}; farthest from it:"
        f" {found.total_error_most:+.1%}",
        f"by first looks, without measuring again: median {found.first_look_error_median:+.2%}",
    ]
    return "\n".join(lines)


def plot(result: SimulatedCampaigns) -> str:
    """Claimed against true totals, of the campaigns that kept something."""
    return claims_against_truth(
        [(c.true_total, c.claimed_total) for c in result.campaigns if c.claimed_total != 1.0]
    )


def main() -> None:
    """Simulate, write, draw."""
    options = _options()
    trials = trials_of(json.loads(options.noise.read_text()))
    made = made_now()
    seeds = range(options.seed, options.seed + options.campaigns)
    with ProcessPoolExecutor(options.processes) as pool:
        campaigns = []
        for found in pool.map(
            campaign, seeds, repeat(trials), repeat(options.rounds), chunksize=20
        ):
            campaigns.append(found)
            if len(campaigns) % 100 == 0:
                say(f"{len(campaigns)}/{len(seeds)}")
    result = SimulatedCampaigns(
        made=made,
        judge=judge_version(),
        noise=options.noise.name,
        noise_trials=len(trials),
        summary=summarize(campaigns),
        campaigns=tuple(campaigns),
    )
    print(table(result))
    write(result, options.out)
    if options.plot:
        options.plot.write_text(plot(result), encoding="utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--campaigns", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=8, help="changes per campaign")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--noise", type=Path, default=Path("benchmarks/results/judge_rates_1_thread.json")
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--plot", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
