"""What records say of a campaign, whenever it ran and however often it was interrupted."""

from __future__ import annotations

from collections.abc import Iterable

from roofsmith.domain.campaign import Event, Resumed

WHEN = {"at": "", "wall_s": 0.0, "kernel_s": 0.0, "spent_s": None}


def substance(records: Iterable[Event], *kinds: type) -> list[Event]:
    """Records of these classes, or all but resumes, without what depends on when they were made."""
    return [
        event.model_copy(update={k: v for k, v in WHEN.items() if hasattr(event, k)})
        for event in records
        if (isinstance(event, kinds) if kinds else not isinstance(event, Resumed))
    ]
