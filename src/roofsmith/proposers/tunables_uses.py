"""What the integer constants of a kernel file are used for: the test of whether one is tunable.

A block size shows in a loop's bound or step or in an array's size. A constant that appears in
arithmetic alone is part of the mathematics, and no business of a sweep.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from tree_sitter import Node

from roofsmith.proposers.cuda_launches import CudaLaunches
from roofsmith.proposers.source import Source
from roofsmith.proposers.syntax import text_of, walk

Use = Literal["bound", "step", "array", "unroll", "threads", "launch", "condition"]
"""bound: start or end of a loop; launch: a CUDA block's size or a template argument at a launch;
condition: an expression of `#if`."""

_ALLOCATORS = ("malloc", "calloc", "aligned_alloc", "posix_memalign", "_mm_malloc", "alloca")
_WORD = re.compile(r"[A-Za-z_]\w*")
_LOOPS = re.compile(r"\b(?:for|while)\b")


@dataclass(frozen=True, slots=True)
class Mention:
    """One name in one structural place."""

    name: str
    use: Use
    byte: int


class Uses:
    """Every structural use in a file, also through macros and variables derived from a name."""

    def __init__(self, source: Source) -> None:
        self._mentions = (*_mentions(source.root), *_launched(source))
        self._derived = tuple(_derived(source.root))

    def of(self, name: str, start: int, end: int) -> frozenset[Use]:
        """Uses of `name`, defined in bytes `start` to `end` (its scope), inside that range.

        What is derived from it (`#define TILE (4 * NAME)`, `int step = NAME * 2;`) counts as well.
        """
        names, waiting = {name}, [name]
        while waiting:
            origin = waiting.pop()
            for base, derived, byte in self._derived:
                if base == origin and start <= byte < end and derived not in names:
                    names.add(derived)
                    waiting.append(derived)
        return frozenset(
            mention.use
            for mention in self._mentions
            if mention.name in names and start <= mention.byte < end
        )


def _mentions(root: Node) -> Iterator[Mention]:
    for node in walk(root):
        match node.type:
            case "for_statement":
                yield from _named(node.child_by_field_name("initializer"), "bound")
                yield from _named(node.child_by_field_name("condition"), "bound")
                yield from _named(node.child_by_field_name("update"), "step")
            case "while_statement" | "do_statement":
                yield from _named(node.child_by_field_name("condition"), "bound")
            case "array_declarator":
                yield from _named(node.child_by_field_name("size"), "array")
            case "call_expression":
                yield from _call(node)
            case "preproc_call":
                yield from _pragma(node)
            case "preproc_if" | "preproc_elif":
                yield from _condition(node.child_by_field_name("condition"))
            case "preproc_function_def":
                yield from _macro_with_loop(node)


def _launched(source: Source) -> Iterator[Mention]:
    """Names in the block sizes and template arguments of launches."""
    read = CudaLaunches(source)
    for launch in read.launches:
        for span in (*launch.templates, *read.block_arguments(launch)):
            for word in _WORD.finditer(read.text, *span):
                yield Mention(word.group(), "launch", word.start())


def _named(node: Node | None, use: Use) -> Iterator[Mention]:
    if node is not None:
        for found in walk(node, "identifier"):
            yield Mention(text_of(found), use, found.start_byte)


def _call(node: Node) -> Iterator[Mention]:
    function = node.child_by_field_name("function")
    name = "" if function is None else text_of(function).removeprefix("std::")
    if name in _ALLOCATORS:
        yield from _named(node.child_by_field_name("arguments"), "array")
    elif name == "omp_set_num_threads":
        yield from _named(node.child_by_field_name("arguments"), "threads")


def _pragma(node: Node) -> Iterator[Mention]:
    argument = node.child_by_field_name("argument")
    if argument is None:
        return
    text = text_of(argument)
    for match in re.finditer(r"(\w+)\s*\(([^()]*)\)|\bunroll\s+([A-Za-z_]\w*)", text):
        clause = match.group(1) or "unroll"
        use: Use = "step"
        if clause == "num_threads":
            use = "threads"
        elif "unroll" in clause:
            use = "unroll"
        for word in _WORD.findall(match.group(2) or match.group(3) or ""):
            yield Mention(word, use, argument.start_byte)


def _condition(node: Node | None) -> Iterator[Mention]:
    """Names whose value an `#if` reads; `defined(NAME)` reads none, so guards don't count."""
    if node is None or node.type == "preproc_defined":
        return
    if node.type == "identifier":
        yield Mention(text_of(node), "condition", node.start_byte)
    for child in node.children:
        yield from _condition(child)


def _macro_with_loop(node: Node) -> Iterator[Mention]:
    """Macro bodies are not parsed: every name in one that holds a loop may bound it."""
    body = node.child_by_field_name("value")
    if body is not None and _LOOPS.search(text_of(body)):
        for word in set(_WORD.findall(text_of(body))):
            yield Mention(word, "bound", body.start_byte)


def _derived(root: Node) -> Iterator[tuple[str, str, int]]:
    """(name, what is defined by it, where) of macros without parameters and of variables."""
    for node in walk(root, "preproc_def", "init_declarator"):
        target = node.child_by_field_name("name") or node.child_by_field_name("declarator")
        value = node.child_by_field_name("value")
        if target is None or value is None or target.type != "identifier":
            continue
        if node.type == "preproc_def":
            names = set(_WORD.findall(text_of(value).split("//")[0]))
        else:
            names = {text_of(found) for found in walk(value, "identifier")}
        for name in names:
            yield name, text_of(target), node.start_byte
