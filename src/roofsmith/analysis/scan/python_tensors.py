"""How calls of tensors' methods that compute are told from those of other objects' methods."""

from __future__ import annotations

import ast

from roofsmith.analysis.scan.operators import is_computing
from roofsmith.analysis.scan.python_names import Module, root_of

_OF_CONTAINERS = frozenset(("add", "sort"))
"""Sets and lists have them too, and return nothing."""
_OVER_DIMENSIONS = frozenset(("all", "any", "max", "min"))
"""What sizes are worked out with as well: counted with a dimension, or another operand."""


def call_computes(module: Module, call: ast.Call, name: str) -> bool:
    """Whether a call of a method of this name computes, as far as the call itself tells."""
    if name in _OF_CONTAINERS:
        return _is_used(module, call)
    if name in _OVER_DIMENSIONS:
        return bool(call.args or call.keywords)
    if name == "log":  # a logger is told something, a tensor isn't
        return not call.args and not call.keywords
    if name == "backward":  # who differentiates an expansion adds up; autograd functions have one
        return not isinstance(call.func, ast.Attribute) or root_of(call.func) not in module.own
    return is_computing(name)


def _is_used(module: Module, call: ast.Call) -> bool:
    """Whether somebody wants the result. `x in seen or seen.add(x)` wants a set's None."""
    parent = module.parents[id(call)]
    is_negated = isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not)
    return not isinstance(parent, (ast.Expr, ast.BoolOp)) and not is_negated
