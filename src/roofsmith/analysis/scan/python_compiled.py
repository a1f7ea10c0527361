"""What a Python module has compiled: there, operators are instructions; the rest is the host's."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from roofsmith.analysis.scan.python_names import Module, bound_by, root_of

_COMPILERS = frozenset((
    "triton.jit", "triton.runtime.jit", "triton.runtime.jit.jit", "triton.experimental.gluon.jit",
    "numba.cuda.jit", "cutlass.cute.jit", "cutlass.cute.kernel", "helion.kernel",
))  # fmt: skip
"""Decorators of functions whose operators are instructions, not calls."""
PLAIN = frozenset(("__wrapped__", "base_fn", "fn", "py_func"))
"""Attributes under which compilers and tuners keep what they were given: at last, a function that
Python runs, where operators are PyTorch's."""
_SAID = frozenset(("__doc__", "__module__", "__name__", "__qualname__"))
"""Of a function, text."""


def host_nodes(module: Module) -> Iterator[ast.AST]:
    """All nodes but the bodies of functions that are compiled.

    Their decorators, defaults and annotations run on the host.
    """
    replaced = module.own | module.rebound
    waiting: list[ast.AST] = [module.tree]
    while waiting:
        node = waiting.pop()
        yield node
        compiled: set[int] = set()
        if isinstance(node, ast.FunctionDef) and _is_compiled(module, node, replaced):
            compiled = {id(statement) for statement in node.body}
        waiting += (part for part in ast.iter_child_nodes(node) if id(part) not in compiled)


def _is_compiled(module: Module, function: ast.FunctionDef, replaced: frozenset[str]) -> bool:
    """Whether a compiler's own decorator gets the function, and not something else of that name.

    Only the innermost one does: any other gets what those below it have made, and they may have
    kept the function.
    """
    if not function.decorator_list:
        return False
    innermost = function.decorator_list[-1]
    node = innermost.func if isinstance(innermost, ast.Call) else innermost
    meant = module.meanings_of(node) or {""}
    if root_of(node) in replaced or any(module.is_patched(name) for name in meant):
        return False
    return _COMPILERS.issuperset(meant)


def is_plain_function(module: Module, node: ast.Attribute) -> bool:
    """Whether what a compiler or a tuner keeps is taken out of it.

    Whoever launches it (`tuned.fn[grid](...)`) or asks it for something of its own (`tuned.fn.run`)
    has no plain function, which knows neither.
    """
    if node.attr not in PLAIN or not isinstance(node.ctx, ast.Load):
        return False
    parent = module.parents[id(node)]
    if isinstance(parent, ast.Subscript) and parent.value is node:
        return False
    if isinstance(parent, ast.Attribute):
        return parent.attr.startswith("__") and parent.attr not in _SAID
    return not is_of_own_class(module, node)


def is_of_own_class(module: Module, node: ast.Attribute) -> bool:
    """Whether it is an attribute of `self`, and classes of the module give themselves one."""
    if not isinstance(node.value, ast.Name) or node.value.id != "self":
        return False
    around: ast.AST | None = node
    while around is not None and not isinstance(around, ast.ClassDef):
        around = module.parents.get(id(around))
    return around is not None and any(
        _gives_itself(part, node.attr)
        for owner in ast.walk(module.tree)
        if isinstance(owner, ast.ClassDef)
        for part in ast.walk(owner)
    )


def _gives_itself(node: ast.AST, name: str) -> bool:
    """Whether a class has an attribute from here: by `self.name = ...`, or in its body."""
    match node:
        case ast.Attribute(value=ast.Name(id="self"), attr=attribute, ctx=ast.Store()):
            return attribute == name
        case ast.FunctionDef(name=defined) | ast.AsyncFunctionDef(name=defined):
            return defined == name
    return isinstance(node, ast.Name) and bound_by(node) == name
