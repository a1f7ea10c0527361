"""What a C, C++, CUDA or HIP file does, read from its syntax tree."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

import tree_sitter_c
import tree_sitter_cpp
from tree_sitter import Language as Grammar
from tree_sitter import Node, Parser

from roofsmith.analysis.scan.rules import Remarks, matches, rules

_NAMES = ("identifier", "qualified_identifier", "type_identifier", "field_identifier")
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
_LIBRARY = re.compile(
    r"(cu(blas|dnn|sparse|solver|fft|tensor|rand)|hipblas|rocblas|miopen|nccl|cblas_|LAPACK|fftwf?_"
    r"|mkl_|dnnl_|openblas)\w*|(at|torch|c10|thrust|cub|Eigen|rocprim|hipcub|cutlass)::.*"
    r"|[sdcz](gemm|gemv|axpy|dot)_"
)
_LIBRARY_HEADER = re.compile(
    r"(cu(blas|dnn|sparse|solver|fft|tensor|rand)|hipblas|rocblas|cblas|mkl|lapack|fftw|ATen/|torch/"
    r"|c10/|thrust/|cub/|Eigen/|cutlass/)"
)
_POINTER_KEY = re.compile(r"(map|set)<[^<>]*\*|(map|set)<std::(tuple|pair)<[^<>]*\*")


@cache
def _parser(*, plain_c: bool) -> Parser:
    grammar = tree_sitter_c.language() if plain_c else tree_sitter_cpp.language()
    return Parser(Grammar(grammar))


def scan_native(path: str, text: str, *, plain_c: bool = False) -> Remarks:
    """Remarks on a file."""
    found = Remarks(path)
    nodes = tuple(_nodes(_root(text, plain_c=plain_c)))
    named = [node for node in nodes if node.type in _NAMES and _is_outermost(node)]
    for node in named:
        for remark, rule in rules().items():
            patterns = rule.native + (rule.types if node.type == "type_identifier" else ())
            if any(matches(_text(node), pattern) for pattern in patterns):
                found.add(remark, _line(node), _text(node))
    for node in nodes:
        _look(node, found)
    _streams([(_text(node), _line(node)) for node in named], found)
    _counters(nodes, found)
    return found


def library_calls_native(path: str, text: str, *, plain_c: bool = False) -> Remarks:
    """Uses of libraries that do a kernel's work, and ways to load one."""
    found = Remarks(path)
    for node in _nodes(_root(text, plain_c=plain_c)):
        if node.type in _NAMES and _is_outermost(node):
            name = _text(node)
            if _LIBRARY.fullmatch(name) or name in ("dlopen", "dlmopen", "dlsym"):
                found.add("library_call", _line(node), name)
        elif node.type == "preproc_include":
            header = _header(node)
            if _LIBRARY_HEADER.match(header):
                found.add("library_call", _line(node), f"#include {header}")
    return found


def _root(text: str, *, plain_c: bool) -> Node:
    return _parser(plain_c=plain_c).parse(text.encode(errors="replace")).root_node


def _nodes(root: Node) -> Iterator[Node]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(node.children)


def _text(node: Node) -> str:
    return (node.text or b"").decode(errors="replace")


def _line(node: Node) -> int:
    return int(node.start_point[0]) + 1


def _is_outermost(node: Node) -> bool:
    """Not a part of a longer qualified name, nor a member or a variable's own name."""
    parent = node.parent
    if parent is None or node.type == "field_identifier":
        return False
    declares = parent.type in ("init_declarator", "pointer_declarator", "parameter_declaration")
    is_variable = declares and parent.child_by_field_name("declarator") == node
    return parent.type != "qualified_identifier" and not is_variable


def _header(include: Node) -> str:
    path = include.child_by_field_name("path")
    return "" if path is None else _text(path).strip('<>"')


def _look(node: Node, found: Remarks) -> None:
    kind = node.type
    if kind == "string_literal":
        text = _text(node)
        for remark, rule in rules().items():
            if any(part in text for part in rule.strings):
                found.add(remark, _line(node), text)
    elif kind == "raw_string_literal":
        for remark, rule in rules().items():
            for part in rule.strings:
                if part in _text(node):
                    found.add(remark, _line(node), part)
    elif kind == "preproc_include":
        header = _header(node)
        for remark, rule in rules().items():
            if header.startswith(rule.headers):
                found.add(remark, _line(node), f"#include {header}")
    elif kind in ("gnu_asm_expression", "asm_statement") or _is_asm_call(node):
        if read := _CLOCK.search(_text(node)):
            found.add("clocks", _line(node), read[0])
    elif kind == "function_definition":
        _interposed(node, found)
    elif kind == "attribute_specifier":
        if re.search(r"\b(con|de)structor\b", _text(node)):
            found.add("constructor", _line(node), _text(node))
    elif kind == "template_function" and _text(node).startswith("const_cast"):
        found.add("const_cast", _line(node), _text(node))
    elif kind == "template_type" and _POINTER_KEY.search(re.sub(r"\s+", "", _text(node))):
        found.add("keyed_by_address", _line(node), _text(node))


def _is_asm_call(node: Node) -> bool:
    if node.type != "call_expression":
        return False
    function = node.child_by_field_name("function")
    return function is not None and _text(function) in ("asm", "__asm__", "__asm")


def _interposed(node: Node, found: Remarks) -> None:
    declarator = node.child_by_field_name("declarator")
    while declarator is not None and declarator.type != "function_declarator":
        declarator = declarator.child_by_field_name("declarator")
    name = declarator.child_by_field_name("declarator") if declarator is not None else None
    if name is None or name.type != "identifier" or not _INTERPOSABLE.fullmatch(_text(name)):
        return
    if not _text(node).lstrip().startswith(("static", "__global__", "__device__")):
        found.add("interposed_symbol", _line(node), _text(name))


def _streams(names: list[tuple[str, int]], found: Remarks) -> None:
    aside = [(line, name) for name, line in names if name.startswith(_ASIDE)]
    if aside and not any(name in _JOINS for name, _ in names):
        found.add("unjoined_stream", *min(aside))


def _counters(nodes: tuple[Node, ...], found: Remarks) -> None:
    """Static integers that are counted up."""
    kept = {
        _text(name)
        for node in nodes
        if node.type == "declaration" and re.match(r"(thread_local\s+)?static\b", _text(node))
        for name in _nodes(node)
        if name.type == "identifier"
    }
    for node in nodes:
        target = node.child_by_field_name("argument") if node.type == "update_expression" else None
        if target is not None and _text(target) in kept:
            found.add("counts_calls", _line(node), _text(node))
