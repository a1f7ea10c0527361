"""Loops in which the threads of a block or a grid take elements in turn."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from tree_sitter import Node

from roofsmith.proposers.recipes.cuda._kernels import CudaFile
from roofsmith.proposers.source import CFunction
from roofsmith.proposers.syntax import identifiers, text_of, walk


@dataclass(frozen=True)
class StridedLoop:
    """`for (int j = start; j < end; j += step)`."""

    node: Node
    body: Node
    variable: str
    kind: str
    start: str
    end: str
    step: str
    step_size: int | None
    """Of `step`, with the size of the block put in; None if it can't be told."""

    @property
    def is_plain(self) -> bool:
        """No jump leaves the body or an iteration of it early."""
        return not any(
            walk(
                self.body,
                "break_statement",
                "return_statement",
                "goto_statement",
                "continue_statement",
            )
        )

    @cached_property
    def elements(self) -> tuple[str, ...]:
        """Elements `A[...j...]` that the body touches, each once: blanks left out, `j` as `@`."""
        found = (self._written(node) for node in walk(self.body, "subscript_expression"))
        return tuple(dict.fromkeys(text for text in found if "@" in text))

    def nodes(self, element: str) -> list[Node]:
        """Where the body touches an element."""
        return [n for n in walk(self.body, "subscript_expression") if self._written(n) == element]

    def _written(self, node: Node) -> str:
        text = re.sub(r"\s+", "", text_of(node))
        return re.sub(rf"\b{re.escape(self.variable)}\b", "@", text)


def strided_loops(file: CudaFile, kernel: CFunction) -> Iterator[StridedLoop]:
    """Those of a kernel whose bounds and step stay as they are."""
    threads = file.threads(kernel)
    for loop in kernel.loops:
        if not loop.canonical or loop.inclusive or loop.declared_type is None or not loop.innermost:
            continue
        assert loop.lower is not None and loop.upper is not None
        assert loop.variable is not None and loop.step is not None
        names = identifiers(loop.lower) | identifiers(loop.upper)
        names |= set(re.findall(r"[A-Za-z_]\w*", loop.step))
        if loop.step == "1" or names & kernel.mutated:
            continue
        step = re.sub(r"\bblockDim\.x\b", str(threads), loop.step)
        yield StridedLoop(
            loop.node, loop.body, loop.variable, loop.declared_type, text_of(loop.lower),
            loop.upper_text, loop.step, file.number(step) if threads else None,
        )  # fmt: skip
