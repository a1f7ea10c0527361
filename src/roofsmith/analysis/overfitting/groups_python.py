"""What a Python kernel takes for granted of its groups, read from its syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from roofsmith.analysis.overfitting.even_deals import EvenDeals, Spellings
from roofsmith.analysis.overfitting.group_names import FIXED_ROWS, SIZES, Found, assumptions_of
from roofsmith.analysis.overfitting.group_numbers import Numbers
from roofsmith.analysis.overfitting.places import Function, parameters
from roofsmith.analysis.overfitting.python import parsed
from roofsmith.analysis.overfitting.python_calls import last_name
from roofsmith.analysis.overfitting.python_tensors import arguments_of
from roofsmith.analysis.overfitting.tokens import TooMuchError
from roofsmith.domain.transfer import Assumption

_HARMLESS = ("min", "max", "cdiv", "next_power_of_2", "print", "log2", "float")
"""Calls through which an average may choose a configuration."""
_CASTS = ("int", "round")
_MOST_CALLS = 4
"""Calls within calls that a number of groups is followed through."""


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
    spellings, counts = Spellings(tree), _handed_counts(tree)
    found = {
        finding: None
        for function in _functions(tree)
        for finding in _in_function(Numbers(function, counts.get(function.name, set())), spellings)
    }
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


def _handed_counts(tree: ast.Module) -> dict[str, set[str]]:
    """Parameters by function that are given the number of groups, whatever they are called."""
    functions = {function.name: function for function in _functions(tree)}
    counts: dict[str, set[str]] = {}
    for _ in range(_MOST_CALLS):
        before = {name: len(found) for name, found in counts.items()}
        for function in functions.values():
            known = Numbers(function, counts.get(function.name, set()))
            for call in ast.walk(function):
                callee = functions.get(last_name(call.func)) if isinstance(call, ast.Call) else None
                if callee is None or not isinstance(call, ast.Call):
                    continue
                given = arguments_of(call, callee, None)
                handed = {name for name, a in given.items() if known.is_groups(a)}
                counts.setdefault(callee.name, set()).update(handed)
        if before == {name: len(found) for name, found in counts.items()}:
            break
    return counts


def _in_function(known: Numbers, spellings: Spellings) -> Iterator[Found]:
    function, deals = known.function, EvenDeals(known, spellings)
    parents = {id(c): n for n in ast.walk(function) for c in ast.iter_child_nodes(n)}
    given = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
    for argument in given:
        note = ast.unparse(argument.annotation) if argument.annotation else ""
        if "constexpr" in note and FIXED_ROWS.fullmatch(argument.arg):
            yield "compile_time_group_size", argument.lineno, ast.unparse(argument)
    yield from _averages_used(known, parents)
    for node in ast.walk(function):
        if known.is_excused(node):
            continue
        if isinstance(node, (ast.Call, ast.BinOp)) and _is_even(node, known, deals, parents):
            yield "uniform_group_size", node.lineno, ast.unparse(node)
        yield from _demanded(node, known)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv):
            yield from _tiled(node, function, known)


def _is_even(
    node: ast.Call | ast.BinOp, known: Numbers, deals: EvenDeals, parents: dict[int, ast.AST]
) -> bool:
    if isinstance(node, ast.Call):
        return deals.deals(node)
    return known.is_average(node) and _finds_rows(node, parents)


def _averages_used(known: Numbers, parents: dict[int, ast.AST]) -> Iterator[Found]:
    """Averages that rows are found by: multiplied, sliced, looped over or given to a kernel."""
    for node in ast.walk(known.function):
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
        if isinstance(parent, ast.Call) and last_name(parent.func) not in _CASTS:
            return last_name(parent.func) not in _HARMLESS
        if isinstance(parent, (ast.Slice, ast.Subscript)):
            return True
        if isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Mult):
            return True
        if isinstance(parent, ast.BinOp) and isinstance(parent.op, (ast.FloorDiv, ast.Mod)):
            return node is parent.right  # the group of a row
        if isinstance(parent, ast.stmt):
            return False
        node = parent
    return False


def _demanded(node: ast.AST, known: Numbers) -> Iterator[Found]:
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


def _tiled(node: ast.BinOp, function: Function, known: Numbers) -> Iterator[Found]:
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


def _is_size(node: ast.expr, known: Numbers) -> bool:
    """An array of sizes, one of them, or something made of them by looking only."""
    names = [n.id for n in ast.walk(node) if isinstance(n, ast.Name)]
    return any(
        SIZES.fullmatch(n) or FIXED_ROWS.fullmatch(n) or n in known.sizes or n in known.averages
        for n in names
    )
