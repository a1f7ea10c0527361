"""What a Python module has compiled: there, operators are instructions; the rest is the host's."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from roofsmith.analysis.scan.python_names import Module, bound_by, root_of

_COMPILERS = frozenset((
    "triton.jit", "triton.runtime.jit", "triton.runtime.jit.jit", "triton.experimental.gluon.jit",
    "numba.cuda.jit", "cutlass.cute.jit", "cutlass.cute.kernel", "flydsl.compiler.jit",
    "flydsl.compiler.kernel", "tilelang.language.macro", "tilelang.language.prim_func",
))  # fmt: skip
"""Decorators of functions whose operators are instructions, not calls."""
_HELION = frozenset(("helion.jit", "helion.kernel"))
"""Decorators of functions of which only these loops are compiled: the rest runs on the host, where
PyTorch's functions are calls. Inside the loops they are instructions."""
_LOOPS = frozenset(("helion.language.grid", "helion.language.tile"))
PLAIN = frozenset(("__wrapped__", "base_fn", "fn", "py_func"))
"""Attributes under which compilers and tuners keep what they were given: at last, a function that
Python runs, where operators are PyTorch's."""
_SAID = frozenset(("__doc__", "__module__", "__name__", "__qualname__"))
"""Of a function, text."""


def host_nodes(module: Module) -> Iterator[ast.AST]:
    """All nodes but the bodies of functions that are compiled.

    Their decorators, defaults and annotations run on the host.
    """
    waiting: list[ast.AST] = [module.tree]
    compiled: set[int] = set()
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, ast.FunctionDef):
            body = node.body if _is_given_to(_COMPILERS, module, node) else _in_loops(module, node)
            compiled |= {id(statement) for statement in body}
        waiting += (part for part in ast.iter_child_nodes(node) if id(part) not in compiled)


def in_device_loops(module: Module) -> frozenset[int]:
    """Ids of all nodes in loops of Helion's kernels, where PyTorch's functions are instructions."""
    return frozenset(
        id(node)
        for function in ast.walk(module.tree)
        if isinstance(function, ast.FunctionDef)
        for statement in _in_loops(module, function)
        for node in ast.walk(statement)
    )


def _in_loops(module: Module, function: ast.FunctionDef) -> list[ast.stmt]:
    """What is in the loops that Helion compiles of a function; nothing of any other function."""
    if not _is_given_to(_HELION, module, function):
        return []
    return [
        statement
        for loop in function.body
        if isinstance(loop, ast.For)
        and isinstance(loop.iter, ast.Call)
        and _is_theirs(module, loop.iter.func, _LOOPS)
        for statement in loop.body
    ]


def _is_given_to(compilers: frozenset[str], module: Module, function: ast.FunctionDef) -> bool:
    """Whether a compiler's own decorator gets the function, and not something else of that name.

    Only the innermost one does: any other gets what those below it have made, and they may have
    kept the function.
    """
    if not function.decorator_list:
        return False
    innermost = function.decorator_list[-1]
    return _is_theirs(
        module, innermost.func if isinstance(innermost, ast.Call) else innermost, compilers
    )


def _is_theirs(module: Module, node: ast.expr, names: frozenset[str]) -> bool:
    """Whether an expression is one of some full names, and nothing was put in its place."""
    meant = module.meanings_of(node) or {""}
    if root_of(node) in module.own | module.rebound:
        return False
    return not any(module.is_patched(name) for name in meant) and names.issuperset(meant)


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
