"""Where a target's file is."""

from __future__ import annotations

import shlex
from pathlib import Path

from roofsmith.errors import TargetError
from roofsmith.store.sources import LANGUAGES

FILE_NAME = "target.yaml"


def target_path(path: Path) -> Path:
    """The file itself, or the one in a directory.

    Raises:
        TargetError: there is none, or it is a kernel.
    """
    hint = (
        "`roofsmith init KERNEL --ref REF --workload N=4096,D=4096` writes one; of a repository"
        " with its own benchmark, `roofsmith init --repo DIR --editable GLOB --benchmark COMMAND`"
    )
    if path.is_dir():
        if not (path / FILE_NAME).exists():
            raise TargetError(f"no {FILE_NAME} in {path}", hint=hint)
        return path / FILE_NAME
    if path.suffix.lower() in LANGUAGES:
        command = f"roofsmith init {shlex.quote(str(path))} --ref REF --workload N=4096,D=4096"
        raise TargetError(
            f"{path} is a source file; a target (.yaml) is needed",
            hint=f"`{command}` writes one",
        )
    if not path.exists():
        raise TargetError(f"target {path} doesn't exist", hint=hint)
    return path
