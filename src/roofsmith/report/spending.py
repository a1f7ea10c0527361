"""What each proposer took, as a table. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from roofsmith.analysis import figures as fmt
from roofsmith.analysis.spending import Spending

COLUMNS: Final = ("proposer", "rounds", "kept", "refused", "time", "tokens", "cost")


def spending_rows(found: Sequence[Spending]) -> list[tuple[str, ...]]:
    """A row for each proposer, under `COLUMNS`; none where no idea took tokens or money."""
    if not any(one.tokens != 0 or one.cost_usd for one in found):
        return []
    return [
        (
            one.proposer,
            str(one.rounds),
            "none" if one.kept_share is None else fmt.percent(one.kept_share),
            str(one.refusals),
            fmt.duration(one.seconds),
            fmt.UNKNOWN if one.tokens is None else f"{one.tokens:,}",
            fmt.money(one.cost_usd),
        )
        for one in found
    ]
