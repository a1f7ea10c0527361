"""Columns in CUDA: a thread has neighbouring sums, and walks along what is reduced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from roofsmith.computation.building import ONE
from roofsmith.proposers.schedules import c_values as c
from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.c_writer import block, indented
from roofsmith.proposers.schedules.cuda.folds import CudaFold
from roofsmith.proposers.schedules.cuda.maps import THREADS, lanes, vector_stores
from roofsmith.proposers.schedules.cuda.rows import ONLINE, without
from roofsmith.proposers.schedules.cuda.vectors import Vectors, vectors_of
from roofsmith.proposers.schedules.cuda.writer import (
    CudaSource,
    GridPart,
    KernelNames,
    launched,
    sizes_text,
)
from roofsmith.proposers.schedules.groups import Axis, Group, Reduced, Scanned, Stored
from roofsmith.proposers.schedules.lowering import NoSchedule
from roofsmith.proposers.schedules.passes import Pass, online_sums, passes

Lines = list[str]
WHOLE = 16
"""Turns up to which a loop is unrolled altogether. Chosen."""
DOWN = """\
// What the threads of a column have, made one for each of them, always in the same order.
template <int VEC, typename T, typename Join>
__device__ void joined_down(T (&values)[VEC], Join join) {
    __shared__ T parts[32 * DEEP * VEC];
    const int me = threadIdx.y * blockDim.x + threadIdx.x, all = blockDim.x * blockDim.y;
    __syncthreads();  // nobody reads what was joined before
    #pragma unroll
    for (int lane = 0; lane < VEC; lane++) {
        parts[lane * all + me] = values[lane];
    }
    __syncthreads();
    #pragma unroll
    for (int lane = 0; lane < VEC; lane++) {
        values[lane] = parts[lane * all + threadIdx.x];
        for (int y = 1; y < blockDim.y; y++) {
            values[lane] = join(values[lane], parts[lane * all + y * blockDim.x + threadIdx.x]);
        }
    }
}"""


@dataclass
class ColumnNest:
    """Writes the kernel of one group whose outer axis is contiguous."""

    file: CudaSource
    group: Group
    fast: Axis
    vectors: Vectors
    shared: Axis | None
    """The inner axis that threads of a column share; None: each column has one thread."""
    part: bool = False
    """Whether a block has only `begin` to `end` of that axis."""
    bounds: tuple[str, ...] = ()
    """Of a scan by parts: lines that say where a thread's part begins and ends."""
    totals: e.Read | None = None
    """What each of its parts adds up to; the first index numbers them."""
    online: dict[str, Reduced] = field(default_factory=dict)
    """Sums of exponentials by the maximum that they are less, in the same pass."""
    names: KernelNames = field(default_factory=KernelNames)

    @property
    def outer(self) -> list[str]:
        return [axis.name for axis in self.group.outer if axis != self.fast]

    @property
    def inner(self) -> tuple[Axis, ...]:
        """Axes to reduce along, the shared one first."""
        rest = tuple(axis for axis in self.group.inner if axis != self.shared)
        return rest if self.shared is None else (self.shared, *rest)

    @property
    def length(self) -> str:
        return self.vectors.length

    def lines(self) -> Lines:
        """All passes over a column."""
        one_by_one, after = passes(self.group)
        self.online = online_sums(self.group)
        one_by_one = without(one_by_one, self.online) if self.online else one_by_one
        held: dict[str, str] = {}
        lines: Lines = []
        for one in one_by_one:
            lines += self._pass(one, held)
        return lines + self._after(after, held)

    def _at(self, name: str) -> str:
        return f"{name}[$lane]" if self.vectors.width > 1 or self.shared is not None else name

    def _declared(self, kind: str, name: str, start: str) -> Lines:
        if self.vectors.width == 1 and self.shared is None:
            return [f"{kind} {name} = {start};"]
        return [
            f"{kind} {name}[{self.length}];",
            "#pragma unroll",
            f"for (int $lane = 0; $lane < {self.length}; $lane++) {name}[$lane] = {start};",
        ]

    def _lanes(self, inner: Sequence[str]) -> Lines:
        if self.vectors.width == 1 and self.shared is not None:
            return ["constexpr int $lane = 0;", *inner] if inner else []
        return lanes(self.vectors, inner)

    def _pass(self, one: Pass, held: dict[str, str]) -> Lines:
        file, vectors = self.file, self.vectors
        names = [*self.outer, *(axis.name for axis in self.inner)]
        loops = [*names, self.fast.name]
        first = len(self.outer)
        reads = {part for step in one.steps for part in e.walk(step.value)}
        loading = {read: name for read, name in vectors.reads.items() if read in reads}
        staged = {read: f"{name}.at[$lane]" for read, name in loading.items()}
        known = {name: (text, len(loops)) for name, text in held.items()}
        lines: Lines = []
        after: Lines = []
        inner: Lines = []
        before: Lines = []
        behind: Lines = []
        between: list[Lines] = [[] for _ in range(len(loops) + 1)]
        for step in one.steps:
            body = file.body(loops, first, known, staged, self.names)
            if isinstance(step, Stored):
                index = e.flat(step.index, step.shape)
                texts = body.write([step.value], [index])
                parts = vector_stores(file, self.group, vectors, body, [step], texts)
                before += parts[0]
                inner += [*body.lines[-1], *parts[1]]
                behind += parts[2]
            elif isinstance(step, Reduced | Scanned):
                fold = CudaFold.of(step)
                fold.needs(file.extra, team=False)
                (text,) = body.write([step.value])
                inner += body.lines[-1]
                if fold.is_compared and not text.isidentifier():
                    name = f"{file.prefix}{next(self.names.count)}"
                    inner.append(f"const {fold.type} {name} = {text};")
                    text = name
                if fold.is_place and len(self.inner) > 1:
                    raise NoSchedule("a place among several axes")
                lines += self._declared(fold.type, fold.name, fold.start)
                lines += self._carried(fold)
                if (total := self.online.get(fold.name)) is not None:
                    summed = CudaFold.of(total)
                    lines += self._declared(summed.type, summed.name, summed.start)
                    names_of = self._at(fold.name), self._at(summed.name)
                    inner.append(f"add_online({text}, {names_of[0]}, {names_of[1]});")
                    after += self._joined_online(fold, summed)
                    held[total.name] = names_of[1]
                else:
                    inner.append(fold.element(text, self.inner[0].name, self._at(fold.name)))
                shown = fold.named(self._at(fold.name))
                known[step.name] = (shown, len(loops))
                if isinstance(step, Reduced):
                    held[step.name] = shown
                    if self.shared is not None and fold.name not in self.online:
                        file.extra.setdefault("down", DOWN)
                        after.append(f"joined_down<{self.length}>({fold.name}, {fold.join});")
            else:
                raise NoSchedule("a sort among columns")
            for at in range(first, len(loops)):
                between[at] += body.lines[at]
        for read in loading:
            body = file.body(loops, first, known, {}, self.names)
            body.write([], vectors.beside([read]))
            for at in range(first, len(loops)):
                between[at] += body.lines[at]
            inside = max((names.index(n) + 1 for n in self._names(read) if n in names), default=0)
            between[max(inside, first)] += vectors.load(file, body, read)
        walk = [*before, *self._lanes(inner), *behind]
        for at in reversed(range(len(self.inner))):
            walk = [*between[first + at + 1], *walk]
            axis = self.inner[at]
            size = c.size_text(axis.size)
            begin, end, step_text = "0", size, f"{axis.name}++"
            if axis == self.shared:
                begin, step_text = "threadIdx.y", f"{axis.name} += blockDim.y"
                if self.part:
                    begin, end = "$begin + threadIdx.y", "$end"
            elif self.bounds:
                begin, end = "$begin", "$end"
            head = f"for (ptrdiff_t {axis.name} = {begin}; {axis.name} < {end}; {step_text})"
            turns = axis.size.constant
            unroll = ["#pragma unroll"] if turns is not None and turns <= WHOLE else []
            if not unroll and at == len(self.inner) - 1:
                unroll = ["#pragma unroll 4"]
            walk = [*unroll, *block(head, walk)]
        walk = [*between[first], *walk]
        if self.shared is not None:
            walk = ["if ($inside) {", *indented(walk), "}"]
        return [*lines, *walk, *after]

    def _joined_online(self, top: CudaFold, total: CudaFold) -> Lines:
        """A column's maximum, and its sum of exponentials less that."""
        self.file.extra.setdefault("online", ONLINE)
        total.needs(self.file.extra, team=False)
        if self.shared is None:
            return []
        self.file.extra.setdefault("down", DOWN)
        mine, turns = f"$own_{top.name}", f"for (int $lane = 0; $lane < {self.length}; $lane++)"
        return [
            f"{top.type} {mine}[{self.length}];",
            "#pragma unroll", f"{turns} {mine}[$lane] = {top.name}[$lane];",
            f"joined_down<{self.length}>({top.name}, {top.join});",
            "#pragma unroll",
            *block(turns, [
                f"if ({mine}[$lane] != {top.name}[$lane])",
                f"    {total.name}[$lane] *= expf({mine}[$lane] - {top.name}[$lane]);",
            ]),
            f"joined_down<{self.length}>({total.name}, {total.join});",
        ]  # fmt: skip

    def _carried(self, fold: CudaFold) -> Lines:
        """Totals of the parts before this one."""
        if self.totals is None:
            return []
        loops = [*self.outer, self.fast.name]
        body = self.file.body(loops, len(self.outer), names=self.names)
        index = e.flat(self.totals.index, self.totals.shape)
        body.write([], [index])
        mine, part = self._at(fold.name), self.group.outer[0].name
        line = f"{mine} = {fold.join}({mine}, {self.totals.buffer}[{body.index(index)}]);"
        head = f"for (ptrdiff_t $earlier_part = 0; $earlier_part < {part}; $earlier_part++)"
        return block(head, self._lanes([line]))

    def _names(self, read: e.Read) -> frozenset[str]:
        index = e.Position("int64", e.flat(read.index, read.shape))
        found = e.names_in(index, self.file.places)
        for conditions, _ in self.vectors.guards.get(read, ()):
            for one in conditions:
                for size in (one.index, one.low, one.high):
                    found |= size.dims if size is not None else frozenset()
        return found

    def _after(self, steps: Sequence[Stored], held: dict[str, str]) -> Lines:
        """What is stored once for each column."""
        if not steps:
            return []
        file, vectors = self.file, self.vectors
        loops = [*self.outer, self.fast.name]
        reads = {part for step in steps for part in e.walk(step.value)}
        loading = {read: name for read, name in vectors.reads.items() if read in reads}
        known = {name: (text, len(loops)) for name, text in held.items()}
        staged = {read: f"{name}.at[$lane]" for read, name in loading.items()}
        body = file.body(loops, len(self.outer), known, staged, self.names)
        indices = [e.flat(step.index, step.shape) for step in steps]
        more = vectors.beside(loading)
        texts = body.write([step.value for step in steps], [*indices, *more])
        loads = [line for read in loading for line in vectors.load(file, body, read)]
        declared, inner, behind = vector_stores(file, self.group, vectors, body, steps, texts)
        inner = self._lanes([*body.lines[-1], *inner])
        lines = [*body.lines[-2], *loads, *declared, *inner, *behind]
        if self.shared is None:
            return lines
        return ["if ($inside && threadIdx.y == 0) {", *indented(lines), "}"]


def write_columns(file: CudaSource, group: Group, fast: Axis, shared: Axis | None) -> None:
    nest = ColumnNest(file, group, fast, vectors_of(file, group, fast), shared)
    is_window = shared is None and not any(isinstance(one, Scanned) for one in group.steps)
    name = file.kernel_name(group, "windows" if is_window else "columns")
    host: Lines = []
    each = nest.vectors.chosen(host)
    if shared is None:
        write_alone(nest, name, host, each)
    else:
        _write_shared(nest, name, host, each)


def write_alone(nest: ColumnNest, name: str, host: Lines, each: str) -> None:
    """A kernel whose columns have one thread each, and its launch."""
    file, group, fast = nest.file, nest.group, nest.fast
    axes = [axis for axis in group.outer if axis.size != ONE and axis != fast]
    slow = axes[-1] if axes else None
    threads = file.tunable("THREADS", 256, THREADS, "Of a block that maps elements.")
    begin = begun(nest.vectors)
    inside = f"{nest.vectors.first} >= {c.size_text(fast.size)}"
    if slow is None:
        shape = threads
        parts = [GridPart(fast, threads if each == "1" else f"{each} * {threads}", (begin,))]
    else:
        shape, width = "$shape", c.size_text(fast.size)
        if each != "1":
            host.append(f"const ptrdiff_t $span = {c.wrapped(width)} / {each};")
            width = "$span"
        file.used.add("block_for")
        host.append(f"const dim3 $shape = block_for({width}, {threads});")
        made = f"const ptrdiff_t {slow.name} = (ptrdiff_t)NUMBER * blockDim.y + threadIdx.y;"
        parts = [
            GridPart(fast, "$shape.x" if each == "1" else f"{each} * $shape.x", (begin,)),
            GridPart(slow, "$shape.y", (made,)),
        ]
        inside += f" || {slow.name} >= {c.size_text(slow.size)}"
    parts += [GridPart(axis) for axis in reversed(axes[:-1])]
    lines, given, more, grid = file.shares(parts)
    lines += [f"if ({inside}) return;", *file.ones(group.outer), *nest.bounds, *nest.lines()]
    given += [("ptrdiff_t", "$depth")] if nest.bounds else []
    template = "int VEC" if nest.vectors.width > 1 else ""
    arguments = file.add(name, group, lines, template=template, given=given)
    host += more
    kernel = nest.vectors.instance(name, host)
    file.block([*host, launched(kernel, grid, shape, arguments)])


def _write_shared(nest: ColumnNest, name: str, host: Lines, each: str) -> None:
    arguments, grid, more = shared_kernel(nest, name, each)
    host += more
    kernel = nest.vectors.instance(name, host)
    nest.file.block([*host, launched(kernel, grid, "$shape", arguments)])


def shared_kernel(
    nest: ColumnNest, name: str, each: str, first: Sequence[str] = (),
    given_before: Sequence[tuple[str, str]] = (),
) -> tuple[list[str], str, Lines]:  # fmt: skip
    """A kernel whose columns have several threads each: arguments, grid and the host's lines."""
    file, group, fast = nest.file, nest.group, nest.fast
    deep = file.tunable("DEEP", 8, (4, 8, 16, 32), "Threads that share a column.")
    assert deep == "DEEP"
    axes = [axis for axis in group.outer if axis != fast and axis.size != ONE]
    tile = "$shape.x" if each == "1" else f"{each} * $shape.x"
    begin = begun(nest.vectors)
    parts = [GridPart(fast, tile, (begin,)), *(GridPart(axis) for axis in reversed(axes))]
    lines, given, more, grid = file.shares(parts)
    width = c.size_text(fast.size) if each == "1" else f"{sizes_text(fast.size)} / {each}"
    more.insert(0, f"const dim3 $shape = column_block({width});")
    file.used.add("column_block")
    lines += [
        f"const bool $inside = {nest.vectors.first} < {c.size_text(fast.size)};",
        *file.ones(group.outer), *first, *nest.lines(),
    ]  # fmt: skip
    template = "int VEC" if nest.vectors.width > 1 else ""
    every = [*given, *given_before]
    arguments = file.add(name, group, lines, template=template, given=every)
    return arguments, grid, more


def begun(vectors: Vectors) -> str:
    """The variable of a thread's first element, in the tile `NUMBER`."""
    if vectors.width == 1:
        return f"const ptrdiff_t {vectors.first} = (ptrdiff_t)NUMBER * blockDim.x + threadIdx.x;"
    return (
        f"const ptrdiff_t {vectors.first} = ((ptrdiff_t)NUMBER * blockDim.x + threadIdx.x) * VEC;"
    )
