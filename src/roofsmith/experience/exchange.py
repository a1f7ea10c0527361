"""Experiments in files of this program and of others: JSONL, JSON, pages of tips."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from roofsmith.domain.experiment import Experiment
from roofsmith.domain.values import content_id
from roofsmith.errors import UsageError
from roofsmith.experience.hearsay import shortened, told
from roofsmith.experience.tip_pages import told_in


class Parsed(NamedTuple):
    experiments: tuple[Experiment, ...]
    complaints: tuple[str, ...]
    """Of what was passed over, each with its place."""


def parsed(path: Path, text: str) -> Parsed:
    """The experiments of a file: a page of tips, or records as JSON or a line each.

    JSON may be a list, an object with one in it, or an object of records by id.
    """
    if path.suffix == ".md":
        return Parsed(tuple(told_in(path, text)), ())
    found, complaints = list[Experiment](), list[str]()
    for place, record in _records(text):
        try:
            if not isinstance(record, dict):
                raise UsageError("it is no object")
            one = told(shortened(record))
            if not _tells(one):
                raise UsageError("it says of nothing that was tried")
            found.append(one if one.id else one.model_copy(update={"id": _digest(record)}))
        except UsageError as error:
            complaints.append(f"{path.name}, {place}: {error.message}")
    return Parsed(tuple(found), tuple(complaints))


def _tells(one: Experiment) -> bool:
    """Of an attempt: any JSON would be an experiment whose notes hold all of it."""
    said = one.hypothesis, one.change_summary, one.tip, one.score, one.is_buggy, one.campaign
    return any(said) or one.status != "reported"


def _digest(record: dict[str, Any]) -> str:
    return content_id(json.dumps(record, sort_keys=True))[:12]


def are_lines(data: bytes) -> bool:
    """Whether all of a file is what `lines_of` gives of stored experiments."""
    try:
        return all(Experiment.model_validate_json(line).id for line in data.splitlines())
    except ValidationError:
        return False


def lines_of(rows: Iterable[Experiment]) -> Iterator[str]:
    """As JSONL."""
    return (f"{one.model_dump_json(exclude_unset=True)}\n" for one in rows)


def _records(text: str) -> Iterator[tuple[str, Any]]:
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        yield from _lines(text)
        return
    listed = whole
    if isinstance(whole, dict):
        inner = next((value for value in whole.values() if isinstance(value, list)), None)
        if all(isinstance(value, dict) for value in whole.values()):
            listed = [{"id": key, **value} for key, value in whole.items()]
        elif inner is not None and all(isinstance(value, dict) for value in inner):
            listed = inner
        else:
            listed = [whole]
    if not isinstance(listed, list):
        listed = [listed]
    yield from ((f"record {n}", record) for n, record in enumerate(listed, start=1))


def _lines(text: str) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                yield f"line {number}", json.loads(line)
            except (ValueError, RecursionError):
                yield f"line {number}", None
