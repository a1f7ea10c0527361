"""C types, as far as a kernel's parameters are made of them."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tree_sitter import Node

from roofsmith.domain.facts import DType
from roofsmith.toolchains.grammar import descendants, text_of

_BY_SIZE: Mapping[tuple[int, bool], DType] = {
    (1, True): "int8", (2, True): "int16", (4, True): "int32", (8, True): "int64",
    (1, False): "uint8", (2, False): "uint16", (4, False): "uint32", (8, False): "uint64",
}  # fmt: skip
_LONG, _POINTER = ctypes.sizeof(ctypes.c_long), ctypes.sizeof(ctypes.c_size_t)
"""The only integers whose size differs between the ABIs of Linux."""

_NAMED: Mapping[str, DType] = {
    "float": "float32", "double": "float64",
    "_Float16": "float16", "__fp16": "float16", "_Float32": "float32", "_Float64": "float64",
    "__bf16": "bfloat16",
    "half": "float16", "__half": "float16", "half_t": "float16",
    "nv_bfloat16": "bfloat16", "__nv_bfloat16": "bfloat16", "bfloat16_t": "bfloat16",
    "hip_bfloat16": "bfloat16", "__hip_bfloat16": "bfloat16",
    "int8_t": "int8", "int16_t": "int16", "int32_t": "int32", "int64_t": "int64",
    "uint8_t": "uint8", "uint16_t": "uint16", "uint32_t": "uint32", "uint64_t": "uint64",
    "size_t": _BY_SIZE[_POINTER, False], "ssize_t": _BY_SIZE[_POINTER, True],
    "ptrdiff_t": _BY_SIZE[_POINTER, True], "intptr_t": _BY_SIZE[_POINTER, True],
    "uintptr_t": _BY_SIZE[_POINTER, False], "bool": "bool", "_Bool": "bool",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class CType:
    """A scalar, a pointer, or something that a kernel can't be called with."""

    spelled: str
    """For messages."""
    dtype: DType | None = None
    """Of a scalar; None for everything else."""
    const: bool = False
    pointee: CType | None = None


Typedefs = Mapping[str, CType | None]
"""Names that the sources define; None: defined in more than one way."""


def named_type(name: str, typedefs: Typedefs) -> CType:
    """The type that one word stands for."""
    if name in typedefs:
        known = typedefs[name]
        return known if known is not None else CType(f"{name} (defined in more than one way)")
    return CType(name, dtype=_NAMED.get(name) or _arithmetic([name]))


def _arithmetic(words: Iterable[str]) -> DType | None:
    """The type that `unsigned`, `long`, `int` and the like spell together, in any order."""
    words = sorted(words)
    signed = "unsigned" not in words
    rest = [word for word in words if word not in {"signed", "unsigned"}]
    plain = [word for word in rest if word != "int"]
    if len(words) - len(rest) > 1 or len(rest) - len(plain) > 1 or not words:
        return None
    match plain:
        case []:
            return _BY_SIZE[4, signed]
        case ["short"]:
            return _BY_SIZE[2, signed]
        case ["long"]:
            return _BY_SIZE[_LONG, signed]
        case ["long", "long"]:
            return _BY_SIZE[8, signed]
        case ["char"] if len(rest) < len(words) and plain == rest:
            return _BY_SIZE[1, signed]  # without a sign, the machine decides what char is
        case _:
            return None


def base_type(node: Node, typedefs: Typedefs) -> CType:
    """The type before the declarator: of a parameter, a typedef or a C++ type descriptor."""
    specifier = node.child_by_field_name("type")
    qualifiers = [text_of(child) for child in node.children if child.type == "type_qualifier"]
    if specifier is None:
        return CType(text_of(node))
    match specifier.type:
        case "primitive_type" | "type_identifier":
            found = named_type(text_of(specifier), typedefs)
        case "sized_type_specifier":
            words = [text_of(leaf) for leaf in _leaves(specifier)]
            qualifiers += [word for word in words if word == "const"]
            spelled = [word for word in words if word not in {"const", "volatile"}]
            found = CType(" ".join(spelled), dtype=_arithmetic(spelled))
        case "qualified_identifier":
            found = named_type(text_of(specifier.child_by_field_name("name")), typedefs)
        case _:
            found = CType(text_of(specifier).partition("{")[0].strip())
    return replace(found, const=True) if "const" in qualifiers else found


def _leaves(node: Node) -> list[Node]:
    return [below for below in descendants(node, bodies=True) if not below.children]


_MAX_NESTING = 16
"""Stars and brackets around one name; a kernel's parameters have one or two."""


def declared(node: Node | None, base: CType, depth: int = 0) -> tuple[str, CType]:
    """Follow a declarator from the outside in: the name it declares, and that name's type."""
    if node is None:
        return "", base
    if depth > _MAX_NESTING:
        return "?", CType("too deep a type")
    depth += 1
    inner = node.child_by_field_name("declarator")
    match node.type:
        case "pointer_declarator" | "abstract_pointer_declarator":
            const = any(text_of(c) == "const" for c in node.children if c.type == "type_qualifier")
            return declared(inner, CType(f"{base.spelled} *", const=const, pointee=base), depth)
        case "array_declarator" | "abstract_array_declarator":
            return declared(inner, CType(f"{base.spelled} *", pointee=base), depth)
        case "parenthesized_declarator" | "abstract_parenthesized_declarator":
            children = [child for child in node.named_children if child.type != "type_qualifier"]
            return declared(children[0] if children else None, base, depth)
        case "identifier" | "type_identifier" | "primitive_type":
            return text_of(node), base
        case "function_declarator" | "abstract_function_declarator":
            return declared(inner, CType("function"), depth)
        case "reference_declarator" | "abstract_reference_declarator":
            named = node.named_children[-1] if node.named_children else None
            return declared(named, CType(f"{base.spelled} &"), depth)
        case _:
            return "", CType(text_of(node))
