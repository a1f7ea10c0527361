"""Which symbols a shared library exports, read from the file: nothing of it is ever loaded."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

_SHT_DYNSYM = 11
_LOCAL, _FUNCTION_TYPES = 0, frozenset({2, 10})
"""STB_LOCAL; STT_FUNC and STT_GNU_IFUNC (System V ABI, chapter 4, "Symbol Table")."""
_HIDDEN = frozenset({1, 2})
"""STV_INTERNAL and STV_HIDDEN."""


@dataclass(frozen=True, slots=True)
class _Layout:
    """Struct formats of one ELF class."""

    header: str
    section: str
    symbol: str


_LAYOUTS = {
    1: _Layout(header="16x2xHIIIIIHHHHHH", section="IIIIIIIIII", symbol="IIIBBH"),
    2: _Layout(header="16x2xHIQQQIHHHHHH", section="IIQQQQIIQQ", symbol="IBBHQQ"),
}


def exported_functions(library: bytes) -> frozenset[str]:
    """Names of the functions that a shared library defines for others.

    Raises:
        ValueError: these bytes are not an ELF file.
    """
    if library[:4] != b"\x7fELF" or len(library) < 52 or library[4] not in _LAYOUTS:
        raise ValueError("not an ELF file")
    try:
        return frozenset(_functions(library))
    except (struct.error, IndexError, OverflowError) as error:
        raise ValueError(f"a damaged ELF file: {error}") from error


def _functions(library: bytes) -> Iterator[str]:
    layout, order = _LAYOUTS[library[4]], "<" if library[5] == 1 else ">"
    header = struct.unpack_from(order + layout.header, library)
    offset, entry_size, count = header[4], header[9], header[10]
    sections = [
        struct.unpack_from(order + layout.section, library, offset + index * entry_size)
        for index in range(count)
    ]
    for section in sections:
        if section[1] != _SHT_DYNSYM:
            continue
        names_at = sections[section[6]][4]
        for at in range(section[4], section[4] + section[5], section[9]):
            fields = struct.unpack_from(order + layout.symbol, library, at)
            name, info, other, home = _symbol(fields, wide=library[4] == 2)
            if info >> 4 != _LOCAL and info & 15 in _FUNCTION_TYPES and home:
                if other & 3 in _HIDDEN:
                    continue
                end = library.index(b"\0", names_at + name)
                yield library[names_at + name : end].decode(errors="replace")


def _symbol(fields: tuple[int, ...], *, wide: bool) -> tuple[int, int, int, int]:
    """Name offset, info, other and section of a symbol; the two classes order them differently."""
    if wide:
        return fields[0], fields[1], fields[2], fields[3]
    return fields[0], fields[3], fields[4], fields[5]
