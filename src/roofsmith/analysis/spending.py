"""What each proposer took, and how much of what it proposed was kept. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from roofsmith.analysis import figures as fmt
from roofsmith.domain.campaign import (
    Baseline,
    Campaign,
    Event,
    Profiled,
    Round,
    Stopped,
)
from roofsmith.domain.diagnosis import Diagnosed
from roofsmith.domain.refusal import Refusal

UNNAMED = "not recorded"
"""Who proposed, in ledgers that don't say."""


@dataclass(frozen=True, slots=True)
class Spending:
    """Of one proposer, over a whole campaign."""

    proposer: str
    rounds: int
    kept: int
    refusals: int
    """Answers that never were built, also those in which it gave up."""
    seconds: float
    """Wall time of its rounds and refusals: its own and that of judging."""
    tokens: int | None
    """None: of some of its answers nobody knows what they took."""
    cost_usd: float | None
    """None: of some of its answers nobody knows what they cost."""

    @property
    def kept_share(self) -> float | None:
        """Of its rounds; None where there are none."""
        return self.kept / self.rounds if self.rounds else None


def spendings(campaign: Campaign) -> tuple[Spending, ...]:
    """One for each proposer that answered, in the order of their first answers."""
    names = dict.fromkeys(past.proposer or UNNAMED for past in campaign.proposed)
    return tuple(
        _spending(name, [p for p in campaign.proposed if (p.proposer or UNNAMED) == name])
        for name in names
    )


def uncounted(past: Round | Refusal) -> frozenset[Literal["tokens", "cost"]]:
    """What nobody knows of an answer: an agent whose output doesn't say it took something."""
    is_agent = past.proposer.startswith("agent:") and past.proposer != "agent:human"
    unknown = set[Literal["tokens", "cost"]]()
    if is_agent and not past.tokens:
        unknown.add("tokens")
    if not past.cost_usd and (past.tokens or is_agent):
        unknown.add("cost")
    return frozenset(unknown)


def _spending(name: str, proposed: Sequence[Round | Refusal]) -> Spending:
    rounds = [past for past in proposed if isinstance(past, Round)]
    unknown = {what for past in proposed for what in uncounted(past)}
    return Spending(
        proposer=name,
        rounds=len(rounds),
        kept=sum(past.decision.kind == "kept" for past in rounds),
        refusals=len(proposed) - len(rounds),
        seconds=math.fsum(past.wall_s for past in proposed),
        tokens=None if "tokens" in unknown else sum(past.tokens for past in proposed),
        cost_usd=None if "cost" in unknown else math.fsum(past.cost_usd for past in proposed),
    )


def timed_events(
    events: Iterable[Event | None],
) -> list[Baseline | Round | Refusal | Profiled | Diagnosed | Stopped]:
    """Those that took time, in order."""
    timed = Baseline | Round | Refusal | Profiled | Diagnosed | Stopped
    return [event for event in events if isinstance(event, timed)]


def spent_s(events: Iterable[Event | None]) -> float:
    """Wall time of everything recorded, over all runs of a campaign."""
    return sum(event.wall_s for event in timed_events(events))


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
