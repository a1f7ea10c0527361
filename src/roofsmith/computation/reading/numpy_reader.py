"""One reading of a NumPy reference: called on traced arrays, with NumPy's makers replaced."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from roofsmith.computation.graph import Graph
from roofsmith.computation.reading import numpy_products, numpy_shapes  # noqa: F401 - it reads
from roofsmith.computation.reading.branches import ASKED, Branches, of_math
from roofsmith.computation.reading.numpy_arrays import Traced, fresh
from roofsmith.computation.reading.stand_ins import replaced
from roofsmith.computation.reading.tape import Tape
from roofsmith.domain.python_names import as_arguments


def read_numpy(
    module: ModuleType, path: Path, values: Mapping[str, Any], outputs: frozenset[str] | None,
    free: frozenset[str],
) -> tuple[Graph, tuple[str, ...]]:  # fmt: skip
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
            arguments[name].memory.is_array = isinstance(value, np.ndarray)
        elif name in free:
            arguments[name] = tape.given(name, value)
        else:
            arguments[name] = value
    instead = {**numpy_shapes.creators(tape), "random": _Random(tape)}
    setattr(module, ASKED, Branches(tape))
    with replaced(module, instead, of_math(tape)), np.errstate(all="ignore"):
        module.reference(**as_arguments(arguments))
    results = {
        name: one.node
        for name, one in arguments.items()
        if isinstance(one, Traced)
        and (name in outputs if outputs is not None else one.memory.version)
    }
    return tape.builder.graph(**results), tape.lines


class _Random:
    """Stands for `numpy.random`."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape

    def __getattr__(self, name: str) -> Any:
        raise self._tape.refuse(f"numpy.random.{name}: random numbers aren't read")
