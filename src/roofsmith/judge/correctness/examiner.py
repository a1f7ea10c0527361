"""Correctness of a kernel on every workload, before it is timed and while it is."""

from __future__ import annotations

import itertools
import math
import secrets
import time
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Literal, Self

from roofsmith.domain.comparison import ErrorReport
from roofsmith.domain.kernel import Built
from roofsmith.domain.outcome import Failure, Incorrect, Outcome, Passed
from roofsmith.domain.target import Target
from roofsmith.domain.workload import Workload
from roofsmith.errors import BadReferenceError, TargetError
from roofsmith.judge.correctness.budgets import Finding, elements, subject
from roofsmith.judge.correctness.diagnosis import Code
from roofsmith.judge.correctness.distributions import FIRST, LONE, OWN
from roofsmith.judge.correctness.hidden_workloads import hidden, rows_of, volume
from roofsmith.judge.correctness.low_precision_inputs import Attempts, Ways, explained, first_looks
from roofsmith.judge.correctness.poison import NAN_GUARDS, ZERO_GUARD
from roofsmith.judge.timing.bench import Bench, Inputs, Lineup, SideDiedError, Station
from roofsmith.wording import plural

CHECKS = 2
"""Fresh draws per workload that must be right before anything is timed; of a candidate's on
`DEAR_ELEMENTS`, one, and another before anything counts."""
OTHERS_S = 0.3
"""Time for draws from other distributions on one workload, beyond which `FIRST` ones have to do: an
incumbent's examination decides which they are, and every candidate is examined on all of these. On
a workload near the given ones, as many as there is time for. Chosen."""
LONE_LOOKS = 8
"""More draws with a lone spike, if there is time: who leaves a share p out is caught with p."""
RATE_DRAWS, RATE_S = 16, 1.0
"""More own draws, and the time for them on all workloads, of a kernel that others will be held
against: who is wrong on one draw in ten passes two of them four times of five, and 18 one time in
seven. Chosen."""
BY_LUCK = 1024.0
"""Times the budget up to which an error may be one of some draws. Chosen."""
FITS = 1.5
"""Times the worst of these errors that a tolerance should allow which fits. Chosen."""
MOST_FACTOR = 1000.0
"""Of `tolerance.error_factor`, beyond which an `rtol` says better what is meant. Chosen."""
RETRIES = 2
"""More draws where the operator lost its meaning on one of the first: another may keep it."""
SECOND_LOOKS = 6
"""Draws on which an incumbent has to be right where a candidate was wrong, beside that very one.
One that is wrong on a share p of a distribution's draws binds a candidate with arithmetic as good
as its own, but not the same, in at most p (1 - p)^8 < 5% of examinations."""
WINNERS_S = 3.0
"""Time for a winner on all distributions, those first that it may not have met: a kernel that is
always wrong on one of them, and on no other, passes an examination more often than not."""
LEAST_OTHERS = 2
"""However long they take, on a workload near the given ones."""
OTHER_FACTOR = 2.0
"""What such a draw takes of the time of an own one, as far as can be told before: the reference
computes it in more ways."""
DEADLINE_FACTOR = 30.0
"""A candidate may take this many times as long as the slowest kernel seen before it is killed."""
LEAST_DEADLINE_S = 3.0
DEAR_ELEMENTS, CHEAPER = 2**20, 2
"""Elements, by dimensions alone, of workloads that come after one that is smaller by this factor:
naming what is wrong takes many runs of the reference. Chosen."""
NOTABLE = 1.5
"""Errors of two runs that differ by this factor aren't the same result in another order."""
OF_OTHER_CALLS = frozenset(("memoised_result", "stale_output"))
AMBIGUOUS = frozenset(("wrong_output", "nan_output", *OF_OTHER_CALLS))
"""Reasons that another run may tell better."""

Progress = Callable[[float, str], None]
Part = Literal["all", "own", "first", "rest"]
"""Of an examination: all of it; own draws of the given workloads alone; those and a workload near
them, before pairs are timed; or what is left then, for whoever isn't slower: an own draw, what
explains small errors, and other distributions. Where there are `DEAR_ELEMENTS`, the first part has
one own draw."""


class Examiner:
    """Checks kernels of one target, and remembers how long they took."""

    def __init__(self, target: Target, bench: Bench[Any]) -> None:
        self._target = target
        self._bench = bench
        self._time_s: dict[tuple[str, str], float] = {}
        self._rows: set[str] = set()
        """Dimensions that count rows."""
        self._hidden: dict[str, list[Workload]] = {}
        """Hidden workloads that are a kernel's, by its library's hash."""
        self._is_right_there: dict[tuple[str, str], bool] = {}
        """Whether a kernel is right on one of them, by label; those that were looked at."""
        self._right: dict[str, set[str]] = {}
        """Distributions on which an incumbent was right, by workload."""
        self._fatal: set[str] = set()
        """Distributions on which an incumbent died."""
        self._trying = OWN
        self._rates = False
        """Whether the share of own draws is to be known on which a kernel is wrong."""

    def within(self, target: Target) -> Self:
        """The same for some of the workloads; what either learns, both know."""
        examiner = copy(self)
        examiner._target = target
        return examiner

    def examine(
        self,
        built: Built,
        progress: Progress,
        incumbent: Built | None = None,
        part: Part = "all",
    ) -> tuple[Outcome, tuple[ErrorReport, ...]]:
        """Run every workload on fresh draws; the first failure ends it.

        Args:
            built: the kernel.
            progress: hears how far it is.
            incumbent: what it would replace. Where incumbents were right on other distributions, or
                on a workload near the given ones, it must be, too. Without one, draws from other
                distributions are only tried.
            part: of an examination.
        """
        reports: list[ErrorReport] = []
        near = self._one_near(incumbent) if incumbent is not None and part != "rest" else ()
        workloads = _cheap_first(self._target.workloads, near)
        workload, self._trying = workloads[0], OWN
        try:
            with self._bench.lineup([built]) as lineup:
                for done, workload in enumerate(workloads):
                    with self._bench.inputs(workload, self._bench.examination.slots) as inputs:
                        found = self._examine_workload(built, lineup, inputs, incumbent, part)
                        reports += self._bench.reports(workload, found)
                    if (failure := found[-1].failure) is not None:
                        return _told(failure, workload, near), tuple(reports)
                    progress((done + 1) / len(workloads), workload.label)
        except SideDiedError as error:
            if incumbent is None and self._trying != OWN:
                self._fatal.add(self._trying)
                return self.examine(built, progress, part=part)
            return _told(error.outcome, workload, near, self._trying), tuple(reports)
        if incumbent is None and part == "all":
            for one in self._near(built):
                self._is_right_near(built, one, reports)
        return Passed(), tuple(reports)

    def examine_alone(
        self, built: Built, progress: Progress
    ) -> tuple[Outcome, tuple[ErrorReport, ...]]:
        """The same of a kernel that others will be held against, on more of its own draws: the
        share on which it is wrong is known before."""
        self._rates = True
        try:
            return self.examine(built, progress)
        finally:
            self._rates = False

    def look_further(self, built: Built, incumbent: Built) -> Failure | None:
        """Try a winner on every distribution that the operator tolerates, as long as time allows.

        Args:
            built: passed an examination.
            incumbent: likewise; where it is wrong, or dies, the winner may be and do so, too.

        Returns:
            What it does wrong; None if nothing was found.
        """
        each_s = WINNERS_S / len(self._target.workloads)
        for workload in self._target.workloads:
            with self._bench.inputs(workload, self._bench.examination.slots) as inputs:
                if failure := self._elsewhere(built, incumbent, inputs, each_s):
                    return failure
        return None

    def _elsewhere(
        self, built: Built, incumbent: Built, inputs: Inputs, most_s: float
    ) -> Failure | None:
        """The same on one workload."""
        names = [name for name in inputs.tolerated if name not in self._fatal]
        names.sort(key=lambda name: name in FIRST)
        end = time.monotonic() + most_s
        while True:
            try:
                with self._bench.lineup([built]) as lineup:
                    station = lineup.station(inputs, self._bench.examination)
                    while names:
                        inputs.foresee(names[:LEAST_OTHERS])  # the next is made beside this one
                        found = self._others(built, station, inputs, [names.pop(0)], incumbent)
                        if found and (failure := found[-1].failure) is not None:
                            return failure
                        if time.monotonic() > end:
                            return None
                    return None
            except SideDiedError as error:
                died_on, self._trying = self._trying, OWN
                if self._holds(incumbent, inputs, died_on):
                    return _told(error.outcome, inputs.workload, (), died_on)
                self._fatal.add(died_on)

    def knows(self, built: Built) -> bool:
        """Whether a kernel has passed an examination here."""
        return all(
            (built.library_sha256, workload.label) in self._time_s
            for workload in self._target.workloads
        )

    def others(self, inputs: Inputs) -> tuple[str, ...]:
        """Distributions on which incumbents were right; what tells most comes twice."""
        right = self._right.get(inputs.workload.label, set()) - self._fatal
        names = [name for name in inputs.tolerated if name in right]
        return (*names, *(name for name in names if name in FIRST))

    def coming(self, workload: Workload) -> tuple[str, ...]:
        """Distributions that the next examination of a given workload draws from, own ones aside:
        those that incumbents were right on; nothing is known before there was one."""
        right = self._right.get(workload.label, set(FIRST)) - self._fatal
        return tuple(sorted(right, key=lambda name: (name not in FIRST, name)))

    def time_s(self, built: Built, workload: Workload) -> float | None:
        """Rough seconds per call, from the examination; None if there was none."""
        return self._time_s.get((built.library_sha256, workload.label))

    def deadline_s(self, workload: Workload) -> float:
        """How long a call may take on a workload, going by the slowest kernel seen on it."""
        known = [time for (_, label), time in self._time_s.items() if label == workload.label]
        if not known:
            given = workload in self._target.workloads
            return self._bench.first_deadline_s if given else LEAST_DEADLINE_S
        longest_s = self._bench.first_deadline_s
        return min(max(DEADLINE_FACTOR * max(known), LEAST_DEADLINE_S), longest_s)

    def _examine_workload(
        self,
        built: Built,
        lineup: Lineup[Any],
        inputs: Inputs,
        incumbent: Built | None,
        part: Part = "all",
    ) -> list[Finding]:
        """Findings of fresh draws, up to the first failure."""
        self._rows = rows_of(inputs.workload.dims, inputs.description.arrays)
        station = lineup.station(inputs, self._bench.examination)
        is_given = inputs.workload in self._target.workloads
        is_first = part == "first" and is_given
        is_dear = is_first and volume(inputs.workload.dims) >= DEAR_ELEMENTS
        checks = CHECKS if is_given and part != "rest" and not is_dear else 1
        right = self._right.setdefault(inputs.workload.label, set())
        others = [
            name
            for name in inputs.tolerated
            if name not in self._fatal and (incumbent is None or name in right)
        ]
        if not is_given:
            secrets.SystemRandom().shuffle(others)
        others.sort(key=lambda name: name not in FIRST)
        if part == "own" or is_first:
            others.clear()
        least = sum(name in FIRST for name in others) if is_given else LEAST_OTHERS
        if is_given and incumbent is not None:
            least = len(others)
        if incumbent is not None:
            others += LONE_LOOKS * [name for name in others if name in LONE]
        inputs.foresee([OWN] * checks + others[:least])
        begin = time.monotonic()
        found = self._checks(built, station, inputs, [OWN] * checks)
        took_s = time.monotonic() - begin
        if is_first and found[-1].failure is None:
            return found
        if is_given and (failure := self._averaged_out(station, inputs, found[-1])):
            found[-1] = replace(found[-1], failure=failure)
        if self._rates and is_given:
            found = self._drawn_on(built, station, inputs, found)
        if found[-1].failure is not None:
            return found
        each_s = OTHER_FACTOR * took_s / checks
        count = max(least, int(OTHERS_S / each_s))
        if is_given and incumbent is None and count < len(others):
            count = least  # all or the first, not as many as there was time for by luck
        tried = self._others(built, station, inputs, others[:count], incumbent)
        lost = [f.distribution for f in tried if not f.counts and f.distribution in FIRST]
        if again := [name for name in lost if incumbent is None or name in right]:
            tried += self._others(built, station, inputs, again * RETRIES, incumbent)
        if incumbent is None:
            right.update(f.distribution for f in tried if f.counts)
            right.difference_update(f.distribution for f in tried if f.failure is not None)
            tried = [replace(f, failure=None) for f in tried]
        return [*found, *tried]

    def _drawn_on(
        self, built: Built, station: Station, inputs: Inputs, found: list[Finding]
    ) -> list[Finding]:
        """Findings of more own draws as well, until it is known on what share a kernel is wrong; a
        failure that is there comes last, and says so."""
        failure, begin = found[-1].failure, time.monotonic()
        if failure is not None and not self._may_be_luck(inputs, found[-1]):
            return found
        found = list(found)
        most_s = RATE_S / len(self._target.workloads)
        while len(found) < CHECKS + RATE_DRAWS and time.monotonic() - begin < most_s:
            found += self._checks(built, station, inputs, [OWN], only_tried=True)
        wrong = [finding for finding in found if finding.failure is not None]
        if not wrong:
            return found
        told = wrong[0].failure
        assert told is not None  # it is wrong
        rate = f"wrong on {len(wrong)} of {plural(len(found), 'draw')}"
        detail = f"{told.detail}; {rate}{self._fitting(inputs, wrong)}"
        last = replace(wrong[0], failure=told.model_copy(update={"detail": detail}))
        return [*(finding for finding in found if finding.failure is None), last]

    def _may_be_luck(self, inputs: Inputs, found: Finding) -> bool:
        """Whether a kernel is so nearly right that another draw may be in its budget."""
        if found.failure is None or found.failure.reason != "wrong_output":
            return False
        return all(
            one.norm_error <= BY_LUCK * one.norm_budget
            and one.element_error <= BY_LUCK * one.element_budget
            for one in self._bench.reports(inputs.workload, [found])
        )

    def _fitting(self, inputs: Inputs, wrong: Sequence[Finding]) -> str:
        """The target's key, and a value that lets these errors pass, where there is one."""
        if self._target.tolerance.atol is not None or self._target.tolerance.rtol is not None:
            return ""
        factor = rtol = 0.0
        single = {a.name for a in inputs.description.arrays if elements(a) == 1}
        for one in self._bench.reports(inputs.workload, wrong):
            for error, budget, honest in (
                (one.norm_error, one.norm_budget, one.honest_norm_error),
                (one.element_error, one.element_budget, one.honest_element_error),
            ):
                if error > budget:
                    factor = max(factor, error / honest if honest else math.inf)
                    rtol = max(rtol, error if one.output in single else math.inf)
        fits = {"error_factor": factor} if factor <= MOST_FACTOR else {"rtol": rtol}
        ((key, least),) = fits.items()
        if not 0 < least < math.inf:
            return ""
        value = float(f"{FITS * least:.2g}")
        return f"; if that is honest arithmetic, `tolerance: {{{key}: {value:g}}}` fits"

    def _averaged_out(self, station: Station, inputs: Inputs, found: Finding) -> Failure | None:
        """What is wrong with sums that are within their budgets, or just beyond; see
        `judge.correctness.low_precision_inputs`."""
        if found.failure is not None and found.failure.reason != "wrong_output":
            return None

        draws = itertools.count()
        outputs = [array for array in inputs.description.arrays if array.is_result]

        def look(known: Ways | None) -> Attempts:
            if next(draws):
                station.turn([0], self.deadline_s(inputs.workload))
            return station.attempts(known)

        if (made := explained(look, first_looks(outputs))) is None:
            return None
        name, told = made
        label = inputs.workload.label
        return Incorrect(reason=told.reason, detail=f"{label}: {name!r}: {told.detail}")

    def _others(
        self,
        built: Built,
        station: Station,
        inputs: Inputs,
        names: Sequence[str],
        incumbent: Built | None,
    ) -> list[Finding]:
        """A finding per draw of other distributions, up to a failure that the incumbent avoids."""
        tried = self._checks(built, station, inputs, names, only_tried=incumbent is None)
        if incumbent is None or not tried or tried[-1].failure is None:
            return tried
        name = tried[-1].distribution
        if self._holds(incumbent, inputs, name, tried[-1].seed):
            return tried
        self._right[inputs.workload.label].discard(name)
        tried[-1] = replace(tried[-1], failure=None, counts=False)
        left = [other for other in names[len(tried) :] if other != name]
        return [*tried, *self._others(built, station, inputs, left, incumbent)]

    def _holds(
        self, incumbent: Built, inputs: Inputs, distribution: str, seed: int | None = None
    ) -> bool:
        """Whether an incumbent is right on a distribution: on a candidate's very draw, where its
        own arithmetic fails again, and on draw after draw.

        One draw says little of an incumbent that is now right there, now wrong.
        """
        try:
            with self._bench.lineup([incumbent]) as lineup:
                station = lineup.station(inputs, self._bench.examination)
                for given in (seed, *[None] * SECOND_LOOKS):
                    found = self._checks(
                        incumbent, station, inputs, [distribution], only_tried=True, seed=given
                    )
                    if found[-1].failure is not None:
                        return False
        except SideDiedError:
            self._trying = OWN
            return False
        return True

    def _checks(
        self,
        built: Built,
        station: Station,
        inputs: Inputs,
        distributions: Sequence[str],
        *,
        only_tried: bool = False,
        seed: int | None = None,
    ) -> list[Finding]:
        """A finding per draw, with a seed or any, up to the first failure unless `only_tried`."""
        found: list[Finding] = []
        if seed is None:
            inputs.foresee(distributions)
        try:
            for self._trying in distributions:
                inputs.use(self._trying, seed=seed)
                turn = station.turn([0], self.deadline_s(inputs.workload))
                found.append(station.examine())
                if self._trying == OWN:
                    last_s = turn.segments[0].times_s[-1]
                    key = built.library_sha256, inputs.workload.label
                    # The shortest: segments must not be planned for a call that had to wait.
                    self._time_s[key] = min(last_s, self._time_s.get(key, last_s))
                if found[-1].failure is not None and not only_tried:
                    found[-1] = self._understood(station, inputs, found[-1])
                    break
            self._trying = OWN
        finally:
            inputs.use(OWN)
        return found

    def _understood(self, station: Station, inputs: Inputs, found: Finding) -> Finding:
        """A failure, told better by running once more.

        On new inputs, a result that stays is told from one that lags a call behind. On the same
        inputs, results that differ by themselves, or with what lies beside the arrays.
        """
        failure, limit_s = found.failure, self.deadline_s(inputs.workload)
        if failure is None or failure.reason not in AMBIGUOUS:
            return found
        if not found.is_whole and failure.reason not in OF_OTHER_CALLS:  # nothing can be told
            return found
        try:
            if failure.reason in OF_OTHER_CALLS:
                station.turn([0], limit_s)
                again = station.examine()
                is_lagging = again.failure is not None and again.failure.reason == "stale_output"
                if is_lagging:
                    return again
                why = "another time it isn't the call before"
                remembers = failure.reason == "stale_output"
                return _renamed(found, "memoised_result", why) if remembers else found
            one, other = (self._again(station, inputs, NAN_GUARDS[0]) for _ in range(2))
            if differs(one, other):
                return _renamed(found, "nondeterministic", "two runs on the same inputs differ")
            plain = self._again(station, inputs, ZERO_GUARD)
            if differs(one, plain) or differs(found, plain):
                why = "read beyond its arrays: results change with what lies there"
                return _renamed(found, "out_of_bounds", why)
        except SideDiedError:
            return found
        return found

    def _again(self, station: Station, inputs: Inputs, guard: int) -> Finding:
        inputs.use(inputs.distribution, guard)
        station.turn([0], self.deadline_s(inputs.workload), fresh=False)
        return station.examine()

    def _near(self, built: Built) -> list[Workload]:
        """Hidden workloads for a kernel; it may be wrong on all of them."""
        if (key := built.library_sha256) not in self._hidden:
            given, count = self._target.workloads, self._bench.near_workloads
            tried = hidden(given, secrets.SystemRandom(), count=count, rows=self._rows)
            self._hidden[key] = tried
        return self._hidden[key]

    def _one_near(self, incumbent: Built) -> tuple[Workload, ...]:
        """One of these on which an incumbent is right, each as likely; none may be.

        On the others nobody has to look, so that a new incumbent costs little.
        """
        order = secrets.SystemRandom().sample(near := self._near(incumbent), len(near))
        return next(((one,) for one in order if self._is_right_near(incumbent, one, [])), ())

    def _is_right_near(self, built: Built, workload: Workload, reports: list[ErrorReport]) -> bool:
        """Whether a kernel is right on one of these; `reports` gets errors that weren't known."""
        key = built.library_sha256, workload.label
        if key not in self._is_right_there:
            self._is_right_there[key] = self._is_right(built, workload, reports)
        return self._is_right_there[key]

    def _is_right(self, built: Built, workload: Workload, reports: list[ErrorReport]) -> bool:
        """Whether a kernel is right on a workload that nobody promised."""
        plan = self._bench.examination
        try:
            with (
                self._bench.lineup([built]) as lineup,
                self._bench.inputs(workload, plan.slots) as inputs,
            ):
                found = self._examine_workload(built, lineup, inputs, None)
        except SideDiedError:
            if self._trying == OWN:
                return False
            self._fatal.add(self._trying)
            return self._is_right(built, workload, reports)
        except (BadReferenceError, TargetError):
            return False
        if any(finding.failure is not None for finding in found):
            return False
        reports += self._bench.reports(workload, found)
        return True


def _cheap_first(given: Sequence[Workload], near: Sequence[Workload]) -> tuple[Workload, ...]:
    """All workloads, the cheap one before large ones: who is wrong there is told in no time."""
    least = min(volume(workload.dims) for workload in given)
    if near and least >= DEAR_ELEMENTS and volume(near[0].dims) * CHEAPER <= least:
        return (*near, *given)
    return (*given, *near)


def _told(
    failure: Failure, workload: Workload, near: Sequence[Workload], distribution: str = OWN
) -> Failure:
    """A failure, with a word on what people haven't given: a workload, a death's distribution."""
    if workload not in near and distribution == OWN:
        return failure
    where = subject(workload.label, distribution)
    where += ", near the given workloads" if workload in near else ""
    note = f"on {where}, where the incumbent is right: "
    return failure.model_copy(update={"detail": note + failure.detail})


def _renamed(found: Finding, reason: Code, why: str) -> Finding:
    assert found.failure is not None  # only failures are told better
    detail = f"{why}; {found.failure.detail}"
    return replace(found, failure=Incorrect(reason=reason, detail=detail))


def differs(one: Finding, other: Finding) -> bool:
    """Whether two runs on the same inputs gave notably different results.

    More than an order of summation explains. Where each was compared in another part, or its inputs
    mean nothing to the operator, nobody knows.
    """
    if not all(found.is_whole and found.counts for found in (one, other)):
        return False
    if (one.failure is None) != (other.failure is None):
        return True
    for name, first in one.errors.items():
        second = other.errors[name]
        low, high = sorted((first.norm, second.norm))
        if first.problem != second.problem or high > NOTABLE * low:
            return True
    return False
