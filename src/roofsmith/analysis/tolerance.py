"""How wrong an output is, and how wrong it may be.

Two measures against the float64 reference: norm-wise, ‖out - ref‖ / ‖ref‖ (Frobenius), and
element-wise, the worst |out - ref| over the larger of |ref| and the root mean square of its row
(see `row_length`): a kernel which writes zeros where results are tiny is found
out, and cancellation in single elements isn't held against anybody. The budget is a multiple of the
error that honest arithmetic makes in the declared precision; it is never taken from a fixed table
of tolerances.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

LARGEST_ERROR = 1e308
"""Stands for an infinite error, which JSON can't hold."""

NORM_FLOOR_EPS = 16.0
"""Least norm-wise budget in units of machine epsilon: room for another, equally good library
function (vector math libraries promise 4 ulp: Intel VML's LA mode, glibc's libmvec)."""

ELEMENT_FLOOR_EPS = 256.0
"""Least element-wise budget in epsilons: the worst of many elements is a few times the norm, and
many times where a fast algorithm, such as Winograd's convolution F(4x4, 3x3), adds and subtracts
what is larger than its results. Chosen."""
OTHER_ELEMENTS = 4.0
"""Times as much on inputs that the reference didn't draw. Chosen: a gate that is exact to an
epsilon of 1 was off by 630 where it was to let a thousandth of a large state through."""
LEAST_ROW = 16
"""Elements whose root mean square is a scale: of two, both may be small by chance. Chosen."""
MOST_JOINED = 8
"""Times as many elements of an axis as are needed may be joined, rather than all of it. Chosen."""

LEAST_SHARE = 1 / 4
"""Of the root mean square of a whole output, on its inputs or on own draws, that errors are
relative to at least where the reference didn't draw the inputs: `exp(x) - 1` is off by an epsilon
however small its result is, and a tile's rows by an epsilon of the largest. Chosen."""

GROSS = 0.5
"""Off by more than half of itself, a number says little. Chosen."""
LEAST_SQUARES = 1e-290
"""Of a sum of squares in float64: of a smaller one, summands may have vanished."""
BLOCK = 2**16
"""Numbers that are looked at at once."""

SUMMATION_FACTOR = 4.0
"""λ in the probabilistic bound λ sqrt(n) u for a sum of n terms in any order: Higham and Mary,
"A new approach to probabilistic rounding error analysis", SIAM J. Sci. Comput. 41(5), 2019."""

STALLED_SHARE, MOST_STALLED = 1 / 12, 0.01
"""Of the n u to the power of 1.5: what a sum of n terms of one sign may lack, in shares of itself,
if it is added up one by one, since terms below half a unit of its last place leave it as it is.
Measured on squares, exponentials, normal, log-normal and even numbers, n from 2^18 to 2^24: up to
0.068. And no more than the cap: who leaves out a hundredth of the terms gains no more than the
noise band. Beyond 4 million such terms one by one isn't honest any more, but up to 4% off."""

Roundings = Literal["random", "dominated", "alike", "cancelling"]
"""What may be assumed of rounding errors: that they are random; that a term may outweigh all others
of a sum, beside which small ones round to nothing; that terms round the same way, again and again;
that besides, differences cancel which never do on usual inputs."""
DOMINATED_SHARE, MOST_DOMINATED = 1 / 4, 2.0**14
"""Terms of a dominated sum, and how many at most, that round the same way. Measured on softmax of
normal rows in stretches, added up one by one in float32: up to 0.15 of n u, at n from 8192 to
131072 (tests/unit/test_distributions.py adds such up). A sum of more terms than the cap allows for
isn't added up one by one, or is as wrong on inputs of any kind."""

PER_TERM = 4.0
"""Roundings of a term that may go the same way: a running mean (Welford's) makes three of each."""
CANCELLING_EPS = 2.0**13
"""Least norm-wise budget, in epsilons, where differences cancel, and a quarter of the element-wise
one: distances as |a|^2 + |b|^2 - 2 a b were seen to be off by 104 and 1200 on rows of one number
(tests/adversarial/test_honest_formulas.py judges them). Chosen; who leaves work out is off by far
more than its 0.1%."""

HALF_NORM_EPS = 1.0
"""Norm-wise room of half-precision outputs in epsilons, beside sums in float32. Measured on
products, softmax, attention, layer norm and GELU in either type: one rounding of the output is
0.21, probabilities or partial sums in half 0.3, a chain of rounded steps 0.3 to 0.65, sixteen
partial sums added up in half 0.68, thirty-two 0.92. Weights in int8 are 1.1, bfloat16 in place of
float16 is 2.2 to 2.5, float8 is 3 and more."""

HALF_ELEMENT_EPS = 8.0
"""The same element-wise: the worst of the honest ones was 5.5."""

HALF_SHARE = 0.4
"""Of the multiple of the honest error that counts for half-precision outputs: what honest kernels
do there is a rounding more or less, not another order of thousands of them."""

MOST_NORM, MOST_ELEMENT = 0.25, 0.5
"""No budget is larger: half of a sum of positive terms is off by 0.5, nothing at all by 1."""

MOST_STRAINED = 0.75
"""The same of a single draw that magnifies rounding: a sum that cancels may be off by more than
others, but zeros are off by 1. Chosen."""

EPSILON: Mapping[str, float] = {
    "bfloat16": 2.0**-7, "float16": 2.0**-10, "float32": 2.0**-23, "float64": 2.0**-52,
}  # fmt: skip
"""Distance from 1 to the next number of each floating type; integers are exact."""

SUMMED_IN: Mapping[str, str] = {"float16": "float32", "bfloat16": "float32"}
"""What honest kernels keep sums in, where it isn't the output's type: matrix units and vector
libraries add products of half-precision numbers up in float32."""


@dataclass(frozen=True, slots=True)
class Errors:
    """How far one output is from the truth; zero is exact."""

    norm: float
    element: float
    problem: str | None = None
    """What is wrong beyond rounding: NaN where there should be none, and the like."""
    gross: float = 0.0
    """Share of the elements that are off by more than `GROSS` of themselves."""


@dataclass(frozen=True, slots=True)
class Budget:
    """How far one output may be from the truth."""

    norm: float
    element: float
    honest: Errors
    """What the reference itself makes in the declared precision."""
    atol: float | None = None
    """With `rtol`: replaces the element-wise half."""
    rtol: float | None = None
    gross: float | None = None
    """Share of the elements that may be off by more than `GROSS` of themselves; None: any."""
    own_scale: float | None = None
    """Where the reference didn't draw the inputs: root mean square of the output on own draws, or 0
    if that is no measure for it; see `LEAST_SHARE`."""

    def strained(self, norm: float, element: float) -> Budget:
        """The budget of a draw that magnifies every rounding error by these factors.

        It stays below what zeros are off by: where that isn't enough, nothing can be told.
        """
        given = not (self.atol is None and self.rtol is None)
        most = max(self.element, MOST_STRAINED)
        return replace(
            self,
            norm=min(self.norm * norm, max(self.norm, MOST_STRAINED)),
            element=self.element if given else min(self.element * element, most),
        )

    def wider(self, other: Budget) -> Budget:
        """Room for both: honest errors vary from draw to draw."""
        honest = Errors(
            max(self.honest.norm, other.honest.norm), max(self.honest.element, other.honest.element)
        )
        both = None not in (self.gross, other.gross)
        return Budget(
            max(self.norm, other.norm), max(self.element, other.element), honest, self.atol,
            self.rtol, self.gross if both else None, self.own_scale,
        )  # fmt: skip


def measure(
    out: NDArray[np.generic],
    truth: NDArray[np.generic],
    budget: Budget | None = None,
    scale: NDArray[np.float64] | None = None,
) -> Errors:
    """Errors of an output against the truth.

    Args:
        out: what a kernel wrote, in its declared type, any shape.
        truth: the same shape, in float64 (or the integer type); infinities and NaN in it must be
            matched exactly.
        budget: if it holds atol or rtol, the element-wise error is the worst
            |out - ref| / (atol + rtol |ref|) instead. Integers may be off by its atol.
        scale: where `out` holds parts of rows, shape (parts, length): root mean squares of the
            whole rows, shape (parts,).
    """
    if not np.issubdtype(out.dtype, np.floating):
        wrong = int(np.count_nonzero(_other_integers(out, truth, budget)))
        problem = f"{wrong} of {out.size} integers differ" if wrong else None
        return Errors(float(wrong), float(wrong), problem)
    if not out.size:
        return Errors(0.0, 0.0)
    length = row_length(out.shape) if scale is None else out.shape[-1]
    rows = out.reshape(-1, length), truth.reshape(-1, length)
    found = _measure_finite(*rows, budget, scale)
    return found or _measure_odd(out, truth, budget, scale)


def _measure_finite(
    out: NDArray[np.generic],
    truth: NDArray[np.generic],
    budget: Budget | None,
    scale: NDArray[np.float64] | None,
) -> Errors | None:
    """The same of rows, some at a time, so that nothing leaves a processor's caches before it was
    used; None if a number is infinite or NaN."""
    least, gross, element = _least_scale(truth, budget, scale), 0, 0.0
    errors, sizes = [], []
    step, largest = max(BLOCK // out.shape[1], 1), float(np.finfo(str(out.dtype)).max)
    for begin in range(0, len(out), step):
        some = slice(begin, begin + step)
        with np.errstate(over="ignore", invalid="ignore"):
            exact = np.abs(truth[some].astype(np.float64, copy=False))
            difference = np.subtract(out[some], truth[some], dtype=np.float64)
            np.abs(difference, out=difference)
        worst = float(difference.max(initial=0.0))
        # a look at each number only where the largest don't say that all are finite
        if not (worst < math.inf and exact.max(initial=0.0) <= largest):
            with np.errstate(over="ignore", invalid="ignore"):
                rounded = truth[some].astype(out.dtype)
            if not (np.isfinite(out[some]) & np.isfinite(rounded)).all():
                return None
        sizes.append(_norm(exact))
        if worst == 0:
            continue
        errors.append(_norm(difference))
        scales = None if scale is None else scale[some]
        element = max(element, _element_error(difference, exact, budget, scales, least))
        gross += _gross(difference, exact, out.dtype)
    size = max(_norm(np.array(sizes)), least * math.sqrt(truth.size))
    if scale is not None:  # parts may be far smaller than what they are parts of
        size = max(size, _norm(scale * math.sqrt(out.shape[1])))
    error = _norm(np.array(errors))
    is_known = size > 0 and error < math.inf  # else both may be infinite, and their ratio NaN
    norm = min(error / size, LARGEST_ERROR) if is_known else LARGEST_ERROR
    return Errors(norm if error else 0.0, element, gross=gross / out.size)


def _measure_odd(
    out: NDArray[np.generic],
    truth: NDArray[np.generic],
    budget: Budget | None,
    scale: NDArray[np.float64] | None,
) -> Errors:
    """The same where not all numbers are finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = truth.astype(out.dtype)
    finite = np.isfinite(rounded)
    if not finite.all():
        return _measure_with_infinities(out, truth, rounded, finite, budget, scale)
    bad = int(out.size - np.count_nonzero(np.isfinite(out)))
    problem = f"{bad} of {out.size} elements are NaN or infinite where the reference is finite"
    return Errors(LARGEST_ERROR, LARGEST_ERROR, problem)


def _other_integers(
    out: NDArray[np.generic], truth: NDArray[np.generic], budget: Budget | None
) -> NDArray[np.bool_]:
    """Which integers differ by more than they may; in float64, where they may differ at all."""
    wrong = np.asarray(out != truth)
    if budget is None or not budget.atol or not wrong.any():
        return wrong
    difference = np.abs(out.astype(np.float64) - truth.astype(np.float64))
    return np.asarray(wrong & (difference > budget.atol))


def _measure_with_infinities(
    out: NDArray[np.generic],
    truth: NDArray[np.generic],
    rounded: NDArray[np.generic],
    finite: NDArray[np.bool_],
    budget: Budget | None,
    scale: NDArray[np.float64] | None,
) -> Errors:
    odd_out, odd_ref = out[~finite], rounded[~finite]
    same = (odd_out == odd_ref) | (np.isnan(odd_out) & np.isnan(odd_ref))
    if not same.all():
        wrong = int(np.count_nonzero(~same))
        problem = f"{wrong} elements should be NaN or infinite like the reference's, and aren't"
        return Errors(LARGEST_ERROR, LARGEST_ERROR, problem)
    zero = np.zeros((), dtype=out.dtype)
    truth = np.where(finite, truth, np.zeros((), truth.dtype))
    return measure(np.where(finite, out, zero), truth, budget, scale)


def budget_for(
    honest: Errors,
    dtype: str,
    *,
    factor: float,
    terms: float,
    atol: float | None = None,
    rtol: float | None = None,
    roundings: Roundings = "random",
    is_own: bool = True,
    selects: bool = False,
) -> Budget:
    """What an output may be wrong by.

    Args:
        honest: error of the reference in the declared precision.
        dtype: declared type of the output.
        factor: multiple of the honest error.
        terms: how many terms an element sums, at least 1; any order of summation is allowed.
        atol: absolute tolerance that replaces the element-wise half, with `rtol`; all that integers
            may be off by.
        rtol: relative one.
        roundings: what may be assumed of their errors. What rounds the same way again and again
            does so by up to n u for every rounding of a term; the rest stays random.
        is_own: whether the reference itself drew the inputs. On others, an element may outweigh all
            others, so that nothing averages out norm-wise; and more honest formulas lose digits.
        selects: whether it consists of the inputs' own numbers, which nobody has to round.
    """
    if dtype not in EPSILON:
        return Budget(0.0, 0.0, honest, atol)
    terms = 0.0 if selects else max(terms, 1.0)
    biased = {
        "random": 0.0,
        "dominated": min(DOMINATED_SHARE * terms, MOST_DOMINATED),
        "alike": PER_TERM * terms,
        "cancelling": PER_TERM * terms,
    }
    halves = SUMMATION_FACTOR * terms**0.5 + biased[roundings]
    unit = EPSILON[SUMMED_IN.get(dtype, dtype)] / 2
    summation = halves * unit + stalled(terms, unit)
    norm, element = (EPSILON[dtype],) * 2 if selects else floors(dtype)
    if not is_own and not selects and dtype not in SUMMED_IN:
        norm, element = element, OTHER_ELEMENTS * element
        if roundings == "cancelling":
            norm = CANCELLING_EPS * EPSILON[dtype]
            element = 4 * norm
    if dtype in SUMMED_IN:
        factor *= HALF_SHARE
        norm, element = norm + summation, element + 4 * summation
    norm = min(max(factor * honest.norm, summation, norm), MOST_NORM)
    element = min(max(factor * honest.element, 4 * summation, element), MOST_ELEMENT)
    if atol is None and rtol is None:
        return Budget(norm, element, honest)
    return Budget(max(norm, rtol or 0.0), 1.0, honest, atol, rtol)


def stalled(terms: Any, unit: float) -> Any:
    """What a sum of so many terms of one sign may lack, in shares of itself; see `STALLED_SHARE`.

    Args:
        terms: a number, or an array of them.
        unit: half an epsilon of the type that it is kept in.
    """
    least = (MOST_STALLED / STALLED_SHARE) ** (2 / 3) / unit
    few = terms * (terms <= least) + least * (terms > least)
    return STALLED_SHARE * (few * unit) ** 1.5


def floors(dtype: str) -> tuple[float, float]:
    """The least budgets of a floating type, norm-wise and element-wise."""
    if dtype in SUMMED_IN:
        return HALF_NORM_EPS * EPSILON[dtype], HALF_ELEMENT_EPS * EPSILON[dtype]
    return NORM_FLOOR_EPS * EPSILON[dtype], ELEMENT_FLOOR_EPS * EPSILON[dtype]


def off_beyond(
    out: NDArray[np.generic], truth: NDArray[np.generic], budget: Budget
) -> tuple[NDArray[np.bool_], NDArray[Any]]:
    """Which elements are off by more than the element-wise budget, and how much that allows each.

    Args:
        out: in any type.
        truth: of the same shape; integers allow `atol` at most.
        budget: of this output.
    """
    exact = np.asarray(truth, np.float64)
    if not np.issubdtype(np.asarray(truth).dtype, np.floating):
        nothing = np.zeros(exact.shape, np.asarray(truth).dtype)
        return _other_integers(np.asarray(out), np.asarray(truth), budget), nothing
    sizes = np.abs(exact)
    if budget.atol is None and budget.rtol is None:
        scale = np.maximum(_row_scale(sizes), _least_scale(exact, budget, None))
        allowed = budget.element * np.maximum(scale, sizes)
    else:
        allowed = (budget.atol or 0.0) + (budget.rtol or 0.0) * sizes
    difference = np.abs(np.asarray(out, np.float64) - exact)
    return np.asarray(~(difference <= allowed) & (out != truth)), allowed


def _row_scale(sizes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Root mean square of every element's row."""
    rows = sizes.reshape(-1, row_length(sizes.shape))
    return np.broadcast_to(root_mean_squares(rows)[:, None], rows.shape).reshape(sizes.shape)


def root_mean_squares(rows: NDArray[Any]) -> NDArray[np.float64]:
    """Of every row, shape (N,) for rows of shape (N, D); what isn't finite counts as zero.

    Squares of what float64 holds neither overflow nor vanish here.
    """
    squares, length = np.zeros(len(rows)), max(rows.shape[1], 1)
    for begin in range(0, length, BLOCK):
        block = rows[:, begin : begin + BLOCK].astype(np.float64, copy=False)
        squares += np.einsum("ij,ij->i", block, block)
    found = np.sqrt(squares / length)
    odd = ~((squares > LEAST_SQUARES) & (squares < math.inf))
    if odd.any():
        sizes = np.abs(np.where(np.isfinite(rows[odd]), rows[odd], 0.0).astype(np.float64))
        largest = sizes.max(axis=1, initial=0.0, keepdims=True)
        shares = sizes / np.where(largest > 0, largest, 1.0)
        found[odd] = largest[:, 0] * np.sqrt(np.square(shares).sum(axis=1) / length)
    return np.asarray(found)


def row_length(shape: Sequence[int]) -> int:
    """Elements of a row, whose scale its errors are relative to.

    The last axis that is longer than 1: a single element is no scale for itself, since it may be
    what cancellation left of its terms. Nor are the parts of a complex number or of a pixel: to
    fewer than `LEAST_ROW`, elements of the axes before it are joined, as many as divide these
    evenly.
    """
    return _row_length(tuple(shape))


@lru_cache(maxsize=1024)
def _row_length(shape: tuple[int, ...]) -> int:
    length = 1
    for size in reversed(shape):
        if length >= LEAST_ROW:
            break
        wanted = -(-LEAST_ROW // length) if length > 1 else size
        parts = range(wanted, min(MOST_JOINED * wanted, size) + 1)
        length *= next((part for part in parts if size % part == 0), size)
    return length


def _least_scale(
    exact: NDArray[np.generic], budget: Budget | None, scale: NDArray[np.float64] | None
) -> float:
    """What errors are relative to at least; of parts, going by the rows that they are parts of."""
    if budget is None or budget.own_scale is None or exact.size == 0:
        return 0.0
    sizes = (exact if scale is None else scale).astype(np.float64, copy=False)
    return LEAST_SHARE * max(_norm(sizes) / math.sqrt(sizes.size), budget.own_scale)


def _norm(array: NDArray[np.float64]) -> float:
    """Frobenius norm, without the BLAS behind `np.linalg.norm`: its threads go on spinning for tens
    of milliseconds, on the processors that kernels are timed on next."""
    flat = array.reshape(-1)
    with np.errstate(over="ignore"):
        squares = float(np.einsum("i,i->", flat, flat))
    if LEAST_SQUARES < squares < math.inf:
        return math.sqrt(squares)
    largest = float(np.abs(array).max(initial=0.0))
    if largest == 0 or math.isinf(largest):
        return largest
    return largest * math.sqrt(float(np.square(array / largest).sum()))


def _gross(
    difference: NDArray[np.float64], sizes: NDArray[np.float64], dtype: np.dtype[Any]
) -> int:
    """How many are: see `Errors`; numbers that kernels may flush to zero count as right."""
    gross = difference > GROSS * sizes
    if not gross.any():
        return 0
    return int(np.count_nonzero(gross & (sizes >= np.finfo(dtype).tiny)))


def _element_error(
    difference: NDArray[np.float64],
    sizes: NDArray[np.float64],
    budget: Budget | None,
    scale: NDArray[np.float64] | None,
    least: float,
) -> float:
    """The worst of some rows, shape (N, D), of numbers of these sizes."""
    if budget is not None and not (budget.atol is None and budget.rtol is None):
        allowed = (budget.atol or 0.0) + (budget.rtol or 0.0) * sizes
        relative = np.divide(
            difference, allowed, out=np.where(difference > 0, LARGEST_ERROR, 0.0),
            where=allowed > 0,
        )  # fmt: skip
        return float(relative.max())
    scale = root_mean_squares(sizes) if scale is None else scale
    allowed = np.maximum(np.maximum(scale, least)[:, None], sizes)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        relative = np.divide(difference, allowed, out=allowed)
    # 0 / 0 is NaN, and nothing is off there
    return min(float(np.fmax.reduce(relative, axis=None)), LARGEST_ERROR)
