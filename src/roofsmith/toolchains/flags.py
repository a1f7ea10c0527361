"""Which compiler and linker flags a candidate may ask for: those of `flags.yaml`, no others."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from roofsmith.domain.kernel import BuildSpec
from roofsmith.yaml_document import shipped_table

Rule = Callable[[str], bool]
TABLE: Final[Mapping[str, Any]] = shipped_table(__package__, "flags.yaml")
_GCC: Final = TABLE["gcc"]


def refusal(build: BuildSpec) -> tuple[str, str] | None:
    """Why a build spec is not allowed, as (reason code, sentence); None if it is."""
    for flag in joined((*build.flags, *build.link)):
        if not is_allowed(flag):
            return "flag_not_allowed", (
                f"flag `{flag}` is not allowed: flags may choose code generation (-O, -f, -m, "
                "-std, -g), macros (-D, -U), warnings (-W), folders of the candidate or the "
                "system (-I, -L) and libraries (-l)"
            )
    return environment_refusal(build)


def environment_refusal(build: BuildSpec) -> tuple[str, str] | None:
    """Why a build spec's environment is not allowed; None if it is."""
    allowed = tuple(TABLE["environment"])
    for name, value in build.environment.items():
        if not name.startswith(allowed) or "/" in value or "\0" in value:
            return "environment_not_allowed", (
                f"environment variable {name}={value!r} is not allowed: only settings of thread "
                f"runtimes and BLAS libraries are ({', '.join(p + '*' for p in allowed)}), "
                "without paths"
            )
    return None


def is_shell_safe(text: str) -> bool:
    """Whether a shell that is handed this text, in double quotes or without any, runs nothing.

    nvcc and hipcc pass their arguments on through a shell: `-DX=$(command)` runs the command.
    """
    return all(char.isalnum() or char in "_-+=./:,@%()* " for char in text)


def joined(flags: Sequence[str]) -> tuple[str, ...]:
    """The flags with separate values attached: `-D N=4` becomes `-DN=4`."""
    words = iter(flags)
    return tuple(word + next(words, "") if word in _GCC["take_next"] else word for word in words)


def is_allowed(flag: str) -> bool:
    """Whether gcc and clang may be given this flag, its value attached."""
    if any(ord(char) < 32 for char in flag):
        return False
    stem = next((stem for stem in _PREFIXES if flag.startswith(stem)), None)
    return flag in _GCC["exact"] or (stem is not None and _PREFIXES[stem](flag[len(stem) :]))


def rule_of(said: Any, more: Mapping[str, Rule] | None = None) -> Rule:
    """What a value in the table means: a regular expression, what it `is`, or both."""
    named = said if isinstance(said, dict) else {"like": said}
    pattern = re.compile(named.get("like", ".*"), re.DOTALL)
    check = {**CHECKS, **(more or {})}[named["is"]] if "is" in named else lambda _: True
    return lambda value: pattern.fullmatch(value) is not None and check(value)


def is_system_folder(value: str) -> bool:
    """Whether a path lies where headers and libraries are installed."""
    path = posixpath.normpath(value)
    return any(path == folder or path.startswith(folder + "/") for folder in TABLE["folders"])


def is_readable_folder(value: str) -> bool:
    """Whether a path is one of the system's, or stays inside of the candidate's folder."""
    if value.startswith("/"):
        return is_system_folder(value)
    return bool(value) and posixpath.normpath(value).split("/")[0] != ".."


def _is_code_generation(value: str) -> bool:
    refused = tuple(_GCC["refused_f"])
    return bool(value) and "/" not in value and not (
        value.startswith(refused) or value.removeprefix("no-").startswith(refused)
    )  # fmt: skip


CHECKS: Final[Mapping[str, Rule]] = {
    "identifier": str.isidentifier,
    "readable_folder": is_readable_folder,
    "system_folder": is_system_folder,
    "code_generation": _is_code_generation,
    "linker": lambda value: all(word in _GCC["linker"] for word in value.split(",")),
}
_PREFIXES: Final = {stem: rule_of(said) for stem, said in _GCC["prefixes"].items()}
