"""A file that stands as evidence beside a record."""

from __future__ import annotations

from typing import Literal

from roofsmith.domain.values import Value

KeptProfiles = Literal["all", "kept", "none"]
"""Of which rounds what profilers wrote is kept on disk; the baseline's counts as kept."""


class Artifact(Value):
    """One file of a campaign directory, as it was when its round was recorded."""

    path: str
    """Relative to the directory."""
    sha256: str
    size_bytes: int
