"""A reference that is to be read: imported, its arguments drawn, and called as it is."""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import math
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from roofsmith.computation.graph import Graph
from roofsmith.computation.reading.tape import Unreadable
from roofsmith.domain.python_names import as_arguments

_COMPILERS = (
    "triton", "triton.language", "triton.experimental", "triton.experimental.gluon",
    "triton.experimental.gluon.language", "cutlass", "cutlass.cute", "cutlass.cute.runtime",
    "cutlass.utils", "tilelang", "tilelang.language", "flydsl", "flydsl.compiler", "flydsl.expr",
    "helion", "helion.language",
)  # fmt: skip
"""What kernels are written with, and where they lie; none is needed to read a reference."""
FLAT_HIGHEST = 8
"""Of whole numbers in buffers of a reference without `setup`, as the judge draws them."""


@dataclass(frozen=True)
class DrawnArguments:
    values: dict[str, Any]
    outputs: frozenset[str] | None
    """Names of the arrays that hold results; None: whatever the reference writes into."""


class RunReference:
    """A reference, its `setup`, and how it is read."""

    def __init__(self, path: Path, kernel: Path | None, parameters: Sequence[Mapping[str, str]],
                 ptr_size: int | None) -> None:  # fmt: skip
        """Import it.

        Args:
            kernel: a Python kernel, whose `setup` is used where the reference has none.
            parameters: name, dtype and role of a kernel's, for a reference without any `setup`.
            ptr_size: elements of every buffer then.
        """
        self.path = path = path.absolute()
        self._parameters, self._ptr_size = parameters, ptr_size
        self.module = _imported(path)
        self._branched: ModuleType | None = None
        if not callable(getattr(self.module, "reference", None)):
            raise Unreadable(f"{path.name} has no function `reference(**inputs)`")
        self._setup: Callable[..., Any] | None = getattr(self.module, "setup", None)
        if self._setup is None and kernel is not None:
            self._setup = getattr(_with_stand_ins(kernel), "setup", None)
        if self._setup is None and not parameters:
            raise Unreadable(f"neither {path.name} nor the kernel has a `setup`")

    @property
    def is_torch(self) -> bool:
        """Whether the reference computes with PyTorch."""
        torch = sys.modules.get("torch")
        return torch is not None and any(
            value is torch or getattr(value, "__module__", "").startswith("torch")
            for value in vars(self.module).values()
        )

    def draw(self, dims: Mapping[str, int], seed: int = 0, *, whole: bool = True) -> DrawnArguments:
        """Arguments of that workload.

        Args:
            whole: False where operations alone are traced: few numbers of large arrays are drawn.
        """
        if self._setup is None:
            return DrawnArguments(self._plain(dims, seed), None)
        with self._on_host(), self._quick_draws(whole=whole):
            made = self._setup(**dims, seed=seed)
        if not isinstance(made, dict) or not isinstance(made.get("inputs"), dict):
            raise Unreadable('setup must return {"inputs": {name: array or int}, "outputs": [...]}')
        outputs: list[str] = []
        for key in ("outputs", "inouts"):
            named = made.get(key) or ()
            outputs += [named] if isinstance(named, str) else named
        inputs = dict(made["inputs"])
        if self.is_torch:  # to which NumPy's numbers are Python's
            inputs = {k: v.item() if isinstance(v, np.generic) else v for k, v in inputs.items()}
        return DrawnArguments(inputs, frozenset(outputs) - set(made.get("scratch") or ()))

    def read(self, drawn: DrawnArguments, free: frozenset[str]) -> tuple[Graph, tuple[str, ...]]:
        """What the reference does to these arguments, and the line of each node.

        Args:
            free: floats that are found again in what is read.
        """
        if self.is_torch:
            from roofsmith.computation.reading.torch_reader import read_torch

            return read_torch(self.module, self.path, drawn.values, drawn.outputs, free)
        from roofsmith.computation.reading.branches import branched
        from roofsmith.computation.reading.numpy_reader import read_numpy

        if self._branched is None:
            self._branched = branched(self.path)
        return read_numpy(self._branched, self.path, drawn.values, drawn.outputs, free)

    def results(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """What all arrays hold after a call with copies, as NumPy's."""
        copies = {name: copied(value) for name, value in values.items()}
        with np.errstate(all="ignore"), self._on_host():
            self.module.reference(**as_arguments(copies))
        return {name: as_numpy(value) for name, value in copies.items() if is_array(value)}

    def overwrites(self, values: Mapping[str, Any], name: str) -> bool:
        """Whether results don't depend on what an array holds before the call."""
        seen = []
        for number in (0, 1, -3, float("nan")):
            filled = copied(values[name])
            try:
                filled[...] = number
            except (ValueError, RuntimeError, OverflowError):
                continue  # its type has no such number
            seen.append(self.results({**values, name: filled}))
        return all(
            np.array_equal(array, one[key], equal_nan=array.dtype.kind == "f")
            for one in seen[1:] for key, array in seen[0].items()
        )  # fmt: skip

    def _on_host(self) -> AbstractContextManager[Any]:
        """A device that isn't here is the host's memory."""
        if "torch" not in sys.modules:
            return contextlib.nullcontext()
        from roofsmith.computation.reading.torch_devices import HostTensors

        return HostTensors()

    def _quick_draws(self, *, whole: bool) -> AbstractContextManager[Any]:
        if "torch" not in sys.modules:
            return contextlib.nullcontext()
        from roofsmith.computation.reading.torch_devices import quick_draws

        return quick_draws(whole=whole)

    def _plain(self, dims: Mapping[str, int], seed: int) -> dict[str, Any]:
        rng = np.random.default_rng(seed)
        size = self._ptr_size or math.prod(sorted(dims.values())[-2:])
        values: dict[str, Any] = {}
        for parameter in self._parameters:
            name, dtype = parameter["name"], parameter["dtype"]
            if parameter["role"] == "size":
                if name not in dims:
                    raise Unreadable(f"the kernel takes {name!r}, which no workload gives")
                values[name] = dims[name]
            elif np.issubdtype(np.dtype(dtype), np.floating):
                values[name] = rng.standard_normal(size).astype(dtype)
            else:
                high = 2 if dtype == "bool" else FLAT_HIGHEST
                values[name] = rng.integers(0, high, size).astype(dtype)
        if self.is_torch:
            import torch

            values = {k: torch.from_numpy(v) if isinstance(v, np.ndarray) else v
                      for k, v in values.items()}  # fmt: skip
        return values


def is_array(value: Any) -> bool:
    """NumPy's or PyTorch's."""
    return isinstance(value, np.ndarray) or hasattr(value, "detach")


def copied(value: Any) -> Any:
    """An array of the same numbers; anything else is itself."""
    if isinstance(value, np.ndarray):
        return value.copy()
    return value.detach().clone() if hasattr(value, "detach") else value


def as_numpy(value: Any) -> Any:
    """An array's numbers; bfloat16 as float32."""
    if not hasattr(value, "detach"):
        return value
    import torch

    tensor = value.detach().cpu()
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def _imported(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise Unreadable(f"{path.name} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class _StandIn(types.ModuleType):
    """A library that isn't here: any name is there, and does nothing."""

    __path__ = ()  # type: ignore[assignment]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything()


class _Anything:
    """Called as a decorator, it gives the function back."""

    def __call__(self, *args: Any, **_: Any) -> Any:
        return args[0] if len(args) == 1 and inspect.isfunction(args[0]) else self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __getitem__(self, _: Any) -> Any:
        return self


def _with_stand_ins(path: Path) -> ModuleType:
    """A kernel's module, without the compilers that it imports: only its `setup` is wanted."""
    names = _COMPILERS
    added = [name for name in names if _is_missing(name)]
    for name in added:
        sys.modules[name] = _StandIn(name)
    try:
        return _imported(path)
    finally:
        for name in added:
            del sys.modules[name]


def _is_missing(name: str) -> bool:
    try:
        return name not in sys.modules and importlib.util.find_spec(name) is None
    except ModuleNotFoundError:
        return True
