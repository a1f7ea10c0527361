"""Which judge it was: verdicts of one can't be counted with those of another."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).parent.parent
_JUDGE = ("judge/*.py", "judge/gpu/*.py")
"""What judges kernels: commands of a repository and steps of training have judges of their own."""
_RULES = "roofsmith.analysis"
"""Where the statistics and rules are; what the judge doesn't import of it changes no verdict."""


@cache
def judge_version() -> str:
    """Digest of the sources that verdicts on kernels come from: 12 hexadecimal digits of SHA-256.

    They are the judge's own, and what these import of `roofsmith.analysis`, directly or not.
    """
    digest = hashlib.sha256()
    for path in sorted(judge_sources()):
        digest.update(f"{path.relative_to(_PACKAGE)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def judge_sources() -> set[Path]:
    """The files that `judge_version` is a digest of."""
    waiting = [path for pattern in _JUDGE for path in _PACKAGE.glob(pattern)]
    found: set[Path] = set()
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting += _rules_in(path)
    return found


def _rules_in(path: Path) -> Iterator[Path]:
    """Files of `_RULES` that a file imports."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            file = _PACKAGE.joinpath(*name.split(".")[1:]).with_suffix(".py")
            if name.startswith(f"{_RULES}.") and file.is_file():
                yield file
