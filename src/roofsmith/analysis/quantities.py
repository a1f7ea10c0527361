"""A number with its unit as a text writes it, and whether it says the same as a fact."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from roofsmith.domain.facts import Fact

NUMBER: Final = r"\d+(?:[,_]\d{3})*(?:\.\d+)?(?:[eE][+-]?\d{1,3})?"
"""A number without its sign; commas may separate thousands."""
_UNIT: Final = (
    r"(?P<prefix>[kKMGTPE]i?)?"
    r"(?P<base>[Bb]ytes?|B|[Bb]its?|b|FLOP[Ss]?|[Ff]lops?|OPs?|OPS|[Hh]z)"
    r"(?P<per>/s(?:ec)?|ps)?"
)
_MULTIPROCESSORS: Final = r"SMs?|CUs?|XCDs?"
_COUNTED: Final = rf"registers?|{_MULTIPROCESSORS}|cycles?"
_KNOWN_UNIT: Final = re.compile(_UNIT)
_IN_TEXT: Final = re.compile(
    rf"(?<![\w.])(?P<number>{NUMBER})[\s\u00a0\u202f-]?(?P<unit>{_UNIT}|{_COUNTED})(?![\w/])"
)
STRUCK: Final = "[unsourced]"
"""Stands where a number was that nothing vouches for."""
_POWERS: Final = "kmgtpe"
_ROUNDING: Final = 0.01
"""The most that rounding may move a value, as a share of it: `3 TB/s` isn't 3.35e12 byte/s. Two
measurements that differ by less are one (the noise band of a comparison)."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """What a number and a unit may mean."""

    text: str
    """As it is written."""
    unit: str
    """Without prefix: `byte`, `byte/s`, `bit/s`, `FLOP/s`, `OP/s`, `Hz`, or a unit unknown here."""
    number: float
    """In front of the unit as it is written."""
    half_digit: float
    """Half a unit of the last digit of `number`: what a writer may have rounded away."""
    scales: tuple[float, ...] = (1.0,)
    """What the prefix multiplies by; MB of a size may be 10^6 or 2^20 byte."""

    def says(self, fact: Fact) -> bool:
        """Whether this is a fact's value, in its unit, to the digits that are written."""
        if fact.value is None or quantity("1", fact.unit).unit != self.unit:
            return False
        return any(self._is(fact.value, scale) for scale in self.scales)

    @property
    def is_devices(self) -> bool:
        """Whether only a device has such: sizes, registers and cycles may be a design's own."""
        return self.unit in RATES or re.fullmatch(_MULTIPROCESSORS, self.unit) is not None

    @property
    def meaning(self) -> tuple[float, str]:
        """The same for every way to write it; of a size in MB, as 10^6 byte."""
        return self.number * self.scales[0], self.unit

    def _is(self, value: float, scale: float) -> bool:
        allowed = min(self.half_digit * scale, _ROUNDING * abs(value))
        return abs(self.number * scale - value) <= allowed * (1 + 1e-9)


def quantity(number: str, unit: str) -> Quantity:
    """What a `NUMBER` and a unit mean; a unit that isn't known here counts as it is written."""
    text = f"{number} {unit}"
    digits = number.replace(",", "").replace("_", "")
    value = float(digits)
    half_digit = float(f"1e{Decimal(digits).as_tuple().exponent}") / 2
    match = _KNOWN_UNIT.fullmatch(unit)
    if match is None:
        plain = unit[:-1] if len(unit) > 2 and unit.endswith("s") and "/" not in unit else unit
        return Quantity(text, plain, value, half_digit)
    base = _base(match["base"], bool(match["per"]))
    return Quantity(text, base, value, half_digit, _scales(match["prefix"] or "", base))


RATES: Final = ("byte/s", "bit/s", "FLOP/s", "OP/s", "Hz")


def hardware_quantities(text: str) -> Iterator[Quantity]:
    """Every number with a unit of hardware in a text, in order.

    These are rates, clocks, registers, cycles, multiprocessors, and sizes with a prefix: `16 byte`
    is an access, not a device's.
    """
    for match in _IN_TEXT.finditer(text):
        if (found := _hardware(match)) is not None:
            yield found


def without(text: str, has_source: Callable[[Quantity], bool]) -> str:
    """A text without the quantities of a device alone that have no source."""

    def left(match: re.Match[str]) -> str:
        found = _hardware(match)
        stays = found is None or not found.is_devices or has_source(found)
        return match.group() if stays else STRUCK

    return _IN_TEXT.sub(left, text)


def _hardware(match: re.Match[str]) -> Quantity | None:
    found = quantity(match["number"], match["unit"])
    is_rate = found.unit in RATES
    is_size = found.unit == "byte" and match["prefix"]
    is_count = re.fullmatch(_COUNTED, match["unit"])
    return found if is_rate or is_size or is_count else None


def _base(written: str, per_second: bool) -> str:
    kind = {"b": "bit", "B": "byte"}.get(written, written.lower())
    if kind == "hz":
        return "Hz"
    if kind.startswith(("flop", "op")):  # FLOPS is a rate, a single FLOP is work
        per_second = per_second or kind.endswith("s")
        kind = kind.upper()
    return kind.removesuffix("s").removesuffix("S") + ("/s" if per_second else "")


def _scales(prefix: str, unit: str) -> tuple[float, ...]:
    if not prefix:
        return (1.0,)
    power = _POWERS.index(prefix[0].lower()) + 1
    if prefix.endswith("i"):
        return (1024.0**power,)
    return (1000.0**power, 1024.0**power) if unit == "byte" else (1000.0**power,)
