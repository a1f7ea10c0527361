"""A user's reference module in torch: draws inputs, and computes what is right."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensor

from roofsmith.domain.bound import OperationCount
from roofsmith.domain.description import Scalar
from roofsmith.domain.kernel import Parameter, Signature
from roofsmith.domain.python_names import as_arguments
from roofsmith.judge.correctness.array_roles import LARGEST_WHOLE, Roles, find_roles, read_outputs
from roofsmith.judge.gpu.arithmetic import TorchArithmetic
from roofsmith.judge.gpu.counting import counted
from roofsmith.judge.gpu.low_precision import narrowed
from roofsmith.judge.gpu.perturbation import shaken
from roofsmith.judge.gpu.tensors import DTYPES, differ, set_tf32
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

Value: TypeAlias = "torch.Tensor | Scalar"

BOOLS = ("bool", "uint8")
"""What a C kernel may call the elements of a mask."""

NAMES = {kind: name for name, kind in DTYPES.items()}

HALVES = (torch.float16, torch.bfloat16)
"""Types that kernels also store between their steps, where they sum in float32."""


class GpuReference:
    """A user's reference module in torch, by default on the first visible GPU."""

    def __init__(
        self,
        module: ModuleType,
        baseline: ModuleType | None,
        signature: Signature,
        ptr_size: int | None,
        *,
        tf32: bool,
        device: str = "cuda",
    ) -> None:
        """Read a reference.

        Args:
            module: holds `reference`.
            baseline: the target's kernel module, whose `setup` serves if the reference has none.
            signature: of `solve`; without parameters for modules, which are called by name.
            ptr_size: elements of every buffer, for references without `setup`.
            tf32: whether it may compute float32 products in TF32, but for the truth.
            device: that it computes on.
        """
        self._module = module
        self._signature = signature
        self._ptr_size = ptr_size
        self._tf32 = tf32
        self._device = device
        if not callable(getattr(module, "reference", None)):
            raise Complaint("it has no function `reference(**inputs)`")
        self._setup = getattr(module, "setup", None) or getattr(baseline, "setup", None)
        if self._setup is None and not signature.parameters:
            raise Complaint("neither it nor the kernel has a function `setup(**dims, seed)`")
        self._found: dict[tuple[tuple[str, int], ...], Roles] = {}
        self._draws_on_host = False
        """Whether `setup` must not be told to make its tensors on the device."""
        self._held_outputs: frozenset[str] | None = None
        """Of a `setup`: outputs that hold what it gave before the call; None: not known yet."""
        self._scratch: frozenset[str] = frozenset()
        """Of a `setup`: what it lists so. Wherever it is told what are no inputs, it is among the
        outputs; there is no result of it."""
        self._complex: set[str] = set()
        """What `setup` gives as complex numbers where a kernel takes their parts."""
        self._other_order: dict[str, list[int]] = {}

    def describe(self, dims: dict[str, int]) -> dict[str, Any]:
        values, outputs = self.inputs(dims, seed=0)
        scalars = {k: v for k, v in values.items() if not isinstance(v, torch.Tensor)}
        require_fixed(scalars, dims, lambda: self.inputs(dims, seed=1)[0])
        held = self._held(dims, values, outputs)
        arrays = [
            {
                "name": name,
                "role": "scratch" if name in self._scratch else _role(name, outputs, held),
                "dtype": NAMES[value.dtype],
                "shape": list(value.shape),
            }
            for name, value in values.items()
            if isinstance(value, torch.Tensor)
        ]
        return {
            "arrays": arrays,
            "scalars": scalars,
            "arguments": list(values),
            "flops": declared(self._module, "flops", dims),
            "bytes": declared(self._module, "bytes", dims),
            "atol": number(self._module, "atol"),
            "rtol": number(self._module, "rtol"),
            "other_order": self._other_order,
            "fixed": self._is_fixed(
                dims, set(values) - set(scalars) - (outputs - set(held)), values
            ),
            "counted": self._counted(values, outputs, held).model_dump(mode="json"),
            "written_bytes": self._roles(dims).written_bytes if self._setup is None else None,
        }

    def _is_fixed(self, dims: dict[str, int], read: set[str], values: Mapping[str, Value]) -> bool:
        """See `user_module.is_fixed`; tensors without numbers show nothing."""
        arrays = {name: values[name] for name in read}
        if any(isinstance(value, FakeTensor) for value in arrays.values()):
            return False
        return is_fixed(arrays, lambda: self.inputs(dims, seed=1)[0])

    def inputs(self, dims: dict[str, int], seed: int) -> tuple[dict[str, Value], set[str]]:
        """Fresh arguments on the device, in order, and which of them are outputs."""
        if self._setup is None:
            roles, drawn = self._roles(dims), self._plain_inputs(dims, seed)
            blank = {k: _blank(v) for k, v in drawn.items() if k in roles.blank}
            return {**drawn, **blank}, set(roles.outputs)
        made = self._made(self._setup, dims, seed)
        if not isinstance(made, dict) or not isinstance(made.get("inputs"), dict):
            raise Complaint(
                'setup must return {"inputs": {name: tensor or int}, "outputs": [names]}'
            )
        self._other_order = other_order(made["inputs"])
        values = {
            name: _on_device(name, self._parts(name, value), self._device)
            for name, value in made["inputs"].items()
        }
        self._fit(values)
        outputs = set(listed(made, "outputs") | (held := listed(made, "inouts")))
        self._scratch = listed(made, "scratch") - outputs
        outputs |= self._scratch
        if strange := outputs - set(values):
            raise Complaint(f"setup names outputs that are not among its inputs: {sorted(strange)}")
        if not outputs:
            raise Complaint('setup names no outputs: {"outputs": [names]}')
        if held:
            self._held_outputs = held
        return values, outputs

    def _parts(self, name: str, value: Any) -> Any:
        """Complex numbers as a kernel in C sees them: twice as many; anything else as it is."""
        if isinstance(value, np.ndarray):
            value = torch.from_numpy(value)
        if not (self._signature.parameters and torch.is_tensor(value) and value.is_complex()):
            return value
        self._complex.add(name)
        return torch.view_as_real(value.resolve_conj()).flatten(-2)

    def _call(self, arguments: Mapping[str, Value]) -> None:
        """Call the reference with views of its tensors as what `setup` gave."""
        seen = {
            name: torch.view_as_complex(value.unflatten(-1, (-1, 2)))
            for name, value in arguments.items()
            if name in self._complex and isinstance(value, torch.Tensor)
        }
        self._module.reference(**as_arguments({**arguments, **seen}))

    def _made(self, setup: Callable[..., Any], dims: dict[str, int], seed: int) -> Any:
        """What `setup` returns: made on the device, unless it draws from a generator of the host.

        `torch.randn(n, generator=torch.Generator())` can be made beside its generator only.
        """
        if not self._draws_on_host:
            torch.manual_seed(seed)
            try:
                with torch.device(self._device):
                    return setup(**dims, seed=seed)
            except RuntimeError as error:
                if "generator" not in str(error).lower():
                    raise
        torch.manual_seed(seed)
        made = setup(**dims, seed=seed)
        self._draws_on_host = True
        return made

    def expect(
        self, values: dict[str, Value], outputs: set[str], *, exact: bool
    ) -> dict[str, torch.Tensor]:
        """What the reference computes, in float64 if `exact`, else in the declared precision."""
        set_tf32(self._tf32 and not exact)
        arguments = self._arguments(values, outputs, exact=exact)
        with torch.device(self._device), torch.no_grad():
            self._call(arguments)
        return self._results(arguments, outputs)

    def narrowed(
        self, values: dict[str, Value], outputs: set[str]
    ) -> Mapping[str, torch.Tensor] | None:
        """What it computes if all that passes between its operators is of its outputs' half type.

        None: they have none, or several, or it can't be run so.
        """
        tensors = (values[name] for name in outputs)
        kinds = {t.dtype for t in tensors if isinstance(t, torch.Tensor) and t.is_floating_point()}
        if len(kinds) != 1 or not kinds <= set(HALVES):
            return None
        found: dict[str, torch.Tensor] = {}
        try:
            narrowed(lambda: found.update(self.expect(values, outputs, exact=True)), kinds.pop())
        except Exception:  # noqa: BLE001  user code, which may do what no watch sees through
            return None
        return found

    def shaken(
        self, values: dict[str, Value], outputs: set[str]
    ) -> Mapping[str, torch.Tensor] | None:
        """What it computes if every operator's result is moved by an epsilon of float32 or less.

        None: it computes in float64 by declaration, or can't be run so.
        """
        arguments = self._arguments(values, outputs, exact=True)
        kinds = (t.dtype for n, t in values.items() if n in outputs and isinstance(t, torch.Tensor))
        if torch.float64 in kinds:
            return None
        set_tf32(False)
        try:
            with torch.device(self._device):
                shaken(lambda: self._call(arguments))
        except Exception:  # noqa: BLE001  user code, which may do what no watch sees through
            return None
        return self._results(arguments, outputs)

    def _results(
        self, arguments: Mapping[str, Value], outputs: set[str]
    ) -> dict[str, torch.Tensor]:
        names = outputs - self._scratch
        return {n: t for n, t in arguments.items() if n in names and isinstance(t, torch.Tensor)}

    def _counted(
        self, values: dict[str, Value], outputs: set[str], held: Collection[str]
    ) -> OperationCount:
        """What a run in the declared precision does."""
        set_tf32(self._tf32)
        arguments = self._arguments(values, outputs, exact=False)
        given = set(arguments) - outputs | set(held)
        inputs = {n: t for n, t in arguments.items() if n in given and isinstance(t, torch.Tensor)}
        with torch.device(self._device):
            return counted(lambda: self._call(arguments), inputs)

    def _held(
        self, dims: dict[str, int], values: Mapping[str, Value], outputs: set[str]
    ) -> Collection[str]:
        """Outputs that have a value before the call, by whoever says so."""
        if self._setup is None:
            return self._roles(dims).held
        return self._held_by_setup(values, outputs)

    def _held_by_setup(self, values: Mapping[str, Value], outputs: set[str]) -> Collection[str]:
        """Those that it says are, all of them if there are no other tensors, or those that the
        reference reads."""
        if self._held_outputs is not None:
            return self._held_outputs
        tensors = {name for name, v in values.items() if isinstance(v, torch.Tensor)}
        if tensors <= outputs:
            return outputs
        if any(isinstance(values[name], FakeTensor) for name in tensors):
            return ()
        self._held_outputs = read_outputs(
            self._run, values, outputs - self._scratch, TorchArithmetic()
        )
        return self._held_outputs

    def _roles(self, dims: dict[str, int]) -> Roles:
        """What the reference does with the arrays of a workload that has no `setup`.

        Tensors without numbers, which stand for some that don't fit, show nothing: all that may be
        written counts as output then.
        """
        key = tuple(sorted(dims.items()))
        if key in self._found:
            return self._found[key]
        drawn, again = (self._plain_inputs(dims, seed) for seed in (0, 1))
        writable = [p.name for p in self._signature.arrays if p.role == "output"]
        if any(isinstance(value, FakeTensor) for value in drawn.values()):
            return Roles(frozenset(writable), frozenset(), 0)
        other = {name: _unlike(drawn[name], value) for name, value in again.items()}
        self._found[key] = find_roles(self._run, drawn, other, writable, differ)
        return self._found[key]

    def _run(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """A run in the declared precision on copies; what they hold afterwards."""
        set_tf32(self._tf32)
        arguments = {k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in values.items()}
        with torch.device(self._device), torch.no_grad():
            self._call(arguments)
        return arguments

    def _arguments(
        self, values: dict[str, Value], outputs: set[str], *, exact: bool
    ) -> dict[str, Value]:
        """What the reference is called with: copies of inputs, and outputs of NaN.

        Without `setup`, a draw holds what there is before the call, blank outputs included.
        """
        held = outputs if self._setup is None else self._held_by_setup(values, outputs)
        arguments: dict[str, Value] = {}
        for name, value in values.items():
            if not isinstance(value, torch.Tensor):
                arguments[name] = value
                continue
            floating = value.is_floating_point()
            kind = torch.float64 if exact and floating else value.dtype
            if name in outputs and name not in held:
                arguments[name] = _blank(value).to(kind)
            else:
                arguments[name] = value.to(kind, copy=True)
        return arguments

    def _fit(self, values: dict[str, Value]) -> None:
        """The arguments against `solve`'s parameters; modules take them by name."""
        parameters = self._signature.parameters
        if not parameters:
            return
        if len(values) != len(parameters):
            raise Complaint(
                f"setup gives {len(values)} arguments ({', '.join(values)}), but solve takes"
                f" {len(parameters)} ({', '.join(p.name for p in parameters)})"
            )
        for (name, value), parameter in zip(values.items(), parameters, strict=True):
            values[name] = _fitting(name, value, parameter)

    def _plain_inputs(self, dims: dict[str, int], seed: int) -> dict[str, Value]:
        """For a reference without `setup`: flat buffers of random numbers, dimensions by name."""
        torch.manual_seed(seed)
        size = buffer_elements(dims, self._ptr_size)
        values: dict[str, Value] = {}
        for p in self._signature.parameters:
            if p.role == "size":
                values[p.name] = size_argument(p.name, p.dtype, dims)
            elif DTYPES[p.dtype].is_floating_point:
                values[p.name] = torch.randn(size, device=self._device).to(DTYPES[p.dtype])
            else:
                most = 1 if p.dtype == "bool" else LARGEST_WHOLE
                whole = torch.randint(0, most + 1, (size,), device=self._device)
                values[p.name] = whole.to(DTYPES[p.dtype])
        return values


def _on_device(name: str, value: Any, device: str) -> Value:
    if isinstance(value, np.ndarray):
        value = torch.from_numpy(value)
    if isinstance(value, torch.Tensor):
        if value.dtype not in NAMES:
            raise Complaint(
                f"{name!r} is {value.dtype}, which kernels can't be given here. Its bits can:"
                " x.view(torch.uint8), or torch.view_as_real(x), and back where they are used"
            )
        placed: torch.Tensor = value.detach().to(device).contiguous()
        return placed
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise Complaint(
        f"setup gives {type(value).__name__} for {name!r}: no tensor, number, string or None"
    )


def _blank(value: Value) -> torch.Tensor:
    """An output that holds nothing yet."""
    assert isinstance(value, torch.Tensor)  # outputs are arrays
    return torch.full_like(value, torch.nan if value.is_floating_point() else 0)


def _unlike(drawn: Value, other: Value) -> Value:
    """Numbers none of which is what it was in the first draw."""
    if not isinstance(drawn, torch.Tensor):
        return drawn
    if drawn.is_floating_point():
        return other + (other == drawn)
    if drawn.dtype is torch.bool:
        return ~drawn
    return (LARGEST_WHOLE - drawn.to(torch.int64)).to(drawn.dtype)


def _role(name: str, outputs: set[str], held: Collection[str]) -> str:
    if name not in outputs:
        return "input"
    return "inout" if name in held else "output"


def _fitting(name: str, value: Value, parameter: Parameter) -> Value:
    if parameter.role == "size":
        return by_value(name, parameter.dtype, value)
    if not isinstance(value, torch.Tensor):
        raise Complaint(
            f"setup gives {type(value).__name__} for {name!r}, but solve takes a pointer"
        )
    is_mask = value.dtype is torch.bool and parameter.dtype in BOOLS
    if NAMES[value.dtype] != parameter.dtype and not is_mask:
        raise Complaint(
            f"setup gives {NAMES[value.dtype]} for {name!r}, but solve takes {parameter.dtype}"
        )
    return value
