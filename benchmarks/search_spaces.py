"""Kernels with a small space of settings each, all of which can be timed: for `search.py`.

They have fewer choices where there would be thousands of settings, and settings to begin from
that somebody takes who measures nothing.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from roofsmith.domain.kernel import Candidate, SourceFile
from roofsmith.proposers.recipes import families
from roofsmith.proposers.tunables import find_tunables

FOLDERS = (Path(__file__).parent / "search_kernels", Path(families.__path__[0]) / "triton_kernels")

Settings = Mapping[str, int]
Arrays = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Space:
    """One kernel on one shape."""

    file: str
    """In one of `FOLDERS`."""
    choices: Mapping[str, tuple[int, ...]]
    """The first of each is where a search begins; a setting that isn't here stays."""
    arrays: Callable[[Any, str, int], Arrays]
    """Of torch, a device, and what to divide sizes by (for rehearsals)."""
    call: Callable[[ModuleType, Arrays], None]
    expected: Callable[[Any, Arrays], Any]
    """The output `y`, by torch."""
    tolerance: float
    """Of the largest difference, as a share of the largest value."""

    @property
    def candidate(self) -> Candidate:
        """The kernel with the settings that a search begins from."""
        paths = (folder / f"{self.file}.py" for folder in FOLDERS)
        text = next(p for p in paths if p.exists()).read_text(encoding="utf-8")
        text = re.sub(r"  # tune: .*", "", text)
        for name, choices in self.choices.items():
            listed = ", ".join(map(str, sorted(choices)))
            line = f"{name} = {choices[0]}  # tune: {name} = {choices[0]} [{listed}]"
            text = re.sub(rf"^{name} = .*$", line, text, flags=re.MULTILINE)
        source = SourceFile(path=f"{self.file}.py", text=text)
        found = Candidate(language="triton", sources=(source,))
        lists = {t.name: t.choices for t in find_tunables(found, threads=1).of("declared")}
        assert lists == {name: tuple(sorted(c)) for name, c in self.choices.items()}, lists
        return found

    @property
    def start(self) -> Settings:
        """The settings that a search begins from."""
        return {name: choices[0] for name, choices in self.choices.items()}

    @property
    def points(self) -> Iterator[Settings]:
        """All settings."""
        for chosen in itertools.product(*(sorted(c) for c in self.choices.values())):
            yield dict(zip(self.choices, chosen, strict=True))


def _matrices(dtype: str, size: int) -> Callable[[Any, str, int], Arrays]:
    def made(torch: Any, device: str, divisor: int) -> Arrays:
        n = size // divisor
        kind = {"device": device, "dtype": getattr(torch, dtype)}
        a, b = (torch.randn(n, n, **kind) for _ in range(2))
        return {"a": a, "b": b, "y": torch.empty(n, n, **kind), "n": n}

    return made


def _matmul(precision: str) -> Callable[[ModuleType, Arrays], None]:
    def call(kernel: ModuleType, given: Arrays) -> None:
        n = given["n"]
        sizes = (n, n, n)
        kernel.matmul(given["a"], given["b"], given["y"], None, *sizes, False, False, precision)

    return call


def _heads(torch: Any, device: str, divisor: int) -> Arrays:
    shape = (4 // min(4, divisor), 16 // min(16, divisor), 2048 // divisor, 128)
    kind = {"device": device, "dtype": torch.bfloat16}
    q, k, v = (torch.randn(shape, **kind) for _ in range(3))
    return {"q": q, "k": k, "v": v, "y": torch.empty(shape, **kind)}


def _attention(kernel: ModuleType, given: Arrays) -> None:
    arrays = (given["q"], given["k"], given["v"], given["y"])
    kernel.attention(*arrays, None, False, None, True, "ieee")


def _attended(torch: Any, given: Arrays) -> Any:
    scaled = torch.nn.functional.scaled_dot_product_attention
    return scaled(given["q"], given["k"], given["v"], is_causal=True)


def _rows(torch: Any, device: str, divisor: int) -> Arrays:
    n = 8192 // divisor
    return {"x": torch.randn(n, n, device=device), "y": torch.empty(n, device=device)}


SPACES: Mapping[str, Space] = {
    "matmul, bfloat16": Space(
        "matmul",
        {
            "BLOCK_M": (64, 128),
            "BLOCK_N": (64, 128, 256),
            "BLOCK_K": (32, 64, 128),
            "STAGES": (3, 2, 4, 5),
            "WARPS": (4, 8),
        },
        _matrices("bfloat16", 2048),
        _matmul("ieee"),
        lambda torch, given: torch.matmul(given["a"], given["b"]),
        0.02,
    ),
    "causal attention, bfloat16": Space(
        "attention",
        {
            "BLOCK_M": (64, 32, 128),
            "BLOCK_N": (64, 32, 128),
            "STAGES": (3, 1, 2, 4),
            "WARPS": (4, 8),
        },
        _heads,
        _attention,
        _attended,
        0.02,
    ),
    "matmul, float32 as three TF32": Space(
        "matmul",
        {
            "BLOCK_M": (64, 32, 128),
            "BLOCK_N": (64, 32, 128),
            "BLOCK_K": (32, 16),
            "STAGES": (3, 2, 4),
            "WARPS": (4, 8),
        },
        _matrices("float32", 1024),
        _matmul("tf32x3"),
        lambda torch, given: torch.matmul(given["a"], given["b"]),
        1e-4,
    ),
    "column sums, float32": Space(
        "reduce",
        {
            "TILE": (1024, 2048, 4096, 8192, 16384),
            "PER_THREAD": (8, 4, 16, 32),
            "PROGRAMS": (128, 1, 256, 512, 1024, 2048),
        },
        _rows,
        lambda kernel, given: kernel.reduce(given["x"], given["y"], 0, "sum"),
        lambda _, given: given["x"].sum(0),
        1e-4,
    ),
}
