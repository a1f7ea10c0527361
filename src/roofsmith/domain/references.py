"""What was found in reference projects: other people's kernels, as data."""

from __future__ import annotations

from roofsmith.domain.values import Value


class ReferenceHit(Value):
    """A kernel, or a line, in a reference project."""

    where: str
    """`FOLDER/PATH:LINE`, absolute."""
    symbol: str
    """The kernel's name; empty: a line that has the words."""
    language: str
    text: str
    """The line."""
    words: tuple[str, ...]
    """Of the query, that were found in its name, its path or its file."""


class ReferenceSearch(Value):
    """A search that a campaign began with."""

    query: str
    folders: tuple[str, ...]
    files: int
    """That were read."""
    hits: tuple[ReferenceHit, ...] = ()
    """The most telling first."""
    left_out: tuple[str, ...] = ()
    """Why files or folders weren't read, such as `3 files larger than 524288 byte`."""
