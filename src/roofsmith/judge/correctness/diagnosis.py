"""What a wrong output is: which kernel would write such numbers.

Everything here is arithmetic on one output. What an earlier call should have given, or what
narrower inputs would give, is asked for only when it is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from roofsmith.analysis.tolerance import NORM_FLOOR_EPS, Errors, floors, measure
from roofsmith.judge.correctness.distributions import SIGNIFICAND
from roofsmith.judge.correctness.poison import NAN_GUARDS, unwritten
from roofsmith.judge.correctness.shortened_inputs import How, round_to

Array = NDArray[np.generic]
Numbers = NDArray[np.float64]

Code = Literal[
    "skipped_work", "out_of_bounds", "nan_output", "stale_output", "memoised_result", "precision",
    "nondeterministic", "wrong_output",
]  # fmt: skip
"""Reasons of a wrong output; docs/judge.md explains them."""

PREVIOUS = "the call before"
"""How the answer of the call just before is labelled among earlier ones."""

TELLING = 8
"""Integers that must be another call's, and not this one's, for that call to be named. Of fewer
floating-point numbers, nothing but a kernel's rounding may be between them and that call's. Chosen.
"""

MIXED, MIXED_INPUTS = 4, 6
"""Earlier calls, and inputs, of which mixtures are tried: each takes a run of the reference."""


def mixtures(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Which inputs a kernel may have kept from an earlier call while it reads the others anew: each
    of them alone, and all but one."""
    if len(names) > 1:
        yield from ((name,) for name in names)
    if len(names) > 2:
        yield from (tuple(other for other in names if other != name) for name in names)


def of_these_inputs(names: Sequence[str], call: str) -> str:
    """A mixture, as `Evidence.earlier` labels it."""
    which = ", ".join(map(repr, names))
    return f"these inputs with {which} of {call}"


REPRESENTABLE = 0.98
"""If this share of an output's numbers fits a narrower type, they were rounded to it."""
CLOSER = 0.25
"""How much nearer an output must be to the truth of shortened inputs than to the truth."""
MUCH_CLOSER = 0.05
"""The same of another call's answer: where the order of a long sum may make large errors, the right
answers to two calls can both lie within the budget of something that is neither. And of outputs of
a few numbers."""
SYSTEMATIC = 0.5
"""Cosine between error and truth beyond which it isn't rounding: a factor or a summand is wrong."""
WIDESPREAD = 0.02
"""Least median of |error| in units of its root mean square: rounding spares few elements."""
SURE_SHARE = 0.5
"""How near to 1 the truth's share in an error must be for a missing part, and three times its own
noise below that."""
SAMPLED = 2**20
"""Elements that shares and medians are taken of."""
FEW_EPS = 4.0
"""An error beyond as many epsilons of a narrower type, norm-wise, is not taken for its rounding."""
LEAST_EPS = 1 / 64
"""Nor one of less: inputs that are rounded cost about 0.3 epsilons each, a tenth of that if they
are a hundredth of all."""
ROUNDED_EPS = 0.5
"""Norm-wise error, in epsilons, up to which rounded inputs may be all that is wrong. Chosen, beyond
the 0.3 above."""

HOWS: tuple[How, ...] = ("rounded", "cut")
"""Ways of shortening inputs, of which one may explain an error that is beyond its budget."""

AS_WRONG = 1 / 16
"""Elements off by more than this share of the worst are wrong in the same way, if they are fewer
than half: rounding leaves others far behind only where the rest was computed otherwise. Chosen,
like the next."""
FEWEST = 16
"""Elements that can show a pattern of rounding."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """A stable code and a sentence without the output's name."""

    reason: Code
    detail: str


@dataclass(frozen=True, slots=True)
class Narrow:
    """A narrower type that a kernel may have computed in."""

    name: str
    bits: int
    """Of its significand, with the one that isn't stored."""

    @property
    def eps(self) -> float:
        """Distance from 1 to the next number."""
        return 2.0 ** (1 - self.bits)


FLOAT32 = Narrow("float32", 24)
TF32 = Narrow("TF32 or float16", 11)
BFLOAT16 = Narrow("bfloat16", 8)
FLOAT8 = Narrow("float8 or int8", 4)
FLOAT8_WIDE = Narrow("float8 with five bits of exponent", 3)

NARROWER: Mapping[str, tuple[Narrow, ...]] = {
    "float64": (FLOAT32, TF32, BFLOAT16), "float32": (TF32, BFLOAT16),
    "float16": (BFLOAT16, FLOAT8, FLOAT8_WIDE),
    "bfloat16": (FLOAT8, FLOAT8_WIDE),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Evidence:
    """One output of one call, and what it can be held against."""

    out: Array
    """As it lies in memory; bfloat16 as its bits, in uint16."""
    values: Array
    """The same as numbers: float64 for floating types, integers as they are."""
    truth: Array
    """In float64, or integers."""
    dtype: str
    errors: Errors
    norm_budget: float
    element_budget: float
    earlier: Callable[[], Iterable[tuple[str, Array]]] = lambda: ()
    """Right answers to other calls, with which call it was, the nearest first; then to mixtures."""
    shortened: Callable[[int, How], Array | None] | None = None
    """The truth of inputs shortened to so many bits. None: it is no nearer."""


@np.errstate(over="ignore", invalid="ignore")  # squares of numbers near the type's largest
def diagnose(found: Evidence) -> Diagnosis:
    """Name a failed output."""
    return (
        _poisoned(found)
        or _not_finite(found)
        or _of_another_call(found)
        or _imprecise(found)
        or _plainly_wrong(found)
    )


def _poisoned(found: Evidence) -> Diagnosis | None:
    """Elements that nobody wrote, where the poison isn't right by chance."""
    missing = unwritten(found.out, found.dtype)
    if not found.out.size or not missing.any():
        return None
    if not np.issubdtype(found.values.dtype, np.floating):
        wrong = found.values != found.truth
        missing = missing & wrong
        # Among many wrong integers, some are what poison is.
        if not missing.any() or 2 * np.count_nonzero(missing) < np.count_nonzero(wrong):
            return None
    return Diagnosis("skipped_work", f"{_share(missing)} were not written{_rows(missing)}")


def _not_finite(found: Evidence) -> Diagnosis | None:
    if not np.issubdtype(found.values.dtype, np.floating):
        return None
    bad = ~np.isfinite(found.values) & np.isfinite(found.truth)
    if not bad.any():
        return None
    if _holds_guard(found.out[bad], found.dtype):
        return Diagnosis(
            "out_of_bounds",
            f"read beyond its arrays: {_share(bad)} were computed from a guard band{_rows(bad)}",
        )
    what = "NaN" if np.isnan(found.values[bad]).all() else "NaN or infinite"
    return Diagnosis(
        "nan_output", f"{_share(bad)} are {what} where the reference is finite{_rows(bad)}"
    )


def _holds_guard(bad: Array, dtype: str) -> bool:
    """Whether NaN carry the bits of a guard band, as they do through x86's arithmetic."""
    if dtype not in SIGNIFICAND:
        return False
    size = bad.dtype.itemsize
    raw = np.ascontiguousarray(bad).reshape(-1).view(f"u{size}")
    # the sign goes with an operation's; the rest of the payload stays
    keep = np.array((1 << (8 * size - 1)) - 1, raw.dtype)
    patterns = [
        np.frombuffer(word.to_bytes(2, "little") * (size // 2), dtype=raw.dtype)[0] & keep
        for word in NAN_GUARDS
    ]
    return bool(np.isin(raw & keep, patterns).any())


def _of_another_call(found: Evidence) -> Diagnosis | None:
    for call, answer in found.earlier():
        if answer.shape != found.truth.shape or not _is_within(found, answer):
            continue
        if _may_be_chance(found, answer):
            continue
        if call == PREVIOUS:
            return Diagnosis("stale_output", "these are the right results of the call before")
        return Diagnosis("memoised_result", f"these are the right results of {call}")
    return None


def _may_be_chance(found: Evidence, answer: Array) -> bool:
    """Whether integers are few that another call has otherwise: a count may have been the same."""
    if np.issubdtype(found.values.dtype, np.floating):
        return False
    return int(np.count_nonzero(answer != found.truth)) < TELLING


def _is_within(found: Evidence, answer: Array) -> bool:
    if not np.issubdtype(found.values.dtype, np.floating):
        return bool(np.array_equal(found.values, answer))
    errors = measure(found.values, answer.astype(np.float64))
    most = min(found.norm_budget, MUCH_CLOSER * found.errors.norm)
    if found.values.size < TELLING:  # means of very many numbers hardly differ from call to call
        most = min(most, floors(found.dtype)[0])
    return errors.problem is None and errors.norm <= most and errors.element <= found.element_budget


def _imprecise(found: Evidence) -> Diagnosis | None:
    """Whether a narrower type explains the error, and how large that is."""
    told = _told_by_type(found)
    return told and replace(told, detail=f"{told.detail}; {_off(found)}")


def _told_by_type(found: Evidence) -> Diagnosis | None:
    """The narrowest type that all numbers fit, else the widest that explains the error."""
    if not np.issubdtype(found.values.dtype, np.floating) or found.errors.problem is not None:
        return None
    kinds = NARROWER[found.dtype]
    for narrow in reversed(kinds):
        why = _rounded_to(found, narrow)
        if why is not None:
            return _narrow(found, narrow, why)
    for narrow in kinds:
        why = _from_shortened(found, narrow)
        if why is None and _may_be_used(narrow, found.dtype) and _looks_rounded(found, narrow):
            why = (
                "the error is as large and as irregular as rounding to it, sums in it, or an"
                " approximation of few terms make it"
            )
        if why is not None:
            return _narrow(found, narrow, why)
    return None if (worst := _worst(found)) is None else _partly_imprecise(worst)


def _worst(found: Evidence) -> Evidence | None:
    """The elements that are off by far more than the others, if these are many and not most."""
    truth = found.truth.astype(np.float64, copy=False)
    off = np.abs(found.values.astype(np.float64, copy=False) - truth)
    which = np.asarray(off > AS_WRONG * off.max())
    if not FEWEST <= np.count_nonzero(which) < which.size / 2:
        return None
    values, shortened = found.values[which], found.shortened

    def of_these(bits: int, how: How) -> Array | None:
        answer = shortened(bits, how) if shortened is not None else None
        return None if answer is None else answer[which]

    errors = measure(values, found.truth[which])
    return replace(
        found, values=values, truth=found.truth[which], errors=errors, shortened=of_these
    )


def _partly_imprecise(worst: Evidence) -> Diagnosis | None:
    """The same of a part: how irregular its error is says nothing, since it was chosen by that."""
    for narrow in NARROWER[worst.dtype]:
        why = _rounded_to(worst, narrow) or _from_shortened(worst, narrow)
        if why is not None:
            return _narrow(worst, narrow, f"its {worst.values.size} worst elements: {why}")
    return None


def _narrow(found: Evidence, narrow: Narrow, why: str) -> Diagnosis:
    what = f"computed as if in {narrow.name}, where {found.dtype} is declared: {why}"
    return Diagnosis("precision", what)


def _rounded_to(found: Evidence, narrow: Narrow) -> str | None:
    """Numbers that fit the narrower type, where the truth's don't; off by no more than that."""
    if found.errors.norm > NORM_FLOOR_EPS * narrow.eps:
        return None
    used, true = (some[some != 0] for some in map(_sample, (found.values, found.truth)))
    if used.size < 2:
        return None
    share = float(np.mean(round_to(used, narrow.bits, np) == used))
    expected = float(np.mean(round_to(true, narrow.bits, np) == true))
    if share < REPRESENTABLE or expected > 0.5:
        return None
    return f"{share:.0%} of its numbers fit {narrow.bits} bits"


def _from_shortened(found: Evidence, narrow: Narrow) -> str | None:
    if found.shortened is None:
        return None
    closer = CLOSER if found.values.size >= FEWEST else MUCH_CLOSER  # of a few, some are by chance
    for how in HOWS:
        answer = found.shortened(narrow.bits, how)
        if answer is None or not np.isfinite(answer).all():
            continue
        narrow_truth = np.asarray(answer, np.float64)
        nearer = measure(found.values, narrow_truth)
        if nearer.norm <= closer * found.errors.norm and _is_nearer(found, narrow_truth):
            return f"it is right for inputs {how} to {narrow.bits} bits"
    return None


def _is_nearer(found: Evidence, answer: Numbers) -> bool:
    """Whether most elements are, too: one that outweighs all others may be what inputs cut off
    would make it, because it was itself cut off."""
    values, *others = (
        _sample(some).astype(np.float64) for some in (found.values, answer, found.truth)
    )
    nearer, plain = (float(np.median(np.abs(values - other))) for other in others)
    return nearer <= plain


def _may_be_used(narrow: Narrow, dtype: str) -> bool:
    """Whether the size of an error alone says that something was computed in a narrower type: no
    hardware and hardly anybody does so in one of far fewer bits than float64 has."""
    return dtype != "float64" or narrow == FLOAT32


def _looks_rounded(found: Evidence, narrow: Narrow) -> bool:
    if not LEAST_EPS * narrow.eps <= found.errors.norm <= FEW_EPS * narrow.eps < 1.0:
        return False
    truth = _sample(found.truth).astype(np.float64)
    error = _sample(found.values).astype(np.float64) - truth
    size, length = np.sqrt(np.square(error).sum()), np.sqrt(np.square(truth).sum())
    if size == 0 or length == 0 or error.size < 16:
        return False
    cosine = abs(float((error * truth).sum() / size / length))
    # What rounding leaves is uncorrelated with the rounded, so that the truth's share in the error
    # is all of it there, too: where the error is small enough for it, that tells nothing.
    if found.errors.norm > ROUNDED_EPS * narrow.eps and _lacks_terms(found):
        return False
    typical = float(np.median(np.abs(error))) / (size / error.size**0.5)
    return cosine < SYSTEMATIC and typical > WIDESPREAD


def _lacks_terms(found: Evidence) -> bool:
    """Whether the error may be a part of the result that is missing, as terms of a sum that were
    left out: subtracted from itself, so that the truth's share in it is all of it."""
    truth = _sample(found.truth).astype(np.float64)
    error = _sample(found.values).astype(np.float64) - truth
    size = float(np.square(error).sum())
    if size == 0:
        return False
    share = -float((error * truth).sum()) / size
    noise = float(np.sqrt(np.square(truth).sum() / size / error.size))
    return noise < SURE_SHARE / 3 and abs(share - 1) < SURE_SHARE


def _sample(array: Array) -> Array:
    """Elements from everywhere; the stride is odd, since most rows have an even length."""
    return array.reshape(-1)[:: array.size // SAMPLED | 1]


def _plainly_wrong(found: Evidence) -> Diagnosis:
    if not np.issubdtype(found.values.dtype, np.floating):
        wrong = np.asarray(found.values != found.truth)
        number = int(np.count_nonzero(wrong))
        return Diagnosis("wrong_output", f"{number} of {wrong.size} integers differ{_rows(wrong)}")
    if found.errors.problem is not None:
        return Diagnosis("wrong_output", found.errors.problem)
    truth = found.truth.astype(np.float64, copy=False)
    off = np.abs(found.values.astype(np.float64, copy=False) - truth)
    wrong = np.asarray(off > floors(found.dtype)[1] * np.abs(truth))
    what = _off(found)
    if found.errors.norm > found.norm_budget and _lacks_terms(found):
        what += "; it is what leaving out a part of every sum would make"
    return Diagnosis("wrong_output", f"{what}{_rows(wrong)}")


def _off(found: Evidence) -> str:
    """The error that is beyond its budget."""
    if found.errors.norm > found.norm_budget:
        return f"off by {found.errors.norm:.3g} norm-wise; the budget is {found.norm_budget:.3g}"
    return (
        f"an element is off by {found.errors.element:.3g} of its row's scale; the budget is"
        f" {found.element_budget:.3g}"
    )


def _share(which: NDArray[np.bool_]) -> str:
    number = int(np.count_nonzero(which))
    return f"{number} of {which.size} elements ({number / which.size:.0%})"


def _rows(which: NDArray[np.bool_]) -> str:
    """Where they are: which rows, or which elements if there is only one row."""
    if which.ndim > 1 and which.shape[-1] > 0:
        flat = which.reshape(-1, which.shape[-1]).any(axis=1)
        kind = "row"
    else:
        flat, kind = which.reshape(-1), "element"
    places: Sequence[int] = np.flatnonzero(flat).tolist()
    if not places or len(places) == flat.size:
        return ""
    if len(places) == 1:
        return f", in {kind} {places[0]}"
    return f", in {len(places)} of {flat.size} {kind}s, from {places[0]} to {places[-1]}"
