"""What TorchInductor made of a target's reference: its output code, and what its tuners chose."""

from __future__ import annotations

from roofsmith.domain.description import Scalar
from roofsmith.domain.values import Value


class TunedKernel(Value):
    """One Triton kernel of the output code, as it was launched in the end."""

    name: str
    options: dict[str, Scalar]
    """Of its constants: those that were chosen, such as XBLOCK."""
    num_warps: int
    num_stages: int
    prefix: tuple[str, ...] = ()
    """Assignments that the grid needs."""
    grid: tuple[str, str, str]
    """Expressions in the names of its parameters, its constants and `_grid_0` to `_grid_2`."""


class CompiledWorkload(Value):
    """The output code for the shapes of one workload."""

    label: str
    parameters: tuple[str, ...]
    """Names of all arguments, in the order of `setup`."""
    shapes: dict[str, tuple[int, ...]]
    """Of the tensors."""
    scalars: dict[str, Scalar]
    """The other arguments, which the code has as constants."""
    arguments: tuple[str | None, ...]
    """Which tensor the code's own arguments are; None: none that `setup` gave."""
    code: str
    kernels: tuple[TunedKernel, ...]


class CompiledReference(Value):
    """A reference, compiled for every workload of a target."""

    workloads: tuple[CompiledWorkload, ...]
    helpers: str
    """Source of `torch._inductor.runtime.triton_helpers`, which the kernels call."""
    version: str
    """Of PyTorch."""
