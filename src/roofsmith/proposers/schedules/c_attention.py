"""Attention in C whose scores are never all there: blocks of queries walk along blocks of keys.

The softmax goes along, as in Milakov & Gimelshein, "Online normalizer calculation for softmax",
2018; both products are packed ones.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from roofsmith.computation.building import ZERO
from roofsmith.computation.sizes import Size, elements
from roofsmith.proposers.schedules import c_values as c
from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.c_writer import CWriter, Lines, block, indented, nested, sizes
from roofsmith.proposers.schedules.groups import Axis, Group, Program, Reduced, Scanned, Step
from roofsmith.proposers.schedules.online_attention import (
    SCORE,
    OnlineAttention,
    attention_of,
    unmasked,
)
from roofsmith.proposers.schedules.products import LEAST_SIZE, LEAST_WORK, PACKED, is_strided
from roofsmith.proposers.schedules.strides import coefficient, substituted


@dataclass(frozen=True)
class AttentionGroup(Group):
    """Scores, their softmax and the sum of values in one; without steps."""

    attention: OnlineAttention | None = None


def attention_in(group: Group) -> OnlineAttention | None:
    """What such a group computes; None: it is another."""
    return group.attention if isinstance(group, AttentionGroup) else None


def with_attention(program: Program, dims: Sequence[Mapping[str, int]]) -> Program:
    """The program with large attention in groups of its own, and no memory for its scores.

    Args:
        dims: of the workloads; without any nothing is known to be large.
    """

    def most(size: Size, unknown: int) -> int:
        return max((size.at(one) for one in dims), default=unknown)

    groups: list[Group] = []
    rest = list(program.groups) if dims else []
    while rest:
        found = attention_of(*_in_single(program, rest[:3]), most)
        if found is None or not _is_packed(found, program, dims):
            groups.append(rest.pop(0))
            continue
        outer = (*found.batch, found.m)
        groups.append(AttentionGroup(outer, (), (), attention=found))
        del rest[:3]
    if not any(isinstance(one, AttentionGroup) for one in groups):
        return program
    used = {name for group in groups for name in buffers_of(group)}
    used |= {name for place in program.places.names for name in _read(_values(place))}
    buffers = {
        name: one for name, one in program.buffers.items() if one.role != "scratch" or name in used
    }
    return replace(program, buffers=buffers, groups=tuple(groups))


def _in_single(program: Program, groups: Sequence[Group]) -> tuple[Program, Sequence[Group]]:
    """Groups in float32 where scores, as all that is given and all results, are float32 anyway.

    A scale that NumPy made float64 makes everything behind it float64; that rounds less than the
    scores were.
    """
    steps = [step for group in groups for step in group.steps]
    given = (one for step in steps for one in e.reads(step.value))
    kinds = {one.dtype for one in given if program.buffers[one.buffer].role != "scratch"}
    stored = {step.buffer for step in steps if not isinstance(step, Reduced | Scanned)}
    kinds |= {program.buffers[name].dtype for name in stored
              if program.buffers[name].role != "scratch"}  # fmt: skip
    first = groups[0].steps[0] if groups[0].steps else None
    if kinds != {"float32"} or not isinstance(first, Reduced) or first.dtype != "float32":
        return program, groups

    def single(value: e.Expression) -> e.Expression:
        if value.dtype == "float64":
            value = replace(value, dtype="float32")
        same = isinstance(value, e.Converted) and value.arg.dtype == value.dtype
        return value.arg if same and isinstance(value, e.Converted) else value

    def changed(step: Step) -> Step:
        step = replace(step, value=e.rewritten(step.value, single))
        if isinstance(step, Reduced | Scanned) and step.dtype == "float64":
            step = replace(step, dtype="float32")
        if isinstance(step, Reduced) and step.factors is not None:
            left, right = step.factors
            step = replace(step, factors=(e.rewritten(left, single), e.rewritten(right, single)))
        return step

    made = [replace(group, steps=tuple(map(changed, group.steps))) for group in groups]
    others = [group for group in program.groups if group not in groups]
    return replace(program, groups=(*made, *others)), made


def _is_packed(found: OnlineAttention, program: Program, dims: Sequence[Mapping[str, int]]) -> bool:
    """Whether both products are worth it, and their factors lie as packing takes them."""
    sides = (
        (found.query, (*found.batch, found.m, found.depth)),
        (found.key, (*found.batch, found.n, found.depth)),
        (found.value, (*found.batch, found.n, found.d)),
    )
    if any(
        not isinstance(one, e.Read) or one.dtype not in PACKED
        or not is_strided(one, axes, (), program) for one, axes in sides
    ):  # fmt: skip
        return False
    axes = (found.m, found.n, found.depth)
    many = [[axis.size.at(one) for axis in axes] for one in dims]
    return any(min(one) >= LEAST_SIZE and one[0] * one[1] * one[2] >= LEAST_WORK for one in many)


def _values(place: e.Place) -> list[e.Expression]:
    return [place.value] if isinstance(place, e.Chosen) else []


def _read(values: Collection[e.Expression]) -> set[str]:
    return {one.buffer for one in e.reads(*values)}


def buffers_of(group: Group) -> set[str]:
    """All that a group reads or writes."""
    if (product := group.product) is not None:
        return {product.left.buffer, product.right.buffer, product.buffer}
    steps, values = group.steps, [step.value for step in group.steps]
    if (one := attention_in(group)) is not None:
        steps = one.stores
        values = [one.query, one.key, one.value, one.score, *(step.value for step in steps)]
    return _read(values) | {
        step.buffer for step in steps if not isinstance(step, Reduced | Scanned)
    }


class CAttention(CWriter):
    """Writes attention."""

    def _attend(self, one: OnlineAttention) -> Lines:
        self.used |= {"QUERIES", "KEYS", "gemm", "stdlib.h"}
        kind, m, n = c.computed(one.value.dtype), one.m.name, one.n.name
        score, top, weight, total = (
            self.own(name) for name in ("score_", "top_", "weight_", "total_")
        )
        wide = c.wrapped(c.size_text(one.d.size))
        lines = [
            *self._ends(one.m, "QUERIES"),
            *block(
                f"for (ptrdiff_t {m} = 0; {m} < {m}1 - {m}0; {m}++)",
                [f"{top}[{m}] = -INFINITY;", f"{weight}[{m}] = 0;"],
            ),
            f"for (ptrdiff_t {m} = 0; {m} < ({m}1 - {m}0) * {wide}; {m}++) {total}[{m}] = 0;",
        ]
        plain, last = unmasked(one.score, m, n)
        end = c.size_text(one.n.size)
        if last is not None:
            behind = f"{m}1 + {c.wrapped(c.size_text(last))}" if last != ZERO else f"{m}1"
            shortest = self.own("end_")
            lines.append(f"const ptrdiff_t {shortest} = {behind} < {end} ? {behind} : {end};")
            end = shortest
        inner = [
            f"const ptrdiff_t {n}1 = {end} - {n}0 < KEYS ? {end} : {n}0 + KEYS;",
            *self._product(
                (f"{m}1 - {m}0", f"{n}1 - {n}0", c.size_text(one.depth.size)),
                (self._operand(one.query, (one.m, one.depth), one.m),
                 self._operand(one.key, (one.depth, one.n), one.n), f"{score}, KEYS, 1,"), "0",
            ),
        ]  # fmt: skip
        names = (score, top, weight, total)
        if last is None:
            inner += self._shares(one, one.score, names)
        else:
            room = f"{m}0 + {c.wrapped(c.size_text(last))}" if last != ZERO else f"{m}0"
            masked = self._shares(one, one.score, names)
            inner += [*block(f"if ({n}1 - 1 <= {room})", self._shares(one, plain, names))]
            inner += block("else", masked)
        inner += self._product(
            (f"{m}1 - {m}0", c.size_text(one.d.size), f"{n}1 - {n}0"),
            (f"{score}, KEYS, 1,", self._operand(one.value, (one.n, one.d), one.n),
             f"{total}, {wide}, 1,"), "1",
        )  # fmt: skip
        lines += block(f"for (ptrdiff_t {n}0 = 0; {n}0 < {end}; {n}0 += KEYS)", inner)
        lines += self._stored(one, names)
        heads = [*(self._for(axis) for axis in one.batch), self._step(one.m, "QUERIES")]
        nest = nested(heads, lines)
        rows = c.wrapped(c.size_text(one.m.size))
        if self.threads > 1:
            many = f" collapse({len(heads)})" if len(heads) > 1 else ""
            nest = [f"#pragma omp for{many} schedule(dynamic)", *nest]
        space = f"QUERIES * (KEYS + 2 + (size_t){wide})"
        body = [
            f"{kind} *const {score} = ({kind} *)malloc(sizeof({kind}) * {space});",
            f"if ({score} == NULL) abort();",
            f"{kind} *const {top} = {score} + QUERIES * KEYS, *const {weight} = {top} + QUERIES;",
            f"{kind} *const {total} = {weight} + QUERIES;", *nest, f"free({score});",
        ]  # fmt: skip
        if self.threads < 2:
            return ["{", *indented(body), "}"]
        count = c.size_text(elements(sizes(one.batch)))
        blocks = f"({rows} + QUERIES - 1) / QUERIES"
        count = blocks if count == "1" else f"(ptrdiff_t){c.wrapped(count)} * ({blocks})"
        pragma = f"#pragma omp parallel if ({count} >= {self.threads})"
        return [pragma, "{", *indented(body), "}"]

    def _product(
        self, counts: tuple[str, str, str], operands: tuple[str, str, str], beta: str
    ) -> Lines:
        call = self.own("gemm_call")
        return block("", [
            f"const gemm_product {call} = {{{', '.join(counts)},", *indented(operands),
            f"    1, {beta}}};", f"gemm({call});",
        ])  # fmt: skip

    def _operand(self, value: e.Expression, axes: tuple[Axis, Axis], blocked: Axis) -> str:
        """Where a block of one of two axes begins, and the strides of both."""
        assert isinstance(value, e.Read)
        index = e.flat(value.index, value.shape)
        strides = [c.size_text(coefficient(index, axis.name)) for axis in axes]
        moved = {axis.name: ZERO for axis in axes} | {blocked.name: Size.of(f"{blocked.name}0")}
        start = substituted(index, moved)
        loops = frozenset((*self.program.places.ranges, f"{blocked.name}0"))
        text = c.size_text(start, loops)  # these come first: products are made in 64 bits
        place = value.buffer if text == "0" else f"{value.buffer} + {text}"
        return f"{place}, {', '.join(strides)},"

    def _shares(
        self, one: OnlineAttention, value: e.Expression, names: tuple[str, str, str, str]
    ) -> Lines:
        """Of a block of scores: their exponentials, and what earlier ones fade by."""
        score, top, weight, total = names
        kind, m, n = c.computed(value.dtype), one.m.name, one.n.name
        exp = "exp" if value.dtype == "float64" else "expf"
        self.used.add(exp)
        row, high, share, sum_, base, faded = (
            self.own(name) for name in ("row_", "high_", "share_", "sum_", "base_", "faded_")
        )
        loops = [*(axis.name for axis in one.batch), m, n]
        at, element = f"{m} - {m}0", f"{row}[{n} - {n}0]"
        body = self._body(loops, len(loops) - 1, {SCORE: (element, len(loops))})
        (text,) = body.write([value])
        wide = c.wrapped(c.size_text(one.d.size))
        along = f"for (ptrdiff_t {n} = {n}0; {n} < {n}1; {n}++)"
        lines = [
            f"{kind} *const {row} = {score} + ({at}) * KEYS;",
            f"{kind} {high} = {top}[{at}];", *body.lines[len(loops) - 1],
            f"#pragma omp simd reduction(max:{high})",
            *block(along, [
                *body.lines[-1], f"const {kind} {share} = {text};", f"{element} = {share};",
                f"{high} = {share} > {high} ? {share} : {high};",
            ]),
            f"const {kind} {base} = {high} == -INFINITY ? 0 : {high};", f"{kind} {sum_} = 0;",
            f"#pragma omp simd reduction(+:{sum_})",
            *block(along, [
                f"const {kind} {share} = {c.OWN[exp]}({element} - {base});",
                f"{element} = {share};", f"{sum_} += {share};",
            ]),
            f"const {kind} {faded} = {c.OWN[exp]}({top}[{at}] - {base});",
            f"{top}[{at}] = {high};", f"{weight}[{at}] = {weight}[{at}] * {faded} + {sum_};",
            f"if ({faded} == 1) continue;", "#pragma omp simd",
            f"for (ptrdiff_t {one.d.name} = 0; {one.d.name} < {wide}; {one.d.name}++)",
            f"    {total}[({at}) * {wide} + {one.d.name}] *= {faded};",
        ]  # fmt: skip
        return block(self._for(one.m, f"{m}0", f"{m}1"), lines)

    def _stored(self, one: OnlineAttention, names: tuple[str, str, str, str]) -> Lines:
        """Sums of values by the sum of their weights, and what is made of that."""
        _, _, weight, total = names
        m, d = one.m.name, one.d.name
        loops = [*(axis.name for axis in one.batch), m, d]
        wide = c.wrapped(c.size_text(one.d.size))
        text = f"({total}[({m} - {m}0) * {wide} + {d}] / {weight}[{m} - {m}0])"
        body = self._body(loops, len(loops) - 1, {one.result: (text, len(loops))})
        stores, _ = self._stores(body, one.stores)
        inner = ["#pragma omp simd", *block(self._for(one.d), body.lines[-1] + stores)]
        lines = [*body.lines[len(loops) - 1], *inner]
        return block(self._for(one.m, f"{m}0", f"{m}1"), lines)
