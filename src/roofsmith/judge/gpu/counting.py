"""What a reference in PyTorch does while it runs: products, and bytes of its inputs.

A watch sees operators as PyTorch dispatches them, on whatever device the tensors are: what each
costs by the formulas of `torch.utils.flop_counter.FlopCounterMode`, in which type the operands of
a product are stored, and which parts of the inputs are read. PyTorch has formulas for matrix
products, convolutions and attention, and for nothing else; those for the products that it passes
over are added here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

import torch
from torch.utils.flop_counter import FlopCounterMode
from torch.utils.weak import WeakIdKeyDictionary

from roofsmith.domain.bound import OperationCount
from roofsmith.domain.facts import ArithmeticType
from roofsmith.judge.gpu.bytes_read import Touched, reads_of
from roofsmith.judge.gpu.eager_mode import EagerMode
from roofsmith.judge.gpu.tensors import DTYPES

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
    watch = _Watch(inputs)
    try:
        with torch.no_grad(), watch:
            call()
    except Exception as error:  # noqa: BLE001  user code; whether it works is asked elsewhere
        what = str(error).partition("\n")[0][:_REASON_LENGTH]
        return OperationCount(reason=f"its run wasn't counted: {type(error).__name__}: {what}")
    by_operator = watch.flops_by_operator
    return OperationCount(
        flops=sum(by_operator.values()) or None,
        by_operator=by_operator,
        by_dtype=watch.flops_by_type,
        read_bytes=watch.touched.total_bytes or None,
        reason=None if by_operator else "no matrix product, convolution or attention in it",
    )


class _Watch(EagerMode):
    """Sees what every operator costs and reads, and what operands of products were stored as."""

    def __init__(self, inputs: Mapping[str, torch.Tensor]) -> None:
        super().__init__()
        counter = FlopCounterMode(display=False, custom_mapping=_missing_formulas())
        self._formulas = {**counter.flop_registry, **_attention_formulas()}
        self._stored: WeakIdKeyDictionary = WeakIdKeyDictionary()
        self.touched = Touched(inputs)
        self.flops_by_operator: dict[str, float] = {}
        self.flops_by_type: dict[ArithmeticType, float] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run an operator, in its parts if it is made of others, and note what it did."""
        kwargs = kwargs or {}
        formula = self._formulas.get(func._overloadpacket)
        if formula is None and func is not torch.ops.prim.device.default:
            with self:
                out = func.decompose(*args, **kwargs)
            if out is not NotImplemented:
                return out
        read = reads_of(func, args, kwargs)
        self.touched.read(func, read, args)
        out = func(*args, **kwargs)
        self.touched.wrote(func, args, kwargs)
        flops = formula(*args, **kwargs, out_val=out) if formula is not None else 0
        stored = [self._stored_as(tensor) for tensor in read]
        if flops:
            self._add(func, flops)
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

    def _add(self, func: Any, flops: float) -> None:
        operator = str(func._overloadpacket)
        self.flops_by_operator[operator] = self.flops_by_operator.get(operator, 0.0) + flops

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
    """Formulas, in the counter's form, of products that it has none for."""
    formulas: dict[str, Callable[..., int]] = {
        "mv": _matrix_vector,
        "addmv": _matrix_vector,
        "dot": _inner,
        "vdot": _inner,
        "_int_mm": _grouped_products,
        "_grouped_mm": _grouped_products,
        "_scaled_grouped_mm": _grouped_products,
    }
    return _of_operators(formulas)


def _attention_formulas() -> dict[Any, Callable[..., int]]:
    """Formulas of fused attention, which look at masks: of tensors, rather than of shapes."""
    formulas: dict[str, Callable[..., int]] = {
        "_scaled_dot_product_flash_attention": _attention(4),
        "_scaled_dot_product_flash_attention_for_cpu": _attention(4),
        "_scaled_dot_product_efficient_attention": _attention(6, mask_at=3),
        "_scaled_dot_product_cudnn_attention": _attention(6, mask_at=3),
    }
    return _of_operators(formulas)


def _of_operators(formulas: Mapping[str, Callable[..., int]]) -> dict[Any, Callable[..., int]]:
    """By operator, of those that this version of PyTorch has."""
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


def _attention(causal_at: int, mask_at: int | None = None) -> Callable[..., int]:
    """Two products per head, of those pairs that are not masked: places of the two arguments."""

    def formula(
        query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *rest: Any, **more: Any
    ) -> int:
        given = (query, key, value, *rest)
        rows, columns = int(query.shape[2]), int(key.shape[2])
        heads = int(query.shape[0] * query.shape[1])
        pairs = heads * rows * columns
        if more.get("is_causal") or (len(given) > causal_at and given[causal_at]):
            pairs = heads * sum(min(i + 1, columns) for i in range(rows))
        mask = more.get("attn_mask", more.get("attn_bias"))
        if mask is None and mask_at is not None and len(given) > mask_at:
            mask = given[mask_at]
        if mask is not None and not mask.is_meta:
            pairs = min(pairs, _left_by(mask, heads * rows * columns))
        width = int(query.shape[3] + value.shape[3])
        return 2 * pairs * width

    return formula


def _left_by(mask: torch.Tensor, pairs: int) -> int:
    """How many pairs of queries and keys a mask lets through, in all heads.

    PyTorch turns False into minus infinity before it calls a fused kernel; what repeats along an
    axis is looked at once.
    """
    for axis, stride in enumerate(mask.stride()):
        mask = mask.narrow(axis, 0, 1) if stride == 0 and mask.shape[axis] > 1 else mask
    lets = mask if mask.dtype == torch.bool else ~torch.isneginf(mask)
    left, size = int(lets.sum()), int(mask.numel())
    return left * (pairs // size) if size else 0
