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
    held = {name for node in module.tree.body if isinstance(node, (ast.Assign, ast.AnnAssign))
            for part in ast.walk(node) if (name := bound_by(part))}  # fmt: skip
    for node in ast.walk(module.tree):
        if isinstance(node, (ast.Attribute, ast.FunctionDef, ast.AsyncFunctionDef)):
            name = node.attr if isinstance(node, ast.Attribute) else node.name
            for remark in meanings(name, "methods"):
                found.add(remark, node.lineno, name)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if module.is_imported(node) and not matches(_full(module, node), "torch.backends"):
                found.add("judge", node.lineno, _full(module, node))
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for remark, line, name in _kept(node, held):
                found.add(remark, line, name)
    return found


def _full(module: Module, node: ast.Attribute) -> str:
    return module.dotted(node) or node.attr


def _kept(
    function: ast.FunctionDef | ast.AsyncFunctionDef, held: set[str]
) -> Iterator[tuple[str, int, str]]:
    """What a function changes of the module's own values, and what it counts up."""
    nodes = tuple(ast.walk(function))
    shared = {name for node in nodes if isinstance(node, ast.Global) for name in node.names}
    for node in nodes:
        if isinstance(node, ast.Name) and node.id in shared and isinstance(node.ctx, ast.Store):
            yield "state", node.lineno, node.id
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            if isinstance(node.value, ast.Name) and node.value.id in held:
                yield "state", node.lineno, node.value.id
        elif isinstance(node, ast.AugAssign) and ast.unparse(node.target) in shared:
            yield "counts_calls", node.lineno, ast.unparse(node.target)
