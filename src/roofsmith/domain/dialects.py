"""Kernel languages that are packages of Python: what a module in one imports, and what it needs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from roofsmith.domain.modes import DialectLanguage


@dataclass(frozen=True, slots=True)
class Dialect:
    """One of them."""

    label: str
    """For people."""
    packages: tuple[str, ...]
    """That bring it, as they are installed; the first one is what to install."""
    modules: tuple[str, ...]
    """Full names that a kernel in it imports; the first one is its own."""
    caches: Mapping[str, str] = field(default_factory=dict)
    """Variables that say where it keeps what it compiles, each a folder within the candidate's own
    or, empty, that one itself. Triton's and PyTorch's are set for every module."""
    vendor: Literal["nvidia", "amd"] | None = None
    """On whose GPUs alone it runs."""


DIALECTS: Final[Mapping[str, Dialect]] = {
    "cutedsl": Dialect(
        "CuTe DSL", ("nvidia-cutlass-dsl",), ("cutlass",),
        {"CUTE_DSL_CACHE_DIR": "cute", "CUTE_DSL_DUMP_DIR": ""}, "nvidia",
    ),
    "flydsl": Dialect(
        "FlyDSL", ("flydsl",), ("flydsl",),
        {"FLYDSL_RUNTIME_CACHE_DIR": "fly", "FLYDSL_AUTOTUNE_CACHE_DIR": "fly-tuned"}, "amd",
    ),
    "tilelang": Dialect(
        "TileLang", ("tilelang",), ("tilelang",),
        {"TILELANG_CACHE_DIR": "tilelang"},
    ),
    "helion": Dialect("Helion", ("helion",), ("helion",), {"HELION_CACHE_DIR": "helion"}),
    "gluon": Dialect(
        "Gluon", ("triton", "pytorch-triton-rocm", "pytorch-triton"),
        ("triton.experimental.gluon",),
    ),
}  # fmt: skip
"""In the order in which a module that imports several counts as one. Gluon is a part of Triton,
whose cache it uses; so do Helion's kernels."""

_IMPORTS: Final = re.compile(
    r"^[ \t]*(?:import[ \t]+([\w.]+)|from[ \t]+([\w.]+)[ \t]+import[ \t(]+([\w]+))", re.MULTILINE
)


def dialect_of(text: str) -> DialectLanguage | None:
    """The language of a module by what it imports; None: none of these, so Triton or PyTorch."""
    found = _IMPORTS.findall(text)
    names = {f"{plain or f'{parent}.{name}'}." for plain, parent, name in found}
    languages: tuple[DialectLanguage, ...] = get_args(DialectLanguage)
    begins = {language: f"{DIALECTS[language].modules[0]}." for language in languages}
    return next((one for one in languages if any(n.startswith(begins[one]) for n in names)), None)
