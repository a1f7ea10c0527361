"""Launches of CUDA and HIP kernels: `kernel<64><<<grid, block>>>(...)` and `hipLaunchKernelGGL`.

C++'s grammar takes `<<<` for shifts and templates, so launches are read from the text, with
comments and strings blanked out. Positions are bytes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tree_sitter import Node

from roofsmith.proposers.edits import Span
from roofsmith.proposers.source import Source
from roofsmith.proposers.syntax import text_of, walk

_BLANKED = ("comment", "string_literal", "char_literal", "preproc_call")
_MARKS = (b"<<<", b"hipLaunchKernelGGL")
_LAUNCH = re.compile(r"\b([A-Za-z_]\w*)\s*(?:<([^<>;{}]*)>)?\s*<<<")
_HIP = re.compile(r"\bhipLaunchKernelGGL\s*\(")
_HIP_KERNEL = re.compile(r"[\s(]*(?:HIP_KERNEL_NAME\s*\()?\s*([A-Za-z_]\w*)")
_WORD = re.compile(r"[A-Za-z_]\w*")
_PARAMETER = re.compile(r"([A-Za-z_]\w*)\s*(?:=.*)?$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class CudaLaunch:
    kernel: str
    templates: tuple[Span, ...]
    """Arguments of the kernel's template."""
    block: Span
    """Threads per block: the second argument."""
    function: Span
    """The function that launches; the file where there is none."""
    shared: Span | None = None
    """Bytes of shared memory: the third argument."""


class CudaLaunches:
    """The launches of a file, and the functions that they are about."""

    def __init__(self, source: Source) -> None:
        launching = any(mark in (source.root.text or b"") for mark in _MARKS)
        self.text = _blanked(source) if launching else ""
        self._functions = {
            text_of(name): node
            for node in (walk(source.root, "function_definition") if launching else ())
            if (name := _name_of(node)) is not None
        }  # fmt: skip
        whole = source.root.start_byte, source.root.end_byte
        self.launches = tuple(
            CudaLaunch(kernel, templates, given[1], self._around(given[1][0], whole), *given[2:3])
            for kernel, templates, given in self._written()
            if len(given) >= 2
        )

    def kernel(self, name: str) -> Span | None:
        """The definition of a kernel or of another function, with its attributes."""
        node = self._functions.get(name)
        return None if node is None else (node.start_byte, node.end_byte)

    def template_names(self, name: str) -> tuple[str, ...]:
        """Parameters of a function's template, in order."""
        node = self._functions.get(name)
        around = node.parent if node is not None else None
        if around is None or around.type != "template_declaration":
            return ()
        listed = around.child_by_field_name("parameters")
        names = (
            [] if listed is None else [_PARAMETER.search(text_of(n)) for n in listed.named_children]
        )
        return tuple("" if one is None else one.group(1) for one in names)

    def called(self, name: str) -> frozenset[str]:
        """Functions of the file that a function mentions, itself included."""
        span = self.kernel(name)
        if span is None:
            return frozenset()
        return frozenset(_WORD.findall(self.text[slice(*span)])) & set(self._functions)

    def block_arguments(self, launch: CudaLaunch) -> tuple[Span, ...]:
        """The threads per block by dimension, through `dim3` and the variable that holds it."""
        return self._dimensions(launch.block, launch.function)

    def _dimensions(self, block: Span, function: Span) -> tuple[Span, ...]:
        text = self.text[slice(*block)]
        made = re.match(r"\s*(?:dim3\s*)?([({])", text) if "," in text or "dim3" in text else None
        if made is not None:
            return self._listed(block[0] + made.end())
        name = text.strip()
        if _WORD.fullmatch(name):
            defined = re.compile(rf"\bdim3\b[^;]*?\b{name}\s*(?:=\s*(?:dim3\s*)?)?([({{])")
            found = defined.search(self.text, *function)
            if found is not None:
                return self._listed(found.end())
        return (_stripped(self.text, block),)

    def _written(self) -> list[tuple[str, tuple[Span, ...], tuple[Span, ...]]]:
        found = []
        for match in _LAUNCH.finditer(self.text):
            templates = self._listed(match.start(2), match.end(2)) if match.group(2) else ()
            found.append((match.group(1), templates, self._listed(match.end())))
        for match in _HIP.finditer(self.text):
            arguments = self._listed(match.end())
            kernel = _HIP_KERNEL.match(self.text[slice(*arguments[0])]) if arguments else None
            if kernel is not None:
                found.append((kernel.group(1), (), arguments[1:]))
        return found

    def _listed(self, start: int, end: int | None = None) -> tuple[Span, ...]:
        """What stands between commas from `start` to `end`, or to what closes the list."""
        spans: list[Span] = []
        depth, begin = 0, start
        for position in range(start, len(self.text) if end is None else end):
            character = self.text[position]
            if character in "([{":
                depth += 1
            elif depth == 0 and (character in ")]};" or self.text.startswith(">>>", position)):
                end = position
                break
            elif character in ")]}":
                depth -= 1
            elif character == "," and depth == 0:
                spans.append((begin, position))
                begin = position + 1
        spans.append((begin, len(self.text) if end is None else end))
        return tuple(_stripped(self.text, span) for span in spans)

    def _around(self, byte: int, whole: Span) -> Span:
        spans = [(node.start_byte, node.end_byte) for node in self._functions.values()]
        inside = [span for span in spans if span[0] <= byte < span[1]]
        return min(inside, key=lambda span: span[1] - span[0], default=whole)


def _blanked(source: Source) -> str:
    """The text, a character a byte, without comments, strings and pragmas."""
    data = bytearray(source.root.text or b"")
    start = source.root.start_byte
    data = bytearray(b" " * start) + data
    for node in walk(source.root, *_BLANKED):
        data[node.start_byte : node.end_byte] = b" " * (node.end_byte - node.start_byte)
    return data.decode("latin-1")


def _name_of(function: Node) -> Node | None:
    declarator = function.child_by_field_name("declarator")
    found = [] if declarator is None else list(walk(declarator, "function_declarator"))
    return found[0].child_by_field_name("declarator") if found else None


def _stripped(text: str, span: Span) -> Span:
    start, end = span
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end
