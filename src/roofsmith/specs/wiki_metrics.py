"""What people call a metric, and which fact of a page they mean.

A name is a path (`memory.bandwidth_byte_per_s`), its end (`bandwidth_byte_per_s`), either without
its unit (`bandwidth`), or one of `SHORT`. Of rates, `dense` may be left out, `tensor` and `matrix`
are one word, and a bare type is the row that vendors print under it: `fp16` is the tensor cores',
`fp32` and `fp64` are the vector units'. Where a page has figures of one of several dies that
software sees as devices, names without `per_gcd` mean the die; paths mean what they say.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final

from roofsmith.specs.wiki_page import Page, WikiEntry

VECTOR_TYPES: Final = ("fp32", "fp64", "int32")
"""Types whose bare name means the vector units."""

SHORT: Final[Mapping[str, tuple[str, ...]]] = {
    "l2": ("caches.l2_bytes",),
    "memory": ("memory.size_bytes",),
    "vram": ("memory.size_bytes",),
    "shared": ("caches.shared_memory_per_sm_max_bytes",),
    "shared_memory": ("caches.shared_memory_per_sm_max_bytes",),
    "lds": ("caches.lds_per_cu_bytes",),
    "lds_bandwidth": ("caches.lds_read_bandwidth",),
    "clock": ("execution.boost_clock_hz",),
    "sms": ("execution.sm_count",),
    "cus": ("execution.cu_count",),
    "registers": ("execution.registers_per_sm",),
    "product": ("identity.product",),
}
"""Names that are no end of a path."""

_UNIT = re.compile(r"_(byte_per_s|bytes|bit|hz|w)$")
SYNONYMS = {
    "float64": "fp64", "float32": "fp32", "float16": "fp16", "bfloat16": "bf16",
    "tfloat32": "tf32", "float8": "fp8", "matrix": "tensor",
}  # fmt: skip
_DIE = "per_gcd."


def entries_for(page: Page, metric: str) -> tuple[WikiEntry, ...]:
    """What a name may mean on a page: nothing, one fact, or several that it can't tell apart."""
    name = ".".join(metric.lower().split())
    if (exact := page.entries.get(name)) is not None:
        return (exact,)
    wanted = _plain(name)
    found = [entry for path, entry in page.entries.items() if wanted in _names(path)]
    of_die = [entry for entry in found if _DIE in entry.metric]
    return tuple(of_die or found)


def near(page: Page, metric: str) -> tuple[str, ...]:
    """Paths whose names look like a name that isn't there; the nearest first."""
    by_name: dict[str, str] = {}
    for path in page.entries:
        for name in (path, *sorted(_names(path))):
            by_name.setdefault(name, path)
    close = get_close_matches(_plain(".".join(metric.lower().split())), by_name, n=6, cutoff=0.5)
    return tuple(dict.fromkeys(by_name[name] for name in close))[:3]


def _plain(name: str) -> str:
    words = [SYNONYMS.get(word, word) for word in name.split(".")]
    return ".".join(word for word in words if word not in ("peak_rates", "dense"))


def _names(path: str) -> set[str]:
    section, _, rest = path.replace(_DIE, "").partition(".")
    if section == "peak_rates":
        return _rate_names(rest)
    end = rest.rpartition(".")[2]
    names = {rest, end, _UNIT.sub("", end), f"{section}.{_UNIT.sub('', rest)}"}
    return names | {short for short, paths in SHORT.items() if path.replace(_DIE, "") in paths}


def _rate_names(rest: str) -> set[str]:
    words = _plain(rest).split(".")
    kind = words[-1]
    names = {".".join(words)}
    if "sparse" in words:
        names |= {f"sparse.{kind}", f"{kind}.sparse"}
    elif words[0] in ("tensor", "vector"):
        names.add(f"{kind}.{words[0]}")
        if (words[0] == "vector") == (kind in VECTOR_TYPES):
            names.add(kind)
    return names
