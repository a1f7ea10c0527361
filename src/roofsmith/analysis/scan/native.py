"""What a C, C++, CUDA or HIP file does, read from its syntax tree."""

from __future__ import annotations

import re

from tree_sitter import Node

from roofsmith.analysis.scan.rules import Remarks, matches, rules
from roofsmith.analysis.scan.syntax import (
    NAMES,
    header_of,
    is_asm,
    is_outermost,
    line_of,
    nodes_of,
    root_of,
    text_of,
)

_CLOCK = re.compile(r"%+(clock(?:64|_hi)?|globaltimer)\b|\brdtscp?\b|\bcntvct_el0\b")

_ASIDE = ("cudaStreamNonBlocking", "cudaStreamPerThread", "hipStreamNonBlocking", "cuStreamCreate")
_JOINS = (
    "cudaStreamWaitEvent", "cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize",
    "hipStreamWaitEvent", "hipStreamSynchronize", "hipDeviceSynchronize", "cuStreamWaitEvent",
)  # fmt: skip

_INTERPOSABLE = re.compile(
    r"clock(_gettime|_getres|_nanosleep)?|gettimeofday|time|times|nanosleep|malloc|calloc|realloc"
    r"|free|mem(cpy|cmp|set|move)|write|writev|read|send(msg|to)?|recv(msg|from)?|poll|select|exit"
    r"|_exit|abort|mmap|munmap|open|close|(cuda|cu|hip)(Event|Stream|Device|Ctx|Mem|Launch|Graph)\w+"
    r"|omp_\w+|pthread_\w+|__errno_location"
)
_POINTER_KEY = re.compile(r"(map|set)<[^<>]*\*|(map|set)<std::(tuple|pair)<[^<>]*\*")


def scan_native(path: str, text: str, *, plain_c: bool = False) -> Remarks:
    """Remarks on a file."""
    found = Remarks(path)
    nodes = tuple(nodes_of(root_of(text, plain_c=plain_c)))
    named = [node for node in nodes if node.type in NAMES and is_outermost(node)]
    for node in named:
        for remark, rule in rules().items():
            patterns = rule.native + (rule.types if node.type == "type_identifier" else ())
            if any(matches(text_of(node), pattern) for pattern in patterns):
                found.add(remark, line_of(node), text_of(node))
    for node in nodes:
        _look(node, found)
    _streams([(text_of(node), line_of(node)) for node in named], found)
    _counters(nodes, found)
    return found


def _look(node: Node, found: Remarks) -> None:
    kind = node.type
    if kind == "string_literal":
        text = text_of(node)
        for remark, rule in rules().items():
            if any(part in text for part in rule.strings):
                found.add(remark, line_of(node), text)
    elif kind == "raw_string_literal":
        for remark, rule in rules().items():
            for part in rule.strings:
                if part in text_of(node):
                    found.add(remark, line_of(node), part)
    elif kind == "preproc_include":
        header = header_of(node)
        for remark, rule in rules().items():
            if header.startswith(rule.headers):
                found.add(remark, line_of(node), f"#include {header}")
    elif is_asm(node):
        if read := _CLOCK.search(text_of(node)):
            found.add("clocks", line_of(node), read[0])
    elif kind == "function_definition":
        _interposed(node, found)
    elif kind == "attribute_specifier":
        if re.search(r"\b(con|de)structor\b", text_of(node)):
            found.add("constructor", line_of(node), text_of(node))
    elif kind == "template_function" and text_of(node).startswith("const_cast"):
        found.add("const_cast", line_of(node), text_of(node))
    elif kind == "template_type" and _POINTER_KEY.search(re.sub(r"\s+", "", text_of(node))):
        found.add("keyed_by_address", line_of(node), text_of(node))


def _interposed(node: Node, found: Remarks) -> None:
    declarator = node.child_by_field_name("declarator")
    while declarator is not None and declarator.type != "function_declarator":
        declarator = declarator.child_by_field_name("declarator")
    name = declarator.child_by_field_name("declarator") if declarator is not None else None
    if name is None or name.type != "identifier" or not _INTERPOSABLE.fullmatch(text_of(name)):
        return
    if not text_of(node).lstrip().startswith(("static", "__global__", "__device__")):
        found.add("interposed_symbol", line_of(node), text_of(name))


def _streams(names: list[tuple[str, int]], found: Remarks) -> None:
    aside = [(line, name) for name, line in names if name.startswith(_ASIDE)]
    if aside and not any(name in _JOINS for name, _ in names):
        found.add("unjoined_stream", *min(aside))


def _counters(nodes: tuple[Node, ...], found: Remarks) -> None:
    """Static integers that are counted up."""
    kept = {
        text_of(name)
        for node in nodes
        if node.type == "declaration" and re.match(r"(thread_local\s+)?static\b", text_of(node))
        for name in nodes_of(node)
        if name.type == "identifier"
    }
    for node in nodes:
        target = node.child_by_field_name("argument") if node.type == "update_expression" else None
        if target is not None and text_of(target) in kept:
            found.add("counts_calls", line_of(node), text_of(node))
