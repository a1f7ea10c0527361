"""What can be wrong with a wiki page, each with its line and what to do."""

from __future__ import annotations

from typing import Literal

from roofsmith.domain.values import Value

Code = Literal[
    "unreadable",
    "not_yaml",
    "unknown_key",
    "missing_key",
    "missing_source",
    "wrong_type",
    "bad_unit",
    "not_positive",
    "sparse_below_dense",
    "wrong_id",
    "duplicate_id",
    "duplicate_alias",
]
"""docs/specs.md explains every one."""


class PageProblem(Value):
    """Why a page can't be used."""

    code: Code
    path: str
    """The page's file."""
    line: int | None
    """1-based; None where the whole file is meant."""
    detail: str
    fix: str

    @property
    def place(self) -> str:
        """`file:line`."""
        return self.path if self.line is None else f"{self.path}:{self.line}"

    def __str__(self) -> str:
        """`file:line: code: detail (fix)`."""
        return f"{self.place}: {self.code}: {self.detail} ({self.fix})"
