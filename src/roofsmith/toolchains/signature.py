"""Reads the parameters of a kernel's entry function from its sources, with tree-sitter.

Contract: `void solve(const T *in, ..., T *out, ..., int N, ...)`, with C linkage. Pointers to const
are inputs, other pointers are outputs; numbers are passed by value.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tree_sitter import Node

from roofsmith.domain.kernel import MODULE_LANGUAGES, Candidate, Language, Parameter, Signature
from roofsmith.errors import SignatureError
from roofsmith.toolchains.ctype import CType, base_type, declared, one_word_complex, struct
from roofsmith.toolchains.gpu_dialect import DEVICE_ENTRY
from roofsmith.toolchains.grammar import descendants, has_c_linkage, parse, storage, text_of
from roofsmith.toolchains.preprocess import Preprocessed, preprocess

_CONTRACT = (
    "write it as void {entry}(const T *input, ..., T *output, ..., int N, ...): arrays as "
    "pointers (const for inputs), numbers by value, nothing else"
)
_SHOWN_CHARS = 160
"""How much of a parameter's text a message shows."""
_LISTED = 12
"""Functions that the message about a missing entry names at most."""


@dataclass(frozen=True, slots=True)
class _Function:
    name: str
    read: Preprocessed
    declarator: Node
    owner: Node
    """The definition or declaration around it; an ERROR node where the text is broken."""
    defined: bool

    @property
    def place(self) -> str:
        return self.read.place(self.declarator.start_point.row)


def read_signature(candidate: Candidate) -> Signature:
    """The parameters of `candidate.entry`, in order.

    Raises:
        SignatureError: the function is missing, static, without C linkage, or has a parameter
            outside the contract; names file, line and parameter.
        ToolMissingError: there is no compiler to preprocess with.
        StorageError: the compiler's copy can't be written.
    """
    cpp = candidate.language != "c"
    whole = preprocess(candidate)
    root = parse(one_word_complex(whole.text), cpp=cpp).root_node
    named = _named(candidate.entry, whole, root)
    definitions = [f for f in named if f.defined]
    if not definitions:
        raise _missing(candidate, whole, root, declared=named)
    _check_linkage(definitions[0], named, cpp=cpp)
    typedefs = _typedefs(root)
    read = {f.place: _parameters(f, typedefs) for f in definitions}
    first = next(iter(read.values()))
    if any(parameters != first for parameters in read.values()):
        raise SignatureError(
            f"{candidate.entry} is defined in more than one way: {', '.join(read)}",
            hint="keep one definition, or choose one with a macro in the build flags (-D)",
        )
    return Signature(entry=candidate.entry, parameters=first)


def entry_in(language: Language, text: str) -> str:
    """The function of a kernel's file that is meant where nobody says which.

    `solve`, or the only one that may be called from outside, takes an array and isn't called by
    another; where none is so, the only one there is. Nothing is preprocessed: whoever reads the
    signature says what is wrong with that one.
    """
    usual = Candidate.model_fields["entry"].default
    if language in MODULE_LANGUAGES or language == "command":
        return str(usual)
    cpp = language != "c"
    root = parse(text, cpp=cpp).root_node
    read = Preprocessed(text, (), "")
    found = {f.name: f for f in _functions(read, root, bodies=False) if f.defined}
    called = {
        (f.name, text_of(call.child_by_field_name("function")))
        for f in found.values()
        for call in descendants(f.owner, bodies=True)
        if call.type == "call_expression"
    }
    inner = {callee for caller, callee in called if caller != callee}
    outer = {
        name: text_of(f.declarator.child_by_field_name("parameters"))
        for name, f in found.items()
        if not {"static", DEVICE_ENTRY} & set(storage(f.owner)) and name not in {*inner, "main"}
    }
    arrays = [name for name, parameters in outer.items() if {"*", "["} & {*parameters}]
    linked = [name for name in arrays if not cpp or has_c_linkage(found[name].owner)]
    left = linked or arrays or [*outer]
    return str(usual) if usual in found or len(left) != 1 else left[0]


def _named(entry: str, read: Preprocessed, root: Node) -> list[_Function]:
    """Every declaration and definition of the entry.

    Function bodies are searched only if need be: broken text may have made a body of the rest.
    """
    for bodies in (False, True):
        named = [
            function for function in _functions(read, root, bodies=bodies) if function.name == entry
        ]
        if any(function.defined for function in named):
            break
    return named


def _functions(read: Preprocessed, root: Node, *, bodies: bool) -> Iterator[_Function]:
    for node in descendants(root, bodies=bodies):
        if node.type != "function_declarator":
            continue
        name = node.child_by_field_name("declarator")
        owner = node.parent
        while owner is not None and owner.type in {"pointer_declarator", "reference_declarator"}:
            owner = owner.parent
        if name is None or owner is None or name.type not in {"identifier", "primitive_type"}:
            continue
        if owner.type in {"function_definition", "declaration", "ERROR"}:
            following = node.next_sibling
            defined = owner.type == "function_definition" or (
                owner.type == "ERROR"
                and following is not None
                and following.type in {"{", "compound_statement"}
            )
            yield _Function(text_of(name), read, node, owner, defined)


def _missing(
    candidate: Candidate, read: Preprocessed, root: Node, declared: Sequence[_Function]
) -> SignatureError:
    entry = candidate.entry
    functions = _functions(read, root, bodies=False)
    found = list(dict.fromkeys(f"{f.name} ({f.place})" for f in functions if f.defined))
    listed = ", ".join(found[:_LISTED]) + (", ..." if len(found) > _LISTED else "")
    where = " or ".join(dict.fromkeys([candidate.kernel.path, *(p for p, _ in read.lines)]))
    if read.complaint:
        what = f"{candidate.kernel.path} can't be preprocessed: {read.complaint}"
    elif declared:
        what = f"{declared[0].place}: {entry} is declared but has no body that can be read"
    else:
        what = f"{where}: no function named {entry}"
    return SignatureError(
        f"{what}; functions found: {listed or 'none'}",
        hint=f"define void {entry}(...) in {candidate.kernel.path}, not through a macro with "
        "arguments, or name another: `--entry NAME`, `entry` in a target",
    )


def _check_linkage(function: _Function, named: Sequence[_Function], *, cpp: bool) -> None:
    if any(DEVICE_ENTRY in storage(f.owner) for f in named):
        raise SignatureError(
            f"{function.place}: {function.name} is a __global__ function, which only a launch can "
            "call",
            hint=f'write extern "C" void {function.name}(...) for the host, and launch the kernel '
            "in it",
        )
    if any("static" in storage(f.owner) for f in named):
        raise SignatureError(
            f"{function.place}: {function.name} is static, so it can't be called from outside",
            hint=f"remove `static` from {function.name}; helpers may stay static",
        )
    if cpp and not any(has_c_linkage(f.owner) for f in named):
        raise SignatureError(
            f'{function.place}: {function.name} is not extern "C", so its name is mangled',
            hint=f'write extern "C" void {function.name}(...)',
        )
    returned = function.owner.child_by_field_name("type")
    by_pointer = function.declarator.parent != function.owner
    if by_pointer or (returned is not None and _is_value(returned)):
        raise SignatureError(
            f"{function.place}: {function.name} returns "
            f"`{text_of(returned)}{' *' if by_pointer else ''}`; it must return void",
            hint="write results to an output array",
        )


def _is_value(returned: Node) -> bool:
    """Whether a return type is surely not void; an unknown word may be a macro of a header."""
    if returned.type == "sized_type_specifier":
        return True
    return returned.type == "primitive_type" and text_of(returned) != "void"


def _typedefs(root: Node) -> dict[str, CType | None]:
    """Every `typedef`, `using X = T` and struct outside of function bodies.

    They are read twice: a typedef may name a struct before its members are told.
    """
    structs: dict[str, CType | None] = {}
    for _ in range(2):
        known = dict(structs)
        for node in descendants(root, bodies=False):
            if tag := _defined_tag(node):
                both = dict.fromkeys((tag, f"struct {tag}"), struct(node, known))
                structs |= both
                known |= both
            for name, ctype in _definitions(node, known):
                same = known.get(name, ctype)
                known[name] = ctype if same is not None and _alike(same, ctype) else None
    return known


def _defined_tag(node: Node) -> str:
    """The name of a struct whose members are here; empty for everything else."""
    if node.type != "struct_specifier" or node.child_by_field_name("body") is None:
        return ""
    return text_of(node.child_by_field_name("name"))


def _definitions(node: Node, known: dict[str, CType | None]) -> Iterator[tuple[str, CType]]:
    match node.type:
        case "type_definition":
            base = base_type(node, known)
            for declarator in node.children_by_field_name("declarator"):
                yield declared(declarator, base)
        case "alias_declaration":
            descriptor = node.child_by_field_name("type")
            if descriptor is not None:
                base = base_type(descriptor, known)
                _, ctype = declared(descriptor.child_by_field_name("declarator"), base)
                yield text_of(node.child_by_field_name("name")), ctype
        case _:
            return


def _alike(one: CType, other: CType) -> bool:
    if one.pointee is not None and other.pointee is not None:
        return one.const == other.const and _alike(one.pointee, other.pointee)
    return replace(one, spelled="") == replace(other, spelled="")


def _parameters(function: _Function, typedefs: dict[str, CType | None]) -> tuple[Parameter, ...]:
    listed = function.declarator.child_by_field_name("parameters")
    nodes = listed.named_children if listed is not None else []
    numbered = enumerate((n for n in nodes if not _is_void(n)), start=1)
    found = [_parameter(function, number, node, typedefs) for number, node in numbered]
    if problems := [one for one in found if isinstance(one, str)]:
        raise SignatureError("; ".join(problems), hint=_CONTRACT.format(entry=function.name))
    read = tuple(one for one in found if isinstance(one, Parameter))
    if all(parameter.role != "output" for parameter in read):
        raise SignatureError(
            f"{function.place}: {function.name} has no output: no parameter is a pointer to "
            "something that isn't const",
            hint=_CONTRACT.format(entry=function.name),
        )
    return read


def _is_void(node: Node) -> bool:
    return text_of(node).strip() == "void"


def _parameter(
    function: _Function, number: int, node: Node, typedefs: dict[str, CType | None]
) -> Parameter | str:
    """A parameter, or why it doesn't fit the contract."""
    place = function.read.place(node.start_point.row)
    spelled = textwrap.shorten(text_of(node), _SHOWN_CHARS)
    said = f"{place}: parameter {number} of {function.name}, `{spelled}`, "
    readable = node.type in {"parameter_declaration", "optional_parameter_declaration"}
    if not readable or node.has_error:
        return f"{said}can't be read"
    name, ctype = declared(node.child_by_field_name("declarator"), base_type(node, typedefs))
    if problem := _problem(name, ctype):
        return f"{said}{problem}"
    element = ctype.pointee or ctype
    assert element.dtype is not None  # _problem saw to it
    if ctype.pointee is None:
        return Parameter(name=name, role="size", dtype=element.dtype)
    return Parameter(name=name, role="input" if element.const else "output", dtype=element.dtype)


def _problem(name: str, ctype: CType) -> str | None:
    """Why a parameter doesn't fit the contract; None if it does."""
    if not name:
        return "has no name, so no input can be matched with it"
    if ctype.pointee is not None:
        if ctype.pointee.pointee is not None:
            return "is a pointer to pointers; pass one flat array"
        if ctype.pointee.dtype is None:
            return _unknown(ctype.pointee, "points to")
        return None
    if ctype.dtype is None:
        return _unknown(ctype, "is")
    if ctype.is_packed:
        return f"is a `{ctype.spelled}` by value; pass a pointer to it, or its parts as numbers"
    if ctype.dtype in ("float16", "bfloat16"):
        return f"is a {ctype.spelled} by value; write float"
    return None


def _unknown(ctype: CType, verb: str) -> str:
    if ctype.spelled == "char":
        return f"{verb} char, whose sign differs between machines; write int8_t or uint8_t"
    if ctype.spelled.endswith("&"):
        return "is a reference; pass arrays as pointers and numbers by value"
    if ctype.is_packed:
        return (
            f"{verb} `{ctype.spelled}`, whose members aren't of one number type; pass an array each"
        )
    return f"{verb} `{ctype.spelled}`, which is not a number type known here"
