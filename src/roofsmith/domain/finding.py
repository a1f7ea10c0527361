"""What is looked at before a candidate is kept, beside its times and its profile."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from roofsmith.domain.held_out import HeldOutCheck
from roofsmith.domain.inspection import Inspection
from roofsmith.domain.transfer import TransferCheck
from roofsmith.domain.values import Value


class Unsourced(Value):
    """Numbers with a unit of hardware that none of a hypothesis's citations covers: struck from it;
    in older ledgers they stand there still."""

    kind: Literal["unsourced"] = "unsourced"
    numbers: tuple[str, ...] = Field(min_length=1)
    """Each as `<field>: <number> <unit>`."""


class OddSizes(Value):
    """That a candidate is wrong where a size shares no divisor with those given, and the baseline
    isn't: it may be kept, and whoever merges it should know."""

    kind: Literal["odd_sizes"] = "odd_sizes"
    only_where: tuple[str, ...] = Field(min_length=1)
    """What it needs, such as `N is a multiple of 8`."""

    def __str__(self) -> str:
        """For people."""
        return f"right only where {' and '.join(self.only_where)}"


Finding = Annotated[
    Inspection | TransferCheck | Unsourced | HeldOutCheck | OddSizes, Field(discriminator="kind")
]
