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
            elif name in _BELOW_IT or _is_switch(module, node):
                yield name or "interpret", node.lineno


def _names_it(node: ast.AST) -> TypeGuard[ast.Constant | ast.keyword]:
    if isinstance(node, ast.keyword):
        return node.arg == _SETTING
    return isinstance(node, ast.Constant) and node.value in (_SETTING, _SETTING.encode())


def _is_switch(module: Module, node: ast.Attribute | ast.Name) -> bool:
    """Whether it is Triton's, of which reading is of no use to a kernel."""
    is_named_so = isinstance(node, ast.Attribute) and node.attr == "interpret"
    return is_named_so and any(full.startswith("triton") for full in module.meanings_of(node))


def _is_plain(module: Module, node: ast.AST) -> bool:
    """Whether the environment is read, or something is set in it whose name can be read."""
    parent = module.parents[id(node)]
    match parent, module.parents.get(id(parent)):
        case ast.Subscript(value=value, slice=key, ctx=use), _ if value is node:
            return isinstance(use, ast.Load) or isinstance(key, ast.Constant)
        case ast.Attribute(attr="update"), ast.Call(func=function) as call if function is parent:
            is_named = all(keyword.arg is not None for keyword in call.keywords)
            return is_named and all(map(_is_readable, call.args))
        case ast.Attribute(attr=method), ast.Call(func=function, args=given) if function is parent:
            is_said = bool(given) and isinstance(given[0], ast.Constant)
            return method in _READS or (method in _SETS and is_said)
        case ast.Call(func=ast.Name(id=function)), _:
            return function in _COPIES
    # In a comparison, as `"NAME" in os.environ`, or spread into a dictionary of its own.
    return isinstance(parent, (ast.Compare, ast.Dict, ast.comprehension, ast.For, ast.Expr))


def _is_readable(node: ast.expr) -> bool:
    return isinstance(node, ast.Dict) and all(isinstance(key, ast.Constant) for key in node.keys)
