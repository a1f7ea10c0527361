"""Workloads that no proposer is shown: what is right on the others has to be so there."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from roofsmith.domain.comparison import Judgement
from roofsmith.domain.values import Value, content_id
from roofsmith.domain.workload import ConfigClass, Workload


class HeldOut(Value):
    """One draw of them. A campaign holds its digest alone, until it has ended."""

    salt: str
    """Random, so that nobody finds the workloads by trying digests."""
    workloads: tuple[Workload, ...]
    """Each with the class that it was drawn for. The baseline is right on all of them; none may
    be left."""

    @property
    def digest(self) -> str:
        """The seal: a content hash of salt and workloads."""
        return content_id(self)

    @property
    def classes(self) -> tuple[ConfigClass, ...]:
        """The workloads by the class that they were drawn for."""
        members: dict[str, list[str]] = {}
        for workload in self.workloads:
            members.setdefault(workload.config_class or "", []).append(workload.label)
        return tuple(
            ConfigClass(name=name, workloads=tuple(labels), reason="held out")
            for name, labels in members.items()
        )


class HeldOutCheck(Value):
    """A candidate on them. Names none, for proposers read it."""

    kind: Literal["held_out"] = "held_out"
    count: int = Field(ge=0)
    """How many there are."""
    failure: str | None = None
    """How it failed on the first that it failed on, and what tells that one from those shown; None:
    it is right on all."""


class Generalization(Value):
    """The final kernel beside the baseline where no proposer could look, once it was over."""

    held_out: HeldOut
    """The seal, opened: the next proposal is held against another draw."""
    judgement: Judgement
