"""Coding agents as proposers: where they work, and what of the user's is kept from them."""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

import roofsmith
from roofsmith.api.gate import exported
from roofsmith.config import AGENT_DEADLINE_S, Settings
from roofsmith.detached import VARIABLE, end_detached, new_name
from roofsmith.domain.command import CommandSpec
from roofsmith.domain.kernel import Candidate
from roofsmith.errors import UsageError
from roofsmith.judge.sandbox.isolation import probe
from roofsmith.landlock import LANDLOCK
from roofsmith.namespaces import MOUNT, USER
from roofsmith.ports import Observer, Proposer
from roofsmith.proposers.agent.folder import remove_folder
from roofsmith.proposers.agent.presets import agent_of
from roofsmith.proposers.agent.proposer import AgentProposer, CheckedOut, Elsewhere, Terms
from roofsmith.repository.checkouts import GitCheckouts
from roofsmith.scratch import is_stale, scratch_directory
from roofsmith.store.answers import read_answer
from roofsmith.store.asks import write_ask
from roofsmith.store.campaign_dir import WORKTREE
from roofsmith.store.lineage_place import Place, remembered

_TOKENS, _HOME, _WALLS = (
    "ROOFSMITH_AGENT_TOKENS", "ROOFSMITH_AGENT_HOME", "ROOFSMITH_AGENT_WALLS",
)  # fmt: skip
_PRIVATE = "private"
_CAREFUL = {"PYTHONSAFEPATH": "1", "CCACHE_DISABLE": "1"}
"""What this process's own children are told: no modules of the folder that they start in, and no
objects of a compiler's cache."""
_OBEYED = ("config", "config.worktree", "hooks", "info")
_AT_HOME = (".gitconfig", ".valgrindrc", ".perfconfig", ".ccache/ccache.conf")
_IN_CONFIG = ("git", "ccache", "roofsmith")


@dataclass(frozen=True, slots=True)
class Workplace:
    """The campaign that agents work for."""

    directory: Path
    observer: Observer
    private_dir: Path | None = None
    """As in `Settings`: removed whenever an agent without walls has worked."""
    deadline_s: float = AGENT_DEADLINE_S
    """For one answer."""


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
    environment = os.environ  # as it is when an agent is asked: with the GPU that was leased
    home = _one_of(environment, _HOME, ("own", "user"))
    layers = walls_of(environment)
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
        elsewhere=lambda: _elsewhere(directory, environment, layers),
        forget=lambda: None if place.private_dir is None else _make_anew(place.private_dir),
        deadline_s=place.deadline_s,
        tokens=None if (most := _number(environment, _TOKENS, 1)) is None else int(most),
        layers=layers,
    )
    return AgentProposer(agent_of(named, environment, home), terms)


@contextmanager
def distrusting(settings: Settings, proposers: str) -> Iterator[Settings]:
    """Settings for whoever believes nothing that an agent without walls could have written.

    Args:
        settings: the user's.
        proposers: as `make_proposer` takes them; where no such agent is among them, all is trusted.

    Raises:
        StorageError: the cache can't be written.
    """
    if "agent:" not in proposers or walls_of(os.environ):
        yield settings
        return
    _sweep(settings.cache_dir)
    private = scratch_directory(_PRIVATE, settings.cache_dir)
    try:
        with exported(_CAREFUL):
            yield replace(settings, private_dir=private)
    finally:
        remove_folder(private)


def _sweep(cache: Path) -> None:
    cache.mkdir(parents=True, exist_ok=True)
    for path in cache.glob(f"roofsmith-{_PRIVATE}-*"):
        if is_stale(path.name):
            remove_folder(path)


def _make_anew(folder: Path) -> None:
    remove_folder(folder)
    folder.mkdir(mode=0o700)


def walls_of(environment: Mapping[str, str]) -> tuple[str, ...]:
    """What this host grants of what keeps agents from writing elsewhere.

    Raises:
        UsageError: the setting that says so is none.
    """
    if _one_of(environment, _WALLS, ("none",)) is not None:
        return ()
    refusals = probe()
    wanted = (USER, MOUNT, LANDLOCK) if refusals[MOUNT] is None else (LANDLOCK,)
    return tuple(layer for layer in wanted if refusals[layer] is None)


def _check_out(spec: CommandSpec, candidate: Candidate, root: Path) -> CheckedOut:
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


def _elsewhere(
    directory: Path, environment: Mapping[str, str], layers: tuple[str, ...]
) -> Elsewhere:
    """The git directory that a campaign commits to, the user's kernel, and what this process runs.

    Behind walls, programs, packages and settings are out of an agent's reach; in a mount namespace
    modes and the like of all that is the user's, too.
    """
    place = remembered(directory)
    branch, seen, obeyed = _of_repository(directory, place) if place else ((), (), ())
    found = Elsewhere(restored=branch)
    if MOUNT not in layers:
        kept = _checkout(place) if place else ()
        kernel = (Path(place.kernel).parent,) if place and place.kernel else ()
        beside = (*(folder.parent for folder in (*kept, directory)), *kernel)
        found = replace(found, kept=kept, beside=beside)
    if layers:
        return found
    return replace(
        found,
        restored=(*branch, *obeyed, *_settings_files(environment)),
        seen=seen,
        programs=_real(environment.get("PATH", os.defpath).split(os.pathsep)),
        packages=_packages(environment),
    )


def _checkout(place: Place) -> tuple[Path, ...]:
    """The user's files that git knows of, with its own, if the campaign's branch is in theirs."""
    git = Path(place.repository)
    return () if place.base is None else (git.parent if git.name == ".git" else git,)


def _of_repository(directory: Path, place: Place) -> tuple[tuple[Path, ...], ...]:
    """The campaign's branch and checkout, what is the user's, and what git does as it says."""
    git = Path(place.repository)
    checkout = tuple(
        found.parent
        for found in git.glob("worktrees/*/gitdir")
        if _text(found) == str(directory / WORKTREE / ".git")
    )
    kernel = (Path(place.kernel),) if place.kernel else ()
    seen = (*(git / name for name in ("HEAD", "packed-refs", "refs")), *kernel)
    return (git / place.ref, *checkout), seen, tuple(git / name for name in _OBEYED)


def _settings_files(environment: Mapping[str, str]) -> tuple[Path, ...]:
    """The user's own that programs heed which this process runs, and pages that it believes."""
    home = Path(environment.get("HOME") or Path.home())
    config = Path(environment.get("XDG_CONFIG_HOME") or home / ".config")
    return (*(home / name for name in _AT_HOME), *(config / name for name in _IN_CONFIG))


def _packages(environment: Mapping[str, str]) -> tuple[Path, ...]:
    """Folders that Python imports from, also those that aren't there yet."""
    found = [*environment.get("PYTHONPATH", "").split(os.pathsep), site.getusersitepackages()]
    found += [path for path in sys.path if Path(path).is_relative_to(sys.prefix)]
    real = _real([*found, sysconfig.get_path("stdlib"), str(Path(roofsmith.__file__).parent)])
    return tuple(path for path in real if not any(parent in real for parent in path.parents))


def _real(folders: Iterable[str]) -> tuple[Path, ...]:
    return tuple(dict.fromkeys(Path(os.path.realpath(path)) for path in folders if path))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _one_of(environment: Mapping[str, str], name: str, known: tuple[str, ...]) -> str | None:
    chosen = environment.get(name)
    if chosen and chosen not in known:
        raise UsageError(f"{name}={chosen}: known: {', '.join(known)}")
    return chosen or None


def _number(environment: Mapping[str, str], name: str, least: float) -> float | None:
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
