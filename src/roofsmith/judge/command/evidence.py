"""What running two checkouts' benchmarks in turn came to, as far as it got."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Literal

from roofsmith.domain.command import KernelPair, MetricReading
from roofsmith.domain.comparison import PairSample
from roofsmith.domain.outcome import Failure
from roofsmith.judge.command.runs import Benchmarked

Side = Literal["incumbent", "candidate"]


class RunFailedError(Exception):
    """A run failed; `outcome` says whose fault it is."""

    def __init__(self, outcome: Failure) -> None:
        super().__init__(outcome.detail)
        self.outcome = outcome


@dataclass(slots=True)
class Evidence:
    """What running two checkouts in turn came to."""

    first: list[PairSample] = field(default_factory=list)
    again: list[PairSample] = field(default_factory=list)
    kernels: list[KernelPair] = field(default_factory=list)
    metrics: dict[tuple[str, str, Side], list[float]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """By workload, metric and side: a value per run."""
    walls_s: dict[Side, list[float]] = field(default_factory=lambda: defaultdict(list))
    notes: list[str] = field(default_factory=list)

    @property
    def counting(self) -> Sequence[PairSample]:
        """The samples that are reported and decided on."""
        return self.again or self.first

    def add(self, side: Side, run: Benchmarked) -> None:
        """Keep what a run reported beside what is compared."""
        self.walls_s[side].append(run.wall_s)
        for reading in run.readings:
            for name, value in reading.metrics.items():
                self.metrics[reading.label, name, side].append(value)

    def readings(self) -> tuple[MetricReading, ...]:
        """Medians over all runs, the candidate's beside the incumbent's."""
        of_candidate = [key for key in self.metrics if key[2] == "candidate"]
        return tuple(
            MetricReading(
                workload=label,
                metric=name,
                value=median(self.metrics[label, name, "candidate"]),
                before=median(self.metrics[label, name, "incumbent"]),
            )
            for label, name, _ in of_candidate
            if (label, name, "incumbent") in self.metrics
        )

    def wall_note(self) -> tuple[str, ...]:
        """What the runs took by our own clock, start and set-up included."""
        walls_s = self.walls_s
        if not walls_s["incumbent"] or not walls_s["candidate"]:
            return ()
        return (
            f"a whole run of the benchmark took {fmean(walls_s['incumbent']):.3g} s (incumbent) and"
            f" {fmean(walls_s['candidate']):.3g} s (candidate) by the judge's own clock",
        )
