"""Single-precision functions of the special function units."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from roofsmith.analysis.scan.syntax import operator_of
from roofsmith.proposers.cards import Card, CardChange, CardContext
from roofsmith.proposers.costs import amdahl
from roofsmith.proposers.edits import SourceEdit
from roofsmith.proposers.recipes.cuda._kernels import CudaFile, cuda_file
from roofsmith.proposers.source import CFunction
from roofsmith.proposers.syntax import arguments, called_name, strip_parens, text_of, walk

FAST = {name: f"__{name}" for name in ("expf", "logf", "log2f", "log10f", "exp10f", "sinf", "cosf")}
"""Those that have an approximation of a few units in the last place (sinf and cosf: in
[-pi, pi])."""


def apply(context: CardContext) -> CardChange | None:
    """Use `__expf` and its like and `rsqrtf`, in code of the device."""
    if context.dtype != "float32":
        return None
    file = cuda_file(context)
    device = [function for function in file.reached if _is_of_the_device(file, function)]
    edits = [edit for function in device for edit in _edits(function)]
    if not edits:
        return None
    names = ", ".join(
        f"`{name}`" for name in dict.fromkeys(edit.text.rstrip("(") for edit in edits)
    )
    return file.edited(context, edits, f"Use {names} in the place of the exact functions")


def _is_of_the_device(file: CudaFile, function: CFunction) -> bool:
    """Whether its head says so, and the host can't call it."""
    before = file.text.encode()[: function.body.start_byte].decode()
    head = re.split(r"[;}]", before)[-1]
    marks = set(re.findall(r"\b__(global|device|host)__\b", head))
    return bool(marks) and "host" not in marks


def _edits(function: CFunction) -> Iterator[SourceEdit]:
    for node in walk(function.body, "call_expression"):
        name, called = called_name(node), node.child_by_field_name("function")
        if name in FAST and called is not None:
            yield SourceEdit.replace(called, FAST[name])
    for node in walk(function.body, "binary_expression"):
        root = _reciprocal_root(node)
        if root is not None:
            yield SourceEdit(node.start_byte, root.start_byte, "rsqrtf")


def _reciprocal_root(node: Node) -> Node | None:
    """The arguments of `1.0f / sqrtf(x)`."""
    left, right = (node.child_by_field_name(f) for f in ("left", "right"))
    if operator_of(node) != "/" or left is None or right is None:
        return None
    is_one = re.fullmatch(r"1(\.0*)?f?", text_of(strip_parens(left))) is not None
    is_root = called_name(right) == "sqrtf" and len(arguments(right)) == 1
    return right.child_by_field_name("arguments") if is_one and is_root else None


def predict(context: CardContext) -> float:
    """A fifth of the arithmetic, three times faster; next to nothing where memory is the limit."""
    return amdahl(context, 0.2 if context.bottleneck.kind == "compute" else 0.03, 3.0)


CARD = Card(
    id="fast-intrinsics",
    title="Fast single-precision functions",
    category="precision",
    answers=frozenset(("compute", "latency")),
    rationale="The exact functions correct what the special function unit gives by several more "
    "instructions; within the error budget that isn't needed.",
    expected_counter="instructions",
    expected_change="down by what the exact functions add to the unit's result",
    source="NVIDIA, CUDA C++ Programming Guide, Mathematical Functions: Intrinsic Functions",
    apply=apply,
    predict=predict,
    languages=frozenset(("cuda", "hip")),
)
