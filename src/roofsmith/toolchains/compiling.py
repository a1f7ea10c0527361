"""What toolchains share that compile sources to a shared library."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from roofsmith.domain.device import Device
from roofsmith.domain.kernel import Built, Candidate, KernelResources, Language, Signature
from roofsmith.domain.outcome import BuildFailed
from roofsmith.toolchains.builder import BuildPlan, LibraryBuilder
from roofsmith.toolchains.limits import CompilerLimits
from roofsmith.toolchains.signature import read_signature


class CompilingToolchain(ABC):
    """Builds candidates to shared libraries, each content once, under a deadline and a limit.

    Args:
        cache_dir: folder of finished builds; may be shared by processes and, on a network file
            system, by machines.
        device: the GPU that the candidates are for; without one, a toolchain for GPUs can read
            signatures only.
        deadline_s: wall time that one build may take; None: what is usual for such compilers, and
            after the first build what goes by that one.
        memory_bytes: address space that each process of a build may take; None: what is usual.
        canary: compiled into every library.
        at_once: builds that may run at the same time.

    Raises:
        StorageError: `cache_dir` can't be made.
    """

    usual: ClassVar[CompilerLimits]
    """Of one build."""

    def __init__(
        self,
        cache_dir: Path,
        device: Device | None = None,
        *,
        deadline_s: float | None = None,
        memory_bytes: int | None = None,
        canary: str | None = None,
        at_once: int = 1,
    ) -> None:
        limits = CompilerLimits(
            self.usual.deadline_s if deadline_s is None else deadline_s,
            self.usual.memory_bytes if memory_bytes is None else memory_bytes,
        )
        self._builder = LibraryBuilder(cache_dir, limits, at_once, is_fixed=deadline_s is not None)
        self._device = device
        self._canary = canary

    def signature(self, candidate: Candidate) -> Signature:
        """Read the entry's parameters from the source; nothing is compiled."""
        return read_signature(candidate)

    def build(self, candidate: Candidate) -> Built | BuildFailed:
        """Compile, or take the same content from the cache.

        Raises:
            ToolMissingError: the compiler isn't installed.
            MachineError: it can't build for the device, or the device isn't known.
            StorageError: the cache can't be written.
        """
        return self.build_all((candidate,))[0]

    def build_all(self, candidates: Sequence[Candidate]) -> tuple[Built | BuildFailed, ...]:
        """The same for several, side by side; no GPU is used.

        Raises:
            ToolMissingError: as above.
            MachineError: as above.
            StorageError: as above.
        """
        return self._builder.build_all([self._planned(candidate) for candidate in candidates])

    def side_by_side(self, language: Language) -> int:  # noqa: ARG002 - the port's
        """As many as it was told."""
        return self._builder.at_once

    def differs(self, candidate: Candidate) -> bool:
        """Whether the cache holds another library than compiling a candidate gives now.

        Raises:
            ToolMissingError: as above.
            MachineError: as above.
            StorageError: as above.
        """
        return self._builder.differs(self._plan(candidate))

    def resources(self, built: Built) -> tuple[KernelResources, ...]:
        """As the compiler said when it was built; none of a kernel for the host."""
        return built.resources

    @abstractmethod
    def _refusal(self, candidate: Candidate) -> tuple[str, str] | None:
        """Why a candidate isn't compiled at all, as (reason code, sentence)."""

    @abstractmethod
    def _plan(self, candidate: Candidate) -> BuildPlan:
        """How to compile one that is."""

    def _planned(self, candidate: Candidate) -> BuildPlan | BuildFailed:
        refused = self._refusal(candidate)
        if refused is not None:
            return BuildFailed(reason=refused[0], detail=refused[1])
        return self._plan(candidate)
