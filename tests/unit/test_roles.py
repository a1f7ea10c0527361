"""What a reference does with its arrays, where nobody says it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofsmith.judge.correctness.array_roles import Roles, find_roles, read_outputs
from roofsmith.judge.host.arithmetic import HostArithmetic, differ
from roofsmith.judge.user_module import Complaint

N = 64
NAMES = ("a", "b", "c")

Reference = Callable[..., Any]


def draw(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal(N).astype(np.float32) for name in NAMES}


def roles(reference: Reference, writable: tuple[str, ...] = NAMES) -> Roles:
    def run(values: Mapping[str, Any]) -> Mapping[str, Any]:
        copies = {name: value.copy() for name, value in values.items()}
        reference(**copies)
        return copies

    return find_roles(run, draw(0), draw(1), writable, differ)


def adds(a: Any, b: Any, c: Any) -> None:
    c[:] = a + b


def accumulates(a: Any, b: Any, c: Any) -> None:
    c += a * b


def swaps(a: Any, b: Any, c: Any) -> None:
    kept = a.copy()
    a[:] = b
    b[:] = kept


def writes_half(a: Any, b: Any, c: Any) -> None:
    c[: N // 2] = a[: N // 2]


def rectifies(a: Any, b: Any, c: Any) -> None:
    np.maximum(c, 0, out=c)


def scratches(a: Any, b: Any, c: Any) -> None:
    b[:] = a * a
    c[:] = b.sum()


def spoils(a: Any, b: Any, c: Any) -> None:
    c[:] = np.nan


@pytest.mark.parametrize(
    ("reference", "outputs", "held", "elements"),
    [
        (adds, "c", "", N),
        (accumulates, "c", "c", N),
        (swaps, "ab", "ab", 2 * N),
        (writes_half, "c", "c", N // 2),
        (scratches, "bc", "", 2 * N),
        (spoils, "c", "", N),
    ],
)
def test_arrays_are_what_the_reference_makes_of_them(
    reference: Reference, outputs: str, held: str, elements: int
) -> None:
    found = roles(reference)
    assert found == Roles(frozenset(outputs), frozenset(held), 4 * elements)
    assert found.blank == frozenset(outputs) - frozenset(held)


def test_what_stays_as_it_was_is_not_written() -> None:
    found = roles(rectifies)
    assert found.outputs == found.held == {"c"}
    assert 0 < found.written_bytes < 4 * N


def test_arrays_that_the_kernel_takes_as_const_are_no_outputs() -> None:
    assert roles(scratches, ("c",)).outputs == {"c"}


def test_a_reference_must_write_something() -> None:
    with pytest.raises(Complaint, match=r"without const \(a, b, c\): it must fill the outputs"):
        roles(lambda a, b, c: None)


@given(
    written=st.sets(st.sampled_from(NAMES), min_size=1),
    reads=st.sets(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES))),
)
def test_any_dependence_is_found(written: set[str], reads: set[tuple[str, str]]) -> None:
    """An output is made of the arrays that it is said to read, as they were before the call."""

    def reference(**arrays: Any) -> None:
        before = {name: array.copy() for name, array in arrays.items()}
        for name in sorted(written):
            arrays[name][:] = sum(
                (before[other] for of, other in reads if of == name), np.float32(0.5)
            )

    found = roles(reference)
    needed = {other for of, other in reads if of in written}
    assert found.outputs == written
    assert found.held == written & needed
    assert found.written_bytes == 4 * N * len(written)


def fills(x: Any, y: Any, n: Any) -> None:
    y[:], n[:] = 2 * x, x > 0


def steps(x: Any, y: Any, n: Any) -> None:
    y -= x * 0.1
    n += 1


def steps_by_little(x: Any, y: Any, n: Any) -> None:
    y -= x * 1e-6
    n[:] = 1


def scales_by_zero(x: Any, y: Any, n: Any) -> None:
    y[:], n[:] = x + 0 * y, 1


def fills_in_parts(x: Any, y: Any, n: Any) -> None:
    y[1:], n[:] = x[1:], 1


def counts_on(x: Any, y: Any, n: Any) -> None:
    y[:] = x
    n[0] += 1


def forgets(x: Any, y: Any, n: Any) -> None:
    n[:] = 1


@pytest.mark.parametrize(
    ("reference", "held"),
    [
        (fills, set()), (steps, {"y", "n"}), (steps_by_little, {"y"}), (scales_by_zero, {"y"}),
        (fills_in_parts, {"y"}), (counts_on, {"n"}), (forgets, set()),
    ],
)  # fmt: skip
@pytest.mark.parametrize("on", ["NumPy", "torch"])
def test_outputs_of_a_setup_hold_its_numbers_where_these_count(
    on: str, reference: Reference, held: set[str]
) -> None:
    x, y = np.random.default_rng(0).standard_normal((2, N))
    given: dict[str, Any] = {"x": x, "y": y, "n": np.arange(N) % 3}
    arithmetic: Any = HostArithmetic()
    if on == "torch":
        torch = pytest.importorskip("torch", reason="PyTorch is not installed")
        from roofsmith.judge.gpu.arithmetic import TorchArithmetic

        given = {name: torch.from_numpy(array) for name, array in given.items()}
        arithmetic = TorchArithmetic()

    def run(values: Mapping[str, Any]) -> Mapping[str, Any]:
        copies = {name: value * 1 for name, value in values.items()}
        reference(**copies)
        return copies

    assert read_outputs(run, given, ("y", "n"), arithmetic) == held
