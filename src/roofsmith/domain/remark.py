"""What reading a kernel's source says about it."""

from __future__ import annotations

from roofsmith.domain.values import Value


class Remark(Value):
    """One thing that a kernel's source does, and where; a fact, not a verdict."""

    name: str
    """A stable code in snake_case; docs/source.md lists them."""
    path: str
    """Of the source file within the candidate."""
    line: int
    """From 1; of the first place, if there are several."""
    detail: str
    """What was found there, as it is written."""
    says: str
    """What that means, in a few words."""

    @property
    def text(self) -> str:
        """One line for people."""
        return f"{self.path}:{self.line}: {self.says} ({self.detail})"
