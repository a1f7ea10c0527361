"""One more column for shared tiles that a warp walks down."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from tree_sitter import Node

from roofsmith.proposers.cards import Card, CardChange, CardContext
from roofsmith.proposers.costs import amdahl
from roofsmith.proposers.edits import SourceEdit
from roofsmith.proposers.recipes.cuda._kernels import CudaFile, cuda_file
from roofsmith.proposers.source import CFunction
from roofsmith.proposers.syntax import identifiers, is_row, subscripts, text_of, walk

BANKS = 32
"""Of four bytes each: rows of half as many elements still meet every second row in one bank."""


def apply(context: CardContext) -> CardChange | None:
    """Make the rows of such tiles an element longer."""
    file = cuda_file(context)
    found = [tile for function in file.reached for tile in _tiles(file, function)]
    if not found:
        return None
    names = ", ".join(f"`{name}`" for name, _ in found)
    edits = [SourceEdit.after(size, " + 1") for _, size in found]
    return file.edited(context, edits, f"Make the rows of {names} an element longer")


def _tiles(file: CudaFile, function: CFunction) -> Iterator[tuple[str, Node]]:
    """Each tile, and the size of its rows."""
    for name, sizes in function.shapes.items():
        kind = function.kinds.get(name, "")
        width = file.number(text_of(sizes[-1]))
        is_small = re.search(r"\b(float|int|unsigned)\b", kind) is not None
        if len(sizes) != 1 or not file.is_shared(function, name) or not is_small:
            continue
        if width and width % (BANKS // 2) == 0 and _is_walked_down(function, name):
            yield name, sizes[-1]


def _is_walked_down(function: CFunction, name: str) -> bool:
    """Whether neighbouring threads read or write one column, and nothing sees the tile flat."""
    neighbours = _across(function)
    mentions = sum(text_of(node) == name for node in walk(function.body, "identifier"))
    pairs = [
        indices
        for node in walk(function.body, "subscript_expression")
        if not is_row(node)
        for indices, array in [subscripts(node)]
        if text_of(array) == name and len(indices) == 2
    ]
    walked = (neighbours(row) and not neighbours(column) for row, column in pairs)
    seen_flat = re.search(rf"&\s*{name}\s*\[", text_of(function.body)) is not None
    return mentions == len(pairs) + 1 and any(walked) and not seen_flat


def _across(function: CFunction) -> Callable[[Node], bool]:
    """Tells whether an index differs between neighbouring threads of a warp."""
    names = {
        text_of(node.child_by_field_name("declarator") or node)
        for node in walk(function.body, "init_declarator")
        if text_of(node.child_by_field_name("value") or node).strip("() ") == "threadIdx.x"
    }
    return lambda node: "threadIdx.x" in text_of(node) or bool(identifiers(node) & names)


def predict(context: CardContext) -> float:
    """A third of the time goes to shared memory, which becomes several times as fast."""
    return amdahl(context, 0.3, 4.0)


CARD = Card(
    id="bank-padding",
    title="Shared tiles with an odd row",
    category="layout",
    answers=frozenset(("memory", "latency", "unknown")),
    rationale="The elements of a column lie in one bank of shared memory, which serves one of them "
    "at a time; with rows an element longer they lie in different ones.",
    expected_counter="excess_shared_wavefronts",
    expected_change="down to none",
    source="NVIDIA, CUDA C++ Best Practices Guide, Shared Memory and Memory Banks; Ruetsch & "
    "Micikevicius, Optimizing Matrix Transpose in CUDA, NVIDIA 2009",
    apply=apply,
    predict=predict,
    languages=frozenset(("cuda", "hip")),
)
