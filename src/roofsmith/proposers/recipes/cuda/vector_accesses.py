"""Four neighbouring elements in one load or store."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tree_sitter import Node

from roofsmith.proposers.cards import Card, CardChange, CardContext
from roofsmith.proposers.costs import amdahl
from roofsmith.proposers.edits import SourceEdit, apply_edits
from roofsmith.proposers.recipes._gemm import indented
from roofsmith.proposers.recipes.cuda._kernels import (
    CudaFile,
    KernelLaunch,
    cuda_file,
    declared,
    split_arguments,
)
from roofsmith.proposers.recipes.cuda._strides import (
    Elements,
    is_grid_index,
    made_of_thread,
    strided_loops,
)
from roofsmith.proposers.source import CFunction
from roofsmith.proposers.syntax import (
    assigned,
    assignment_of,
    identifiers,
    indent_of,
    statements,
    text_of,
    walk,
)

WIDTH = 4
_VECTORS = {"float": "float4", "int": "int4", "unsigned int": "uint4", "unsigned": "uint4"}


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


def apply(context: CardContext) -> CardChange | None:
    """Take four elements a turn where they lie on a 16-byte boundary, and the rest one by one."""
    file = cuda_file(context)
    if "rs_whole" in file.text:
        return None
    edits = {
        kernel.name: list(_in_loops(file, kernel)) or _in_one_step(file, kernel)
        for kernel in file.kernels
    }
    names = ", ".join(f"`{name}`" for name, found in edits.items() if found)
    if not names:
        return None
    said = f"Read and write {WIDTH} elements at once in {names}"
    return file.edited(context, [edit for found in edits.values() for edit in found], said)


def _in_loops(file: CudaFile, kernel: CFunction) -> Iterator[SourceEdit]:
    for loop in strided_loops(file, kernel):
        found = _streams_of(kernel, loop) if loop.is_plain and loop.is_in_turn else None
        if not found:
            continue
        name, kind = loop.variable, loop.kind
        lines = [
            "{",
            f"const {kind} rs_whole = {_aligned(found)} ? ({loop.end}) / {WIDTH} : 0;",
            f"for ({kind} rs_v = {loop.start}; rs_v < rs_whole; rs_v += {loop.step}) {{",
            *_at_once(loop, found, "rs_v"),
            "}",
            f"for ({kind} {name} = {WIDTH} * rs_whole + ({loop.start}); {name} < {loop.end}; "
            f"{name} += {loop.step})",
            loop.text,
            "}",
        ]
        text = indented("\n".join(lines), indent_of(loop.node, file.text)).lstrip()
        yield SourceEdit.replace(loop.node, text)


def _in_one_step(file: CudaFile, kernel: CFunction) -> list[SourceEdit]:
    """A kernel whose threads have one element each, and then a quarter as many blocks."""
    parts = statements(kernel.body)
    test = next((part for part in parts if part.type == "if_statement"), None)
    condition = None if test is None else test.child_by_field_name("condition")
    body = None if test is None else test.child_by_field_name("consequence")
    if test is None or condition is None or body is None or test.child_by_field_name("alternative"):
        return []
    compared = re.fullmatch(r"\(\s*(\w+)\s*(<|>=)\s*(\w+)\s*\)", text_of(condition))
    if compared is None:
        return []
    name, sign, end = compared.groups()
    before, after = parts[: parts.index(test)], parts[parts.index(test) + 1 :]
    leaves = re.fullmatch(r"\{?\s*return\s*;\s*\}?", text_of(body)) is not None
    if leaves != (sign == ">=") or leaves != bool(after) or end in kernel.mutated:
        return []
    work = after if leaves else [body]
    if not is_grid_index(file, kernel, name):
        return []
    elements = Elements(tuple(work), name)
    moved = made_of_thread(file, kernel, test, "block|grid")
    names = (moved | made_of_thread(file, kernel, test, "thread")) - {name}
    acting = [part for part in before if part.type != "declaration"]
    if (
        re.search(r"\b(block|thread|grid)(Idx|Dim)\b", elements.text)
        or any(identifiers(part) & names for part in work)
        or any(identifiers(part) & (moved | {"blockIdx", "gridDim"}) for part in acting)
    ):
        return []  # what a thread of the smaller grid is would be another
    found = _streams_of(kernel, elements) if elements.is_plain else None
    launches = [launch for launch in file.launches if launch.kernel == kernel]
    sizes = [_blocks(launch) for launch in launches]
    if not found or None in sizes:
        return []
    kind = re.sub(rf"\b(const|{name})\b", "", kernel.kinds[name]).strip()
    lines = [
        f"const bool rs_whole = {_aligned(found)} && {WIDTH} * {name} + {WIDTH - 1} < {end};",
        "if (rs_whole) {",
        *_at_once(elements, found, name),
        "} else {",
        f"for (int rs_u = 0; rs_u < {WIDTH}; rs_u++) {{",
        f"const {kind} rs_at = {WIDTH} * {name} + rs_u;",
        f"if (rs_at < {end}) {{",
        f"const {kind} {name} = rs_at;",
        elements.text,
        *("}", "}", "}"),
    ]
    block = indented("\n".join(lines), indent_of(test, file.text)).lstrip()
    start, stop = test.start_byte, parts[-1].end_byte
    return [
        SourceEdit(start, stop, block),
        *(
            SourceEdit(
                launch.grid_start,
                launch.grid_start + len(launch.grid.encode()),
                f"({size} + {WIDTH - 1}) / {WIDTH}",
            )
            for launch, size in zip(launches, sizes, strict=True)
        ),
    ]


def _blocks(launch: KernelLaunch) -> str | None:
    """The blocks of a grid as one number, in C text; None where it may have more dimensions."""
    grid, body = launch.grid, text_of(launch.caller.body)
    if not re.fullmatch(r"\w+", grid):
        return None if "dim3" in grid or "," in grid else f"({grid})"
    if "dim3" not in body or re.search(rf"\b(int|unsigned|long|\w+_t)\s+{grid}\b", body):
        return f"({grid})"
    given = [re.fullmatch(r"(?:dim3\s*)?[({](.*)[)}]", one, re.DOTALL)
             for one in declared(launch.caller, grid)]  # fmt: skip
    flat = [one for one in given if one and set(split_arguments(one.group(1))[1:]) <= {" 1", "1"}]
    return f"{grid}.x" if len(given) == len(flat) == 1 else None


def _streams_of(kernel: CFunction, elements: Elements) -> list[Stream] | None:
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


def _aligned(streams: Sequence[Stream]) -> str:
    """A condition: whether vectors of all streams lie on their boundaries."""
    addresses = " | ".join(
        f"(size_t)({base})" for base in dict.fromkeys(stream.base for stream in streams)
    )
    return f"({addresses}) % {4 * WIDTH} == 0"


def _at_once(elements: Elements, streams: Sequence[Stream], at: str) -> list[str]:
    """Four iterations, with what they touch in small arrays, which the compiler keeps in
    registers; `at` says which four, counted in vectors."""
    edits, loads, stores = list[tuple[Node, str]](), list[str](), list[str]()
    for number, stream in enumerate(streams):
        vector, name = stream.vector_type, f"rs_{number}"
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


def predict(context: CardContext) -> float:
    """Fewer instructions for the same bytes: a little where memory is busy, more where it isn't."""
    return amdahl(context, 0.1 if context.bottleneck.kind == "memory" else 0.15, WIDTH)


CARD = Card(
    id="vector-accesses",
    title="Four elements in one load",
    category="vectorisation",
    answers=frozenset(("memory", "latency", "compute")),
    rationale="Sixteen bytes a thread keep more bytes in flight for each instruction and each "
    "address, which is what the memory's latency asks for.",
    expected_counter="global_load_requests",
    expected_change="down to a quarter",
    instruction="LDG.128",
    source="NVIDIA, CUDA Pro Tip: Increase Performance with Vectorized Memory Access, 2013; "
    "CUDA C++ Programming Guide, Device Memory Accesses",
    apply=apply,
    predict=predict,
    languages=frozenset(("cuda", "hip")),
)
