"""What targets' references compute: each is read once in a process's life."""

from __future__ import annotations

from roofsmith.computation.read import Computation, read_reference
from roofsmith.domain.kernel import Signature
from roofsmith.domain.target import Target
from roofsmith.domain.values import content_id

_MOST = 16
"""Readings that are remembered. Chosen."""
_known: dict[tuple[str, str], Computation] = {}


def computation_of(target: Target, signature: Signature) -> Computation:
    """Read in a process of its own, or remembered."""
    key = content_id(target), content_id(signature)
    if key not in _known:
        while len(_known) >= _MOST:
            del _known[next(iter(_known))]
        _known[key] = read_reference(target, signature.parameters)
    return _known[key]
