"""What a C, C++, CUDA or HIP kernel keeps between calls, read from its syntax tree."""

from __future__ import annotations

from roofsmith.analysis.overfitting.native_flow import NativeFlow
from roofsmith.analysis.overfitting.native_tree import parse
from roofsmith.analysis.overfitting.stores import kept_values, unfollowed
from roofsmith.domain.transfer import KeptValue


def kept_values_native(
    path: str, text: str, weights: frozenset[str] = frozenset(), *, plain_c: bool = False
) -> tuple[KeptValue, ...]:
    """Everything that a file keeps and shouldn't, or may keep with care (W1).

    Args:
        path: of the file.
        text: of the file.
        weights: arguments known to be weights.
        plain_c: C rather than C++.
    """
    flow = NativeFlow(parse(text, plain_c=plain_c))
    try:
        flow.read()
    except RecursionError:
        return (unfollowed(path),)
    found = kept_values(path, flow.stores, flow.lookups, weights)
    return tuple(sorted(found, key=lambda value: (value.line, value.name)))
