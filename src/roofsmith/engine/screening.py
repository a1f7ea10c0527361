"""Cheap looks at candidates, for proposers that want to see many of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from roofsmith.domain.comparison import Screening
from roofsmith.domain.kernel import Candidate
from roofsmith.domain.outcome import Unfit, Unstable
from roofsmith.ports import Brief, Evaluator, Observer


class IncumbentScreen:
    """Port `Screen`: looks at candidates beside one incumbent.

    Args:
        evaluator: builds and measures.
        observer: hears of every look.
        incumbent: what candidates are timed against.
        may_go_on: once it says no, nothing is begun any more, and every look is refused.
        look_back: what a profiler sees of the last round and of the incumbent, in a brief.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        observer: Observer,
        incumbent: Candidate,
        may_go_on: Callable[[], bool],
        look_back: Callable[[Brief], Brief],
    ) -> None:
        self._evaluator = evaluator
        self._observer = observer
        self._incumbent = incumbent
        self._may_go_on = may_go_on
        self._look_back = look_back
        self._unfit: dict[str, Unfit] = {}
        """Why candidates that were prepared don't count as built; taken out by their look."""
        self._looks = 0

    @property
    def side_by_side(self) -> int:
        """How many candidates are built at the same time."""
        return self._evaluator.side_by_side(self._incumbent.language)

    def prepare(self, candidates: Sequence[Candidate]) -> None:
        """Build them; those that fail keep that for their looks, since some fail at a deadline."""
        if candidates and self._may_go_on():
            made = self._evaluator.build_all(candidates)
            self._unfit |= {c.id: no for c, no in zip(candidates, made, strict=True) if no}

    def with_evidence(self, brief: Brief) -> Brief:
        """The same brief, with what is now in the ledger."""
        return self._look_back(brief) if self._may_go_on() else brief

    def __call__(self, candidate: Candidate) -> Screening:
        """Refused once there is no time left; else what the judge sees."""
        self._looks += 1
        if not self._may_go_on():
            out_of_time = Unstable(reason="budget_spent", detail="no time left to look at this")
            return Screening(outcome=out_of_time, speedup=None)
        self._observer.stage("screen", f"point {self._looks}")
        if unfit := self._unfit.pop(candidate.id, None):
            return Screening(outcome=unfit, speedup=None)
        return self._evaluator.screen(candidate, self._incumbent)
