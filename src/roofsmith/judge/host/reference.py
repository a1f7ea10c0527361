"""A user's reference module in NumPy: draws inputs, and computes what is right."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from roofsmith.domain.kernel import Signature
from roofsmith.domain.python_names import as_arguments
from roofsmith.judge.correctness.array_roles import LARGEST_WHOLE, Roles, find_roles, read_outputs
from roofsmith.judge.correctness.unwritten_outputs import unwritten
from roofsmith.judge.host.arithmetic import HostArithmetic, differ
from roofsmith.judge.host.free_memory import require_room
from roofsmith.judge.user_module import (
    Complaint,
    buffer_elements,
    by_value,
    declared,
    is_fixed,
    listed,
    number,
    other_order,
    require_fixed,
    size_argument,
)

Array = NDArray[np.generic]
Value: TypeAlias = "Array | int | float"

BOOLS = ("bool", "uint8")
"""What a C kernel may call the elements of a mask."""


class Reference:
    """A user's reference module, read against the kernel's signature."""

    def __init__(self, module: ModuleType, signature: Signature, ptr_size: int | None) -> None:
        self._module = module
        self._signature = signature
        self._ptr_size = ptr_size
        if not callable(getattr(module, "reference", None)):
            raise Complaint("it has no function `reference(**inputs)`")
        self._setup: Callable[..., Any] | None = getattr(module, "setup", None)
        self._found: dict[tuple[tuple[str, int], ...], Roles] = {}
        self._held_outputs: frozenset[str] | None = None
        """Of a `setup`: outputs that hold what it gave before the call; None: not known yet."""
        self._scratch: frozenset[str] = frozenset()
        """Of a `setup`: what it lists so. Wherever it is told what are no inputs, it is among the
        outputs; there is no result of it."""
        self._given: dict[str, np.dtype[Any]] = {}
        """Types that `setup` gives where a kernel takes the numbers that they are made of: complex
        ones, and structs of one number type."""
        self._other_order: dict[str, list[int]] = {}
        self._tensors: set[str] = set()
        """Arrays that the module knows as PyTorch's: those that `setup` gives so, or all where one
        that imports torch has no `setup`."""

    def describe(self, dims: dict[str, int]) -> dict[str, Any]:
        values, outputs = self.inputs(dims, seed=0)
        require_room(values)
        scalars = {k: v for k, v in values.items() if not isinstance(v, np.ndarray)}
        require_fixed(scalars, dims, lambda: self.inputs(dims, seed=1)[0])
        held = self._held(dims, values, outputs)
        blank = outputs - set(held)
        parameters = self._signature.parameters
        arrays = [
            {
                "name": name,
                "role": self._role(name, parameter.role, outputs, held),
                "dtype": "bool" if value.dtype == np.bool_ else parameter.dtype,
                "shape": list(value.shape),
            }
            for (name, value), parameter in zip(values.items(), parameters, strict=True)
            if isinstance(value, np.ndarray)
        ]
        return {
            "arrays": arrays,
            "scalars": scalars,
            "flops": declared(self._module, "flops", dims),
            "bytes": declared(self._module, "bytes", dims),
            "atol": number(self._module, "atol"),
            "rtol": number(self._module, "rtol"),
            "other_order": self._other_order,
            "fixed": is_fixed(
                {name: values[name] for name in set(values) - set(scalars) - blank},
                lambda: self.inputs(dims, seed=1)[0],
            ),
            "counted": self._counted(values, outputs),
            "written_bytes": self._roles(dims).written_bytes if self._setup is None else None,
        }

    def _counted(self, values: dict[str, Value], outputs: set[str]) -> dict[str, Any] | None:
        """What a run does, if the module computes with PyTorch; NumPy has nobody who counts."""
        if "torch" not in sys.modules:
            return None
        from roofsmith.judge.gpu.counting import counted

        found = counted(lambda: self.expect(values, outputs, exact=False), {})
        return found.model_dump(mode="json")

    def inputs(self, dims: dict[str, int], seed: int) -> tuple[dict[str, Value], set[str]]:
        """Fresh arguments in `solve`'s order and types, and which of them are outputs."""
        if self._setup is None:
            values = self._plain_inputs(dims, seed)
            roles = self._roles(dims)
            for name in roles.blank:
                given = values[name]
                assert isinstance(given, np.ndarray)  # outputs are arrays
                values[name] = unwritten(given.shape, given.dtype)
            return values, set(roles.outputs)
        made = self._setup(**dims, seed=seed)
        if not isinstance(made, dict) or not isinstance(made.get("inputs"), dict):
            raise Complaint(
                'setup must return {"inputs": {name: array or int}, "outputs": [names]}'
            )
        values = made["inputs"]
        self._other_order = other_order(values)
        outputs = set(listed(made, "outputs") | (held := listed(made, "inouts")))
        self._scratch = listed(made, "scratch") - outputs
        outputs |= self._scratch
        if strange := outputs - set(values):
            raise Complaint(f"setup names outputs that are not among its inputs: {sorted(strange)}")
        parameters = self._signature.parameters
        if len(values) != len(parameters):
            raise Complaint(
                f"setup gives {len(values)} arguments ({', '.join(values)}), but solve takes"
                f" {len(parameters)} ({', '.join(p.name for p in parameters)})"
            )
        for (name, value), parameter in zip(values.items(), parameters, strict=True):
            values[name] = self._fitting(name, value, parameter.role, parameter.dtype)
        if held:
            self._held_outputs = held
        return values, outputs

    def expect(
        self, values: dict[str, Value], outputs: set[str], *, exact: bool
    ) -> dict[str, Array]:
        """What the reference computes, in float64 if `exact`, else in the declared precision."""
        held = self._held_by_setup(values, outputs)
        arguments: dict[str, Value] = {}
        for name, value in values.items():
            if not isinstance(value, np.ndarray):
                arguments[name] = value
            else:
                floating = np.issubdtype(value.dtype, np.floating)
                dtype = np.dtype(np.float64) if exact and floating else value.dtype
                fresh = name in outputs and name not in held
                arguments[name] = (
                    unwritten(value.shape, dtype) if fresh else value.astype(dtype, copy=True)
                )
        self._call(arguments)
        results = outputs - self._scratch
        return {n: a for n, a in arguments.items() if n in results and isinstance(a, np.ndarray)}

    def narrowed(self, values: Mapping[str, Any], outputs: set[str]) -> None:  # noqa: ARG002
        """None: NumPy doesn't show what passes between its operators."""
        return

    def shaken(self, values: Mapping[str, Any], outputs: set[str]) -> None:  # noqa: ARG002
        """None, for the same reason."""
        return

    def _held_by_setup(self, values: Mapping[str, Any], outputs: set[str]) -> Collection[str]:
        """Outputs that have a value before the call: those that `setup` says have one, all if all
        of the arrays are outputs, or those that the reference reads.

        Without `setup`, a draw holds what there is before the call, blank outputs included.
        """
        if self._setup is None:
            return outputs
        if self._held_outputs is not None:
            return self._held_outputs
        if len(outputs) == len(self._signature.arrays):
            return outputs
        try:
            with np.errstate(all="ignore"):
                held = read_outputs(self._run, values, outputs - self._scratch, HostArithmetic())
        except MemoryError:  # whoever asks what a judgement needs is told so
            return ()
        self._held_outputs = held
        return held

    def _held(
        self, dims: dict[str, int], values: Mapping[str, Any], outputs: set[str]
    ) -> Collection[str]:
        """The same of a workload, by whoever says so."""
        if self._setup is None:
            return self._roles(dims).held
        return self._held_by_setup(values, outputs)

    def _roles(self, dims: dict[str, int]) -> Roles:
        """What the reference does with the arrays of a workload that has no `setup`."""
        key = tuple(sorted(dims.items()))
        if key not in self._found:
            drawn, again = (self._plain_inputs(dims, seed) for seed in (0, 1))
            other = {name: _unlike(drawn[name], value) for name, value in again.items()}
            writable = [p.name for p in self._signature.arrays if p.role == "output"]
            self._found[key] = find_roles(self._run, drawn, other, writable, differ)
        return self._found[key]

    def _run(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """A run in the declared precision on copies; what they hold afterwards."""
        arguments = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in values.items()}
        self._call(arguments)
        return arguments

    def _call(self, arguments: Mapping[str, Any]) -> None:
        """Call the reference with views of its arrays as what `setup` gave."""
        seen = {n: _as_given(arguments[n], given) for n, given in self._given.items()}
        whole = {**arguments, **seen}
        if self._tensors:
            import torch

            whole |= {name: torch.from_numpy(whole[name]) for name in self._tensors}
        self._module.reference(**as_arguments(whole))

    def _role(self, name: str, declared: str, outputs: set[str], held: Collection[str]) -> str:
        if name not in outputs:
            return "input"
        if declared == "input":
            raise Complaint(f"setup calls {name!r} an output, but solve takes it as const")
        if name in self._scratch:
            return "scratch"
        return "inout" if name in held else "output"

    def _plain_inputs(self, dims: dict[str, int], seed: int) -> dict[str, Value]:
        """For a reference without `setup`: flat buffers of random numbers, dimensions by name."""
        rng = np.random.default_rng(seed)
        size = buffer_elements(dims, self._ptr_size)
        values: dict[str, Value] = {}
        for p in self._signature.parameters:
            if p.role == "size":
                values[p.name] = size_argument(p.name, p.dtype, dims)
            elif np.issubdtype(np.dtype(p.dtype), np.floating):
                values[p.name] = rng.standard_normal(size).astype(p.dtype)
            else:
                most = 1 if p.dtype == "bool" else LARGEST_WHOLE
                values[p.name] = rng.integers(0, most + 1, size).astype(p.dtype)
        if getattr(getattr(self._module, "torch", None), "__name__", "") == "torch":
            self._tensors |= {p.name for p in self._signature.arrays}
        return values

    def _fitting(self, name: str, value: Any, role: str, dtype: str) -> Value:
        if role == "size":
            return by_value(name, dtype, value)
        if _is_tensor(value):
            self._tensors.add(name)
            value = _array_of(name, value)
        if not isinstance(value, np.ndarray):
            raise Complaint(
                f"setup gives {type(value).__name__} for {name!r}, but solve takes an array"
            )
        is_mask = value.dtype == np.bool_ and dtype in BOOLS
        if _consists_of(value.dtype, np.dtype(dtype)):
            self._given[name] = value.dtype
            return np.ascontiguousarray(value).view(dtype)
        if value.dtype != np.dtype(dtype) and not is_mask:
            raise Complaint(f"setup gives {value.dtype} for {name!r}, but solve takes {dtype}")
        return np.ascontiguousarray(value)


def _is_tensor(value: object) -> bool:
    """Whether it is one of PyTorch's, which nobody imports to find out."""
    return type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "detach")


def _array_of(name: str, tensor: Any) -> Array:
    """What a tensor holds, in the memory of the processors."""
    try:
        found: Array = tensor.detach().cpu().numpy()
    except TypeError as error:
        raise Complaint(
            f"setup gives a tensor of {tensor.dtype} for {name!r}, which NumPy has no type for"
        ) from error
    return found


def _consists_of(given: np.dtype[Any], element: np.dtype[Any]) -> bool:
    """Whether a type is nothing but several numbers of another, side by side."""
    if given.names:
        return all(given[name] == element for name in given.names) and (
            given.itemsize == len(given.names) * element.itemsize
        )
    is_complex = given.kind == "c" and element.kind == "f"
    return is_complex and given.itemsize == 2 * element.itemsize


def _as_given(array: Array, given: np.dtype[Any]) -> Array:
    """A view of numbers, perhaps wider ones, as the type that they are the numbers of."""
    if given.names:
        return array.view(np.dtype([(name, array.dtype) for name in given.names]))
    return array.view(np.result_type(array.dtype, np.complex64))


def _unlike(drawn: Value, other: Value) -> Value:
    """Numbers none of which is what it was in the first draw."""
    if not isinstance(drawn, np.ndarray):
        return drawn
    if drawn.dtype == np.bool_:
        return np.asarray(drawn == 0)
    if np.issubdtype(drawn.dtype, np.floating):
        return np.asarray(other + (other == drawn), dtype=drawn.dtype)
    return np.asarray(LARGEST_WHOLE - drawn, dtype=drawn.dtype)
