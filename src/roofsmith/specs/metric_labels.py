"""What a document calls a metric, and under which path the wiki keeps it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from roofsmith.analysis.quantities import quantity
from roofsmith.specs.wiki_metrics import SYNONYMS, VECTOR_TYPES

_MEMORY: Final = r"(?:gpu |device |global )?(?:hbm\w*|gddr\w*|v?ram|dram|memory)"
_KINDS: Final = tuple(
    (path, unit, re.compile(pattern))
    for path, unit, pattern in (
        ("memory.bandwidth_byte_per_s", "byte/s", rf"(?:peak |max )?(?:{_MEMORY} )*bandwidth"),
        ("memory.size_bytes", "byte", rf"(?:{_MEMORY} ?)+(?:capacity|size)?"),
        ("caches.l2_bytes", "byte", r"l2(?: cache)?(?: size| capacity)?"),
        ("caches.infinity_cache_bytes", "byte", r"infinity cache(?: size| capacity)?|mall"),
        ("caches.lds_per_cu_bytes", "byte", r"lds(?: size| capacity)?(?: per cu|/cu)?"),
        (
            "caches.shared_memory_per_sm_max_bytes",
            "byte",
            r"(?:max )?(?:shared memory|smem)(?: size| capacity)?(?: per sm|/sm)?",
        ),
        ("caches.lds_bandwidth", "byte/clk/CU", r"(?:peak )?lds bandwidth(?: per cu|/cu)?"),
        (
            "execution.sm_count",
            "SM",
            r"(?:number of )?(?:sms?|streaming multiprocessors)(?: count)?",
        ),
        ("execution.cu_count", "CU", r"(?:cus?|compute units)(?: count)?"),
        ("execution.boost_clock_hz", "Hz", r"(?:max |peak )?(?:boost|engine) clock"),
    )
)
_TYPE: Final = re.compile(r"(?:fp(?:64|32|16|8)|tf32|bf16|int(?:8|32))")
_MATRIX: Final = frozenset({"tensor", "matrix", "mfma"})
_VECTOR: Final = frozenset({"vector", "cuda", "non-tensor", "simt"})
_SPARSE: Final = frozenset({"sparse", "sparsity", "2:4"})
_RATE_WORDS: Final = frozenset(
    ("core", "cores", "dense", "peak", "theoretical", "performance", "throughput", "compute",
     "rate", "max", "with", "single", "precision", "units", "tflops", "tflop/s",
     "pflops", "tops", "flops", "ops")
)  # fmt: skip
_MARKS: Final = re.compile(
    r"[*`]|(?<!\w)_|_(?!\w)|number of "
    r"|[(\[](?:[kMGTP]i?B|[TPG]?FLOPS?|T?OPS|[MG]Hz|HBM|GDDR|CUs?\b|SMs?\b)[^)\]]*[)\]]",
    re.IGNORECASE,
)
UNLISTED: Final = "stated."
"""Section of what the wiki has no path for."""
LARGEST: Final = 1e9
"""In front of a unit with its prefix; what is more isn't of this world."""
_BINARY: Final = "caches."
"""Sections whose KB and MB are binary; memory is sold in decimal ones."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A path, and the value in the unit that the wiki has for it."""

    path: str
    value: float
    unit: str


def metrics_of(label: str, number: str, unit: str, *, amd: bool) -> Iterator[Metric]:
    """What a labelled number states; a label that isn't known is a path of its own.

    Nothing, where a known metric has a unit that is another kind of quantity.
    """
    name = plain(label)
    found = quantity(number, unit or "count")
    if not 0 < found.number < LARGEST:
        return
    base = re.sub(r"^byte?s?(?=/clk/)|^b(?=/clk/)", "byte", found.unit, flags=re.IGNORECASE)
    rates = tuple(_rates(name, amd=amd))
    for path in rates:
        wanted = "OP/s" if path.rpartition(".")[2].startswith("int") else "FLOP/s"
        if base == wanted:
            yield Metric(path, found.number * found.scales[0], wanted)
    known = next(((p, u) for p, u, pattern in _KINDS if pattern.fullmatch(name)), None)
    if known is not None:
        path, wanted = known
        if base == wanted or (wanted in ("SM", "CU") and base in ("count", f"{wanted}s", wanted)):
            scale = found.scales[-1 if path.startswith(_BINARY) else 0]
            yield Metric(path, found.number * scale, wanted)
    elif not rates and unit and name and not _TYPE.search(name):
        words = re.sub(r"[^a-z0-9]+", "_", name).strip("_")
        yield Metric(f"{UNLISTED}{words}", found.number * found.scales[0], base)


def plain(label: str) -> str:
    """A label in small letters, without mark-up, brackets and units in brackets."""
    return " ".join(re.sub(r"[()\[\],:]", " ", _MARKS.sub("", label)).lower().split())


def _rates(name: str, *, amd: bool) -> Iterator[str]:
    """Paths of peak rates: a bare type is the row that vendors print under it."""
    words = re.split(r"[ /]+(?!s\b)", name)
    types = [kind for word in words if _TYPE.fullmatch(kind := SYNONYMS.get(word, word))]
    rest = {word for word in words if not _TYPE.fullmatch(SYNONYMS.get(word, word))}
    matrix, vector, sparse = rest & _MATRIX, rest & _VECTOR, rest & _SPARSE
    if not types or rest - _MATRIX - _VECTOR - _SPARSE - _RATE_WORDS or (matrix and vector):
        return
    for kind in types:
        on_vectors = bool(vector) or (not matrix and kind in VECTOR_TYPES)
        unit = "vector" if on_vectors else "matrix" if amd else "tensor"
        yield f"peak_rates.{unit}.{'sparse' if sparse else 'dense'}.{kind}"
