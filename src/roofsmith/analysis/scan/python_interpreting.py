"""Whether a Python module has Triton interpret what it should compile.

`TRITON_INTERPRET` does, and `triton.knobs.runtime.interpret`: then a function under `triton.jit` is
Python's, and its operators are PyTorch's. So the environment may be read, and names that can be
read may be set; it isn't handed to anybody who could set others.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeGuard

from roofsmith.analysis.scan.python_names import Module

_SETTING = "TRITON_INTERPRET"
_ENVIRONMENTS = frozenset(("os.environ", "os.environb"))
_READS = frozenset(("copy", "get", "items", "keys", "values"))
_SETS = frozenset(("pop", "setdefault"))
_COPIES = frozenset(("dict", "len", "list", "print", "sorted", "str"))
_BELOW_IT = ("os.putenv", "os.unsetenv", "posix.putenv", "posix.environ")
"""What sets variables past `os.environ`."""


def interpreting(module: Module) -> Iterator[tuple[str, int]]:
    """Ways to have kernels interpreted, or to set a variable whose name can't be read."""
    for node in ast.walk(module.tree):
        if _names_it(node):
            yield _SETTING, node.lineno
        elif isinstance(node, (ast.Attribute, ast.Name)):
            name = module.dotted(node)
            if name in _ENVIRONMENTS:
                if not _is_plain(module, node):
                    yield f"{name} with a name put together at run time", node.lineno
            elif name in _BELOW_IT:
                yield name, node.lineno
            elif _is_knob(module, node):
                yield name or "interpret", node.lineno


def _names_it(node: ast.AST) -> TypeGuard[ast.Constant | ast.keyword]:
    if isinstance(node, ast.keyword):
        return node.arg == _SETTING
    return isinstance(node, ast.Constant) and node.value in (_SETTING, _SETTING.encode())


def _is_knob(module: Module, node: ast.Attribute | ast.Name) -> bool:
    """Whether it is Triton's switch, of which reading is of no use to a kernel."""
    return (
        isinstance(node, ast.Attribute)
        and node.attr == "interpret"
        and any(full.startswith("triton") for full in module.meanings_of(node))
    )


def _is_plain(module: Module, node: ast.AST) -> bool:
    """Whether the environment is read, or something is set in it whose name can be read."""
    parent = module.parents[id(node)]
    if isinstance(parent, ast.Subscript) and parent.value is node:
        return isinstance(parent.ctx, ast.Load) or isinstance(parent.slice, ast.Constant)
    if isinstance(parent, ast.Attribute):
        call = module.parents[id(parent)]
        if not isinstance(call, ast.Call) or call.func is not parent:
            return False
        if parent.attr == "update":
            is_named = all(keyword.arg is not None for keyword in call.keywords)
            return is_named and all(map(_is_readable, call.args))
        first = call.args[0] if call.args else None
        return parent.attr in _READS or (parent.attr in _SETS and isinstance(first, ast.Constant))
    if isinstance(parent, ast.Call) and isinstance(parent.func, ast.Name):
        return parent.func.id in _COPIES
    # In a comparison, as `"NAME" in os.environ`, or spread into a dictionary of its own.
    return isinstance(parent, (ast.Compare, ast.Dict, ast.comprehension, ast.For, ast.Expr))


def _is_readable(node: ast.expr) -> bool:
    return isinstance(node, ast.Dict) and all(isinstance(key, ast.Constant) for key in node.keys)
