"""Workloads as people write them: `N=4096,D=4096`."""

from __future__ import annotations

import re

from pydantic import ValidationError

from roofsmith.domain.workload import Workload
from roofsmith.errors import TargetError

MAX_DIMENSION = 2**63 - 1
"""Sizes are passed to `solve` as integers of at most 64 bits."""
_INTEGER = re.compile(r"[+-]?[0-9]{1,40}", re.ASCII)
_HINT = "write a workload as N=4096,D=4096, optionally with ,class=large"


def parse_workload(text: str) -> Workload:
    """Read `N=4096,D=4096`, with `class=<name>` among the pairs if the class is declared.

    Sizes that no machine can hold are accepted here: whether they fit is the judge's to say.

    Raises:
        TargetError: says which part is wrong.
    """
    dims: dict[str, int] = {}
    config_class: str | None = None
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not (name and equals and value):
            raise _wrong(text, f"{part.strip()!r} is not name=size")
        if name in dims or (name == "class" and config_class is not None):
            raise _wrong(text, f"{name} is given twice")
        if name == "class":
            config_class = value
            continue
        if not _INTEGER.fullmatch(value):
            raise _wrong(text, f"{name}={value} is not a whole number")
        dims[name] = checked_size(name, int(value))
    try:
        return Workload(dims=dims, config_class=config_class)
    except ValidationError as error:
        raise _wrong(text, error.errors()[0]["msg"].removeprefix("Value error, ")) from error


def checked_size(name: str, size: int) -> int:
    """The size of a dimension, if a 64-bit integer can hold it.

    Raises:
        TargetError: it can't.
    """
    if size > MAX_DIMENSION:
        raise TargetError(f"dimension {name}={size} doesn't fit in a 64-bit integer", hint=_HINT)
    return size


def _wrong(text: str, why: str) -> TargetError:
    return TargetError(f"workload {text!r}: {why}", hint=_HINT)
