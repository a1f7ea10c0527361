"""What is timed side by side on a GPU, and what came of it; needs no torch."""

from __future__ import annotations

from pathlib import Path

from roofsmith.domain.values import Value


class Lineup(Value):
    """What is to be timed on one workload."""

    reference: Path
    kernels: dict[str, Path]
    """By their names: naive, optimized."""
    flags: dict[str, tuple[str, ...]]
    """Of nvcc, by the same names."""
    library: str | None = None
    dims: dict[str, int]
    tf32: bool = False
    compiles: bool = True
    """Whether torch.compile is among the contenders; it may take minutes to choose."""


class Contender(Value):
    """One of them."""

    name: str
    times_us: tuple[float, ...] = ()
    median_us: float | None = None
    error: float | None = None
    """Largest difference from the float64 result, over that one's largest value."""
    failed: str | None = None


class Timed(Value):
    """A workload's contenders, and what this GPU can do at most."""

    dims: dict[str, int]
    bytes: int
    flops: int
    copy_bytes_per_s: float
    """A copy of 1 GiB, read and write counted."""
    flops_per_s: dict[str, float]
    """A large product by torch.mm, by number format."""
    contenders: tuple[Contender, ...]

    def floor_us(self, limit: str | None) -> float:
        """The least time: that of the bytes, and where products bound it, of the operations."""
        moving_s = self.bytes / self.copy_bytes_per_s
        working_s = self.flops / self.flops_per_s[limit] if limit is not None else 0.0
        return 1e6 * max(moving_s, working_s)
