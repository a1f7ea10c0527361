"""Observers without a screen."""

from __future__ import annotations

from roofsmith.domain.campaign import Campaign, Event


class SilentObserver:
    """Hears everything and does nothing."""

    def stage(self, name: str, detail: str = "") -> None:
        """Ignored."""

    def progress(self, fraction: float, detail: str = "") -> None:
        """Ignored."""

    def event(self, event: Event, campaign: Campaign) -> None:
        """Ignored."""


class RecordingObserver:
    """Keeps what it hears, for tests to look at."""

    def __init__(self) -> None:
        self.stages: list[str] = []
        self.fractions: list[float] = []
        self.events: list[Event] = []

    def stage(self, name: str, detail: str = "") -> None:  # noqa: ARG002
        self.stages.append(name)

    def progress(self, fraction: float, detail: str = "") -> None:  # noqa: ARG002
        self.fractions.append(fraction)

    def event(self, event: Event, campaign: Campaign) -> None:  # noqa: ARG002
        self.events.append(event)
