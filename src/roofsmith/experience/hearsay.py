"""What somebody tells of an attempt, in the words of the field's databases, as an experiment."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, cast, get_args

from pydantic import ValidationError

from roofsmith.domain.experiment import SUMMARY_LENGTH, Experiment
from roofsmith.domain.profile import BottleneckKind
from roofsmith.errors import UsageError
from roofsmith.wording import printable

_CALLED: Final = {
    "kernel": "operator_sig", "op": "operator_sig", "operator": "operator_sig",
    "dtype": "dtype_sig", "speedup": "score", "parent": "pid", "parent_id": "pid",
    "timestamp": "time", "created_at": "time", "summary": "change_summary",
    "description": "detailed_description", "profile": "profiling_info", "error": "error_message",
    "metrics_before": "counters_before", "metrics_after": "counters_after", "ci": "interval",
}  # fmt: skip
"""Other names of fields."""
_NAMES: Final = frozenset(("operator_sig", "family", "backend", "device", "arch", "campaign"))
"""Fields that lessons are told with."""
_TAKES: Final = {
    "score": "a number, 0 or more", "interval": "two numbers, such as '[1.1, 1.3]'",
    "bottleneck": "a kind, such as memory", "dims": "sizes, such as N=4096,D=128",
    "bool": "true or false", "int": "a whole number", "float": "a number", "finite": "a number",
    "string_type": "text", "literal": "{expected}",
    "tuple": "a list, such as '[\"a\"]'", "dict": "an object, such as '{{\"dram\": 0.4}}'",
    "model": "an object, as `roofsmith experience show ID --json` prints one",
}  # fmt: skip
"""What a field takes, by its name, pydantic's type of error, or how that begins."""
_LONGEST_SENTENCE: Final = 2000
"""Characters: a campaign's first record holds dozens of them."""
_TEXTS: Final = {"pid", "status"}.union(
    name for name, info in Experiment.model_fields.items() if info.default == ""
)


def told(values: Mapping[str, Any]) -> Experiment:
    """An experiment by its fields, or by the names that other databases have for them.

    `optimization` and `hypothesis` are what was changed and why; `chip` is an architecture or a
    device; what has no field goes to the notes.

    Raises:
        UsageError: a field can't have such a value; the message names it.
    """
    sound = cast("dict[str, Any]", _sound(dict(values)))
    given = {_CALLED.get(name, name): value for name, value in sound.items() if value is not None}
    if isinstance(chip := given.pop("chip", None), str):
        given.setdefault("arch" if chip.startswith(("sm_", "gfx")) else "device", chip)
    _hypothesis(given)
    for name in _NAMES & given.keys():
        given[name] = _sentence(given[name])
    for name in ("hypothesis", "tip"):
        if isinstance(said := given.get(name), Mapping):
            given[name] = {key: _sentence(value) for key, value in said.items()}
    given = written_out(given)
    notes = given.get("notes", ())
    given["notes"] = [*notes] if isinstance(notes, list | tuple) else [str(notes)]
    for name in [*given]:
        if name not in Experiment.model_fields:
            given["notes"].append(f"{name}: {given.pop(name)}")
    return validated(given)


def written_out(values: Mapping[str, Any]) -> dict[str, Any]:
    """The same, with what people write shortly (`memory`, `N=4096`) as a field holds it.

    Raises:
        UsageError: those are no sizes.
    """
    given = dict(values)
    if isinstance(kind := given.get("bottleneck"), str):
        given["bottleneck"] = _bottleneck(kind)
    if isinstance(dims := given.get("dims"), str):
        given["dims"] = {dims: dims_of(dims)}
    elif isinstance(dims, dict) and dims and all(isinstance(one, int) for one in dims.values()):
        given["dims"] = {",".join(f"{name}={size}" for name, size in dims.items()): dims}
    for name in _TEXTS & given.keys():
        if not isinstance(given[name], str | None):
            given[name] = json.dumps(given[name])
    return given


def validated(values: Mapping[str, Any]) -> Experiment:
    """An experiment by its own fields.

    Raises:
        UsageError: a field can't have such a value; the message names it.
    """
    try:
        return Experiment.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the experiment"
        keys = where.partition(".")[0], first["type"], first["type"].partition("_")[0]
        takes = next((_TAKES[key] for key in keys if key in _TAKES), None)
        why = f"{where}: {first['msg'].removeprefix('Value error, ')}"
        if takes is not None:
            wanted = takes.format_map(first.get("ctx", {}))
            why = f"{where} takes {wanted}, not {str(first['input'])[:SUMMARY_LENGTH]!r}"
        is_long = where == "change_summary"
        hint = "--description holds what is longer" if is_long else None
        raise UsageError(why, hint=hint) from error


def shortened(values: Mapping[str, Any]) -> dict[str, Any]:
    """The same, its summary cut to its length; the whole of it is a note."""
    given = {_CALLED.get(name, name): value for name, value in values.items()}
    summary = given.get("change_summary")
    if isinstance(summary, str) and len(summary := printable(summary)) > SUMMARY_LENGTH:
        notes = given.get("notes") or ()
        given["notes"] = [*([notes] if isinstance(notes, str) else notes), summary]
        given["change_summary"] = f"{summary[: SUMMARY_LENGTH - 1]}…"
    return given


def dims_of(text: str) -> dict[str, int]:
    """`N=4096,D=128`.

    Raises:
        UsageError: it isn't of that form.
    """
    try:
        pairs = (one.split("=") for one in text.split(","))
        return {name.strip(): int(size) for name, size in pairs}
    except ValueError as error:
        raise UsageError(f"dims {text!r}: NAME=SIZE,…, such as N=4096,D=128") from error


def _sound(value: Any) -> Any:
    """With texts that can be written and shown."""
    match value:
        case str():
            return printable(value)
        case dict():
            return {printable(str(name)): _sound(inner) for name, inner in value.items()}
        case list() | tuple():
            return [_sound(inner) for inner in value]
        case _:
            return value


def _sentence(value: Any) -> Any:
    return value[:_LONGEST_SENTENCE] if isinstance(value, str) else value


def _hypothesis(given: dict[str, Any]) -> None:
    """Of what was changed, in whichever words; without any there is none."""
    why, what = given.get("hypothesis"), given.pop("optimization", None)
    if isinstance(why, Mapping) or given.get("campaign") or given.get("tip"):
        return
    statement = what or given.get("change_summary") or why
    given["hypothesis"] = None
    if isinstance(statement, str) and statement:
        given["hypothesis"] = {
            "statement": statement,
            "rationale": str(why or ""),
            "tactic": "external",
        }
        given.setdefault(
            "change_summary", shortened({"change_summary": statement})["change_summary"]
        )


def _bottleneck(text: str) -> dict[str, Any]:
    """`memory`, `memory-bound` and `Memory_Bound` are one."""
    kind = text.lower().replace("_", "-").removesuffix("-bound")
    known = kind if kind in get_args(BottleneckKind) else "unknown"
    evidence = () if known == kind else (f"told: {text}",)
    return {"kind": known, "confidence": 1.0, "evidence": evidence, "roofline_fraction": None}
