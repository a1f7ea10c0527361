"""What a Python module does, read from its syntax tree; nothing is run."""

from __future__ import annotations

import ast

from roofsmith.analysis.scan.python_names import Module, parsed, uses
from roofsmith.analysis.scan.rules import Remarks, matches, rules

_SYNC_METHODS = ("wait_stream", "wait_event")
_STREAM_USES = ("torch.cuda.Stream", "torch.cuda.stream", "torch.cuda.ExternalStream")


def scan_python(path: str, text: str) -> Remarks:
    """Remarks on a module; a text that isn't Python gets one that says so."""
    found = Remarks(path)
    module = parsed(text, found, Module)
    if module is None:
        return found
    for name, line in uses(module):
        for remark, rule in rules().items():
            if any(matches(name, pattern) for pattern in rule.python):
                found.add(remark, line, name)
    for node in ast.walk(module.tree):
        _look(module, node, found)
    _streams(module, found)
    return found


def _look(module: Module, node: ast.AST, found: Remarks) -> None:
    if isinstance(node, ast.Attribute):
        _method(node, node.attr, found)
        if isinstance(node.ctx, ast.Store) and module.is_imported(node):
            name = module.dotted(node) or node.attr
            if not matches(name, "torch.backends"):
                found.add("patched_module", node.lineno, name)
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        _method(node, node.name, found)
        _count_calls(node, found)
    elif isinstance(node, ast.Call):
        if module.dotted(node.func) == "setattr":
            found.add("patched_module", node.lineno, "setattr")
        for keyword in node.keywords:
            _precision(keyword, node.lineno, found)


def _method(
    node: ast.Attribute | ast.FunctionDef | ast.AsyncFunctionDef, name: str, found: Remarks
) -> None:
    for remark, rule in rules().items():
        if name in rule.methods:
            found.add(remark, node.lineno, name)


def _precision(keyword: ast.keyword, line: int, found: Remarks) -> None:
    value = keyword.value.value if isinstance(keyword.value, ast.Constant) else None
    if keyword.arg == "input_precision" and value not in ("ieee", "tf32x3", None):
        found.add("reduced_precision", line, f"input_precision={value!r}")
    if keyword.arg == "allow_tf32" and value is True:
        found.add("reduced_precision", line, "allow_tf32=True")


def _count_calls(function: ast.FunctionDef | ast.AsyncFunctionDef, found: Remarks) -> None:
    shared = {n for node in ast.walk(function) if isinstance(node, ast.Global) for n in node.names}
    for node in ast.walk(function):
        if (
            isinstance(node, ast.AugAssign)
            and isinstance(node.target, ast.Name)
            and node.target.id in shared
        ):
            found.add("counts_calls", node.lineno, node.target.id)


def _streams(module: Module, found: Remarks) -> None:
    """Streams of its own without a wait, or with none behind the last use of them."""
    used, waits = [], []
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.Call):
            continue
        name = module.dotted(node.func) or ""
        if name in _STREAM_USES:
            used.append((node.lineno, name))
        elif isinstance(node.func, ast.Attribute) and node.func.attr in _SYNC_METHODS:
            return
        elif name.rpartition(".")[2] == "synchronize":
            waits.append(node.lineno)
    if used and max(waits, default=0) < max(used)[0]:
        found.add("unjoined_stream", *min(used))
