"""A CUDA or HIP file: its kernels, who launches them, and on how many threads.

The grammar is that of C++. What CUDA adds to it is blanked out before the file is parsed, so that
`f<<<g, b>>>(x)` reads as a call, and every position is one of the file as it was written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

from tree_sitter import Node

from roofsmith.analysis.integer_expressions import value_of
from roofsmith.proposers.cards import CardChange, CardContext
from roofsmith.proposers.costs import constants
from roofsmith.proposers.edits import SourceEdit, apply_edits
from roofsmith.proposers.source import CFunction, Source
from roofsmith.proposers.syntax import arguments, assigned, calls, text_of, walk

WARP = 32
_ADDED = re.compile(
    r"<<<.*?>>>|__launch_bounds__\s*\([^;{]*?\)(?=\s*[\w(])"
    r"|\b__(?:global|device|host|shared|constant|forceinline|noinline)__\b",
    re.DOTALL,
)
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)


@dataclass(frozen=True)
class KernelLaunch:
    """One `kernel<<<grid, block>>>(...)`."""

    kernel: CFunction
    caller: CFunction
    call: Node
    grid: str
    block: str
    grid_start: int
    """Byte of the file at which `grid` is written."""


class CudaFile:
    """A kernel file, parsed, as far as `entry` reaches."""

    def __init__(self, text: str, entry: str) -> None:
        self.text = text
        self._bytes = text.encode()
        self.source = Source(_ADDED.sub(_blank, text), "cpp")
        self._entry = entry

    @cached_property
    def reached(self) -> tuple[CFunction, ...]:
        """The entry and all that it calls or launches."""
        return self.source.reachable(self._entry)

    @cached_property
    def kernels(self) -> tuple[CFunction, ...]:
        """Those of the functions reached that run on the device and are launched."""
        launched = [launch.kernel for launch in self.launches]
        return tuple(function for function in self.reached if function in launched)

    @cached_property
    def launches(self) -> tuple[KernelLaunch, ...]:
        """Every launch that the entry comes to."""
        return tuple(launch for caller in self.reached for launch in self._launches_in(caller))

    def _launches_in(self, caller: CFunction) -> Iterator[KernelLaunch]:
        for name, call in calls(caller.body):
            function, given = (call.child_by_field_name(f) for f in ("function", "arguments"))
            named = self.source.named(name)
            if function is None or given is None or len(named) != 1:
                continue
            between = self._bytes[function.end_byte : given.start_byte].decode()
            between = _COMMENT.sub(_blank, between)
            begin = between.find("<<<")
            parts = split_arguments(between[begin + 3 : between.rfind(">>>")])
            if begin >= 0 and len(parts) >= 2:
                start = function.end_byte + len(between[: begin + 3].encode())
                lead = len(parts[0]) - len(parts[0].lstrip())
                grid, block = (part.strip() for part in parts[:2])
                yield KernelLaunch(named[0], caller, call, grid, block, start + lead)

    @cached_property
    def constants(self) -> Mapping[str, int]:
        """Whole numbers that the file names: macros and constants whose name means nothing else
        anywhere."""
        found = constants(self.source)
        meanings = dict[str, set[str]]()
        for node in walk(self.source.root, "init_declarator", "preproc_def"):
            name = node.child_by_field_name("declarator") or node.child_by_field_name("name")
            value = node.child_by_field_name("value")
            if name is None or value is None:
                continue
            meanings.setdefault(text_of(name), set()).add(text_of(value).strip())
            kind = "" if node.parent is None else text_of(node.parent).split("=")[0]
            number = value_of(value, found)
            if re.search(r"\bconst(expr)?\b", kind) and number is not None and "*" not in kind:
                found.setdefault(text_of(name), number)
        for parameter in (one for f in self.source.functions for one in f.parameters):
            meanings.setdefault(parameter.name, set()).add("an argument")
        return {name: number for name, number in found.items() if len(meanings[name]) == 1}

    def threads(self, function: CFunction) -> int | None:
        """Threads of the blocks that run a function; None if they differ, can't be told, or lie in
        more than one dimension."""
        launches = [
            launch
            for launch in self.launches
            if function in self.source.reachable(launch.kernel.name)
        ]
        found = {self._block(launch) for launch in launches}
        return found.pop() if len(found) == 1 else None

    def _block(self, launch: KernelLaunch) -> int | None:
        text = launch.block
        if re.fullmatch(r"[A-Za-z_]\w*", text) and text not in self.constants:
            given = declared(launch.caller, text)
            if len(given) != 1:
                return None
            text = given.pop()
        text = re.sub(r"^dim3\s*(?=[({])", "", text).strip("(){} ")
        size, *rest = split_arguments(text)
        if any(part.strip() != "1" for part in rest):
            return None
        return self.number(size)

    def number(self, text: str, sizes: Mapping[str, int] | None = None) -> int | None:
        """The value of an integer expression; None if it can't be told."""
        node = Source(f"int x = {text};", "cpp").root
        value = next((n.child_by_field_name("value") for n in walk(node, "init_declarator")), None)
        return None if value is None else value_of(value, {**(sizes or {}), **self.constants})

    def edited(self, context: CardContext, edits: list[SourceEdit], statement: str) -> CardChange:
        return CardChange(context.with_text(apply_edits(self.text, edits)), statement)

    def is_shared(self, function: CFunction, name: str) -> bool:
        """Whether a local array lies in shared memory."""
        body = self._bytes[function.body.start_byte : function.body.end_byte].decode()
        return re.search(rf"__shared__[^;]*\b{re.escape(name)}\s*\[", body) is not None

    def is_thread(self, function: CFunction, text: str) -> bool:
        """Whether an expression is the thread's number in a row of them."""
        text = text.strip("() ")
        if text == "threadIdx.x":
            return True
        if text in function.mutated:
            return False
        values = (
            node.child_by_field_name("value")
            for node in walk(function.body, "init_declarator")
            if text_of(node.child_by_field_name("declarator") or node) == text
        )
        return any(
            value is not None and text_of(value).strip("() ") == "threadIdx.x" for value in values
        )

    def sizes(self, function: CFunction, text: str, context: CardContext) -> list[int]:
        """The values, over all workloads and launches, of an expression in a kernel that is a
        constant or made of its arguments; empty if one of them can't be told."""
        known = self.number(text)
        if known is not None:
            return [known]
        found = []
        for launch in self.launches:
            if launch.kernel != function:
                continue
            for dims in context.dims:
                given = arguments(launch.call)
                sizes = {
                    parameter.name: number
                    for parameter, argument in zip(function.parameters, given, strict=False)
                    if (number := value_of(argument, {**self.constants, **dims})) is not None
                }
                found.append(self.number(text, sizes))
        told = [number for number in found if number is not None]
        return told if len(told) == len(found) else []


def _blank(match: re.Match[str]) -> str:
    return "".join("\n" if c == "\n" else " " * len(c.encode()) for c in match.group())


def split_arguments(text: str) -> list[str]:
    """What commas outside of brackets separate."""
    parts, depth, start = list[str](), 0, 0
    for place, letter in enumerate(text):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            parts.append(text[start:place])
            start = place + 1
    return [*parts, text[start:]]


def declared(function: CFunction, name: str) -> set[str]:
    """What a function's local is declared as; nothing if it may become something else."""
    changed = {
        next((text_of(n) for n in walk(t, "identifier")), "") for t in assigned(function.body)
    }
    found = set[str]()
    for node in walk(function.body, "declaration") if name not in changed else ():
        for part in split_arguments(_COMMENT.sub("", text_of(node).rstrip("; "))):
            given = re.fullmatch(rf"(?:[\w:\s]*\s)?{name}\s*=?\s*(.+)", part, re.DOTALL)
            if given is not None and re.match(r"[\s=({{]", part.partition(name)[2]):
                found.add(given.group(1))
    return found


@lru_cache(maxsize=4)
def _read(text: str, entry: str) -> CudaFile:
    return CudaFile(text, entry)


def cuda_file(context: CardContext) -> CudaFile:
    """The incumbent's kernel file."""
    return _read(context.candidate.kernel.text, context.signature.entry)
