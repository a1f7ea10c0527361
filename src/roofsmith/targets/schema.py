"""The keys of a target file, the shorthands it allows, and what is said about a wrong one."""

from __future__ import annotations

import difflib
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, Field, ValidationError, field_validator
from pydantic_core import ErrorDetails

from roofsmith.analysis.flops import known_family
from roofsmith.domain.bound import CeilingKind
from roofsmith.domain.command import CommandSection, ProfileCommand
from roofsmith.domain.kernel import BuildSpec
from roofsmith.domain.modes import KernelLanguage, TimingMode
from roofsmith.domain.target import (
    BRANCH,
    HELD_OUT,
    LONGEST_NOTES,
    Definition,
    Goal,
    KeepPolicy,
    StopPolicy,
    Tolerance,
)
from roofsmith.domain.values import Described
from roofsmith.domain.workload import Workload
from roofsmith.errors import TargetError
from roofsmith.store.workload_text import checked_size, parse_workload, whole_number
from roofsmith.yaml_document import Location, YamlDocument

_SHOWN_ERRORS = 8
_NULL_SAYS_SOMETHING = frozenset(
    (
        ("goal", "roofline_fraction"),
        ("stop", "max_iterations"),
        ("stop", "max_consecutive_regressions"),
    )
)
"""Keys where null is no want of a value, but no goal or no limit."""
_GOAL = re.compile(
    r"\s*>?=?\s*(?P<value>\d+(?:\.\d+)?)\s*(?:(?P<unit>TFLOPS?|TFLOP/s|GB/s)"
    r"|(?P<percent>%)(?:\s*of\s+(?:the\s+)?(?:peak|roofline|speed of light))?"
    r"|(?P<times>x)(?:\s+(?:faster|speedup))?)\s*",
    re.IGNORECASE,
)
_COMMAND_LISTS = ("editable", "carry", "rows", "classes", "workspace")


class WikiSection(Described):
    """Where facts about the device come from."""

    path: str | None = None
    """Folder of a local gpu-wiki, which alone has the word: README.md beside docs/, ref-docs/."""


class _OfFamily(Described):
    @field_validator("family", check_fields=False)
    @classmethod
    def _is_known(cls, family: str | None) -> str | None:
        return None if family is None else known_family(family)


class CommandFile(_OfFamily):
    command: CommandSection
    name: str | None = None
    family: str | None = None
    threads: int | None = Field(default=None, ge=1)
    ceilings: CeilingKind = "measured"
    format: str = "auto"
    goal: Goal = Goal()
    keep: KeepPolicy = KeepPolicy()
    stop: StopPolicy = StopPolicy()
    notes: str = Field(default="", max_length=LONGEST_NOTES)
    definition: Definition | None = None
    wiki: WikiSection | None = None
    references: tuple[str, ...] = Field(default=(), max_length=20)
    branch: str | None = Field(default=None, pattern=BRANCH, max_length=200)


class TargetFile(_OfFamily):
    """The keys of a target file; paths are relative to it."""

    name: str | None = None
    kernel: str
    reference: str
    includes: tuple[str, ...] = ()
    workloads: tuple[Workload, ...] = Field(min_length=1)
    weights: dict[str, float] = Field(default_factory=dict)
    language: KernelLanguage | None = None
    family: str | None = None
    entry: str = "solve"
    build: BuildSpec = BuildSpec()
    """What isn't given of it is the language's default (`default_build`)."""
    threads: int | None = Field(default=None, ge=1)
    ptr_size: int | None = Field(default=None, ge=1)
    timing: TimingMode = "kernel"
    tf32: bool = False
    custom_only: bool = False
    ceilings: CeilingKind = "measured"
    format: str = "auto"
    tolerance: Tolerance = Tolerance()
    goal: Goal = Goal()
    keep: KeepPolicy = KeepPolicy()
    stop: StopPolicy = StopPolicy()
    held_out: int = Field(default=HELD_OUT, ge=0, le=16)
    notes: str = Field(default="", max_length=LONGEST_NOTES)
    definition: Definition | None = None
    wiki: WikiSection | None = None
    references: tuple[str, ...] = Field(default=(), max_length=20)
    branch: str | None = Field(default=None, pattern=BRANCH, max_length=200)


File = TypeVar("File", TargetFile, CommandFile)
Settings = TypeVar("Settings", BuildSpec, KeepPolicy)

SECTIONS: Mapping[str, type[BaseModel]] = {
    "build": BuildSpec,
    "tolerance": Tolerance,
    "goal": Goal,
    "keep": KeepPolicy,
    "stop": StopPolicy,
    "command": CommandSection,
    "wiki": WikiSection,
    "definition": Definition,
}
"""Keys that hold further keys."""


def places(file: TargetFile | CommandFile, document: YamlDocument, folder: Path) -> dict[str, Any]:
    """The folders that a target file names beside its sources, absolute.

    Raises:
        TargetError: a reference project isn't there. A wiki needn't be: facts are UNKNOWN then.
    """
    for index, name in enumerate(file.references):
        with located(document, "references", index):
            if not (folder / Path(name).expanduser()).is_dir():
                raise TargetError(f"{name} is no folder", hint="name folders of reference projects")
    wiki = () if file.wiki is None or file.wiki.path is None else (file.wiki.path,)
    named, found = (
        tuple(os.path.normpath(folder / Path(name).expanduser()) for name in names)
        for names in (wiki, file.references)
    )
    return {"gpu_wiki": next(iter(named), None), "references": found}


def over(default: Settings, given: Settings) -> Settings:
    """What a file says, and the language's defaults for the rest."""
    said = {key: getattr(given, key) for key in given.model_fields_set}
    return default.model_copy(update=said)


def validate(document: YamlDocument, overrides: Mapping[str, Any], model: type[File]) -> File:
    """The file's keys, checked, with overrides (by dotted key) in their place.

    Raises:
        TargetError: every wrong key and value, each with its line.
    """
    data = _prepared(document)
    for dotted, value in overrides.items():
        if value is not None:
            _override(data, dotted, value)
    with explained(document, overrides):
        return model.model_validate(data)


@contextmanager
def located(document: YamlDocument, *location: str | int) -> Iterator[None]:
    """Put the line of a value in front of what is wrong with it."""
    try:
        yield
    except TargetError as error:
        place = document.where(location)
        raise TargetError(f"{place}: {error.message}", hint=error.hint) from error


@contextmanager
def explained(document: YamlDocument, overrides: Mapping[str, Any]) -> Iterator[None]:
    """Turn pydantic's errors into lines such as `target.yaml:12: unknown key 'worklods'`."""
    try:
        yield
    except ValidationError as error:
        details = _first_causes(error.errors())
        lines = [_explain(detail, document, overrides) for detail in details[:_SHOWN_ERRORS]]
        if len(details) > _SHOWN_ERRORS:
            lines.append(f"and {len(details) - _SHOWN_ERRORS} more")
        raise TargetError("\n".join(lines)) from error


def _prepared(document: YamlDocument) -> dict[str, Any]:
    """The data with its shorthands spelled out, and without keys that are left empty."""
    data = {key: value for key, value in document.data.items() if value is not None}
    for section in SECTIONS.keys() & data.keys():
        if isinstance(data[section], dict):
            data[section] = {
                key: value
                for key, value in data[section].items()
                if value is not None or (section, key) in _NULL_SAYS_SOMETHING
            }
    if isinstance(data.get("goal"), str):
        data["goal"] = _goal(document, data["goal"])
    if isinstance(data.get("includes"), str):
        data["includes"] = [data["includes"]]
    if isinstance(data.get("build"), dict):
        data["build"] = _build(document, data["build"])
    if isinstance(data.get("command"), dict):
        data["command"] = _command(data["command"])
    if isinstance(data.get("workloads"), list):
        data["workloads"] = [
            _workload(document, index, item) for index, item in enumerate(data["workloads"])
        ]
    return data


def _goal(document: YamlDocument, text: str) -> dict[str, Any]:
    """`> 500 TFLOPS`, `> 2000 GB/s`, `> 60% of peak`, `1.5x`, or `none`: no share of the roofline.

    A floor is what the peak of its limiting resource allows, so a share of that peak is a share of
    the roofline.
    """
    if text.strip().lower() in ("none", "null"):
        return {"roofline_fraction": None}
    if (found := _GOAL.fullmatch(text)) is None:
        place = document.where(("goal",))
        raise TargetError(
            f"{place}: goal {text!r} isn't understood",
            hint="`> 500 TFLOPS`, `> 2000 GB/s`, `> 60% of peak`, `1.5x`, `none`, or its keys",
        )
    value = float(found["value"])
    if found["percent"]:
        return {"roofline_fraction": value / 100}
    if found["times"]:
        return {"speedup": value}
    return {"gbs" if found["unit"].lower() == "gb/s" else "tflops": value}


def _build(document: YamlDocument, build: dict[str, Any]) -> dict[str, Any]:
    build = dict(build)
    for key in ("flags", "link"):
        if isinstance(build.get(key), str):
            try:
                build[key] = shlex.split(build[key])
            except ValueError as error:
                place = document.where(("build", key))
                raise TargetError(f"{place}: build.{key}: {error}") from error
    variables = build.get("environment")
    if isinstance(variables, dict):
        numbers = (int, float)
        build["environment"] = {
            key: str(value) if isinstance(value, numbers) else value
            for key, value in variables.items()
        }
    return build


def _command(command: dict[str, Any]) -> dict[str, Any]:
    """One name may stand for a list of one, and numbers for texts."""
    command = {key: [value] if key in _COMMAND_LISTS and isinstance(value, str) else value
               for key, value in command.items()}  # fmt: skip
    for section in ("environment", "metrics"):
        if isinstance(command.get(section), dict):
            command[section] = {
                key: str(value) if isinstance(value, int | float) else value
                for key, value in command[section].items()
            }
    return command


def _workload(document: YamlDocument, index: int, item: Any) -> Any:
    """`N=4,D=8` and `{N: 4, D: 8, class: large}` are short for `{dims: {...}, class: ...}`."""
    with located(document, "workloads", index):
        if isinstance(item, str):
            return parse_workload(item)
        if not isinstance(item, dict):
            return item
        if not isinstance(item.get("dims"), dict):
            dims = {key: value for key, value in item.items() if key != "class"}
            item = {"dims": dims} | ({"class": item["class"]} if "class" in item else {})
        item = item | {"dims": {name: _size(name, size) for name, size in item["dims"].items()}}
        if isinstance(item.get("class"), int | float):
            item = item | {"class": str(item["class"])}
        return item


def _size(name: str, size: Any) -> Any:
    """A size; `2**20` in place of its digits is text to YAML."""
    if isinstance(size, str):
        size = size if (whole := whole_number(size)) is None else whole
    return checked_size(name, size) if isinstance(size, int) else size


def _override(data: dict[str, Any], dotted: str, value: Any) -> None:
    *sections, key = dotted.split(".")
    for section in sections:
        inner = data.get(section, {})
        if not isinstance(inner, dict):
            return  # what stands there is reported as wrong anyway
        data[section] = data = dict(inner)
    data[key] = value


def _first_causes(details: list[ErrorDetails]) -> list[ErrorDetails]:
    """Without lists that count as empty only because what is in them is wrong."""
    wrong_inside = {detail["loc"][0] for detail in details if len(detail["loc"]) > 1}
    return [
        d
        for d in details
        if d["type"] != "too_short" or len(d["loc"]) > 1 or d["loc"][0] not in wrong_inside
    ]


def _explain(detail: ErrorDetails, document: YamlDocument, overrides: Mapping[str, Any]) -> str:
    location = detail["loc"]
    overridden = [key for key, value in overrides.items() if value is not None]
    if any(location[: len(key.split("."))] == tuple(key.split(".")) for key in overridden):
        place = "override"
    else:
        place = document.where(_as_written(location, document))
    return f"{place}: {_reason(detail, location)}"


def _as_written(location: Location, document: YamlDocument) -> Location:
    """A flat workload has no `dims` on the way to its dimensions."""
    flat = (*location[:2], *location[3:])
    is_flat = location[:1] == ("workloads",) and location[2:3] == ("dims",)
    return flat if is_flat and location[:3] not in document.lines else location


def _reason(detail: ErrorDetails, location: Location) -> str:
    key = _dotted(location)
    message = detail["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    match detail["type"]:
        case "extra_forbidden":
            return f"unknown key {str(location[-1])!r} {_suggestion(location)}"
        case "missing":
            return f"{key} is missing"
        case "value_error":
            return f"{key}: {message}" if key else message
        case "model_type" | "model_attributes_type" | "dict_type":
            example = "{N: 4096, D: 4096}" if location[:1] == ("workloads",) else "`key: value`"
            return f"{key} must be a mapping such as {example}, found {detail['input']!r}"
        case "string_pattern_mismatch":
            return f"{key} {detail['input']!r}: only letters, digits, _ . and - are allowed"
        case "too_short":
            return f"{key} is empty; at least one is needed"
        case _:
            return f"{key} {message.replace('Input', 'it')}, found {detail['input']!r}"


def _dotted(location: Location) -> str:
    parts = [part for part in location if part != "dims"]
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)
    return text.removeprefix(".")


def _suggestion(location: Location) -> str:
    model: type[BaseModel] = TargetFile
    if len(location) > 1:
        model = SECTIONS.get(str(location[0]), Workload)
        if location[:2] == ("command", "profile"):
            model = ProfileCommand
    known = [field.alias or name for name, field in model.model_fields.items()]
    close = difflib.get_close_matches(str(location[-1]), known, n=1)
    return f"(did you mean {close[0]!r}?)" if close else f"(known: {', '.join(known)})"
