"""Quantities with hardware units in free text, and whether one says what a fact says. Pure.

A quantity equals a fact if the fact rounds to the digits that are printed: `3.35 TB/s` is
3.35e12 byte/s, and 3.352e12 as well. Digits of a whole number all count: `2000 GB/s` is not 2039e9.
And few digits are no licence: what is more than `LARGEST_ROUNDING` off is another number, so that
`3 TB/s` and `3.4 TB/s` aren't 3.35e12 byte/s.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Final, Literal

from roofsmith.domain.facts import Fact

Dimension = Literal[
    "byte/s", "bit/s", "FLOP/s", "Hz", "W", "byte", "FLOP/byte", "per clock", "count", "per", "s",
    "bit", "cycle",
]  # fmt: skip
"""What a quantity is a number of; `per` are counts per multiprocessor, block or thread."""

NUMBER: Final = (
    r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?"
    r"(?:[eE][+-]?\d+|\s?(?:[x*]|\u00d7|\u00b7)\s?10\s?(?:\^|\*\*)\s?\{?[+-]?\d+\}?)?"
)
"""As people and programs print numbers: 3.35, 3,350, 3.35e12, 3.35 x 10^12."""

_WORDED = {"kilo": "k", "mega": "M", "giga": "G", "tera": "T", "peta": "P", "exa": "E"}
_SCALES = {"": 0, "m": -3, "k": 3, "K": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18, "t": 12,
           "g": 9}  # fmt: skip
_BINARY = {"k": 10, "K": 10, "M": 20, "G": 30, "T": 40, "P": 50, "E": 60, "t": 40, "g": 30}
_PREFIX = r"(?P<prefix>kilo|mega|giga|tera|peta|exa|[kKMGTPEgt])?"
_SECOND = r"s(?:ec(?:ond)?)?"
_PER_S = rf"(?:\s?/\s?{_SECOND}|ps|\s(?:per|a|each)\s{_SECOND}|\s?s(?:\^-1|\u207b\u00b9))"
_UNITS: Final[tuple[tuple[Dimension, str], ...]] = (
    ("per clock", r"(?:bytes?|B|FLOPs?|flops?|ops)(?:\s?/\s?|\sper\s)(?:clk|clock|cycle)(?:/\w+)?"),
    ("FLOP/byte", r"(?:FLOPs?|flops?|[Oo]ps)(?:\s?/\s?|\sper\s)(?:[Bb]ytes?|B)"),
    ("byte/s", rf"{_PREFIX}(?P<binary>i)?(?:[Bb]ytes?|B){_PER_S}"),
    ("byte/s", rf"(?P<prefix>[kmgtp])b{_PER_S}"),
    ("bit/s", rf"{_PREFIX}(?:[Bb]its?|b){_PER_S}"),
    ("FLOP/s", rf"{_PREFIX}(?:FLOPS|FLOPs?{_PER_S}|[Ff]lops?{_PER_S}|flops|Flops|FLOPs)"),
    ("FLOP/s", rf"(?P<prefix>[GTP])(?:OPS|OPs?{_PER_S}|[Oo]ps?{_PER_S}|F(?:/s)?)"),
    ("FLOP/s", rf"OPs?{_PER_S}"),
    ("Hz", rf"{_PREFIX}(?:[Hh]z|hertz)"),
    ("W", r"(?P<prefix>k|kilo|m)?(?:W|[Ww]atts?)"),
    ("byte", rf"{_PREFIX}(?P<binary>i)?[Bb]ytes?"),
    ("byte", r"(?P<prefix>[kKMGTP])(?P<binary>i)?B"),
    ("per", r"(?P<prefix>[kK])?\s?(?:32-bit\s)?"
            r"(?:threads?|warps?|waves?|wavefronts?|blocks?|CTAs|workgroups?|registers|regs|VGPRs"
            r"|SGPRs|lanes)(?:\s?/\s?|\s(?:per|an?|each)\s)(?:SMs?|CUs?|SIMDs?|multiprocessor"
            r"|(?:thread\s)?block|workgroup|compute\sunit|thread|warp|wave)"),
    ("count", r"(?:SMs?|SMXs?|(?:streaming\s)?multiprocessors|CUs?|compute\sunits"
              r"|XCDs|GCDs|GPCs|TPCs"
              r"|(?:tensor|matrix|CUDA|shader|RT)\scores|stream\sprocessors|SIMDs|cores)"),
    ("s", r"(?P<prefix>n|u|\u00b5|\u03bc|m)s(?:ec)?"),
    ("cycle", r"(?:clock\s)?(?:cycles?|clocks|clks?)"),
    ("bit", r"[Bb]its?"),
)  # fmt: skip
_FOUND: Final = re.compile(
    rf"(?<![\w.])(?P<number>{NUMBER})[\s-]?(?P<unit>"
    + "|".join(re.sub(r"[(][?]P<[a-z]+>", "(?:", unit) for _, unit in _UNITS)
    + r")(?![\w^])"
)
_EXACT: Final = tuple((dimension, re.compile(unit)) for dimension, unit in _UNITS)
_TIME_SCALES = {"n": -9, "u": -6, "\u00b5": -6, "\u03bc": -6, "m": -3}
_PROGRAM_MADE = re.compile(r"e[+-]\d\d+$")
LARGEST_ROUNDING: Final = 0.01
"""As a share of what is printed. Three digits, which reports print, are never more than half of it
off; and a percent is the band in which two measurements count as one, so whatever is more off may
make another share of a ceiling."""
_FACT_DIGITS = 6
"""Significant digits that `str(Fact)` prints."""
_PLAIN_UNITS = frozenset(("", "1", "count"))
_MEASURES = frozenset(("byte", "Hz", "W", "s", "cycle"))
"""Dimensions that are one word and no count."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number with its unit, as printed somewhere."""

    text: str
    """As printed: `3.35 TB/s`."""
    dimension: Dimension | str
    """One that is known here, or a unit that isn't, as printed."""
    values: tuple[float, ...]
    """In SI base units; two for sizes and registers, whose prefixes are decimal or binary."""
    tolerance: float
    """Half a unit of the last digit, as a share of the value."""
    start: int = 0
    end: int = 0

    def says(self, fact: Fact) -> bool:
        """Whether the fact, rounded to the digits printed and hardly changed by that, is this."""
        if fact.value is None or dimension_of(fact.unit) != _measure(self.dimension):
            return False
        return self.near(fact.value)

    def near(self, value: float, slack: float = 0.0) -> bool:
        """Whether a value in SI base units rounds to this number.

        Args:
            value: compared with the number.
            slack: how far off the value itself may be, as a share of it.
        """
        # Two doubles that print alike differ in their last bits.
        off = min(self.tolerance, LARGEST_ROUNDING) + slack + 1e-9
        return any(abs(own - value) <= abs(own) * off or own == value for own in self.values)


def quantities(text: str) -> Iterator[Quantity]:
    """Every number with a unit that hardware is described in, in order."""
    for match in _FOUND.finditer(text):
        yield _quantity(match["number"], match["unit"], match.group(), match.span())


def quantity_of(number: str, unit: str) -> Quantity:
    """A number and a unit that stand apart, as in `<metric>: <value> <unit> <- <citation>`."""
    shown = f"{number} {unit}".strip()
    return _quantity(number, unit, shown, (0, len(shown)))


def dimension_of(unit: str) -> Dimension | str:
    """What a fact's unit measures: `OP/s` is as good as `FLOP/s`, and counts are counts."""
    if unit.strip() in _PLAIN_UNITS:
        return "count"
    return _measure(_read_unit(unit.strip())[0])


def _measure(dimension: Dimension | str) -> Dimension | str:
    """Whatever is counted is a count: also per multiprocessor, and in units like `register`."""
    in_words = dimension.isalpha() and dimension not in _MEASURES
    counted = in_words or dimension in ("per", "bit")
    return "count" if counted else dimension


def _quantity(number: str, unit: str, shown: str, span: tuple[int, int]) -> Quantity:
    value, ulp = _read_number(number)
    dimension, scales = _read_unit(unit)
    if unit in _PLAIN_UNITS:
        dimension = "count"
    return Quantity(
        text=" ".join(shown.split()),
        dimension=dimension,
        values=tuple(float(value * scale) for scale in scales),
        tolerance=float(ulp / value / 2) if value else 0.0,
        start=span[0],
        end=span[1],
    )


def _read_number(text: str) -> tuple[Decimal, Decimal]:
    """A number and the unit of its last digit."""
    plain = re.sub(r"\s?(?:[x*]|\u00d7|\u00b7)\s?10\s?(?:\^|\*\*)\s?\{?([+-]?\d+)\}?", r"e\1", text)
    value = Decimal(plain.replace(",", ""))
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int), "the pattern lets no infinity in"
    last_digit = exponent
    if _PROGRAM_MADE.search(text):
        # `3e+12` is 3.00000e+12: programs leave the last zeros out.
        last_digit = min(exponent, value.adjusted() + 1 - _FACT_DIGITS)
    return value, Decimal(1).scaleb(last_digit)


@lru_cache(maxsize=1024)
def _read_unit(unit: str) -> tuple[Dimension | str, tuple[Decimal, ...]]:
    """Dimension, and what one of the unit is in SI base units."""
    for dimension, pattern in _EXACT:
        match = pattern.fullmatch(unit)
        if match is None:
            continue
        groups = match.groupdict()
        prefix = groups.get("prefix") or ""
        if dimension == "s":
            return dimension, (Decimal(1).scaleb(_TIME_SCALES[prefix]),)
        prefix = _WORDED.get(prefix, prefix)
        binary = Decimal(2) ** _BINARY.get(prefix, 0)
        if groups.get("binary"):
            return dimension, (binary,)
        decimal = Decimal(1).scaleb(_scale(prefix, dimension))
        # Caches are sold in binary units under decimal names, memory in either; so are registers.
        either = prefix and dimension in ("byte", "per")
        return dimension, (decimal, binary) if either else (decimal,)
    return unit, (Decimal(1),)


def _scale(prefix: str, dimension: str) -> int:
    """Power of ten; `mb/s` in lower case is no millibyte."""
    return 6 if prefix == "m" and dimension != "W" else _SCALES.get(prefix, 15 if prefix else 0)
