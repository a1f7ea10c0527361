"""Memory notes on disk: read, checked, never written but by rendering."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from roofsmith.domain.memory import Memory, flag_by_hand
from roofsmith.errors import StorageError, UsageError
from roofsmith.store.files import storage_errors
from roofsmith.store.masks import NOTE

SCHEMA = Path(__file__).with_name("memory.schema.json")
"""The JSON Schema of a note, for readers that aren't this program; `make docs` writes it."""


def schema() -> dict[str, Any]:
    """What `SCHEMA` holds."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return head | Memory.model_json_schema()


def check_note(relative: str, data: bytes) -> None:
    """Refuse to write a note that isn't one; other files pass.

    Raises:
        StorageError: it doesn't follow the schema, or is another round's.
    """
    match = NOTE.fullmatch(relative)
    if match is None:
        return
    try:
        _parse(data, f"v{match[1]}")
    except ValueError as error:
        raise StorageError(f"{relative} would be no memory note: {error}") from error


def read_note(directory: Path, version: str) -> Memory:
    """One note, with the flag that its reader set.

    Args:
        directory: the campaign's.
        version: such as `v3`.

    Raises:
        UsageError: there is no such note, or it isn't one any more.
        StorageError: it can't be read.
    """
    path = directory / "memory" / f"{version}.json"
    with storage_errors("read", path):
        try:
            data = path.read_bytes()
        except FileNotFoundError as error:
            known = ", ".join(f"v{number}" for number in _versions(directory)) or "none yet"
            raise UsageError(
                f"{directory} has no memory note {version}", hint=f"there are: {known}"
            ) from error
    try:
        return _parse(data, version)
    except ValueError as error:
        command = f"roofsmith report {shlex.quote(str(directory))}"
        raise UsageError(
            f"{path} isn't a memory note: {error}",
            hint=f"`{command}` writes it again; of a note, only `masked` is yours to change",
        ) from error


def read_notes(directory: Path) -> tuple[Memory, ...]:
    """Every note of a campaign, in order; raises what `read_note` does."""
    return tuple(read_note(directory, f"v{number}") for number in _versions(directory))


def flags_by_hand(directory: Path) -> dict[int, bool]:
    """Flags that readers set or took away since the notes were rendered, by round.

    Raises:
        StorageError: a note can't be read.
    """
    found: dict[int, bool] = {}
    for number in _versions(directory):
        path = directory / "memory" / f"v{number}.json"
        with storage_errors("read", path):
            flag = flag_by_hand(path.read_bytes())
        if flag is not None:
            found[number + 1] = flag
    return found


def _versions(directory: Path) -> list[int]:
    names = (f"memory/{path.name}" for path in (directory / "memory").glob("v*.json"))
    return sorted(int(match[1]) for name in names if (match := NOTE.fullmatch(name)))


def _parse(data: bytes, version: str) -> Memory:
    """The note in a file's bytes; ValueError with the first complaint if it holds none."""
    try:
        # Strict, so that "yes" is no flag; and not read as JSON, which knows no lone surrogates.
        found = Memory.model_validate(_with_tuples(json.loads(data)), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"{where}: {first['msg']}") from error
    if found.version != version:
        raise ValueError(f"version: it is {found.version}'s")
    return found


def _with_tuples(value: Any) -> Any:
    match value:
        case dict():
            return {key: _with_tuples(inner) for key, inner in value.items()}
        case list():
            return tuple(map(_with_tuples, value))
        case _:
            return value
