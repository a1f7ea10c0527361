"""What is looked at before a candidate is kept, beside its times and its profile."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from roofsmith.domain.inspection import Inspection
from roofsmith.domain.transfer import TransferCheck
from roofsmith.domain.values import Value


class Unsourced(Value):
    """Hardware numbers in a proposal that no citation supports."""

    kind: Literal["unsourced"] = "unsourced"
    numbers: tuple[str, ...]
    """As they are written; empty: every one is cited."""


Finding = Annotated[Inspection | TransferCheck | Unsourced, Field(discriminator="kind")]
