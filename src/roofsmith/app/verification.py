"""Checks a finished campaign against itself: ledger, decisions, rendered files, commits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from roofsmith.domain.campaign import Campaign, replay
from roofsmith.engine.verify import Finding, verified
from roofsmith.errors import LedgerError, StorageError, UsageError
from roofsmith.report.campaign_files import render_campaign
from roofsmith.store.campaign_dir import LEDGER
from roofsmith.store.git import git_installed
from roofsmith.store.ledger import JsonlLedger
from roofsmith.store.lineage_place import Place, remembered
from roofsmith.store.rendered import beside_readers


@dataclass(frozen=True, slots=True)
class Verification:
    """What was looked at, and everything that doesn't follow from the records."""

    records: int
    rounds: int
    commits: int
    """Commits whose files were compared with the ledger's."""
    findings: tuple[Finding, ...]
    notes: tuple[Finding, ...] = ()
    """What another version of the rules, or of the files, made otherwise than this one would."""
    versions: tuple[int, ...] = ()
    """The versions of the rules, other than this one's, that decided something here."""


def verify_campaign(directory: Path) -> Verification:
    """Recompute every decision from raw samples; compare rendered files and commits.

    Where another version of the rules decided, facts alone can be findings.

    Raises:
        UsageError: there is no campaign.
        StorageError: its files can't be read.
    """
    if not (directory / LEDGER).is_file():
        raise UsageError(
            f"{directory} holds no campaign: there is no {LEDGER}",
            hint="name the directory that `roofsmith optimize` printed",
        )
    try:
        events = JsonlLedger(directory / LEDGER).events()
    except LedgerError as error:
        return Verification(0, 0, 0, (Finding(LEDGER, error.message),))
    found = verified(events)
    findings, notes = [*found.findings], [*found.notes]
    campaign = replay(events) if not findings else None
    if campaign is None:
        return Verification(len(events), 0, 0, found.findings, found.notes, found.versions)
    changed = _changed_files(directory, campaign)
    if found.versions:
        notes += (replace(one, what=f"{one.what}, or is another version's") for one in changed)
    else:
        findings += changed
    place = _place(directory)
    commits = _commits(place) if place else {}
    if place:
        findings += _changed_commits(place, commits, campaign)
    return Verification(
        records=len(events),
        rounds=len(campaign.rounds),
        commits=len(commits),
        findings=tuple(findings),
        notes=tuple(notes),
        versions=found.versions,
    )


def _place(directory: Path) -> Place | None:
    """Where the commits are; None where they can't be looked at: no git, or moved away."""
    place = remembered(directory) if git_installed() else None
    return place if place is not None and Path(place.repository).is_dir() else None


def _changed_files(directory: Path, campaign: Campaign) -> Iterator[Finding]:
    for name, text in render_campaign(campaign).items():
        path = directory / name
        try:
            found = path.read_bytes()
            if found != beside_readers(name, text.encode(), found):
                yield Finding(name, "is not what the ledger's records render to; it was changed")
        except FileNotFoundError:
            yield Finding(name, "is missing; `roofsmith report` writes it again")
        except OSError as error:
            raise StorageError(f"can't read {path}: {error.strerror}") from error


def _commits(place: Place) -> dict[str, str]:
    """Candidate id to the hash of its commit, from the trailers that lineages write."""
    found: dict[str, str] = {}
    log = place.ask("log", "--first-parent", "--format=%H%n%B%x00", place.ref) or ""
    for entry in log.split("\0"):
        commit, _, message = entry.strip().partition("\n")
        for line in message.splitlines():
            if line.startswith("Candidate: "):
                found.setdefault(line.removeprefix("Candidate: ").strip(), commit)
    return found


def _changed_commits(
    place: Place, commits: dict[str, str], campaign: Campaign
) -> Iterator[Finding]:
    for record in campaign.kept:
        commit = commits.get(record.candidate.id)
        if commit is None:
            yield Finding(f"round {record.round}", f"its commit is missing on {place.branch}")
            continue
        if record.commit not in (None, commit):
            what = f"commit {record.commit[:12]} is recorded; {place.branch} has {commit[:12]}"
            yield Finding(f"round {record.round}", what)
        for source in record.candidate.sources:
            path = PurePosixPath(place.prefix, source.path)
            # git's answer comes without its last line end.
            if place.ask("show", f"{commit}:{path}") != source.text.removesuffix("\n"):
                what = f"{path} in commit {commit[:12]} is not the recorded candidate"
                yield Finding(f"round {record.round}", what)
