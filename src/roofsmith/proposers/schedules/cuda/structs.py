"""Structs of CUDA files: what a kernel reads, how elements are found, how sums are finished.

Kernels that multiply are templates of one. Its variables are those of the loops around a tile;
what a method is given are the loops of the tile.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources

from jinja2 import Environment, StrictUndefined

from roofsmith.computation.building import ONE, ZERO
from roofsmith.computation.sizes import Size
from roofsmith.proposers.schedules import c_values as c
from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.c_writer import block, indented
from roofsmith.proposers.schedules.cuda.body import STORAGE, in_float32
from roofsmith.proposers.schedules.cuda.writer import (
    CudaSource,
    KernelNames,
    bytes_of,
    commented,
)
from roofsmith.proposers.schedules.groups import Axis, Group, Stored
from roofsmith.proposers.schedules.matrix_products import HALVES
from roofsmith.proposers.schedules.strides import coefficient, substituted

Lines = list[str]
_NAME = re.compile(r"[A-Za-z_]\w*")
STORED = 4
"""Neighbours that kernels store at once."""
METHODS = frozenset((
    "Element", "Extents", "Packed", "AttentionSize", "enter", "turn", "finish", "score",
    "plain_score", "last", "memory", "partial", "COUNT", "query_element",
    *(f"{side}_{method}" for side in ("left", "right", "key", "value")
      for method in ("start", "stride", "element")),
))  # fmt: skip
"""Names of members, which arrays and numbers must not have."""


class StructWriter:
    def __init__(
        self, file: CudaSource, group: Group, name: str, *, dtype: str, stores: Sequence[Stored],
        batch: Sequence[Axis], loops: Sequence[Axis] = (),
    ) -> None:  # fmt: skip
        """Of elements of a type.

        Args:
            dtype: of what is multiplied.
            stores: how sums end.
            batch: loops whose iterations are independent, around a tile.
            loops: those around what is summed up.
        """
        self.file, self.group, self.name, self.stores = file, group, name, stores
        self.batch, self.loops, self.kind = tuple(batch), tuple(loops), STORAGE[dtype]
        self.width = 16 // bytes_of_type(dtype)
        self.flags: Lines = []
        self.wide: list[str] | None = []
        """What has to hold so that rows can be copied by 16 bytes; None: they never can."""
        self.vectors: list[list[str] | None] = []

    def text(self, constants: Sequence[str], methods: Lines) -> str:
        self.members = self.members_of(methods)
        fields = [f"{kind}{name};" for kind, name in self.members]
        fields.append("bool whole_;  // rows of results begin at whole vectors")
        fields += [f"ptrdiff_t {axis.name} = 0;" for axis in (*self.batch, *self.loops)]
        body = [
            f"using Element = {self.kind};",
            *(f"static constexpr bool {one};" for one in self.flags),
            *(f"static constexpr int {one};" for one in constants),
            *fields, "", *methods,
        ]  # fmt: skip
        lines = [*commented(self.group), f"struct {self.name} {{", *indented(body), "};"]
        return "\n".join(line.rstrip() for line in lines)

    def instance(self) -> str:
        """How the host makes it."""
        stored = [ask for one in self.vectors if one is not None for ask in one]
        whole = "false" if "false" in stored else " && ".join(dict.fromkeys(stored)) or "true"
        given = [*(name for _, name in self.members), whole]
        return f"const {self.name} kernel_ = {{{', '.join(given)}}};"

    def is_wide(self) -> str:
        """Whether rows can be copied by 16 bytes, as the host asks."""
        wide = "false" if self.wide is None else " && ".join(dict.fromkeys(self.wide)) or "true"
        return f"const bool wide_ = {wide};"

    def flag(self, name: str, truth: bool) -> None:
        self.flags.append(f"{name} = {'true' if truth else 'false'}")

    def members_of(self, methods: Lines) -> list[tuple[str, str]]:
        """Types and names of what it reads and stores, and of the numbers that it needs."""
        named = {name for line in methods for name in _NAME.findall(line)}
        written = {one.buffer for one in self.stores}
        members = [
            (f"{'' if b.name in written else 'const '}{STORAGE[b.dtype]} *", b.name)
            for b in self.file.program.buffers.values() if b.name in named
        ]  # fmt: skip
        return members + [
            (f"{STORAGE[dtype]} " if dtype.startswith("float") else "ptrdiff_t ", name)
            for name, dtype in self.file.numbers.items() if name in named
        ]  # fmt: skip

    def enter(self) -> Lines:
        """From a flat number to variables of loops."""
        lines: Lines = []
        for name, every in (("enter", self.batch), ("turn", self.loops)):
            if name == "turn" and not self.loops:
                continue
            axes = [axis for axis in every if axis.size != ONE]
            body: Lines = []
            for at, axis in enumerate(reversed(axes)):
                if at == len(axes) - 1:
                    body.append(f"{axis.name} = at_;")
                else:
                    size = c.wrapped(c.size_text(axis.size))
                    body += [f"{axis.name} = at_ % {size};", f"at_ /= {size};"]
            lines += method(f"void {name}(ptrdiff_t{' at_' if body else ''})", body)
        return lines

    def side(
        self, name: str, value: e.Expression, own: Axis, k: Axis, *, always: bool = False
    ) -> Lines:
        """How a factor's elements are found; `always`: one by one, too, where they are copied."""
        copied = self.copied(value, own, k)
        if copied is not None:
            index, along = copied
            self.flag(f"{name.upper()}_ALONG", along)
            self.flag(f"{name.upper()}_COPIED", True)
            assert isinstance(value, e.Read)
            start = substituted(index, {own.name: ZERO, k.name: ZERO})
            stride = coefficient(index, own.name if along else k.name)
            self._ask_wide(value.buffer, index, k if along else own)
            lines, (), (place,) = self._written([], [start])
            lines = [
                *method(f"const Element* {name}_start() const",
                        [*lines, f"return {value.buffer} + {c.wrapped(place)};"]),
                *method(f"ptrdiff_t {name}_stride() const", [f"return {c.size_text(stride)};"]),
            ]  # fmt: skip
            return [*lines, *(self.element(name, value, own, k) if always else [])]
        steps = [
            [coefficient(e.flat(one.index, one.shape), axis.name) for axis in (k, own)]
            for one in e.reads(value)
        ]  # fmt: skip
        along = any(of_k == ONE for of_k, _ in steps) or not any(mine == ONE for _, mine in steps)
        self.flag(f"{name.upper()}_ALONG", along)
        self.flag(f"{name.upper()}_COPIED", False)
        return self.element(name, value, own, k)

    def element(self, name: str, value: e.Expression, own: Axis, k: Axis) -> Lines:
        return self.computed(f"Element {name}_element", value, (own, k), "Element")

    def computed(
        self, head: str, value: e.Expression, own: Sequence[Axis], kind: str = "float",
        held: str = "",
    ) -> Lines:  # fmt: skip
        """A value at given variables, and of what is `Held` by a name, if any, as `held_`."""
        names = [axis.name for axis in own]
        lines, (text,), () = self._written([value], [], names, {held: "held_"} if held else None)
        given = [*(f"ptrdiff_t {name}" for name in names), *(["float held_"] if held else [])]
        body = [*lines, f"return static_cast<{kind}>({text});"]
        return method(f"{head}({', '.join(given)}) const", body)

    def place(self, head: str, index: Size) -> Lines:
        """An index of the loops around a tile."""
        lines, (), (text,) = self._written([], [index])
        return method(f"ptrdiff_t {head}() const", [*lines, f"return {text};"])

    def copied(self, value: e.Expression, own: Axis, k: Axis) -> tuple[Size, bool] | None:
        """Where a factor's elements are, and whether neighbours are along the depth; None: it is
        computed, or walked in no direction element by element."""
        if not isinstance(value, e.Read):
            return None
        if STORAGE[self.file.program.buffers[value.buffer].dtype] != self.kind:
            return None
        index = e.flat(value.index, value.shape)
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

    def finish(self, m: Axis, n: Axis, name: str) -> Lines:
        """What is done with neighbouring sums, which are `Held` by a name, and stored."""
        stores, held = self.stores, {name: "sum_"}
        places = [e.flat(one.index, one.shape) for one in stores]
        self.vectors = [
            self._vector(one, index, n) for one, index in zip(stores, places, strict=True)
        ]
        direct = [place for place, one in zip(places, self.vectors, strict=True) if one is None]
        lines, texts, written = self._written(
            [one.value for one in stores], direct, (m.name, n.name), held
        )
        rest = iter(written)
        inner = ["const float sum_ = sums_[e_];", *lines]
        outer: Lines = []
        after: Lines = []
        for at, (one, asked, text) in enumerate(zip(stores, self.vectors, texts, strict=True)):
            kind = self.file.storage(one.buffer)
            value = f"static_cast<{kind}>({text})"
            if asked is None:
                inner.append(f"{one.buffer}[{next(rest)}] = {value};")
                continue
            outer.append(f"Packed<{kind}, COUNT> new{at}_;")
            inner.append(f"new{at}_.at[e_] = {value};")
            before, (), (place,) = self._written([], [places[at]], (m.name, n.name))
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
            f"void finish(ptrdiff_t {m.name}, ptrdiff_t first_, "
            "const float (&sums_)[COUNT], int left_) const"
        )
        return ["template <int COUNT>", *method(head, [*outer, "#pragma unroll", *loop, *after])]

    def _vector(self, store: Stored, index: Size, n: Axis) -> list[str] | None:
        """What says that neighbours can be stored at once; None: they aren't neighbours."""
        if coefficient(index, n.name) != ONE:
            return None
        rest = index - n.index
        if n.name in e.names_in(e.Position("int64", rest), self.file.places):
            return None
        asked = self._whole(store.buffer, index, n, STORED)
        return ["false"] if asked is None else asked

    def _written(
        self, values: Sequence[e.Expression], indices: Sequence[Size],
        own: Sequence[str] = (), held: Mapping[str, str] | None = None,
    ) -> tuple[Lines, tuple[str, ...], tuple[str, ...]]:  # fmt: skip
        """Declarations, values and indices, with the variables that a method is given."""
        loops = (*(axis.name for axis in (*self.batch, *self.loops)), *own)
        known = {name: (text, len(loops)) for name, text in (held or {}).items()}
        body = self.file.body(loops, len(loops), known, names=KernelNames())
        texts = body.write([e.rewritten(one, in_float32) for one in values], indices)
        written = tuple(body.index(index) for index in indices)
        return [line for part in body.lines for line in part], tuple(texts), written


def method(head: str, body: Lines) -> Lines:
    """A function of a struct on the device."""
    return [f"__device__ {head} {{{'' if body else '}'}", *indented(body), *(["}"] if body else [])]


def bytes_of_type(dtype: str) -> int:
    """Of one element that is multiplied."""
    return 2 if dtype in HALVES else 4


TEXTS = (
    "packed", "neighbours", "tiles", "ffma", "copies", "mma", "mma_single", "split", "mma_half",
    "mma_float", "mma_16", "mma_kernel", "wgmma", "attention_sides", "attention_float",
    "attention_16", "attention",
)  # fmt: skip
"""Files beside this one, those that others need first."""


def add_texts(file: CudaSource, names: Sequence[str]) -> None:
    """Kernels that are templates, each once."""
    wanted = [one for one in TEXTS if one in names or one in file.extra]
    others = {name: code for name, code in file.extra.items() if name not in TEXTS}
    file.extra = {**others, **{name: kernel_text(name) for name in wanted}}
    file.has_products = True


def has_async_copies(file: CudaSource) -> bool:
    """Whether the device has cp.async, and TF32 and bfloat16 on tensor cores: from sm_80 on."""
    digits = re.sub(r"\D", "", file.wanted.arch or "")
    return not digits or int(digits) >= 80


def names_clash(file: CudaSource, stores: Sequence[Stored]) -> bool:
    """Whether an array is called as a member, or a store reads what another has stored."""
    stored = {one.buffer for one in stores}
    again = len(stores) > 1 and any(
        one.buffer in stored for store in stores for one in e.reads(store.value)
    )
    return again or bool({*file.program.buffers, *file.numbers} & METHODS)


@cache
def kernel_text(name: str) -> str:
    """A file beside this one."""
    folder = resources.files(__package__)
    if (plain := folder / f"{name}.cuh").is_file():
        return plain.read_text(encoding="utf-8").strip()
    template = (folder / f"{name}.cuh.j2").read_text(encoding="utf-8")
    return Environment(undefined=StrictUndefined, autoescape=False).from_string(template).render()
