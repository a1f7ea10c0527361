"""A campaign's memory: what its rounds taught, and which of them planning must not see."""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from roofsmith.analysis.masks import by_command, by_hand, restart, why_not_noted
from roofsmith.api.finished import require_rendered
from roofsmith.api.reading import read_campaign
from roofsmith.api.remembering import remembering
from roofsmith.api.system_clock import SystemClock
from roofsmith.config import Settings
from roofsmith.domain.campaign import Campaign, Masked, Noted
from roofsmith.domain.memory import Memory
from roofsmith.engine.meter import timestamp
from roofsmith.errors import CampaignBusyError, RoofsmithError, UsageError
from roofsmith.report.memory import notes
from roofsmith.store.campaign_dir import CampaignDirectory
from roofsmith.store.ledger import JsonlLedger
from roofsmith.store.memory import flags_by_hand

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
    """Every note of a campaign as the ledger has it, each with the flag that stands in its file.

    Raises:
        UsageError: there is no campaign, or none of its rounds is recorded.
    """
    found = notes(read_campaign(directory))
    if not found:
        raise UsageError(
            f"{directory} has no memory notes", hint="the first note comes with its baseline"
        )
    flags = flags_by_hand(directory)
    masks = ({"masked": flags.get(note.round, note.masked)} for note in found)
    return tuple(note.model_copy(update=mask) for note, mask in zip(found, masks, strict=True))


def memory_note(directory: Path, version: str | None) -> Memory:
    """One note, such as `v3` or `3`; None: the last.

    Raises:
        UsageError: there is none.
    """
    found = memory_notes(directory)
    return found[-1 if version is None else _round(directory, version, len(found)) - 1]


def mask(
    directory: Path,
    versions: Sequence[str],
    *,
    masked: bool,
    reason: str | None,
    settings: Settings,
) -> Masked:
    """Hide rounds from planning, or show them again; a record of the ledger.

    Args:
        directory: the campaign's.
        versions: of the notes, such as `v3` or `3`.
        masked: False: show them again.
        reason: why; for the log.
        settings: name the experiments, which are flagged as well.

    Raises:
        UsageError: there is no such note, or all of them are as they should be already.
        CampaignBusyError: the campaign is running; its notes can be flagged by hand meanwhile.
    """
    with _opened(directory, masked=masked) as files:
        campaign = _campaign(files, settings)
        rounds = frozenset(_round(directory, one, campaign.last_round) for one in versions)
        why = reason or "asked for on the command line"
        event = by_command(campaign, rounds, masked=masked, reason=why, at=timestamp(SystemClock()))
        if event is None:
            state = "masked" if masked else "unmasked"
            raise UsageError(f"{', '.join(versions)}: {state} already")
        _record(files, event, settings)
        return event


def partial_restart(directory: Path, seed: int | None, settings: Settings) -> Restarted:
    """Mask a random half of what planning sees, but for the baseline and the last success.

    Target, facts and kernel stay; regressions in a row are counted anew.

    Args:
        directory: the campaign's.
        seed: decides which half; None: drawn, and recorded either way.
        settings: as for `mask`.

    Raises:
        UsageError: there is nothing to forget.
        CampaignBusyError: the campaign is running.
    """
    with _opened(directory, masked=True) as files:
        campaign = _campaign(files, settings)
        event = restart(
            campaign, secrets.randbelow(_SEEDS) if seed is None else seed, timestamp(SystemClock())
        )
        if event is None:
            raise UsageError(
                f"{directory}: there is no round to forget",
                hint="the baseline and the last success are never masked",
            )
        after = _record(files, event, settings)
        return Restarted(directory, event, tuple(r.round for r in after.remembered))


def add_note(directory: Path, version: str, text: str, settings: Settings) -> Noted:
    """Add to a round's note what planning should know of it; a record of the ledger.

    Args:
        directory: the campaign's.
        version: of the note, such as `v3` or `3`.
        text: at most 2,000 characters.
        settings: as for `mask`.

    Raises:
        UsageError: there is no such note, or the text is empty or too long.
        CampaignBusyError: the campaign is running.
    """
    with _opened(directory) as files:
        campaign = _campaign(files, settings)
        round_number = _round(directory, version, campaign.last_round)
        return _noted(files, campaign, round_number, len(campaign.noted) + 1, text, settings)


def update_note(directory: Path, number: int, text: str, settings: Settings) -> Noted:
    """Replace what was added under a number; what it said stays in the ledger and the log.

    Raises:
        UsageError: nothing was added under it, or the text is empty or too long.
        CampaignBusyError: the campaign is running.
    """
    with _opened(directory) as files:
        campaign = _campaign(files, settings)
        known = {one.number: one.round for one in campaign.noted}
        if number not in known:
            have = (
                f"there are {', '.join(map(str, sorted(known)))}" if known else "none was added yet"
            )
            raise UsageError(f"{directory} has no added note {number}", hint=have)
        return _noted(files, campaign, known[number], number, text, settings)


def _noted(
    files: CampaignDirectory,
    campaign: Campaign,
    round_number: int,
    number: int,
    text: str,
    settings: Settings,
) -> Noted:
    now = timestamp(SystemClock())
    try:
        event = Noted(round=round_number, number=number, text=text.strip(), at=now)
    except ValidationError as error:
        is_text = error.errors()[0]["type"] != "string_unicode"
        said = "has from 1 to 2,000 characters" if is_text else "is text: this one isn't UTF-8"
        raise UsageError(f"a note {said}") from error
    assert why_not_noted(event, campaign) is None, "both were looked up in the campaign"
    _record(files, event, settings)
    return event


def _opened(directory: Path, *, masked: bool | None = None) -> CampaignDirectory:
    try:
        return CampaignDirectory.open(directory)
    except CampaignBusyError as error:
        flag = str(masked).lower()
        hint = f'set "masked": {flag} in the note by hand: the next round heeds it'
        if masked is None:
            hint = "wait for its end; what a round taught, `tell --insight` says with it"
        raise CampaignBusyError(error.message, hint=hint) from error


def _campaign(files: CampaignDirectory, settings: Settings) -> Campaign:
    campaign = read_campaign(files.directory)
    for event in by_hand(campaign, files.flags_by_hand(), timestamp(SystemClock())):
        campaign = _record(files, event, settings)
    return campaign


def _record(files: CampaignDirectory, event: Masked | Noted, settings: Settings) -> Campaign:
    from roofsmith.report.campaign_files import render_campaign  # who only reads needs none of it

    ledger = JsonlLedger(files.ledger_path)
    ledger.append(event)
    campaign = read_campaign(files.directory)
    rendered = render_campaign(campaign)
    files.write(rendered.files)
    if (kept := remembering(settings)) is not None:
        with suppress(RoofsmithError):  # what can't be flagged now waits
            kept.leave(ledger, campaign)
    require_rendered(rendered.failures, files.directory)
    return campaign


def _round(directory: Path, version: str, last: int) -> int:
    """The round of a note, such as 4 of `v3` or `3`."""
    number = version.removeprefix("v")
    if not (number.isascii() and number.isdigit()):
        raise UsageError(
            f"{version!r} is no version of a memory note",
            hint="v0 is the baseline, v3 is round 4; `roofsmith campaign memory list DIR` lists"
            " them",
        )
    if int(number) >= last:
        raise UsageError(
            f"{directory} has no memory note v{int(number)}", hint=f"the last one is v{last - 1}"
        )
    return int(number) + 1
