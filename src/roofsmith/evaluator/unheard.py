"""An observer for what nobody may hear of while it happens."""

from __future__ import annotations

from roofsmith.domain.campaign import Campaign, Event


class Unheard:
    """Port `Observer`: tells nobody."""

    def stage(self, name: str, detail: str = "") -> None:
        """Nothing."""

    def progress(self, fraction: float, detail: str = "") -> None:
        """Nothing."""

    def event(self, event: Event, campaign: Campaign) -> None:
        """Nothing."""
