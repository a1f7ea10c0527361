"""Coding agents as proposers: where they work, and what of the user's is kept from them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from roofsmith import landlock
from roofsmith.domain.command import CommandSpec
from roofsmith.domain.kernel import Candidate
from roofsmith.errors import UsageError
from roofsmith.judge.command.detached import VARIABLE, end_detached, new_name
from roofsmith.ports import Observer, Proposer
from roofsmith.proposers.agent.presets import agent_of
from roofsmith.proposers.agent.proposer import (
    DEADLINE_S,
    AgentProposer,
    CheckedOut,
    Elsewhere,
    Terms,
)
from roofsmith.store.answers import read_answer
from roofsmith.store.asks import write_ask
from roofsmith.store.campaign_dir import WORKTREE
from roofsmith.store.checkouts import GitCheckouts
from roofsmith.store.lineage_place import remembered

_DEADLINE, _TOKENS, _HOME, _WALLS = (
    "ROOFSMITH_AGENT_DEADLINE_S", "ROOFSMITH_AGENT_TOKENS", "ROOFSMITH_AGENT_HOME",
    "ROOFSMITH_AGENT_WALLS",
)  # fmt: skip
_LEAST_DEADLINE_S = 1.0


@dataclass(frozen=True, slots=True)
class Workplace:
    """The campaign that agents work for."""

    directory: Path
    observer: Observer


def agent_proposer(named: str, place: Workplace | None) -> Proposer:
    """The proposer of `agent:NAME` or `agent:COMMAND`.

    Args:
        named: what stands behind `agent:`.
        place: None: there is no campaign that an agent could work for.

    Raises:
        UsageError: there is no such program, or a setting of `$ROOFSMITH_AGENT_...` is none.
    """
    if place is None:
        raise UsageError(
            "an agent proposes within `roofsmith optimize` and `roofsmith resume` alone",
            hint="from outside, `roofsmith ask` and `roofsmith tell` do",
        )
    environment = dict(os.environ)
    home = _one_of(environment, _HOME, ("own", "user"))
    walls = _one_of(environment, _WALLS, ("none",))
    directory = Path(os.path.abspath(place.directory))  # noqa: PTH100 - as the campaign's own
    terms = Terms(
        directory=directory,
        observer=place.observer,
        environment=environment,
        write_ask=write_ask,
        read_answer=read_answer,
        end_left=end_detached,
        new_name=new_name,
        variable=VARIABLE,
        check_out=_check_out,
        elsewhere=lambda: _elsewhere(directory),
        deadline_s=_number(environment, _DEADLINE, _LEAST_DEADLINE_S) or DEADLINE_S,
        tokens=None if (most := _number(environment, _TOKENS, 1)) is None else int(most),
        walls=walls is None and _has_walls(),
    )
    return AgentProposer(agent_of(named, environment, home), terms)


def _has_walls() -> bool:
    try:
        landlock.version()
    except landlock.NoLandlockError:
        return False
    return True


def _check_out(spec: CommandSpec, candidate: Candidate, root: Path) -> CheckedOut:
    """A checkout that is nobody else's."""
    checkouts = GitCheckouts(spec, root)
    folder, _ = checkouts.make(candidate)
    own = {
        str(PurePosixPath(checkouts.repository.prefix, source.path))
        for source in candidate.sources
        if spec.is_editable(source.path)
    }
    return CheckedOut(
        folder, lambda: [path for path in checkouts.changed(candidate.id) if path not in own]
    )


def _elsewhere(directory: Path) -> Elsewhere:
    """The git directory that a campaign commits to, and the user's kernel."""
    place = remembered(directory)
    if place is None:
        return Elsewhere()
    git = Path(place.repository)
    checkout = tuple(
        found.parent
        for found in git.glob("worktrees/*/gitdir")
        if _text(found) == str(directory / WORKTREE / ".git")
    )
    kernel = (Path(place.kernel),) if place.kernel else ()
    settings = tuple(git / name for name in ("HEAD", "config", "packed-refs", "hooks", "refs"))
    return Elsewhere(restored=(git / place.ref, *checkout), seen=(*settings, *kernel))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _one_of(environment: dict[str, str], name: str, known: tuple[str, ...]) -> str | None:
    chosen = environment.get(name)
    if chosen and chosen not in known:
        raise UsageError(f"{name}={chosen}: known: {', '.join(known)}")
    return chosen or None


def _number(environment: dict[str, str], name: str, least: float) -> float | None:
    chosen = environment.get(name)
    if not chosen:
        return None
    try:
        found = float(chosen)
    except ValueError:
        found = float("nan")
    if not least <= found < float("inf"):
        raise UsageError(f"{name}={chosen}: a number from {least:g} on is needed")
    return found
