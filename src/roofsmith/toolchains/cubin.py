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

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from roofsmith.toolchains.elf import opened, spelled

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


def read_cubin(cubin: bytes) -> dict[str, CubinResources]:
    """Resources of every function, by the name that it has in the symbol table.

    Raises:
        ValueError: these bytes are not a cubin, or a damaged one.
    """
    found: defaultdict[str, dict[int, int]] = defaultdict(dict)
    with opened(cubin) as elf:
        if elf["e_machine"] != "EM_CUDA":
            raise ValueError("an ELF file, but not of CUDA")
        for name, attribute, value in _values(elf):
            found[name][attribute] = value
    return {
        name: CubinResources(values.get(_REGISTERS), values.get(_FRAME))
        for name, values in found.items()
    }


def _values(elf: ELFFile) -> Iterator[tuple[str, int, int]]:
    """Function, attribute and value of each that is looked for."""
    for section in elf.iter_sections():
        if section.name != _INFO:
            continue
        symbols = elf.get_section(section["sh_link"])
        assert isinstance(symbols, SymbolTableSection)
        for attribute, payload in _attributes(section.data()):
            if attribute in (_REGISTERS, _FRAME) and len(payload) == 8:
                number, value = struct.unpack("<II", payload)
                yield spelled(symbols.get_symbol(number)), attribute, value


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(data):
        form, attribute, value = struct.unpack_from("<BBH", data, at)
        at += 4
        size = value if form == _WITH_PAYLOAD else 0
        yield attribute, data[at : at + size]
        at += size
