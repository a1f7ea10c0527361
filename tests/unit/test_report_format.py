"""Numbers and foreign text, spelled for people."""

from __future__ import annotations

import math
import re
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from roofsmith.analysis import figures as fmt
from roofsmith.judge.correctness.shortened_inputs import How, changed, round_to, shortened
from roofsmith.judge.host.arithmetic import HostArithmetic

UNIT_SCALES = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
PREFIX_SCALES = {"P": 1e15, "T": 1e12, "G": 1e9, "M": 1e6, "k": 1e3, "": 1.0}
positive = st.floats(min_value=1e-9, max_value=1e15)


@pytest.mark.parametrize(
    ("time_s", "text"),
    [
        (None, "UNKNOWN"),
        (0.0, "0 s"),
        (85e-9, "85.0 ns"),
        (1.2345e-6, "1.23 µs"),
        (9.9996e-4, "1.00 ms"),
        (0.110, "110 ms"),
        (2.5, "2.50 s"),
    ],
)
def test_times(time_s: float | None, text: str) -> None:
    assert fmt.time(time_s) == text


@given(st.floats(min_value=1e-9, max_value=999))
def test_a_printed_time_is_the_time_to_three_digits(time_s: float) -> None:
    value, unit = fmt.time(time_s).split()
    assert float(value) * UNIT_SCALES[unit] == pytest.approx(time_s, rel=6e-3)
    assert float(value) < 1000


@given(st.floats(min_value=1, max_value=9e17))
def test_a_printed_quantity_is_the_quantity_to_three_digits(rate: float) -> None:
    value, unit = fmt.quantity(rate, "FLOP/s").split()
    scale = PREFIX_SCALES[unit.removesuffix("FLOP/s")]
    assert float(value) * scale == pytest.approx(rate, rel=6e-3)


@pytest.mark.parametrize(
    ("wall_s", "text"),
    [
        (0.2, "200 ms"),
        (4.21, "4.2 s"),
        (59.96, "1 min 00 s"),
        (112, "1 min 52 s"),
        (7500, "2 h 05 min"),
    ],
)
def test_durations(wall_s: float, text: str) -> None:
    assert fmt.duration(wall_s) == text


@pytest.mark.parametrize(
    ("value", "ci", "text"),
    [
        (1.234, (1.204, 1.262), "1.23x [1.20, 1.26]"),
        (12.34, (11.9, 12.9), "12.3x [11.9, 12.9]"),
        (731.4, (700.2, 760.1), "731x [700, 760]"),
        (1.0004, (1.0002, 1.0014), "1.000x [1.000, 1.001]"),
        (1.0, (1.0, 1.0), "1.00x [1.00, 1.00]"),
        (4.637, (0.001, 1000.0), "4.64x (no interval)"),
        (9.905, (6.166, 1000.0), "9.90x, at least 6.17x"),
        (19.81, (12.33, 2000.0), "19.8x, at least 12.3x"),
        (0.502, (0.001, 0.611), "0.50x, at most 0.61x"),
        (1.5, None, "1.50x"),
        (None, None, "UNKNOWN"),
    ],
)
def test_ratios(value: float | None, ci: tuple[float, float] | None, text: str) -> None:
    assert fmt.ratio(value, ci) == text


@given(st.floats(0.01, 600), st.floats(0, 0.5), st.floats(0, 0.5))
def test_a_printed_interval_holds_its_ratio(value: float, below: float, above: float) -> None:
    text = fmt.ratio(value, (value * (1 - below), value * (1 + above)))
    middle, low, high = map(float, re.findall(r"[\d.]+", text))
    assert low <= middle <= high


@pytest.mark.parametrize(
    ("fraction", "text"),
    [
        (None, "UNKNOWN"),
        (0, "0%"),
        (0.931, "93%"),
        (0.0931, "9.3%"),
        (0.0042, "0.42%"),
        (0.0996, "10%"),
    ],
)
def test_percentages(fraction: float | None, text: str) -> None:
    assert fmt.percent(fraction) == text


@pytest.mark.parametrize(
    ("value", "unit", "name", "text"),
    [
        (5.77e8, "1", "instructions", "577 M"),
        (2.3, "1/cycle", "ipc", "2.30 /cycle"),
        (0.031, "1", "llc_miss_rate", "3.1%"),
        (1.02, "1", "processors_used", "1.02"),
        (2.31e10, "byte/s", "bandwidth", "23.1 GB/s"),
        (None, "1", "cycles", "UNKNOWN"),
    ],
)
def test_counters(value: float | None, unit: str, name: str, text: str) -> None:
    assert fmt.counter(value, unit, name) == text


def test_sizes_errors_and_plurals() -> None:
    assert [fmt.size(value) for value in (None, 0, 32 << 10, 3 << 19)] == [
        "UNKNOWN",
        "0 B",
        "32 KiB",
        "1.5 MiB",
    ]
    assert [fmt.error(value) for value in (0, 3.21e-7, 1e308)] == ["0", "3.2e-07", "infinite"]
    assert [fmt.plural(count, "round") for count in (0, 1, 2)] == [
        "0 rounds",
        "1 round",
        "2 rounds",
    ]


@given(positive)
def test_significant_digits_never_turn_into_an_exponent(value: float) -> None:
    text = fmt.significant(value)
    assert "e" not in text
    assert float(text) == pytest.approx(value, rel=6e-3)


def test_foreign_text_shows_what_is_there() -> None:
    assert fmt.visible("a\x1b[31mred\x1b[0m b") == "ared b"
    assert fmt.visible("x = 1; \u202e// evil") == "x = 1; \\u202e// evil"
    assert fmt.visible("nul\x00 zero\u200bwidth line\u2028end") == (
        "nul\\x00 zero\\u200bwidth line\\u2028end"
    )
    assert fmt.visible("naïve 漢字 😀\tkept\nkept") == "naïve 漢字 😀\tkept\nkept"
    assert fmt.visible("\x1b]8;;http://x\x07link\x1b]8;;\x07") == "link"


@given(st.text())
def test_visible_text_has_no_tricks_and_is_stable(text: str) -> None:
    shown = fmt.visible(text)
    shown.encode()
    assert all(char.isprintable() or char in "\n\t" or char.isspace() for char in shown)
    assert not re.search("[\u202a-\u202e\u2066-\u2069\u200b-\u200f\ufeff\x00-\x08\x1b\x7f]", shown)
    assert fmt.visible(shown) == shown


@given(st.text(), st.integers(2, 40))
def test_one_line_is_one_line(text: str, limit: int) -> None:
    line = fmt.one_line(text, limit)
    assert len(line) <= limit
    assert not re.search(r"[\n\t]|  ", line)
    assert "\n" not in fmt.first_line(text)


def test_the_first_line_that_says_anything() -> None:
    assert fmt.first_line("\n  \nkernel.c:3: error: no\n  3 | int") == "kernel.c:3: error: no"
    assert fmt.first_line("") == ""


def test_zero_and_infinity_have_a_spelling() -> None:
    assert fmt.quantity(0, "byte/s") == "0 B/s"
    assert fmt.quantity(0.5, "FLOP") == "0.500 FLOP"
    assert not math.isinf(float(fmt.significant(1e15)))


ON = HostArithmetic()
NUMBERS = st.floats(-1e30, 1e30)


@given(hnp.arrays(np.float64, 20, elements=NUMBERS), st.integers(2, 24), st.booleans())
def test_shortened_inputs_are_the_nearest_or_the_next_towards_zero(
    x: np.ndarray, bits: int, truncate: bool
) -> None:
    made = round_to(x, bits, np, truncate=truncate)
    assert (np.abs(made - x) <= 2.0 ** (1 - bits) * np.abs(x)).all()
    assert np.array_equal(round_to(made, bits, np), made)
    if truncate:
        assert (np.abs(made) <= np.abs(x)).all()
    inputs = {"x": x, "n": 3}
    same = shortened(inputs, bits, ON, how="cut" if truncate else "rounded")
    assert np.array_equal(same["x"], made)
    assert same["n"] == 3


@pytest.mark.parametrize(
    ("how", "axes"),
    [("scaled", (None, None)), ("scaled by row", (1, 1)), ("scaled by column", (1, 0))],
)
@given(st.data())
def test_integers_times_a_scale(
    how: How, axes: tuple[int | None, int | None], data: st.DataObject
) -> None:
    inputs = {
        name: data.draw(hnp.arrays(np.float64, (3, 4), elements=st.floats(-1e3, 1e3, width=32)))
        for name in "ab"
    }
    made = shortened(inputs, 8, ON, how=how)
    for (name, x), axis in zip(inputs.items(), axes, strict=True):
        step = np.abs(x).max(axis=axis, keepdims=True) / 127
        assert (np.abs(made[name] - x) <= step * 0.5000001).all()
        steps = made[name] / np.where(step > 0, step, 1.0)
        assert np.abs(steps - np.rint(steps)).max() <= 1e-9
    alone = shortened(inputs, 8, ON, how=how, only=["b"])
    assert np.array_equal(alone["b"], made["b"])
    assert alone["a"] is inputs["a"]
    assert changed(inputs, None, ON) is inputs
    told = changed(inputs, ["shortened", 8, how, ["a"]], ON)
    assert np.array_equal(told["a"], shortened(inputs, 8, ON, how=how, only=["a"])["a"])


@pytest.mark.parametrize("how", get_args(How))
@pytest.mark.parametrize("shape", [(), (5,), (3, 4), (2, 3, 4)])
def test_a_gpus_arithmetic_shortens_alike(how: How, shape: tuple[int, ...]) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    from roofsmith.judge.gpu.arithmetic import TorchArithmetic

    inputs = {
        name: np.asarray(np.random.default_rng(seed).standard_normal(shape, np.float32))
        for seed, name in enumerate("ab")
    }
    tensors = {name: torch.from_numpy(x.copy()) for name, x in inputs.items()}
    host = shortened(inputs, 8, ON, how=how)
    made = shortened(tensors, 8, TorchArithmetic(), how=how)
    for name, x in host.items():
        assert np.array_equal(made[name].numpy(), x)
