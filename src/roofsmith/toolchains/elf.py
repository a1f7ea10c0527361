"""What a shared library exports, and what it takes from others, read from the file.

Nothing of it is ever loaded.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_SHT_DYNSYM, _SHT_GNU_VERNEED, _SHT_GNU_VERSYM = 11, 0x6FFFFFFE, 0x6FFFFFFF
_LOCAL, _WEAK, _FUNCTION_TYPES = 0, 2, frozenset({2, 10})
"""STB_LOCAL and STB_WEAK; STT_FUNC and STT_GNU_IFUNC (System V ABI, chapter 4, "Symbol Table")."""
_HIDDEN = frozenset({1, 2})
"""STV_INTERNAL and STV_HIDDEN."""
_PT_LOAD, _PT_DYNAMIC = 1, 2
_DT_NULL, _DT_STRTAB, _DT_SYMTAB = 0, 5, 6
_DT_LOADED = frozenset({1, 0x7FFFFFFD, 0x7FFFFFFF, 0x6FFFFEFB, 0x6FFFFEFC})
"""DT_NEEDED, DT_AUXILIARY, DT_FILTER, DT_DEPAUDIT and DT_AUDIT: each names a library that the
loader opens."""
_MOST_ENTRIES = 2**20
"""Of any chain in the file: one that is longer goes in a circle."""


@dataclass(frozen=True, slots=True)
class _Layout:
    """Struct formats of one ELF class."""

    header: str
    section: str
    symbol: str
    segment: str
    entry: str


_LAYOUTS = {
    1: _Layout("16x2xHIIIIIHHHHHH", "IIIIIIIIII", "IIIBBH", "IIIIIIII", "II"),
    2: _Layout("16x2xHIQQQIHHHHHH", "IIQQQQIIQQ", "IBBHQQ", "IIQQQQQQ", "QQ"),
}


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
    with _explained_damage():
        return frozenset(_functions(_Elf(library)))


def imports(library: bytes) -> Imports:
    """Libraries and symbols that a shared library needs.

    Libraries are read as the loader reads them, by its table of segments: sections are there for
    linkers alone, and may say anything.

    Raises:
        ValueError: these bytes are not an ELF file, or its sections tell of other symbols than the
            loader's table.
    """
    with _explained_damage():
        elf = _Elf(library)
        entries = tuple(elf.dynamic())
        names_at = elf.offset_of(_only(entries, _DT_STRTAB)) if entries else 0
        loaded = tuple(elf.text(names_at + at) for tag, at in entries if tag in _DT_LOADED)
        tables = [section for section in elf.sections if section[1] == _SHT_DYNSYM]
        if entries and [table[3] for table in tables] != [_only(entries, _DT_SYMTAB)]:
            raise ValueError("its sections and its segments tell of different symbols")
        return Imports(loaded, tuple(_undefined(elf)))


@contextmanager
def _explained_damage() -> Iterator[None]:
    try:
        yield
    except (struct.error, IndexError, OverflowError) as error:
        raise ValueError(f"a damaged ELF file: {error}") from error


class _Elf:
    """The tables of a file."""

    def __init__(self, library: bytes) -> None:
        if library[:4] != b"\x7fELF" or len(library) < 52 or library[4] not in _LAYOUTS:
            raise ValueError("not an ELF file")
        self.library = library
        self.is_wide = library[4] == 2
        self._layout, self._order = _LAYOUTS[library[4]], "<" if library[5] == 1 else ">"
        self._header = self.unpack(self._layout.header, 0)
        offset, size, count = self._header[4], self._header[9], self._header[10]
        self.sections = [
            self.unpack(self._layout.section, offset + index * size) for index in range(count)
        ]

    def unpack(self, layout: str, at: int) -> tuple[int, ...]:
        """Numbers at an offset, in the file's byte order."""
        return struct.unpack_from(self._order + layout, self.library, at)

    def text(self, at: int) -> str:
        """The name at an offset."""
        if not 0 <= at < len(self.library):
            raise IndexError("a name outside of the file")
        return self.library[at : self.library.index(b"\0", at)].decode(errors="replace")

    def symbols(self, table: tuple[int, ...]) -> Iterator[_Symbol]:
        """Of a section, in order."""
        names_at = self.sections[table[6]][4]
        for at in range(table[4], table[4] + table[5], table[9] or len(self.library)):
            fields = self.unpack(self._layout.symbol, at)
            if self.is_wide:
                name, info, other, home = fields[:4]
            else:
                name, info, other, home = fields[0], *fields[3:6]
            yield _Symbol(names_at + name, info >> 4, info & 15, other & 3, home)

    def dynamic(self) -> Iterator[tuple[int, int]]:
        """Tags and values of the loader's table; none in a file that needs no loader."""
        for segment in self._segments():
            if segment[0] != _PT_DYNAMIC:
                continue
            begin = segment[2] if self.is_wide else segment[1]
            step = struct.calcsize(self._order + self._layout.entry)
            for index in range(_MOST_ENTRIES):
                tag, value = self.unpack(self._layout.entry, begin + index * step)
                if tag == _DT_NULL:
                    break
                yield tag, value

    def offset_of(self, address: int) -> int:
        """Where in the file lies what will be at an address."""
        for segment in self._segments():
            offset, at, size = (
                (segment[2], segment[3], segment[5])
                if self.is_wide
                else (segment[1], segment[2], segment[4])
            )
            if segment[0] == _PT_LOAD and at <= address < at + size:
                return offset + address - at
        raise ValueError("an address outside of its segments")

    def _segments(self) -> Iterator[tuple[int, ...]]:
        offset, size, count = self._header[3], self._header[7], self._header[8]
        for index in range(count):
            yield self.unpack(self._layout.segment, offset + index * size)


@dataclass(frozen=True, slots=True)
class _Symbol:
    """One entry of a symbol table."""

    name_at: int
    binding: int
    kind: int
    visibility: int
    home: int
    """Its section; 0: it isn't defined here."""


def _only(entries: tuple[tuple[int, int], ...], wanted: int) -> int:
    """The value that the loader takes: the last one of a tag."""
    values = [value for tag, value in entries if tag == wanted]
    if not values:
        raise ValueError("the loader's table lacks symbols or their names")
    return values[-1]


def _functions(elf: _Elf) -> Iterator[str]:
    for table in elf.sections:
        if table[1] != _SHT_DYNSYM:
            continue
        for symbol in elf.symbols(table):
            is_function = symbol.binding != _LOCAL and symbol.kind in _FUNCTION_TYPES
            if is_function and symbol.home and symbol.visibility not in _HIDDEN:
                yield elf.text(symbol.name_at)


def _undefined(elf: _Elf) -> Iterator[Import]:
    homes = dict(_version_homes(elf))
    versions = next((s[4] for s in elf.sections if s[1] == _SHT_GNU_VERSYM), None)
    for table in elf.sections:
        if table[1] != _SHT_DYNSYM:
            continue
        for index, symbol in enumerate(elf.symbols(table)):
            if symbol.binding == _LOCAL or symbol.home:
                continue
            version = 0 if versions is None else elf.unpack("H", versions + 2 * index)[0] & 0x7FFF
            yield Import(elf.text(symbol.name_at), homes.get(version), symbol.binding == _WEAK)


def _version_homes(elf: _Elf) -> Iterator[tuple[int, str]]:
    """Version numbers and the libraries that they are of (LSB, "Symbol Versioning")."""
    for table in elf.sections:
        if table[1] != _SHT_GNU_VERNEED:
            continue
        names_at, at = elf.sections[table[6]][4], table[4]
        for _ in range(table[7]):
            _, count, file, first, following = elf.unpack("HHIII", at)
            inner = at + first
            for _ in range(count):
                _, _, number, _, step = elf.unpack("IHHII", inner)
                yield number & 0x7FFF, elf.text(names_at + file)
                inner += step
            at += following
