"""The reference's own process on a GPU: owns the memory that kernels work on, draws, verifies.

It holds pristine inputs and expectations in memory that no candidate can map. What candidates map
are arenas: slots of arrays between guard bands, allocated here and handed out by handle.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
import torch

from roofsmith.domain.kernel import Parameter, Signature
from roofsmith.judge.arena import POISON, Arena
from roofsmith.judge.gpu.device_arena import DeviceArena
from roofsmith.judge.gpu.driver import Driver
from roofsmith.judge.gpu.measuring import compare, measure
from roofsmith.judge.gpu.tensors import DTYPES, raw_bytes, set_tf32
from roofsmith.judge.reference_process import Complaint, declared, load_module, number, serve
from roofsmith.ports import ArraySpec

Value: TypeAlias = "torch.Tensor | int | float"

NAMES = {kind: name for name, kind in DTYPES.items()}
COMPARED_BYTES = 2**30
"""Slots that are compared at once: their arrays, and a few times as much in float64."""
REPEATABLE = 1e-9
"""How far two float64 calls of a reference may differ, norm-wise: atomics add in any order."""


class GpuReference:
    """A user's reference module in torch, on the first visible device."""

    def __init__(
        self,
        module: ModuleType,
        baseline: ModuleType | None,
        signature: Signature,
        ptr_size: int | None,
        *,
        tf32: bool,
    ) -> None:
        """Read a reference.

        Args:
            module: holds `reference`.
            baseline: the target's kernel module, whose `setup` serves if the reference has none.
            signature: of `solve`; without parameters for modules, which are called by name.
            ptr_size: elements of every buffer, for references without `setup`.
            tf32: whether it may compute float32 products in TF32, but for the truth.
        """
        self._module = module
        self._signature = signature
        self._ptr_size = ptr_size
        self._tf32 = tf32
        if not callable(getattr(module, "reference", None)):
            raise Complaint("it has no function `reference(**inputs)`")
        self._setup = getattr(module, "setup", None) or getattr(baseline, "setup", None)
        if self._setup is None and not signature.parameters:
            raise Complaint("neither it nor the kernel has a function `setup(**dims, seed)`")

    def describe(self, dims: dict[str, int]) -> dict[str, Any]:
        """Arrays, arguments in order, and declared cost of a workload."""
        values, outputs = self.inputs(dims, seed=0)
        self._fit(values)
        arrays = [
            {
                "name": name,
                "role": self._role(name, outputs),
                "dtype": NAMES[value.dtype],
                "shape": list(value.shape),
            }
            for name, value in values.items()
            if isinstance(value, torch.Tensor)
        ]
        return {
            "arrays": arrays,
            "scalars": {k: v for k, v in values.items() if not isinstance(v, torch.Tensor)},
            "arguments": list(values),
            "flops": declared(self._module, "flops", dims),
            "bytes": declared(self._module, "bytes", dims),
            "atol": number(self._module, "atol"),
            "rtol": number(self._module, "rtol"),
        }

    def inputs(self, dims: dict[str, int], seed: int) -> tuple[dict[str, Value], set[str]]:
        """Fresh arguments on the device, in order, and which of them are outputs."""
        torch.manual_seed(seed)
        with torch.device("cuda"):
            if self._setup is None:
                return self._plain_inputs(dims)
            made = self._setup(**dims, seed=seed)
        if not isinstance(made, dict) or not isinstance(made.get("inputs"), dict):
            raise Complaint(
                'setup must return {"inputs": {name: tensor or int}, "outputs": [names]}'
            )
        values = {name: _on_device(name, value) for name, value in made["inputs"].items()}
        outputs = set(made.get("outputs") or ())
        if strange := outputs - set(values):
            raise Complaint(f"setup names outputs that are not among its inputs: {sorted(strange)}")
        if not outputs:
            raise Complaint('setup names no outputs: {"outputs": [names]}')
        return values, outputs

    def expect(
        self, values: dict[str, Value], outputs: set[str], *, exact: bool
    ) -> dict[str, torch.Tensor]:
        """What the reference computes, in float64 if `exact`, else in the declared precision."""
        set_tf32(self._tf32 and not exact)
        arguments: dict[str, Value] = {}
        for name, value in values.items():
            if not isinstance(value, torch.Tensor):
                arguments[name] = value
                continue
            floating = value.is_floating_point()
            kind = torch.float64 if exact and floating else value.dtype
            if name in outputs and not self.starts_filled:
                arguments[name] = torch.full_like(value, torch.nan if floating else 0, dtype=kind)
            else:
                arguments[name] = value.to(kind, copy=True)
        with torch.device("cuda"), torch.no_grad():
            self._module.reference(**arguments)
        return {n: t for n, t in arguments.items() if n in outputs and isinstance(t, torch.Tensor)}

    @property
    def starts_filled(self) -> bool:
        """Whether outputs have a value before the call: if a kernel without setup has no const."""
        return self._setup is None and all(p.role != "input" for p in self._signature.parameters)

    def _role(self, name: str, outputs: set[str]) -> str:
        if name not in outputs:
            return "input"
        return "inout" if self.starts_filled else "output"

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
            _fit_one(name, value, parameter)

    def _plain_inputs(self, dims: dict[str, int]) -> tuple[dict[str, Value], set[str]]:
        """For a reference without `setup`: flat buffers of random numbers, dimensions by name."""
        largest = sorted(dims.values())[-2:]
        size = self._ptr_size or int(np.prod(largest, dtype=np.int64))
        values: dict[str, Value] = {}
        for p in self._signature.parameters:
            if p.role == "size":
                if p.name not in dims:
                    raise Complaint(
                        f"solve takes the size {p.name!r}, but the workload gives {', '.join(dims)}"
                    )
                values[p.name] = dims[p.name]
            elif DTYPES[p.dtype].is_floating_point:
                values[p.name] = torch.randn(size).to(DTYPES[p.dtype])
            else:
                values[p.name] = torch.randint(0, 100, (size,)).to(DTYPES[p.dtype])
        roles = {p.name: p.role for p in self._signature.parameters}
        return values, {name for name, role in roles.items() if role == "output"}


class GpuServer:
    """Answers the parent's messages about one reference on one device."""

    def __init__(self) -> None:
        self._reference: GpuReference | None = None
        self.path = ""
        self._driver: Driver | None = None
        self._arenas: dict[int, DeviceArena] = {}
        self._drawn: dict[tuple[int, int], tuple[dict[str, Value], set[str]]] = {}
        self._flush: torch.Tensor | None = None

    @property
    def reference(self) -> GpuReference:
        """The loaded reference."""
        if self._reference is None:
            raise Complaint("nothing was loaded")
        return self._reference

    def load(self, message: dict[str, Any]) -> dict[str, Any]:
        """Open the device and import the reference."""
        self.path = message["path"]
        if not torch.cuda.is_available():
            raise Complaint("torch sees no GPU in the reference's process")
        torch.zeros(1, device="cuda")
        self._driver = Driver("hip" if torch.version.hip else "cuda")
        flush_bytes = 3 * torch.cuda.get_device_properties(0).L2_cache_size
        self._flush = torch.empty(flush_bytes, dtype=torch.uint8, device="cuda")
        module = load_module(Path(message["path"]))
        baseline = load_module(Path(message["kernel"])) if message["kernel"] else None
        signature = Signature.model_validate(message["signature"])
        self._reference = GpuReference(
            module, baseline, signature, message["ptr_size"], tf32=message["tf32"]
        )
        return {"memory_bytes": torch.cuda.mem_get_info()[0]}

    def describe(self, message: dict[str, Any]) -> dict[str, Any]:
        """See `GpuReference.describe`."""
        return self.reference.describe(message["dims"])

    def allocate(self, message: dict[str, Any]) -> dict[str, Any]:
        """A new arena; the handle by which workers map it."""
        specs = [
            ArraySpec(a["name"], a["role"], a["dtype"], tuple(a["shape"]))
            for a in message["arrays"]
        ]
        arena = DeviceArena(self._device, specs, message["slots"])
        self._arenas[message["arena"]] = arena
        return {"handle": arena.handle.hex()}

    def free(self, message: dict[str, Any]) -> dict[str, Any]:
        """Forget an arena and what was drawn into it."""
        number = message["arena"]
        for key in [key for key in self._drawn if key[0] == number]:
            del self._drawn[key]
        self._device.wait()
        self._arenas.pop(number).free()
        return {}

    def draw(self, message: dict[str, Any]) -> dict[str, Any]:
        """Fresh inputs for slots; nothing is written to the arena yet."""
        for slot, seed in zip(message["slots"], message["seeds"], strict=True):
            self._drawn[message["arena"], slot] = self.reference.inputs(message["dims"], seed)
        return {}

    def deal(self, message: dict[str, Any]) -> dict[str, Any]:
        """What was drawn for one slot goes to another."""
        arena = message["arena"]
        dealt = [self._drawn[arena, slot] for slot in message["order"]]
        self._drawn.update({(arena, slot): drawn for slot, drawn in enumerate(dealt)})
        return {}

    def fill(self, message: dict[str, Any]) -> dict[str, Any]:
        """Pristine inputs, poisoned outputs and guards into slots, and the caches emptied."""
        arena = self._arenas[message["arena"]]
        for slot in message["slots"]:
            values, _ = self._drawn[message["arena"], slot]
            start = slot * arena.layout.slot_bytes
            arena.bytes[start : start + arena.layout.slot_bytes].fill_(POISON)
            for index, array in enumerate(arena.layout.arrays):
                value = values[array.name]
                if array.role != "output" and isinstance(value, torch.Tensor):
                    if tuple(value.shape) != array.shape:
                        raise Complaint(
                            f"setup gives {array.name!r} another shape for another seed:"
                            f" {tuple(value.shape)}, {array.shape}"
                        )
                    arena.view(slot, index).copy_(value)
        if self._flush is not None:
            self._flush.add_(1)
        torch.cuda.synchronize()
        return {}

    def learn(self, message: dict[str, Any]) -> dict[str, Any]:
        """Errors that the reference itself makes in the declared precision, by output."""
        values, outputs = self._drawn[message["arena"], message["slot"]]
        truth = self.reference.expect(values, outputs, exact=True)
        again = self.reference.expect(values, outputs, exact=True)
        plain = self.reference.expect(values, outputs, exact=False)
        honest = {}
        for name, tensor in truth.items():
            if tensor.is_floating_point() and bool(torch.isnan(tensor).all()):
                raise Complaint(f"reference left all of output {name!r} unwritten, or NaN")
            repeat = measure(again[name][None], tensor[None], None, None)[0, 0].item()
            if repeat > REPEATABLE:
                raise Complaint(f"it is not deterministic: {name!r} differs between two calls")
            honest[name] = measure(plain[name][None], tensor[None], None, None)[0].tolist()
        return {"honest": honest}

    def verify(self, message: dict[str, Any]) -> dict[str, Any]:
        """Compare slots with what they should hold; one report per slot.

        Outputs of many slots are compared at once, since launches cost more than small arrays.
        """
        arena, slots = self._arenas[message["arena"]], message["slots"]
        at_once = max(1, COMPARED_BYTES // arena.layout.slot_bytes)
        reports: list[dict[str, list[float]]] = []
        for start in range(0, len(slots), at_once):
            checks = self._verified(arena, message, slots[start : start + at_once])
            columns = {name: found.double().tolist() for name, found in checks.items()}
            reports += [
                {name: column[i] for name, column in columns.items()}
                for i in range(len(slots[start : start + at_once]))
            ]
        return {"reports": reports}

    def _verified(
        self, arena: DeviceArena, message: dict[str, Any], slots: Sequence[int]
    ) -> dict[str, torch.Tensor]:
        """What was found in some slots, one row per slot."""
        drawn = [self._drawn[message["arena"], slot] for slot in slots]
        expected = [
            self.reference.expect(values, outputs, exact=message["exact"])
            for values, outputs in drawn
        ]
        checks = {}
        for index, array in enumerate(arena.layout.arrays):
            if array.role == "input":
                pristine = torch.stack([raw_bytes(values[array.name]) for values, _ in drawn])
                held = torch.stack([arena.raw(slot, index) for slot in slots])
                checks[f"altered:{array.name}"] = (held != pristine).any(1, keepdim=True)
            else:
                checks[array.name] = compare(
                    [arena.view(slot, index) for slot in slots],
                    [found[array.name] for found in expected],
                    message["tolerances"],
                    whole=message["exact"],
                )
        guards = zip(*(arena.guards(slot) for slot in slots), strict=True)
        for index, bands in enumerate(guards):
            touched = (torch.stack(bands) != POISON).any(1, keepdim=True)
            checks[f"guard:{index}"] = touched
        return checks

    def export(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Inputs of one draw into shared host memory, for profilers."""
        specs = [
            ArraySpec(a["name"], a["role"], a["dtype"], tuple(a["shape"]))
            for a in message["arrays"]
        ]
        host = Arena(specs, 1, fds[0])
        values, _ = self.reference.inputs(message["dims"], message["seed"])
        for spec in specs:
            value = values[spec.name]
            if isinstance(value, torch.Tensor):
                raw = raw_bytes(value).cpu().numpy()
                np.copyto(host.view(0, spec.name).reshape(-1).view(np.uint8), raw)
        host.close()
        return {}

    def answer(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Do what a message asks."""
        if message["op"] == "export":
            return self.export(message, fds)
        operations = {
            "load": self.load, "describe": self.describe, "allocate": self.allocate,
            "free": self.free, "draw": self.draw, "deal": self.deal, "fill": self.fill,
            "learn": self.learn, "verify": self.verify,
        }  # fmt: skip
        return operations[message["op"]](message)

    @property
    def _device(self) -> Driver:
        if self._driver is None:
            raise Complaint("nothing was loaded")
        return self._driver


def _on_device(name: str, value: Any) -> Value:
    if isinstance(value, np.ndarray):
        value = torch.from_numpy(value)
    if isinstance(value, torch.Tensor):
        if value.dtype not in NAMES:
            raise Complaint(f"{name!r} is {value.dtype}, which kernels can't be given here")
        placed: torch.Tensor = value.detach().cuda().contiguous()
        return placed
    if isinstance(value, (bool, int, np.integer)):
        return int(value)
    if isinstance(value, float):
        return value
    raise Complaint(f"setup gives {type(value).__name__} for {name!r}: no tensor and no number")


def _fit_one(name: str, value: Value, parameter: Parameter) -> None:
    if parameter.role == "size":
        if not isinstance(value, int):
            raise Complaint(
                f"setup gives {type(value).__name__} for {name!r}, but solve takes an integer"
            )
        return
    if not isinstance(value, torch.Tensor):
        raise Complaint(f"setup gives a number for {name!r}, but solve takes a pointer")
    if NAMES[value.dtype] != parameter.dtype:
        raise Complaint(
            f"setup gives {NAMES[value.dtype]} for {name!r}, but solve takes {parameter.dtype}"
        )


def main() -> None:
    """Entry of the process."""
    serve(GpuServer())


if __name__ == "__main__":
    main()
