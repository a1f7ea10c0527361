"""The toolchain of every language, each made when it is first needed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from roofsmith.domain.device import Device
from roofsmith.domain.kernel import (
    MODULE_LANGUAGES,
    Built,
    Candidate,
    KernelResources,
    Language,
    Signature,
)
from roofsmith.domain.outcome import BuildFailed
from roofsmith.ports import Toolchain
from roofsmith.toolchains import flags, hip, module, nvcc_flags
from roofsmith.toolchains.c import CToolchain
from roofsmith.toolchains.compiling import CompilingToolchain
from roofsmith.toolchains.cuda import CudaToolchain
from roofsmith.toolchains.hip import HipToolchain
from roofsmith.toolchains.module import ModuleToolchain


class Toolchains:
    """Builds candidates in any language, for one device.

    Args:
        cache_dir: folder of finished builds of all languages.
        device: that candidates are for. CUDA and HIP need one of theirs to build, not to read
            signatures; the others do without.
        compiled_dir: where workers keep what is compiled when it runs; None: it isn't looked at.
        canary: compiled into every library.
        at_once: compilers that may run at the same time.
    """

    def __init__(
        self,
        cache_dir: Path,
        device: Device | None = None,
        compiled_dir: Path | None = None,
        *,
        canary: str | None = None,
        at_once: int = 1,
    ) -> None:
        self._at_once = at_once
        self._canary = canary
        self._cache_dir = cache_dir
        self._device = device
        self._compiled_dir = compiled_dir
        self._made: dict[Language, Toolchain] = {}

    def signature(self, candidate: Candidate) -> Signature:
        return self._for(candidate.language).signature(candidate)

    def build(self, candidate: Candidate) -> Built | BuildFailed:
        """Compile, or take the same content from the cache.

        Raises:
            ToolMissingError: the language's compiler isn't installed.
            MachineError: it can't build for the device.
            StorageError: the cache can't be written.
        """
        return self._for(candidate.language).build(candidate)

    def build_all(self, candidates: Sequence[Candidate]) -> tuple[Built | BuildFailed, ...]:
        """The same for several, side by side where the language has a compiler.

        Raises:
            ToolMissingError: the language's compiler isn't installed.
            MachineError: it can't build for the device.
            StorageError: the cache can't be written.
        """
        return tuple(
            made
            for language, alike in groupby(candidates, lambda candidate: candidate.language)
            for made in self._for(language).build_all(tuple(alike))
        )

    def side_by_side(self, language: Language) -> int:
        """How many candidates of a language `build_all` builds at the same time."""
        return self._for(language).side_by_side(language)

    def differs(self, candidate: Candidate) -> bool:
        """Whether the cache holds another library than compiling a candidate gives now.

        False for modules: the worker loads their source.

        Raises:
            ToolMissingError: the language's compiler isn't installed.
            MachineError: it can't build for the device.
            StorageError: the cache can't be written.
        """
        toolchain = self._for(candidate.language)
        if not isinstance(toolchain, CompilingToolchain):
            return False
        return toolchain.differs(candidate)

    def resources(self, built: Built) -> tuple[KernelResources, ...]:
        """What the compiler gave each GPU kernel of a build; of Triton, once it was called."""
        return self._for(built.language).resources(built)

    def _for(self, language: Language) -> Toolchain:
        if language not in self._made:
            self._made[language] = self._make(language)
        return self._made[language]

    def _make(self, language: Language) -> Toolchain:
        match language:
            case "c" | "cpp":
                return CToolchain(self._cache_dir, canary=self._canary, at_once=self._at_once)
            case "cuda":
                return CudaToolchain(
                    self._cache_dir, self._of("nvidia"),
                    canary=self._canary, at_once=self._at_once,
                )  # fmt: skip
            case "hip":
                return HipToolchain(
                    self._cache_dir, self._of("amd"), canary=self._canary, at_once=self._at_once
                )
            case _ if language in MODULE_LANGUAGES:
                arch = self._device.arch if self._device is not None else None
                return ModuleToolchain(self._cache_dir, self._compiled_dir, arch)
            case _:
                raise AssertionError("a repository has a toolchain of its own, see command.py")

    def _of(self, kind: str) -> Device | None:
        return self._device if self._device is not None and self._device.kind == kind else None


def refusal(candidate: Candidate) -> tuple[str, str] | None:
    """Why a candidate's flags are not allowed, as (reason code, sentence); None if they are.

    Known from the build spec alone: no compiler or GPU is needed.
    """
    match candidate.language:
        case "c" | "cpp":
            return flags.refusal(candidate.build)
        case "cuda":
            return nvcc_flags.refusal(candidate.build)
        case "hip":
            return hip.refused_flag(candidate.build)
        case "command":  # its own commands build it
            return None
        case _:
            return module.refused_flag(candidate.build)
