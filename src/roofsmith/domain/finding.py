"""What is looked at before a candidate is kept, beside its times and its profile."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from roofsmith.domain.held_out import HeldOutCheck
from roofsmith.domain.inspection import Inspection
from roofsmith.domain.transfer import TransferCheck
from roofsmith.domain.values import Value


class Unsourced(Value):
    """Numbers with a unit of hardware in a hypothesis that none of its citations covers."""

    kind: Literal["unsourced"] = "unsourced"
    numbers: tuple[str, ...] = Field(min_length=1)
    """Each as `<field>: <number> <unit>`."""


Finding = Annotated[
    Inspection | TransferCheck | Unsourced | HeldOutCheck, Field(discriminator="kind")
]
