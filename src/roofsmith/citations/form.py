"""How a citation is written: `<metric>: <value> <unit> <- <path>:<line>`, as facts print it.

A file of measurements has the command and the date behind it, `PATH:LINE (COMMAND, DATE)`; what a
driver told has no line. In running text the metric may be missing, and so may the value: then
nothing but the place is checked.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from roofsmith.analysis.quantities import NUMBER, Quantity, quantity
from roofsmith.domain.facts import GPU_WIKI

ARROW: Final = " <- "
"""Between a number and where it is written."""
FORM: Final = "<metric>: <value> <unit> <- <path>:<line>"
_WHOLE: Final = re.compile(
    rf"(?P<metric>.+): (?P<number>-?{NUMBER}) (?P<unit>\S.*?) <- (?P<place>\S.*)"
)
_BEFORE: Final = re.compile(
    rf"(?:(?P<metric>.*):\s+)?(?<![\w.])(?P<number>-?{NUMBER})\s*(?P<unit>[^\W\d]\S*)\Z"
)
_PLACE: Final = re.compile(rf"(?:{GPU_WIKI}/)?" r"[^\s;|<>\"(][^;|<>\"(]*?:L?\d+(?!\d)")
_MADE: Final = re.compile(r"(?P<place>.+?) \([^()]*\)")
_TAG: Final = re.compile(rf"(?!{GPU_WIKI})<(?=[/!a-zA-Z])[^<>]*>")
_ESCAPED: Final = re.compile(r"\\([^\w\s])")
_PATHLIKE: Final = re.compile(r"[/.]")
_LONGEST: Final = 500
"""Characters on either side of an arrow that are read: the patterns go back and forth on them."""
QUOTED: Final = 120
"""Characters of a text that a message quotes."""


@dataclass(frozen=True, slots=True)
class Cited:
    metric: str | None
    """None: the text doesn't name it in the form."""
    quantity: Quantity | None
    """None: there is no number in front of the arrow."""
    place: str
    """All that stands behind the arrow, up to the end of the text or to the next arrow."""

    @property
    def key(self) -> tuple[str, str]:
        """What is said and where it is said to be written, whatever stands around it."""
        where = self.line or without_made(self.place)[:QUOTED]
        return (where if self.quantity is None else self.quantity.text), where

    @property
    def line(self) -> str | None:
        """The `path:line` that the place begins with; None if it has none."""
        match = _PLACE.match(self.place)
        if match is None or not _PATHLIKE.search(match.group()):
            return None
        path, _, line = match.group().rpartition(":")
        return f"{path}:{line.removeprefix('L')}"


def parse(text: str) -> Cited | None:
    """A text that is one citation and nothing else; None if it isn't in the form."""
    match = _WHOLE.fullmatch(text.strip()) if len(text) <= 2 * _LONGEST else None
    if match is None:
        return None
    return Cited(match["metric"], quantity(match["number"], match["unit"]), match["place"])


def without_made(place: str) -> str:
    """A place without the command and the date that repeat a measurement."""
    match = _MADE.fullmatch(place)
    return match["place"] if match else place


def citations_in(line: str) -> Iterator[Cited]:
    """Every citation in one line of Markdown, HTML, JSON or plain text.

    An arrow belongs to a citation if a `path:line` stands behind it, or `: <value> <unit>` in front
    of it. Other arrows are none.
    """
    if "<-" not in line and "&lt;-" not in line:
        return
    for before, after in pairwise(f"{plain(line)} ".split(ARROW)):
        match = _BEFORE.search(before[-_LONGEST:].rstrip())
        number = quantity(match["number"], match["unit"]) if match else None
        found = Cited(match["metric"] if match else None, number, after[:_LONGEST].strip())
        if found.metric is not None or found.line is not None:
            yield found


def plain(line: str) -> str:
    """A line without tags, entities and backslashes before punctuation; a tag ends a cell."""
    text = html.unescape(_TAG.sub(" | ", line))
    return " ".join(_ESCAPED.sub(r"\1", text).replace("**", "").replace("`", "").split())
