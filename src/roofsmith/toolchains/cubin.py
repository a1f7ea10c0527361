"""What a compiled CUDA kernel takes of a multiprocessor, read from the cubin itself.

A cubin is a 64-bit ELF file. Its section `.nv.info` lists attributes of every function by the
function's place in the symbol table; `cuobjdump --dump-resource-usage` prints the same numbers,
but isn't installed everywhere.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

_ELF64_LITTLE = b"\x7fELF\x02\x01"
_EM_CUDA = 190
"""Machine number of CUDA in an ELF header (System V ABI, e_machine)."""
_HEADER, _SECTION, _SYMBOL = "<16xHHIQQQIHHHHHH", "<IIQQQQIIQQ", "<IBBHQQ"
_INFO = ".nv.info"
_REGISTERS, _FRAME = 0x2F, 0x11
"""EIATTR_REGCOUNT and EIATTR_FRAME_SIZE, as `cuobjdump -elf` names them."""
_WITH_PAYLOAD = 4
"""EIFMT_SVAL: the attribute's value is as many bytes as its last half-word says."""


@dataclass(frozen=True, slots=True)
class CubinResources:
    """Of one thread of one kernel; None where the file doesn't say."""

    registers: int | None = None
    frame_bytes: int | None = None
    """Local memory: spilled registers, and arrays that didn't fit into registers."""


@dataclass(frozen=True, slots=True)
class _Section:
    name: str
    data: bytes
    entry_bytes: int
    link: int
    """Number of the section that this one refers to."""


def read_cubin(cubin: bytes) -> dict[str, CubinResources]:
    """Resources of every function, by the name that it has in the symbol table.

    Raises:
        ValueError: these bytes are not a cubin, or a damaged one.
    """
    if cubin[:6] != _ELF64_LITTLE:
        raise ValueError("not a 64-bit ELF file")
    try:
        return _functions(cubin)
    except (struct.error, IndexError, OverflowError) as error:
        raise ValueError(f"a damaged cubin: {error}") from error


def _functions(cubin: bytes) -> dict[str, CubinResources]:
    sections = _sections(cubin)
    found: defaultdict[str, dict[int, int]] = defaultdict(dict)
    for section in sections:
        if section.name != _INFO:
            continue
        symbols = sections[section.link]
        names = sections[symbols.link].data
        for attribute, payload in _attributes(section.data):
            if attribute in (_REGISTERS, _FRAME) and len(payload) == 8:
                number, value = struct.unpack("<II", payload)
                place = struct.unpack_from(_SYMBOL, symbols.data, number * symbols.entry_bytes)[0]
                found[_text(names, place)][attribute] = value
    return {
        name: CubinResources(values.get(_REGISTERS), values.get(_FRAME))
        for name, values in found.items()
    }


def _sections(cubin: bytes) -> list[_Section]:
    header = struct.unpack_from(_HEADER, cubin)
    if header[1] != _EM_CUDA:
        raise ValueError("an ELF file, but not of CUDA")
    table, size, count, names_at = header[5], header[10], header[11], header[12]
    rows = [struct.unpack_from(_SECTION, cubin, table + index * size) for index in range(count)]
    names = _slice(cubin, rows[names_at])
    return [_Section(_text(names, row[0]), _slice(cubin, row), row[9], row[6]) for row in rows]


def _slice(cubin: bytes, row: tuple[int, ...]) -> bytes:
    return cubin[row[4] : row[4] + row[5]]


def _text(names: bytes, place: int) -> str:
    return names[place:].split(b"\0", 1)[0].decode(errors="replace")


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(data):
        form, attribute, value = struct.unpack_from("<BBH", data, at)
        at += 4
        size = value if form == _WITH_PAYLOAD else 0
        yield attribute, data[at : at + size]
        at += size
