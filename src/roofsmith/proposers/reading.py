"""What is read off one kernel file: once, for every card and every time the file is looked at."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, lru_cache

from tree_sitter import Node

from roofsmith.domain.kernel import Language
from roofsmith.proposers.accesses import FunctionAccesses
from roofsmith.proposers.edits import SourceEdit
from roofsmith.proposers.induction import without_moving
from roofsmith.proposers.source import CFunction, Source
from roofsmith.proposers.syntax import walk

INSERTED_PREFIX = "roofsmith_"
"""Begins the name of every function and type that a card adds to a kernel."""


class SourceReading:
    """One kernel file, parsed, its moving pointers written as indices; whatever else is asked of it
    is worked out once and kept."""

    def __init__(self, text: str, language: Language, entry: str) -> None:
        self.source = without_moving(_with_blocks(Source(text, language)))
        self._entry = entry
        self._accesses: dict[int, FunctionAccesses] = {}

    @cached_property
    def functions(self) -> tuple[CFunction, ...]:
        """The entry and what it calls in the same file, less what cards inserted; entry first."""
        reached = self.source.reachable(self._entry)
        return tuple(f for f in reached if not f.name.startswith(INSERTED_PREFIX))

    def accesses(self, function: CFunction) -> FunctionAccesses:
        place = function.node.start_byte
        found = self._accesses.get(place)
        if found is None:
            found = self._accesses[place] = FunctionAccesses(self.source, function)
        return found


def _with_blocks(source: Source) -> Source:
    """The source with a block around each pragma, and its statement, that stand where a loop or a
    condition has its body: the grammar knows no pragmas there, and would read an empty body."""
    for _ in walk(source.root, "preproc_call"):
        edits = next(_blocks(source), None)
        if edits is None:
            break
        source = source.edited(edits)
    return source


def _blocks(source: Source) -> Iterator[list[SourceEdit]]:
    for pragma in reversed(list(walk(source.root, "preproc_call"))):
        before, after = pragma.prev_named_sibling, pragma.next_named_sibling
        while after is not None and after.type == "preproc_call":
            after = after.next_named_sibling
        if before is None or after is None or _ends_in_nothing(after):
            continue
        if _ends_in_nothing(before):
            yield [SourceEdit.after(before, " {"), SourceEdit.after(after, " }")]


def _ends_in_nothing(node: Node) -> bool:
    while node.children:
        node = node.children[-1]
    return node.is_missing


@lru_cache(maxsize=4)
def read_kernel(text: str, language: Language, entry: str) -> SourceReading:
    """The reading of a file. It is the same object for the same text, for the last few texts."""
    return SourceReading(text, language, entry)
