"""Workloads as people write them: `N=4096,D=4096`."""

from __future__ import annotations

import re
from decimal import Decimal

from pydantic import ValidationError

from roofsmith.domain.workload import Workload
from roofsmith.errors import TargetError

MAX_DIMENSION = 2**63 - 1
"""Sizes are passed to `solve` as integers of at most 64 bits."""
_SIZE = re.compile(
    r"(?P<integer>[+-]?[0-9]{1,40})(?:(?P<prefix>[KMG])i?|(?:\*\*|\^)(?P<power>[0-9]{1,2}))?"
    r"|(?P<decimal>[0-9]{1,20}(?:\.[0-9]{1,20})?[eE]\+?[0-9]{1,2})",
    re.ASCII | re.IGNORECASE,
)
_PREFIXES = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}
_NO_SIZE = (
    "; a number that is no size is given by the reference's setup(), which `roofsmith init` writes"
)
_HINT = "write a workload as N=4096,D=4096 (or 4K, 2**12, 4e3), optionally with ,class=large"


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
        size = whole_number(value)
        if size is None:
            raise _wrong(text, f"{name}={value} is not a whole number", _NO_SIZE)
        dims[name] = checked_size(name, size)
    try:
        return Workload(dims=dims, config_class=config_class)
    except ValidationError as error:
        raise _wrong(text, error.errors()[0]["msg"].removeprefix("Value error, ")) from error


def whole_number(text: str) -> int | None:
    """A size as people write it: `4096`, `64K` (65,536), `2**20`, `1e6`; None if it is none."""
    found = _SIZE.fullmatch(text)
    if found is None:
        return None
    if found["decimal"]:
        number = Decimal(found["decimal"])
        return int(number) if number == int(number) else None
    base, power = int(found["integer"]), int(found["power"] or 1)
    return int(base**power) * _PREFIXES[(found["prefix"] or "").lower()]


def checked_size(name: str, size: int) -> int:
    """The size of a dimension, if a 64-bit integer can hold it.

    Raises:
        TargetError: it can't.
    """
    if size > MAX_DIMENSION:
        raise TargetError(f"dimension {name}={size} doesn't fit in a 64-bit integer", hint=_HINT)
    return size


def _wrong(text: str, why: str, more: str = "") -> TargetError:
    return TargetError(f"workload {text!r}: {why}", hint=f"{_HINT}{more}")
