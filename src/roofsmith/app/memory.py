"""A campaign's memory: what its rounds taught, and which of them planning must not see."""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from roofsmith.analysis.masks import by_command, by_hand, restart
from roofsmith.app.session import require_rendered
from roofsmith.domain.campaign import Campaign, Masked, replay
from roofsmith.domain.memory import Memory
from roofsmith.errors import CampaignBusyError, UsageError
from roofsmith.report.campaign_files import render_campaign
from roofsmith.store.campaign_dir import CampaignDirectory
from roofsmith.store.ledger import JsonlLedger
from roofsmith.store.memory import read_note, read_notes

_SEEDS = 2**31


@dataclass(frozen=True, slots=True)
class Restarted:
    """What a partial restart forgot, and what it kept."""

    directory: Path
    event: Masked
    remembered: tuple[int, ...]
    """Rounds that planning still sees."""

    @property
    def command(self) -> str:
        """That goes on with the campaign."""
        return f"roofsmith resume {shlex.quote(str(self.directory))}"


@dataclass(frozen=True, slots=True)
class Planning:
    """What planning sees of a campaign's notes."""

    last: Memory
    kept: tuple[Memory, ...]
    dead_ends: tuple[Memory, ...]
    open: tuple[Memory, ...]
    """Whose directions are of the kernel that holds: the last one kept, and what followed."""
    masked: tuple[str, ...]
    """Versions of the notes that it doesn't see."""

    @classmethod
    def of(cls, notes: Sequence[Memory]) -> Planning:
        """Sort a campaign's notes, which are in order."""
        seen = [found for found in notes if not found.masked]
        held = [at for at, found in enumerate(seen) if found.decision != "rolled_back"]
        return cls(
            notes[-1],
            tuple(found for found in seen if found.decision == "kept"),
            tuple(found for found in seen if found.decision == "rolled_back"),
            tuple(seen[held[-1] :] if held else seen),
            tuple(found.version for found in notes if found.masked),
        )


def memory_notes(directory: Path) -> tuple[Memory, ...]:
    """Every note of a campaign, each with the flag that stands in it.

    Raises:
        UsageError: there is no campaign, or a note was damaged.
    """
    notes = read_notes(directory)
    if not notes:
        raise UsageError(
            f"{directory} has no memory notes",
            hint="name a campaign's directory; the first note comes with its baseline",
        )
    return notes


def memory_note(directory: Path, version: str) -> Memory:
    """One note; raises UsageError where there is none, or it was damaged."""
    return read_note(directory, _version(version))


def mask(
    directory: Path,
    versions: Sequence[str],
    *,
    masked: bool,
    reason: str | None,
) -> Masked:
    """Hide rounds from planning, or show them again; a record of the ledger.

    Args:
        directory: the campaign's.
        versions: of the notes, such as `v3` or `3`.
        masked: False: show them again.
        reason: why; for the log.

    Raises:
        UsageError: there is no such note, or all of them are as they should be already.
        CampaignBusyError: the campaign is running; its notes can be flagged by hand meanwhile.
    """
    numbers = {_version(version): int(_version(version)[1:]) + 1 for version in versions}
    with _opened(directory, masked=masked) as files:
        campaign = _campaign(files)
        unknown = [v for v, number in numbers.items() if number > campaign.last_round]
        if unknown:
            raise UsageError(
                f"{directory} has no memory note {', '.join(unknown)}",
                hint=f"the last one is v{campaign.last_round - 1}",
            )
        event = by_command(
            campaign, frozenset(numbers.values()), masked=masked,
            reason=reason or "asked for on the command line", at=_now(),
        )  # fmt: skip
        if event is None:
            state = "masked" if masked else "unmasked"
            raise UsageError(f"{', '.join(numbers)}: {state} already")
        _record(files, event)
        return event


def partial_restart(directory: Path, seed: int | None) -> Restarted:
    """Mask a random half of what planning sees, but for the baseline and the last success.

    Target, facts and kernel stay; regressions in a row are counted anew.

    Args:
        directory: the campaign's.
        seed: decides which half; None: drawn, and recorded either way.

    Raises:
        UsageError: there is nothing to forget.
        CampaignBusyError: the campaign is running.
    """
    with _opened(directory, masked=True) as files:
        campaign = _campaign(files)
        event = restart(campaign, secrets.randbelow(_SEEDS) if seed is None else seed, _now())
        if event is None:
            raise UsageError(
                f"{directory}: there is no round to forget",
                hint="the baseline and the last success are never masked",
            )
        after = _record(files, event)
        return Restarted(directory, event, tuple(r.round for r in after.remembered))


def _opened(directory: Path, *, masked: bool) -> CampaignDirectory:
    try:
        return CampaignDirectory.open(directory)
    except CampaignBusyError as error:
        flag = str(masked).lower()
        hint = f'set "masked": {flag} in the note by hand: the next round heeds it'
        raise CampaignBusyError(error.message, hint=hint) from error


def _campaign(files: CampaignDirectory) -> Campaign:
    """The campaign, after flags that were set by hand became the ledger's."""
    campaign = replay(JsonlLedger(files.ledger_path).events())
    assert campaign is not None, "an opened campaign directory has a record"
    for event in by_hand(campaign, files.flags_by_hand(), _now()):
        campaign = _record(files, event)
    return campaign


def _record(files: CampaignDirectory, event: Masked) -> Campaign:
    """Append to the ledger, then render the files."""
    ledger = JsonlLedger(files.ledger_path)
    ledger.append(event)
    campaign = replay(ledger.events())
    assert campaign is not None, "an event was just appended"
    rendered = render_campaign(campaign)
    files.write(rendered.files)
    require_rendered(rendered.failures, files.directory)
    return campaign


def _version(text: str) -> str:
    """`v3`, of `v3` or `3`."""
    number = text.removeprefix("v")
    if not (number.isascii() and number.isdigit()):
        raise UsageError(
            f"{text!r} is no version of a memory note",
            hint="v0 is the baseline, v3 is round 4; `roofsmith memory list DIR` lists them",
        )
    return f"v{int(number)}"


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}"
