"""One reading of a NumPy reference: called on traced arrays, with NumPy's makers replaced."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from roofsmith.computation.graph import Graph
from roofsmith.computation.reading import numpy_shapes
from roofsmith.computation.reading.numpy_arrays import Traced, fresh
from roofsmith.computation.reading.tape import ROOTS, Given, Tape, traced_math


def read_numpy(
    module: ModuleType, path: Path, values: Mapping[str, Any], outputs: frozenset[str] | None
) -> tuple[Graph, tuple[str, ...]]:
    """What the reference does to these arguments, and the line of each node; arrays are copied.

    Raises:
        Unreadable: no graph says it.
        Exception: whatever the reference raises.
    """
    tape = Tape(path)
    arguments: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, (np.ndarray, np.generic)):
            real = np.array(value)
            node = tape.builder.input(name, real.dtype.name, *real.shape)
            arguments[name] = fresh(tape, node, real, given=True)
        elif isinstance(value, float):
            arguments[name] = tape.given(name, value)
        else:
            arguments[name] = value
    with _replaced(module, tape), np.errstate(all="ignore"):
        module.reference(**arguments)
    results = {
        name: one.node
        for name, one in arguments.items()
        if isinstance(one, Traced) and (name in outputs if outputs is not None else one.memory.version)
    }
    return tape.builder.graph(**results), tape.lines


class StandIn:
    """A module in which some names mean something else, for the reference alone."""

    def __init__(self, module: Any, instead: Mapping[str, Any]) -> None:
        """The module, and what is seen in its place."""
        self._module, self._instead = module, instead

    def __getattr__(self, name: str) -> Any:
        """What the reference sees."""
        return self._instead[name] if name in self._instead else getattr(self._module, name)


@contextlib.contextmanager
def _replaced(module: ModuleType, tape: Tape) -> Iterator[None]:
    """In the reference's module NumPy and `math` know traced arrays and given numbers, as long as
    the block lasts."""
    made = numpy_shapes.creators(tape)
    made |= {name: _knowing(getattr(np, name), traced_math(name)) for name in ROOTS}
    rooted = {name: traced_math(name) for name in ROOTS}
    swaps: dict[Any, Any] = {getattr(np, name): new for name, new in made.items()}
    swaps |= {getattr(math, name): new for name, new in rooted.items()}
    swaps[np] = StandIn(np, {**made, "random": _Random(tape)})
    swaps[math], swaps[np.random] = StandIn(math, rooted), _Random(tape)
    before = dict(vars(module))
    for name, value in before.items():
        with contextlib.suppress(TypeError):  # what can't be hashed is none of them
            if (new := swaps.get(value)) is not None:
                setattr(module, name, new)
    try:
        yield
    finally:
        vars(module).update(before)


class _Random:
    """Stands for `numpy.random`."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape

    def __getattr__(self, name: str) -> Any:
        raise self._tape.refuse(f"numpy.random.{name}: random numbers aren't read")


def _knowing(function: Any, of_given: Callable[[Any], Any]) -> Callable[..., Any]:
    def applied(value: Any, *args: Any, **options: Any) -> Any:
        if isinstance(value, Given) and not args and not options:
            return of_given(value)
        return function(value, *args, **options)

    applied.__name__ = function.__name__
    return applied


__all__ = ["Traced", "read_numpy"]
