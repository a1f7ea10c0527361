"""How far ratios by the judge's own clock scatter on a GPU, by who lets calls go.

    python benchmarks/clock_scatter.py --out benchmarks/results/clock_scatter.json

A softmax wins against one that does 5% more rows. Whatever the clock says of it, it goes on for so
many pairs. The judge has three ways: the reference's process lets calls go and sees their end, and
their own are stopped meanwhile; the same, but their own were woken before, as for kernels that need
them; or these let their calls go and say when they are done, as where a driver shares no page.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from statistics import median
from typing import Literal
from unittest.mock import patch

from gpu_rate_kernels import KERNELS
from result_file import Made, Times, log_ratios, made_now, pair_times, write
from roofsmith import api
from roofsmith.api.subjects import candidate_from
from roofsmith.domain.comparison import Comparison, Judgement, PairSample
from roofsmith.domain.values import Value
from roofsmith.judge import parent
from roofsmith.judge.gpu import segments as running
from roofsmith.judge.gpu.queued_calls import Holding
from roofsmith.judge.version import judge_version
from roofsmith.machine.choice import source_for
from roofsmith.scratch import scratch_directory
from roofsmith.testing.observer import SilentObserver

KERNEL = "triton-softmax"
SLOWDOWN = 0.05
PAIRS = 42
TO_SD = 1.4826
"""From the median absolute deviation to the standard deviation of a normal distribution: one over
its quantile at 3/4 (Rousseeuw and Croux, JASA 88, 1993)."""

Way = Literal["stopped", "woken", "by themselves"]
WAYS: dict[Way, str] = {
    "stopped": "processes stopped while their calls run",
    "woken": "processes woken before",
    "by themselves": "processes let their calls go",
}


class Clocked(Value):
    """One judgement's pairs by the judge's own clock."""

    way: Way
    verdict: str
    pairs_ns: tuple[Times, ...]
    """Valid ones: a call of each side, on average."""
    claimed_ns: tuple[Times, ...]
    """Of the same kernels by the workers' events, when they were measured before."""


class ClockScatter(Value):
    """A result file."""

    made: Made
    judge: str
    judgements: tuple[Clocked, ...]


def scatter(pairs: tuple[Times, ...]) -> tuple[float, float]:
    """The median of ln(incumbent / candidate), and how far pairs are off it: `TO_SD` times the
    median of their distances."""
    ratios = log_ratios(pairs)
    middle = median(ratios)
    return middle, TO_SD * median(abs(ratio - middle) for ratio in ratios)


def has_enough(_claimed: Comparison, samples: Sequence[PairSample], _seen: object) -> bool:
    """Stands for `analysis.clock.has_spoken`."""
    return len(samples) >= PAIRS


def judged(folder: Path) -> Judgement:
    """A win whose pairs by the judge's own clock are so many, whatever they say."""
    kernel = KERNELS[KERNEL]
    slow, fast, reference = (folder / name for name in ("slow.py", "fast.py", "reference.py"))
    slow.write_text(kernel.source(kernel.extra_rows(SLOWDOWN), "slow").text)
    fast.write_text(kernel.source(0, "fast").text)
    reference.write_text(kernel.reference)
    sizes = ",".join(f"{name}={size}" for name, size in kernel.dims.items())
    against = api.Subject(path=slow, reference=reference, workloads=(sizes,))
    language, watch = candidate_from(slow, None).language, SilentObserver()
    with (
        patch.object(parent, "has_spoken", has_enough),
        api.opened_against(against, language, None, api.settings(), watch) as opened,
    ):
        return api.judge_with(opened, candidate_from(fast, None))


def clocked(way: Way, folder: Path) -> Clocked:
    """One judgement."""
    ways: dict[Way, AbstractContextManager[object]] = {
        "stopped": nullcontext(),
        "woken": patch.object(Holding, "end_while_stopped", return_value=False),
        "by themselves": patch.object(running, "_agree", return_value=False),
    }
    with ways[way]:
        found = judged(folder)
    return Clocked(
        way=way, verdict=found.verdict, pairs_ns=pair_times(found.clock),
        claimed_ns=pair_times(found.confirmation),
    )  # fmt: skip


def table(result: ClockScatter) -> str:
    """The result for people."""
    lines = []
    for one in result.judgements:
        (claimed, by_events), (ratio, by_clock) = scatter(one.claimed_ns), scatter(one.pairs_ns)
        lines.append(
            f"{WAYS[one.way]}: {ratio:+.2%} by the judge's clock,"
            f" pairs off by {by_clock:.2%}; {claimed:+.2%} by events, pairs off by {by_events:.2%}"
        )
    return "\n".join(lines)


def main() -> None:
    """Run and print."""
    made = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    made.add_argument("--times", type=int, default=1, help="judgements each way (default 1)")
    made.add_argument("--out", type=Path, required=True)
    options = made.parse_args()
    here = made_now(source_for("cuda").environment())
    folder = scratch_directory("clock-scatter")
    judgements = tuple(clocked(way, folder) for _ in range(options.times) for way in WAYS)
    result = ClockScatter(made=here, judge=judge_version(), judgements=judgements)
    write(result, options.out)
    print(table(result))
    print(f"wrote {options.out}")


if __name__ == "__main__":
    main()
