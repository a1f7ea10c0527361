"""What the engine runs on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from roofsmith.domain.artifact import Artifact
from roofsmith.domain.campaign import Campaign, Started
from roofsmith.domain.citations import CheckedCitations
from roofsmith.domain.examination import Examination
from roofsmith.domain.knowledge import KnownDirection
from roofsmith.domain.proposal import Hypothesis
from roofsmith.domain.recommendation import Recommendation
from roofsmith.domain.references import ReferenceSearch
from roofsmith.domain.target import Target
from roofsmith.domain.tip import Tip
from roofsmith.domain.yardstick import PyTorchBaseline
from roofsmith.engine.meter import Meter
from roofsmith.engine.survey import Survey
from roofsmith.ports import (
    CampaignFiles,
    Clock,
    DeviceSource,
    Evaluator,
    Formatter,
    HeldOutSource,
    Ledger,
    Lineage,
    Merger,
    Observer,
    Proposer,
    Rendered,
)

Render = Callable[[Campaign], Rendered]
"""Renders a campaign; a function of the campaign that never raises."""

CheckCitations = Callable[[Hypothesis, Campaign], CheckedCitations]
"""Looks the facts up that a hypothesis cites."""


KeepEvidence = Callable[[int, str, bool, bool], tuple[Artifact, ...]]
"""Keeps what a round's commands and profilers left, by its number, its candidate's id, whether it
was kept, and whether its logs are wanted, too."""


def nothing_cited(hypothesis: Hypothesis, campaign: Campaign) -> CheckedCitations:  # noqa: ARG001
    """A `CheckCitations` for campaigns without any source of facts."""
    return CheckedCitations()


def nothing_learned(started: Started) -> tuple[Recommendation, ...]:  # noqa: ARG001
    """For campaigns without a database of experiments."""
    return ()


@dataclass(frozen=True, slots=True)
class Parts:
    """One implementation of every port, wired for one target."""

    target: Target
    clock: Clock
    observer: Observer
    devices: DeviceSource
    survey: Callable[[], Survey]
    """Asked once, when a campaign begins or goes on."""
    meter: Meter
    """The stopwatch that the evaluator counts on."""
    evaluator: Evaluator
    proposer: Proposer
    ledger: Ledger
    lineage: Lineage
    files: CampaignFiles
    render: Render
    render_plan: Render = lambda _campaign: Rendered({})
    """The plan of what is about to be judged."""
    check_citations: CheckCitations = nothing_cited
    """Resolves what a hypothesis cites."""
    yardsticks: tuple[PyTorchBaseline, ...] = ()
    """What the final kernel is held against."""
    formatter: Formatter | None = None
    """Formats candidates before they are built; None: they stay as they are proposed."""
    merger: Merger | None = None
    """Makes a dispatch of two kernels whose classes diverge; None where none knows how."""
    gpu: str | None = None
    """UUID of the GPU that was leased; None on the host's processors."""
    examination: Examination | None = None
    """What doctor found for the target, for the first record; None where nobody looked."""
    held_out: HeldOutSource | None = None
    """Of workloads that no proposer is shown; None: there are none."""
    read_tips: Callable[[], tuple[Tip, ...]] = tuple
    """What earlier campaigns left on the same device, operator and language."""
    read_directions: Callable[[], tuple[KnownDirection, ...]] = tuple
    """What the library says of the operator, the device and the language."""
    recommended: Callable[[Started], tuple[Recommendation, ...]] = nothing_learned
    """What the database of experiments recommends to a campaign that begins so."""
    read_references: Callable[[], ReferenceSearch | None] = lambda: None
    """Searches the target's reference projects."""
    evidence: KeepEvidence | None = None
    """None: nothing is kept beside the records."""
    remember: Callable[[Campaign], object] | None = None
    """Keeps its rounds and refusals for later campaigns, each once; None: nobody does."""
