"""Names of compiled kernels, as people wrote them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from roofsmith.toolchains.compilers import compiler_environment

_DEADLINE_S = 20.0
_PROGRAMS = ("cu++filt", "c++filt", "llvm-cxxfilt")
_RETURNS = re.compile(r"^(?:void|float|double|int) (?=\S)")


def demangled(names: Iterable[str], beside: Path | None = None) -> Mapping[str, str]:
    """Mangled names and what they stand for, without return type and parameters.

    Args:
        names: as a compiler prints them; those that aren't mangled stay as they are.
        beside: a folder that may hold the compiler's own demangler.
    """
    mangled = list(dict.fromkeys(names))
    program = _program(beside)
    if program is None or not mangled:
        return {name: name for name in mangled}
    try:
        finished = subprocess.run(
            [program],
            input="".join(f"{name}\n" for name in mangled),
            env=compiler_environment(Path("/tmp")),
            capture_output=True,
            text=True,
            timeout=_DEADLINE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return {name: name for name in mangled}
    printed = finished.stdout.splitlines()
    if len(printed) != len(mangled):
        return {name: name for name in mangled}
    return {name: without_parameters(text) for name, text in zip(mangled, printed, strict=True)}


def without_parameters(signature: str) -> str:
    """`void scale<128>(float const*, int)` is scale<128>."""
    text = signature.strip()
    if text.endswith(")"):
        depth = 0
        for at in range(len(text) - 1, -1, -1):
            depth += {")": 1, "(": -1}.get(text[at], 0)
            if depth == 0:
                text = text[:at].rstrip()
                break
    return _RETURNS.sub("", text) or signature.strip()


def _program(beside: Path | None) -> str | None:
    for name in _PROGRAMS:
        if beside is not None and os.access(beside / name, os.X_OK):
            return str(beside / name)
        found = shutil.which(name)
        if found:
            return found
    return None
