"""Proof on request that what was measured was built, just now, from what was submitted."""

from __future__ import annotations

import secrets
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from roofsmith.api.places import Place
from roofsmith.config import Settings
from roofsmith.domain.kernel import Built, Candidate, Language
from roofsmith.errors import UsageError
from roofsmith.scratch import is_stale, scratch_prefix
from roofsmith.toolchains.cache import storage_errors
from roofsmith.toolchains.dispatch import Toolchains

COMPILED: frozenset[Language] = frozenset(("c", "cpp", "cuda", "hip"))
CANARY_BYTES = 32
"""Nobody guesses 256 random bits."""


@dataclass(frozen=True, slots=True)
class CanaryBuilds:
    """Builds of one judgement, and of no other."""

    toolchain: Toolchains
    kept: Toolchains
    """Of the builds that other commands use."""
    canary: str
    settings: Settings

    def notes(self, sides: Mapping[str, Candidate]) -> tuple[str, ...]:
        """What a judgement says of its builds."""
        built = {name: self.toolchain.build(candidate) for name, candidate in sides.items()}
        images = ", ".join(
            f"{name} {found.library_sha256[:12]}"
            for name, found in built.items()
            if isinstance(found, Built)
        )
        return (
            f"compiled anew for this judgement, with canary {self.canary[:12]}: a library that"
            f" doesn't hold it is not run (SHA-256: {images})",
            *(
                f"THE BUILD CACHE HOLDS ANOTHER LIBRARY for the {name} than its source gives now:"
                " it was exchanged, or came from a stale object. It was not used here, but is"
                f" without --canary. rm -r {shlex.quote(str(self.settings.builds_dir))}"
                for name, candidate in sides.items()
                if self.kept.differs(candidate)
            ),
        )


def require_compiled(language: Language) -> None:
    """See that a canary can be compiled into a kernel.

    Raises:
        UsageError: it is a Python module.
    """
    if language not in COMPILED:
        raise UsageError(
            f"--canary is for kernels that are compiled before they run, not for {language}",
            hint="leave it out: a module's file itself is hashed before every worker starts",
        )


@contextmanager
def canary_builds(machine: Place, settings: Settings) -> Iterator[CanaryBuilds]:
    """A toolchain that puts an unpredictable word into all it builds, in a folder of its own.

    Raises:
        StorageError: the folder can't be made.
    """
    canary = secrets.token_hex(CANARY_BYTES)
    folder = _own_folder(settings.builds_dir)
    try:
        yield CanaryBuilds(
            Toolchains(folder, machine.gpu, machine.compiled_dir, canary=canary),
            Toolchains(settings.builds_dir, machine.gpu, machine.compiled_dir),
            canary,
            settings,
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _own_folder(builds_dir: Path) -> Path:
    """Beside the other builds, where libraries may be loaded from; those of the dead go."""
    with storage_errors(builds_dir):
        builds_dir.mkdir(parents=True, exist_ok=True)
        for path in builds_dir.glob("roofsmith-canary-*"):
            if is_stale(path.name):
                shutil.rmtree(path, ignore_errors=True)
        return Path(tempfile.mkdtemp(prefix=scratch_prefix("canary"), dir=builds_dir))
