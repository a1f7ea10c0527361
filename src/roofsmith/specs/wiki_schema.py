"""Which facts a wiki page may state, and the unit of each: SI base units and counts, no prefixes.

A page that could name its facts at will would hide a misspelt one; what nobody foresaw goes under
`other`, where every name and every unit of the list is allowed.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from roofsmith.yaml_document import shipped_table

UNITS: Final = frozenset(
    [
        "FLOP/s", "OP/s", "byte", "byte/s", "Hz", "W", "bit", "s", "FLOP/clk/CU", "byte/clk/CU",
        "byte/clk/SM", "byte/clk/channel", "count", "thread", "warp", "wavefront", "block",
        "workgroup", "register", "bank", "SM", "CU", "year",
    ]
)  # fmt: skip
"""Of numbers."""
WORDS: Final = "string"
"""The unit of a text."""
ALIAS_UNITS: Final = (WORDS, "pci device id")
"""Of what a driver prints where it knows no name."""

RATE_TYPES: Final = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "fp6", "fp4")
INTEGER_TYPES: Final = ("int4", "int8", "int32")
_FASTER_SUMS = "_fp16_accumulate"
_PATHS = ("tensor", "matrix", "vector")

_RATES = {
    f"{path}.{density}.{kind}{suffix}": "OP/s" if kind in INTEGER_TYPES else "FLOP/s"
    for path in _PATHS
    for density in ("dense", "sparse")
    for kind in (*RATE_TYPES, *INTEGER_TYPES)
    for suffix in ("", _FASTER_SUMS)
    if suffix == "" or kind in ("fp16", "fp8")
}


def _listed() -> dict[str, str]:
    """The facts of wiki_facts.yaml; what the memory has, each of its dies has as well."""
    facts = {
        f"{section}.{name}": unit
        for section, by_unit in shipped_table(__package__, "wiki_facts.yaml").items()
        for unit, names in by_unit.items()
        for name in names
    }
    of_dies = {
        path.replace("memory.", "memory.per_gcd."): unit
        for path, unit in facts.items()
        if path.startswith("memory.")
    }
    return facts | of_dies


FACTS: Final[dict[str, str]] = {
    **_listed(),
    **{f"peak_rates.{name}": unit for name, unit in _RATES.items()},
    **{f"peak_rates.per_gcd.{name}": unit for name, unit in _RATES.items()},
}
"""Dotted path to unit, of every fact with a name of its own."""

REQUIRED: Final = ("identity.vendor", "identity.product")

_FREE = re.compile(r"(measured|other|peak_rates\.flop_per_clk_per_cu)\.[a-z][a-z0-9_]*")
"""Places whose names are up to the page."""
_LIST = re.compile(r"caches\..*_carveouts_bytes")
"""Facts whose value is a list of numbers, which may hold 0."""


def is_fact(metric: str) -> bool:
    """Whether a page may state it."""
    return metric in FACTS or _FREE.fullmatch(metric) is not None


def is_list(metric: str) -> bool:
    return _LIST.fullmatch(metric) is not None


@cache
def known_below(section: str) -> tuple[str, ...]:
    """Keys that may stand under a section, such as `memory` or `peak_rates.tensor`; sorted."""
    prefix = f"{section}." if section else ""
    free = ("measured", "other") if not section else ()
    if section == "peak_rates":
        free = ("flop_per_clk_per_cu", "note")
    below = {path.removeprefix(prefix).split(".")[0] for path in FACTS if path.startswith(prefix)}
    return tuple(sorted({*below, *free}))
