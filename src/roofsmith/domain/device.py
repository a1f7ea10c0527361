"""What a campaign ran on."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from roofsmith.domain.values import Value, content_id

GIB = 1 << 30


class Cache(Value):
    """One level of the cache hierarchy."""

    level: int
    kind: Literal["data", "instruction", "unified"]
    size_bytes: int
    shared_by: int
    """How many logical processors share one instance."""


class Device(Value):
    """One device that kernels run on."""

    kind: Literal["cpu", "nvidia", "amd"]
    name: str
    """As the driver or the kernel prints it."""
    cores: int
    """Logical processors this process may use (CPU); SMs or CUs (GPU)."""
    isa: tuple[str, ...] = ()
    """Instruction-set extensions that matter for kernels, such as avx2, fma, avx512f; sorted."""
    vector_bytes: int = 16
    """Width of the widest vector register."""
    caches: tuple[Cache, ...] = ()
    memory_bytes: int = 0
    arch: str | None = None
    """What a GPU's compiler calls it: sm_90, gfx942."""
    limits: dict[str, int] = Field(default_factory=dict)
    """Of one multiprocessor of a GPU: max_threads, max_blocks, registers, shared_bytes,
    max_shared_bytes_per_block, warp_size."""

    @property
    def core(self) -> str:
        """What one of its cores is called."""
        return {"cpu": "processor", "nvidia": "SM", "amd": "CU"}[self.kind]

    @property
    def identity(self) -> Device:
        """What makes it this device; `memory_bytes` is rounded to whole GiB.

        MemTotal in /proc/meminfo is what the kernel left when it started (Linux
        Documentation/filesystems/proc.rst): pages more or less at the next start. Among machines
        alike, the records in benchmarks/results differ by up to 12 KiB.
        """
        whole_bytes = round(self.memory_bytes / GIB) * GIB
        return self.model_copy(update={"memory_bytes": whole_bytes})

    @property
    def id(self) -> str:
        """Content hash: two machines with the same id may share measured ceilings."""
        return content_id(self.identity)[:16]

    @property
    def last_level_cache_bytes(self) -> int | None:
        """Size of one instance of the outermost data cache; None if it isn't known."""
        data = [cache for cache in self.caches if cache.kind != "instruction"]
        return max(data, key=lambda cache: cache.level).size_bytes if data else None


class Environment(Value):
    """Device and software: the fingerprint that every record carries."""

    device: Device
    system: str
    """Kernel and distribution."""
    tools: dict[str, str]
    """Program to version line: gcc, clang, git, perf, valgrind, python."""
    packages: dict[str, str]
    """Python package to version, those that can change a result."""
    notes: tuple[str, ...] = ()
    """What limits this machine, such as counters that are not permitted."""

    @property
    def fingerprint(self) -> str:
        """Short content hash of the whole environment."""
        return content_id(self)[:16]
