r"""A pattern for lines that are no table but hold a time or a rate each, ready to paste. Pure.

    random n=65536: 1.234 GB/s
    skewed n=65536: 0.734 GB/s

Lines that differ in words and numbers alone are rows: `(?P<name>\S+) n=65536: (?P<rate>...)`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from roofsmith.repository.cells import NUMBER, UNIT
from roofsmith.repository.column_names import bracketed, is_count, meaning_of, rivalry
from roofsmith.repository.dialects import matched, plain_lines

_NUMBER: Final = rf"(?<![\w.])(?:\d{{1,3}}(?:,\d{{3}})+(?:\.\d+)?|{NUMBER})"
_TOKEN: Final = re.compile(
    rf"(?P<quantity>{_NUMBER}\s?(?P<unit>{UNIT})(?![\w/]))|(?P<number>{_NUMBER}(?!\w))"
    r"|(?P<word>\w(?:[\w./\[\]-]*[\w\]])?)|(?P<mark>\S)"
)
_ANY: Final = {
    "number": r"[\d.,]+",
    "word": r"\S+",
    "quantity": r"[\d.,]+(?:e[-+]?\d+)?\s?[^\s\]),;\d]+",
}
_MAX_LINE: Final = 300
_MAX_LINES: Final = 20_000
_SHOWN: Final = 5
"""Lines that are quoted."""
_CHARS: Final = 120
"""Of a line that is quoted."""

Token = re.Match[str]


def nearest_lines(text: str) -> tuple[list[str], str | None]:
    """The lines that most look like rows, first, and a pattern to read them; None: nobody knows.

    Where no line has a time or a rate, what was printed last is most likely the result.
    """
    lines = [line for line in plain_lines(text)[:_MAX_LINES] if line.strip()]
    alike = defaultdict[tuple[str, ...], list[list[Token]]](list)
    for line in lines:
        tokens = [*_TOKEN.finditer(line)] if len(line) <= _MAX_LINE else []
        if any(map(_kind_of_unit, tokens)):
            alike[tuple(_kind(token) for token in tokens)].append(tokens)
    for rows in sorted(alike.values(), key=len, reverse=True):
        pattern = _pattern(rows)
        if pattern is not None and matched(pattern, text):
            return _quoted([row[0].string for row in rows], lines), pattern
    return _quoted([line for line in reversed(lines) if re.search(r"\d", line)], lines), None


def _quoted(nearest: Sequence[str], lines: Sequence[str]) -> list[str]:
    return [line.strip()[:_CHARS] for line in dict.fromkeys((*nearest, *lines))][:_SHOWN]


def _pattern(rows: Sequence[Sequence[Token]]) -> str | None:
    """One for lines of the same kinds of tokens, up to what was measured."""
    at = _measured(rows)
    if at is None:
        return None
    taken = {"time", "rate"}
    named = dict(_keys(rows, at, taken))
    if len(rows) > 1 and not _are_apart(rows, [*named]):
        return None  # nobody could say which row is which
    parts = list[str]()
    for place, token in enumerate(rows[0][: at + 1]):
        gap = token.string[rows[0][place - 1].end() : token.start()] if place else ""
        parts.append(r"\s+" if gap else "")
        kind = token.lastgroup if token.lastgroup != "unit" else "quantity"
        anything = _ANY.get(kind or "", "")
        if place == at:
            parts.append(f"(?P<{_kind_of_unit(token)}>{_ANY['quantity']})")
        elif place in named:
            parts.append(f"(?P<{named[place]}>{anything})")
        elif kind == "number" or len({row[place][0] for row in rows}) > 1:
            parts.append(anything)
        else:
            parts.append(re.escape(token[0]).replace(r"\ ", " "))
    return "".join(parts)


def _measured(rows: Sequence[Sequence[Token]]) -> int | None:
    """The first time or rate that isn't a rival's; of three in a row, as criterion has them, the
    middle one."""
    kinds = [_kind_of_unit(token) for token in rows[0]]
    found = [at for at, kind in enumerate(kinds) if kind]
    if not found:
        return None
    first = min(found, key=lambda at: rivalry(_label(rows, at) or "", ()))
    return first + 1 if kinds[first : first + 3] == [kinds[first]] * 3 else first


def _keys(rows: Sequence[Sequence[Token]], end: int, taken: set[str]) -> Iterator[tuple[int, str]]:
    """Places of tokens that tell rows apart, and what to call them: words, then numbers."""
    varying = [at for at in range(end) if len({row[at][0] for row in rows}) > 1]
    words = [at for at in varying if rows[0][at].lastgroup == "word"]
    told = [at for at in varying if at in words or _label(rows, at)]
    for at in varying:
        label = _label(rows, at)
        kind = rows[0][at].lastgroup
        if kind not in _ANY or kind == "quantity" or (label and is_count(label)):
            continue
        if kind == "number" and label is None and _are_apart(rows, told):
            continue  # as often a count of repetitions as a size
        name = stem = label or "name"
        while name in taken:
            name = f"{stem}{len(taken)}"
        taken.add(name)
        told.append(at)
        yield at, name


def _are_apart(rows: Sequence[Sequence[Token]], places: Sequence[int]) -> bool:
    return len({tuple(row[at][0] for at in places) for row in rows}) == len(rows)


def _label(rows: Sequence[Sequence[Token]], at: int) -> str | None:
    """`n` of `n=64`, `n: 64` and `n 64`, where all rows say it."""
    place = at - 2 if at > 1 and rows[0][at - 1][0] in "=:" else at - 1
    labels = {row[place][0].rpartition("/")[2] for row in rows} if place >= 0 else set[str]()
    label = labels.pop() if len(labels) == 1 else ""
    return label if label.isidentifier() else None


def _kind(token: Token) -> str:
    """Of a token, by which lines are alike; a mark is its own."""
    group = token.lastgroup or ""
    return _kind_of_unit(token) or (token[0] if group == "mark" else group)


def _kind_of_unit(token: Token) -> str:
    """`time` or `rate`; empty where nothing of the kind was measured."""
    meaning = meaning_of(bracketed(f"x ({token['unit']})")) if token["unit"] else None
    if meaning is None:
        return ""
    return "time" if meaning.direction == "lower" else "rate"
