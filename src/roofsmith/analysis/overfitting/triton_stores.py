"""Which parameters of a Triton kernel are pointers, and which of them it stores to."""

from __future__ import annotations

import ast

from roofsmith.analysis.overfitting.places import Function, parameters

_STORES = ("store", "atomic_add", "atomic_max", "atomic_min", "atomic_xchg", "atomic_cas",
           "atomic_or", "atomic_and", "atomic_xor", "store_tensor_descriptor")  # fmt: skip
_LOADS = ("load", "load_tensor_descriptor")


def written_parameters(kernel: Function) -> frozenset[str]:
    """Parameters that addresses given to `tl.store` and atomics are computed from."""
    return _addressed(kernel, _STORES)


def pointer_parameters(kernel: Function) -> frozenset[str]:
    """The same, and those that are loaded from."""
    return _addressed(kernel, (*_STORES, *_LOADS))


def _addressed(kernel: Function, methods: tuple[str, ...]) -> frozenset[str]:
    """Parameters that addresses are computed from.

    Offsets are computed from parameters too, so an address counts by the first name in it: pointer
    arithmetic is written `pointer + offset`.
    """
    comes_from: dict[str, str] = {}
    names = parameters(kernel)
    written: set[str] = set()
    for node in ast.walk(kernel):
        if not (isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)):
            continue
        if (first := _first_name(node.value)) is not None:
            comes_from.setdefault(node.targets[0].id, first)
    for node in ast.walk(kernel):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        if node.func.attr not in methods:
            continue
        method_of = node.func.value
        target = method_of if not _is_library(method_of) else (node.args[0] if node.args else None)
        name = _first_name(target) if target is not None else None
        for _ in range(len(comes_from) + 1):
            if name is None or name in names or name not in comes_from:
                break
            name = comes_from[name]
        if name in names and name is not None:
            written.add(name)
    return frozenset(written)


def _first_name(node: ast.expr) -> str | None:
    """The leftmost name of an address, also inside `tl.make_block_ptr(p, ...)` and the like."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.BinOp(left=left):
            return _first_name(left)
        case ast.Call(func=ast.Attribute(value=value), args=[first, *_]) if _is_library(value):
            return _first_name(first)
        case ast.Call(keywords=keywords) if any(k.arg == "base" for k in keywords):
            return _first_name(next(k.value for k in keywords if k.arg == "base"))
        case ast.Call(func=ast.Attribute(value=value)):
            return _first_name(value)
        case ast.Subscript(value=value) | ast.Attribute(value=value):
            return _first_name(value)
        case _:
            return None


def _is_library(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("tl", "triton", "language", "libdevice")
