"""What ptxas prints: the resources of every kernel, and errors in generated code.

ptxas info    : Compiling entry function '_Z5scalePKfPfi' for 'sm_90a'
ptxas info    : Function properties for _Z5scalePKfPfi
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, used 1 barriers, 512 bytes smem
ptxas x.ptx, line 29; error   : Not a name of any known instruction: 'bogus'
ptxas error   : Entry function '_Z1kPf' uses too much shared data (0x445c0 bytes, 0x38c00 max)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from roofsmith.domain.kernel import KernelResources
from roofsmith.toolchains.diagnostics import LESS_SHARED, TOO_MUCH_SHARED

Demangle = Callable[[Iterable[str]], Mapping[str, str]]

_ENTRY = re.compile(
    r"^ptxas info\s*: Compiling entry function '(?P<name>[^']+)' for '(?P<arch>\w+)'"
)
_PROPERTIES = re.compile(r"^ptxas info\s*: Function properties for (?P<name>\S+)")
_FRAME = re.compile(
    r"^\s+(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, "
    r"(?P<loads>\d+) bytes spill loads"
)
_USED = re.compile(r"^ptxas info\s*: Used (?P<registers>\d+) registers")
_SHARED = re.compile(r"(\d+)(?:\+(\d+))? bytes smem")

_AT_LINE = re.compile(
    r"^ptxas (?P<file>[^\n,]+), line (?P<line>\d+); (?P<kind>error|warning)\s*: (?P<text>.*)$"
)
_TOO_MUCH_SHARED = re.compile(
    r"^ptxas error\s*: Entry function '(?P<name>[^']+)' uses too much shared data "
    r"\((?P<used>0x[0-9a-f]+) bytes.*?(?P<limit>0x[0-9a-f]+) max\)"
)
_OLD_STATIC_LIMIT = 48 * 1024
"""What ptxas lets kernels declare, where the architecture has more (CUDA C++ Programming Guide,
"Shared Memory")."""
_UNRESOLVED = re.compile(
    r"^(?:ptxas fatal\s*: Unresolved extern (?:function|variable)|"
    r"nvlink error\s*: Undefined reference to) '(?P<name>[^']+)'.*$"
)
_PLAIN = re.compile(
    r"^(?P<tool>ptxas|nvlink|nvcc|fatbinary|cudafe\+\+)\s+(?P<kind>error|fatal|warning)\s*: "
    r"(?P<text>.*)$"
)
_ABORTED = "Ptx assembly aborted due to errors"
_LOC = re.compile(r"^\s*\.loc\s+(?P<file>\d+)\s+(?P<line>\d+)\s")
_FILE = re.compile(r'^\s*\.file\s+(?P<file>\d+)\s+"(?P<path>[^"]+)"')


@dataclass
class _Entry:
    """One kernel, as far as it was read."""

    name: str
    arch: str
    frame: re.Match[str] | None = None
    used: str | None = None


def read_resources(output: str, demangle: Demangle) -> tuple[KernelResources, ...]:
    """The resources of every kernel that `-Xptxas -v` lists, in its order.

    What isn't printed of a kernel is None; shared memory that isn't mentioned is 0.
    """
    entries = _entries(output.splitlines())
    names = demangle(entry.name for entry in entries)
    return tuple(_resources(entry, names[entry.name]) for entry in entries)


def _entries(lines: Iterable[str]) -> list[_Entry]:
    entries: dict[tuple[str, str], _Entry] = {}
    current: _Entry | None = None
    described = ""
    for line in lines:
        if match := _ENTRY.match(line):
            current = _Entry(match["name"], match["arch"])
            entries[current.name, current.arch] = current
            described = current.name
        elif match := _PROPERTIES.match(line):
            described = match["name"]  # a function that wasn't inlined has properties, too
        elif current is None or described != current.name:
            continue
        elif match := _FRAME.match(line):
            current.frame = match
        elif _USED.match(line):
            current.used = line
    return list(entries.values())


def _resources(entry: _Entry, name: str) -> KernelResources:
    used = _USED.match(entry.used) if entry.used else None
    shared = _SHARED.search(entry.used) if entry.used else None
    frame = entry.frame
    return KernelResources(
        name=name,
        arch=entry.arch,
        registers=int(used["registers"]) if used else None,
        shared_bytes=_total(shared) if entry.used else None,
        stack_bytes=int(frame["stack"]) if frame else None,
        spill_store_bytes=int(frame["stores"]) if frame else None,
        spill_load_bytes=int(frame["loads"]) if frame else None,
    )


def _total(shared: re.Match[str] | None) -> int:
    """`512+16 bytes smem`: of the kernel, and of the system."""
    return sum(int(part) for part in shared.groups() if part) if shared else 0


def explain(output: str, temporary: Path, demangle: Demangle) -> str:
    """The output with each message of the CUDA tools in the form `place: error: text`.

    Args:
        output: of nvcc.
        temporary: where it left its intermediate files; tells which line of the kernel a line of
            generated PTX comes from.
        demangle: names for people.
    """
    return "\n".join(
        _explained(line, temporary, demangle)
        for line in output.splitlines()
        if _ABORTED not in line
    )


def _explained(line: str, temporary: Path, demangle: Demangle) -> str:
    if match := _AT_LINE.match(line):
        place = _source_line(temporary / Path(match["file"]).name, int(match["line"]))
        where = place or f"ptxas, line {match['line']} of the generated PTX"
        return f"{where}: {match['kind']}: {match['text']} (in PTX)"
    if match := _TOO_MUCH_SHARED.match(line):
        used, limit = int(match["used"], 16), int(match["limit"], 16)
        dynamic = (
            "; more is there as dynamic memory (`extern __shared__` and "
            "cudaFuncAttributeMaxDynamicSharedMemorySize)"
        )
        return (
            f"ptxas: error: kernel {demangle([match['name']])[match['name']]} {TOO_MUCH_SHARED} "
            f"{used:,} bytes; at most {limit:,} may be declared ({LESS_SHARED})"
            f"{dynamic if limit == _OLD_STATIC_LIMIT else ''}"
        )
    if match := _UNRESOLVED.match(line):
        name = match["name"]
        return f"undefined reference to `{demangle([name])[name]}' in device code"
    if match := _PLAIN.match(line):
        kind = "warning" if match["kind"] == "warning" else "error"
        return f"{match['tool']}: {kind}: {match['text']}"
    return line


def _source_line(ptx: Path, number: int) -> str | None:
    """`kernel.cu:12`, from the last `.loc` before a line of a PTX file; None if there is none."""
    try:
        lines = ptx.read_text(errors="replace").splitlines()
    except OSError:
        return None
    located = next((m for line in reversed(lines[:number]) if (m := _LOC.match(line))), None)
    if located is None:
        return None
    files = {m["file"]: m["path"] for line in lines if (m := _FILE.match(line))}
    path = files.get(located["file"])
    return f"{path}:{located['line']}" if path else None
