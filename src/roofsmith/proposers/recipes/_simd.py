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


def directive(loop: Loop) -> Node | None:
    """The `#pragma` in front of a loop."""
    before = loop.node.prev_named_sibling
    if before is None or before.type != "preproc_call" or "pragma" not in text_of(before):
        return None
    return before


def has_directive(loop: Loop, word: str) -> bool:
    """Whether the pragma in front of the loop names `word`."""
    found = directive(loop)
    return found is not None and word in text_of(found).split()


def replaced(loop: Loop, block: str) -> SourceEdit:
    """An edit that puts code in the place of a loop and of the pragma in front of it."""
    start = directive(loop) or loop.node
    return SourceEdit(start.start_byte, loop.node.end_byte, block)


def mark_simd(accesses: FunctionAccesses, loop: Loop) -> SourceEdit | None:
    """An edit that puts `omp simd` on an innermost loop whose iterations are independent."""
    verdict = examine(accesses, loop)
    if verdict is None or not loop.innermost:
        return None
    before = directive(loop)
    if before is None:
        indent = indent_of(loop.node, accesses.source.text)
        return SourceEdit.before(loop.node, f"#pragma omp simd{verdict.clauses}\n{indent}")
    text = text_of(before)
    if "simd" in text.split():
        return None
    if "omp parallel for" in text:
        return SourceEdit.replace(before, text.replace("parallel for", "parallel for simd", 1))
    return None


def is_own_loop(loop: Loop) -> bool:
    """Whether a card wrote the loop for one vector, or for what is left of a row.

    A second card has nothing to win there.
    """
    bounds = [text_of(bound) for bound in (loop.lower, loop.upper) if bound is not None]
    remainder = any(bound in _OWN_BOUNDS for bound in bounds)
    return remainder or loop.variable in ("rs_at", "rs_u")


_OWN_BOUNDS = ("rs_rest", "rs_main", "rs_head", "rs_count")
