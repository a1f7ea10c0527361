"""The kernel of attention: blocks of queries walk along keys and values."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from roofsmith.computation.building import ONE, ZERO
from roofsmith.computation.sizes import Size
from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.formulas import stripped
from roofsmith.proposers.schedules.groups import Axis, Group
from roofsmith.proposers.schedules.online_attention import SCORE, OnlineAttention, unmasked
from roofsmith.proposers.schedules.triton.boxes import (
    BOX,
    WHETHER,
    Box,
    Starts,
    box_names,
    box_of,
    host_text,
    load_text,
    store_text,
    stored_boxes,
    without_unused,
)
from roofsmith.proposers.schedules.triton.product_kernel import batch_lines, operand
from roofsmith.proposers.schedules.triton.tiles import indices_of
from roofsmith.proposers.schedules.triton.values import (
    TileAxis,
    TileScope,
    TileValue,
    Values,
    bracketed,
    size_text,
)
from roofsmith.proposers.schedules.triton.written import WrittenModule, is_wide

HALVED = 64
"""Elements of a query up to which float32 comes as boxes: more don't fit beside their parts."""
HOST_NAMES = frozenset(("box", "boxes", "rounded"))
NEAREST = '''@triton.jit
def nearest(x):
    """What TF32 products read, rounded: they cut off what lies behind ten bits, always down."""
    bits = x.to(tl.int32, bitcast=True) + 0x1000 & -0x2000
    return tl.where(x == x, bits.to(tl.float32, bitcast=True), x)'''
ROUND = '''@triton.jit
def round_array(x, rounded, COUNT, BLOCK: tl.constexpr):
    """Once, for products that read it from shared memory, as the copy engine brings it."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < COUNT, other=0.0)
    tl.store(rounded + at, nearest(value), mask=at < COUNT)'''
LOG2_E = 1.4426950408889634
"""exp(x) = exp2(x log2(e)), and the hardware has exp2."""


@dataclass(frozen=True)
class AttentionBoxes:
    """Which arrays are brought, and taken, as boxes."""

    read: Mapping[str, Box]
    """Of the query, the key and the value."""
    stored: Mapping[str, Box]
    """By buffer."""
    names: Mapping[Box, str]


def write_attention(module: WrittenModule, found: OnlineAttention, group: Group) -> None:
    name = module.kernel_name(group, "attention")
    boxes = _boxes_of(module, found)
    if found.query.dtype == "float32" and module.wanted.tf32:
        module.extra.setdefault("nearest", NEAREST)
    constants = ["BLOCK_M", "BLOCK_N", "BLOCK_D", "BLOCK_E"]
    says = "A block of queries: scores, their softmax and the sum of values go along together."
    arguments = module.add(name, says, _Kernel(module, found, group).lines(), constants)
    is_small = found.query.dtype == "float32"
    rows, columns, warps, stages = (64, 32, 4, 2) if is_small else (128, 64, 8, 3)
    if boxes is not None:
        rows, columns, warps, stages = 64, 64, 4, 3
    block = module.tunable("BLOCK_M", rows, (32, 64, 128, 256))
    step = module.tunable("BLOCK_N", columns, (32, 64, 128))
    stages_of = module.tunable("STAGES", stages, (1, 2, 3, 4))
    warps_of = module.tunable("WARPS", warps, (4, 8, 16))
    counts = [f"triton.cdiv({size_text(found.m.size)}, {block})"]
    counts += [bracketed(size_text(axis.size)) for axis in found.batch if axis.size != ONE]
    width, depth = (
        f"max(16, triton.next_power_of_2({size_text(axis.size)}))"
        for axis in (found.d, found.depth)
    )
    options = [
        f"BLOCK_M={block}", f"BLOCK_N={step}", f"BLOCK_D={width}", f"BLOCK_E={depth}",
        f"num_warps={warps_of}", f"num_stages={stages_of}",
    ]  # fmt: skip
    grid = f"({' * '.join(counts)},)"
    if boxes is None:
        module.launch(name, grid, arguments, options)
        return
    module.extra.setdefault("box", BOX)
    chosen = module.tunable("BOXES", 1, (0, 1), WHETHER)
    lines = without_unused(_Kernel(module, found, group, boxes).lines())
    names = list(boxes.names.values())
    boxed = module.add(f"{name}_of_boxes", says, lines, constants, given=names)
    lengths = {
        found.m.name: block, found.n.name: step, found.d.name: width, found.depth.name: depth
    }  # fmt: skip
    described = {box: host_text(box, lengths) for box in boxes.names}
    if found.query.dtype == "float32" and module.wanted.tf32:
        module.extra.setdefault("round_array", ROUND)
        key = boxes.read["key"]
        described[key] = host_text(replace(key, buffer="rounded"), lengths)
        count = f"{key.buffer}.numel()"
        module.host += [
            f"rounded = torch.empty_like({key.buffer})",
            f"round_array[(triton.cdiv({count}, 1024),)](",
            f"    {key.buffer}, rounded, {count}, BLOCK=1024",
            ")  # fmt: skip",
        ]
    module.host += [
        "boxes = (", *(f"    {text}," for text in described.values()), ")",
        f"if {chosen} and all(boxes):",
    ]  # fmt: skip
    passed = [*boxed[: -len(names)], "*boxes"]
    module.launch(f"{name}_of_boxes", grid, passed, options, 1)
    module.host.append("else:")
    module.launch(name, grid, arguments, options, 1)


def _boxes_of(module: WrittenModule, found: OnlineAttention) -> AttentionBoxes | None:
    """None unless keys and values come as boxes."""
    if not module.wanted.boxes or HOST_NAMES & {
        *module.program.places.taken, *module.program.buffers
    }:  # fmt: skip
        return None
    widest = max(module.wanted.most(axis.size, HALVED + 1) for axis in (found.d, found.depth))
    if found.query.dtype == "float32" and widest > HALVED:
        return None
    m, n, d, depth = found.m, found.n, found.d, found.depth
    read = {}
    for name, value, tile in (
        ("query", found.query, (m, depth)), ("key", found.key, (depth, n)),
        ("value", found.value, (n, d)),
    ):  # fmt: skip
        box = box_of(module.program, value, tile) if isinstance(value, e.Read) else None
        if box is not None:
            read[name] = box
    if not {"key", "value"} <= read.keys():
        return None
    stored = stored_boxes(module.program, found.stores, found.result, (m, d))
    return AttentionBoxes(
        read, stored, box_names(module.program, [*read.values(), *stored.values()])
    )


@dataclass
class _Kernel:
    module: WrittenModule
    found: OnlineAttention
    group: Group
    boxes: AttentionBoxes | None = None
    outer: TileScope = field(init=False)
    taken: set[str] = field(init=False)

    def __post_init__(self) -> None:
        found, module = self.found, self.module
        axes = (found.m, found.d, found.depth, *found.batch)
        self.outer = TileScope(frozenset(axis.name for axis in axes))
        self.taken = {
            "program", "first", "tiles", "query", "key", "value", "top", "weight", "total",
            "share", "higher", "finite", "faded", "start", "whole", "end", "factor", "nearest",
            "tl",
            SCORE, found.result, *module.program.buffers, *module.used,
            *(axis.name for axis in (*axes, found.n)),
        }  # fmt: skip
        self.taken |= set(self.boxes.names.values()) if self.boxes is not None else set()

    @property
    def is_single(self) -> bool:
        """Whether it multiplies float32."""
        return self.found.query.dtype == "float32"

    @property
    def is_exchanged(self) -> bool:
        """Whether columns of the result are summed as rows.

        Of 32 bits, only a left factor, in registers, can lie across the sum.
        """
        return self.boxes is not None and self.is_single

    def rounded(self, text: str) -> str:
        """A factor of a product of TF32."""
        return f"nearest({text})" if self.is_single and self.module.wanted.tf32 else text

    @property
    def precision(self) -> str:
        """An argument of `tl.dot`."""
        way = "tf32" if self.module.wanted.tf32 else "tf32x3"
        return f', input_precision="{way}"' if self.is_single else ""

    def values(self, tile: Sequence[TileAxis], *scopes: TileScope) -> Values:
        every = self.outer.names | {self.found.n.name}
        named = {one.name: one for one in tile}
        return Values(
            self.module.places, named, self.module.used, self.taken, every,
            [self.outer, *scopes], Counter(),
        )  # fmt: skip

    def numbers(self, axis: Axis, block: str) -> str:
        """A block of an axis' values, from 0."""
        indices = [*indices_of(self.group, self.module.places)]
        found = self.found
        for value in (found.query, found.key, found.value, found.score):
            indices += [e.flat(r.index, r.shape) for r in e.walk(value) if isinstance(r, e.Read)]
        return f"tl.arange(0, {block})" + (".to(tl.int64)" if is_wide(axis, indices) else "")

    def lines(self) -> list[str]:
        found, lines = self.found, self.outer.lines
        self._where()
        plain, last = unmasked(found.score, found.m.name, found.n.name)
        inner, factor = self._scaled(plain)
        shape = "(BLOCK_D, BLOCK_M)" if self.is_exchanged else "(BLOCK_M, BLOCK_D)"
        lines += [
            f"query = {self.rounded(self._query())}",
            'top = tl.full((BLOCK_M, 1), -float("inf"), tl.float32)',
            "weight = tl.zeros((BLOCK_M, 1), tl.float32)",
            f"total = tl.zeros({shape}, tl.float32)",
        ]
        if self.boxes is not None:
            lines += [
                "if BLOCK_E == 128 and BLOCK_N == 64:",
                "    query += 0.0  # computed, so in registers, which every product then reads",
            ]
        keys = size_text(found.n.size)
        more = f" + {size_text(last)}" if last is not None and last != ZERO else ""
        if last is not None:
            lines += [
                f"end = tl.maximum(0, tl.minimum({keys}, first + BLOCK_M{more}))",
                f"whole = tl.maximum(0, tl.minimum({keys}, first + 1{more})) // BLOCK_N * BLOCK_N",
            ]
        else:
            lines += [f"end = {keys}", f"whole = {keys} // BLOCK_N * BLOCK_N"]
        is_certain = is_finite(plain) and (
            last is None or (last.constant is not None and last.constant >= 0)
        )
        ways = (False, True) if self.boxes is None else (None,)
        for is_masked in ways:
            body = self._step(inner, factor, last, is_masked, is_certain)
            bounds = {None: "0, end", True: "whole, end", False: "0, whole"}[is_masked]
            lines += [f"for start in range({bounds}, BLOCK_N):", *(f"    {one}" for one in body)]
        if self.is_exchanged:
            lines.append("total = total.T")
        lines.append(f"{found.result} = total / weight")
        self._stores()
        return lines

    def _where(self) -> None:
        """Which block of queries is a program's, and its variables."""
        found, lines = self.found, self.outer.lines
        m, d, inner = found.m, found.d, found.depth
        size = size_text(m.size)
        lines += [
            f"tiles = tl.cdiv({size}, BLOCK_M)",
            "program = tl.program_id(0)",
            "first = (tiles - 1 - program % tiles) * BLOCK_M",
            "program = program // tiles",
            *batch_lines([axis for axis in found.batch if axis.size != ONE]),
            *(f"{axis.name} = 0" for axis in found.batch if axis.size == ONE),
            f"{m.name} = (first + {self.numbers(m, 'BLOCK_M')})[:, None]",
            f"inside_{m.name} = {m.name} < {size}",
            f"{d.name} = tl.arange(0, BLOCK_D)[None, :]",
            f"inside_{d.name} = {d.name} < {size_text(d.size)}",
            f"{inner.name} = tl.arange(0, BLOCK_E)",
            f"{inner.name}_across = {inner.name}[None, :]",
            f"{inner.name}_down = {inner.name}[:, None]",
            f"inside_across = {inner.name}_across < {size_text(inner.size)}",
            f"inside_down = {inner.name}_down < {size_text(inner.size)}",
        ]

    @property
    def rows(self) -> TileAxis:
        return TileAxis(self.found.m.name, self.found.m.name, f"inside_{self.found.m.name}")

    @property
    def columns(self) -> TileAxis:
        """Elements of values."""
        return TileAxis(self.found.d.name, self.found.d.name, f"inside_{self.found.d.name}")

    def _query(self) -> str:
        across = TileAxis(self.found.depth.name, f"{self.found.depth.name}_across", "inside_across")
        return self._factor("query", self.found.query, (self.rows, across), "inside_across")

    def _factor(
        self, name: str, value: e.Expression, tile: Sequence[TileAxis], inside: str,
        *scopes: TileScope,
    ) -> str:  # fmt: skip
        values = self.values(tile, *scopes)
        box = self.boxes.read.get(name) if self.boxes is not None else None
        if box is not None and self.boxes is not None:
            return load_text(values, box, self.boxes.names[box], self._starts)
        values.count([value])
        return operand(values, value, inside)

    @property
    def _starts(self) -> Starts:
        found = self.found
        return {
            found.m.name: ("first", "BLOCK_M"), found.n.name: ("start", "BLOCK_N"),
            found.d.name: ("0", "BLOCK_D"), found.depth.name: ("0", "BLOCK_E"),
        }  # fmt: skip

    def _scaled(self, plain: e.Expression) -> tuple[e.Expression, str]:
        """Scores without a positive factor, and this times log2(e), which `exp2` needs anyway."""
        inner, scale = plain, 1.0
        names = frozenset((*self.module.program.places.ranges, *self.module.places))
        match plain:
            case e.Operation(op="mul", args=(one, e.Number(value=number))) if number > 0:
                inner, scale = one, float(number)
            case e.Operation(op="mul", args=(e.Number(value=number), one)) if number > 0:
                inner, scale = one, float(number)
            case e.Operation(op="div", args=(one, e.Number(value=number))) if number > 0:
                inner, scale = one, 1 / float(number)
            case e.Operation(op="mul" | "div" as op, args=(one, by)) if is_positive(by, names):
                text = stripped(self.values(()).write(by).text)
                sign = "*" if op == "mul" else "/"
                self.outer.lines.append(f"factor = {LOG2_E} {sign} ({text})")
                return one, "factor"
            case _:
                pass
        return inner, repr(scale * LOG2_E)

    def _step(
        self, score: e.Expression, factor: str, last: Size | None, is_masked: bool | None,
        is_certain: bool,
    ) -> list[str]:  # fmt: skip
        """What is done for a block of keys; `is_masked` None: where it has to be."""
        found, n, inner = self.found, self.found.n, self.found.depth
        scope = TileScope(frozenset((n.name,)))
        body, keys = scope.lines, size_text(n.size)
        body += [
            f"{n.name} = start + {self.numbers(n, 'BLOCK_N')}",
            f"{n.name}_across = {n.name}[None, :]",
            f"{n.name}_down = {n.name}[:, None]",
        ]
        if is_masked is not False:
            body += [
                f"keys_across = {n.name}_across < {keys}",
                f"keys_down = {n.name}_down < {keys}",
            ]
        mask = ("", "") if is_masked is False else ("keys_across", "keys_down")
        n_across = TileAxis(n.name, f"{n.name}_across", mask[0])
        n_down = TileAxis(n.name, f"{n.name}_down", mask[1])
        down = TileAxis(inner.name, f"{inner.name}_down", "inside_down")
        key = self._factor("key", found.key, (down, n_across), "inside_down", scope)
        key = self.rounded(key) if self.boxes is None else key
        body += [f"key = {key}", f"{SCORE} = tl.dot(query, key{self.precision})"]
        values = self.values((self.rows, n_across), scope)
        values.count([score])
        values.hold(SCORE, TileValue(SCORE, frozenset((found.m.name, n.name))))
        text = stripped(values.write(score).text)
        if text != SCORE:
            body.append(f"{SCORE} = {text}")
        allowed = "keys_across"
        if last is not None:
            latest = values.index(Size.of(found.m.name) + last).text
            allowed = f"{allowed} & ({n.name}_across <= {latest})"
        seen = [f'{SCORE} = tl.where({allowed}, {SCORE}, -float("inf"))']
        if is_masked is None:
            body += ["if start >= whole:", *(f"    {line}" for line in seen)]
        elif is_masked:
            body += seen
        body.append(f"higher = tl.maximum(top, tl.max({SCORE}, axis=1, keep_dims=True) * {factor})")
        above = "higher"
        if not is_certain:
            body.append('finite = tl.where(higher == -float("inf"), 0.0, higher)')
            above = "finite"
        body += [
            f"share = tl.exp2({SCORE} * {factor} - {above})",
            f"faded = tl.exp2(top - {above})",
            "weight = weight * faded + tl.sum(share, axis=1, keep_dims=True)",
            "top = higher",
        ]
        value = self._factor("value", found.value, (n_down, self.columns), mask[1] or "True", scope)
        value = self.rounded(value) if self.boxes is None else value
        body.append(f"value = {value}")
        if self.is_exchanged:
            body += [
                f"turned = {self.rounded('value')}.T + 0.0  # computed, so in registers",
                f"share = {self.rounded('share')}.T",
                f"total = tl.dot(turned, share, total * faded.T{self.precision})",
            ]
        else:
            share = self.rounded("share.to(value.dtype)")
            body.append(f"total = tl.dot({share}, value, total * faded{self.precision})")
        return body

    def _stores(self) -> None:
        found, lines = self.found, self.outer.lines
        ending = self.values((self.rows, self.columns))
        ending.count(store.value for store in found.stores)
        ending.hold(found.result, TileValue(found.result, frozenset((found.m.name, found.d.name))))
        texts = [ending.write(store.value) for store in found.stores]
        for store, result in zip(found.stores, texts, strict=True):
            box = self.boxes.stored.get(store.buffer) if self.boxes is not None else None
            if box is not None and self.boxes is not None:
                text = stripped(result.text)
                lines.append(store_text(ending, box, self.boxes.names[box], self._starts, text))
            else:
                at = ending.index(e.flat(store.index, store.shape))
                lines.append(ending.store(store.buffer, at, result))


_SMOOTH = frozenset(("add", "sub", "mul", "neg", "tanh"))


def is_finite(score: e.Expression) -> bool:
    """Whether finite products can't become scores of minus infinity."""
    return all(
        isinstance(one, e.Held | e.Converted | e.Position)
        or (isinstance(one, e.Number) and math.isfinite(one.value))
        or (isinstance(one, e.Operation) and one.op in (*_SMOOTH, "div", "sqrt", "rsqrt"))
        for one in e.walk(score)
    )


def is_positive(value: e.Expression, variables: frozenset[str]) -> bool:
    """Whether it is the same for every score, and above zero."""
    match value:
        case e.Number():
            return value.value > 0
        case e.Position(index=size):
            return not size.dims & variables and all(count > 0 for _, count in size.terms)
        case e.Converted():
            return is_positive(value.arg, variables)
        case e.Operation(op="mul" | "div" | "sqrt" | "rsqrt" | "add"):
            return all(is_positive(arg, variables) for arg in value.args)
        case _:
            return False
