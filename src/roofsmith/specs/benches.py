"""The ceiling kernels: how they are built, called and read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Literal

import numpy as np

from roofsmith.domain.kernel import BuildSpec, Candidate, SourceFile
from roofsmith.ports import Arguments, KernelSession

Pattern = Literal["read", "copy", "triad"]

VARIANTS: tuple[tuple[Pattern, str], ...] = (
    ("read", "one stream per thread"),
    ("read", "four streams per thread"),
    ("copy", "plain stores"),
    ("copy", "non-temporal stores"),
    ("triad", "plain stores"),
    ("triad", "non-temporal stores"),
)
"""Pattern and way of doing it, in the order of `enum variant` in bandwidth.c."""

BANDWIDTH_US = 2000
"""Least time of one measurement of one variant: thousands of passes over an L1."""
FMA_US = 500
"""Of one burst of arithmetic. Short, so that some bursts fit between two disturbances."""
FMA_BURSTS = 60
"""Bursts per round."""

_REALS = {"float32": "float", "float64": "double"}

Sample = tuple[tuple[str, str, int, int], float, str]
"""Of one round: what was measured (kind, subject, threads, working set), its rate, the variant."""


def source_of(name: str) -> SourceFile:
    """A file of the ceiling kernels."""
    folder = resources.files("roofsmith.specs") / "kernels"
    return SourceFile(path=name, text=(folder / name).read_text(encoding="utf-8"))


def _candidate(kernel: str, *defines: str) -> Candidate:
    flags = ("-O3", "-march=native", "-pthread", *defines)
    sources = (source_of(kernel), source_of("team.h"))
    return Candidate(
        language="c", sources=sources, build=BuildSpec(flags=flags, link=("-lpthread",))
    )


@dataclass(frozen=True, slots=True)
class FmaBench:
    """Peak arithmetic of one type on some threads."""

    dtype: Literal["float32", "float64"]
    threads: int

    @property
    def candidate(self) -> Candidate:
        return _candidate("fma.c", f"-DREAL={_REALS[self.dtype]}")

    def arguments(self) -> Arguments:
        return {
            "rates": np.zeros(FMA_BURSTS, dtype=np.float64),
            "repeats": FMA_BURSTS,
            "threads": self.threads,
            "microseconds": FMA_US,
        }

    def round(self, session: KernelSession) -> list[Sample]:
        """One call: its best burst."""
        session.call(1)
        rates = session.outputs()["rates"]
        key = ("fma", self.dtype, self.threads, 0)
        return [(key, float(rates.max()), "register-resident FMA chains")]


@dataclass(frozen=True, slots=True)
class BandwidthBench:
    """Every access pattern at several working sets on some threads."""

    threads: int
    sizes: tuple[int, ...]
    """Working sets of all threads together; bytes, ascending."""

    @property
    def candidate(self) -> Candidate:
        return _candidate("bandwidth.c")

    def arguments(self) -> Arguments:
        return {
            "rates": np.zeros(len(self.sizes) * len(VARIANTS), dtype=np.float64),
            "set_kib": np.array([size // 1024 for size in self.sizes], dtype=np.int32),
            "sets": len(self.sizes),
            "threads": self.threads,
            "microseconds": BANDWIDTH_US,
        }

    def round(self, session: KernelSession) -> list[Sample]:
        """One call: per size and pattern, the better variant."""
        session.call(1)
        rates = session.outputs()["rates"].reshape(len(self.sizes), len(VARIANTS))
        return [
            sample
            for size, row in zip(self.sizes, rates, strict=True)
            for sample in self._best_variants(size, [float(rate) for rate in row])
        ]

    def _best_variants(self, size: int, row: Sequence[float]) -> list[Sample]:
        best: dict[Pattern, tuple[float, str]] = {}
        for (pattern, variant), rate in zip(VARIANTS, row, strict=True):
            if pattern not in best or rate > best[pattern][0]:
                best[pattern] = (rate, variant)
        return [
            (("bandwidth", pattern, self.threads, size), rate, variant)
            for pattern, (rate, variant) in best.items()
        ]
