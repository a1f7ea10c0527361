"""What a C, C++, CUDA or HIP kernel takes for granted of its groups, read from its syntax tree."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from roofsmith.analysis.overfitting import native_deals
from roofsmith.analysis.overfitting import native_tree as tree
from roofsmith.analysis.overfitting.group_names import (
    FIXED_ROWS,
    ONE_SIZE,
    SIZES,
    Found,
    assumptions_of,
    is_count,
    is_offsets,
    is_rows,
)
from roofsmith.domain.transfer import Assumption

_DEMANDS = re.compile(r"(static_)?assert|(TORCH_)?CHECK\w*|AT_ASSERT\w*|\w*_(REQUIRE|ASSERT|CHECK)")
_NOT_EMPTY = ((">", "0"), (">=", "1"), ("!=", "0"))
_HARMLESS = re.compile(r"(std::)?(min|max)|\w*(ceil_?div|cdiv|div_up|next_power)\w*|printf")


def assumptions_native(path: str, text: str, *, plain_c: bool = False) -> tuple[Assumption, ...]:
    """Assumptions of a file about groups of rows; none unless it has such groups."""
    root = tree.parse(text, plain_c=plain_c)
    functions = list(tree.functions(root))
    names = [
        tree.name_of(p.child_by_field_name("declarator"))
        for function in functions
        for p in tree.parameters(function)
    ]
    if not any(SIZES.fullmatch(name) for name in names):
        return ()
    found = dict.fromkeys(_fixed(root))
    for function in functions:
        found.update(dict.fromkeys(_Function(function).found()))
    return assumptions_of(path, found)


def _fixed(root: Node) -> Iterator[Found]:
    """Rows per group that are a macro, a constant or a template's parameter."""
    for node in tree.nodes(root):
        if node.type == "preproc_def":
            name = tree.written(node.child_by_field_name("name"))
            value = tree.written(node.child_by_field_name("value"))
            is_fixed = bool(re.fullmatch(r"\(?\d+\)?", value))
        elif node.type == "declaration" and re.match(
            r"(static |inline )*const", tree.written(node)
        ):
            child = node.child_by_field_name("declarator")
            name = tree.name_of(child)
            is_fixed = child is not None and child.type == "init_declarator"
        elif node.type in ("parameter_declaration", "optional_parameter_declaration"):
            name = tree.name_of(node.child_by_field_name("declarator"))
            is_fixed = node.parent is not None and node.parent.type == "template_parameter_list"
        else:
            continue
        if is_fixed and FIXED_ROWS.fullmatch(name):
            yield "compile_time_group_size", tree.line_of(node), tree.written(node)


class _Function:
    """One function, with the numbers of rows that it computes."""

    def __init__(self, function: Node) -> None:
        self._all = list(tree.nodes(function))
        self._averages: dict[str, tuple[int, str]] = {}
        self._sizes: set[str] = set()
        self._counts, self._other_counts = native_deals.counts(self._all)
        excused = [c for c in self._all if c.type == "if_statement" and _looks_at_sizes(c)]
        self._excused = {n.id for branch in excused for n in _taken(branch)}
        for node in self._all:
            if node.type == "init_declarator":
                name, value = tree.name_of(node), node.child_by_field_name("value")
                if value is not None and self._is_average(value):
                    self._averages[name] = (tree.line_of(node), tree.written(node))
                elif ONE_SIZE.fullmatch(name) and _mentions_sizes(value):
                    self._sizes.add(name)

    def found(self) -> Iterator[Found]:
        """Everything that it takes for granted."""
        for node in self._all:
            if node.id in self._excused:
                continue
            if node.type == "identifier" and tree.written(node) in self._averages:
                if _finds_rows(node):
                    line, detail = self._averages[tree.written(node)]
                    yield "uniform_group_size", line, detail
            elif node.type == "binary_expression":
                yield from self._binary(node)
            elif node.type == "call_expression":
                yield from self._demanded(node)
                if native_deals.deals(node, self._is_groups, self._is_average):
                    yield "uniform_group_size", tree.line_of(node), tree.written(node)

    def _binary(self, node: Node) -> Iterator[Found]:
        if self._is_average(node) and _finds_rows(node):
            parent = node.parent
            while parent is not None and parent.type == "parenthesized_expression":
                parent = parent.parent
            yield "uniform_group_size", tree.line_of(node), tree.written(parent)
        left = tree.written(node.child_by_field_name("left"))
        is_tiled = _operator(node) == "/" and left in self._sizes
        if is_tiled and not any(_is_rest(other, left) for other in self._all):
            yield "divisible_group_size", tree.line_of(node), tree.written(node)

    def _demanded(self, call: Node) -> Iterator[Found]:
        if not _DEMANDS.fullmatch(tree.written(call.child_by_field_name("function"))):
            return
        for node in tree.nodes(call):
            operator = _operator(node)
            left, right = (node.child_by_field_name(side) for side in ("left", "right"))
            if not operator or not self._is_size(left):
                continue
            if operator == "%":
                yield "divisible_group_size", tree.line_of(call), tree.written(call)
            elif (operator, tree.written(right)) in _NOT_EMPTY and "%" not in tree.written(left):
                yield "no_empty_group", tree.line_of(call), tree.written(call)

    def _is_groups(self, node: Node | None) -> bool:
        """A number of groups."""
        text = tree.written(node)
        if text in self._other_counts:
            return False
        return text in self._counts or is_count(text) or native_deals.is_extent_of_weights(text)

    def _is_average(self, node: Node) -> bool:
        """`rows / groups`, or the first of all sizes."""
        while node.type in ("parenthesized_expression", "cast_expression") and node.named_children:
            node = node.named_children[-1]
        if node.type == "binary_expression":
            left, right = (node.child_by_field_name(side) for side in ("left", "right"))
            is_share = _operator(node) == "/" and is_rows(tree.written(left))
            is_rows_of_all = not native_deals.is_extent_of_weights(tree.written(left))
            return is_share and is_rows_of_all and self._is_groups(right)
        if node.type == "subscript_expression":
            name = tree.written(node.child_by_field_name("argument"))
            is_first = tree.written(node).replace(" ", "").endswith("[0]")
            return is_first and bool(SIZES.fullmatch(name)) and not is_offsets(name)
        return False

    def _is_size(self, node: Node | None) -> bool:
        if node is None:
            return False
        return _mentions_sizes(node) or any(
            tree.written(n) in self._sizes or FIXED_ROWS.fullmatch(tree.written(n))
            for n in tree.nodes(node)
            if n.type == "identifier"
        )


def _operator(node: Node) -> str:
    """Of a binary expression; empty for anything else."""
    is_binary = node.type == "binary_expression"
    return tree.written(node.child_by_field_name("operator")) if is_binary else ""


def _finds_rows(node: Node) -> bool:
    """Whether a number goes where rows are found, rather than where a tile is chosen."""
    child, parent = node, node.parent
    while parent is not None and "statement" not in parent.type:
        if parent.type == "init_declarator" and parent.child_by_field_name("declarator") == child:
            return False
        if parent.type == "conditional_expression":
            return False
        if parent.type == "call_expression":
            name = tree.written(parent.child_by_field_name("function")).partition("<")[0]
            if name != "static_cast":
                return not _HARMLESS.fullmatch(name)
        if parent.type == "subscript_expression":
            return True
        if _operator(parent) == "*":
            return True
        child, parent = parent, parent.parent
    return parent is not None and parent.type == "for_statement"


def _is_rest(node: Node, size: str) -> bool:
    """`size % TILE`."""
    return _operator(node) == "%" and tree.written(node.child_by_field_name("left")) == size


def _looks_at_sizes(branch: Node) -> bool:
    """There is another way for other sizes, unless the branch only refuses them."""
    condition = branch.child_by_field_name("condition")
    refuses = re.search(
        r"\b(throw|abort|exit)\b", tree.written(branch.child_by_field_name("consequence"))
    )
    other = branch.child_by_field_name("alternative") is not None or re.search(
        r"\b(return|continue)\b", tree.written(branch.child_by_field_name("consequence"))
    )
    return _mentions_sizes(condition) and not refuses and bool(other)


def _taken(branch: Node) -> Iterator[Node]:
    body = branch.child_by_field_name("consequence")
    return tree.nodes(body) if body is not None else iter(())


def _mentions_sizes(node: Node | None) -> bool:
    return node is not None and any(
        n.type == "identifier" and SIZES.fullmatch(tree.written(n)) for n in tree.nodes(node)
    )
