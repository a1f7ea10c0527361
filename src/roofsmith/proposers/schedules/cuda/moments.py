"""A sum and the sum of squared differences from its mean, in one pass: Welford, Chan."""

from __future__ import annotations

from dataclasses import replace

from roofsmith.computation.sizes import elements
from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.groups import Group, Reduced, Step, rewritten

DTYPE = "moments"
"""Of what a row has so far: how many elements, their mean, how far they spread."""
MOMENTS = """\
// Of some numbers: how many, their mean, and the sum of squared differences from it.
struct Moments {
    float count, mean, spread;
};

// One more (Welford).
__device__ void add_moment(float value, Moments &all) {
    const float apart = value - all.mean;
    all.count += 1;
    all.mean += __fdividef(apart, all.count);
    all.spread += apart * (value - all.mean);
}

// Of all of both (Chan).
struct Merged {
    __device__ Moments operator()(Moments a, Moments b) const {
        const float count = a.count + b.count, apart = b.mean - a.mean;
        const float share = count > 0 ? b.count / count : 0, moved = apart * share;
        // In this order: a square of large numbers overflows, also where it counts for none.
        return {count, a.mean + moved, a.spread + b.spread + apart * (moved * a.count)};
    }
};"""
EXCHANGED = """\
__device__ Moments exchanged(Moments value, int offset) {
    return {
        __shfl_xor_sync(ALL, value.count, offset), __shfl_xor_sync(ALL, value.mean, offset),
        __shfl_xor_sync(ALL, value.spread, offset),
    };
}"""
PARTS = {"total_of": "{0}.mean * {0}.count", "spread_of": "{0}.spread"}
"""What is asked of moments, as operations on them."""


def with_moments(group: Group) -> Group:
    """With sums whose second pass, over squares of what is less the mean, comes with the first.

    Chan, Golub & LeVeque, Algorithms for Computing the Sample Variance, 1983: the result is as
    good as that of two passes.
    """
    sums = {
        step.name: step for step in group.steps
        if isinstance(step, Reduced) and step.op == "sum" and step.dtype == "float32"
        and not any(isinstance(one, e.Held) for one in e.walk(step.value))
    }  # fmt: skip
    spreads = {
        step.name: first for step in group.steps
        if isinstance(step, Reduced) and (first := _spread_around(step, sums, group)) is not None
    }  # fmt: skip
    taken = set(spreads.values())

    def known(value: e.Expression) -> e.Expression:
        if not isinstance(value, e.Held):
            return value
        if value.name in spreads:
            held = e.Held(DTYPE, spreads[value.name])
            return e.Operation("float32", "spread_of", (held,))
        if value.name in taken:
            return e.Operation("float32", "total_of", (e.Held(DTYPE, value.name),))
        return value

    steps: list[Step] = []
    for step in group.steps:
        if isinstance(step, Reduced) and step.name in taken:
            steps.append(replace(step, op="moments", dtype=DTYPE))
        elif not (isinstance(step, Reduced) and step.name in spreads):
            steps.append(rewritten(step, known))
    return replace(group, steps=tuple(steps)) if taken else group


def _spread_around(step: Reduced, sums: dict[str, Reduced], group: Group) -> str | None:
    """The sum around whose mean `step` adds up squares of the same values."""
    if step.op != "sum" or step.dtype != "float32":
        return None
    match step.value:
        case e.Operation(op="mul", args=(one, other)) if one == other:
            apart = one
        case e.Operation(op="pow", args=(one, e.Number(value=2))):
            apart = one
        case _:
            return None
    count = elements(tuple(axis.size for axis in group.inner))
    match apart:
        case e.Operation(
            op="sub", args=(value, e.Operation(op="div", args=(e.Held(name=name), by)))
        ) if name in sums and sums[name].value == value:  # fmt: skip
            match by:
                case e.Converted(arg=e.Position(index=index)) if index == count:
                    return name
                case e.Number(value=number) if count.constant == number:
                    return name
    return None
