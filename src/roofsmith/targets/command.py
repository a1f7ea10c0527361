"""Reads the file of a command target, and the repository that it names."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from roofsmith.domain.command import CommandSection, CommandSpec
from roofsmith.domain.target import Target, default_keep, plain_name
from roofsmith.errors import TargetError
from roofsmith.repository.checkouts import editable_sources, open_repository, require_tracked
from roofsmith.repository.column_guess import undirected
from roofsmith.repository.expressions import ExpressionError, formula
from roofsmith.repository.rows import Reader
from roofsmith.targets.format_choice import chosen_format
from roofsmith.targets.schema import CommandFile, explained, located, over, places, validate
from roofsmith.yaml_document import YamlDocument


def load_command(
    document: YamlDocument, folder: Path, overrides: Mapping[str, Any]
) -> tuple[Target, Path]:
    """The target, and the user's first editable file.

    It has no workloads yet: those are the rows of its benchmark, which nobody has run.

    Raises:
        TargetError: a value can't be used, or the repository can't; with the line.
    """
    file = validate(document, overrides, CommandFile)
    section = file.command
    _require_direction(document, section)
    if fault := unreadable(section):
        key, message, hint = fault
        place = document.where(("command", *key.split(".")))
        raise TargetError(f"{place}: command.{key}: {message}", hint=hint)
    with located(document, "command", "repo"):
        repository = open_repository(Path(os.path.normpath(folder / section.repo)))
    with located(document, "command", "editable"):
        kernel, *others = editable_sources(repository, section)
    if section.transfer is not None:
        with located(document, "command", "transfer"):
            require_tracked(repository, section.transfer)
    spec = CommandSpec.model_validate(
        section.model_dump() | {"repo": str(repository.folder), "commit": repository.commit}
    )
    with located(document, "format"):
        names = [source.path for source in (kernel, *others)]
        chosen = chosen_format(file.format, repository.folder, names)
    with explained(document, overrides):
        target = Target(
            name=file.name or plain_name(folder.name),
            language="command",
            kernel=kernel,
            includes=tuple(others),
            command=spec,
            family=file.family,
            threads=file.threads,
            ceilings=file.ceilings,
            format=chosen,
            goal=file.goal,
            keep=over(default_keep("command"), file.keep),
            stop=file.stop,
            notes=file.notes,
            branch=file.branch,
            definition=file.definition,
            **places(file, document, folder),
        )
    return target, repository.folder / kernel.path


def _require_direction(document: YamlDocument, section: CommandSection) -> None:
    """Refuse a metric of which the wrong half might be kept.

    Raises:
        TargetError: nobody said which way it is better, and it is no time.
    """
    if "direction" in section.model_fields_set:
        return
    if (why := undirected(section.metric, section.unit)) is not None:
        raise TargetError(
            f"{document.where(('command', 'metric'))}: command.direction is missing: {why}",
            hint="under `command:`, write `direction: higher` if more of it is better,"
            " `direction: lower` if less is",
        )


def unreadable(section: CommandSection) -> tuple[str, str, str] | None:
    """The first value that can't be used: its key, why, and a hint; None if all can."""
    if (why := section.contradiction) is not None:
        return "unit", why, "correct the one that is wrong; unit may be left out"
    where = ""
    try:
        Reader.of(CommandSpec.model_validate(section.model_dump()))
        for key in ("flops", "bytes"):
            if (text := getattr(section, key)) is not None:
                _parsed(key, text)
        if section.pattern is not None:
            where = "pattern"
            re.compile(section.pattern)
        if section.profile is not None:
            where = "profile.kernel"
            _parsed("profile.time", section.profile.time)
            _parsed("profile.calls", section.profile.calls)
            re.compile(section.profile.kernel)
    except ExpressionError as error:
        key, _, message = str(error).partition(": ")
        return key, message, "columns with blanks stand in brackets: [Forward TFLOPS], `time [ms]`"
    except re.error as error:
        message = f"no regular expression: {error}"
        return where, message, "such as ^paged_attention"
    return None


def _parsed(key: str, text: str) -> None:
    try:
        formula(text)
    except ExpressionError as error:
        raise ExpressionError(f"{key}: {error}") from error
