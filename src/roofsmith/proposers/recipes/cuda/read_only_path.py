"""Promise that a kernel's arrays don't overlap, and that those only read are constant."""

from __future__ import annotations

import re

from tree_sitter import Node

from roofsmith.proposers.cards import Card, CardChange, CardContext
from roofsmith.proposers.costs import amdahl
from roofsmith.proposers.edits import SourceEdit
from roofsmith.proposers.recipes.cuda._kernels import CudaFile, cuda_file
from roofsmith.proposers.source import CFunction
from roofsmith.proposers.syntax import (
    arguments,
    assigned,
    identifiers,
    strip_parens,
    text_of,
    walk,
    within,
)


def apply(context: CardContext) -> CardChange | None:
    """Add `__restrict__` to the pointers of each kernel, and `const` where it only reads."""
    file = cuda_file(context)
    edits = [
        edit for kernel in file.kernels if _is_apart(file, kernel) for edit in _edits(file, kernel)
    ]
    if not edits:
        return None
    names = ", ".join(f"`{kernel.name}`" for kernel in file.kernels)
    return file.edited(context, edits, f"Promise that the arrays of {names} don't overlap")


def _is_apart(file: CudaFile, kernel: CFunction) -> bool:
    """Whether no launch gives the same array twice, and each gives parameters of the entry, or
    memory of its own."""
    for launch in file.launches:
        if launch.kernel != kernel:
            continue
        pointers = [
            _home(launch.caller, argument)
            for parameter, argument in zip(kernel.parameters, arguments(launch.call), strict=False)
            if parameter.pointer
        ]
        if None in pointers or len(set(pointers)) < len(pointers):
            return False
        if launch.caller != file.reached[0] and not _is_passed_apart(file, launch.caller):
            return False
    return True


def _is_passed_apart(file: CudaFile, function: CFunction) -> bool:
    """Whether every call of a function on the host passes different names."""
    for caller in file.reached:
        for call in walk(caller.body, "call_expression"):
            if function not in _called(file, call):
                continue
            given = [text_of(strip_parens(argument)) for argument in arguments(call)]
            pointers = [
                text for p, text in zip(function.parameters, given, strict=False) if p.pointer
            ]
            plain = all(re.fullmatch(r"\w+", text) for text in pointers)
            if caller != file.reached[0] or not plain or len(set(pointers)) < len(pointers):
                return False
    return True


def _called(file: CudaFile, call: Node) -> tuple[CFunction, ...]:
    function = call.child_by_field_name("function")
    name = "" if function is None else next((text_of(n) for n in walk(function, "identifier")), "")
    return file.source.named(name)


def _home(caller: CFunction, argument: Node) -> str | None:
    """The parameter or array that a pointer argument leads to; None if it can't be told."""
    pointers = _pointers(caller, argument)
    if len(pointers) != 1 or pointers <= caller.mutated:
        return None
    name = min(pointers)
    values = (
        node.child_by_field_name("value")
        for node in walk(caller.body, "init_declarator")
        if name in identifiers(node.child_by_field_name("declarator") or node)
    )
    is_derived = any(value is not None and _pointers(caller, value) for value in values)
    return None if is_derived else name


def _pointers(caller: CFunction, node: Node) -> set[str]:
    return {name for name in identifiers(node) if "*" in caller.kinds.get(name, "")}


def _edits(file: CudaFile, kernel: CFunction) -> list[SourceEdit]:
    found = []
    head = kernel.node.child_by_field_name("declarator")
    declared = len(re.findall(rf"\b{kernel.name}\s*\(", file.source.text))
    launched = sum(launch.kernel == kernel for launch in file.launches)
    for node in walk(head, "parameter_declaration") if head is not None else ():
        stars = list(walk(node, "pointer_declarator"))
        text = text_of(node)
        if len(stars) != 1 or re.search(r"restrict|volatile|\[", text):
            continue
        star = stars[0].children[0]
        following = file.text.encode()[star.end_byte : star.end_byte + 1]
        found.append(SourceEdit.after(star, " __restrict__" + ("" if following == b" " else " ")))
        name = text_of(next(walk(stars[0], "identifier")))
        if declared == launched + 1 and "const" not in text and is_only_read(kernel, name):
            found.append(SourceEdit.before(node, "const "))
    return found


def is_only_read(kernel: CFunction, name: str) -> bool:
    """Whether nothing is written through a pointer parameter."""
    written = list(assigned(kernel.body))
    mentions = [n for n in walk(kernel.body, "identifier") if text_of(n) == name]
    return bool(mentions) and all(
        _is_element(node) and not any(within(node, target) for target in written)
        for node in mentions
    )


def _is_element(node: Node) -> bool:
    """Whether a mention is that of `A[i]` whose address isn't taken."""
    around = node.parent
    if around is None or around.type != "subscript_expression":
        return False
    if around.named_children[0] != node:
        return True
    outer = around.parent
    while outer is not None and outer.type in ("field_expression", "parenthesized_expression"):
        outer = outer.parent
    return outer is not None and outer.type != "pointer_expression"


def predict(context: CardContext) -> float:
    """Loads that needn't wait for stores overlap: a tenth of the time, halved."""
    return amdahl(context, 0.1, 2.0)


CARD = Card(
    id="read-only-path",
    title="Arrays that don't overlap, read through the read-only path",
    category="memory_access",
    answers=frozenset(("memory", "latency")),
    rationale="A store might change what is loaded next, so loads are kept behind stores and stay "
    "off the path for data that is constant for the kernel.",
    expected_counter="stall_long_scoreboard",
    expected_change="down where loads stood behind stores",
    instruction="LDG.CONSTANT",
    source="NVIDIA, CUDA C++ Programming Guide, __restrict__, and CUDA C++ Best Practices Guide, "
    "Global Memory (read-only data cache)",
    apply=apply,
    predict=predict,
    languages=frozenset(("cuda", "hip")),
)
