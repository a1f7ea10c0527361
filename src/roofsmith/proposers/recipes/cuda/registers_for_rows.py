"""Keep in registers what several loops of a block read of the same row."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from roofsmith.proposers.cards import Card, CardChange, CardContext
from roofsmith.proposers.costs import amdahl
from roofsmith.proposers.edits import SourceEdit, apply_edits
from roofsmith.proposers.recipes._gemm import indented
from roofsmith.proposers.recipes.cuda._kernels import CudaFile, cuda_file
from roofsmith.proposers.recipes.cuda._strides import StridedLoop, strided_loops
from roofsmith.proposers.recipes.cuda._vectors import WIDTH, Stream, aligned, at_once, streams_of
from roofsmith.proposers.source import CFunction
from roofsmith.proposers.syntax import assigned, indent_of, text_of, walk

MAX_HELD = 32
"""Elements that a thread keeps: a multiprocessor has 32 registers for each of 2048 threads (CUDA
C++ Programming Guide, Compute Capabilities), so that still half of them are resident."""


@dataclass(frozen=True, slots=True)
class HeldRow:
    """Sibling loops of a kernel that all read the same elements."""

    kernel: CFunction
    loops: tuple[StridedLoop, ...]
    element: str
    """The type of an element."""
    text: str
    """The element as it is read, with the loop's variable written `@`, blanks left out."""
    held: int
    """Elements of each thread."""
    is_wide: bool
    """The length is a multiple of four in every workload."""


def apply(context: CardContext) -> CardChange | None:
    """Fill registers in the first loop, and read them in the others; longer rows are read again."""
    file = cuda_file(context)
    if "rs_row" in file.text:
        return None
    row = next((row for kernel in file.kernels for row in _rows(file, kernel, context)), None)
    if row is None:
        return None
    first = row.loops[0].node
    indent = indent_of(first, file.text)
    edits = [
        SourceEdit.replace(
            loop.node, indented(_code(row, loop, is_first=loop is row.loops[0]), indent).lstrip()
        )
        for loop in row.loops
    ]
    lines = ", ".join(str(loop.node.start_point[0] + 1) for loop in row.loops)
    return file.edited(
        context,
        edits,
        f"Read a row once and keep {row.held} elements a thread in registers for the loops at "
        f"lines {lines} of `{row.kernel.name}`",
    )


def _rows(file: CudaFile, kernel: CFunction, context: CardContext) -> Iterator[HeldRow]:
    threads = file.threads(kernel)
    groups: dict[tuple[object, ...], list[StridedLoop]] = {}
    for loop in strided_loops(file, kernel):
        block = loop.node.parent
        if loop.is_plain and block is not None:
            groups.setdefault((block.id, loop.start, loop.end, loop.step), []).append(loop)
    for loops in groups.values():
        lengths = file.sizes(kernel, loops[0].end, context)
        if len(loops) < 2 or threads is None or not lengths or loops[0].step_size != threads:
            continue
        held = -(-max(lengths) // threads)
        texts = [text for text in loops[0].elements if _is_kept(kernel, text, loops)]
        for text in texts:
            element = re.sub(
                r"\b(const|__restrict__|static)\b|\*.*", "", kernel.kinds[text.split("[")[0]]
            ).strip()
            using = tuple(loop for loop in loops if text in loop.elements)
            if (
                len(using) > 1
                and 1 <= held <= MAX_HELD
                and re.fullmatch(r"(?!auto)[\w ]+", element)
            ):
                is_wide = all(length % WIDTH == 0 for length in lengths)
                yield HeldRow(kernel, using, element, text, held, is_wide)


def _is_kept(kernel: CFunction, text: str, loops: list[StridedLoop]) -> bool:
    """Whether an element can't change between the loops: it is constant, its place is, and no loop
    but the last writes to an array that may be the same."""
    base, _, index = text.partition("[")
    kind = kernel.kinds.get(base, "")
    names = {*re.findall(r"(?<![.\w])[A-Za-z_]\w*", index), base}
    if kind.count("*") != 1 or "const" not in kind or names & kernel.mutated:
        return False
    first, last = loops[0].node.start_byte, loops[-1].node.start_byte
    return not any(
        target.type != "identifier"
        and first <= target.start_byte < last
        and "*" in kernel.kinds.get(next((text_of(n) for n in walk(target, "identifier")), ""), "")
        for target in assigned(kernel.body)
    )


def _code(row: HeldRow, loop: StridedLoop, *, is_first: bool) -> str:
    touched = [streams_of(row.kernel, each) if each.is_in_turn else None for each in row.loops]
    found = touched[row.loops.index(loop)]
    if not row.is_wide or found is None or None in touched:
        return "\n".join(_one_by_one(row, loop, is_first=is_first))
    return "\n".join(_four_by_four(row, loop, found, is_first=is_first))


def _one_by_one(row: HeldRow, loop: StridedLoop, *, is_first: bool) -> list[str]:
    name = loop.variable
    edits = [
        SourceEdit(
            node.start_byte - loop.start_byte, node.end_byte - loop.start_byte, "rs_row[rs_i]"
        )
        for node in loop.nodes(row.text)
    ]
    return [
        *([f"{row.element} rs_row[{row.held}];"] if is_first else []),
        "#pragma unroll",
        f"for (int rs_i = 0; rs_i < {row.held}; rs_i++) {{",
        f"const {loop.kind} {name} = ({loop.start}) + rs_i * ({loop.step});",
        f"if ({name} < {loop.end}) {{",
        *([f"rs_row[rs_i] = {row.text.replace('@', name)};"] if is_first else []),
        apply_edits(loop.text, edits),
        *("}", "}"),
        f"for ({loop.kind} {name} = ({loop.start}) + {row.held} * ({loop.step}); "
        f"{name} < {loop.end}; {name} += {loop.step})",
        loop.text,
    ]


def _four_by_four(
    row: HeldRow, loop: StridedLoop, streams: list[Stream], *, is_first: bool
) -> list[str]:
    """Rows whose length isn't a multiple of four are read as before."""
    vectors = -(-row.held // WIDTH)
    kept = next(stream for stream in streams if stream.element == row.text)
    here = f"rs_row + {WIDTH} * rs_i"
    size = WIDTH * vectors
    others = [stream for stream in streams if stream != kept]
    first = [
        f"alignas({4 * WIDTH}) {kept.type} rs_row[{size}];",
        f"const bool rs_fits = {aligned(streams)} && ({loop.end}) % {WIDTH} == 0 && "
        f"({loop.end}) <= {size} * ({loop.step});",
    ]
    load = f"*reinterpret_cast<{kept.vector_type}*>({here}) = {kept.vector('rs_v')};"
    test = f" && {aligned(others)}" if others and not is_first else ""
    return [
        *(first if is_first else []),
        f"if (rs_fits{test}) {{",
        "#pragma unroll",
        f"for (int rs_i = 0; rs_i < {vectors}; rs_i++) {{",
        f"const {loop.kind} rs_v = ({loop.start}) + rs_i * ({loop.step});",
        f"if ({WIDTH} * rs_v < {loop.end}) {{",
        *([load] if is_first else []),
        *at_once(loop, streams, "rs_v", {row.text: here}),
        *("}", "}", "} else {"),
        text_of(loop.node),
        "}",
    ]


def predict(context: CardContext) -> float:
    """The second read of what doesn't stay in a cache; where rows do, a fraction of the time."""
    return amdahl(context, 0.3 if context.bottleneck.kind == "memory" else 0.15, 2.0)


CARD = Card(
    id="registers-instead-of-second-read",
    title="A row is read once, and kept in registers",
    category="memory_access",
    answers=frozenset(("memory", "latency")),
    rationale="Every pass over a row loads it again, from a cache at best; a thread needs the same "
    "few elements each time, and has registers for them.",
    expected_counter="global_load_requests",
    expected_change="down by the passes after the first",
    source="NVIDIA, CUDA C++ Best Practices Guide, Memory Optimizations; Volkov, Better "
    "Performance at Lower Occupancy, GTC 2010",
    apply=apply,
    predict=predict,
    languages=frozenset(("cuda", "hip")),
)
