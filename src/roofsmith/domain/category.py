"""What kind of change an idea is. The command line reads it: nothing heavy is imported here."""

from __future__ import annotations

from typing import Literal

Category = Literal[
    "parallelism", "vectorisation", "tiling", "memory_access", "layout", "prefetch", "precision",
    "algebra", "fusion", "launch", "scheduling", "dispatch", "other",
]  # fmt: skip
"""Where one kind leads nowhere, another may."""
