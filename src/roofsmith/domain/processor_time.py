"""Processor time of a whole machine, as its kernel counts it."""

from __future__ import annotations

from pydantic import Field

from roofsmith.domain.values import Value


class ProcessorTime(Value):
    """Of all processors together, from one moment to another."""

    wanted_s: float = Field(ge=0)
    """Seconds that processes ran, or would have run had the host let them."""
    stolen_s: float = Field(ge=0)
    """Part of `wanted_s` in which the host of a virtual machine ran something else: steal, in
    proc_stat(5)."""

    @property
    def stolen_share(self) -> float:
        """Of what was wanted; 0 if nothing was."""
        return self.stolen_s / self.wanted_s if self.wanted_s > 0 else 0.0

    def since(self, earlier: ProcessorTime) -> ProcessorTime:
        """What came on top of an earlier reading. Counters that went back count as still."""
        return ProcessorTime(
            wanted_s=max(self.wanted_s - earlier.wanted_s, 0.0),
            stolen_s=max(self.stolen_s - earlier.stolen_s, 0.0),
        )
