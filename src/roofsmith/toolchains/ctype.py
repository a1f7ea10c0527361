"""C types, as far as a kernel's parameters are made of them."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterable, Mapping
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
_PACKED_NAMED: Mapping[str, DType] = {
    "half2": "float16", "__half2": "float16", "nv_bfloat162": "bfloat16",
    "__nv_bfloat162": "bfloat16", "__hip_bfloat162": "bfloat16",
    "__m128": "float32", "__m256": "float32", "__m512": "float32",
    "__m128d": "float64", "__m256d": "float64", "__m512d": "float64",
    "complex_float": "float32", "complex_double": "float64",
    "cuComplex": "float32", "cuFloatComplex": "float32", "cuDoubleComplex": "float64",
    "hipComplex": "float32", "hipFloatComplex": "float32", "hipDoubleComplex": "float64",
}  # fmt: skip
"""Several numbers of one type each."""
_VECTOR: Mapping[str, str] = {
    "float": "float", "double": "double", "char": "int8_t", "uchar": "uint8_t",
    "short": "int16_t", "ushort": "uint16_t", "int": "int32_t", "uint": "uint32_t",
    "longlong": "int64_t", "ulonglong": "uint64_t",
}  # fmt: skip
_PACKED: tuple[tuple[re.Pattern[str], Callable[[str], DType]], ...] = (
    (re.compile(rf"({'|'.join(_VECTOR)})[1-4]"), lambda found: _NAMED[_VECTOR[found]]),
    (re.compile(r"complex *< *(float|double) *>"), lambda found: _NAMED[found]),
    (re.compile(r"__(?:nv|hip)_fp8_(e\w+)"), lambda _: _NAMED["uint8_t"]),
)
"""Vectors of CUDA and HIP, complex numbers of C++, and 8-bit floats, which are taken as bits."""
_COMPLEX = re.compile(
    r"\b(?:(float|double)[ \t]+(?:complex|_Complex|__complex__)\b(?=[ \t]*[\w*])"
    r"|(?:complex|_Complex|__complex__)[ \t]+(float|double)\b)"
)


def one_word_complex(text: str) -> str:
    """A text of C whose complex types are words that the grammar takes for names of types."""
    return _COMPLEX.sub(lambda found: f"complex_{found[1] or found[2]}", text)


@dataclass(frozen=True, slots=True)
class CType:
    """A scalar, a pointer, or something that a kernel can't be called with."""

    spelled: str
    """For messages."""
    dtype: DType | None = None
    """Of a scalar, or of all numbers in what `is_packed`; None for everything else."""
    const: bool = False
    pointee: CType | None = None
    is_array: bool = False
    """As a parameter it is a pointer to its first element, arrays in arrays laid out flat."""
    is_packed: bool = False
    """Numbers of one type side by side, or bits that stand for one: a pointer to them is one to
    these, but they can't be passed by value."""

    @property
    def element(self) -> CType:
        """What lies side by side in an array; any other type itself."""
        return self.pointee if self.is_array and self.pointee is not None else self

    def as_const(self) -> CType:
        """The same with `const` before it, which an array passes on to its elements."""
        if self.is_array:
            return replace(self, pointee=replace(self.element, const=True))
        return replace(self, const=True)


Typedefs = Mapping[str, CType | None]
"""Names that the sources define; None: defined in more than one way."""


def named_type(name: str, typedefs: Typedefs) -> CType:
    if name in typedefs:
        known = typedefs[name]
        return known if known is not None else CType(f"{name} (defined in more than one way)")
    if dtype := _packed(name):
        return CType(name, dtype=dtype, is_packed=True)
    return CType(name, dtype=_NAMED.get(name) or _arithmetic([name]))


def _packed(name: str) -> DType | None:
    for pattern, dtype in _PACKED:
        if found := pattern.fullmatch(name):
            return dtype(found[1])
    return _PACKED_NAMED.get(name)


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
            words = [text_of(n) for n in descendants(specifier, bodies=True) if not n.children]
            qualifiers += [word for word in words if word == "const"]
            spelled = [word for word in words if word not in {"const", "volatile"}]
            found = CType(" ".join(spelled), dtype=_arithmetic(spelled))
        case "qualified_identifier":
            found = named_type(text_of(specifier).rpartition("::")[2], typedefs)
        case "struct_specifier" | "class_specifier":
            found = struct(specifier, typedefs)
        case _:
            found = CType(text_of(specifier).partition("{")[0].strip())
    return found.as_const() if "const" in qualifiers else found


def struct(specifier: Node, typedefs: Typedefs) -> CType:
    """A struct, known by its members or by its tag: packed if they are of one number type."""
    spelled = text_of(specifier).partition("{")[0].strip()
    body = specifier.child_by_field_name("body")
    if body is None:
        return typedefs.get(spelled) or CType(spelled)
    members = [
        declared(declarator, base_type(field, typedefs))[1].element
        for field in body.named_children
        if field.type == "field_declaration"
        for declarator in field.children_by_field_name("declarator")
    ]
    dtypes = {None if member.pointee else member.dtype for member in members}
    return CType(spelled, dtype=dtypes.pop() if len(dtypes) == 1 else None, is_packed=True)


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
            pointer = CType(f"{base.spelled} *", const=const, pointee=base.element)
            return declared(inner, pointer, depth)
        case "array_declarator" | "abstract_array_declarator":
            array = CType(f"{base.spelled} *", pointee=base.element, is_array=True)
            return declared(inner, array, depth)
        case "parenthesized_declarator" | "abstract_parenthesized_declarator":
            children = [child for child in node.named_children if child.type != "type_qualifier"]
            return declared(children[0] if children else None, base, depth)
        case "identifier" | "type_identifier" | "field_identifier" | "primitive_type":
            return text_of(node), base
        case "function_declarator" | "abstract_function_declarator":
            return declared(inner, CType("function"), depth)
        case "reference_declarator" | "abstract_reference_declarator":
            named = node.named_children[-1] if node.named_children else None
            return declared(named, CType(f"{base.spelled} &"), depth)
        case _:
            return "", CType(text_of(node))
