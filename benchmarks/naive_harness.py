"""What a plain timing loop says of a pair of libraries: one after the other, once.

Each kernel runs in a process of its own, which times itself; the incumbent first, then the
candidate, on the same inputs. This is how most hand-made comparisons are made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean, median

from roofsmith.domain.kernel import Built
from roofsmith.domain.values import Value
from roofsmith.ports import Arguments, KernelRunner

WARM_CALLS = 3
MEAN_CALLS = 7
MEDIAN_CALLS = 30
THRESHOLD = 1.01
"""More than 1% faster: the judge's own noise band."""


class NaivePair(Value):
    """Consecutive calls of either side; nanoseconds. The first seven are meant for the mean."""

    incumbent_ns: tuple[int, ...]
    candidate_ns: tuple[int, ...]

    @property
    def mean_of_7(self) -> bool:
        """Whether the mean of seven calls is more than 1% better."""
        return self._is_win(fmean, slice(0, MEAN_CALLS))

    @property
    def median_of_30(self) -> bool:
        """Whether the median of thirty calls is more than 1% better."""
        return self._is_win(median, slice(MEAN_CALLS, MEAN_CALLS + MEDIAN_CALLS))

    def _is_win(self, typical: Callable[[Sequence[int]], float], calls: slice) -> bool:
        ratio = typical(self.incumbent_ns[calls]) / typical(self.candidate_ns[calls])
        return ratio > THRESHOLD


def naive_pair(
    runner: KernelRunner, incumbent: Built, candidate: Built, arguments: Arguments, threads: int
) -> NaivePair:
    """Time both, one after the other."""
    return NaivePair(
        incumbent_ns=_calls_ns(runner, incumbent, arguments, threads),
        candidate_ns=_calls_ns(runner, candidate, arguments, threads),
    )


def _calls_ns(
    runner: KernelRunner, built: Built, arguments: Arguments, threads: int
) -> tuple[int, ...]:
    with runner.open(built, arguments, threads=threads) as session:
        session.call(WARM_CALLS)
        times_s = (*session.call(MEAN_CALLS), *session.call(MEDIAN_CALLS))
    return tuple(round(time_s * 1e9) for time_s in times_s)
