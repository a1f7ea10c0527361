"""What a reference's own draws show before any kernel is held against them."""

from __future__ import annotations

from collections.abc import Iterator

from roofsmith.analysis.sizes import smallest
from roofsmith.domain.comparison import ErrorReport
from roofsmith.domain.description import WorkloadDescription
from roofsmith.domain.target import Target
from roofsmith.domain.workload import AS_DRAWN, Workload
from roofsmith.errors import BadReferenceError
from roofsmith.judge.correctness.own_draws import DrawFigures, OutputFigures
from roofsmith.judge.gpu.oracle import GpuOracle
from roofsmith.judge.host.oracle import ReferenceOracle

Oracle = ReferenceOracle | GpuOracle

SMALL_SEEDS, LARGE_SEEDS = (0, 1), (2**30, 2**31 - 1)
"""People try the former; the judge draws with up to 31 bits."""
FEWER = 10
"""Times fewer different values with every large seed than with every small one are told. Chosen."""
APART = 100.0
"""The same of standard deviations, either way."""
MOST_NAN = 0.1
"""Of an output: rows that a mask leaves empty are few; more comes of inputs that don't fit."""
LEAST_FINITE = 0.1
"""Share of an output's numbers; with fewer there is next to nothing to compare. Chosen."""


def draw_notes(target: Target, oracle: Oracle) -> tuple[str, ...]:
    """What people should know of their reference: arrays that are copied into rows, and tolerances
    that let a kernel pass that computes nothing.

    One run of the reference in float64 per workload.

    Raises:
        BadReferenceError: it gives NaN on its own draws, or what its outputs can't hold.
    """
    found = [
        f"{workload.label}: every seed gives the same inputs, and nobody would notice a kernel that"
        " remembers its result: it is checked there, and not timed"
        for workload in target.unscored
    ]
    for workload in target.workloads:
        description = oracle.describe(workload)
        tolerances = _tolerances(target, description)
        drawn = oracle.figures(workload, SMALL_SEEDS[0], tolerances)
        if why := _why_incomparable(drawn):
            raise BadReferenceError(
                f"{target.truth.path} for {workload.label}: {why}",
                hint="let setup draw inputs on which every result is a number of its type",
            )
        found += _layouts(description)
        found += _not_finite(workload, drawn)
        found += _lax(workload, drawn, tolerances)
    return tuple(dict.fromkeys(found))


def seed_notes(target: Target, oracle: Oracle) -> tuple[str, ...]:
    """Inputs that a large seed, as the judge's are, makes into another problem than a small one."""
    workload = smallest(target, ())
    small, large = ([oracle.figures(workload, seeds[0])] for seeds in (SMALL_SEEDS, LARGE_SEEDS))
    if not any(_differing(small, large)):
        return ()
    small.append(oracle.figures(workload, SMALL_SEEDS[1]))
    large.append(oracle.figures(workload, LARGE_SEEDS[1]))
    return tuple(_differing(small, large))


def beyond_notes(errors: tuple[ErrorReport, ...]) -> tuple[str, ...]:
    """What a kernel that passed is wrong on nevertheless: inputs that only the judge draws."""
    wrong = {e.inputs: None for e in errors if e.share > 1 and e.inputs != AS_DRAWN}
    if not wrong:
        return ()
    return (
        f"wrong on inputs that only the judge draws: {'; '.join(wrong)}. That isn't held against a"
        " baseline: a candidate has to be right there only where the kernel before it is",
    )


def _tolerances(target: Target, description: WorkloadDescription) -> tuple[float, float] | None:
    """Those that count, absolute and relative; None: nobody gave any."""
    given = target.tolerance.atol, target.tolerance.rtol
    atol, rtol = (description.atol, description.rtol) if given == (None, None) else given
    return None if atol is None and rtol is None else (atol or 0.0, rtol or 0.0)


def _why_incomparable(drawn: DrawFigures) -> str | None:
    for name, one in drawn.outputs.items():
        if told := "; ".join(_odd(one)):
            what = f"nothing can be held against the reference's {name!r}: on setup's own draws"
            return f"{what} {told}{_whence(drawn)}"
    return None


def _odd(one: OutputFigures) -> Iterator[str]:
    """What no kernel can be held against in an output."""
    if one.nan == 1:
        yield "all of it is NaN, or left unwritten"
    elif one.nan > MOST_NAN:
        yield f"{_share(one.nan)} of it is NaN"
    if one.beyond:
        yield f"{_share(one.beyond)} of it is beyond the range of {one.dtype}"
    if one.infinite and one.nan + one.infinite > 1 - LEAST_FINITE:
        yield f"{_share(one.infinite)} of it is infinite"


def _share(share: float) -> str:
    return f"{100 * share:.3g}%"


def _whence(drawn: DrawFigures) -> str:
    """Whether inputs are to blame already."""
    holding = [f"{name!r} holds NaN" for name, one in drawn.inputs.items() if one.nan]
    holding += [
        f"{name!r}, read as bfloat16, holds NaN or infinities"
        for name, one in drawn.inputs.items()
        if one.bits_are_nan
    ]
    return f"; input {' and '.join(holding)}" if holding else "; no input holds NaN"


def _layouts(description: WorkloadDescription) -> Iterator[str]:
    for name, strides in description.other_order.items():
        shape = next((a.shape for a in description.arrays if a.name == name), ())
        yield (
            f"setup's {name!r} isn't contiguous: shape {shape}, strides {strides} in elements; the"
            " kernel gets a row-major copy"
        )


def _not_finite(workload: Workload, drawn: DrawFigures) -> Iterator[str]:
    for name, one in drawn.outputs.items():
        if share := one.nan + one.infinite:
            yield (
                f"{workload.label}: {_share(share)} of {name!r} is infinite or NaN: there a"
                f" kernel has to give the same{_whence(drawn) if one.nan else ''}"
            )


def _lax(
    workload: Workload, drawn: DrawFigures, tolerances: tuple[float, float] | None
) -> Iterator[str]:
    """Tolerances within which a kernel that never looks at its inputs would be."""
    for name, one in drawn.outputs.items():
        if tolerances is None or one.constant is None:
            continue
        atol, rtol = tolerances
        what = f"{one.constant:.3g} throughout"
        what = f"zeros, and {what}" if one.zeros_pass else what
        still = "and norm-wise, so that would pass"
        if one.constant_error > rtol:
            still = f"and only the norm tells (off by {one.constant_error:.2g})"
        yield (
            f"{workload.label}: atol {atol:g} and rtol {rtol:g} are too large for {name!r}, whose"
            f" largest number is {one.largest:.2g}: {what} would be within them in every element,"
            f" {still}; leave them out, or give smaller ones"
        )


def _differing(small: list[DrawFigures], large: list[DrawFigures]) -> Iterator[str]:
    for name in small[0].inputs:
        before, after = ([draw.inputs[name] for draw in draws] for draws in (small, large))
        few, many = max(a.different for a in after), min(b.different for b in before)
        if FEWER * few < many:
            what = f"{many} different values with seed {SMALL_SEEDS[0]}, {few}"
        elif any(
            APART * max(one.spread for one in lower) < min(one.spread for one in upper)
            for lower, upper in ((before, after), (after, before))
        ):
            what = (
                f"a standard deviation of {before[0].spread:.2g} with seed {SMALL_SEEDS[0]},"
                f" {after[0].spread:.2g}"
            )
        else:
            continue
        yield (
            f"{name}: {what} with seed {LARGE_SEEDS[0]}: does the seed go into the values? The"
            " judge's seeds have 31 bits"
        )
