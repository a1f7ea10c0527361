"""Words for messages, that all rooms share."""

from __future__ import annotations

from collections.abc import Sequence


def plural(count: int, noun: str) -> str:
    """`1 round`, `3 rounds`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def some_of(names: Sequence[str], most: int = 5, *, between: str = ", ") -> str:
    """The first few of some names, and how many more there are: `a, b and 3 more`."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return between.join(names[:most]) + more


def printable(text: str) -> str:
    """A text to show and to store: what steers a terminal or has no encoding is spelled out.

    Compilers, loaders and kernels say what their authors want, and it ends up in front of people.
    """
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() or one in "\n\t" else one.encode("unicode_escape").decode()
        for one in text
    )
