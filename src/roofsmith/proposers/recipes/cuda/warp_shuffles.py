"""Reduce by warp shuffles what a block reduces by a tree in shared memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tree_sitter import Node

from roofsmith.analysis.scan.syntax import operator_of
from roofsmith.proposers.cards import Card, CardChange, CardContext
from roofsmith.proposers.costs import amdahl
from roofsmith.proposers.edits import SourceEdit
from roofsmith.proposers.recipes._gemm import indented
from roofsmith.proposers.recipes.cuda._kernels import WARP, CudaFile, cuda_file
from roofsmith.proposers.source import CFunction
from roofsmith.proposers.syntax import (
    arguments,
    assigned,
    assignment_of,
    called_name,
    indent_of,
    statements,
    strip_parens,
    text_of,
    walk,
    within,
)

_FUNCTIONS = frozenset(("fmaxf", "fminf", "max", "min", "fmax", "fmin"))
_TYPE = re.compile(r"\b(float|double|int|unsigned int|unsigned)\b")


@dataclass(frozen=True, slots=True)
class Tree:
    """A loop that halves a shared array until its first element holds the result."""

    function: CFunction
    loop: Node
    thread: str
    """The thread's number, as it is written."""
    threads: int
    array: str
    element: str
    combined: str
    """The new value of `rs_value`, made of it and `rs_other`."""


def apply(context: CardContext) -> CardChange | None:
    """Let each warp reduce its elements by shuffles, and the first one what the warps found."""
    file = cuda_file(context)
    found = [tree for function in file.reached for tree in _trees(file, function)]
    if not found:
        return None
    edits = [
        SourceEdit.replace(
            tree.loop, indented(_code(tree), indent_of(tree.loop, file.text)).lstrip()
        )
        for tree in found
    ]
    lines = ", ".join(str(tree.loop.start_point[0] + 1) for tree in found)
    return file.edited(
        context, edits, f"Reduce by warp shuffles in the place of the loops at lines {lines}"
    )


def _trees(file: CudaFile, function: CFunction) -> Iterator[Tree]:
    threads = file.threads(function)
    if threads is None or threads < WARP or threads > 1024 or threads & (threads - 1):
        return
    found = [
        tree
        for node in walk(function.body, "for_statement")
        if (tree := _tree(file, function, node, threads)) is not None
    ]
    for tree in found:
        if _is_read_at_the_front(tree, [other.loop for other in found]):
            yield tree


def _tree(file: CudaFile, function: CFunction, loop: Node, threads: int) -> Tree | None:
    body, condition = (loop.child_by_field_name(f) for f in ("body", "condition"))
    step = _halving(file, loop, threads)
    if body is None or condition is None or step is None:
        return None
    parts = statements(body)
    if len(parts) != 2 or not text_of(parts[1]).startswith("__syncthreads"):
        return None
    inner = parts[0].child_by_field_name("consequence") if parts[0].type == "if_statement" else None
    test = parts[0].child_by_field_name("condition")
    done = [] if inner is None else statements(inner)
    if test is None or len(done) != 1 or parts[0].child_by_field_name("alternative") is not None:
        return None
    thread = re.fullmatch(rf"\(\s*([\w.]+)\s*<\s*{step}\s*\)", text_of(test))
    if thread is None or not file.is_thread(function, thread.group(1)):
        return None
    read = _combination(done[0], thread.group(1), step)
    if read is None:
        return None
    array, combined = read
    element = _TYPE.search(function.kinds.get(array, ""))
    if element is None:
        return None
    return Tree(function, loop, thread.group(1), threads, array, element.group(), combined)


def _halving(file: CudaFile, loop: Node, threads: int) -> str | None:
    """The variable of a loop that begins at half the block and halves down to 1."""
    fields = ("initializer", "condition", "update")
    first, test, update = (text_of(n) if (n := loop.child_by_field_name(f)) else "" for f in fields)
    begun = re.search(r"(\w+)\s*=\s*([^;]+?)\s*;?$", first)
    if begun is None:
        return None
    name, start = begun.groups()
    halved = (f"{name}>>=1", f"{name}/=2", f"{name}={name}/2", f"{name}={name}>>1")
    is_last = re.sub(r"\s", "", test) in (name, f"{name}>0", f"{name}>=1", f"{name}!=0")
    if re.sub(r"\s", "", update) not in halved or not is_last:
        return None
    start = re.sub(r"\bblockDim\.x\b", str(threads), start)
    start = re.sub(r"(\w+)\s*>>\s*1$", r"\1 / 2", start)
    return name if file.number(start) == threads // 2 else None


def _combination(statement: Node, thread: str, step: str) -> tuple[str, str] | None:
    """The array, and how two of its elements become one."""
    parts = assignment_of(statement)
    if parts is None:
        return None
    left, sign, right = parts
    array = text_of(left).split("[")[0].strip()
    here, there = rf"{array}[{thread}]", rf"{array}[{thread}+{step}]"

    def named(node: Node) -> str:
        return re.sub(r"\s", "", text_of(strip_parens(node))).replace(
            f"[{step}+{thread}]", f"[{thread}+{step}]"
        )

    if named(left) != here:
        return None
    if sign in ("+=", "*=", "|=", "&=", "^="):
        return (array, f"rs_value {sign[0]} rs_other") if named(right) == there else None
    value = strip_parens(right)
    function = called_name(value)
    operands = arguments(value) if function in _FUNCTIONS else value.named_children
    if sign != "=" or {named(node) for node in operands} != {here, there} or len(operands) != 2:
        return None
    if function in _FUNCTIONS:
        return array, f"{function}(rs_value, rs_other)"
    is_operation = value.type == "binary_expression" and operator_of(value) in ("+", "*")
    return (array, f"rs_value {operator_of(value)} rs_other") if is_operation else None


def _is_read_at_the_front(tree: Tree, trees: list[Node]) -> bool:
    """Whether all else in the function writes the thread's own element, or reads the first."""
    written = [target.id for target in assigned(tree.function.body)]
    for node in walk(tree.function.body, "subscript_expression"):
        base, _, index = text_of(node).partition("[")
        if base.strip() != tree.array or any(within(node, loop) for loop in trees):
            continue
        at = index.rstrip("] ").strip()
        if at != "0" and not (at in (tree.thread, "threadIdx.x") and node.id in written):
            return False
    return True


def _code(tree: Tree) -> str:
    warps, thread = tree.threads // WARP, tree.thread
    lines = [
        "{",
        *([f"__shared__ {tree.element} rs_parts[{warps}];"] if warps > 1 else []),
        f"{tree.element} rs_value = {tree.array}[{thread}];",
        *_shuffles(tree, WARP // 2),
    ]
    if warps > 1:
        lines += [
            f"if ({thread} % {WARP} == 0) rs_parts[{thread} / {WARP}] = rs_value;",
            "__syncthreads();",
            f"if ({thread} < {WARP}) {{",
            f"rs_value = rs_parts[{thread} % {warps}];",
            *_shuffles(tree, warps // 2),
            "}",
        ]
    lines += [f"if ({thread} == 0) {tree.array}[0] = rs_value;", "__syncthreads();", "}"]
    return "\n".join(lines)


def _shuffles(tree: Tree, first: int) -> list[str]:
    return [
        "#pragma unroll",
        f"for (int rs_step = {first}; rs_step > 0; rs_step /= 2) {{",
        f"const {tree.element} rs_other = __shfl_xor_sync(0xffffffffu, rs_value, rs_step);",
        f"rs_value = {tree.combined};",
        "}",
    ]


def predict(context: CardContext) -> float:
    """Two barriers in the place of eight for each reduction: an eighth of the time, halved."""
    return amdahl(context, 0.125, 2.0)


CARD = Card(
    id="warp-shuffle-reductions",
    title="Reductions by warp shuffles",
    category="parallelism",
    answers=frozenset(("latency", "memory", "occupancy", "unknown")),
    rationale="Every level of a tree in shared memory is a store, a load and a barrier for the "
    "whole block; lanes of a warp exchange registers without any.",
    expected_counter="stall_barrier",
    expected_change="down by the levels of the tree",
    instruction="SHFL",
    source="Harris, Optimizing Parallel Reduction in CUDA, NVIDIA 2007; NVIDIA, CUDA C++ "
    "Programming Guide, Warp Shuffle Functions",
    apply=apply,
    predict=predict,
    languages=frozenset(("cuda",)),
)
