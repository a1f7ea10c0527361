"""What is looked at again after rollbacks in a row, before the next change is thought of."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from roofsmith.domain.calibration import RoundScore
from roofsmith.domain.category import Category
from roofsmith.domain.profile import Bottleneck, BottleneckKind, Profile
from roofsmith.domain.values import Value

Level = Literal[1, 2, 3, 4]
"""Of the ladder. 1: what was tried, and why it failed. 2: every class profiled again, and a
stagnation review. 3: the instructions of the hot loop. 4: the best known implementation. Each
level has the material of those below it too."""


class Attempt(Value):
    """A round that was rolled back, read again."""

    round: int
    statement: str
    tactic: str
    category: Category
    answers: BottleneckKind
    """The bottleneck that it was meant to relieve."""
    came_to: str
    """Such as slower, tie, inconclusive, build_failed or incorrect."""
    why: str
    """The rule that rolled it back, with its numbers."""
    detail: str = ""
    """What went wrong, where it failed before it was measured."""
    repairs: int | None = None
    """First round of the idea, where this was a repair of it."""
    score: RoundScore
    """What was predicted of it, against what was measured."""


class BenefitPoint(Value):
    """One round on the benefit curve."""

    round: int
    gain: float | None
    """Of the candidate over the incumbent of its time; None if it was never measured."""
    kept: bool
    total_speedup: float
    """Of the kernel that held afterwards, over the baseline."""


class DeadEnd(Value):
    """A category of changes that has led nowhere since the last one that was kept."""

    category: Category
    rounds: tuple[int, ...]
    tactics: tuple[str, ...]
    best: float | None
    """The best measured ratio among them; None if none was measured."""
    came_to: str
    """How they ended, such as `2 slower, 1 build failed`."""


class Direction(Value):
    """A category of changes that is worth a try instead."""

    category: Category
    what: str
    """What one would do, in a sentence."""
    because: str
    """The bottleneck that it answers, and what is known of earlier tries."""
    tried: tuple[int, ...] = ()
    """Rounds of this category before; empty: never tried in this campaign."""
    seen: str | None = None
    """What of it the kernel's source shows already, and where; None: nothing, or nobody looked."""


class StagnationReview(Value):
    """Where the campaign stands, what led nowhere, and where else to go."""

    fruitless: int
    """Ideas rolled back since the last kept change."""
    curve: tuple[BenefitPoint, ...]
    roofline_fraction: float | None
    """Of the incumbent; what is left to gain."""
    bottlenecks: tuple[BottleneckKind, ...]
    """Of the incumbent on its classes, the most frequent first."""
    dead_ends: tuple[DeadEnd, ...]
    directions: tuple[Direction, ...]
    """At least three, the most promising first; in other categories than `dead_ends`, unless a
    campaign has tried nearly all there are."""


class Reprofiled(Value):
    """The incumbent, profiled again on one workload."""

    workload: str
    config_class: str
    time_s: float
    """As it was last judged."""
    profile: Profile
    bottleneck: Bottleneck


class HotLoop(Value):
    """An innermost loop of the compiled kernel."""

    function: str
    chosen: str
    """Why this one: what was seen or assumed of it."""
    remarks: tuple[str, ...] = ()
    """What its instructions say, in words."""
    listing: str
    """Its instructions, as the disassembler prints them."""


class Disassembly(Value):
    """The instructions that the incumbent spends its time on."""

    tool: str | None
    """None: nothing could be disassembled."""
    loops: tuple[HotLoop, ...] = ()
    """The hottest first."""
    notes: tuple[str, ...] = ()
    """How it was looked at, and where else the time goes."""
    missing: tuple[str, ...] = ()
    """What could not be had, and why."""
    mnemonics: dict[str, int] = Field(default_factory=dict)
    """How many of its instructions go by each name, and name a vector register of the host's
    (`xmm`, `ymm`, `zmm`); empty where nothing was disassembled, and in older ledgers."""


class KnownResult(Value):
    """Another implementation, measured beside the incumbent."""

    name: str
    calls: tuple[str, ...] = ()
    speedup: float
    """Of the incumbent over it: below 1, it shows what is possible."""
    ci: tuple[float, float]
    slower_on: tuple[str, ...] = ()
    """Workloads on which the incumbent is provably slower than it."""


class WorkloadGap(Value):
    """How far one workload is from its bound."""

    workload: str
    time_s: float
    floor_time_s: float | None


class Pointer(Value):
    """Where an implementation that is known to be good can be read."""

    name: str
    where: str
    what: str
    """What to look at there."""


class BestKnown(Value):
    """What is known to be possible for this operator on this device."""

    results: tuple[KnownResult, ...] = ()
    gaps: tuple[WorkloadGap, ...] = ()
    """The widest first."""
    pointers: tuple[Pointer, ...] = ()
    missing: tuple[str, ...] = ()
    """What nobody measured or wrote down, and why."""


class Material(Value):
    """What a level gives the next proposer. A part that its level doesn't ask for is empty."""

    attempts: tuple[Attempt, ...] = Field(min_length=1)
    review: StagnationReview | None = None
    profiles: tuple[Reprofiled, ...] = ()
    disassembly: Disassembly | None = None
    best_known: BestKnown | None = None


class Diagnosed(Value):
    """A level's material was gathered; comes before the next round.

    Profiles and disassembly are of a kernel that stays the same while nothing is kept, so a record
    leaves out those that an earlier one since the last kept round holds.
    """

    kind: Literal["diagnosed"] = "diagnosed"
    after_round: int = Field(ge=2)
    level: Level
    material: Material
    rules: int | None = None
    """Version of the rules that it was made by; None in older ledgers: that of the campaign."""
    wall_s: float = 0.0
    kernel_s: float = 0.0
    at: str


class Diagnosis(Value):
    """All that is known at a level: this record's material, with what earlier ones gathered."""

    level: Level
    after_round: int
    material: Material
