from __future__ import annotations

from math import prod
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofsmith.profilers.valgrind import (
    SMALLEST_DIMENSION,
    counters,
    read_callgrind,
    reduced,
)

GOLDEN = Path(__file__).parent.parent / "golden"


def golden(name: str) -> str:
    """Of a recorded file, the functions that are asked for and who called them."""
    return (GOLDEN / f"valgrind_{name}.out").read_text()


def test_a_kernel_that_c_called_is_found_by_its_name() -> None:
    found = read_callgrind(golden("direct_call"), ("solve", "ffi_call"))
    assert found is not None
    assert found["Ir"] == 1543514
    assert found["D1mw"] == 2052


def test_a_kernel_that_libffi_called_is_found_through_it() -> None:
    found = read_callgrind(golden("libffi_call"), ("solve", "ffi_call"))
    assert found is not None
    assert found["Ir"] == pytest.approx(1543514, rel=0.01)


def test_a_kernel_that_was_never_called_isnt_found() -> None:
    assert read_callgrind(golden("direct_call"), ("elsewhere",)) is None


PIECES = ("cfn=(1) solve", "cfn=(1)", "calls=2 0", "calls=", "calls=x", "+3 5 6 7", "* 1", "9", "")


@given(st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=20))))
def test_scraps_of_a_profile_never_raise(lines: list[str]) -> None:
    found = read_callgrind("\n".join(("events: Ir Dr", *lines)), ("solve",))
    assert found is None or found.keys() == {"Ir", "Dr"}


def test_counters_are_per_call_and_rates_are_shares() -> None:
    found = read_callgrind(golden("direct_call"), ("solve",))
    assert found is not None
    named = {c.name: c.value for c in counters(found, calls=2)}
    assert named["instructions"] == 1543514 / 2
    assert named["l1_miss_rate"] == pytest.approx((2060 + 2052) / (400146 + 103708))
    assert named["branch_miss_rate"] == pytest.approx(821 / (103172 + 32768))
    assert "ipc" not in named


def test_events_that_werent_simulated_give_no_counter() -> None:
    named = {c.name for c in counters({"Ir": 100}, calls=1)}
    assert named == {"instructions"}


@given(
    st.dictionaries(st.sampled_from("MNKBH"), st.integers(1, 1 << 16), min_size=1),
    st.integers(1 << 12, 1 << 18),
)
def test_a_reduced_workload_is_small_and_no_dimension_grows(
    dims: dict[str, int], limit: int
) -> None:
    small = reduced(dims, limit)
    assert small.keys() == dims.keys()
    assert all(1 <= small[name] <= dims[name] for name in dims)
    assert all(small[name] >= min(dims[name], SMALLEST_DIMENSION) for name in dims)
    assert prod(small.values()) <= max(limit, SMALLEST_DIMENSION ** len(dims))


@given(st.integers(1, 6), st.integers(5, 14))
def test_powers_of_two_keep_dividing(heads_bits: int, width_bits: int) -> None:
    dims = {"h": 1 << heads_bits, "d_model": 1 << max(width_bits, heads_bits), "N": 4096}
    small = reduced(dims)
    assert small["d_model"] % small["h"] == 0


def test_a_workload_that_is_small_enough_stays() -> None:
    assert reduced({"N": 64, "D": 63}) == {"N": 64, "D": 63}
