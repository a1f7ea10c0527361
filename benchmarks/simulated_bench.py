"""A bench whose kernels are as fast as the truth says, with the noise of recorded pairs.

Everything above it is the judge's own: sampling, intervals, the second measurement, its own clock.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from roofsmith.domain.comparison import ErrorReport
from roofsmith.domain.description import WorkloadDescription
from roofsmith.domain.kernel import Built
from roofsmith.domain.outcome import Failure
from roofsmith.domain.workload import Workload
from roofsmith.judge.correctness.budgets import Finding
from roofsmith.judge.correctness.low_precision_inputs import Attempts, Ways
from roofsmith.judge.sandbox.isolation import NO_ISOLATION
from roofsmith.judge.timing.bench import Odd, SegmentPlan, Turn
from roofsmith.judge.timing.segment import Segment

SWEEPS_PER_INSTANCE = 6
"""As of the bench for the host's processors."""
SWEEP_S = 0.03
"""Of the judge's time budget that a pair takes: assumed. Only how soon a budget ends follows from
it, and from `START_S`."""
START_S = 0.15
"""Of that budget that a pair of processes takes to start: assumed."""

TrueTime = Callable[[str, str], float]
"""Seconds per call of a candidate on a workload, by id and label."""


@dataclass
class Noise:
    """Log ratios of identical kernels, in the order they were recorded.

    A pair of processes gets consecutive ones of one trial, so that what processes differ by, and
    what drifts, is in it; with a random sign, since identical kernels have no order.
    """

    trials: Sequence[Sequence[float]]
    rng: random.Random

    def of_instance(self) -> list[float]:
        """One log ratio per sweep of a new pair of processes."""
        trial = self.rng.choice(self.trials)
        start = self.rng.randrange(len(trial) - SWEEPS_PER_INSTANCE + 1)
        sign = self.rng.choice((-1.0, 1.0))
        return [sign * ratio for ratio in trial[start : start + SWEEPS_PER_INSTANCE]]


@dataclass
class VirtualClock:
    """Time that passes only where the judge would have waited."""

    now_s: float = 0.0

    def monotonic(self) -> float:
        """Seconds."""
        return self.now_s


@dataclass
class SimulatedInputs:
    """Port-shaped inputs of one workload; nothing is in them."""

    workload: Workload
    description: WorkloadDescription = field(
        default_factory=lambda: WorkloadDescription((), {}, None, None, None, None)
    )
    distribution: str = "own"
    tolerated: tuple[str, ...] = ()

    def use(
        self, distribution: str = "own", guard: int | None = None, seed: int | None = None
    ) -> None:
        """Nothing: outputs are right by decree."""

    def foresee(self, distributions: Sequence[str]) -> None:
        """Nothing: there is nothing to draw ahead."""


@dataclass
class SimulatedStation:
    """One workload, ready for turns."""

    workload: Workload
    kernels: Sequence[Built]
    plan: SegmentPlan
    bench: SimulatedBench
    _noise: list[float] = field(default_factory=list)

    def turn(self, order: Sequence[int], deadline_s: float, *, fresh: bool = True) -> Turn:  # noqa: ARG002
        """True times; the first side's carry the noise of the pair's ratio."""
        if not self._noise:
            self._noise = self.bench.noise.of_instance()
        noise = self._noise.pop()
        self.bench.clock.now_s += SWEEP_S
        segments = []
        for side, built in enumerate(self.kernels):
            time_s = self.bench.true_time(built.candidate_id, self.workload.label)
            time_s *= math.exp(noise) if side == 0 else 1.0
            segments.append(Segment((time_s,), time_s, 0.0, 1, time_s))
        return Turn(tuple(order), tuple(segments), None)

    def examine(self) -> Finding:
        """Right."""
        return Finding(self.workload.label, "own", None, {})

    def attempts(self, known: Ways | None) -> Attempts:  # noqa: ARG002
        """There is nothing to explain."""
        return {}

    def spot_check(self) -> tuple[int, Failure] | None:
        """Right."""
        return None

    def mixed(
        self,
        order: Sequence[int],  # noqa: ARG002
        deadline_s: float,  # noqa: ARG002
        others: Sequence[str],  # noqa: ARG002
    ) -> tuple[Odd, ...]:
        """None."""
        return ()

    def alone(self, odd: Odd, deadline_s: float) -> Finding:  # noqa: ARG002
        """Right."""
        return odd.finding

    def asides(self, deadline_s: float) -> None:
        """Nothing."""


@dataclass
class SimulatedLineup:
    """Kernels that take turns."""

    kernels: Sequence[Built]
    bench: SimulatedBench

    def __enter__(self) -> SimulatedLineup:
        """Up at once, for the price of a start."""
        self.bench.clock.now_s += START_S
        return self

    def __exit__(self, *exception: object) -> None:
        """Nothing to end."""

    def station(self, inputs: SimulatedInputs, plan: SegmentPlan) -> SimulatedStation:
        """Set a workload up."""
        return SimulatedStation(inputs.workload, self.kernels, plan, self.bench)


@dataclass
class SimulatedBench:
    """`judge.timing.bench.Bench` over true times and recorded noise."""

    true_time: TrueTime
    noise: Noise
    clock: VirtualClock
    isolation = NO_ISOLATION
    sweeps_per_instance = clock_sweeps_per_instance = SWEEPS_PER_INSTANCE
    near_workloads = 0
    examination = SegmentPlan(1, warm=0)
    first_deadline_s = 60.0

    @contextmanager
    def inputs(self, workload: Workload, slots: int) -> Iterator[SimulatedInputs]:  # noqa: ARG002
        """Inputs for a workload."""
        yield SimulatedInputs(workload)

    def foresee(self, workload: Workload, distributions: Sequence[str], *, timed: bool) -> None:
        """Nothing: there is no reference."""

    def plan(self, workload: Workload, time_s: float) -> SegmentPlan:  # noqa: ARG002
        """One call per segment: noise is that of whole segments already."""
        return SegmentPlan(1, warm=0)

    def clock_plan(
        self,
        workload: Workload,  # noqa: ARG002
        times: Sequence[float],  # noqa: ARG002
        segment_s: float,  # noqa: ARG002
    ) -> SegmentPlan:
        """The same for the judge's own clock."""
        return SegmentPlan(1, warm=0, by_clock=True)

    def lineup(self, kernels: Sequence[Built]) -> SimulatedLineup:
        """Start kernels."""
        return SimulatedLineup(tuple(kernels), self)

    @contextmanager
    def lineups(
        self,
        kernels: Sequence[Built],
        *,
        by_clock: bool = False,  # noqa: ARG002
    ) -> Iterator[Callable[[], SimulatedLineup]]:
        """Start kernels again and again."""
        yield lambda: self.lineup(kernels)

    def reports(self, workload: Workload, found: Sequence[Finding]) -> tuple[ErrorReport, ...]:  # noqa: ARG002
        """None: nothing is computed."""
        return ()


def trials_of(record: Mapping[str, object]) -> list[list[float]]:
    """Log ratios of a rates file's identical pairs, trial by trial, centred on none.

    Args:
        record: a file that `judge_rates.py` wrote.
    """
    trials = record["trials"]
    assert isinstance(trials, list)
    made = [
        [math.log(incumbent / candidate) for incumbent, candidate in trial["first_ns"]]
        for trial in trials
        if trial["kind"] == "identical"
    ]
    return [ratios for ratios in made if len(ratios) >= SWEEPS_PER_INSTANCE]
