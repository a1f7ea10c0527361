"""Four elements at once: what may be read and written so, and the code that does it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tree_sitter import Node

from roofsmith.proposers.edits import SourceEdit, apply_edits
from roofsmith.proposers.recipes.cuda._strides import Elements
from roofsmith.proposers.source import CFunction
from roofsmith.proposers.syntax import assigned, assignment_of, text_of, walk

WIDTH = 4
_VECTORS = {"float": "float4", "int": "int4", "unsigned int": "uint4", "unsigned": "uint4"}

_NONE: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Stream:
    """An element `A[offset + j]` that iteration `j` touches."""

    element: str
    """With the variable written `@`."""
    base: str
    """The address of the one for 0, as C text."""
    type: str
    const: bool
    loads: bool
    stores: bool

    @property
    def vector_type(self) -> str:
        """CUDA's name for four elements."""
        return _VECTORS[self.type]

    def vector(self, at: str) -> str:
        """Four elements in memory, as C text."""
        const = "const " if self.const else ""
        return f"reinterpret_cast<{const}{self.vector_type}*>({self.base})[{at}]"


def streams_of(kernel: CFunction, elements: Elements) -> list[Stream] | None:
    """All that the body touches in memory; None if some of it can't be read four at once."""
    found = []
    targets = list(assigned(elements.parent))
    changed = {
        text_of(next(walk(target, "identifier")))
        for target in targets
        if elements.holds(target) and any(walk(target, "identifier"))
    }
    changed |= elements.declared
    for element in elements.elements:
        array, _, index = element[:-1].partition("[")
        kind = kernel.kinds.get(array, "")
        type = re.sub(r"\b(const|static|__restrict__|__restrict)\b|\*.*", "", kind).strip()
        type = kernel.elements.get(type, type)
        offset = _offset(index)
        names = set(re.findall(r"(?<![.\w])[A-Za-z_]\w*", offset or ""))
        if kind.count("*") != 1 or type not in _VECTORS or offset is None or names & changed:
            return None
        if array in elements.declared or array in kernel.mutated:
            return None
        nodes = elements.nodes(element)
        written = [node for node in nodes if node in targets]
        whole = [
            p for s in elements.direct if (p := assignment_of(s)) and p[1] == "=" and p[0] in nodes
        ]
        loads = len(written) < len(nodes) or not whole or len(whole) < len(written)
        base = f"{array} + {offset}" if offset else array
        found.append(Stream(element, base, type, "const" in kind, loads, bool(written)))
    inside = sum(len(elements.nodes(stream.element)) for stream in found)
    if not found or inside != elements.mentions or "&" in elements.text.replace("&&", ""):
        return None  # the variable is used for something else, or an address is taken
    return found


def _offset(index: str) -> str | None:
    """`e` of `e+@` or `@+e`; empty for `@` alone; None for anything else."""
    if index == "@":
        return ""
    offset = index.removesuffix("+@") if index.endswith("+@") else index.removeprefix("@+")
    plain = re.fullmatch(r"[\w.*+()\-/ ]+", offset) is not None and offset != index
    return offset if plain and offset.count("(") == offset.count(")") else None


def aligned(streams: Sequence[Stream]) -> str:
    """A condition: whether vectors of all streams lie on their boundaries."""
    addresses = " | ".join(
        f"(size_t)({base})" for base in dict.fromkeys(stream.base for stream in streams)
    )
    return f"({addresses}) % {4 * WIDTH} == 0"


def at_once(
    elements: Elements, streams: Sequence[Stream], at: str, held: Mapping[str, str] = _NONE
) -> list[str]:
    """Four iterations, with what they touch in small arrays, which the compiler keeps in
    registers.

    Args:
        elements: what one iteration does.
        streams: all that it touches.
        at: which four, counted in vectors.
        held: elements that are in registers already, to the address of the first of the four.
    """
    edits, loads, stores = list[tuple[Node, str]](), list[str](), list[str]()
    for number, stream in enumerate(streams):
        vector, name = stream.vector_type, f"rs_{number}"
        if stream.element in held:
            edits += [
                (n, f"({held[stream.element]})[rs_u]") for n in elements.nodes(stream.element)
            ]
            continue
        edits += [(node, f"{name}[rs_u]") for node in elements.nodes(stream.element)]
        loads.append(f"alignas({4 * WIDTH}) {stream.type} {name}[{WIDTH}];")
        place = stream.vector(at)
        if stream.loads:
            loads.append(f"*reinterpret_cast<{vector}*>({name}) = {place};")
        if stream.stores:
            stores.append(f"{place} = *reinterpret_cast<{vector}*>({name});")
    body = apply_edits(
        elements.text,
        [
            SourceEdit(
                node.start_byte - elements.start_byte, node.end_byte - elements.start_byte, text
            )
            for node, text in edits
        ],
    )
    turn = f"for (int rs_u = 0; rs_u < {WIDTH}; rs_u++) {{"
    return [*loads, "#pragma unroll", turn, body, "}", *stores]
