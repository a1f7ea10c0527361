"""How much is asked for to keep candidates apart from the judge."""

from __future__ import annotations

from typing import Literal

IsolationMode = Literal["strict", "standard", "none"]
"""strict: every layer or nothing runs; standard: all that the host grants; none: a process."""
