"""What readers set in a round's note: which planning must not see, what it should know. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping

from roofsmith.domain.campaign import Campaign, Masked, Noted


def to_forget(campaign: Campaign, seed: int) -> tuple[int, ...]:
    """Half of what planning sees, rounded up: the rounds that a partial restart masks.

    Neither the baseline nor the last kept round is among them. The seed alone decides, by hashes,
    so that the choice can be made again anywhere.
    """
    last_success = campaign.kept[-1].round if campaign.kept else None
    seen = [r.round for r in campaign.remembered if r.round != last_success]
    shuffled = sorted(seen, key=lambda number: hashlib.sha256(f"{seed}:{number}".encode()).digest())
    return tuple(sorted(shuffled[: (len(seen) + 1) // 2]))


def restart(campaign: Campaign, seed: int, at: str) -> Masked | None:
    """A partial restart; None where there is nothing to forget."""
    rounds = to_forget(campaign, seed)
    if not rounds:
        return None
    reason = f"partial restart after round {campaign.last_round}, seed {seed}"
    return Masked(rounds=rounds, by="restart", reason=reason, seed=seed, at=at)


def by_command(
    campaign: Campaign, rounds: frozenset[int], *, masked: bool, reason: str, at: str
) -> Masked | None:
    """The record that gives rounds a mask, or takes it; None where they have it, or have none."""
    changed = rounds - campaign.masked if masked else rounds & campaign.masked
    if not changed:
        return None
    return Masked(rounds=tuple(sorted(changed)), masked=masked, by="command", reason=reason, at=at)


def by_hand(campaign: Campaign, flags: Mapping[int, bool], at: str) -> tuple[Masked, ...]:
    """The records that make flags that readers set in their notes the ledger's own.

    Args:
        campaign: as the ledger has it.
        flags: by round; of those whose flag isn't the ledger's.
        at: when they were found.
    """
    known = range(1, campaign.last_round + 1)
    wanted = {number: flag for number, flag in flags.items() if number in known}
    hidden = tuple(sorted(n for n, flag in wanted.items() if flag and n not in campaign.masked))
    shown = tuple(sorted(n for n, flag in wanted.items() if not flag and n in campaign.masked))
    return tuple(
        Masked(rounds=rounds, masked=masked, by="hand", reason=_where(rounds), at=at)
        for rounds, masked in ((hidden, True), (shown, False))
        if rounds
    )


def complaints(event: Masked, campaign: Campaign) -> Iterator[str]:
    """What doesn't follow in a record of masks, given the campaign before it."""
    known = range(1, campaign.last_round + 1)
    unknown = [number for number in event.rounds if number not in known]
    if unknown:
        yield f"rounds {unknown} are masked before they were recorded"
    had = [number for number in event.rounds if (number in campaign.masked) is event.masked]
    if had:
        yield f"rounds {had} were {'masked' if event.masked else 'unmasked'} already"
    if event.by != "restart":
        return
    chosen = to_forget(campaign, event.seed) if event.seed is not None else ()
    if not event.masked or event.rounds != chosen:
        yield f"a partial restart masks {list(event.rounds)}; its seed gives {list(chosen)}"


def why_not_noted(event: Noted, campaign: Campaign) -> str | None:
    """Why nothing can be added to a round's note, or replaced there; None if it can."""
    if event.round > campaign.last_round:
        return f"round {event.round} is noted before it was recorded"
    rounds = {one.number: one.round for one in campaign.noted}
    if rounds.get(event.number, event.round) != event.round:
        return f"note {event.number} is of round {rounds[event.number]}, not of {event.round}"
    due = len(rounds) + 1
    return f"note {event.number} was never added" if event.number > due else None


def _where(rounds: tuple[int, ...]) -> str:
    return "the flag in " + ", ".join(f"memory/v{number - 1}.json" for number in rounds)
