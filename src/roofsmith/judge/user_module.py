"""A user's Python file with a reference in it: imported, and asked for what it declares."""

from __future__ import annotations

import importlib.util
import inspect
import math
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import numpy as np

from roofsmith.domain.kernel import names_extensions
from roofsmith.judge.extensions import VARIABLE, build_in


class Complaint(Exception):  # noqa: N818
    """What is wrong with the reference or the workload, for people."""


def declared(module: ModuleType, name: str, dims: dict[str, int]) -> float | None:
    """What the reference's `flops` or `bytes` says of a workload; None if it has none."""
    function = getattr(module, name, None)
    if not callable(function) or not inspect.isfunction(function):
        return None
    value = float(function(**dims))
    if not value >= 0 or value == float("inf"):
        spelled = ", ".join(f"{k}={v}" for k, v in dims.items())
        raise Complaint(f"{name}({spelled}) returns {value}")
    return value


def listed(made: dict[str, Any], key: Literal["outputs", "inouts", "scratch"]) -> frozenset[str]:
    """Arrays that `setup` lists; empty if it doesn't.

    Args:
        made: what it returned.
        key: inouts are outputs that hold what it gave before the call; scratch is what a kernel may
            write, and nobody reads.
    """
    named = made.get(key) or ()
    return frozenset([named] if isinstance(named, str) else named)


def buffer_elements(dims: Mapping[str, int], ptr_size: int | None) -> int:
    """Elements of every buffer of a reference without `setup`: as given, else the product of the
    two largest dimensions."""
    return ptr_size or math.prod(sorted(dims.values())[-2:])


def size_argument(name: str, dtype: str, dims: Mapping[str, int]) -> int | float:
    """What `solve` gets for a number where there is no `setup`: the workload's dimension of its
    name.

    Raises:
        Complaint: the workload has none.
    """
    if name not in dims:
        raise Complaint(f"solve takes the size {name!r}, but the workload gives {', '.join(dims)}")
    return by_value(name, dtype, dims[name])


def by_value(name: str, dtype: str, value: Any) -> int | float:
    """A number as `solve` gets it: rounded to the type that it takes, so that the reference is
    told the same.

    Raises:
        Complaint: it is no such number, or too large for the type.
    """
    if getattr(value, "shape", None) == ():
        value = value.item()
    kind = np.dtype(dtype).kind
    if kind == "f":
        takes, fits = "a float", type(value) in (int, float)
    elif kind == "b":
        takes, fits = "a bool", type(value) in (int, bool)
    else:
        takes, fits = "an integer", type(value) is int
    if not fits:
        raise Complaint(f"setup gives {type(value).__name__} for {name!r}, but solve takes {takes}")
    with np.errstate(over="ignore"):
        given: int | float = np.asarray(value).astype(dtype).item()
    if given != value if kind in "iu" else math.isinf(given) != math.isinf(value):
        raise Complaint(f"{name!r} is {value}, which {dtype} doesn't hold")
    return given


def require_fixed(
    scalars: Mapping[str, Any], dims: Mapping[str, int], redraw: Callable[[], Mapping[str, Any]]
) -> None:
    """See that what a kernel is given by value follows from the workload, not from the seed.

    Args:
        scalars: of one draw, by name.
        dims: of the workload.
        redraw: the inputs of another seed; called only if a scalar isn't a dimension.

    Raises:
        Complaint: one doesn't.
    """
    if all(name in dims and dims[name] == value for name, value in scalars.items()):
        return
    others = redraw()
    for name, value in scalars.items():
        if others.get(name) != value and value == value:
            raise Complaint(
                f"setup gives the number {name!r} another value for another seed: {value},"
                f" {others.get(name)}; what a kernel gets by value is the same in every call, so"
                " make it an array of one element, or a dimension"
            )


def other_order(values: Mapping[str, Any]) -> dict[str, list[int]]:
    """Strides of arrays that don't lie row by row, in elements: kernels get copies that do.

    Args:
        values: what `setup` gave by name; NumPy arrays and tensors are looked at.
    """
    found: dict[str, list[int]] = {}
    for name, value in values.items():
        if isinstance(value, np.ndarray):
            if not value.flags.c_contiguous:
                found[name] = [stride // value.itemsize for stride in value.strides]
        elif hasattr(value, "is_contiguous") and not value.is_contiguous():
            found[name] = list(value.stride())
    return found


def is_fixed(read: Mapping[str, Any], redraw: Callable[[], Mapping[str, Any]]) -> bool:
    """Whether another seed gives a workload the same inputs, as with one bin or one class.

    Args:
        read: the arrays that kernels read, of one draw, by name.
        redraw: the inputs of another seed; called only if an array is one number throughout.
    """
    if not any(map(_is_flat, read.values())):
        return False
    others = redraw()
    return all(
        others[name].shape == value.shape and bool((others[name] == value).all())
        for name, value in read.items()
    )


def _is_flat(array: Any) -> bool:
    """Whether it is one number throughout."""
    flat = array.reshape(-1)
    return all(len(part) > 0 and bool((part == flat[:1]).all()) for part in (flat[:64], flat))


def number(module: ModuleType, name: str) -> float | None:
    """A number that the reference declares, such as `atol`; None if it doesn't."""
    value = getattr(module, name, None)
    return float(value) if isinstance(value, (int, float)) else None


def load_baseline(path: Path, extensions: str, own: str) -> ModuleType:
    """Import a baseline's module where it says what the reference's inputs are.

    Args:
        path: of the file.
        extensions: folder for those that it builds.
        own: the reference's, which may build its own when it is first called.
    """
    try:
        return load_module(path, extensions)
    finally:
        if VARIABLE in os.environ:
            os.environ[VARIABLE] = own


def load_module(path: Path, extensions: str | None = None) -> ModuleType:
    """Import a user's file under its own name; it may import what lies beside it.

    Args:
        path: of the file.
        extensions: folder for those that it builds, if it does; None: PyTorch's own.
    """
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))  # behind libraries: no file of theirs is hidden by it
    beside = (one.read_text(encoding="utf-8") for one in path.parent.glob("*.py"))
    if extensions is not None and any(map(names_extensions, beside)):
        build_in(extensions)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise Complaint("it is not a Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
