"""What a Python function's names stand for: numbers of groups, of rows, and arrays of either."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Set

from roofsmith.analysis.overfitting.group_names import (
    COUNT,
    EXTENT,
    ONE_SIZE,
    ROWS,
    SIZES,
    is_count,
    is_offsets,
    is_rows,
)
from roofsmith.analysis.overfitting.places import Function, parameters
from roofsmith.analysis.overfitting.python_calls import FACTS, TENSOR_LIBRARIES, last_name
from roofsmith.analysis.overfitting.tokens import is_weight_name

_COPIES = frozenset((
    "tolist", "cpu", "to", "int", "long", "float", "numpy", "contiguous", "detach", "cuda",
))  # fmt: skip
"""Methods that leave an array of sizes what it is."""
_ALLOCATES = re.compile(r"(new_)?(empty|zeros|ones|full)")
_NO_ROWS = re.compile(r"[KNHDC]|\w*(head|dim|hidden|chan|width|inner)\w*")
"""A first extent that is called so counts something else."""
_MOST_NAMES = 8
"""Names of names that are followed."""


class Numbers:
    """One function, with the numbers and arrays that it computes."""

    def __init__(self, function: Function, counts: Set[str] = frozenset()) -> None:
        """Read a function.

        Args:
            function: its syntax tree.
            counts: parameters that callers give the number of groups to.
        """
        self.function = function
        self.counts: set[str] = set(counts)
        self.sizes: set[str] = set()
        """Names of one group's number of rows."""
        self.averages: dict[str, tuple[int, str]] = {}
        self.values: dict[str, ast.expr] = {}
        """What names were bound to last."""
        self.matrices: set[str] = set()
        """Arrays of rows and columns."""
        self._row_names: set[str] = set()
        self._row_arrays: set[str] = set()
        self._others: set[str] = set()
        """Numbers of groups of something else: `num_groups = K // group_size`."""
        self._grouped: set[str] = set()
        """Arrays with one entry per group."""
        self._copies: set[str] = set()
        """`sizes = group_sizes.tolist()`"""
        self._made_of_sizes: set[str] = set()
        """Whatever the sizes were looked at for."""
        self._of_sizes_alone: set[str] = set()
        for node in _in_order(function):
            if isinstance(node, (ast.For, ast.comprehension)):
                self._learn_loop(node.target, node.iter)
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    self._bind(target, node.value)
            elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
                self._bind(node.target, node.value)
        self._excused = frozenset(self._excuses())

    def is_average(self, node: ast.expr) -> bool:
        """`rows // groups`, the first of all sizes, or their mean."""
        inner = node
        while isinstance(inner, ast.Call) and (inner.args or isinstance(inner.func, ast.Attribute)):
            if isinstance(inner.func, ast.Attribute) and inner.func.attr == "mean":
                return self._is_copy(inner.func.value)
            inner = inner.args[0] if inner.args else inner.func
        if isinstance(inner, ast.BinOp) and isinstance(inner.op, (ast.FloorDiv, ast.Div)):
            is_number = inner is node or last_name(getattr(node, "func", node)) == "int"
            return is_number and self._is_rows(inner.left) and self.is_groups(inner.right)
        if isinstance(inner, ast.Attribute):
            inner = inner.value
        if not isinstance(inner, ast.Subscript) or ast.unparse(inner.slice) != "0":
            return False
        return self._is_copy(inner.value)

    def is_groups(self, node: ast.expr) -> bool:
        """A number of groups."""
        node = node.value if isinstance(node, ast.NamedExpr) else node
        text = ast.unparse(node)
        if text in self._others:
            return False
        counted = re.fullmatch(r"len\((\w+)\)|(\w+)\.(?:shape\[0\]|size\(0\)|numel\(\))", text)
        name = (counted[1] or counted[2]) if counted else ""
        is_per_group = name in self._copies | self._grouped or is_weight_name(name)
        return text in self.counts or is_count(text) or is_per_group

    def is_per_group(self, node: ast.expr | None) -> bool:
        """An array that isn't rows: weights, sizes, and what was allocated with so many per group.

        So is what was picked by an index that the sizes made.
        """
        for _ in range(_MOST_NAMES):
            name, index = root_of(node)
            if index is not None and self.looks_at_sizes(index):
                return True
            if is_weight_name(name) or SIZES.fullmatch(name):
                return True
            if name in self._grouped | self._of_sizes_alone:
                return True
            node = self.values.get(name)
            if node is None:
                return False
        return False

    def is_of_rows(self, node: ast.expr) -> bool:
        """An array whose first extent was seen to be the number of all rows."""
        return root_of(node)[0] in self._row_arrays | self.matrices

    def is_excused(self, node: ast.AST) -> bool:
        """Within a branch that was taken because groups are as it needs them."""
        return id(node) in self._excused

    def mentions_sizes(self, node: ast.AST) -> bool:
        """Whether the array of sizes, or a copy of it, is in an expression."""
        return any(
            isinstance(n, ast.Name) and (SIZES.fullmatch(n.id) or n.id in self._copies)
            for n in ast.walk(node)
        )

    def looks_at_sizes(self, node: ast.AST) -> bool:
        """Whether sizes decide what an expression gives, not only how many or how much they are."""
        of: ast.expr | None = None
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("len", "sum"):
            of = node.args[0] if node.args else None
        elif isinstance(node, ast.Attribute) and node.attr in FACTS | {"sum"}:
            of = node.value
        if isinstance(of, ast.Name):
            return False
        if isinstance(node, ast.Name):
            return bool(SIZES.fullmatch(node.id)) or node.id in self._copies | self._made_of_sizes
        return any(self.looks_at_sizes(child) for child in ast.iter_child_nodes(node))

    def _bind(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            for name, one in zip(target.elts, value.elts, strict=False):
                self._bind(name, one)
        elif isinstance(target, ast.Tuple):
            self._unpack(target, value)
        elif isinstance(target, ast.Name):
            self._learn(target.id, value)
            if root_of(value)[0] != target.id:  # `w = w.view(...)` is what it was
                self.values[target.id] = value

    def _unpack(self, target: ast.Tuple, value: ast.expr) -> None:
        """`G, K, N = w.shape`, `M, K = x.shape`, and `m, rest = divmod(M, G)`."""
        if not target.elts:
            return
        call = value if isinstance(value, ast.Call) else None
        if call and ast.unparse(call.func) == "divmod" and len(call.args) == 2:
            share = ast.BinOp(call.args[0], ast.FloorDiv(), call.args[1])
            self._bind(target.elts[0], ast.copy_location(share, value))
            return
        is_shape = isinstance(value, ast.Attribute) and value.attr == "shape"
        is_size = call is not None and last_name(call.func) == "size"
        first = target.elts[0]
        if not (is_shape or is_size) or not isinstance(first, ast.Name):
            return
        array = root_of(value)[0]
        if len(target.elts) > 2 and not ROWS.fullmatch(first.id):
            if COUNT.fullmatch(first.id) or is_weight_name(array):
                self.counts.add(first.id)
                self._grouped.add(array)
        elif len(target.elts) == 2 and not is_weight_name(array) and not SIZES.fullmatch(array):
            self.matrices.add(array)
            if not _NO_ROWS.fullmatch(first.id):
                self._row_names.add(first.id)

    def _learn(self, name: str, value: ast.expr) -> None:
        text = ast.unparse(value)
        extent = EXTENT.fullmatch(text)
        divided = isinstance(value, ast.BinOp) and isinstance(value.op, (ast.FloorDiv, ast.Div))
        if self._is_copy(value):
            self._copies.add(name)
        elif self.looks_at_sizes(value):
            self._made_of_sizes.add(name)
            if not any(self._is_another_array(n) for n in ast.walk(value)):
                self._of_sizes_alone.add(name)
        if self._is_allocated_per_group(value):
            self._grouped.add(name)
        if extent and COUNT.fullmatch(name):
            self.counts.add(name)
            self._grouped.add(extent[1])
        elif is_count(text) or text in self.counts or (extent and extent[1] in self._grouped):
            self.counts.add(name)
        elif self.is_average(value):
            self.averages[name] = (value.lineno, f"{name} = {text}")
        elif ONE_SIZE.fullmatch(name) and self.mentions_sizes(value):
            self.sizes.add(name)
        elif self._is_rows(value) and not _NO_ROWS.fullmatch(name):
            self._row_names.add(name)
            self._row_arrays |= {extent[1]} if extent else set()
        elif divided and COUNT.fullmatch(name):
            self._others.add(name)

    def _learn_loop(self, target: ast.expr, source: ast.expr) -> None:
        if self.mentions_sizes(source):
            self.sizes |= {
                n.id
                for n in ast.walk(target)
                if isinstance(n, ast.Name) and ONE_SIZE.fullmatch(n.id)
            }

    def _is_rows(self, node: ast.expr) -> bool:
        text = ast.unparse(node)
        counted = re.fullmatch(r"len\((\w+)\)", text)
        if counted and counted[1] in parameters(self.function):  # an array, and no list made here
            text = f"{counted[1]}.shape[0]"
        extent = EXTENT.fullmatch(text)
        if extent is not None and (extent[1] in self._grouped or is_weight_name(extent[1])):
            return False
        return is_rows(text) or text in self._row_names

    def _is_another_array(self, node: ast.AST) -> bool:
        return (
            isinstance(node, ast.Name)
            and node.id in (*parameters(self.function), *self.values)
            and not self.looks_at_sizes(node)
            and node.id not in self.counts
        )

    def _is_sizes(self, node: ast.expr) -> bool:
        name = last_name(node)
        return SIZES.fullmatch(name) is not None or name in self._copies

    def _is_copy(self, value: ast.expr) -> bool:
        """`group_sizes.tolist()`, `list(m_sizes)`."""
        while isinstance(value, ast.Call):
            if isinstance(value.func, ast.Attribute) and value.func.attr in _COPIES:
                value = value.func.value
            elif last_name(value.func) in ("list", "tuple") and len(value.args) == 1:
                value = value.args[0]
            else:
                return False
        return self._is_sizes(value) and not is_offsets(last_name(value))

    def _is_allocated_per_group(self, value: ast.expr) -> bool:
        """`x.new_zeros(G * most, K)`, `torch.empty(G, most, K)`: so many rows for every group."""
        if not isinstance(value, ast.Call) or not _ALLOCATES.fullmatch(last_name(value.func)):
            return False
        shape = value.args[0] if value.args else None
        first = shape.elts[0] if isinstance(shape, (ast.Tuple, ast.List)) and shape.elts else shape
        if isinstance(first, ast.BinOp) and isinstance(first.op, ast.Mult):
            return any(self.is_groups(s) for s in (first.left, first.right))
        return first is not None and self.is_groups(first)

    def _excuses(self) -> Iterator[int]:
        """Nodes of branches whose test looks at the sizes: there is another way for other sizes."""
        for node in ast.walk(self.function):
            if isinstance(node, ast.IfExp) and self.looks_at_sizes(node.test):
                yield from _all_of(node.body, node.orelse)
            for block in _blocks(node):
                for place, statement in enumerate(block):
                    if isinstance(statement, ast.If) and self.looks_at_sizes(statement.test):
                        yield from _excused_by(statement, block[place + 1 :])


def root_of(node: ast.expr | None) -> tuple[str, ast.expr | None]:
    """The name of the array that an expression looks at, and what it was picked by if not a slice.

    `x` of `x[order].float().view(...)` and of `torch.relu(x)`; empty for anything else.
    """
    index: ast.expr | None = None
    while node is not None and not isinstance(node, ast.Name):
        if isinstance(node, ast.Subscript):
            index = index if isinstance(node.slice, (ast.Slice, ast.Tuple)) else node.slice
            node = node.value
        elif isinstance(node, ast.Attribute):
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in ("index_select", "gather", "take"):
                index = node.args[-1] if node.args else None
            is_library = ast.unparse(node.func.value).partition(".")[0] in TENSOR_LIBRARIES
            first = node.args[0] if node.args else None
            node = first if is_library else node.func.value
        else:
            return "", index
    return (node.id if node is not None else ""), index


def _in_order(function: Function) -> list[ast.AST]:
    """As they are written, since names are bound before they are used; loops as of their names."""
    nodes = [*ast.walk(function)]
    return sorted(nodes, key=lambda n: getattr(getattr(n, "iter", n), "lineno", 0))


def _blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """Statements that run one after another, directly within a node."""
    for field in ("body", "orelse", "finalbody"):
        block = getattr(node, field, None)
        if isinstance(block, list):
            yield block


def _all_of(*nodes: ast.AST) -> Iterator[int]:
    return (id(inner) for node in nodes for inner in ast.walk(node))


def _excused_by(branch: ast.If, rest: list[ast.stmt]) -> Iterator[int]:
    """What runs on either side of a test of the sizes, unless it refuses some or has one side."""
    if any(isinstance(s, ast.Raise) for s in branch.body):
        return
    leaves = any(isinstance(n, (ast.Return, ast.Continue)) for n in ast.walk(branch.body[-1]))
    if leaves or branch.orelse:
        yield from _all_of(*branch.body, *branch.orelse)
    if leaves and _works(branch.body):
        yield from _all_of(*rest)


def _works(body: list[ast.stmt]) -> bool:
    """Whether a branch does the work, rather than give up: it loops, or calls something."""
    return any(
        isinstance(n, (ast.For, ast.While)) or (isinstance(n, ast.Call) and len(n.args) > 1)
        for statement in body
        for n in ast.walk(statement)
    )
