"""One build for two kernels that were built each in its own way."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from roofsmith.domain.kernel import BuildSpec
from roofsmith.toolchains.flags import joined

_DEFINITION = re.compile(r"-D([A-Za-z_]\w*)(?:=(.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class JointBuild:
    """How both are built in one file."""

    build: BuildSpec
    old_macros: tuple[tuple[str, str], ...]
    """What the flags defined for the old kernel alone, now defined in the file."""
    new_macros: tuple[tuple[str, str], ...]


def joint_build(old: BuildSpec, new: BuildSpec) -> JointBuild | str:
    """The build that gives each kernel what it was built with; why there is none, else.

    Macros that only one of them was given are defined in the file, around it. Flags that only the
    new one has are given to both; the dispatch is judged as a whole, so if that changes the old
    kernel for the worse, it shows.
    """
    if old.compiler != new.compiler:
        return f"they are built by different compilers, {old.compiler} and {new.compiler}"
    if old.environment != new.environment:
        return (
            "they run under different environment variables,"
            f" {_spelled(old.environment)} and {_spelled(new.environment)}"
        )
    olds, news = joined(old.flags), joined(new.flags)
    old_macros, new_macros = _only_in(olds, news), _only_in(news, olds)
    old_rest, new_rest = _less(olds, old_macros), _less(news, new_macros)
    if not _holds_in_order(new_rest, old_rest):
        lost = [flag for flag in old_rest if flag not in new_rest] or list(old_rest)
        return f"they are built with different flags: the new one not with {' '.join(lost)}"
    link = (*old.link, *(flag for flag in new.link if flag not in old.link))
    build = new.model_copy(update={"flags": new_rest, "link": link})
    return JointBuild(build, _defined(old_macros), _defined(new_macros))


def _only_in(flags: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    return tuple(flag for flag in flags if _DEFINITION.fullmatch(flag) and flag not in others)


def _less(flags: Sequence[str], taken: Sequence[str]) -> tuple[str, ...]:
    return tuple(flag for flag in flags if flag not in taken)


def _holds_in_order(flags: Sequence[str], wanted: Sequence[str]) -> bool:
    """Whether `wanted` is what is left of `flags` when some are taken away."""
    rest = iter(flags)
    return all(flag in rest for flag in wanted)


def _defined(flags: Sequence[str]) -> tuple[tuple[str, str], ...]:
    found = (_DEFINITION.fullmatch(flag) for flag in flags)
    return tuple((f[1], f[2] if f[2] is not None else "1") for f in found if f)


def _spelled(environment: dict[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in environment.items()) or "none"
