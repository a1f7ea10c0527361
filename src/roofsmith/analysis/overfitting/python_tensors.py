"""Which parameters of a Python module's functions are tensors, and who calls whom with them."""

from __future__ import annotations

import ast
import builtins

from roofsmith.analysis.overfitting.places import (
    INSTANCES,
    Function,
    Module,
    is_compiled,
    parameters,
)
from roofsmith.analysis.overfitting.python_calls import (
    GENERATORS,
    IDENTITY,
    NEW,
    TAKES_TENSORS,
    TENSOR_ATTRIBUTES,
    TENSOR_LIBRARIES,
)
from roofsmith.analysis.overfitting.triton_stores import pointer_parameters

MOST_CALLS = 8
"""Calls within calls that are followed."""


def tensors_by_use(function: Function, module: Module) -> frozenset[str]:
    """Parameters that a function uses as tensors: by their annotation, or by what it does to them.

    Numbers have no attributes, aren't asked who they are, and aren't given to a tensor library;
    what is only passed on to a kernel or used in arithmetic counts as a number.
    """
    given = function.args
    arguments = (*given.posonlyargs, *given.args, *given.kwonlyargs)
    found: set[str] = set()
    others: set[str] = set()
    """Annotated as something else."""
    handed = _handed_to_wrapped(function, module)
    for argument in arguments:
        note = ast.unparse(argument.annotation) if argument.annotation else ""
        if "Tensor" in note or "ndarray" in note or "Parameter" in note:
            found.add(argument.arg)
        elif note and "Any" not in note:
            others.add(argument.arg)
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found |= {node.value.id} if node.attr in TENSOR_ATTRIBUTES else set()
        elif isinstance(node, ast.Call):
            found |= _given_as_tensors(node, module)
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Is, ast.IsNot)):
            sides = {ast.unparse(node.left), ast.unparse(node.comparators[0])}
            found |= sides & handed if sides & module.changed else set()
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            found |= {n.id for n in (node.left, node.right) if isinstance(n, ast.Name)}
    return frozenset(found & {a.arg for a in arguments} - {"self", "cls", "ctx"} - others)


def _handed_to_wrapped(function: Function, module: Module) -> set[str]:
    """Names that a wrapper gives to the function around which a decorator has put it."""
    known = {*dir(builtins), *module.globals, *parameters(function)}
    return {
        argument.id
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        for argument in node.args
        if isinstance(argument, ast.Name) and node.func.id not in known
    }


def _given_as_tensors(call: ast.Call, module: Module) -> set[str]:
    if isinstance(call.func, ast.Subscript):  # a launch
        return _launched(call, call.func, module)
    names = [module.dotted(call.func), *(module.dotted(a) for a in call.args)]
    name = names[0]
    if isinstance(call.func, ast.Attribute) and call.func.attr in (*GENERATORS, *TAKES_TENSORS):
        return {a.id for a in call.args if isinstance(a, ast.Name)}
    is_library = any(  # `pool.submit(torch.matmul, x, w)` as well
        found.partition(".")[0] in TENSOR_LIBRARIES and "." in found and not NEW.fullmatch(found)
        for found in names
    )
    if not is_library and name not in IDENTITY:
        return set()
    return {a.id for a in call.args if isinstance(a, ast.Name)}


def _launched(call: ast.Call, launch: ast.Subscript, module: Module) -> set[str]:
    """What a kernel of this module takes for pointers."""
    kernel = module.functions.get(module.dotted(launch.value))
    if kernel is None:
        return set()
    pointers = pointer_parameters(kernel)
    given = dict(zip(parameters(kernel), call.args, strict=False))
    given.update({k.arg: k.value for k in call.keywords if k.arg is not None})
    return {a.id for name, a in given.items() if name in pointers and isinstance(a, ast.Name)}


def tensor_parameters(module: Module) -> dict[Function, frozenset[str]]:
    """Parameters that are tensors, also because of what they are passed on to."""
    functions = [*module.functions.values()]
    functions += [f for methods in module.methods.values() for _, f in methods]
    known = {f: tensors_by_use(f, module) for f in functions}
    for _ in range(MOST_CALLS):
        before = dict(known)
        for function in functions:
            known[function] |= _passed_on(function, known, module) & frozenset(parameters(function))
        if known == before:
            break
    return known


def _passed_on(
    function: Function, known: dict[Function, frozenset[str]], module: Module
) -> frozenset[str]:
    """Names that a function gives to tensor parameters of others."""
    found: set[str] = set()
    for node in ast.walk(function):
        callee = callee_of(module, node.func) if isinstance(node, ast.Call) else None
        if callee is None or not isinstance(node, ast.Call):
            continue
        for name, argument in arguments_of(node, *callee).items():
            if isinstance(argument, ast.Name) and name in known[callee[0]]:
                found.add(argument.id)
    return frozenset(found)


def callee_of(module: Module, function: ast.expr) -> tuple[Function, str | None] | None:
    """A function or method of this module, where it is clear which one is called."""
    if isinstance(function, ast.Name):
        found = module.functions.get(function.id)
        return (found, None) if found is not None and not is_compiled(found) else None
    if not isinstance(function, ast.Attribute):
        return None
    owner = module.dotted(function.value)
    if function.attr == "apply" and owner in module.classes:
        forward = module.methods.get("forward", [])
        return next(((f, owner) for name, f in forward if name == owner), None)
    methods = module.methods.get(function.attr, [])
    return (methods[0][1], methods[0][0]) if len(methods) == 1 else None


def arguments_of(node: ast.Call, function: Function, owner: str | None) -> dict[str, ast.expr]:
    """What each parameter of a callee is given."""
    names = list(parameters(function))
    if owner is not None and names and names[0] in (*INSTANCES, "ctx"):
        names = names[1:]
    arguments: dict[str, ast.expr] = dict(zip(names, node.args, strict=False))
    arguments.update({k.arg: k.value for k in node.keywords if k.arg is not None})
    return arguments
