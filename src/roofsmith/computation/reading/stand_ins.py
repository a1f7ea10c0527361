"""What a reference's module sees in place of libraries while it is read."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

import numpy as np

from roofsmith.computation.reading.tape import ROOTS, Given, traced_math


class StandIn:
    """A module in which some names mean something else, for the reference alone."""

    def __init__(self, module: Any, instead: Mapping[str, Any]) -> None:
        self._module, self._instead = module, instead

    def __getattr__(self, name: str) -> Any:
        return self._instead[name] if name in self._instead else getattr(self._module, name)


@contextlib.contextmanager
def replaced(
    module: ModuleType, of_numpy: Mapping[str, Any], of_math: Mapping[str, Any] | None = None
) -> Iterator[None]:
    """In the reference's module `math` and NumPy know given numbers, as long as the block lasts.

    Args:
        module: the reference's.
        of_numpy: what else NumPy's names mean there.
        of_math: the same of `math`'s.
    """
    rooted = {name: traced_math(name) for name in ROOTS}
    made = {**of_numpy, **{name: _knowing(getattr(np, name), new) for name, new in rooted.items()}}
    swaps: dict[Any, Any] = {getattr(np, name): new for name, new in made.items()}
    rooted |= of_math or {}
    swaps |= {getattr(math, name): new for name, new in rooted.items()}
    swaps[np], swaps[math] = StandIn(np, made), StandIn(math, rooted)
    before = dict(vars(module))
    for name, value in before.items():
        with contextlib.suppress(TypeError):  # what can't be hashed is none of them
            if (new := swaps.get(value)) is not None:
                setattr(module, name, new)
    try:
        yield
    finally:
        vars(module).update(before)


def _knowing(function: Any, of_given: Callable[[Any], Any]) -> Callable[..., Any]:
    def applied(value: Any, *args: Any, **options: Any) -> Any:
        if isinstance(value, Given) and not args and not options:
            return of_given(value)
        return function(value, *args, **options)

    applied.__name__ = function.__name__
    return applied
