"""Edits of a text by bytes, in the positions that tree-sitter gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tree_sitter import Node

Span = tuple[int, int]
"""Byte range: start and end."""


@dataclass(frozen=True, slots=True)
class SourceEdit:
    """Replace bytes `start` to `end` by `text`; an insertion where both are equal."""

    start: int
    end: int
    text: str

    @classmethod
    def before(cls, node: Node, text: str) -> SourceEdit:
        return cls(node.start_byte, node.start_byte, text)

    @classmethod
    def after(cls, node: Node, text: str) -> SourceEdit:
        return cls(node.end_byte, node.end_byte, text)

    @classmethod
    def replace(cls, node: Node, text: str) -> SourceEdit:
        return cls(node.start_byte, node.end_byte, text)


def apply_edits(text: str, edits: Sequence[SourceEdit]) -> str:
    """The text after all edits; insertions at one place keep the order given.

    Raises:
        ValueError: two edits overlap.
    """
    data = text.encode()
    pieces: list[bytes] = []
    position = 0
    for edit in sorted(edits, key=lambda e: (e.start, e.end)):
        if edit.start < position:
            raise ValueError(f"edits overlap at byte {edit.start}")
        pieces += [data[position : edit.start], edit.text.encode()]
        position = edit.end
    return b"".join([*pieces, data[position:]]).decode()
