"""What a user's PyTorch file computes, as it was seen in a worker process: values, no tensors."""

from __future__ import annotations

import sys
from typing import Literal

from roofsmith.domain.modes import KernelLanguage
from roofsmith.domain.values import Value

OWN_NAMES = frozenset(("reference", "kernel", "test_kernel", "torch", "numpy", "triton", "pytest"))
"""Files of a target that is written, and what they import."""


def module_name(stem: str) -> str:
    """What a user's file is called beside a reference: as it was, if that may be."""
    if stem.isidentifier() and stem not in OWN_NAMES | sys.stdlib_module_names:
        return stem
    plain = "".join(one if one.isalnum() and one.isascii() else "_" for one in stem)
    return f"{plain}_module" if plain[:1].isalpha() else f"module_{plain}"


Axis = int | str
"""A size: a number, or a Python expression in the dims."""


class PyTorchRequest(Value):
    path: str
    """Of the user's file, absolute."""
    shown: str
    """The file as the user named it."""
    name: str | None = None
    """The function or class in it; None: the only one, or `Model`."""
    language: KernelLanguage
    workloads: tuple[dict[str, int], ...] = ()
    """As they were asked for; empty: the sizes that the file itself gives, and others."""
    most_flop: float
    most_bytes: int
    """Of a call: larger sizes are scaled down. Bytes are those of arrays."""
    atol: float | None = None
    """Of the problem set that the file is from: what it allows where a result is zero."""
    free_bytes: int
    """Memory for weights and inputs."""


class KernelArray(Value):
    name: str
    dtype: str
    """PyTorch's name: `float32`."""
    shape: tuple[Axis, ...]


class GivenInput(KernelArray):
    """One that the computation gets: an input, or a weight."""

    path: str = ""
    """Of an input: behind what get_inputs() returns, such as `[0]` and `['mask']`."""
    draw: str = ""
    """A Python expression that draws one for any dims; empty: a weight."""
    weight: str = ""
    """Its dotted name in the module; empty: an input."""
    is_number: bool = False
    """Whether it has no axes: kernels get an array of one element."""
    is_changed: bool = False
    """Whether the computation changes it in place: it is a result, too."""


class Result(KernelArray):
    path: str
    """Behind the returned value: ``, `[0]`, `['logits']`, `.logits`."""


class PyTorchProgram(Value):
    """A function or module, and how it is called."""

    module: str
    """Name of the user's file, as reference.py imports it."""
    name: str
    kind: Literal["function", "module", "class"]
    """A module is an instance, made by importing the file."""
    init_inputs: Literal["", "*", "**"] = ""
    """How what `get_init_inputs` gives is passed on; empty: there is no such function."""
    call: str
    """The call's arguments: Python in the arrays' names, such as `x, [y, z], alpha=0.5`."""
    inputs: tuple[GivenInput, ...]
    weights: tuple[GivenInput, ...]
    results: tuple[Result, ...]
    state: tuple[str, ...] = ()
    """Dotted names of buffers that a call changes, and that no result depends on."""
    held: tuple[str, ...] = ()
    """Dotted names of tensors that modules hold as plain attributes: made buffers."""
    is_narrow: bool = False
    """Whether it casts, or makes constants, so that it needs help to compute in float64."""
    draws_itself: bool = True
    """Whether get_inputs() gives other numbers each time."""
    dims: dict[str, int]
    """Sizes of inputs that may be others, or all where none may, as the file gives them; the rest
    are numbers, as the weights' sizes are."""
    workloads: tuple[dict[str, int], ...]
    own: tuple[tuple[int, dict[str, int]], ...] = ()
    """Workloads that are drawn by the list of `get_workloads`: number in it, and sizes."""
    listed: tuple[tuple[int, ...], ...] = ()
    """Of each workload which numbers of the list of `get_workloads` have its sizes."""
    notes: tuple[str, ...] = ()
