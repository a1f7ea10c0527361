"""Torch tensors over device memory that somebody else owns, and what they are computed in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

DTYPES = {
    "float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32,
    "float64": torch.float64, "int8": torch.int8, "int16": torch.int16, "int32": torch.int32,
    "int64": torch.int64, "uint8": torch.uint8, "uint16": torch.uint16, "uint32": torch.uint32,
    "uint64": torch.uint64, "bool": torch.bool,
}  # fmt: skip

STACKED_BYTES = 2**20
"""Arrays of up to this size are compared together, since launches cost more; larger ones one by
one, since copies do. Chosen."""


def seed_present_devices_only() -> None:
    """Have `torch.manual_seed` do nothing for kinds of devices that aren't there.

    For each of those, torch formats the whole call stack, in case it is opened later: most of what
    a small draw costs.
    """
    for name in ("xpu", "mtia"):  # older versions know fewer
        absent: Any = getattr(torch, name, None)
        if hasattr(absent, "manual_seed_all") and not absent.is_available():
            absent.manual_seed_all = lambda seed: None  # noqa: ARG005


def open_device() -> None:
    """Have torch open the device now, which its first tensor would do."""
    torch.cuda.init()
    torch.cuda.current_stream()


class _Bytes:
    """Speaks the CUDA array interface, version 3, for a stretch of bytes."""

    def __init__(self, address: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "data": (address, False), "shape": (size,), "typestr": "|u1", "strides": None,
            "version": 3,
        }  # fmt: skip


def bytes_at(address: int, size: int) -> torch.Tensor:
    """A uint8 tensor, shape (size,), over memory that stays somebody else's."""
    return torch.as_tensor(_Bytes(address, size), device="cuda")


def tensor_at(address: int, shape: Sequence[int], dtype: str) -> torch.Tensor:
    """A contiguous tensor over memory that stays somebody else's."""
    kind = DTYPES[dtype]
    count = 1
    for extent in shape:
        count *= extent
    size = count * kind.itemsize
    return bytes_at(address, size).view(kind).view(tuple(shape))


def raw_bytes(value: object) -> torch.Tensor:
    """The bytes of a tensor, flat."""
    assert isinstance(value, torch.Tensor)  # arrays of a layout are tensors in every draw
    return value.contiguous().reshape(-1).view(torch.uint8)


def any_differ(ones: Sequence[torch.Tensor], others: Sequence[torch.Tensor]) -> torch.Tensor:
    """Whether any byte differs, pair by pair; shape (S, 1).

    Args:
        ones: S flat tensors of bytes, all of one length.
        others: likewise.
    """
    if all(map(_has_words, (*ones, *others))):  # bytes by themselves are slow
        ones, others = ([flat.view(_WORD) for flat in flats] for flats in (ones, others))
    if ones[0].nbytes > STACKED_BYTES:
        return torch.stack([(one != other).any() for one, other in zip(ones, others, strict=True)])[
            :, None
        ]
    return (torch.stack(list(ones)) != torch.stack(list(others))).any(1, keepdim=True)


def _has_words(flat: torch.Tensor) -> bool:
    places = (flat.numel(), flat.storage_offset(), flat.data_ptr())
    return not any(place % _WORD.itemsize for place in places)


def differ(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Which elements of two tensors of one type aren't the same; a NaN equals itself.

    Wide unsigned integers can't be compared everywhere, their bits can.
    """
    if not one.is_floating_point():
        bits = _SIGNED[one.dtype.itemsize]
        return one.view(bits) != other.view(bits)
    return (one != other) & ~(one.isnan() & other.isnan())


_WORD = torch.int64
_SIGNED = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def set_tf32(allowed: bool) -> None:
    """TF32 or full float32 in products from here on, whatever a module set when it was imported.

    PyTorch 2.9 has other switches beside the old ones, and refuses to read these where the two
    disagree: all of them are set.
    """
    backends = torch.backends
    if hasattr(backends, "fp32_precision"):
        cudnn = backends.cudnn
        for part in (backends, backends.cuda.matmul, cudnn, cudnn.conv, cudnn.rnn):
            part.fp32_precision = "tf32" if allowed else "ieee"
    torch.set_float32_matmul_precision("high" if allowed else "highest")
    backends.cuda.matmul.allow_tf32 = allowed
    backends.cudnn.allow_tf32 = allowed
