"""Cheap looks at candidates, for proposers that want to see many of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from roofsmith.domain.comparison import Screening
from roofsmith.domain.kernel import Built, Candidate
from roofsmith.domain.outcome import Unfit, Unstable
from roofsmith.engine.workbench import Workbench


class IncumbentScreen:
    """Port `Screen`: looks at candidates beside one incumbent.

    Args:
        bench: builds and measures.
        incumbent: what candidates are timed against.
        may_go_on: once it says no, nothing is begun any more, and every look is refused.
    """

    def __init__(
        self, bench: Workbench, incumbent: Candidate, may_go_on: Callable[[], bool]
    ) -> None:
        self._bench = bench
        self._incumbent = incumbent
        self._may_go_on = may_go_on
        self._prepared: dict[str, Built | Unfit] = {}
        """By candidate; taken out by its look."""
        self._looks = 0

    @property
    def side_by_side(self) -> int:
        """How many candidates are built at the same time."""
        return self._bench.side_by_side(self._incumbent.language)

    def prepare(self, candidates: Sequence[Candidate]) -> None:
        """Build them, and keep what comes out for their looks."""
        if candidates and self._may_go_on():
            made = self._bench.build_all(candidates)
            self._prepared.update((c.id, one) for c, one in zip(candidates, made, strict=True))

    def __call__(self, candidate: Candidate) -> Screening:
        """Refused once there is no time left; else what the judge sees."""
        self._looks += 1
        if not self._may_go_on():
            out_of_time = Unstable(reason="budget_spent", detail="no time left to look at this")
            return Screening(outcome=out_of_time, speedup=None)
        built = self._prepared.pop(candidate.id, None) or self._bench.build(candidate)
        return self._bench.screen(built, self._incumbent, f"point {self._looks}")
