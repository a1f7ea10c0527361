"""What a page over campaigns and suites shows: one document, for browsers and programs alike."""

from __future__ import annotations

from typing import Final, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from roofsmith.domain.suite import SuiteRow
from roofsmith.domain.values import Described

CONTRACT: Final = "dashboard/1"
"""A field more keeps it; one that is gone, or means something else, is another number."""
Activity = Literal["running", "waiting", "interrupted", "finished"]
"""waiting: it hasn't ended, and no process of this user works in it."""
Occasion = Literal["new_best", "stalled", "ended", "needs_you"]
"""stalled: nothing was heard of it for long; needs_you: it goes on once somebody did something."""
Chosen = Literal["failures", "top", "latest"]
"""Of experiments: failures worth reading, what gained most, what was tried last."""


LimitName = Literal["rounds", "seconds", "tokens", "usd"]


class Figure(Described):
    """A number, or why there is none. Nothing unknown is ever 0."""

    value: float | None = None
    interval: tuple[float, float] | None = None
    reason: str = ""

    @model_validator(mode="after")
    def _known_or_explained(self) -> Self:
        if (self.value is None) != bool(self.reason):
            raise ValueError("a figure has a value or a reason, and not both")
        return self


class Entry(Described):
    """What one page, or one event, shows."""

    schema_version: Literal["dashboard/1"] = CONTRACT
    page: int = 1
    pages: int = 1


class BrokenEntry(Entry):
    """A campaign or suite that can't be read right now."""

    id: str
    directory: str
    reason: str


class Beginning(Described):
    """What the first record of a campaign says of it."""

    id: str
    directory: str
    name: str
    kernel: str
    family: str
    """As its target names it, or as its names suggest it; `unknown` otherwise."""
    device: str
    proposers: tuple[str, ...]
    started_at: str


class CampaignRow(Beginning):
    """One campaign in a line."""

    state: Activity
    doing: str
    """The change that is judged right now, or why it ended."""
    last_at: str
    """Of the last record, UTC."""
    speedup: Figure
    """Of the kernel that holds over the baseline."""
    fraction: Figure
    """Of the roofline."""
    tried: int
    kept: int
    failed: int
    """Those that never got as far as a comparison; the rest was measured and rolled back."""
    refused: int
    seconds: Figure
    """That it took, over all of its runs."""
    cost_usd: Figure
    trend: tuple[float, ...]
    """Speedup over the baseline after some rounds, in order."""


class Limit(Described):
    """Something that a campaign may take only so much of."""

    name: LimitName
    used: Figure
    limit: Figure


class Now(Described):
    """What a campaign that hasn't ended is doing."""

    round: int | None
    """That is judged; None: the next change is thought of."""
    since: str
    """UTC."""
    at: str
    """When this was looked up, UTC."""
    hypothesis: str
    thought: str
    """Why that should help, by whoever proposed it."""
    proposer: str
    usual_s: Figure
    """Median of the last rounds."""
    patience_s: float
    """After so long without a record it is said to have stalled."""
    fruitless: int
    """Rounds since the last one that was kept."""
    gpu: str
    """On which one it measures; empty: on the host's processors."""
    gpu_holder: str
    """Who has that GPU for a turn; empty: nobody, or nobody that can be seen."""
    place: Figure
    """In the line for it, from 1."""
    asked: str
    """What somebody asked of it that it hasn't heeded yet; empty: nothing."""
    commands: tuple[tuple[str, str], ...]
    """What one may want to do, and the command."""


class WorkloadLine(Described):
    """One workload from the baseline to the kernel that holds."""

    workload: str
    config_class: str
    baseline_s: Figure
    final_s: Figure
    floor_s: Figure
    speedup: Figure
    fraction: Figure
    """Of the roofline."""


class PairedRow(Described):
    """A candidate beside what it was held against, on one workload."""

    workload: str
    config_class: str
    incumbent_s: float
    candidate_s: float
    ratio: Figure
    verdict: str
    first: tuple[float, ...]
    """Of each pair how much faster the candidate was, in order."""
    again: tuple[float, ...]
    """Those of the confirmation."""
    void: int
    """Pairs that don't count, since something disturbed them."""


class CounterLine(Described):
    """One counter of two kernels; None: the profiler didn't give it."""

    name: str
    unit: str
    before: float | None
    after: float | None


class RoundRow(Described):
    """One round in a line; long texts are cut."""

    round: int
    parent: int
    """The round whose kernel it was held against; 1 is the baseline."""
    at: str
    fate: Literal["kept", "rejected", "failed"]
    status: str
    proposer: str
    hypothesis: str
    speedup: Figure
    """Over its parent."""
    predicted: Figure
    verdict: str
    rule: str
    total_speedup: float


class Text(Described):
    """A file, or a patch."""

    name: str
    text: str
    left_out: int
    """Characters after those; the whole is a response of its own."""


class CampaignPage(Entry):
    """One campaign, with a page of its rounds, the last ones first."""

    row: CampaignRow
    now: Now | None
    """None: it has ended."""
    limits: tuple[Limit, ...]
    came_to: tuple[tuple[str, int], ...]
    """How often rounds and proposals came to what, the most frequent first."""
    baseline_fraction: Figure
    """Of the roofline, before the first change."""
    attainable: Figure
    """What the kernel that holds has of what memory gives under the judge's conditions."""
    limit_speedup: Figure
    """Over the baseline, were every workload at its roofline."""
    workloads: tuple[WorkloadLine, ...]
    apply: str
    """The command that puts the kernel into files; empty where nothing was kept."""
    build: str
    files: tuple[Text, ...]
    """Sources of the kernel that holds."""
    patch: Text | None
    """To them; None where nothing was kept."""
    lineage: tuple[RoundRow, ...]
    """Kernels that held, in order; no files and no lineage where only news are asked for."""
    rounds: tuple[RoundRow, ...]
    has_report: bool
    drawn: dict[str, str] = Field(default_factory=dict, exclude=True)
    """The same as pictures, for the page alone: SVG and HTML."""


class RoundPage(Entry):
    """One round, whole."""

    campaign: str
    row: RoundRow
    said: tuple[tuple[str, str], ...]
    """All of its hypothesis and of what was found, labelled."""
    patch: Text
    """Against its parent."""
    whole: Text
    """Against the first kernel."""
    pairs: tuple[PairedRow, ...]
    """None where nothing was compared."""
    counters: tuple[CounterLine, ...]
    unprofiled: str
    """Why there are no counters of it; empty: there are."""
    loops: tuple[Text, ...]
    """Listings of its hot loops."""
    unlisted: str
    """Why there are none; empty: there are."""
    ladder: tuple[tuple[int, str, str], ...]
    """What was looked at again before it: level, what that is, and what came of it."""
    messages: tuple[tuple[str, str], ...]
    """Who said what about it: compiler, judge, proposer."""
    rounds: int
    """Of the campaign, the last one's number."""
    drawn: dict[str, str] = Field(default_factory=dict, exclude=True)
    """As in `CampaignPage`."""


class SuitePage(Entry):
    """A suite, with a page of its campaigns."""

    id: str
    directory: str
    proposer: str
    device: str
    expected: int
    ended: int
    scores: tuple[tuple[str, Figure], ...]
    rows: tuple[tuple[SuiteRow, str | None], ...]
    """With the id of the campaign; None: it isn't here."""
    budget_s: float
    """Of each campaign, where its row has no other."""
    waiting: tuple[str, ...]
    """Problems that haven't run, as far as they fit."""
    raised: int
    """Campaigns that had a larger budget than the rest."""
    unknown: dict[str, str] = Field(
        default={
            "speedup": "its campaign failed or hung",
            "interval": "nothing was compared",
            "over_pytorch": "PyTorch wasn't measured",
            "roofline_fraction": "the limit isn't known",
            "cost_usd": "nobody knows what it cost",
            "budget_s": "as the suite's",
        }
    )
    """Why a field of a row is null."""


class Filter(Described):
    """Which campaigns are shown: a part of each name, whatever its case; empty: any."""

    kernel: str = ""
    family: str = ""
    device: str = ""
    proposer: str = ""


class Overview(Entry):
    """Everything that is shown, a page of it; what was written last first."""

    campaigns: tuple[CampaignRow, ...]
    unread: tuple[Beginning, ...]
    """After those: what a page that had to be there at once left to its first event."""
    suites: tuple[SuitePage, ...]
    """Without their rows."""
    unreadable: tuple[BrokenEntry, ...]
    filter: Filter
    choices: dict[str, tuple[str, ...]]
    """What there is of each field of the filter, as far as it fits."""
    matching: int
    """Campaigns that the filter lets through, on all pages."""


class Curve(Described):
    """How far one campaign came, or several on one target and device, over what it took."""

    name: str
    campaigns: tuple[str, ...]
    """Their ids; of several the curve is a band."""
    points: tuple[tuple[float, float, float, float], ...]
    """Seconds or dollars; then speedup over the baseline: least, median and most of them."""


class Compared(Described):
    """One config class, or one workload, of campaigns side by side."""

    kind: str
    """class or workload."""
    name: str
    speedups: tuple[Figure, ...]
    """Of the kernel that holds over the baseline; one for each campaign."""


class ComparePage(Entry):
    """Some campaigns side by side."""

    campaigns: tuple[CampaignRow, ...]
    rows: tuple[Compared, ...]
    kept: tuple[tuple[RoundRow, ...], ...]
    """What each kept, in order; the last of them where they are many."""
    by_seconds: tuple[Curve, ...]
    by_cost: tuple[Curve, ...]
    """Of those whose cost is known, and isn't nothing."""
    floors: tuple[str, ...]
    """Where campaigns on one kernel and device had other limits: shares can't be compared there."""
    unreadable: tuple[BrokenEntry, ...]


class ExperimentRow(Described):
    """One experiment of the database in a line; long texts are cut."""

    id: str
    at: str
    kernel: str
    backend: str
    device: str
    what: str
    """The change, and what came of it."""
    why: str
    """What it teaches, or why it failed, as far as anybody said."""
    outcome: str
    status: str
    expected: Figure
    """The speedup that its hypothesis named."""
    speedup: Figure
    proposer: str
    alike: int = 0
    """Others with the same change of the same kernel and the same end, in whose place it stands."""


class ExperiencePage(Entry):
    """Experiments of all campaigns, a choice of them."""

    database: str
    show: Chosen
    query: str
    """Words that all of them say; empty: any."""
    kernel: str
    """A part of an operator's or a family's name; empty: any."""
    rows: tuple[ExperimentRow, ...]
    reason: str = ""
    """Why there are none."""


class ExperimentPage(Entry):
    """One experiment, with all that it says."""

    row: ExperimentRow
    said: Text


class Happening(Entry):
    """What the command of `--on-event` reads."""

    event: Occasion
    detail: str
    at: str
    """UTC, `YYYY-MM-DD HH:MM:SS`."""
    row: CampaignRow | None
    """None: it ended before there was a baseline, as `detail` says."""


Shown: TypeAlias = (
    Overview | CampaignPage | RoundPage | SuitePage | ComparePage | ExperiencePage | ExperimentPage
    | Happening | BrokenEntry
)  # fmt: skip
"""All that is told in this contract."""
