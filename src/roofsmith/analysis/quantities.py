"""A number with its unit as a text writes it, and whether it says the same as a fact."""

from __future__ import annotations

import re
from collections.abc import Iterator
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
_KNOWN_UNIT: Final = re.compile(_UNIT)
_IN_TEXT: Final = re.compile(
    rf"(?<![\w.])(?P<number>{NUMBER})[\s\u00a0\u202f-]?(?P<unit>{_UNIT})(?![\w/])"
)
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


def hardware_quantities(text: str) -> Iterator[Quantity]:
    """Every number with a unit of hardware in a text, in order.

    These are rates, clocks, and sizes with a prefix: `16 byte` is an access, not a device's.
    """
    for match in _IN_TEXT.finditer(text):
        found = quantity(match["number"], match["unit"])
        if found.unit in ("byte/s", "bit/s", "FLOP/s", "OP/s", "Hz") or (
            found.unit == "byte" and match["prefix"]
        ):
            yield found


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
