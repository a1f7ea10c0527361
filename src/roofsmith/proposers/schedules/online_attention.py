"""Attention whose scores never leave the chip: a softmax between two products, online."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from roofsmith.computation.building import ONE, ZERO
from roofsmith.computation.sizes import Size
from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.groups import Axis, Group, Program, Reduced, Stored
from roofsmith.proposers.schedules.matrix_products import HALVES
from roofsmith.proposers.schedules.rewriting import axes_by_stride, rejoined, renamed
from roofsmith.proposers.schedules.strides import coefficient, substituted

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


def attention_of(
    program: Program, groups: Sequence[Group], most: Callable[[Size, int], int]
) -> OnlineAttention | None:
    """The first three groups as attention; `most` as of `product_of`."""
    if len(groups) < 3:
        return None
    scores, weights, results = groups[:3]
    weights, results = _with_weights(program, scores, weights, results)
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
    hidden = {
        step.buffer for one in groups[:2] for step in one.steps if isinstance(step, Stored)
    }  # fmt: skip
    others = [one for one in program.groups if one not in groups[:3]]
    if any(_reads(one, name) for name in hidden
           for group in others for step in group.steps for one in e.walk(step.value)):  # fmt: skip
        return None
    if any(program.buffers[name].role != "scratch" for name in hidden):
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
    if any(one.buffer == kept.buffer for one in e.reads(whole)):
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
    m = max(reversed(rows), key=lambda one: most(one.size, 1024))  # others are heads of one key
    axis = Axis(inner, scores.inner[0].size)
    batch = tuple(one for one in results.outer if one not in (m, columns[0]))
    found = OnlineAttention(
        m, n, columns[0], axis, batch, left, right, value, whole, last.name, ends
    )
    return found if _fits(found, most) else None


def _fits(found: OnlineAttention, most: Callable[[Size, int], int]) -> bool:
    kinds = {found.query.dtype, found.key.dtype, found.value.dtype}
    if len(kinds) != 1 or not kinds <= {*HALVES, "float32"}:
        return False
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
    while isinstance(value, e.Converted) and {value.dtype, value.arg.dtype} <= {*HALVES, "float32"}:
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
    own = (one for one in last.factors if any(r.buffer in names for r in e.reads(one)))
    factor = next(own, None)
    match _plain(factor) if factor is not None else None:
        case e.Operation(op="div", args=(
            e.Operation(op="exp", args=(
                e.Operation(op="sub", args=(score, e.Read(buffer=kept_tops))),
            )), e.Read(buffer=kept_totals),
        )) if (kept_tops, kept_totals) == (tops.buffer, totals.buffer):  # fmt: skip
            pass
        case _:
            return same
    mine = next((read for read in e.reads(top.value) if read.buffer in names), None)
    theirs = next((read for read in e.reads(score) if read.buffer in names), None)
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
    taken = {*program.buffers, *program.numbers, *program.places.ranges, *program.places.taken}
    return next(name for name in ("e", "f", "g", "c", "ee", "ff") if name not in taken)


def unmasked(score: e.Expression, m: str, n: str) -> tuple[e.Expression, Size | None]:
    """Scores where no key comes after its query, and by how much the last key may come after it.

    None: nothing forbids keys by where they are.
    """
    found: list[Size] = []

    def visit(value: e.Expression) -> e.Expression:
        if not isinstance(value, e.Operation):
            return value
        if value.op == "where":
            test, one, other = value.args
            for chosen, masked, is_met in ((one, other, True), (other, one, False)):
                if _is_forbidden(masked):
                    last = _last(test, is_met, m, n)
                    if last is not None:
                        found.append(last)
                        return visit(chosen)
                    return replace(value, args=(test, visit(one), visit(other)))
        if value.op in ("add", "sub"):
            return replace(value, args=tuple(map(visit, value.args)))
        return value

    plain = visit(score)
    return (plain, found[0]) if len(found) == 1 else (score, None)


def _is_forbidden(value: e.Expression) -> bool:
    while isinstance(value, e.Converted):
        value = value.arg
    return isinstance(value, e.Number) and value.value == float("-inf")


def _last(test: e.Expression, is_met: bool, m: str, n: str) -> Size | None:
    """`c` if the test says that n <= m + c, which has to be as `is_met` says."""
    while isinstance(test, e.Operation) and test.op == "not":
        (test,), is_met = test.args, not is_met
    if not isinstance(test, e.Operation) or test.op not in ("ge", "le", "gt", "lt"):
        return None
    places = []
    for one in test.args:
        while isinstance(one, e.Converted):
            one = one.arg
        if isinstance(one, e.Number) and one.dtype.startswith("int"):
            places.append(Size.of(int(one.value)))
        elif isinstance(one, e.Position):
            places.append(one.index)
        elif isinstance(one, e.Operation) and one.op in ("add", "sub"):
            parts = []
            for arg in one.args:
                while isinstance(arg, e.Converted):
                    arg = arg.arg
                if isinstance(arg, e.Position):
                    parts.append(arg.index)
                elif isinstance(arg, e.Number) and arg.dtype.startswith("int"):
                    parts.append(Size.of(int(arg.value)))
                else:
                    return None
            places.append(parts[0] + parts[1] if one.op == "add" else parts[0] - parts[1])
        else:
            return None
    left, right = places
    op = test.op
    if not is_met:
        op = {"ge": "lt", "le": "gt", "gt": "le", "lt": "ge"}[op]
    if op in ("le", "lt"):
        left, right, op = right, left, {"le": "ge", "lt": "gt"}[op]
    room = left - right - (1 if op == "gt" else 0)  # not negative
    if coefficient(room, m) != ONE or coefficient(room, n) != Size.of(-1):
        return None
    return room - Size.of(m) + Size.of(n)
