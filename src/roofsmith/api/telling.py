"""A change from outside: what it may be, the candidate that it gives, and where it is kept."""

from __future__ import annotations

import shlex
from pathlib import Path

from roofsmith.api.subjects import build_for
from roofsmith.asking.contract import contract_of
from roofsmith.asking.matching import in_line_ends_of
from roofsmith.domain.campaign import replay
from roofsmith.domain.kernel import Candidate
from roofsmith.domain.options import SubmittedChange
from roofsmith.domain.refusal import Refusal
from roofsmith.domain.returning import called_in_place
from roofsmith.domain.target import Target
from roofsmith.errors import LedgerError, UsageError
from roofsmith.store.campaign_dir import LEDGER
from roofsmith.store.ledger import JsonlLedger
from roofsmith.store.sources import read_text
from roofsmith.store.told import Told, drop, files_of, keep, kept
from roofsmith.targets.edited import edited_candidate

_HOW = (
    "Then: roofsmith tell DIR --proposal FILE, in the schema that `roofsmith agent schema proposal`"
    " prints, or "
)
_ANY = (
    "Where `repair` is set, the last result was wrong: change no more than makes it right, and "
    "tell it with --repair, or drop the idea by telling another one. `bases` are undecided rounds: "
    "change the kernel of one, tell it with --base, and both changes are judged together. Say with "
    "--rationale, --evidence and --bottleneck why it should help, with --category, --predict and "
    "--counter what you expect: it is scored, and `calibration` says how "
    "good it was so far. After rollbacks in a row `diagnosis` holds what was tried, and what was "
    "looked at again: read it first."
)


def instructions_for(target: Target) -> str:
    """What whoever proposes a change has to keep to, and how to tell it."""
    if target.command is None:
        how = "roofsmith tell DIR --kernel FILE --hypothesis TEXT [--flags FLAGS]."
    else:
        how = (
            "roofsmith tell DIR --kernel FILE --hypothesis TEXT, with the edited file, or a folder"
            " in which edited files lie under their paths in the repository."
        )
    return f"{contract_of(target)}\n{_HOW}{how} {_ANY}"


def told_candidate(path: Path, flags: str | None, before: Candidate, target: Target) -> Candidate:
    """The candidate that an edited file, or for a repository a folder of them, makes of another.

    Raises:
        UsageError: it can't be read, or there are flags where a build command is frozen.
    """
    if target.command is not None:
        if flags is not None:
            raise UsageError(
                "--flags is for kernels; the build command of a repository is frozen",
                hint="change flags in an editable file, or start a campaign with another `build`",
            )
        return _in_its_line_ends(edited_candidate(path, target.command, before), before)
    text = in_line_ends_of(before.kernel.text, read_text(path, "kernel"))
    text = called_in_place(
        text, before.language, target.truth.text, before.entry, before.kernel.text
    )
    build = build_for(before.language, text, flags, default=before.build)
    return before.with_kernel_text(text).with_build(build)


def _in_its_line_ends(candidate: Candidate, before: Candidate) -> Candidate:
    """What an editor saved, in the line ends that its files had."""
    had = {source.path: source.text for source in before.sources}
    sources = tuple(
        source.model_copy(
            update={"text": in_line_ends_of(had.get(source.path, source.text), source.text)}
        )
        for source in candidate.sources
    )
    return candidate.model_copy(update={"sources": sources})


def keep_told(
    change: SubmittedChange,
    directory: Path,
    candidate: Candidate,
    before: Candidate,
    target: Target,
) -> None:
    """Write down a change that was made in the campaign's own directory, such as its worktree.

    The incumbent is about to be put back there, and no record holds the change yet.

    Raises:
        StorageError: it can't be written.
    """
    if not change.kernel.resolve().is_relative_to(directory.resolve()):
        return
    changed = [source for source in candidate.sources if source not in before.sources]
    if changed:
        files = files_of(directory.absolute(), candidate.id)
        path = files / candidate.kernel.path if target.command is None else files
        keep(directory, candidate.id, changed, _command(change, directory.absolute(), path))


def untold(directory: Path) -> tuple[Told, ...]:
    """Changes that were told and interrupted: no record holds them, and files of theirs are kept.

    Raises:
        StorageError: what is kept can't be read.
    """
    found = tuple(kept(directory))
    if not found:
        return ()
    try:
        campaign = replay(JsonlLedger(directory / LEDGER).events())
    except LedgerError:
        return found
    proposed = campaign.proposed if campaign is not None else ()
    recorded = {p.candidate_id if isinstance(p, Refusal) else p.proposed_id for p in proposed}
    for one in found:
        if one.candidate_id in recorded:
            drop(directory, one.candidate_id)
    return tuple(one for one in found if one.candidate_id not in recorded)


def _command(change: SubmittedChange, directory: Path, kernel: Path) -> str:
    """What tells a change again, from wherever it is typed."""
    options = {
        "--kernel": kernel,
        "--hypothesis": change.hypothesis,
        "--flags": change.flags,
        "--class": change.target_class,
        "--tokens": change.tokens or None,
        "--base": change.base,
        "--category": change.category,
        "--predict": change.predicted_speedup,
        "--counter": change.expected_counter,
        "--counter-ratio": change.expected_delta,
        "--again": change.again,
        "--rationale": change.rationale,
        "--bottleneck": change.bottleneck,
        "--bucket": change.bucket,
        "--insight": change.insight,
    }
    said = [f"{name}={value}" for name, value in options.items() if value is not None]
    said += [f"--fact={fact}" for fact in change.facts]
    said += [f"--evidence={one}" for one in change.evidence]
    repair = ["--repair"] if change.repair else []
    return shlex.join(["roofsmith", "tell", str(directory), *said, *repair])
