"""What a shared library exports and takes from others, and what a cubin's kernels use.

Read from the files; nothing of them is ever loaded. `cuobjdump --dump-resource-usage` prints the
same of a cubin, but isn't installed everywhere.
"""

from __future__ import annotations

import hashlib
import struct
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO

from elftools.common.exceptions import ELFError
from elftools.construct import ConstructError
from elftools.elf.constants import SH_FLAGS
from elftools.elf.dynamic import DynamicSegment
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection, GNUVerSymSection
from elftools.elf.sections import Symbol, SymbolTableSection

_FUNCTIONS = ("STT_FUNC", "STT_LOOS")
"""The latter is STT_GNU_IFUNC as well: the ABI leaves its number to the system."""
_HIDDEN = ("STV_INTERNAL", "STV_HIDDEN")
_OPENED = ("DT_NEEDED", "DT_AUXILIARY", "DT_FILTER", "DT_DEPAUDIT", "DT_AUDIT")
"""Each names a library that the loader opens."""
_LONGEST = 4096
"""Of a file's name, in bytes (PATH_MAX of Linux)."""
_VERSION = 0x7FFF
"""The bits of a version's number; the one above says that it is hidden."""
_BUNDLE = b"__CLANG_OFFLOAD_BUNDLE__"
_COMPRESSED = b"CCOB"
_MOST_ENTRIES = 64  # targets of one bundle
_DAMAGE = (
    ELFError, ConstructError, ArithmeticError, AssertionError, AttributeError, LookupError,
    MemoryError, TypeError, struct.error,
)  # fmt: skip
"""What the reader raises on a file that isn't whole."""


@dataclass(frozen=True, slots=True)
class Import:
    """A symbol that the loader has to find in another library."""

    name: str
    library: str | None
    """Where the linker found it; None: that library has no versions, or nobody has it."""
    is_weak: bool
    """Whether it may stay unfound: the linker says nothing then."""


@dataclass(frozen=True, slots=True)
class Imports:
    """What a shared library takes from others."""

    libraries: tuple[str, ...]
    """Whatever the loader opens for it, as the loader sees it."""
    symbols: tuple[Import, ...]


def exported_functions(library: bytes) -> frozenset[str]:
    """Names of the functions that a shared library defines for others.

    Raises:
        ValueError: these bytes are not an ELF file.
    """
    with opened(library) as elf:
        return frozenset(
            spelled(symbol)
            for table in _symbol_tables(elf)
            for symbol in table.iter_symbols()
            if symbol["st_info"]["bind"] != "STB_LOCAL"
            and symbol["st_info"]["type"] in _FUNCTIONS
            and symbol["st_shndx"] != "SHN_UNDEF"
            and symbol["st_other"]["visibility"] not in _HIDDEN
        )


def loaded(library: bytes) -> str:
    """Hash of what the loader puts into memory, without notes: libraries that differ in flags, or
    in what debuggers read, and run the same instructions have the same.

    Raises:
        ValueError: these bytes are not an ELF file.
    """
    made = hashlib.sha256()
    with opened(library) as elf:
        for section in elf.iter_sections():
            if section["sh_flags"] & SH_FLAGS.SHF_ALLOC and section["sh_type"] != "SHT_NOTE":
                place = section.name, section["sh_addr"], section["sh_size"]
                made.update(repr(place).encode() + section.data())
    return made.hexdigest()


def imports(library: bytes) -> Imports:
    """Libraries and symbols that a shared library needs.

    Libraries are read as the loader reads them, by its table of segments: sections are there for
    linkers alone, and may say anything.

    Raises:
        ValueError: these bytes are not an ELF file, or its sections tell of other symbols than the
            loader's table.
    """
    with opened(library) as elf:
        loaded: list[str] = []
        for segment in elf.iter_segments("PT_DYNAMIC"):
            assert isinstance(segment, DynamicSegment)
            entries = [(tag["d_tag"], tag["d_val"]) for tag in segment.iter_tags()]
            loaded += _opened(elf, entries)
            tables = [table["sh_offset"] for table in _symbol_tables(elf)]
            if tables != [_offset_of(elf, entries, "DT_SYMTAB")]:
                raise ValueError("its sections and its segments tell of different symbols")
        return Imports(tuple(loaded), tuple(_undefined(elf)))


def code_objects(library: bytes) -> dict[str, bytes]:
    """The code for AMD's GPUs that hipcc put into a library, by target (`gfx942`).

    The bundles are clang's (ClangOffloadBundler, "Bundled Code Object Layout"): a magic, a count,
    and of each entry offset, size and target.

    Raises:
        ValueError: these bytes are not an ELF file, or its bundle is compressed or damaged.
    """
    with opened(library) as elf:
        section = elf.get_section_by_name(".hip_fatbin")
        fat = b"" if section is None else section.data()
        found, at = dict[str, bytes](), fat.find(_BUNDLE)
        if at < 0 and fat.startswith(_COMPRESSED):
            raise ValueError("its code is compressed; build it with --no-offload-compress")
        while at >= 0:
            (count,) = struct.unpack_from("<Q", fat, at + len(_BUNDLE))
            entry = at + len(_BUNDLE) + 8
            for _ in range(min(count, _MOST_ENTRIES)):
                offset, size, length = struct.unpack_from("<QQQ", fat, entry)
                target = fat[entry + 24 : entry + 24 + min(length, _LONGEST)].decode(
                    "ascii", "replace"
                )
                entry += 24 + length
                if target.startswith("hip") and size:
                    found[target.rpartition("--")[2]] = fat[at + offset : at + offset + size]
            at = fat.find(_BUNDLE, max(entry, at + 1))
        return found


@contextmanager
def opened(library: bytes) -> Iterator[ELFFile]:
    """A file to look into; what is wrong with it shows as a ValueError, whoever looks."""
    try:
        yield ELFFile(BytesIO(library))
    except _DAMAGE as error:
        raise ValueError(f"not an ELF file, or a damaged one: {error}") from error


def _symbol_tables(elf: ELFFile) -> list[SymbolTableSection]:
    return [
        section
        for section in elf.iter_sections("SHT_DYNSYM")
        if isinstance(section, SymbolTableSection)
    ]


def _opened(elf: ELFFile, entries: list[tuple[str | int, int]]) -> Iterator[str]:
    names_at = _offset_of(elf, entries, "DT_STRTAB")
    for tag, at in entries:
        if tag in _OPENED:
            elf.stream.seek(names_at + at)
            name, ends, _ = elf.stream.read(_LONGEST).partition(b"\0")
            if not ends:
                raise ValueError("a name outside of the file")
            yield name.decode(errors="replace")


def _offset_of(elf: ELFFile, entries: list[tuple[str | int, int]], wanted: str) -> int:
    """Where in the file lies what a tag points at: the loader takes the last one of each."""
    addresses = [value for tag, value in entries if tag == wanted]
    offsets = list(elf.address_offsets(addresses[-1])) if addresses else []
    if not offsets:
        raise ValueError(f"the loader's table has no {wanted} within its segments")
    return offsets[0]


def _undefined(elf: ELFFile) -> Iterator[Import]:
    homes = {
        needed["vna_other"] & _VERSION: version.name
        for section in elf.iter_sections("SHT_GNU_verneed")
        if isinstance(section, GNUVerNeedSection)
        for version, needs in section.iter_versions()
        for needed in needs
    }
    versions = [s for s in elf.iter_sections() if isinstance(s, GNUVerSymSection)]
    for table in _symbol_tables(elf):
        for index, symbol in enumerate(table.iter_symbols()):
            binding = symbol["st_info"]["bind"]
            if binding == "STB_LOCAL" or symbol["st_shndx"] != "SHN_UNDEF":
                continue
            number = versions[0].get_symbol(index)["ndx"] if versions else 0
            home = homes.get(number & _VERSION) if isinstance(number, int) else None
            yield Import(spelled(symbol), home, binding == "STB_WEAK")


def spelled(symbol: Symbol) -> str:
    """A symbol's name, whatever its bytes are."""
    return symbol.name.encode("latin-1").decode(errors="replace")


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
