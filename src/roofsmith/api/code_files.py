"""Files with compiled code that others' commands left, and what can be printed of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from roofsmith.domain.modes import CodeKind
from roofsmith.errors import MachineError, ToolMissingError
from roofsmith.profilers.disassembly import disassemble
from roofsmith.toolchains.disassembly import amd_objdump, hip_objdump, sass

_TEXTS: Final[Mapping[str, CodeKind]] = {
    ".ptx": "ptx", ".sass": "sass", ".amdgcn": "asm", ".isa": "asm", ".s": "asm",
}  # fmt: skip
_MOST_FILES: Final = 100_000
_LARGEST: Final = 256 * 1024**2
"""Bytes of a file that is read. Chosen."""


def code_files(folder: Path) -> tuple[Path, ...]:
    """Programs and libraries below a folder, or else objects, and what compilers keep at run time;
    nothing that lies elsewhere."""
    found = dict[Path, str]()
    for path in sorted(islice(folder.rglob("*"), _MOST_FILES)):
        inside = path.relative_to(folder).parts
        if ".git" in inside or path.is_symlink() or not path.is_file():
            continue
        if path.stat().st_size <= _LARGEST and (what := _what(path)) is not None:
            found[path] = what
    left_out = "object" if "linked" in found.values() else ""
    return tuple(path for path, what in found.items() if what != left_out)


def _what(path: Path) -> str | None:
    """`kept` by a compiler at run time, `linked`, or an `object`; None: it holds no code."""
    if path.suffix in (*_TEXTS, ".cubin", ".hsaco"):
        return "kept"
    with path.open("rb") as file:
        head = file.read(18)  # elf(5): e_type stands at 16; relocatable, executable, shared
    kinds = {1: "object", 2: "linked", 3: "linked"}
    return kinds.get(int.from_bytes(head[16:], "little")) if head[:4] == b"\x7fELF" else None


def code_of(files: Sequence[Path], kind: CodeKind | None) -> tuple[CodeKind, Mapping[Path, str]]:
    """What can be printed of files, by file.

    Args:
        files: with code.
        kind: of it; None: a GPU's where there is any, and what no program here prints is left out.

    Raises:
        ToolMissingError: a program isn't installed that prints that kind.
        MachineError: it fails.
    """
    kinds: tuple[CodeKind, ...] = ("sass", "asm", "ptx") if kind is None else (kind,)
    for chosen in kinds:
        texts = dict[Path, str]()
        for path in files:
            try:
                text = "\n".join(_printed(path, chosen))
            except (ToolMissingError, MachineError):
                if kind is not None:
                    raise
                continue
            texts |= {path: text} if text else {}
        if texts:
            return chosen, texts
    return kinds[-1], {}


def _printed(path: Path, kind: CodeKind) -> Iterator[str]:
    if path.suffix in _TEXTS:
        if _TEXTS[path.suffix] == kind:
            yield path.read_text(encoding="utf-8", errors="replace")
    elif path.suffix == ".hsaco":
        if kind == "asm":
            yield amd_objdump(path)
    elif kind == "sass":
        if path.suffix == ".cubin" or b".nv_fatbin" in path.read_bytes():
            yield sass(path)
    elif kind == "asm" and path.suffix != ".cubin":
        yield disassemble(path) or ""
        if b".hip_fatbin" in path.read_bytes():
            yield from hip_objdump(path)
