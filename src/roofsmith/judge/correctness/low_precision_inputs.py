"""Inputs rounded to a narrower type, behind sums in which that averages out.

A loss is within its budget, which has room for sums in any order, though the product that it sums
was computed in bfloat16. But whoever rounds inputs is off by what that does to the truth, in size
and in sign, on draw after draw; other arithmetic isn't.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from roofsmith.analysis.tolerance import EPSILON, Budget
from roofsmith.domain.arrays import ArraySpec
from roofsmith.judge.correctness.diagnosis import (
    CLOSER,
    FEWEST,
    FLOAT8,
    FLOAT8_WIDE,
    MIXED_INPUTS,
    NARROWER,
    Diagnosis,
    Narrow,
    mixtures,
)
from roofsmith.judge.correctness.shortened_inputs import How

MOST_NUMBERS = 2**12
"""Of an output that are looked at, at random: they tell as much as all. Chosen."""
MOST_ELEMENTS = 2**26
"""Of all arrays together, beyond which nobody rounds them: that takes some times their memory."""
DRAWS = 8
"""On which one way of rounding has to explain the error: all but `CLOSER` of it. A single number's
is explained so by another one, as large as it is and normal as well, in 3e-6 of the cases; and of
many, one may outweigh all others."""
HOPEFUL = 0.5
"""In place of `CLOSER`, what may be left as long as there are fewer draws. Chosen."""
FLUCTUATING = 0.5
"""The same of what is left when the mean of all draws is subtracted: sums that lose something in
every step err to one side, and so do inputs that are cut off. Chosen."""
FAR_SHARE = 0.4
"""Of the multiple of the honest error, or of an epsilon, that is allowed: what is farther off is
looked at. Chosen."""
FIRST_LOOKS = 2
"""Draws on which the errors of fewer than `FEWEST` numbers may be small by chance. Chosen."""
LONGEST_S = 0.5
"""Of one draw, for all ways but the likeliest: every input rounded to a type."""

Numbers = NDArray[np.float64]
Places = NDArray[np.int64]


INT8, UINT8 = Narrow("int8", 8), Narrow("uint8", 9)
"""The latter of positive numbers alone: integers with a sign have a bit more than it."""
Inputs = Literal["any", "all", "some"]
"""Whose rounding is looked for: that of all together, of a part of them, or of either."""
KINDS: Mapping[str, tuple[tuple[How, tuple[Narrow, ...], Inputs], ...]] = {
    "float64": (("rounded", NARROWER["float64"], "any"), ("cut", NARROWER["float64"], "any")),
    "float32": (
        ("rounded", NARROWER["float32"], "any"),
        ("scaled", (INT8,), "all"),
        ("scaled by row", (INT8,), "all"),
        ("scaled by column", (INT8,), "all"),
        ("cut", NARROWER["float32"], "any"),
        ("scaled", (INT8,), "some"),
        ("scaled by row", (INT8,), "some"),
        ("scaled by column", (INT8,), "some"),
        ("scaled", (UINT8,), "all"),
        ("scaled by row", (UINT8,), "all"),
        ("scaled by column", (UINT8,), "all"),
        ("rounded", (FLOAT8, FLOAT8_WIDE), "all"),
    ),
}
"""How inputs of a kernel may be rounded whose output is of a type; the likeliest first, since each
way costs a run of the reference."""
IN_WORDS: Mapping[How, str] = {
    "rounded": "rounded to {} bits", "cut": "cut to {} bits",
    "scaled": "as integers of {} bits times a scale",
    "scaled by row": "as integers of {} bits times a scale per row",
    "scaled by column": "as integers of {} bits times a scale per column",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Way:
    """Of rounding inputs: which, to how many bits, and how."""

    bits: int
    how: How
    names: tuple[str, ...]

    def __str__(self) -> str:
        return f"{', '.join(map(repr, self.names))} {IN_WORDS[self.how].format(self.bits)}"


@dataclass(frozen=True, slots=True)
class Attempt:
    """To explain what an output is off by on one draw."""

    dtype: str
    off: list[float]
    """From the truth, element by element."""
    made: dict[Way, list[float]] = field(default_factory=dict)
    """The same of the truth of rounded inputs, by every way that was asked for, or comes near."""

    def as_message(self) -> dict[str, Any]:
        """As it is sent; `from_message` reads it."""
        made = [[*astuple(way), by] for way, by in self.made.items()]
        return {"dtype": self.dtype, "off": self.off, "made": made}

    @classmethod
    def from_message(cls, message: Mapping[str, Any]) -> Self:
        """The inverse of `as_message`."""
        made = {Way(bits, how, tuple(names)): by for bits, how, names, by in message["made"]}
        return cls(message["dtype"], message["off"], made)


Attempts = Mapping[str, Attempt]
"""On one draw, by output: of those alone that are farther off than honest arithmetic is."""
Ways = Mapping[str, Sequence[Way]]
"""Ways that may explain an output, by its name."""


@dataclass(frozen=True, slots=True)
class Question:
    """What explains an output that is within its budget, asked of one draw."""

    output: str
    ways: tuple[Way, ...]
    """To try; the likeliest first, which round every input."""
    is_first: bool
    """Whether no other draw was asked before: what comes near then is asked again."""
    least: float
    """Norm-wise error that has to be explained."""
    places: Places
    """Elements of the flat output that are looked at; shape (n,)."""

    def as_message(self) -> dict[str, Any]:
        """As it is sent; `from_message` reads it."""
        return {
            "output": self.output, "ways": [astuple(way) for way in self.ways],
            "is_first": self.is_first, "least": self.least, "places": self.places.tolist(),
        }  # fmt: skip

    @classmethod
    def from_message(cls, message: Mapping[str, Any]) -> Self:
        """The inverse of `as_message`."""
        ways = tuple(Way(bits, how, tuple(names)) for bits, how, names in message["ways"])
        places = np.array(message["places"], np.int64)
        return cls(message["output"], ways, message["is_first"], message["least"], places)


def questions(
    arrays: Sequence[ArraySpec],
    budget_of: Callable[[str], Budget],
    factor: float,
    known: Ways | None,
) -> Iterator[Question]:
    """What to ask of a draw.

    None of outputs whose exactness somebody gave, or of arrays so large that there may be no memory
    for rounding them.

    Args:
        arrays: of the workload.
        budget_of: the budget of an output, by its name.
        factor: multiple of the honest error that is allowed.
        known: ways that explained errors on other draws; None: any.
    """
    if sum(map(_size, arrays)) > MOST_ELEMENTS:
        return
    inputs = tuple(a.name for a in arrays if a.is_given and a.dtype in EPSILON)
    for output in arrays:
        if not output.is_result or output.dtype not in KINDS:
            continue
        budget = budget_of(output.name)
        if budget.atol is not None or budget.rtol is not None:
            continue
        ways = _ways(output.dtype, inputs) if known is None else known.get(output.name, ())
        if chosen := tuple(ways):
            least = FAR_SHARE * factor * max(budget.honest.norm, EPSILON[output.dtype])
            yield Question(output.name, chosen, known is None, least, _places(output))


def attempt(
    asked: Question,
    out: NDArray[Any],
    truth: NDArray[np.float64],
    shortened: Callable[[Way], NDArray[np.float64]],
) -> Attempt | None:
    """Answer a question.

    Args:
        asked: of one draw.
        out: what a kernel wrote at the question's places, in its declared type; shape (n,).
        truth: what is right there.
        shortened: what would be if inputs were rounded so.

    Returns:
        None if there is nothing to explain.
    """
    off = out - truth
    if asked.is_first and not _length(off) > asked.least * _length(truth):
        return None
    found: dict[Way, list[float]] = {}
    until = time.monotonic() + LONGEST_S
    for way in asked.ways:
        by = shortened(way) - truth
        if not asked.is_first or _is_near(off, by, HOPEFUL):
            found[way] = by.tolist()
        is_likely = (way.how, way.names) == (asked.ways[0].how, asked.ways[0].names)
        if asked.is_first and not is_likely and time.monotonic() > until:
            break
    return Attempt(out.dtype.name, off.tolist(), found)


def first_looks(outputs: Iterable[ArraySpec]) -> int:
    """On how many draws to look for errors that have to be explained."""
    return FIRST_LOOKS if any(_size(output) < FEWEST for output in outputs) else 1


def explained(look: Callable[[Ways | None], Attempts], looks: int) -> tuple[str, Diagnosis] | None:
    """An output whose errors are those of rounded inputs on draw after draw, and what it is.

    Args:
        look: attempts on a draw, another one each time; with any way, or with ways that are known
            from before.
        looks: see `first_looks`.
    """
    seen = [next(filter(None, (look(None) for _ in range(looks))), {})]
    known: Ways = {name: tuple(one.made) for name, one in seen[0].items() if one.made}
    while known:
        left = {}
        for name, ways in known.items():
            mine = [attempts[name] for attempts in seen]
            is_last = len(mine) == DRAWS
            fit = [way for way in ways if _fits(mine, way, is_last=is_last)]
            if is_last and fit:
                nearest = min(fit, key=lambda way: _length(np.subtract(*_on_all(mine, way))))
                return name, _diagnosis(mine[0].dtype, len(mine), nearest)
            if fit:
                left[name] = fit
        known = left
        if known:
            seen.append(look(known))
    return None


def _fits(seen: Sequence[Attempt], way: Way, *, is_last: bool) -> bool:
    """Whether a way explains the errors on all draws together, or may with more of them."""
    off, by = _on_all(seen, way)
    if not is_last:
        return _is_near(off, by, HOPEFUL)
    alike = _is_near(off - off.mean(axis=0), by - by.mean(axis=0), FLUCTUATING)
    return alike and _is_near(off, by, CLOSER)


def _on_all(seen: Sequence[Attempt], way: Way) -> tuple[Numbers, Numbers]:
    """Errors, and what a way makes; shape (draws, numbers). No draw outweighs the others."""
    off, by = np.array([one.off for one in seen]), np.array([one.made[way] for one in seen])
    sizes = np.sqrt(np.square(off).sum(axis=1, keepdims=True))
    unit = np.maximum(sizes, np.median(sizes))
    return off / unit, by / unit


def _diagnosis(dtype: str, draws: int, way: Way) -> Diagnosis:
    kinds = (kind for how, kinds, _ in KINDS[dtype] if how == way.how for kind in kinds)
    narrow = next(kind.name for kind in kinds if kind.bits == way.bits)
    return Diagnosis(
        "precision",
        f"computed as if in {narrow}, where {dtype} is declared: on {draws} draws its error is that"
        f" of {way}",
    )


def _ways(dtype: str, inputs: Sequence[str]) -> Iterator[Way]:
    """Of each kind, all inputs at once first, then each alone, then all but one; none if there are
    none."""
    if not inputs:
        return
    some = list(mixtures(inputs[:MIXED_INPUTS]))
    parts: Mapping[Inputs, Sequence[tuple[str, ...]]] = {
        "any": [tuple(inputs), *some], "all": [tuple(inputs)], "some": some,
    }  # fmt: skip
    for how, kinds, whose in KINDS[dtype]:
        for names in parts[whose]:
            for narrow in kinds:
                yield Way(narrow.bits, how, names)


def _is_near(off: Numbers, by: Numbers, share: float) -> bool:
    """Whether one explains the other but for a share of it."""
    return _length(off - by) <= share * _length(off)


def _places(output: ArraySpec) -> Places:
    """All elements of an output, or some at random if there are many."""
    size = _size(output)
    if size <= MOST_NUMBERS:
        return np.arange(size)
    return np.random.default_rng().choice(size, MOST_NUMBERS, replace=False)


def _size(array: ArraySpec) -> int:
    return int(np.prod(array.shape, dtype=np.int64))


@np.errstate(over="ignore")  # of numbers near the type's largest
def _length(numbers: Numbers) -> float:
    return float(np.sqrt(np.square(numbers).sum()))
