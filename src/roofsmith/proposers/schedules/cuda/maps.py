"""Maps in CUDA: a thread has neighbours in memory, a block a piece of one or two axes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from roofsmith.computation.building import ONE
from roofsmith.proposers.schedules import c_values as c
from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.c_writer import block
from roofsmith.proposers.schedules.cuda.body import CudaBody
from roofsmith.proposers.schedules.cuda.vectors import Vectors, vectors_of
from roofsmith.proposers.schedules.cuda.writer import CudaSource, GridPart, KernelNames, launched
from roofsmith.proposers.schedules.groups import Group, Stored
from roofsmith.proposers.schedules.strides import vector_axis

Lines = list[str]
THREADS = (128, 256, 512, 1024)


def write_map(file: CudaSource, group: Group) -> None:
    """A kernel of stores alone."""
    axes = [axis for axis in group.outer if axis.size != ONE]
    if not axes:
        _write_one(file, group)
        return
    fast = vector_axis(group, file.places) or axes[-1]
    slow = next((axis for axis in reversed(axes) if axis != fast), None)
    others = [axis for axis in reversed(axes) if axis not in (fast, slow)]
    vectors = vectors_of(file, group, fast)
    name = file.kernel_name(group, "map")
    threads = file.tunable("THREADS", 256, THREADS, "Of a block that maps elements.")
    own = fast.name
    begin = f"const ptrdiff_t {vectors.first} = " + (
        "((ptrdiff_t)NUMBER * blockDim.x + threadIdx.x) * VEC;" if vectors.width > 1
        else "(ptrdiff_t)NUMBER * blockDim.x + threadIdx.x;"
    )  # fmt: skip
    host: Lines = []
    each = vectors.chosen(host)
    width = c.size_text(fast.size)
    if each != "1" and slow is not None:
        host.append(f"const ptrdiff_t $span = {c.wrapped(width)} / {each};")
        width = "$span"
    inside = f"{vectors.first} >= {c.size_text(fast.size)}"
    if slow is None:
        tile = threads if each == "1" else f"{each} * {threads}"
        parts = [GridPart(fast, tile, (begin,))]
        threads_text = threads
    else:
        file.used.add("block_for")
        host.append(f"const dim3 $shape = block_for({width}, {threads});")
        tile = "$shape.x" if each == "1" else f"{each} * $shape.x"
        parts = [
            GridPart(fast, tile, (begin,)),
            GridPart(slow, "$shape.y", (
                f"const ptrdiff_t {slow.name} = (ptrdiff_t)NUMBER * blockDim.y + threadIdx.y;",
            )),
        ]  # fmt: skip
        inside += f" || {slow.name} >= {c.size_text(slow.size)}"
        threads_text = "$shape"
    lines, given, more, grid = file.shares([*parts, *(GridPart(axis) for axis in others)])
    lines += [f"if ({inside}) return;", *file.ones(group.outer)]
    lines += elements(file, group, vectors, [a.name for a in group.outer if a.name != own])
    template = "int VEC" if vectors.width > 1 else ""
    arguments = file.add(name, group, lines, template=template, given=given)
    host += more
    kernel = vectors.instance(name, host)
    file.block([*host, launched(kernel, grid, threads_text, arguments)])


def _write_one(file: CudaSource, group: Group) -> None:
    name = file.kernel_name(group, "map")
    body = file.body([axis.name for axis in group.outer], len(group.outer))
    lines = [*file.ones(group.outer), *stores_of(file, body_steps(group), body)]
    arguments = file.add(name, group, lines)
    file.block([launched(name, "1", "1", arguments)])


def body_steps(group: Group) -> list[Stored]:
    return [step for step in group.steps if isinstance(step, Stored)]


def stores_of(file: CudaSource, steps: Sequence[Stored], body: CudaBody) -> Lines:
    """Values, and then all stores, so that none is overwritten before it is read."""
    indices = [e.flat(step.index, step.shape) for step in steps]
    texts = body.write([step.value for step in steps], indices)
    lines = [line for part in body.lines for line in part]
    return lines + stored(file, steps, texts, body)


def stored(
    file: CudaSource, steps: Sequence[Stored], texts: Sequence[str], body: CudaBody,
    vectors: Mapping[int, str] | None = None,
) -> Lines:  # fmt: skip
    """Stores of values that `body` has written, or the lanes of vectors by steps' numbers."""
    lines: Lines = []
    texts = list(texts)
    if len(steps) > 1:
        for at, step in enumerate(steps):
            if not texts[at].replace("_", "").isalnum():
                name = f"{step.buffer}_new"
                lines.append(f"const {c.computed(step.value.dtype)} {name} = {texts[at]};")
                texts[at] = name
    for at, step in enumerate(steps):
        target = f"{step.buffer}[{body.index(e.flat(step.index, step.shape))}]"
        if vectors and at in vectors:
            target = f"{vectors[at]}.at[$lane]"
        lines.append(f"{target} = {file.narrowed(step.buffer, texts[at])};")
    return lines


def elements(file: CudaSource, group: Group, vectors: Vectors, outer: Sequence[str]) -> Lines:
    """One vector of elements: loads, the loop over its elements, stores."""
    steps, own = body_steps(group), vectors.axis.name
    kernel = KernelNames()
    body = file.body(
        [*outer, own], len(outer), staged={r: f"{n}.at[$lane]" for r, n in vectors.reads.items()},
        names=kernel,
    )  # fmt: skip
    indices = [e.flat(step.index, step.shape) for step in steps]
    texts = body.write([step.value for step in steps], [*indices, *vectors.beside(vectors.reads)])
    loads = [line for read in vectors.reads for line in vectors.load(file, body, read)]
    declared, inner, after = vector_stores(file, group, vectors, body, steps, texts)
    inner = lanes(vectors, [*body.lines[-1], *inner])
    return [*body.lines[-2], *loads, *declared, *inner, *after]


def vector_stores(
    file: CudaSource, group: Group, vectors: Vectors, body: CudaBody, steps: Sequence[Stored],
    texts: Sequence[str],
) -> tuple[Lines, Lines, Lines]:  # fmt: skip
    """Declarations of vectors, what a lane stores of written values, and what stores vectors."""
    numbers = {id(step): at for at, step in enumerate(group.steps)}
    kept = {
        at: vectors.stores[numbers[id(step)]] for at, step in enumerate(steps)
        if numbers[id(step)] in vectors.stores
    }  # fmt: skip
    declared: Lines = []
    behind: Lines = []
    for at, name in kept.items():
        step = steps[at]
        declared.append(f"Vector<{file.storage(step.buffer)}, VEC> {name};")
        place = body.index(vectors.at(e.flat(step.index, step.shape)))
        file.used.add("store")
        behind.append(f"store({step.buffer} + {c.wrapped(place)}, {name});")
    return declared, stored(file, steps, texts, body, kept), behind


def lanes(vectors: Vectors, inner: Sequence[str]) -> Lines:
    """The loop over a vector's elements."""
    if vectors.width == 1:
        return list(inner)
    own = vectors.axis.name
    named = any(own in c_words(line) for line in inner)
    first = [f"const ptrdiff_t {own} = {vectors.first} + $lane;"] if named else []
    return ["#pragma unroll", *block("for (int $lane = 0; $lane < VEC; $lane++)", [*first, *inner])]


def c_words(line: str) -> set[str]:
    """Names in a statement."""
    return set(re.findall(r"[A-Za-z_]\w*", line))
