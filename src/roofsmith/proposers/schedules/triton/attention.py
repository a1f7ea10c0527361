"""Attention whose scores never leave the chip: a softmax between two products, online."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from roofsmith.computation.building import ONE, ZERO
from roofsmith.computation.sizes import Size
from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.groups import Axis, Group, Program, Reduced, Stored
from roofsmith.proposers.schedules.strides import coefficient, substituted
from roofsmith.proposers.schedules.triton import operations as t
from roofsmith.proposers.schedules.triton.rewriting import (
    axes_by_stride,
    rejoined,
    renamed,
)
from roofsmith.proposers.schedules.triton.written import WrittenModule

WIDEST = 256
"""Elements of a query or a value up to which whole ones stay in registers. Chosen."""
SCORE = "score"
"""What a product of a query and a key is held as."""


@dataclass(frozen=True)
class OnlineAttention:
    """Three groups as one, in the loop variables of the last."""

    m: Axis
    """Queries."""
    n: Axis
    """Keys."""
    d: Axis
    """Elements of a value."""
    depth: Axis
    """Elements of a query."""
    batch: tuple[Axis, ...]
    query: e.Expression
    key: e.Expression
    value: e.Expression
    score: e.Expression
    """What the softmax is of; the product is `Held`."""
    result: str
    """What the stores call the last product."""
    stores: tuple[Stored, ...]


def attention_of(module: WrittenModule, groups: Sequence[Group]) -> OnlineAttention | None:
    """The first three groups as attention."""
    if len(groups) < 3:
        return None
    scores, weights, results = groups[:3]
    weights, results = _with_weights(module.program, scores, weights, results)
    program = module.program
    if len(results.inner) != 1 or len(scores.inner) != 1 or len(weights.inner) != 1:
        return None
    last, first = results.steps[0], scores.steps[0]
    if not isinstance(last, Reduced) or last.factors is None:
        return None
    if not isinstance(first, Reduced) or first.factors is None or len(scores.steps) != 2:
        return None
    ends = tuple(one for one in results.steps[1:] if isinstance(one, Stored) and not one.inner)
    kept, soft = scores.steps[1], _softmax(weights)
    if len(ends) != len(results.steps) - 1 or not isinstance(kept, Stored) or soft is None:
        return None
    score, stored = soft
    weight, value = (_plain(one) for one in last.factors)
    if not _reads(weight, stored.buffer):
        weight, value = value, weight
    if not isinstance(weight, e.Read) or weight.buffer != stored.buffer:
        return None
    others = [one for one in program.groups if one not in groups[:3]]
    if any(_reads(one, name) for name in (stored.buffer, kept.buffer)
           for group in others for step in group.steps for one in e.walk(step.value)):  # fmt: skip
        return None
    if any(
        name in program.buffers and program.buffers[name].role != "scratch"
        for name in (stored.buffer, kept.buffer)
    ):
        return None
    where = e.flat(weight.index, weight.shape)
    written = e.flat(stored.index, stored.shape)
    to_last = axes_by_stride(written, where, weights, results, program.places)
    read = next((one for one in e.walk(score) if _reads(one, kept.buffer)), None)
    if to_last is None or not isinstance(read, e.Read):
        return None
    ones = {axis.name: ZERO for axis in weights.outer if axis.size.constant == 1}
    if substituted(e.flat(read.index, read.shape), ones) != substituted(written, ones):
        return None
    place = e.flat(kept.index, kept.shape)
    from_first = axes_by_stride(place, where, scores, results, program.places)
    if from_first is None:
        return None
    inner = _fresh(program)
    from_first[scores.inner[0].name] = Size.of(inner)
    program.places.ranges[inner] = scores.inner[0].size
    left, right = (renamed(_plain(one), from_first, program.places) for one in first.factors)
    held = renamed(kept.value, from_first, program.places)
    held = e.rewritten(
        held, lambda one: e.Held(one.dtype, SCORE) if isinstance(one, e.Held) else one
    )
    whole = renamed(score, to_last, program.places)
    whole = e.rewritten(whole, lambda one: held if _reads(one, kept.buffer) else one)
    if any(isinstance(one, e.Read) and one.buffer == kept.buffer for one in e.walk(whole)):
        return None
    n = results.inner[0]
    meaning = program.places.meaning()
    names = {id(one): e.names_in(one, meaning) for one in (left, right, value)}
    if n.name in names[id(left)]:
        left, right = right, left
    wide = [axis for axis in results.outer if axis.size != ONE]
    rows = [a for a in wide if coefficient(e.flat(weight.index, weight.shape), a.name) != ZERO
            and a.name not in names[id(right)] and a.name not in names[id(value)]]  # fmt: skip
    columns = [a for a in wide if a.name in names[id(value)]
               and coefficient(e.flat(weight.index, weight.shape), a.name) == ZERO]  # fmt: skip
    if not rows or len(columns) != 1 or n.name in names[id(left)]:
        return None
    axis = Axis(inner, scores.inner[0].size)
    m = max(reversed(rows), key=lambda one: module.wanted.most(one.size, 1024))
    batch = tuple(one for one in results.outer if one not in (m, columns[0]))
    found = OnlineAttention(
        m, n, columns[0], axis, batch, left, right, value, whole, last.name, ends
    )
    return found if _fits(module, found) else None


def _fits(module: WrittenModule, found: OnlineAttention) -> bool:
    kinds = {found.query.dtype, found.key.dtype, found.value.dtype}
    if len(kinds) != 1 or not kinds <= {*t.HALVES, "float32"}:
        return False
    most = module.wanted.most
    return max(most(found.d.size, 128), most(found.depth.size, 128)) <= WIDEST


def _softmax(group: Group) -> tuple[e.Expression, Stored] | None:
    """What a group is the softmax of, and the step that stores it."""
    match group.steps:
        case (Reduced(op="max") as top, Reduced(op="sum") as total, Stored(inner=True) as stored):
            pass
        case _:
            return None
    shares = e.Operation(
        total.value.dtype, "exp",
        (e.Operation(top.value.dtype, "sub", (top.value, e.Held(top.dtype, top.name))),),
    )  # fmt: skip
    if total.value != shares:
        return None
    if _plain(stored.value) != e.Operation(
        shares.dtype, "div", (shares, e.Held(total.dtype, total.name))
    ) and _plain(stored.value) != e.Operation(
        shares.dtype, "mul", (shares, e.Held(total.dtype, total.name))
    ):  # fmt: skip
        return None
    return (top.value, stored) if _is_quotient(_plain(stored.value)) else None


def _is_quotient(value: e.Expression) -> bool:
    return isinstance(value, e.Operation) and value.op == "div"


def _plain(value: e.Expression) -> e.Expression:
    """Without a change between floats of 16 and 32 bits, which products don't need."""
    while isinstance(value, e.Converted) and {value.dtype, value.arg.dtype} <= {
        *t.HALVES,
        "float32",
    }:
        value = value.arg
    return value


def _reads(value: e.Expression, buffer: str) -> bool:
    return isinstance(value, e.Read) and value.buffer == buffer


WEIGHTS = "?weights"
"""A buffer that isn't there: what the last product would read."""


def _with_weights(
    program: Program, scores: Group, weights: Group, results: Group
) -> tuple[Group, Group]:
    """Where weights are computed from kept maxima and sums: as if they were stored and read."""
    same = weights, results
    match weights.steps:
        case (
            Reduced(op="max") as top, Reduced(op="sum") as total,
            Stored(inner=False, value=e.Held(name=first)) as tops,
            Stored(inner=False, value=e.Held(name=second)) as totals,
        ) if first == top.name and second == total.name:  # fmt: skip
            pass
        case _:
            return same
    last = results.steps[0]
    if not isinstance(last, Reduced) or last.factors is None:
        return same
    names = {step.buffer for step in scores.steps if isinstance(step, Stored)}
    factor = next(
        (one for one in last.factors if any(
            isinstance(part, e.Read) and part.buffer in names for part in e.walk(one)
        )), None,
    )  # fmt: skip
    match _plain(factor) if factor is not None else None:
        case e.Operation(op="div", args=(
            e.Operation(op="exp", args=(
                e.Operation(op="sub", args=(score, e.Read(buffer=kept_tops))),
            )), e.Read(buffer=kept_totals),
        )) if (kept_tops, kept_totals) == (tops.buffer, totals.buffer):  # fmt: skip
            pass
        case _:
            return same
    mine = next((r for r in e.walk(top.value) if isinstance(r, e.Read) and r.buffer in names), None)
    theirs = next((r for r in e.walk(score) if isinstance(r, e.Read) and r.buffer in names), None)
    if mine is None or theirs is None:
        return same
    here, there = e.flat(mine.index, mine.shape), e.flat(theirs.index, theirs.shape)
    moved = axes_by_stride(here, there, weights, results, program.places)
    if moved is None or not _alike(renamed(top.value, moved, program.places), score, program):
        return same
    shares = e.Operation(
        total.value.dtype, "exp",
        (e.Operation(top.value.dtype, "sub", (top.value, e.Held(top.dtype, top.name))),),
    )  # fmt: skip
    quotient = e.Operation(shares.dtype, "div", (shares, e.Held(total.dtype, total.name)))
    stored = Stored(WEIGHTS, mine.index, mine.shape, quotient, True)
    read = e.Read(shares.dtype, WEIGHTS, theirs.index, theirs.shape)
    left, right = (read if one is factor else one for one in last.factors)
    product = replace(last, factors=(left, right))
    return (
        replace(weights, steps=(top, total, stored)),
        replace(results, steps=(product, *results.steps[1:])),
    )


def _alike(one: e.Expression, other: e.Expression, program: Program) -> bool:
    """Whether two values are the same but for how indices are written."""
    meaning = program.places.meaning()

    def plain(value: e.Expression) -> e.Expression:
        if not isinstance(value, e.Read):
            return value
        return replace(
            value, index=(rejoined(e.flat(value.index, value.shape), meaning),), shape=()
        )

    return e.rewritten(one, plain) == e.rewritten(other, plain)


def _fresh(program: Program) -> str:
    taken = {*program.buffers, *program.numbers, *program.places.ranges}
    return next(name for name in ("e", "f", "g", "c", "ee", "ff") if name not in taken)
