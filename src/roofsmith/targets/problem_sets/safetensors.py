"""Tensors of a set's own: their bytes, as text that travels with a target's sources.

https://github.com/huggingface/safetensors: eight bytes with the header's length, a header in JSON,
and the tensors' bytes. Only where they lie is read here; what they hold, behind a worker's walls.
"""

from __future__ import annotations

import base64
import json
import os
import zlib
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any, Final

TYPES: Final = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64",
    "I32": "int32", "I16": "int16", "I8": "int8", "U8": "uint8", "BOOL": "bool",
}  # fmt: skip
MOST_HEADER, MOST_BYTES = 1 << 20, 1 << 22
"""Of a file's header, and of a tensor. Chosen: more than a target's sources may hold, packed."""
MOST_PACKED = 900_000
"""Characters of all tensors of a problem: a source of a target has a megabyte at most."""
MOST_AXES, MOST_SIZE = 64, 2**63 - 1
"""Of a tensor: what PyTorch can have. Products of more and longer numbers take seconds."""


class Unusable(ValueError):  # noqa: N818
    """Why a tensor can't be taken."""


def own_tensor(places: Sequence[Path], name: str, key: str) -> tuple[str, tuple[int, ...], bytes]:
    """Type, shape and bytes of a tensor.

    Args:
        places: folders that the file's name may be relative to; it leads out of none.
        name: of the file.
        key: of the tensor in it.

    Raises:
        Unusable: it isn't there, isn't what it should be, or is too large.
    """
    path = next(filter(None, (_within(one, name) for one in places)), None)
    if path is None:
        raise Unusable(f"{name} isn't there")
    try:
        return _read(path, key)
    except OSError as error:
        raise Unusable(f"{path} can't be read: {error.strerror}") from error


def _within(folder: Path, name: str) -> Path | None:
    try:
        file = (folder / name).resolve()
        return file if file.is_relative_to(folder.resolve()) and file.is_file() else None
    except (OSError, RuntimeError, ValueError):  # too long, a circle of links, or no text
        return None


def _read(path: Path, key: str) -> tuple[str, tuple[int, ...], bytes]:
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        size = os.fstat(file.fileno()).st_size
        if not 0 < length <= min(MOST_HEADER, size - 8):
            raise Unusable(f"{path} is no safetensors file")
        kind, shape, (begin, end) = _entry(file.read(length), key, path)
        if not 0 <= begin <= end <= size - 8 - length:
            raise Unusable(f"{path}: {key} lies outside the file")
        if end - begin > MOST_BYTES:
            raise Unusable(f"{key} of {path.name} has {(end - begin) / 1e6:.3g} MB")
        file.seek(8 + length + begin)
        return TYPES[kind], shape, file.read(end - begin)


def _entry(header: bytes, key: str, file: Path) -> tuple[str, tuple[int, ...], tuple[int, int]]:
    try:
        match json.loads(header).get(key):
            case {"dtype": str(kind), "shape": [*shape], "data_offsets": [int(begin), int(end)]}:
                is_small = len(shape) <= MOST_AXES and all(
                    type(size) is int and 0 <= size <= MOST_SIZE for size in shape
                )
                if kind in TYPES and is_small and end - begin == prod(shape) * _width(kind):
                    return kind, tuple(shape), (begin, end)
    except (ValueError, AttributeError, RecursionError) as error:
        raise Unusable(f"{file} is no safetensors file") from error
    raise Unusable(f"{file} holds no {key} of a type and size that kernels here get")


def _width(kind: str) -> int:
    return 1 if kind == "BOOL" else int(kind.lstrip("BFIU")) // 8


def packed(data: bytes) -> str:
    """Bytes as text."""
    return base64.b85encode(zlib.compress(data, 9)).decode("ascii")


def tensors_module(texts: dict[str, tuple[str, tuple[int, ...], str]]) -> str:
    """A module whose `tensor(name)` is one of the tensors.

    Args:
        texts: by name the type, the shape and what `packed` made.
    """
    rows = "".join(f"    {name!r}: {one!r},\n" for name, one in texts.items())
    return f'''"""Tensors that the set brings along."""

import base64
import zlib
from math import prod

import torch

TENSORS = {{
{rows}}}


def tensor(name):
    kind, shape, text = TENSORS[name]
    dtype = getattr(torch, kind)
    size = max(prod(shape), 1) * dtype.itemsize
    data = zlib.decompressobj().decompress(base64.b85decode(text), size)
    return torch.frombuffer(bytearray(data), dtype=dtype).reshape(shape)
'''


def packed_tensors(
    wanted: dict[str, tuple[str, tuple[int, ...], bytes]],
) -> dict[str, tuple[str, tuple[int, ...], str]]:
    """Those that fit, the smallest first."""
    found: dict[str, Any] = {}
    left = MOST_PACKED
    for name, (kind, shape, data) in sorted(wanted.items(), key=lambda one: len(one[1][2])):
        text = packed(data)
        if len(text) <= left:
            found[name], left = (kind, shape, text), left - len(text)
    return found
