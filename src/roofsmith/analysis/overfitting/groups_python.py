"""What a Python kernel takes for granted of its groups, read from its syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from roofsmith.analysis.overfitting.group_names import (
    EXTENT,
    FIXED_ROWS,
    ONE_SIZE,
    SIZES,
    Found,
    assumptions_of,
    is_count,
    is_offsets,
    is_rows,
)
from roofsmith.analysis.overfitting.places import Function, parameters
from roofsmith.analysis.overfitting.python import parsed
from roofsmith.analysis.overfitting.python_calls import last_name
from roofsmith.analysis.overfitting.tokens import TooMuchError
from roofsmith.domain.transfer import Assumption

_HARMLESS = ("min", "max", "cdiv", "next_power_of_2", "print", "log2", "float")
"""Calls through which an average may choose a configuration."""


def assumptions_python(path: str, text: str) -> tuple[Assumption, ...]:
    """Assumptions of a module about groups of rows; none unless it has such groups."""
    try:
        tree = parsed(text)
        if tree is None or not _is_grouped(tree):
            return ()
        found = _found(tree)
    except (RecursionError, TooMuchError):  # what it keeps can't be read either: it is rejected
        return ()
    return assumptions_of(path, found)


def _found(tree: ast.Module) -> dict[Found, None]:
    """Everything, once."""
    found = {finding: None for function in _functions(tree) for finding in _in_function(function)}
    found.update(dict.fromkeys(_constants(tree)))
    return found


def _is_grouped(tree: ast.Module) -> bool:
    """Whether a parameter is an array with a number per group, or rows per group are fixed."""
    return any(
        SIZES.fullmatch(name) or FIXED_ROWS.fullmatch(name)
        for function in _functions(tree)
        for name in parameters(function)
    )


def _functions(tree: ast.Module) -> Iterator[Function]:
    yield from (node for node in ast.walk(tree) if isinstance(node, Function))


def _constants(tree: ast.Module) -> Iterator[Found]:
    """Rows per group that are written down, for all."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            for target in node.targets:
                if isinstance(target, ast.Name) and FIXED_ROWS.fullmatch(target.id):
                    yield "compile_time_group_size", node.lineno, ast.unparse(node)


class _Function:
    """One function, with the numbers of rows and groups that it computes."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.counts: set[str] = set()
        self.sizes: set[str] = set()
        """Names of one group's number of rows."""
        self.averages: dict[str, tuple[int, str]] = {}
        self.excused = frozenset(_excused(function))
        for node in ast.walk(function):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    self._learn(target, node.value)
            elif isinstance(node, (ast.For, ast.comprehension)):
                self._learn_loop(node.target, node.iter)

    def _learn(self, target: ast.expr, value: ast.expr) -> None:
        text = ast.unparse(value)
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Attribute):
            first = target.elts[0]
            if value.attr == "shape" and len(target.elts) == 3 and isinstance(first, ast.Name):
                self.counts.add(first.id)  # G, K, N = w.shape
        elif not isinstance(target, ast.Name):
            return
        elif is_count(text) or (EXTENT.fullmatch(text) and is_count(target.id)):
            self.counts.add(target.id)
        elif self.is_average(value):
            self.averages[target.id] = (value.lineno, f"{target.id} = {text}")
        elif ONE_SIZE.fullmatch(target.id) and _mentions_sizes(value):
            self.sizes.add(target.id)

    def _learn_loop(self, target: ast.expr, source: ast.expr) -> None:
        if _mentions_sizes(source):
            self.sizes |= {
                n.id
                for n in ast.walk(target)
                if isinstance(n, ast.Name) and ONE_SIZE.fullmatch(n.id)
            }

    def is_average(self, node: ast.expr) -> bool:
        """`rows // groups`, or the first of all sizes."""
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.FloorDiv, ast.Div)):
            return is_rows(ast.unparse(node.left)) and self.is_groups(node.right)
        inner = node
        while isinstance(inner, ast.Call) and (inner.args or isinstance(inner.func, ast.Attribute)):
            inner = inner.args[0] if inner.args else inner.func
        if isinstance(inner, ast.Attribute):
            inner = inner.value
        if not isinstance(inner, ast.Subscript) or ast.unparse(inner.slice) != "0":
            return False
        return _is_sizes(inner.value) and not is_offsets(ast.unparse(inner.value))

    def is_groups(self, node: ast.expr) -> bool:
        """A number of groups."""
        text = ast.unparse(node)
        return text in self.counts or is_count(text)

    def is_excused(self, node: ast.AST) -> bool:
        """Within a branch that was taken because groups are as it needs them."""
        return id(node) in self.excused


def _in_function(function: Function) -> Iterator[Found]:
    known = _Function(function)
    given = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
    for argument in given:
        note = ast.unparse(argument.annotation) if argument.annotation else ""
        if "constexpr" in note and FIXED_ROWS.fullmatch(argument.arg):
            yield "compile_time_group_size", argument.lineno, ast.unparse(argument)
    yield from _averages_used(function, known)
    for node in ast.walk(function):
        if known.is_excused(node):
            continue
        if isinstance(node, ast.Call):
            yield from _reshaped(node, known)
        yield from _demanded(node, known)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv):
            yield from _tiled(node, function, known)


def _averages_used(function: Function, known: _Function) -> Iterator[Found]:
    """Averages that rows are found by: multiplied, sliced, looped over or given to a kernel."""
    parents = {id(c): n for n in ast.walk(function) for c in ast.iter_child_nodes(n)}
    for node in ast.walk(function):
        if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
            continue
        if node.id in known.averages and not known.is_excused(node) and _finds_rows(node, parents):
            line, detail = known.averages[node.id]
            yield "uniform_group_size", line, detail


def _finds_rows(node: ast.AST, parents: dict[int, ast.AST]) -> bool:
    """Whether a number goes where rows are found, rather than where a tile is chosen."""
    while (parent := parents.get(id(node))) is not None:
        if isinstance(parent, (ast.Compare, ast.IfExp)):
            return False
        if isinstance(parent, ast.Call):
            return last_name(parent.func) not in _HARMLESS
        if isinstance(parent, (ast.Slice, ast.Subscript)):
            return True
        if isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Mult):
            return True
        if isinstance(parent, ast.stmt):
            return False
        node = parent
    return False


def _reshaped(call: ast.Call, known: _Function) -> Iterator[Found]:
    """`x.view(G, -1, K)`: rows dealt evenly."""
    is_method = isinstance(call.func, ast.Attribute)
    is_view = is_method and last_name(call.func) in ("view", "reshape", "unflatten")
    if not is_view or len(call.args) <= 2:
        return
    groups, rows = call.args[0], call.args[1]
    even = ast.unparse(rows) == "-1" or known.is_average(rows)
    if known.is_groups(groups) and even:
        yield "uniform_group_size", call.lineno, ast.unparse(call)


def _demanded(node: ast.AST, known: _Function) -> Iterator[Found]:
    """Asserted, or else raised: what sizes must be."""
    if isinstance(node, ast.Assert) or (
        isinstance(node, ast.If) and any(isinstance(s, ast.Raise) for s in node.body)
    ):
        test = node.test
    else:
        return
    for part in ast.walk(test):
        if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mod):
            if _is_size(part.left, known):
                yield "divisible_group_size", node.lineno, ast.unparse(test)
        elif isinstance(part, ast.Compare) and _is_size(part.left, known):
            bound = part.comparators[0]
            is_zero = isinstance(bound, ast.Constant) and bound.value in (0, 1)
            if is_zero and not isinstance(part.left, ast.BinOp) and _is_emptiness(part, node):
                yield "no_empty_group", node.lineno, ast.unparse(test)


def _is_emptiness(test: ast.Compare, node: ast.AST) -> bool:
    """Whether a demand forbids zero: `> 0` and `>= 1` where asserted, the opposite where raised."""
    bound = test.comparators[0].value if isinstance(test.comparators[0], ast.Constant) else None
    kind = type(test.ops[0])
    if isinstance(node, ast.Assert):
        return (kind, bound) in ((ast.Gt, 0), (ast.GtE, 1), (ast.NotEq, 0))
    return (kind, bound) in ((ast.Eq, 0), (ast.LtE, 0), (ast.Lt, 1))


def _tiled(node: ast.BinOp, function: Function, known: _Function) -> Iterator[Found]:
    """`size // TILE` without anything for the rest."""
    size = node.left.id if isinstance(node.left, ast.Name) else ""
    if size not in known.sizes:
        return
    keeps_rest = any(
        isinstance(other, ast.BinOp) and isinstance(other.op, ast.Mod)
        and isinstance(other.left, ast.Name) and other.left.id == size
        for other in ast.walk(function)
    )  # fmt: skip
    if not keeps_rest:
        yield "divisible_group_size", node.lineno, ast.unparse(node)


def _excused(function: Function) -> Iterator[int]:
    """Nodes in branches whose test looks at the sizes: there is another way for other sizes."""
    for node in ast.walk(function):
        if isinstance(node, ast.If) and _mentions_sizes(node.test):
            if any(isinstance(s, ast.Raise) for s in node.body):
                continue
            for statement in node.body:
                yield from (id(inner) for inner in ast.walk(statement))


def _is_sizes(node: ast.expr) -> bool:
    return SIZES.fullmatch(last_name(node)) is not None


def _mentions_sizes(node: ast.AST) -> bool:
    return any(isinstance(n, ast.Name) and SIZES.fullmatch(n.id) for n in ast.walk(node))


def _is_size(node: ast.expr, known: _Function) -> bool:
    """An array of sizes, one of them, or something made of them by looking only."""
    names = [n.id for n in ast.walk(node) if isinstance(n, ast.Name)]
    return any(
        SIZES.fullmatch(n) or FIXED_ROWS.fullmatch(n) or n in known.sizes or n in known.averages
        for n in names
    )
