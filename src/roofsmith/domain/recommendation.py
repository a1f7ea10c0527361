"""What earlier campaigns suggest in a situation, and what it rests on."""

from __future__ import annotations

from pydantic import Field

from roofsmith.domain.profile import BottleneckKind
from roofsmith.domain.values import Told, Value


class Situation(Value):
    """A kernel that somebody wants to make faster; what is empty or None isn't known."""

    operator: str = ""
    """Family, or what the kernel is called."""
    backend: str = ""
    device: str = ""
    arch: str = ""
    dtype: str = ""
    dims: dict[str, dict[str, int]] = Field(default_factory=dict)
    """Of every workload, by its label."""
    bottleneck: BottleneckKind = "unknown"
    counters: dict[str, float] = Field(default_factory=dict)


class Precedent(Value):
    """A round that a recommendation rests on."""

    experiment: str
    """Its id."""
    campaign: str
    round: int
    operator: str
    device: str
    likeness: float = Field(ge=0, le=1)
    speedup: float
    """Over the kernel that it changed; 0: it failed."""
    interval: tuple[float, float] | None
    came_to: str
    """As `Experiment.status`."""


class Recommendation(Value):
    """A tactic against a bottleneck, and what it was worth in like situations."""

    tactic: str
    bottleneck: BottleneckKind
    """Of the kernels that it was tried on."""
    change: Told
    """The change in the round that is most alike, in a sentence."""
    worked: bool
    """Whether it is more likely to gain than not; else it is told as what failed."""
    speedup: float
    """Expected: the mean of the rounds' gains, by likeness, and of one that gained nothing."""
    interval: tuple[float, float]
    """95% of that mean."""
    rounds: int
    kept: int
    weight: float
    """The rounds' likenesses added up: what they count beside a prediction."""
    came_true: float | None = None
    """Of older ledgers; nothing heeds it."""
    settings: dict[str, str] = Field(default_factory=dict)
    """The same."""
    precedents: tuple[Precedent, ...]
    """The most alike."""
