"""Reads what an agent says that it used, line by line of its output. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal

from pydantic import Field

from roofsmith.domain.values import Value

_Read = Callable[[str], Iterable[float]]
"""Numbers of a line at a path, or at a pattern."""
_MOST_TOKENS = 10**12
_THOUSANDS = {"k": 1e3, "m": 1e6}


class UsageRule(Value):
    """Where an agent's output says what it used."""

    where: dict[str, str] = Field(default_factory=dict)
    """Fields of a line's JSON object that mark it; empty: lines are plain text."""
    tokens: tuple[str, ...] = ()
    """Paths into the object, `*` for any key, or regular expressions for text; added up."""
    cost_usd: str | None = None
    """The same for money."""
    combine: Literal["last", "sum"] = "last"
    """Whether a later line replaces an earlier one, or adds to it."""


class UsageMeter:
    """Hears the lines of an output."""

    def __init__(self, rule: UsageRule | None) -> None:
        self._rule = rule
        self._tokens, self._cost = 0.0, 0.0

    @property
    def tokens(self) -> int:
        """As far as was said; 0 where nothing was."""
        return int(min(self._tokens, _MOST_TOKENS))

    @property
    def cost_usd(self) -> float:
        """As far as was said."""
        return self._cost

    def hear(self, line: str) -> None:
        """Take in one line; what isn't understood says nothing."""
        rule = self._rule
        if rule is None:
            return
        read = _json_reader(line, rule) if rule.where else _text_reader(line)
        if read is None:
            return
        tokens = [number for path in rule.tokens for number in read(path)]
        costs = list(read(rule.cost_usd)) if rule.cost_usd else []
        if tokens:
            self._tokens = sum(tokens) + (self._tokens if rule.combine == "sum" else 0)
        if costs:
            self._cost = sum(costs) + (self._cost if rule.combine == "sum" else 0)


def _json_reader(line: str, rule: UsageRule) -> _Read | None:
    if not line.startswith("{"):
        return None
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if any(found.get(name) != value for name, value in rule.where.items()):
        return None
    return lambda path: _numbers(found, path.split("."))


def _text_reader(line: str) -> _Read:
    return lambda pattern: map(_number, re.findall(pattern, line))


def _numbers(found: object, path: Sequence[str]) -> Iterator[float]:
    if not path:
        if isinstance(found, int | float) and 0 <= found < _MOST_TOKENS:
            yield float(found)
        return
    if isinstance(found, Mapping):
        inside = found.values() if path[0] == "*" else [found.get(path[0])]
        for value in inside:
            yield from _numbers(value, path[1:])


def _number(text: str) -> float:
    """`12k`, `1.5M` or `1,234`."""
    text = text.replace(",", "").lower()
    factor = _THOUSANDS.get(text[-1:], 1.0)
    try:
        return float(text.rstrip("km")) * factor
    except ValueError:
        return 0.0
