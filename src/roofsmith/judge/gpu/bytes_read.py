"""Which bytes of its inputs a reference reads: rows that are gathered, experts that are chosen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

_aten = torch.ops.aten

OVERWRITING = frozenset(
    (_aten.copy_.default, _aten.zero_.default, _aten.fill_.Scalar, _aten.fill_.Tensor)
)
"""Operators on a tensor that don't look at what was in it."""

Place = tuple[int, tuple[int, ...], tuple[int, ...]]
"""Offset, sizes and strides of a view, in elements of its type."""


@dataclass
class _Array:
    """One input and what was read of it."""

    size_bytes: int
    whole: bool = False
    overwritten: bool = False
    intervals: set[tuple[int, int]] = field(default_factory=set)
    """Bytes [begin, end) of the array's storage."""
    scattered: dict[Place, int] = field(default_factory=dict)
    """Bytes of views that aren't in one piece."""
    gathered_bytes: int = 0
    """Of rows that were picked by index, each once per picking."""

    @property
    def touched_bytes(self) -> int:
        """Each byte once, as far as that can be told; never more than the array has."""
        if self.whole:
            return self.size_bytes
        pieces = _union(self.intervals) + sum(self.scattered.values()) + self.gathered_bytes
        return min(pieces, self.size_bytes)


class Touched:
    """The inputs of one run, by the memory that they and all their views lie in."""

    def __init__(self, inputs: Mapping[str, torch.Tensor]) -> None:
        self._arrays = {
            _memory(tensor): _Array(tensor.numel() * tensor.element_size())
            for tensor in inputs.values()
        }

    @property
    def total_bytes(self) -> float:
        """Bytes that were read of all inputs, each once."""
        return float(sum(array.touched_bytes for array in self._arrays.values()))

    def read(self, func: Any, read: list[torch.Tensor], args: tuple[Any, ...]) -> None:
        """Note what an operator is about to read; views read nothing."""
        if _is_view(func):
            return
        for tensor in read:
            array = self._arrays.get(_memory(tensor))
            if array is None or array.whole or array.overwritten:
                continue
            rows = _gathered_rows(func, args) if tensor is _first(args) else None
            if rows is None:
                _note(array, tensor)
            else:
                dimension, count = rows
                row = _distinct(tensor) // max(tensor.shape[dimension], 1)
                array.gathered_bytes += count * row * tensor.element_size()

    def wrote(self, func: Any, args: tuple[Any, ...], kwargs: Any) -> None:
        """From here on, what an input held is gone."""
        for tensor in _written(func, args, kwargs):
            if array := self._arrays.get(_memory(tensor)):
                array.overwritten = True


def reads_of(func: Any, args: tuple[Any, ...], kwargs: Any) -> list[torch.Tensor]:
    """The tensors whose values an operator uses, in the order of its arguments."""
    found: list[torch.Tensor] = []
    for argument, value in _named(func, args, kwargs):
        written = argument.alias_info is not None and argument.alias_info.is_write
        if written and (argument.kwarg_only or func in OVERWRITING):
            continue
        parts = value if isinstance(value, tuple | list) else (value,)
        found += [part for part in parts if isinstance(part, torch.Tensor)]
    return found


def _written(func: Any, args: tuple[Any, ...], kwargs: Any) -> list[torch.Tensor]:
    return [
        value
        for argument, value in _named(func, args, kwargs)
        if argument.alias_info is not None
        and argument.alias_info.is_write
        and isinstance(value, torch.Tensor)
    ]


def _named(func: Any, args: tuple[Any, ...], kwargs: Any) -> list[tuple[Any, Any]]:
    """An operator's arguments as its schema declares them, with the values given."""
    declared = func._schema.arguments
    pairs = list(zip(declared, args, strict=False))
    return pairs + [(a, kwargs[a.name]) for a in declared[len(args) :] if a.name in kwargs]


def _is_view(func: Any) -> bool:
    """Whether what it returns is its argument's memory, seen another way."""
    returns = func._schema.returns
    alias = returns[0].alias_info if returns else None
    return alias is not None and not alias.is_write


def _gathered_rows(func: Any, args: tuple[Any, ...]) -> tuple[int, int] | None:
    """The dimension that an operator picks from and how many different places; else None."""
    if func is _aten.embedding.default:
        return 0, _different(args[1])
    if func is _aten.index_select.default and len(args) == 3:
        return int(args[1]) % args[0].dim(), _different(args[2])
    if func is _aten.index.Tensor:
        given = [(d, index) for d, index in enumerate(args[1]) if index is not None]
        if len(given) == 1 and given[0][1].dtype is not torch.bool:
            return given[0][0], _different(given[0][1])
    return None


def _different(index: torch.Tensor) -> int:
    """How many different values; of tensors without values, the most that there can be."""
    if index.is_meta or type(index) is not torch.Tensor:
        return int(index.numel())
    return int(torch.unique(index).numel())


def _note(array: _Array, tensor: torch.Tensor) -> None:
    width = tensor.element_size()
    distinct = _distinct(tensor)
    extent = 1 + sum(
        (size - 1) * stride
        for size, stride in zip(tensor.shape, tensor.stride(), strict=True)
        if size
    )
    if distinct == 0:
        return
    if distinct * width >= array.size_bytes:
        array.whole = True
    elif distinct == extent:
        begin = tensor.storage_offset() * width
        array.intervals.add((begin, begin + extent * width))
    else:
        array.scattered[_place(tensor)] = distinct * width


def _distinct(tensor: torch.Tensor) -> int:
    """Elements in memory: an expanded dimension has them once."""
    count = 1
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        count *= size if stride or not size else 1
    return count


def _place(tensor: torch.Tensor) -> Place:
    return int(tensor.storage_offset()), tuple(tensor.shape), tuple(tensor.stride())


def _memory(tensor: torch.Tensor) -> int:
    """Names the memory that a tensor and its views share, also where there is none behind it."""
    return int(tensor.untyped_storage()._cdata)


def _first(args: tuple[Any, ...]) -> Any:
    return args[0] if args else None


def _union(intervals: set[tuple[int, int]]) -> int:
    total, reached = 0, 0
    for begin, end in sorted(intervals):
        total += max(end - max(begin, reached), 0)
        reached = max(reached, end)
    return total
