"""What a target's reference computes, as far as it could be read."""

from __future__ import annotations

from pydantic import Field

from roofsmith.domain.values import Value


class Computed(Value):
    """Of one reference; made without running a kernel."""

    operator: str = ""
    """What kind of operator its operations make, of `computation.kinds`; empty: nobody can say."""
    operations: tuple[str, ...] = ()
    """A line for each, with its shape in the target's dims."""
    doubts: tuple[str, ...] = ()
    """Why that may not be all that it computes, or why it couldn't be read."""
    flops: dict[str, float] = Field(default_factory=dict)
    """By workload label; without those whose doubts leave it open."""
    swept_bytes: dict[str, float] = Field(default_factory=dict)
    """By workload label: what repeated loops pass over, in every iteration anew."""
