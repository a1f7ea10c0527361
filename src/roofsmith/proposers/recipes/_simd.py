"""Marking loops as vectorisable."""

from __future__ import annotations

from tree_sitter import Node

from roofsmith.proposers.accesses import FunctionAccesses
from roofsmith.proposers.dependence import examine
from roofsmith.proposers.edits import SourceEdit
from roofsmith.proposers.source import Loop
from roofsmith.proposers.syntax import indent_of, text_of

SIMD_FLAGS = ("-fopenmp-simd", "-fno-math-errno", "-fno-trapping-math")
"""What gcc needs to vectorise selects and square roots; results stay the same, bit for bit."""


_FOR_LOOPS = ("omp", "GCC", "clang", "acc", "unroll", "ivdep", "simd", "vector")


def directive(loop: Loop) -> Node | None:
    """The `#pragma` for a loop in front of it; others, such as `#pragma scop`, say nothing here."""
    before = loop.node.prev_named_sibling
    words = [] if before is None or before.type != "preproc_call" else text_of(before).split()
    return before if words[:1] == ["#pragma"] and words[1:2] and words[1] in _FOR_LOOPS else None


def has_directive(loop: Loop, word: str) -> bool:
    """Whether the pragma in front of the loop names `word`."""
    found = directive(loop)
    return found is not None and word in text_of(found).split()


def replaced(loop: Loop, block: str) -> SourceEdit:
    """An edit that puts code in the place of a loop and of the pragma in front of it."""
    start = directive(loop) or loop.node
    return SourceEdit(start.start_byte, loop.node.end_byte, block)


def with_directive(loop: Loop, pragma: str, text: str) -> list[SourceEdit]:
    """Edits that put a pragma on a line of its own in front of a loop.

    A loop that isn't a block's own statement, such as one behind `if (n > 0)`, gets a block.
    """
    indent, parent = indent_of(loop.node, text), loop.node.parent
    if parent is None or not parent.type.startswith(("compound", "preproc")):
        opened = SourceEdit.before(loop.node, f"{{\n{indent}{pragma}\n{indent}")
        return [opened, SourceEdit.after(loop.node, " }")]
    line = text.encode()[: loop.node.start_byte].rsplit(b"\n", 1)[-1]
    head = f"\n{indent}" if line.strip() else ""
    return [SourceEdit.before(loop.node, f"{head}{pragma}\n{indent}")]


def mark_simd(accesses: FunctionAccesses, loop: Loop) -> list[SourceEdit]:
    """Edits that put `omp simd` on an innermost loop whose iterations are independent."""
    verdict = examine(accesses, loop)
    if verdict is None or not loop.innermost:
        return []
    before = directive(loop)
    if before is None:
        return with_directive(loop, f"#pragma omp simd{verdict.clauses}", accesses.source.text)
    text = text_of(before)
    if "simd" in text.split() or "omp parallel for" not in text:
        return []
    return [SourceEdit.replace(before, text.replace("parallel for", "parallel for simd", 1))]


def is_own_loop(loop: Loop) -> bool:
    """Whether a card wrote the loop for one vector, or for what is left of a row.

    A second card has nothing to win there.
    """
    bounds = [text_of(bound) for bound in (loop.lower, loop.upper) if bound is not None]
    remainder = any(bound in _OWN_BOUNDS for bound in bounds)
    return remainder or loop.variable in ("rs_at", "rs_u")


_OWN_BOUNDS = ("rs_rest", "rs_main", "rs_count")
