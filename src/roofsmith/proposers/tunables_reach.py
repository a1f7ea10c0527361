"""Which text of a module runs at the sizes of a target: settings of the rest change nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from roofsmith.domain.description import WorkloadDescription
from roofsmith.domain.yardstick import ENTRY
from roofsmith.proposers.edits import Span
from roofsmith.proposers.host_walk import Array, AstrayError, HostWalk, WalkLimit
from roofsmith.proposers.triton_module import TritonModule, span_of


def dead_spans(
    text: str,
    descriptions: Sequence[WorkloadDescription],
    settings: Sequence[Mapping[str, int]] = ({},),
) -> tuple[Span, ...]:
    """Bytes that no workload reaches, whichever of the settings the module's constants have.

    None where the host's code can't be followed.
    """
    try:
        module = TritonModule(text)
        reached = _reached(module, descriptions, settings)
    except (SyntaxError, ValueError, RecursionError, AstrayError):
        return ()
    dead = _dead(module, reached) if reached else ()
    return tuple(_with_comment(one, module) for one in dead)


def _with_comment(node: ast.stmt, module: TritonModule) -> Span:
    """A statement to the end of its line, unless another one follows there."""
    begin, end = span_of(node, module.starts)
    line_end = module.starts[node.end_lineno or node.lineno]
    rest = module.text.encode()[end:line_end].strip()
    return begin, line_end if not rest or rest.startswith(b"#") else end


def _reached(
    module: TritonModule,
    descriptions: Sequence[WorkloadDescription],
    settings: Sequence[Mapping[str, int]],
) -> set[ast.stmt]:
    """Statements of the host; none without an entry."""
    functions = {
        one.name: one for one in module.tree.body
        if isinstance(one, ast.FunctionDef) and one.name not in module.kernels
    }  # fmt: skip
    reached, limit = set[ast.stmt](), WalkLimit()
    for described in descriptions if ENTRY in functions else ():
        given = {**described.scalars, **{a.name: Array(a.shape) for a in described.arrays}}
        for constants in settings:
            walk = HostWalk(module.tree, functions, constants, reached, limit)
            walk.enter(functions[ENTRY], given)
    return reached


def _dead(module: TritonModule, reached: set[ast.stmt]) -> Iterator[ast.stmt]:
    """What nothing live names: host code first, then kernels, and constants last."""
    bound = {one: _bound(one, module) for one in module.tree.body}
    live = set[str]()
    for one in (one for one, names in bound.items() if not names):
        unreached = list(_outermost(one, reached)) if isinstance(one, ast.FunctionDef) else []
        yield from unreached
        live |= _named(one, unreached)
    waiting = {one: names for one, names in bound.items() if names}
    while named := [one for one, names in waiting.items() if names & live]:
        for one in named:
            del waiting[one]
            live |= _named(one, ())
    yield from waiting


def _bound(node: ast.stmt, module: TritonModule) -> set[str]:
    """Names that kernels and constants are known by; none of host code."""
    if isinstance(node, ast.FunctionDef):
        return {node.name} & module.kernels.keys()
    if not isinstance(node, ast.Assign | ast.AnnAssign):
        return set()
    names = [n for n in ast.walk(node) if isinstance(n, ast.Name)]
    return {n.id for n in names if isinstance(n.ctx, ast.Store)}


def _outermost(node: ast.AST, reached: set[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements that nothing reaches, without those that are inside of one."""
    if isinstance(node, ast.stmt) and node not in reached:
        yield node
        return
    for inner in ast.iter_child_nodes(node):
        yield from _outermost(inner, reached)


def _named(node: ast.AST, without: Sequence[ast.AST]) -> set[str]:
    if node in without:
        return set()
    inner = (_named(one, without) for one in ast.iter_child_nodes(node))
    return set[str]().union({node.id} if isinstance(node, ast.Name) else (), *inner)
