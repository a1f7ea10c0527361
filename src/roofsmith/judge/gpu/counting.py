"""What a reference in PyTorch does while it runs: products, and bytes of its inputs.

`torch.utils.flop_counter.FlopCounterMode` counts matrix products, convolutions and attention, and
nothing else; formulas for the products that it passes over are added here. Beside it, a watch sees
in which type the operands of each product are stored, and which parts of the inputs are read. Both
see operators as PyTorch dispatches them, on whatever device the tensors are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode
from torch.utils.weak import WeakIdKeyDictionary

from roofsmith.domain.bound import OperationCount
from roofsmith.domain.facts import ArithmeticType
from roofsmith.judge.gpu.tensors import DTYPES
from roofsmith.judge.gpu.touched import Touched, reads_of

Shape = Sequence[int]

_REASON_LENGTH = 200

TYPES: Final[Mapping[torch.dtype, ArithmeticType]] = {
    **{kind: cast(ArithmeticType, name) for name, kind in DTYPES.items()},
    torch.bool: "uint8",
    torch.float8_e4m3fn: "float8",
    torch.float8_e4m3fnuz: "float8",
    torch.float8_e5m2: "float8",
    torch.float8_e5m2fnuz: "float8",
}
"""What operations on a type are called in the domain."""


def counted(call: Callable[[], Any], inputs: Mapping[str, torch.Tensor]) -> OperationCount:
    """Run a reference once and say what it did; UNKNOWN, with the reason, if that can't be seen.

    Args:
        call: runs it.
        inputs: tensors whose bytes it may read, by name; empty if nobody knows them.
    """
    counter = FlopCounterMode(display=False, custom_mapping=_missing_formulas())
    watch = _Watch(counter, inputs)
    try:
        with torch.no_grad(), counter, watch:
            call()
    except Exception as error:  # noqa: BLE001  user code; whether it works is asked elsewhere
        what = str(error).partition("\n")[0][:_REASON_LENGTH]
        return OperationCount(reason=f"its run wasn't counted: {type(error).__name__}: {what}")
    by_operator = {
        str(operator): float(flops)
        for operator, flops in counter.get_flop_counts().get("Global", {}).items()
        if flops
    }
    return OperationCount(
        flops=sum(by_operator.values()) or None,
        by_operator=by_operator,
        by_dtype=watch.flops_by_type,
        read_bytes=watch.touched.total_bytes or None,
        reason=None if by_operator else "no matrix product, convolution or attention in it",
    )


class _Watch(TorchDispatchMode):  # type: ignore[misc]
    """Sees what every operator reads, and what the operands of products were stored as."""

    def __init__(self, counter: FlopCounterMode, inputs: Mapping[str, torch.Tensor]) -> None:
        super().__init__()
        self._counter = counter
        self._stored: WeakIdKeyDictionary = WeakIdKeyDictionary()
        self.touched = Touched(inputs)
        self.flops_by_type: dict[ArithmeticType, float] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run an operator under the counter, and note what it did."""
        kwargs = kwargs or {}
        before = self._counter.get_total_flops()
        read = reads_of(func, args, kwargs)
        self.touched.read(func, read, args)
        out = func(*args, **kwargs)
        self.touched.wrote(func, args, kwargs)
        flops = self._counter.get_total_flops() - before
        stored = [self._stored_as(tensor) for tensor in read]
        if flops:
            kind = _widest(stored[-2:] if len(stored) == 3 and _adds(func) else stored[:2])
            if name := TYPES.get(kind):
                self.flops_by_type[name] = self.flops_by_type.get(name, 0.0) + flops
        elif not read or func is torch.ops.aten.view.dtype:
            kind = None
        else:
            most = max(tensor.numel() for tensor in read)
            kind = _widest(
                [s for s, tensor in zip(stored, read, strict=True) if tensor.numel() == most]
            )
        for tensor in _tensors(out):
            self._stored[tensor] = tensor.dtype if kind is None else _narrower(kind, tensor.dtype)
        return out

    def _stored_as(self, tensor: torch.Tensor) -> torch.dtype:
        """The narrowest type that a tensor's values had since they were stored."""
        found: torch.dtype = self._stored.get(tensor, tensor.dtype)
        return found


def _adds(func: Any) -> bool:
    """Whether a product's first argument is what it is added to: addmm, addmv, baddbmm."""
    return "add" in func._schema.name.rpartition("::")[2]


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, tuple | list):
        return [tensor for part in value for tensor in _tensors(part)]
    return []


def _widest(kinds: Sequence[torch.dtype]) -> torch.dtype:
    """What both operands of a product have to become: any float before any integer."""
    return max(kinds, key=lambda kind: (kind.is_floating_point, kind.itemsize))


def _narrower(stored: torch.dtype, now: torch.dtype) -> torch.dtype:
    """A cast up adds nothing that was stored; a cast down loses it."""
    return now if now.itemsize < stored.itemsize else stored


def _missing_formulas() -> dict[Any, Callable[..., int]]:
    """Formulas, in the counter's form, of products that it has none for; causal attention too."""
    formulas: dict[str, Callable[..., int]] = {
        "mv": _matrix_vector,
        "addmv": _matrix_vector,
        "dot": _inner,
        "vdot": _inner,
        "_int_mm": _grouped_products,
        "_grouped_mm": _grouped_products,
        "_scaled_grouped_mm": _grouped_products,
        "_scaled_dot_product_flash_attention": _attention(4),
        "_scaled_dot_product_flash_attention_for_cpu": _attention(4),
        "_scaled_dot_product_efficient_attention": _attention(6),
        "_scaled_dot_product_cudnn_attention": _attention(6),
    }
    return {
        getattr(torch.ops.aten, name): formula
        for name, formula in formulas.items()
        if hasattr(torch.ops.aten, name)
    }


def _matrix_vector(*shapes: Any, **_: Any) -> int:
    matrix: Shape = next(shape for shape in shapes if len(shape) == 2)
    return 2 * matrix[0] * matrix[1]


def _inner(x: Shape, *_: Any, **__: Any) -> int:
    return 2 * x[0]


def _grouped_products(a: Shape, b: Shape, *_: Any, **__: Any) -> int:
    """2·M·K·N: groups divide one of M, N, K among them, or each has matrices of its own."""
    groups = a[0] if len(a) == len(b) == 3 else 1
    return 2 * groups * a[-2] * a[-1] * b[-1]


def _attention(causal_at: int) -> Callable[..., int]:
    """Two products per head, of those pairs that are not masked; `causal_at`: argument's place."""

    def formula(
        query: Shape, key: Shape, value: Shape, *rest: Any, is_causal: bool = False, **_: Any
    ) -> int:
        place = causal_at - 3
        causal = is_causal or bool(len(rest) > place and rest[place])
        rows, columns = query[2], key[2]
        pairs = sum(min(i + 1, columns) for i in range(rows)) if causal else rows * columns
        return 2 * query[0] * query[1] * pairs * (query[3] + value[3])

    return formula
