"""Sees whether a candidate can be called as the incumbent is."""

from __future__ import annotations

from roofsmith.domain.kernel import Signature
from roofsmith.domain.outcome import BuildFailed


def changed_signature(candidate: Signature, incumbent: Signature) -> BuildFailed | None:
    """The failed build that a candidate with other parameters amounts to; None if they agree."""
    if _shape(candidate) == _shape(incumbent):
        return None
    return BuildFailed(
        reason="signature_changed",
        detail=f"solve takes ({_spell(candidate)}), but the campaign calls ({_spell(incumbent)})",
    )


def _shape(signature: Signature) -> tuple[tuple[bool, str], ...]:
    """What must not change: arrays, numbers and their types in order. Names may, and so may
    `const`: the call is the same, and what is written where is seen in the arrays."""
    return tuple((p.role == "size", p.dtype) for p in signature.parameters)


def _spell(signature: Signature) -> str:
    return ", ".join(
        f"{'number' if p.role == 'size' else 'array'} {p.dtype} {p.name}"
        for p in signature.parameters
    )
