"""Checks a finished campaign against itself: ledger, decisions, rendered files, commits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from roofsmith.api.audit import audit_campaign
from roofsmith.config import Settings
from roofsmith.domain.campaign import Baseline, Campaign, Profiled, Round, replay
from roofsmith.engine.verify import VerifyFinding, verified
from roofsmith.errors import LedgerError, StorageError, UsageError
from roofsmith.report.campaign_files import render_campaign
from roofsmith.store.campaign_dir import LEDGER, LINEAGE
from roofsmith.store.evidence import changed_artifacts
from roofsmith.store.git import git_installed
from roofsmith.store.ledger import JsonlLedger
from roofsmith.store.lineage import TRAILER
from roofsmith.store.lineage_place import Place, remembered
from roofsmith.store.memory import beside_readers


@dataclass(frozen=True, slots=True)
class Commit:
    """One on a campaign's branch."""

    digest: str
    subject: str
    candidates: frozenset[str]
    """Ids that its message names."""


@dataclass(frozen=True, slots=True)
class Verification:
    """What was looked at, and everything that doesn't follow from the records."""

    records: int
    rounds: int
    commits: int
    """Commits of kept rounds that were compared with the ledger."""
    findings: tuple[VerifyFinding, ...]
    notes: tuple[VerifyFinding, ...] = ()
    """What another version of the rules, or of the files, made otherwise than this one would."""
    versions: tuple[int, ...] = ()
    """The versions of the rules, other than this one's, that decided something here."""
    unchecked: tuple[VerifyFinding, ...] = ()
    """What could not be looked at, or is of no round: nothing is said of it."""


def verify_campaign(directory: Path, settings: Settings | None = None) -> Verification:
    """Recompute every decision from raw samples; compare rendered files and commits.

    With settings, citations are audited, too: what doesn't hold is a note, as pages may have
    changed since. A number of the hardware without one is a finding, as this version's rules
    strike it.

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
        return Verification(0, 0, 0, (VerifyFinding(LEDGER, error.message),))
    found = verified(events)
    findings, notes = [*found.findings], [*found.notes]
    campaign = replay(events) if not findings else None
    for one in () if settings is None else audit_campaign(directory, settings).problems:
        invalid = one.kind == "unsourced" and not found.versions
        (findings if invalid else notes).append(VerifyFinding(f"{one.file}:{one.line}", one.said))
    if campaign is None:
        return Verification(len(events), 0, 0, tuple(findings), tuple(notes), found.versions)
    changed = _changed_files(directory, campaign)
    if found.versions:
        notes += changed
    else:
        findings += changed
    recorded = (e.artifacts for e in events if isinstance(e, Baseline | Round | Profiled))
    last = {one.path: one for some in recorded for one in some}  # a later look has the last word
    changes = changed_artifacts(directory, last.values())
    findings += (VerifyFinding(*found) for found in changes)
    place = _place(directory)
    if isinstance(place, Place):
        commits = _commits(place)
        findings += _changed_commits(place, commits, campaign)
        compared = len(campaign.kept)
        unchecked = tuple(_of_no_round(place, commits, campaign))
    else:
        compared, unchecked = 0, tuple(_not_compared(place, campaign))
    return Verification(
        records=len(events),
        rounds=len(campaign.rounds),
        commits=compared,
        findings=tuple(findings),
        notes=tuple(notes),
        versions=found.versions,
        unchecked=unchecked,
    )


def _place(directory: Path) -> Place | str:
    if not git_installed():
        return "git isn't installed"
    place = remembered(directory)
    if place is None:
        return f"{LINEAGE}, which says where they are, is missing or can't be read"
    return place if Path(place.repository).is_dir() else f"{place.repository} isn't there"


def _not_compared(why: str, campaign: Campaign) -> Iterator[VerifyFinding]:
    recorded = [record for record in campaign.kept if record.commit]
    if recorded:
        rounds = ", ".join(str(record.round) for record in recorded)
        yield VerifyFinding("commits", f"those of kept rounds ({rounds}) were not compared: {why}")


def _changed_files(directory: Path, campaign: Campaign) -> Iterator[VerifyFinding]:
    rendered = render_campaign(campaign)
    for failure in rendered.failures:
        what = f"can't be rendered by this version: {type(failure.error).__name__}"
        yield VerifyFinding(failure.what, f"{what}: {failure.error}")
    for name, text in rendered.files.items():
        path = directory / name
        try:
            found = path.read_bytes()
            if found != beside_readers(name, text.encode(), found):
                yield VerifyFinding(
                    name,
                    "is not what the ledger's records render to: it was changed, or another"
                    " version's; `roofsmith campaign report` writes it again",
                )
        except FileNotFoundError:
            yield VerifyFinding(name, "is missing; `roofsmith campaign report` writes it again")
        except OSError as error:
            raise StorageError(f"can't read {path}: {error.strerror}") from error


def _commits(place: Place) -> list[Commit]:
    since = f"{place.base}..{place.ref}" if place.base else place.ref
    log = place.ask("log", "--first-parent", "--format=%H%n%B%x00", since) or ""
    found = []
    for entry in filter(None, map(str.strip, log.split("\0"))):
        digest, _, message = entry.partition("\n")
        subject, *lines = message.splitlines() or [""]
        named = [line for line in lines if line.startswith(TRAILER)]
        ids = frozenset(line.removeprefix(TRAILER).strip() for line in named)
        found.append(Commit(digest, subject, ids))
    return found


def _of_no_round(
    place: Place, commits: list[Commit], campaign: Campaign
) -> Iterator[VerifyFinding]:
    """Commits that somebody else put on the branch."""
    held = {record.candidate.id for record in campaign.kept}
    if campaign.baseline is not None:
        held.add(campaign.baseline.candidate.id)
    for commit in commits:
        if not commit.candidates & held:
            what = f"commit {commit.digest[:12]} ({commit.subject}) is of no round"
            yield VerifyFinding(place.branch, what)


def _changed_commits(
    place: Place, commits: list[Commit], campaign: Campaign
) -> Iterator[VerifyFinding]:
    newest = {one: commit.digest for commit in reversed(commits) for one in commit.candidates}
    for record in campaign.kept:
        commit = newest.get(record.candidate.id)
        if commit is None:
            yield VerifyFinding(f"round {record.round}", f"its commit is missing on {place.branch}")
            continue
        if record.commit not in (None, commit):
            what = f"commit {record.commit[:12]} is recorded; {place.branch} has {commit[:12]}"
            yield VerifyFinding(f"round {record.round}", what)
        for source in record.candidate.sources:
            path = PurePosixPath(place.prefix, source.path)
            # git's answer comes without its last line end.
            if place.ask("show", f"{commit}:{path}") != source.text.removesuffix("\n"):
                what = f"{path} in commit {commit[:12]} is not the recorded candidate"
                yield VerifyFinding(f"round {record.round}", what)
