"""Products in CUDA: tiles in shared memory, anything elementwise before and after.

A product is a struct: what it reads, how elements of its factors are found, how sums are finished.
The kernels, which are templates of it, are the files beside this one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources

from roofsmith.computation.building import ONE, ZERO
from roofsmith.computation.sizes import Size, elements
from roofsmith.proposers.schedules import c_values as c
from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.c_writer import block, indented
from roofsmith.proposers.schedules.cuda.body import STORAGE
from roofsmith.proposers.schedules.cuda.writer import (
    CudaFile,
    KernelNames,
    bytes_of,
    commented,
    plain,
)
from roofsmith.proposers.schedules.groups import Axis, Group, Stored
from roofsmith.proposers.schedules.matrix_products import HALVES, TileProduct, product_of
from roofsmith.proposers.schedules.strides import coefficient, merged, substituted

Lines = list[str]
_NAME = re.compile(r"[A-Za-z_]\w*")
FILLED = 0.75
"""Part of the multiprocessors that have a tile, from which on larger tiles are faster. Chosen."""
RESERVED = frozenset((
    "Element", "Extents", "enter", "turn", "finish", "left_start", "left_stride", "left_value",
    "right_start", "right_stride", "right_value", "memory", "partial", "COUNT",
))  # fmt: skip


@dataclass(frozen=True)
class Engine:
    """A kernel, and the constants that it takes."""

    name: str
    texts: tuple[str, ...]
    vector: int
    """Neighbours that are stored at once."""
    tiles: tuple[tuple[int, int], ...]
    """Rows and columns, the largest first."""
    tunables: tuple[tuple[str, int, tuple[int, ...]], ...]
    fixed: tuple[str, ...]
    """Constants that follow from these."""


MMA_FIXED = ("THREADS = WARPS_M * WARPS_N * 32",)
_WARPS = (("WARPS_M", 2, (1, 2, 4)), ("WARPS_N", 2, (1, 2, 4)), ("RESIDENT", 2, (1, 2)),
          ("GROUP", 8, (1, 4, 8, 16)))  # fmt: skip
FFMA = Engine(
    "ffma", ("tiles", "ffma"), 4, ((128, 128), (128, 64), (64, 64)),
    (("BLOCK_K", 8, (8, 16)), ("GROUP", 8, (1, 4, 8, 16))),
    ("THREADS = BLOCK_M / 32 * (BLOCK_N / 64) * 32",),
)  # fmt: skip
_MMA_TILES = ((128, 128), (128, 64), (64, 64), (32, 64), (32, 32))
SINGLE = Engine(
    "mma", ("tiles", "copies", "mma", "mma_single", "split", "mma_float", "mma_kernel"), 2,
    _MMA_TILES, (("BLOCK_K", 16, (16, 32)), ("STAGES", 2, (2, 3, 4, 5)), *_WARPS), MMA_FIXED,
)  # fmt: skip
HALF = Engine(
    "mma", ("tiles", "copies", "mma", "mma_half", "mma_16", "mma_kernel"), 2,
    _MMA_TILES, (("BLOCK_K", 32, (32, 64)), ("STAGES", 4, (2, 3, 4, 5)), *_WARPS), MMA_FIXED,
)  # fmt: skip


def write_product(file: CudaFile, group: Group) -> bool:
    """The kernel of a contraction and its launch; False where it is none for tiles.

    Values have the types of the arrays, 16-bit floats among them.
    """
    group = merged(group, file.program.places)
    found = product_of(group, file.places, file.wanted.most)
    if found is None or _is_unfit(file, found):
        return False
    engine = _engine(found)
    writer = ProductWriter(file, group, found, engine)
    text = writer.text()
    for name in engine.texts:
        file.extra.setdefault(name, kernel_text(name))
    file.kernels.append(text)
    file.has_products = True
    file.block(writer.launch())
    return True


def _is_unfit(file: CudaFile, found: TileProduct) -> bool:
    """Where names clash, or a store reads what another of them has stored."""
    stored = {one.buffer for one in found.stores}
    again = len(found.stores) > 1 and any(
        isinstance(one, e.Read) and one.buffer in stored
        for store in found.stores for one in e.walk(store.value)
    )  # fmt: skip
    named = {*file.program.buffers, *file.numbers, *file.program.places.ranges}
    return again or bool(named & RESERVED) or not found.stores


def _engine(found: TileProduct) -> Engine:
    """Tensor cores, but for float32 that may be infinite: its rest would be no number."""
    if not found.is_single:
        return HALF
    numbers = [
        one.value for side in (found.left, found.right) for one in e.walk(side)
        if isinstance(one, e.Number)
    ]  # fmt: skip
    return FFMA if any(math.isinf(one) for one in numbers) else SINGLE


class ProductWriter:
    """Writes one product."""

    def __init__(self, file: CudaFile, group: Group, found: TileProduct, engine: Engine) -> None:
        self.file, self.group, self.found, self.engine = file, group, found, engine
        self.name = file.kernel_name(group, "product")
        self.element = STORAGE[found.left.dtype]
        self.width = 16 // (4 if found.is_single else 2)
        self.flags: Lines = []
        self.wide: list[str] | None = []
        """What has to hold so that rows can be copied by 16 bytes; None: they never can."""
        self.batch = [axis for axis in found.batch if axis.size != ONE]

    # -- the struct --------------------------------------------------------------------------

    def text(self) -> str:
        """Its struct."""
        found = self.found
        sides = [
            *self._side("left", found.left, found.m), *self._side("right", found.right, found.n)
        ]  # fmt: skip
        methods = [*self._enter(), *sides, *self._finish()]
        self.members = self._members(methods)
        constants = [f"BATCHED = {_truth(self.batch)}", f"LOOPED = {_truth(found.loops)}"]
        fields = [f"{kind}{name};" for kind, name in self.members]
        fields.append("bool whole_;  // rows of results begin at whole vectors")
        ones = [axis.name for axis in found.batch if axis.size == ONE]
        moving = [axis.name for axis in (*self.batch, *found.loops)]
        fields += [f"ptrdiff_t {name} = 0;" for name in (*moving, *ones)]
        body = [
            f"using Element = {self.element};",
            *(f"static constexpr bool {one};" for one in [*constants, *self.flags]),
            *(f"static constexpr int {one};" for one in self._constants()),
            *fields, "", *methods,
        ]  # fmt: skip
        lines = [*commented(self.group), f"struct {self.name} {{", *indented(body), "};"]
        return "\n".join(line.rstrip() for line in lines)

    def _constants(self) -> Lines:
        m, n = self._tile()
        engine = self.engine
        sizes = (("BLOCK_M", m, (64, 128, 256)), ("BLOCK_N", n, (64, 128, 256)), *engine.tunables)
        if engine.name == "ffma":
            sizes = (("BLOCK_M", m, (64, 128)), ("BLOCK_N", n, (64, 128)), *engine.tunables)
        lines = []
        for name, value, choices in sizes:
            lines.append(f"{name} = {self.file.tunable(f'PRODUCT_{name}', value, choices)}")
        if engine is SINGLE:
            lines.append(f"PRODUCTS = {1 if self.file.wanted.tf32 else 3}")
        return [*lines, *engine.fixed]

    def _tile(self) -> tuple[int, int]:
        """As large as leaves few multiprocessors idle."""
        most, found = self.file.wanted.most, self.found
        rows, columns = most(found.m.size, 4096), most(found.n.size, 4096)
        batch = most(elements(tuple(axis.size for axis in found.batch)), 1)
        for m, n in self.engine.tiles:
            tiles = -(-rows // m) * -(-columns // n) * batch
            if rows > m // 2 and columns > n // 2 and tiles >= FILLED * self.file.wanted.cores:
                return m, n
        fitting = ((m, n) for m, n in self.engine.tiles if rows > m // 2 and columns > n // 2)
        return next((tile for tile in fitting if tile[0] <= 64), self.engine.tiles[-1])

    def _members(self, methods: Lines) -> list[tuple[str, str]]:
        """Types and names of what it reads and stores, and of the numbers that it needs."""
        named = {name for line in methods for name in _NAME.findall(line)}
        written = {one.buffer for one in self.found.stores}
        members = [
            (f"{'' if b.name in written else 'const '}{STORAGE[b.dtype]} *", b.name)
            for b in self.file.program.buffers.values() if b.name in named
        ]  # fmt: skip
        return members + [
            (f"{plain(dtype)} " if dtype.startswith("float") else "ptrdiff_t ", name)
            for name, dtype in self.file.numbers.items() if name in named
        ]  # fmt: skip

    def _enter(self) -> Lines:
        """From a flat number to variables of loops."""
        lines: Lines = []
        for name, axes in (("enter", self.batch), ("turn", list(self.found.loops))):
            body: Lines = []
            for at, axis in enumerate(reversed(axes)):
                if at == len(axes) - 1:
                    body.append(f"{axis.name} = at_;")
                else:
                    size = c.wrapped(c.size_text(axis.size))
                    body += [f"{axis.name} = at_ % {size};", f"at_ /= {size};"]
            lines += method(f"void {name}(ptrdiff_t{' at_' if body else ''})", body)
        return lines

    def _side(self, name: str, value: e.Expression, own: Axis) -> Lines:
        """How a factor's elements are found."""
        k = self.found.k
        copied = self._copied(value, own)
        if copied is not None:
            index, along = copied
            self._flag(name, along, True)
            assert isinstance(value, e.Read)
            start = substituted(index, {own.name: ZERO, k.name: ZERO})
            stride = coefficient(index, own.name if along else k.name)
            self._ask_wide(value.buffer, index, k if along else own)
            lines, (), (place,) = self._written([], [start])
            return [
                *method(f"const Element* {name}_start() const",
                        [*lines, f"return {value.buffer} + {c.wrapped(place)};"]),
                *method(f"ptrdiff_t {name}_stride() const", [f"return {c.size_text(stride)};"]),
            ]  # fmt: skip
        steps = [
            [coefficient(e.flat(one.index, one.shape), axis.name) for axis in (k, own)]
            for one in e.walk(value) if isinstance(one, e.Read)
        ]  # fmt: skip
        along = any(of_k == ONE for of_k, _ in steps) or not any(mine == ONE for _, mine in steps)
        self._flag(name, along, False)
        lines, (text,), () = self._written([value], [], (own.name, k.name))
        head = f"Element {name}_value(ptrdiff_t {own.name}, ptrdiff_t {k.name}) const"
        return method(head, [*lines, f"return static_cast<Element>({text});"])

    def _flag(self, name: str, along: bool, copied: bool) -> None:
        said = (("ALONG", along), ("COPIED", copied))
        self.flags += [f"{name.upper()}_{one} = {_word(truth)}" for one, truth in said]

    def _copied(self, value: e.Expression, own: Axis) -> tuple[Size, bool] | None:
        """Where a factor's elements are, and whether neighbours are along the depth; None: it is
        computed, or walked in no direction element by element."""
        if not isinstance(value, e.Read):
            return None
        if STORAGE[self.file.program.buffers[value.buffer].dtype] != self.element:
            return None
        index, k = e.flat(value.index, value.shape), self.found.k
        across, along = (coefficient(index, axis.name) for axis in (own, k))
        names = {own.name, k.name}
        rest = index - across * own.index - along * k.index
        used = e.names_in(e.Position("int64", rest), self.file.places)
        if used & names or (across.dims | along.dims) & self._variables():
            return None
        return (index, along == ONE) if ONE in (across, along) else None

    def _variables(self) -> set[str]:
        axes = (*self.group.outer, *self.group.inner)
        return {axis.name for axis in axes} | set(self.file.places)

    def _ask_wide(self, buffer: str, index: Size, unit: Axis) -> None:
        """Adds what has to hold for vectors of a factor to be aligned, and whole."""
        asked = self._whole(buffer, index, unit, self.width)
        if asked is None or self.wide is None:
            self.wide = None
            return
        self.wide += asked

    def _whole(self, buffer: str, index: Size, unit: Axis, width: int) -> list[str] | None:
        """What says that vectors along an axis are aligned and whole; None: they aren't."""
        size = bytes_of(self.file.program.buffers[buffer])
        asked = [f"(uintptr_t){buffer} % {width * size} == 0"]
        variables = self._variables()
        for factors, count in (*index.terms, *unit.size.terms):
            if factors == (unit.name,) and count == 1:
                continue
            kept = tuple(name for name in factors if name not in variables)
            step = Size(((kept, count),), (*index.quotients, *unit.size.quotients)) + 0
            if step.constant is None:
                asked.append(f"{c.wrapped(c.size_text(step))} % {width} == 0")
            elif step.constant % width:
                return None
        return asked

    def _finish(self) -> Lines:
        """What is done with sums, and where that is stored."""
        found, n = self.found, self.found.n
        stores = found.stores
        held = {found.step.name: ("sum_", 0)}
        places = [e.flat(one.index, one.shape) for one in stores]
        self.vectors = [self._vector(one, index) for one, index in zip(stores, places, strict=True)]
        direct = [place for place, one in zip(places, self.vectors, strict=True) if one is None]
        lines, texts, written = self._written(
            [one.value for one in stores], direct, (found.m.name, n.name), held
        )
        rest = iter(written)
        inner = ["const float sum_ = sums_[e_];", *lines]
        outer: Lines = []
        after: Lines = []
        for at, (one, vector, text) in enumerate(zip(stores, self.vectors, texts, strict=True)):
            kind = self.file.storage(one.buffer)
            value = f"static_cast<{kind}>({text})"
            if vector is None:
                inner.append(f"{one.buffer}[{next(rest)}] = {value};")
                continue
            outer.append(f"Packed<{kind}, COUNT> new{at}_;")
            inner.append(f"new{at}_.at[e_] = {value};")
            before, (), (place,) = self._written([], [places[at]], (found.m.name, n.name))
            after += ["{", *indented([
                f"const ptrdiff_t {n.name} = first_;", *before,
                f"{kind}* to_ = {one.buffer} + {c.wrapped(place)};",
                *block("if (whole_ && left_ >= COUNT)",
                       [f"*reinterpret_cast<Packed<{kind}, COUNT>*>(to_) = new{at}_;"]),
                *block("else", ["for (int e_ = 0; e_ < COUNT && e_ < left_; e_++) "
                                f"to_[e_] = new{at}_.at[e_];"]),
            ]), "}"]  # fmt: skip
        if any(n.name in _NAME.findall(line) for line in inner):
            inner = [f"const ptrdiff_t {n.name} = first_ + e_;", *inner]
        loop = block("for (int e_ = 0; e_ < COUNT; e_++)", block("if (e_ < left_)", inner))
        head = (
            f"void finish(ptrdiff_t {found.m.name}, ptrdiff_t first_, "
            "const float (&sums_)[COUNT], int left_) const"
        )
        return ["template <int COUNT>", *method(head, [*outer, "#pragma unroll", *loop, *after])]

    def _vector(self, store: Stored, index: Size) -> list[str] | None:
        """What says that neighbours can be stored at once; None: they aren't neighbours."""
        n = self.found.n
        if coefficient(index, n.name) != ONE:
            return None
        rest = index - n.index
        if n.name in e.names_in(e.Position("int64", rest), self.file.places):
            return None
        asked = self._whole(store.buffer, index, n, self.engine.vector)
        return ["false"] if asked is None else asked

    def _written(
        self, values: Sequence[e.Expression], indices: Sequence[Size],
        own: Sequence[str] = (), held: dict[str, tuple[str, int]] | None = None,
    ) -> tuple[Lines, tuple[str, ...], tuple[str, ...]]:  # fmt: skip
        """Declarations, values and indices, with the variables that a method is given."""
        axes = [axis.name for axis in (*self.found.batch, *self.found.loops)]
        loops = (*axes, *own)
        known = {name: (text, len(loops)) for name, (text, _) in (held or {}).items()}
        body = self.file.body(loops, len(loops), known, names=KernelNames())
        texts = body.write([widened(one) for one in values], indices)
        written = tuple(body.index(index) for index in indices)
        return [line for part in body.lines for line in part], tuple(texts), written

    # -- the launch --------------------------------------------------------------------------

    def launch(self) -> Lines:
        """Statements of the host."""
        found = self.found
        stored = [ask for one in self.vectors if one is not None for ask in one]
        whole = " && ".join(dict.fromkeys(stored)) if "false" not in stored else "false"
        wide = "false" if self.wide is None else " && ".join(dict.fromkeys(self.wide)) or "true"
        sizes = [f"(int)({c.size_text(axis.size)})" for axis in (found.m, found.n, found.k)]
        around = (
            c.size_text(elements(tuple(axis.size for axis in axes)))
            for axes in (found.loops, found.batch)
        )
        loops, batches = around
        given = [*(name for _, name in self.members), whole or "true"]
        return [
            f"const {self.name} product_ = {{{', '.join(given)}}};",
            f"const Extents size_ = {{{', '.join(sizes)}, (int)({loops}), (int64_t)({batches})}};",
            f"const bool wide_ = {wide};",
            f"launch_{self.engine.name}(product_, size_, wide_);",
        ]


def widened(value: e.Expression) -> e.Expression:
    """With 16-bit floats computed in float32."""

    def wide(one: e.Expression) -> e.Expression:
        return replace(one, dtype="float32") if one.dtype in HALVES else one

    return e.rewritten(value, wide)


def method(head: str, body: Lines) -> Lines:
    """A function of a struct on the device."""
    return [f"__device__ {head} {{{'' if body else '}'}", *indented(body), *(["}"] if body else [])]


def _word(truth: bool) -> str:
    return "true" if truth else "false"


def _truth(some: Sequence[object]) -> str:
    return _word(bool(some))


@cache
def kernel_text(name: str) -> str:
    """A file beside this one."""
    return (resources.files(__package__) / f"{name}.cuh").read_text(encoding="utf-8").strip()
