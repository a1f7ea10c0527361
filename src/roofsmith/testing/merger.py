"""A merger that reads no source: what it makes names both kernels and the rule between them."""

from __future__ import annotations

from collections.abc import Mapping

from roofsmith.domain.dispatch import Dispatch
from roofsmith.domain.kernel import Candidate, Signature
from roofsmith.ports import DimensionSource, Unmergeable
from roofsmith.testing.toolchain import SCALE


class FakeMerger:
    """Merges anything, unless it is told why not.

    Args:
        refuses: the reason that it gives; None: it merges.
    """

    def __init__(self, refuses: str | None = None) -> None:
        self._refuses = refuses

    def __call__(
        self,
        old: Candidate,
        new: Candidate,
        dispatch: Dispatch,
        sights: Mapping[str, DimensionSource],
        signature: Signature,  # noqa: ARG002
    ) -> Candidate | Unmergeable:
        """A kernel whose text differs by what it was made of."""
        if self._refuses is not None:
            return Unmergeable(self._refuses)
        seen = ", ".join(sights)
        note = f"/* {new.id} where {dispatch.rule.text}, else {old.id}; sees {seen} */"
        return old.with_kernel_text(f"{note}\n{SCALE}")
