"""What the judge measures on: the host's processors or a GPU. One protocol, an implementation each.

A bench draws inputs, starts lineups of fresh processes, and sets up stations, one per workload. The
sampler and the examiner above know nothing else of where kernels run.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, Self, TypeVar

from roofsmith.domain.comparison import ErrorReport
from roofsmith.domain.description import WorkloadDescription
from roofsmith.domain.health import Health
from roofsmith.domain.kernel import Built
from roofsmith.domain.outcome import Cheated, Failure
from roofsmith.domain.workload import Workload
from roofsmith.judge.correctness.budgets import Finding
from roofsmith.judge.correctness.low_precision_inputs import Attempts, Ways
from roofsmith.judge.sandbox.isolation import Isolation
from roofsmith.judge.timing.segment import Segment
from roofsmith.ports import KernelDiedError

CLOCK_S = 25e-3
"""Segments of this length take as long by the parent's clock as by a device's events, to 0.14%
(H100); on segments of 1 to 5 ms it scatters by 1 to 4%, where processes have to be woken."""
LEAST_CLOCK_S = 5e-3
"""Workloads of a sweep share `CLOCK_S`, but messages cost tenths of a millisecond every time."""
LEAST_SIDE_S = 1e-3
"""Of the faster side's segment: of a shorter one, the parent's clock sees messages above all."""
LONGEST_SIDE_S = 50e-3
"""Of the slower side's, where the faster one takes it to be long enough."""
MAX_CLOCK_CALLS = 512
"""Every call has inputs of its own; a GPU's launch queue holds about a thousand."""
CHECKED_BY_CLOCK = 32
"""Calls of a long segment that are verified, chosen once all have run: verifying hundreds takes far
longer than running them. Whoever skips one in ten is found in 97 of 100 segments."""
MOST_ODD = 4
"""Chosen: calls of a segment with inputs from another distribution; at most a quarter of it."""


IMPOSSIBLE_SHARE, IMPOSSIBLE_S = 0.05, 50e-6
"""What a worker may claim beyond the time that the parent waited for it, and the pair is only void:
far more than two honest clocks differ by. Assumed."""


def stretched(segment_s: float, times: Sequence[float]) -> float:
    """Seconds of the slowest side's segment, so that the fastest side's isn't too short to see.

    Args:
        segment_s: of the slowest side, as long as both take about as long.
        times: seconds that a call of each side takes, about.
    """
    slow, fast = max(times), max(min(times), 1e-9)
    return max(segment_s, min(LEAST_SIDE_S * slow / fast, LONGEST_SIDE_S))


@dataclass(frozen=True, slots=True)
class SegmentPlan:
    """How many calls make a segment."""

    calls: int
    warm: int
    """Discarded calls, on other inputs, that come first."""
    idle: int = 0
    """Slots that look like those of calls, and that no call is given: nobody may write there. Up to
    as many calls fewer than `calls` are made, at random, so that none knows to be the last."""
    by_clock: bool = False
    """Whether the judge's own clock counts, and so has to see the work to its end."""
    about_s: float | None = None
    """What the slower side's segment takes, about, if that is known."""
    examines: bool = False
    """Whether it is an examination's: what a lone side's calls take plans segments, no more."""
    comes_back: bool = False
    """Whether the second segment begins on the slot that the first one ended on: whoever takes what
    looks like the last call's arguments for the last call's inputs gives an old answer there."""

    @property
    def slots(self) -> int:
        """Slots that a segment needs."""
        return self.calls + bool(self.warm) + self.idle


@dataclass(frozen=True, slots=True)
class Turn:
    """Both sides' segments on one set of inputs."""

    order: tuple[int, ...]
    """Sides in the order they ran."""
    segments: tuple[Segment, ...]
    """Timed calls only, by side."""
    void: str | None
    """Why the turn says nothing about the kernels."""
    health: tuple[Health, ...] = ()
    """A GPU's sensors before the first segment and after each."""


@dataclass(frozen=True, slots=True)
class Odd:
    """A call among ordinary ones, on inputs from another distribution."""

    slot: int
    finding: Finding
    """What the last side made of them, against float64."""


@dataclass(frozen=True, slots=True)
class Asides:
    """Times of the first side that nothing is decided on; seconds per call."""

    hot_s: float
    """On the same arrays again and again."""
    launch_s: float
    """From one call to the next while the host launches them."""


class SideDiedError(Exception):
    """A kernel died during a turn."""

    def __init__(self, side: int, outcome: Failure) -> None:
        super().__init__(outcome.detail)
        self.side = side
        self.outcome = outcome


@contextlib.contextmanager
def blaming(side: int) -> Iterator[None]:
    """Whose kernel it is, if its process dies."""
    try:
        yield
    except KernelDiedError as error:
        raise SideDiedError(side, error.outcome) from error


def overstated(claimed_s: float, wall_s: float) -> Failure | None:
    """What it is to claim more time than passed: a worker could choose which pairs are void."""
    if claimed_s <= (1 + IMPOSSIBLE_SHARE) * wall_s + IMPOSSIBLE_S:
        return None
    detail = (
        f"its own clock says that {claimed_s * 1e3:.3f} ms of the {wall_s * 1e3:.3f} ms went by in"
        " which the judge waited for it"
    )
    return Cheated(reason="clock_forged", detail=detail)


def random_order(sides: int) -> list[int]:
    """All sides, in an order that nobody can predict."""
    order = list(range(sides))
    secrets.SystemRandom().shuffle(order)
    return order


def random_cycle(count: int) -> list[int]:
    """A permutation that nobody can predict and that leaves nothing in its place.

    Sattolo, *An algorithm to generate a random cyclic permutation*, Inf. Proc. Letters 22(6), 1986.

    Args:
        count: 2 or more, or nothing can move.
    """
    order = list(range(count))
    for last in range(count - 1, 0, -1):
        other = secrets.randbelow(last)
        order[last], order[other] = order[other], order[last]
    return order


def chosen_afterwards(calls: Sequence[int]) -> list[int]:
    """Up to `CHECKED_BY_CLOCK` of the calls that have been made, at random."""
    return secrets.SystemRandom().sample(list(calls), min(len(calls), CHECKED_BY_CLOCK))


def odd_among(slots: Collection[int], others: Sequence[str]) -> dict[int, str]:
    """A few slots, at random, each with the distribution that its inputs shall be drawn from.

    Args:
        slots: of a segment.
        others: distributions to choose from; none, and no slot is odd.
    """
    if not others:
        return {}
    chance = secrets.SystemRandom()
    count = chance.randint(1, max(min(len(slots) // 4, MOST_ODD), 1))
    return {slot: chance.choice(others) for slot in chance.sample(list(slots), count)}


class Inputs(Protocol):
    """Fresh inputs for one workload, as long as they are open."""

    @property
    def workload(self) -> Workload:
        """What they are for."""
        ...

    @property
    def description(self) -> WorkloadDescription:
        """Its arrays and their shapes."""
        ...

    @property
    def distribution(self) -> str:
        """What they are drawn from."""
        ...

    @property
    def tolerated(self) -> tuple[str, ...]:
        """Other distributions that the operator tolerates; see `distributions`."""
        ...

    def use(
        self, distribution: str = ..., guard: int | None = None, seed: int | None = None
    ) -> None:
        """Draw from a distribution from now on, between guard bands of one word or of any.

        Args:
            distribution: see `distributions`.
            guard: the word; None: any.
            seed: of all that is drawn; None: the one that is asked for.
        """
        ...

    def seed(self, slot: int) -> int:
        """What a slot's inputs were drawn with."""
        ...

    def foresee(self, distributions: Sequence[str]) -> None:
        """Hear from what the next draws will be made, which will be held against float64: where
        that pays, they are made ahead."""
        ...


KindOfInputs = TypeVar("KindOfInputs", bound=Inputs)
TakenInputs = TypeVar("TakenInputs", bound=Inputs, contravariant=True)


class Station(Protocol):
    """One workload, ready to run on the processes of a lineup."""

    @property
    def workload(self) -> Workload:
        """The workload."""
        ...

    def turn(self, order: Sequence[int], deadline_s: float, *, fresh: bool = True) -> Turn:
        """Draw fresh inputs and run every side on them, in this order.

        Args:
            order: of the sides.
            deadline_s: for one call.
            fresh: False runs on the inputs of the turn before.

        Raises:
            SideDiedError: a side crashed or ran past its deadline.
        """
        ...

    def mixed(
        self, order: Sequence[int], deadline_s: float, others: Sequence[str]
    ) -> tuple[Odd, ...]:
        """A turn that no side can tell from others, but for a few calls' inputs; it has no times.

        Args:
            order: of the sides.
            deadline_s: for one call.
            others: distributions that these calls' inputs may be drawn from, at random.

        Returns:
            These calls; none if chance has them discarded.

        Raises:
            SideDiedError: a side crashed or ran past its deadline.
        """
        ...

    def alone(self, odd: Odd, deadline_s: float) -> Finding:
        """The same call, in processes that have made no other.

        Raises:
            SideDiedError: as above.
        """
        ...

    def asides(self, deadline_s: float) -> Asides | None:
        """Other times of the first side; None where there is nothing to tell apart.

        Raises:
            SideDiedError: it crashed or ran past its deadline.
        """
        ...

    def examine(self) -> Finding:
        """The first side's outputs of the last turn's first call, against float64."""
        ...

    def attempts(self, known: Ways | None) -> Attempts:
        """To explain outputs of the last turn's first call that are within their budgets.

        Args:
            known: ways that explained them on other draws; None: any.
        """
        ...

    def spot_check(self) -> tuple[int, Failure] | None:
        """The first side with a wrong output among the calls just timed, and what is wrong."""
        ...


class Lineup(Protocol[TakenInputs]):
    """Fresh processes for a set of kernels; they end with the block."""

    def __enter__(self) -> Self:
        """The processes are up."""
        ...

    def __exit__(self, *exception: object) -> None:
        """End them."""
        ...

    def station(self, inputs: TakenInputs, plan: SegmentPlan) -> Station:
        """Set a workload up.

        Raises:
            SideDiedError: a side has no memory for it.
        """
        ...


class Bench(Protocol[KindOfInputs]):
    """Where kernels of one target run."""

    @property
    def isolation(self) -> Isolation:
        """The walls around kernels."""
        ...

    @property
    def sweeps_per_instance(self) -> int:
        """Processes are replaced after this many sweeps."""
        ...

    @property
    def clock_sweeps_per_instance(self) -> int:
        """The same of the long segments that the parent's own clock times."""
        ...

    @property
    def near_workloads(self) -> int:
        """On how many workloads near the given ones an incumbent is examined."""
        ...

    @property
    def examination(self) -> SegmentPlan:
        """What an examination runs."""
        ...

    @property
    def first_deadline_s(self) -> float:
        """For a call of a kernel that nothing is known about yet."""
        ...

    def inputs(self, workload: Workload, slots: int) -> AbstractContextManager[KindOfInputs]:
        """Room for fresh inputs."""
        ...

    def foresee(self, workload: Workload, distributions: Sequence[str], *, timed: bool) -> None:
        """Hear what will be drawn for given workloads once a candidate comes: where that pays, it
        is made ahead, and kept until then.

        Args:
            workload: given.
            distributions: of the draws, in their order.
            timed: whether kernels are timed on them, rather than examined.
        """
        ...

    def plan(self, workload: Workload, time_s: float) -> SegmentPlan:
        """Segments of a kernel that takes about `time_s`."""
        ...

    def clock_plan(
        self, workload: Workload, times: Sequence[float], segment_s: float
    ) -> SegmentPlan:
        """Segments of about `segment_s` for the parent's own clock, `stretched`.

        Args:
            workload: a workload.
            times: seconds that a call of each side takes, about.
            segment_s: of the slowest.
        """
        ...

    def lineup(self, kernels: Sequence[Built]) -> Lineup[KindOfInputs]:
        """Start a process per kernel.

        Raises:
            SideDiedError: one can't be loaded.
        """
        ...

    def lineups(
        self, kernels: Sequence[Built], *, by_clock: bool = False
    ) -> AbstractContextManager[Callable[[], Lineup[KindOfInputs]]]:
        """Lineups of the same kernels, one after the other, as often as they are asked for.

        What is started ahead of them ends with the block. Asking raises as `lineup` does.

        Args:
            kernels: one per side.
            by_clock: whether the parent's own clock will count.
        """
        ...

    def reports(self, workload: Workload, found: Sequence[Finding]) -> tuple[ErrorReport, ...]:
        """Worst errors of several findings, beside their budgets."""
        ...
