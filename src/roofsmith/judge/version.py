"""Which judge it was: verdicts of one can't be counted with those of another."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).parent.parent
_PARTS = ("judge", "analysis")
"""Folders of the package that verdicts and times come from."""


@cache
def judge_version() -> str:
    """Digest of the sources that verdicts come from: 12 hexadecimal digits of SHA-256."""
    files = sorted(path for part in _PARTS for path in (_PACKAGE / part).rglob("*.py"))
    digest = hashlib.sha256()
    for path in files:
        digest.update(f"{path.relative_to(_PACKAGE)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:12]
