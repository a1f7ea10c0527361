"""Whether a number with the words beside it is what a tool printed. Pure.

Reports show what compilers, drivers and kernels printed; those state it, not the campaign. But the
same number in other words is a claim of whoever wrote them, so words beside it must be the tool's:

- on one side, as many as are read, or up to where the tool's text ends, and one at least; or
- on both sides, up to where the statement ends, as of one line of several that a tool printed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

READ: Final = 16
"""Characters beside a number that are read."""
_WORD: Final = re.compile(r"[^\W\d_]{2}|%")
"""A word of two letters: a sign, a figure or a unit of one letter stands beside any number."""


@dataclass(frozen=True, slots=True)
class _Side:
    """What stands on one side of a number, from the number outwards."""

    said: str
    printed: str

    @property
    def _compared(self) -> int:
        return min(len(self.said), len(self.printed), READ)

    @property
    def alike(self) -> bool:
        """Whether one begins as the other does, as far as it is read, and no word is cut."""
        length = self._compared
        if self.said[:length] != self.printed[:length]:
            return False
        cut = self.said[length - 1 : length + 1], self.printed[length - 1 : length + 1]
        return length == READ or not any(len(ends) == 2 and ends.isalnum() for ends in cut)

    @property
    def is_the_tools(self) -> bool:
        """Whether all that the tool printed there is said, or as much of it as is read."""
        words = self.printed[:READ]
        return self.alike and len(self.said) >= len(words) and bool(_WORD.search(words))

    @property
    def has_words(self) -> bool:
        """Whether both say anything there."""
        return bool(_WORD.search(self.said[: self._compared]))


def is_quoted(text: str, start: int, end: int, quotes: Collection[str]) -> bool:
    """Whether a tool printed what stands at `text[start:end]` in these words.

    Args:
        text: the statement, plain.
        start: of the number with its unit.
        end: after them.
        quotes: what tools printed, plain, each on one line.
    """
    before, after = text[:start][::-1], text[end:]
    for quote, first in _places(text[start:end], quotes):
        left = _Side(before, quote[:first][::-1])
        right = _Side(after, quote[first + end - start :])
        if left.is_the_tools or right.is_the_tools:
            return True
        if left.alike and right.alike and (left.has_words or right.has_words):
            return True
    return False


def _places(number: str, quotes: Collection[str]) -> Iterator[tuple[str, int]]:
    """Every quote that holds the number, and where: not as the end of another, as in `79 GB`."""
    whole = re.compile(rf"(?<![\w.,]){re.escape(number)}(?!\w)")
    for quote in quotes:
        if number in quote:
            yield from ((quote, match.start()) for match in whole.finditer(quote))
