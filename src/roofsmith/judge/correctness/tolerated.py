"""What exploring a reference came to."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from roofsmith.domain.values import Value
from roofsmith.judge.correctness.distributions import (
    ALTERNATIVES,
    DISTRIBUTIONS,
    INDEX,
    INDICES,
    LEVEL,
    moved_by,
)


class Tolerated(Value):
    """Distributions that an operator tolerates, and the inputs that they may change."""

    tolerated: tuple[str, ...] = ()
    """Names from `judge.correctness.distributions`."""
    free: dict[str, int] = Field(default_factory=dict)
    """Inputs that may be drawn otherwise, each with the sign that its numbers always have, 0, or
    `judge.correctness.distributions.LEVEL`."""
    indices: tuple[str, ...] = ()
    """Inputs of whole numbers that say a place in another array, and may say another."""
    unread: tuple[str, ...] = ()
    """Inputs that don't matter to the result."""
    bound: dict[str, str] = Field(default_factory=dict)
    """All other floating inputs, and what every draw of them has in common."""
    fan_in: dict[str, float] = Field(default_factory=dict)
    """Inputs that an element of an output depends on, where these are a few; of others perhaps a
    row or more."""

    jumps: tuple[str, ...] = ()
    """Outputs that change by leaps where inputs hardly change, such as those of `rint`."""
    same: tuple[str, ...] = ()
    """Arrays that are read, and are the same in every draw."""
    is_fixed: bool = False
    """Whether every call computes the same."""
    selected: tuple[str, ...] = ()
    """Outputs that consist of the inputs' own numbers, such as those of a sort or a maximum."""
    ordered: tuple[str, ...] = ()
    """Outputs that the order of the inputs' numbers alone decides, such as those of an argsort."""

    scaled: tuple[str, ...] = ()
    """Distributions on which results are those of own draws times a power of two."""

    @property
    def redrawn(self) -> dict[str, int]:
        """All inputs that may be drawn otherwise, as `judge.correctness.distributions` wants it."""
        return {**self.free, **dict.fromkeys(self.indices, INDEX)}

    def notes(self) -> Iterator[str]:
        """What a kernel is tried on beside the reference's own draws, and on what it isn't, why."""
        if not self.tolerated:
            yield "inputs: only as the reference draws them: it bears no others, or fixes them all"
        else:
            yield f"inputs: as the reference draws them, and {', '.join(self.tolerated)}"
            if left_out := ", ".join(self._left_out()):
                yield f"inputs left out, since results mean little on them: {left_out}"
        for name, why in self.bound.items():
            yield f"input {name!r} is always as the reference draws it: {why}"

    def cautions(self) -> Iterator[str]:
        """What a judgement of this operator can't find out."""
        if self.is_fixed:
            yield "every call computes the same: nobody notices a result that is remembered"
            return
        for name in self.unread:
            yield f"input {name!r} doesn't matter to the result: the reference computes the same"
        for name in self.same:
            if self.free.get(name) != LEVEL:
                yield (
                    f"input {name!r} is the same in every draw: nobody notices a kernel that has"
                    " it built in, or keeps what follows from it"
                )

    def _left_out(self) -> Iterator[str]:
        """Distributions that aren't tolerated, and no other in their place is."""
        used = set(self.tolerated)
        replaced = {name for group in ALTERNATIVES if used & set(group) for name in group}
        for name in (*DISTRIBUTIONS, *INDICES):
            if moved_by(name, self.redrawn) and name not in used | replaced:
                yield name
