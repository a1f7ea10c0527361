"""What running two checkouts' benchmarks in turn came to, as far as it got."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Literal

from roofsmith.analysis.whole_runs import by_own_clock, is_unseen
from roofsmith.domain.command import CommandSpec, MetricReading, RunPair
from roofsmith.domain.comparison import Comparison, PairSample
from roofsmith.domain.kernel import Built
from roofsmith.domain.outcome import Cheated, Failure
from roofsmith.repository.judging.runs import Benchmarked
from roofsmith.repository.judging.watch import CheckoutWatch
from roofsmith.wording import some_of

Side = Literal["incumbent", "candidate"]


class RunFailedError(Exception):
    """A run failed; `outcome` says whose fault it is."""

    def __init__(self, outcome: Failure) -> None:
        super().__init__(outcome.detail)
        self.outcome = outcome


@dataclass(slots=True)
class BenchmarkEvidence:
    """What running two checkouts in turn came to."""

    first: list[PairSample] = field(default_factory=list)
    again: list[PairSample] = field(default_factory=list)
    kernels: list[RunPair] = field(default_factory=list)
    metrics: dict[tuple[str, str, Side], list[float]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """By workload, metric and side: a value per run."""
    whole_runs: list[RunPair] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    watch: CheckoutWatch = field(default_factory=CheckoutWatch)

    @property
    def counting(self) -> Sequence[PairSample]:
        return self.again or self.first

    def add(self, side: Side, run: Benchmarked) -> None:
        """Keep what a run reported beside what is compared."""
        for reading in run.readings:
            for name, value in reading.metrics.items():
                self.metrics[reading.label, name, side].append(value)

    def require_untouched(self, incumbent: Built, candidate: Built) -> None:
        """Hold what the incumbent's checkout was when its last run ended against what it is.

        Raises:
            RunFailedError: the candidate's commands, or what they started, have changed it.
        """
        if incumbent.library == candidate.library:  # against itself: all of it is its own
            return
        if changed := self.watch.touched(incumbent.library):
            detail = (
                f"{some_of(changed)} in the incumbent's checkout changed while the candidate's"
                " commands ran, and none of its own"
            )
            raise RunFailedError(Cheated(reason="other_checkout_changed", detail=detail))

    def note_left(self, candidate: Built, incumbent: Built, spec: CommandSpec) -> None:
        """Tell of files that only the candidate's runs leave, such as results to be found again."""
        left = self.watch.left(candidate.library, incumbent.library, spec.is_result)
        if left:
            self.watch.look(candidate.library)  # once is enough
            what = some_of(left)
            self.notes.append(f"its runs left {what}; the incumbent's leave nothing like it")

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

    def wall_note(self, claimed: Comparison | None, error_rate: float) -> tuple[str, ...]:
        """What the runs took by our own clock, start included, beside what is claimed."""
        if not self.whole_runs:
            return ()
        unseen = is_unseen(claimed, self.whole_runs, error_rate)
        note = by_own_clock(self.whole_runs, unseen=unseen)
        if not unseen:
            return (note,)
        return (
            f"{note}. That is so where kernels are a small part of a run, and where what the"
            " benchmark measures isn't what runs",
        )
