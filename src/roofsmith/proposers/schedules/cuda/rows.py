"""Rows in CUDA: a team of threads, a warp or a block, reduces along what lies in one piece."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from roofsmith.computation.building import ONE
from roofsmith.computation.sizes import Size, elements
from roofsmith.proposers.schedules import c_values as c
from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.c_writer import block, indented
from roofsmith.proposers.schedules.cuda.folds import CudaFold
from roofsmith.proposers.schedules.cuda.maps import c_words, stores_of, vector_stores
from roofsmith.proposers.schedules.cuda.vectors import Vectors, guards_of, local
from roofsmith.proposers.schedules.cuda.writer import CudaSource, KernelNames
from roofsmith.proposers.schedules.demand import CALLS
from roofsmith.proposers.schedules.groups import Axis, Group, Reduced, Stored
from roofsmith.proposers.schedules.lowering import NoSchedule
from roofsmith.proposers.schedules.passes import Pass, online_sums, passes

Lines = list[str]


@dataclass
class RowNest:
    """Writes the kernels of one group that reduces along a contiguous axis."""

    file: CudaSource
    group: Group
    fast: Axis
    vectors: Vectors
    part: Axis | None = None
    """The inner axis of which a block has only `begin` to `end`."""
    kept: dict[e.Read, str] = field(default_factory=dict)
    """What is loaded once for several passes."""
    online: dict[str, Reduced] = field(default_factory=dict)
    """Sums of exponentials by the maximum that they are less, in the same pass."""
    costly: tuple[e.Expression, int, e.Read] | None = None
    """What the pass of that number computes and keeps, and what stands for it in later ones."""
    inverted: frozenset[str] = frozenset()
    """Sums of exponentials of which one is 1: a product with their inverses is as good."""
    names: KernelNames = field(default_factory=KernelNames)

    @property
    def loops(self) -> tuple[Axis, ...]:
        """Inner axes around the fast one."""
        return tuple(axis for axis in self.group.inner if axis != self.fast)

    @property
    def outer(self) -> list[str]:
        return [axis.name for axis in self.group.outer]

    def lines(self, *, in_registers: bool) -> Lines:
        """All passes over a row, by its team."""
        self.names = KernelNames()
        one_by_one, after = passes(self.group)
        held: dict[str, tuple[str, int]] = {}
        self.online = online_sums(self.group)
        self.inverted = frozenset(total.name for total in self.online.values())
        self.costly = self._costly(one_by_one) if in_registers else None
        lines = self._kept_lines() if in_registers else []
        self.online = {} if in_registers else self.online
        if self.online:
            one_by_one = without(one_by_one, self.online)
        for at, one in enumerate(one_by_one):
            lines += self._pass(one, held, at, in_registers)
        return lines + self._after(after, held)

    def _costly(self, one_by_one: Sequence[Pass]) -> tuple[e.Expression, int, e.Read] | None:
        """What several passes compute at most cost, if it fits where its operands were."""
        found: dict[e.Expression, list[int]] = {}
        for at, one in enumerate(one_by_one):
            for value in {part for step in one.steps for part in e.walk(step.value)}:
                is_costly = isinstance(value, e.Operation) and value.op in CALLS
                if is_costly and value.dtype == "float32" and self.kept.keys() & {*e.walk(value)}:
                    found.setdefault(value, []).append(at)
        several = [value for value, ats in found.items() if len(ats) > 1]
        if not several:
            return None
        value = max(several, key=lambda one: sum(1 for _ in e.walk(one)))
        name = local(self.file, "kept", {*self.kept.values(), *self.vectors.stores.values()})
        own = Size.of(self.fast.name)
        costly = value, found[value][0], e.Read("float32", name, (own,), (self.fast.size,))
        later = [
            self._written(step.value, at, costly) for at, one in enumerate(one_by_one)
            for step in one.steps if at > costly[1]
        ]  # fmt: skip
        needed = {part for one in later for part in e.walk(one)}
        return None if needed & {*e.walk(value)} & self.kept.keys() else costly

    def _written(
        self, value: e.Expression, at: int, costly: tuple[e.Expression, int, e.Read] | None
    ) -> e.Expression:
        """A step's value as pass `at` has it: what is kept is read, and quotients are products."""

        def change(part: e.Expression) -> e.Expression:
            if costly is not None and at > costly[1] and part == costly[0]:
                return costly[2]
            match part:
                case e.Operation(op="div", args=(one, e.Held(name=name) as total)) if (
                    name in self.inverted
                ):
                    inverse = e.Operation(part.dtype, "div", (e.Number(part.dtype, 1.0), total))
                    return e.Operation(part.dtype, "mul", (one, inverse))
            return part

        return e.rewritten(value, change)

    def _kept_lines(self) -> Lines:
        """Loads of all that stays in registers, before anything waits for one of them."""
        lines: Lines = []
        inner: Lines = []
        body = self.file.body([*self.outer, self.fast.name], len(self.outer), names=self.names)
        for read, name in self.kept.items():
            kind = self.file.storage(read.buffer)
            lines.append(f"Vector<{kind}, VEC> {name}[ITEMS];")
        if self.costly is not None:
            lines.append(f"Vector<float, VEC> {self.costly[2].buffer}[ITEMS];")
        whole = [read for read in self.kept if read in self.vectors.reads]
        single = {r: e.flat(r.index, r.shape) for r in self.kept if r not in whole}
        body.write([], [*self.vectors.beside(whole), *single.values()])
        for read in whole:
            self.file.used.add("load")
            at = body.index(self.vectors.at(e.flat(read.index, read.shape)))
            place = f"{read.buffer} + {at}" if at != "0" else read.buffer
            inner.append(f"{self.kept[read]}[$item] = load<VEC>({place});")
        apart = [
            f"{self.kept[read]}[$item].at[$lane] = {read.buffer}[{body.index(index)}];"
            for read, index in single.items()
        ]
        if apart:
            inner += self._lanes([*body.lines[-1], *apart])
        lines += [line for part in body.lines[:-1] for line in part]
        return [*lines, *self._walk(inner, in_registers=True)]

    def _lanes(self, inner: Sequence[str]) -> Lines:
        own = self.fast.name
        named = any(own in c_words(line) for line in inner)
        first = [f"const ptrdiff_t {own} = {own}0 + $lane;"] if named else []
        head = "for (int $lane = 0; $lane < VEC; $lane++)"
        return ["#pragma unroll", *block(head, [*first, *inner])]

    def _walk(self, inner: Sequence[str], *, in_registers: bool) -> Lines:
        """The loop of a thread over its vectors."""
        own, size = self.fast.name, c.size_text(self.fast.size)
        if in_registers:
            return [
                "#pragma unroll",
                "for (int $item = 0; $item < ITEMS; $item++) {",
                f"    const ptrdiff_t {own}0 = (ptrdiff_t)($member + $item * $members) * VEC;",
                f"    if ({own}0 < {size}) {{",
                *indented(indented(inner)),
                "    }",
                "}",
            ]
        first, end = "(ptrdiff_t)$member * VEC", size
        if self.part == self.fast:
            first, end = f"$begin + {first}", "$end"
        head = f"for (ptrdiff_t {own}0 = {first}; {own}0 < {end}; {own}0 += $members * VEC)"
        return ["#pragma unroll 4", f"{head} {{", *indented(inner), "}"]

    def _pass(
        self, one: Pass, held: dict[str, tuple[str, int]], at: int, in_registers: bool
    ) -> Lines:
        file, first = self.file, len(self.outer)
        values = [self._written(step.value, at, self.costly) for step in one.steps]
        reads = {part for value in values for part in e.walk(value)}
        staged: dict[e.Read, str] = {}
        if in_registers:
            staged |= {read: f"{name}[$item].at[$lane]" for read, name in self.kept.items()}
        loading = {
            read: name for read, name in self.vectors.reads.items()
            if read in reads and read not in staged
        }  # fmt: skip
        staged |= {read: f"{name}.at[$lane]" for read, name in loading.items()}
        if self.costly is not None:
            staged[self.costly[2]] = f"{self.costly[2].buffer}[$item].at[$lane]"
            if at == self.costly[1]:
                values.append(self.costly[0])
        loops = [*self.outer, *(axis.name for axis in self.loops), self.fast.name]
        body = file.body(loops, first, held, staged, self.names)
        stores = [step for step in one.steps if isinstance(step, Stored)]
        folds = [(CudaFold.of(step), step) for step in one.steps if isinstance(step, Reduced)]
        if len(stores) + len(folds) < len(one.steps):
            raise NoSchedule("a scan beside a reduction")
        indices = [e.flat(step.index, step.shape) for step in stores]
        more = self.vectors.beside(loading)
        texts = body.write(values, [*indices, *more])
        said = dict(zip(map(id, one.steps), texts, strict=False))
        before: Lines = []
        for read in loading:
            before += self.vectors.load(file, body, read)
        inner = list(body.lines[-1])
        if self.costly is not None and at == self.costly[1]:
            inner.append(f"{staged[self.costly[2]]} = {texts[-1]};")
        lines, after = list(body.lines[first]) if self.loops else [], list[str]()
        for fold, step in folds:
            fold.needs(file.extra)
            lines.append(f"{fold.type} {fold.name} = {fold.start};")
            text = said[id(step)]
            if fold.is_compared and not text.isidentifier():
                name = f"{file.prefix}{next(self.names.count)}"
                inner.append(f"const {fold.type} {name} = {text};")
                text = name
            total = self.online.get(fold.name)
            if total is None:
                inner.append(fold.element(text, self.fast.name))
                after.append(fold.joined())
                continue
            summed = CudaFold.of(total)
            summed.needs(file.extra)
            file.extra.setdefault("online", ONLINE)
            lines.append(f"{summed.type} {summed.name} = {summed.start};")
            inner.append(f"add_online({text}, {fold.name}, {summed.name});")
            mine = f"$own_{fold.name}"
            after += [
                f"const {fold.type} {mine} = {fold.name};", fold.joined(),
                f"if ({mine} != {fold.name}) {summed.name} *= expf({mine} - {fold.name});",
                summed.joined(),
            ]  # fmt: skip
            held[total.name] = (summed.held, first)
        written = [said[id(step)] for step in stores]
        declared, last, behind = vector_stores(
            file, self.group, self.vectors, body, stores, written
        )
        lane = [*before, *declared, *self._lanes([*inner, *last]), *behind]
        walk = self._walk(lane, in_registers=in_registers)
        for at in reversed(range(len(self.loops))):
            axis = self.loops[at]
            begin, end = ("$begin", "$end") if axis == self.part else ("0", c.size_text(axis.size))
            head = f"for (ptrdiff_t {axis.name} = {begin}; {axis.name} < {end}; "
            walk = block(f"{head}{axis.name}++)", [*body.lines[first + at + 1], *walk])
        for fold, step in folds:
            held[step.name] = (fold.held, first)
        always = [] if self.loops else list(body.lines[first])
        return [*lines, *always, *walk, *after]

    def _after(self, steps: Sequence[Stored], held: dict[str, tuple[str, int]]) -> Lines:
        """What is stored once for each row, by one thread."""
        if not steps:
            return []
        body = self.file.body(self.outer, len(self.outer), held, names=self.names)
        return block("if ($member == 0)", stores_of(self.file, steps, body))

    def row_lines(self) -> Lines:
        """Which row a team has, and which part of it a thread."""
        axes = [axis for axis in self.group.outer if axis.size != ONE]
        lines = [
            "const int $members = TEAM ? TEAM : blockDim.x;",
            "const int $member = threadIdx.x % $members;",
        ]
        mine = "(ptrdiff_t)blockIdx.x * (blockDim.x / $members) + threadIdx.x / $members"
        if len(axes) == 1:
            (axis,) = axes
            lines += [f"const ptrdiff_t {axis.name} = {mine};"]
            lines.append(f"if ({axis.name} >= {c.size_text(axis.size)}) return;")
        elif axes:
            rows = c.size_text(elements(tuple(axis.size for axis in axes)))
            lines += [f"ptrdiff_t $rest = {mine};", f"if ($rest >= {rows}) return;"]
            for axis in reversed(axes[1:]):
                size = c.wrapped(c.size_text(axis.size))
                lines += [f"const ptrdiff_t {axis.name} = $rest % {size};", f"$rest /= {size};"]
            lines.append(f"const ptrdiff_t {axes[0].name} = $rest;")
        else:
            lines.append("if (threadIdx.x >= $members) return;")
        return [*lines, *self.file.ones(self.group.outer)]

    def kept_reads(self) -> dict[e.Read, str]:
        """What several passes read along the row."""
        if self.loops or self.part:
            return {}
        one_by_one, _ = passes(self.group)
        seen: dict[e.Read, int] = {}
        guards = guards_of(self.group, self.fast, self.file.program.places, set())
        for one in one_by_one:
            for part in {p for step in one.steps for p in e.walk(step.value)}:
                if not isinstance(part, e.Read) or guards.get(part) != ():
                    continue
                if self.fast.name in e.names_in(part, self.file.places):
                    seen[part] = seen.get(part, 0) + 1
        several = [read for read, count in seen.items() if count > 1]
        several.sort(key=lambda read: list(self.file.program.buffers).index(read.buffer))
        named: dict[e.Read, str] = {}
        for read in several:
            used = {*named.values(), *self.vectors.reads.values()}
            stem = f"{read.buffer}_in"
            named[read] = self.vectors.reads.get(read) or local(self.file, stem, used)
        return named


ONLINE = """\
// One more element of a maximum, and of the sum of exponentials of elements less the maximum.
__device__ void add_online(float value, float &top, float &sum) {
    if (value > top || value != value) {
        sum *= expf(top - value);
        top = value;
    }
    if (top != -INFINITY) sum += expf(value - top);
}"""


def without(one_by_one: Sequence[Pass], online: Mapping[str, Reduced]) -> tuple[Pass, ...]:
    """Passes without sums that another pass adds up."""
    sums = tuple(online.values())
    kept = (Pass(tuple(step for step in one.steps if step not in sums)) for one in one_by_one)
    return tuple(one for one in kept if one.steps)
