"""What profilers call units, brought to SI and plain shares. Pure."""

from __future__ import annotations

import re
from types import MappingProxyType

_BASE = {
    "%": 0.01,
    "second": 1.0,
    "sec": 1.0,
    "s": 1.0,
    "hz": 1.0,
    "cycle": 1.0,
    "byte": 1.0,
    "b": 1.0,
    "bit": 1.0,
    "inst": 1.0,
    "warp": 1.0,
    "block": 1.0,
    "thread": 1.0,
    "sector": 1.0,
    "register": 1.0,
    "request": 1.0,
}
_PREFIX = {"n": 1e-9, "u": 1e-6, "µ": 1e-6, "m": 1e-3}
_LARGE_PREFIX = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_TIMES = frozenset(("second", "sec", "s"))
UNITS = MappingProxyType(_BASE)
"""The units that are known without their prefixes."""


PLAUSIBLE = 1e30
"""No tool counts further; what is beyond is no count, and would overflow what is made of it."""


def plausible(value: float) -> float | None:
    """The value; None for what isn't a number that a counter could have."""
    return value if abs(value) <= PLAUSIBLE else None  # a comparison with NaN is false


def factor(unit: str) -> float:
    """What a value in `unit` is multiplied by: 1e-9 for `ns`, 0.01 for `%`, 1e9 for `Gbyte/s`.

    Prefixes are decimal, as NVIDIA Nsight Compute's are. A unit that isn't known counts as it is.
    """
    result = 1.0
    for place, part in enumerate(re.split(r"\s*/\s*", unit.strip())):
        scale = _part(part)
        result = result * scale if place == 0 else result / scale
    return result


def _part(name: str) -> float:
    bare = name if name in ("s", "b") else name.removesuffix("s")
    if bare in _BASE:
        return _BASE[bare]
    if not bare:  # "s" was taken off "ns", "us" or "ms"
        return 1.0
    prefix, rest = name[0], name[1:]
    rest = rest if rest in ("s", "b") else rest.removesuffix("s")
    if rest in _TIMES and prefix in _PREFIX:
        return _PREFIX[prefix]
    large = _LARGE_PREFIX.get("k" if prefix == "K" else prefix)
    if large is not None and rest.lower() in _BASE and rest.lower() not in _TIMES:
        return large * _BASE[rest.lower()]
    return 1.0
