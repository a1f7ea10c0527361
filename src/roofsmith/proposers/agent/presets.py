"""The agents that are known by name, and command lines of the user's own."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from roofsmith.domain.values import Value
from roofsmith.errors import UsageError
from roofsmith.proposers.agent.usage import UsageRule
from roofsmith.yaml_document import parse_yaml

_FILE = Path(__file__).with_name("presets.yaml")
_PROMPT = Path(__file__).with_name("prompt.txt")
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_EDITORS = ("VISUAL", "EDITOR")


class Preset(Value):
    """An entry of `presets.yaml`, where the fields are explained."""

    command: tuple[str, ...] = Field(min_length=1)
    home: Literal["own", "user"] = "own"
    writes: tuple[str, ...] = ()
    walled: tuple[str, ...] = ()
    unwalled: tuple[str, ...] = ()
    sets: dict[str, str] = Field(default_factory=dict)
    usage: UsageRule | None = None
    terminal: Literal["yes", "no"] = "no"
    login: str = ""
    source: str = Field(default="", alias="from")
    tested: str = "no"


@dataclass(frozen=True, slots=True)
class Agent:
    """A command line that proposes."""

    name: str
    """As records say it: of a command of the user's own the program alone, in parentheses, since
    a command line may hold a key."""
    command: tuple[str, ...]
    """Its first word is the program's absolute path."""
    preset: Preset
    """How it is run, but for the command."""

    def words(
        self, values: Mapping[str, str], lists: Mapping[str, Sequence[str]]
    ) -> tuple[str, ...]:
        """The command with its placeholders filled in."""
        found: list[str] = []
        for word in self.command:
            if (listed := lists.get(word[1:-1])) is not None and word == f"{{{word[1:-1]}}}":
                found += listed
                continue
            found.append(filled(word, values))
        return tuple(found)


@cache
def presets() -> Mapping[str, Preset]:
    """All entries by name.

    Raises:
        UsageError: the file is broken.
    """
    document = parse_yaml(
        _FILE.read_text(encoding="utf-8"), _FILE, UsageError, start_from="the installed file"
    )
    try:
        return {name: Preset.model_validate(entry) for name, entry in document.data.items()}
    except ValidationError as error:
        raise UsageError(f"{_FILE}: {error}") from error


def prompt_text(values: Mapping[str, str]) -> str:
    """What an agent is asked, with its folders filled in."""
    return filled(_PROMPT.read_text(encoding="utf-8").strip(), values)


def filled(text: str, values: Mapping[str, str]) -> str:
    """A text with placeholders such as `{work}` filled in, once each."""
    return _PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), text)


def agent_of(named: str, environment: Mapping[str, str], home: str | None = None) -> Agent:
    """The agent of `agent:NAME` or `agent:COMMAND`.

    A command whose program is one that is known gets that one's home and usage.

    Args:
        named: what stands behind `agent:`.
        environment: this process's: where programs are looked for.
        home: `own` or `user` in place of the preset's.

    Raises:
        UsageError: there is no such program.
    """
    known = presets()
    preset = known.get(named)
    if preset is not None:
        name, words = named, _with_editor(preset.command, environment)
    else:
        words = _words(named)
        program = Path(words[0]).name
        name = f"({program.replace('+', '')})"  # a plus stands between proposers
        preset = known.get(program, Preset(command=words))
    if home in ("own", "user"):
        preset = preset.model_copy(update={"home": home})
    found = shutil.which(words[0], path=environment.get("PATH", os.defpath))
    if found is None:
        raise UsageError(
            f"agent:{named}: there is no program {words[0]!r} here",
            hint=f"install it, or name one of {', '.join(known)}, or a command line of your own",
        )
    return Agent(name=name, command=(str(Path(found).absolute()), *words[1:]), preset=preset)


def _words(command: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(command))
    except ValueError as error:
        raise UsageError(
            f"agent:{command}: no command line: {error}", hint="check its quotes"
        ) from error
    if not words:
        raise UsageError(
            "agent: names no agent", hint=f"agent:NAME, one of {', '.join(presets())}; or a command"
        )
    return words


def _with_editor(words: Sequence[str], environment: Mapping[str, str]) -> tuple[str, ...]:
    if words[0] != "$EDITOR":
        return tuple(words)
    chosen = next((environment[name] for name in _EDITORS if environment.get(name)), None)
    if chosen is None:
        raise UsageError(
            "agent:human needs an editor, and neither VISUAL nor EDITOR names one",
            hint="export EDITOR=nano, say; `roofsmith ask` and `tell` work without",
        )
    return (*_words(chosen), *words[1:])
