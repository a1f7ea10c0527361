"""C and C++ candidates to shared libraries, with gcc or clang."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from roofsmith.domain.kernel import Built, Candidate, KernelResources, Language, Signature
from roofsmith.domain.outcome import BuildFailed
from roofsmith.domain.values import canonical_json, content_id
from roofsmith.toolchains.builder import FORMAT, LibraryBuilder, Plan, unfit, units
from roofsmith.toolchains.canary import header, included
from roofsmith.toolchains.compilers import find_compiler, resolved_target
from roofsmith.toolchains.flags import joined, refusal
from roofsmith.toolchains.limits import Limits
from roofsmith.toolchains.signature import read_signature

_COMPILED = frozenset({".c", ".cc", ".cpp", ".cxx", ".c++", ".C"})


class CToolchain:
    """Builds C and C++ candidates, each content once, under a deadline and a memory limit.

    Args:
        cache_dir: folder of finished builds; may be shared by processes and, on a network file
            system, by machines.
        deadline_s: wall time that one build may take.
        memory_bytes: address space that each process of a build may take.
        canary: compiled into every library.
        at_once: builds that may run at the same time.

    Raises:
        StorageError: `cache_dir` can't be made.
    """

    def __init__(
        self,
        cache_dir: Path,
        *,
        deadline_s: float = 60.0,
        memory_bytes: int = 4 * 1024**3,
        canary: str | None = None,
        at_once: int = 1,
    ) -> None:
        self._builder = LibraryBuilder(cache_dir, Limits(deadline_s, memory_bytes), at_once)
        self._canary = canary

    def signature(self, candidate: Candidate) -> Signature:
        """Read the entry's parameters from the source; nothing is compiled.

        Raises:
            SignatureError: no such function, or a parameter outside the contract.
        """
        return read_signature(candidate)

    def build(self, candidate: Candidate) -> Built | BuildFailed:
        """Compile, or take the same content from the cache.

        Raises:
            ToolMissingError: the compiler isn't installed.
            StorageError: the cache can't be written.
        """
        return self.build_all((candidate,))[0]

    def build_all(self, candidates: Sequence[Candidate]) -> tuple[Built | BuildFailed, ...]:
        """The same for several, side by side.

        Raises:
            ToolMissingError: the compiler isn't installed.
            StorageError: the cache can't be written.
        """
        return self._builder.build_all([self._planned(candidate) for candidate in candidates])

    def side_by_side(self, language: Language) -> int:  # noqa: ARG002 - the port's
        """As many as it was told."""
        return self._builder.at_once

    def differs(self, candidate: Candidate) -> bool:
        """Whether the cache holds another library than compiling a candidate gives now.

        Raises:
            ToolMissingError: the compiler isn't installed.
            StorageError: the cache can't be written.
        """
        return self._builder.differs(_plan(candidate, self._canary))

    def resources(self, built: Built) -> tuple[KernelResources, ...]:
        """None: there is no GPU kernel in it."""
        return built.resources

    def _planned(self, candidate: Candidate) -> Plan | BuildFailed:
        refused = refusal(candidate.build) or unfit(candidate, "gcc", "clang")
        if refused is not None:
            return BuildFailed(reason=refused[0], detail=refused[1])
        return _plan(candidate, self._canary)


def _plan(candidate: Candidate, canary: str | None) -> Plan:
    compiler = find_compiler(candidate.build, candidate.language)
    flags = joined(candidate.build.flags)
    kind = "c" if candidate.language == "c" else "c++"
    quiet = (
        ("-fno-color-diagnostics", "-ferror-limit=50")
        if compiler.program.startswith("clang")
        else ("-fdiagnostics-color=never", "-fmax-errors=50")
    )
    arguments = (
        *flags, "-shared", "-fPIC", "-I.", *quiet,
        *included(canary), "-x", kind, *units(candidate, _COMPILED), "-x", "none",
        *joined(candidate.build.link), "-Wl,-z,defs",
    )  # fmt: skip
    content = {
        "format": FORMAT,
        "language": candidate.language,
        "entry": candidate.entry,
        "sources": [[source.path, source.text] for source in candidate.sources],
        "arguments": arguments,
        **header(canary),
        "compiler": [str(compiler.path), compiler.version],
        "target": resolved_target(compiler, flags),
    }
    key = content_id(canonical_json(content))[:32]
    return Plan(candidate, compiler, arguments, key=key, canary=canary)
