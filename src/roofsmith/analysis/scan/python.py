"""What a Python module does, read from its syntax tree; nothing is run."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from roofsmith.analysis.scan.python_names import Module, bound_by, parsed, uses
from roofsmith.analysis.scan.rules import Remarks, matches, meanings


def scan_python(path: str, text: str) -> Remarks:
    """Remarks on a module; a text that isn't Python gets one that says so."""
    found = Remarks(path)
    module = parsed(text, found, Module)
    if module is None:
        return found
    for name, line in uses(module):
        for remark in meanings(name, "python"):
            found.add(remark, line, name)
    held = {bound_by(part) for node in module.tree.body for part in _targets(node)}
    for node in ast.walk(module.tree):
        for remark, line, name in (*_attributes(module, node), *_kept(node, held)):
            found.add(remark, line, name)
    return found


def _targets(node: ast.stmt) -> Iterator[ast.AST]:
    return ast.walk(node) if isinstance(node, (ast.Assign, ast.AnnAssign)) else iter(())


def _attributes(module: Module, node: ast.AST) -> Iterator[tuple[str, int, str]]:
    """What attributes of anything lead to, also where a class defines them."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        yield from ((remark, node.lineno, node.name) for remark in meanings(node.name, "methods"))
    elif isinstance(node, ast.Attribute):
        yield from ((remark, node.lineno, node.attr) for remark in meanings(node.attr, "methods"))
        full = module.dotted(node) or node.attr
        is_changed = isinstance(node.ctx, ast.Store) and module.is_imported(node)
        if is_changed and not matches(full, "torch.backends"):
            yield "judge", node.lineno, full


def _kept(function: ast.AST, held: set[str | None]) -> Iterator[tuple[str, int, str]]:
    """What a function changes of the module's own values, and what it counts up."""
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return
    nodes = tuple(ast.walk(function))
    shared = {name for node in nodes if isinstance(node, ast.Global) for name in node.names}
    for node in nodes:
        match node:
            case ast.Name(id=name, ctx=ast.Store()) if name in shared:
                yield "state", node.lineno, name
            case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store()) if name in held:
                yield "state", node.lineno, name
            case ast.AugAssign(target=ast.Name(id=name)) if name in shared:
                yield "counts_calls", node.lineno, name
