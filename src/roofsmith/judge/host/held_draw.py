"""One draw in the reference's process, and what was computed for it: each thing once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roofsmith.judge.host.arena import Arena
from roofsmith.judge.host.reference import Reference, Value

TRUTH = "truth:"
"""Prefix of an output's float64 expectation in an oracle's arena."""
DECLARED = "declared:"
"""Prefix of its expectation computed in the declared precision."""


@dataclass(slots=True)
class HeldDraw:
    """A slot's inputs. Port `Explored`: what is right for them is computed once, into the slot."""

    reference: Reference
    arena: Arena
    slot: int
    how: list[Any]
    """It was drawn: dimensions, seed, distribution, and which inputs may change."""
    values: dict[str, Value]
    outputs: set[str]
    answers: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What was found of these inputs, by operation."""
    _held: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Outputs whose expectations the slot holds, by prefix."""

    def inputs(self, dims: dict[str, int], seed: int) -> tuple[dict[str, Value], set[str]]:
        return self.reference.inputs(dims, seed)

    def expect(
        self, values: Any, outputs: set[str], *, exact: bool
    ) -> Mapping[str, NDArray[np.generic]]:
        """As the reference's; of these very inputs, views of what the slot holds."""
        if values is not self.values:
            return self.reference.expect(values, outputs, exact=exact)
        prefix = TRUTH if exact else DECLARED
        if prefix not in self._held:
            found = self.reference.expect(values, outputs, exact=exact)
            self.hold(prefix, found)
            self._held[prefix] = tuple(found)
        return {name: self.arena.view(self.slot, prefix + name) for name in self._held[prefix]}

    def hold(self, prefix: str, found: Mapping[str, NDArray[np.generic]]) -> None:
        """Write expectations into the slot, perhaps of other inputs."""
        self._held.pop(prefix, None)
        for name, array in found.items():
            np.copyto(self.arena.view(self.slot, prefix + name), array)

    def forget(self) -> None:
        """The slot's expectations are about to become something else."""
        self._held.clear()

    def narrowed(self, values: Mapping[str, Any], outputs: set[str]) -> None:
        return self.reference.narrowed(values, outputs)

    def shaken(self, values: Mapping[str, Any], outputs: set[str]) -> None:
        return self.reference.shaken(values, outputs)
