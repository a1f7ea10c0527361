"""What a wrong output on a GPU is: its numbers go to the host, where they are told apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from roofsmith.analysis.tolerance import Errors
from roofsmith.judge.correctness.diagnosis import (
    CLOSER,
    MIXED,
    MIXED_INPUTS,
    PREVIOUS,
    Diagnosis,
    Evidence,
    diagnose,
    mixtures,
    of_these_inputs,
)
from roofsmith.judge.correctness.distributions import Arithmetic, transform
from roofsmith.judge.correctness.shortened_inputs import How, shortened
from roofsmith.judge.gpu.measuring import measure
from roofsmith.judge.gpu.reference import GpuReference, Value

NEAR = 1.01
"""The device adds in another order than the host, so it leaves what is nearly within to the host.
"""
REMEMBERED = 4
"""Earlier draws at one address that a wrong output is compared with, besides the first."""


@dataclass(frozen=True, slots=True)
class Draw:
    """Inputs, and how to draw them again."""

    values: dict[str, Value]
    outputs: set[str]
    dims: dict[str, int]
    seed: int
    distribution: str
    free: dict[str, int]

    @staticmethod
    def new(reference: GpuReference, how: dict[str, Any], on: Arithmetic) -> Draw:
        """Draw inputs.

        Args:
            reference: draws its own.
            how: dims, seed, distribution and the inputs that it may change.
            on: torch.
        """
        values, outputs = reference.inputs(how["dims"], how["seed"])
        made = transform(how["distribution"], values, how["free"], how["seed"], on)
        return Draw(made, outputs, how["dims"], how["seed"], how["distribution"], how["free"])

    @property
    def how(self) -> dict[str, Any]:
        """What `new` needs."""
        return {
            "dims": self.dims, "seed": self.seed, "distribution": self.distribution,
            "free": self.free,
        }  # fmt: skip


class Memory:
    """What lay in the slots of one arena before, by slot: seeds, not numbers."""

    def __init__(self) -> None:
        self._by_slot: dict[int, list[dict[str, Any]]] = {}
        self.first: dict[str, Any] | None = None
        """What the processes' very first call was given."""

    def add(self, slot: int, draw: Draw) -> None:
        """A draw was put into a slot."""
        kept = self._by_slot.setdefault(slot, [])
        if not kept or kept[-1] != draw.how:
            kept.append(draw.how)
        del kept[1 : -REMEMBERED - 1]

    def before(self, slot: int, draw: Draw) -> Iterator[tuple[str, dict[str, Any]]]:
        """Draws that calls had before: the very first, those at the same address, and others."""
        if self.first is not None and self.first != draw.how:
            yield "the first call", self.first
        for how in reversed(self._by_slot.get(slot, [])):
            if how != draw.how:
                yield "an earlier call, at the same address", how
        for other, kept in self._by_slot.items():
            if other != slot and kept[0] != draw.how:
                yield "an earlier call", kept[0]


@dataclass(frozen=True, slots=True)
class Scene:
    """A wrong output of one call, and where it was found."""

    name: str
    dtype: str
    out: torch.Tensor
    """In its declared type."""
    draw: Draw
    slot: int
    previous: Draw | None
    """Of the call before in the same segment."""
    memory: Memory


def told(
    scene: Scene,
    reference: GpuReference,
    on: Arithmetic,
    errors: Errors,
    budget: Sequence[float],
) -> Diagnosis:
    """Name a wrong output."""

    norm, element = budget

    def answer(values: dict[str, Value]) -> torch.Tensor:
        return reference.expect(values, scene.draw.outputs, exact=True)[scene.name]

    def near(values: dict[str, Value], norm: float) -> NDArray[np.generic] | None:
        try:
            other = answer(values)
        except Exception:  # noqa: BLE001  user code refuses inputs that setup never draws
            return None
        return _numbers(other) if _is_near(scene.out, other, norm) else None

    def earlier() -> Iterator[tuple[str, NDArray[np.generic]]]:
        for call, values in _earlier(scene, reference, on):
            if (other := near(values, norm)) is not None:
                yield call, other

    def narrower(bits: int, how: How) -> NDArray[np.generic] | None:
        return near(shortened(scene.draw.values, bits, on, how=how), CLOSER * errors.norm)

    truth = _numbers(answer(scene.draw.values))
    return diagnose(
        Evidence(
            _bits(scene.out), _numbers(scene.out), truth, scene.dtype, errors, norm, element,
            earlier, narrower,
        )
    )  # fmt: skip


def _earlier(
    scene: Scene, reference: GpuReference, on: Arithmetic
) -> Iterator[tuple[str, dict[str, Value]]]:
    """Inputs of calls before, then what is left of them if single inputs are this call's."""
    before = list(scene.memory.before(scene.slot, scene.draw))
    if scene.previous is not None:
        yield PREVIOUS, scene.previous.values
    for call, how in before:
        yield call, Draw.new(reference, how, on).values
    own, outputs = scene.draw.values, scene.draw.outputs
    inputs = [k for k, v in own.items() if k not in outputs and isinstance(v, torch.Tensor)]
    if len(inputs) < 2:
        return
    draws = [(call, Draw.new(reference, how, on).values) for call, how in before[:MIXED]]
    if scene.previous is not None:
        draws.insert(0, (PREVIOUS, scene.previous.values))
    for call, values in draws:
        for names in mixtures(inputs[:MIXED_INPUTS]):
            yield of_these_inputs(names, call), {**own, **{name: values[name] for name in names}}


def _is_near(out: torch.Tensor, other: torch.Tensor, norm: float) -> bool:
    """Whether the host should compare them: for large outputs, that takes it seconds."""
    if out.shape != other.shape:
        return False
    found = measure(out[None], other[None], None, None)[0, 0].item()
    return not found > NEAR * norm


def _numbers(tensor: torch.Tensor) -> NDArray[np.generic]:
    if tensor.dtype is torch.bool:
        tensor = tensor.contiguous().view(torch.uint8)
    plain = tensor.double() if tensor.is_floating_point() else tensor
    return np.asarray(plain.cpu().numpy())


def _bits(tensor: torch.Tensor) -> NDArray[np.generic]:
    size = tensor.element_size()
    flat = tensor.contiguous().reshape(-1).view(torch.uint8).cpu().numpy()
    return np.asarray(flat.view(f"u{size}").reshape(tuple(tensor.shape)))
