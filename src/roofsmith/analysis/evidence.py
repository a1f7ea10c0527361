"""All that a candidate's decision rests on."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from roofsmith.analysis.profiled import Profiles
from roofsmith.domain.comparison import Comparison, Estimate, Judgement
from roofsmith.domain.dispatch import Dispatch
from roofsmith.domain.finding import Finding
from roofsmith.domain.outcome import Passed
from roofsmith.domain.proposal import Hypothesis
from roofsmith.domain.target import KeepPolicy
from roofsmith.domain.transfer import TransferCheck


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was measured and seen of a candidate beside the incumbent."""

    judgement: Judgement
    first: Comparison | None
    """What the judgement's first samples say, where there are any."""
    hypothesis: Hypothesis
    """Names what should gain."""
    policy: KeepPolicy
    profiles: tuple[Profiles, ...] = ()
    """Of both kernels, on every workload that was looked at."""
    uneven: Collection[str] = ()
    """Workloads of a grouped operator whose groups are uneven, by label."""
    winners: tuple[str, ...] = ()
    """Classes that have to gain, where the candidate is the dispatch of a diverged round."""
    dispatch: Dispatch | None = None
    """Which class runs which kernel, where the candidate is such a dispatch."""
    ablates: bool = False
    """Whether the candidate leaves out a change that was kept, and promises no gain."""
    is_weighed: bool = False
    """Whether workloads count differently, as the comparison says then."""
    trusts_clock: bool = False
    """Whether somebody has said that a repository's benchmark may be believed, whatever candidates
    do to its clock."""
    findings: tuple[Finding, ...] = ()
    """What was looked at before keeping it."""

    @property
    def comparison(self) -> Comparison:
        """Of the measurement that counts; only where there is one."""
        assert self.judgement.comparison is not None, "a veto before spoke"
        return self.judgement.comparison

    @property
    def aim(self) -> Estimate:
        """Of what should gain; only where there is such a class."""
        found = self.comparison.of(self.hypothesis.target_class)
        assert found is not None, "a veto before spoke"
        return found

    @property
    def where(self) -> str:
        """What should gain, for people."""
        aim = self.hypothesis.target_class
        return f"overall{', by weight,' if self.is_weighed else ''}" if aim == "global" else aim

    @property
    def twice(self) -> tuple[Comparison | None, Comparison | None]:
        """What both measurements say; None where there was none, or it counts for nothing."""
        return both_measurements(self.judgement, self.first)

    @property
    def transfer(self) -> TransferCheck | None:
        """The check for over-fitting, where it was made."""
        return next((one for one in self.findings if isinstance(one, TransferCheck)), None)


def both_measurements(
    judgement: Judgement, first: Comparison | None
) -> tuple[Comparison | None, Comparison | None]:
    """The first, which its samples give, and the second; None where one counts for nothing."""
    if not isinstance(judgement.outcome, Passed) or judgement.verdict == "unverified":
        return None, None
    return first, judgement.comparison if judgement.confirmation else None
