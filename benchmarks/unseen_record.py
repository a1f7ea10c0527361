"""What `unseen.py` keeps: a campaign's figures beside good kernels' times; needs no torch."""

from __future__ import annotations

import math
from collections.abc import Iterable

from result_file import Made
from roofsmith.domain.campaign import Campaign, Kept
from roofsmith.domain.values import Value


class Way(Value):
    """One good kernel on one workload."""

    workload: str
    name: str
    time_s: float | None = None
    """Median over turns; None: it failed."""
    failed: str | None = None


class Library(Value):
    """All of them on all workloads."""

    ways: tuple[Way, ...]
    torch_version: str
    threads: int

    def best(self, workload: str) -> Way | None:
        """The fastest on a workload."""
        timed = [one for one in self.ways if one.workload == workload and one.time_s is not None]
        return min(timed, key=lambda one: one.time_s or 0.0, default=None)


class Offer(Value):
    """The first change that a campaign judged."""

    tactic: str
    proposer: str
    verdict: str
    decision: str


class WorkloadRow(Value):
    """One workload: a campaign's own times beside the best good kernel's."""

    workload: str
    baseline_s: float
    final_s: float
    """The same, where nothing was kept."""
    library: Way | None

    def share(self, time_s: float) -> float | None:
        """Of the good kernel's speed, at such a time."""
        known = self.library.time_s if self.library else None
        return None if known is None else known / time_s


class KernelRow(Value):
    """One kernel."""

    name: str
    wall_s: float
    stopped: str
    rounds: int
    kept: tuple[str, ...]
    """Tactics, in order."""
    first: Offer | None
    """None: nothing was offered."""
    speedup: float
    """Geometric mean over workloads, as the shares."""
    share_before: float | None
    share: float | None
    workloads: tuple[WorkloadRow, ...]
    library: Library | None
    kernel: str
    """Source of the final one."""
    failed: tuple[str, ...] = ()


class Means(Value):
    """Geometric means over kernels that have all figures."""

    kernels: int
    speedup: float | None = None
    share_before: float | None = None
    share: float | None = None
    kept_any: int = 0
    first_kept: int = 0


class Unseen(Value):
    """A result file."""

    made: Made
    judge: str
    budget_s: float
    proposer: str
    means: Means
    kernels: tuple[KernelRow, ...] = ()

    def with_row(self, row: KernelRow) -> Unseen:
        """With one more kernel, and means over all."""
        rows = (*(one for one in self.kernels if one.name != row.name), row)
        return self.model_copy(update={"kernels": rows, "means": means(rows)})


def row_of(
    name: str, campaign: Campaign, library: Library | None, wall_s: float, failed: tuple[str, ...]
) -> KernelRow:
    """A campaign's figures beside the good kernels'."""
    assert campaign.baseline is not None
    stopped, rounds = campaign.stopped, campaign.rounds
    before = {one.workload: one.time_s for one in campaign.baseline.timings}
    kept = tuple(one.hypothesis.tactic for one in rounds if isinstance(one.decision, Kept))
    final = stopped.final_timings if stopped and kept else ()
    after = before | {one.workload: one.time_s for one in final}
    workloads = tuple(
        WorkloadRow(
            workload=one,
            baseline_s=before[one],
            final_s=after[one],
            library=library.best(one) if library else None,
        )
        for one in before
    )
    return KernelRow(
        name=name,
        wall_s=wall_s,
        stopped=f"{stopped.code}: {stopped.detail}" if stopped else "killed",
        rounds=len(rounds),
        kept=kept,
        first=Offer(
            tactic=rounds[0].hypothesis.tactic,
            proposer=rounds[0].proposer,
            verdict=rounds[0].judgement.verdict,
            decision=rounds[0].decision.kind,
        )
        if rounds
        else None,
        speedup=geometric(one.baseline_s / one.final_s for one in workloads) or 1.0,
        share_before=geometric(one.share(one.baseline_s) for one in workloads),
        share=geometric(one.share(one.final_s) for one in workloads),
        workloads=workloads,
        library=library,
        kernel=campaign.incumbent.kernel.text,
        failed=failed,
    )


def geometric(values: Iterable[float | None]) -> float | None:
    """The geometric mean; None where a value is missing, or all are."""
    found = list(values)
    logs = [math.log(one) for one in found if one is not None]
    return math.exp(sum(logs) / len(logs)) if logs and len(logs) == len(found) else None


def means(rows: Iterable[KernelRow]) -> Means:
    """Over kernels whose library was timed."""
    whole = [one for one in rows if one.share is not None]
    return Means(
        kernels=len(whole),
        speedup=geometric(one.speedup for one in whole),
        share_before=geometric(one.share_before for one in whole),
        share=geometric(one.share for one in whole),
        kept_any=sum(bool(one.kept) for one in whole),
        first_kept=sum(one.first is not None and one.first.decision == "kept" for one in whole),
    )


def line(row: KernelRow) -> str:
    """A kernel for people."""
    share = "unknown" if row.share is None else f"{row.share_before:.0%} -> {row.share:.0%}"
    first = f"{row.first.tactic}: {row.first.verdict}" if row.first else "nothing offered"
    told = f"{row.name}: {row.speedup:.2f}x, of a good kernel's speed {share}"
    return f"{told}; {len(row.kept)} of {row.rounds} kept; first {first}"
