"""What a card writes, indented as the file is."""

from __future__ import annotations

import difflib
import itertools
import re
from collections import Counter

from tree_sitter import Node

from roofsmith.domain.kernel import Language
from roofsmith.proposers.source import Source
from roofsmith.proposers.syntax import text_of


def tidied(before: str, after: str, language: Language) -> str:
    """The text of a card, whose functions that it changed are indented."""
    if before == after:
        return after
    source, was = Source(after, language), Source(before, language)
    unit = _unit(before)
    lines = after.split("\n")
    new = _new_lines(before, after)
    for function in _changed(before, source):
        own = next((f.node for f in was.functions if f.name == _name(source, function)), None)
        is_regular = own is None or _indented(before.split("\n"), own, unit) == _rows(before, own)
        rows = range(function.start_point.row, function.end_point.row + 1)
        for row, line in zip(rows, _indented(lines, function, unit), strict=True):
            if is_regular or row in new:
                lines[row] = line
    return "\n".join(lines)


def _name(source: Source, node: Node) -> str:
    return next((f.name for f in source.functions if f.node == node), "")


def _rows(text: str, node: Node) -> list[str]:
    return text.split("\n")[node.start_point.row : node.end_point.row + 1]


def _new_lines(before: str, after: str) -> set[int]:
    matcher = difflib.SequenceMatcher(None, before.split("\n"), after.split("\n"), autojunk=False)
    return {
        row for tag, _, _, low, high in matcher.get_opcodes() if tag != "equal"
        for row in range(low, high)
    }  # fmt: skip


def _changed(before: str, source: Source) -> list[Node]:
    """Functions that weren't in the file as they are."""
    return [f.node for f in source.functions if text_of(f.node) not in before]


def _unit(text: str) -> str:
    """What a level of a file is indented by; four blanks where nothing is."""
    margins = [line[: len(line) - len(line.lstrip())] for line in text.split("\n") if line.strip()]
    if sum("\t" in margin for margin in margins) > len(margins) // 4:
        return "\t"
    steps = Counter(
        len(after) - len(before)
        for before, after in itertools.pairwise(margins)
        if 1 < len(after) - len(before) <= 8
    )
    return " " * (steps.most_common(1)[0][0] if steps else 4)


def _indented(lines: list[str], function: Node, unit: str) -> list[str]:
    """The lines of a function, each as deep as it lies; what goes on with a statement moves along
    with its first line."""
    first, last = function.start_point.row, function.end_point.row
    places = _Places(lines)
    places.goes_on(function)
    body = function.child_by_field_name("body")
    if body is not None:
        places.block(body, 0)
    base, found = _margin(lines[first]), dict[int, str]()
    for row in range(first, last + 1):
        line, (depth, head) = lines[row], places.of.get(row, (0, None))
        text = line.lstrip()
        if row == first or not text or re.match(r"#\s*(?!pragma)", text):
            found[row] = line if text else ""
        elif head is None:
            found[row] = base + unit * depth + text
        else:
            more = len(_margin(line)) - len(_margin(lines[head]))
            found[row] = _margin(found[head]) + " " * max(more, 0) + text
    return list(found.values())


def _margin(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


class _Places:
    """By row: how many levels deep it lies, or the row of the statement that it goes on with."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self.of: dict[int, tuple[int, int | None]] = {}

    def goes_on(self, node: Node) -> None:
        """Rows behind a node's first: others override those of what is in it."""
        for row in range(node.start_point.row + 1, node.end_point.row + 1):
            self.of[row] = (0, node.start_point.row)

    def block(self, node: Node, depth: int) -> None:
        """Braces and what is between them."""
        rows = range(node.start_point.row + 1, node.end_point.row)
        self.of |= dict.fromkeys(rows, (depth + 1, None))
        for child in node.children:
            if child.type in ("{", "}"):
                self._begins(child, depth)
            else:
                self._statement(child, depth + 1)

    def _statement(self, node: Node, depth: int) -> None:
        self.goes_on(node)
        self._begins(node, depth)
        if node.type == "compound_statement":
            self.block(node, depth)
        elif node.type == "case_statement":
            for child in node.named_children:
                if child.type.endswith(("statement", "declaration", "comment")):
                    self._statement(child, depth + 1)
        else:
            for name in ("body", "consequence", "alternative"):
                if (part := node.child_by_field_name(name)) is not None:
                    self._part(part, node, depth)

    def _part(self, part: Node, node: Node, depth: int) -> None:
        """The body of a loop or a branch, or what follows an else."""
        if part.type == "else_clause":
            self._begins(part, depth)
            self._part(part.named_children[-1], part, depth)
        elif part.type == "compound_statement":
            self._begins(part, depth)
            self.block(part, depth)
        elif part.type.endswith(("statement", "declaration")):
            is_below = part.start_point.row > node.start_point.row
            self._statement(part, depth + is_below)

    def _begins(self, node: Node, depth: int) -> None:
        """What is first in its line lies so deep."""
        row, column = node.start_point
        line = self._lines[row].encode()
        if not line[:column].strip():
            self.of[row] = (depth, None)
