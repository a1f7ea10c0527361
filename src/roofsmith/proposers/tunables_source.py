"""Settings that are written in a kernel file: where they are, and what they are set to.

Found with tree-sitter: `tune:` lines, integer `#define`s, `const`/`constexpr` integers and
enumerators, launches of CUDA and HIP kernels, unroll pragmas, and OpenMP's thread counts and
schedules.

Uses are the test of whether a constant is tunable: a block size shows in a loop's bound or step or
in an array's size; one that appears in arithmetic alone is part of the mathematics.

A launch's number of threads is written in several places: at the launch, in the grid that it
divides the work by, in the kernel's arrays and indices, in `__launch_bounds__`. They are one
setting. Where one place holds it in a form that isn't followed (`n >> 8`), nothing is offered.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import PurePosixPath

from tree_sitter import Node

from roofsmith.domain.kernel import MODULE_LANGUAGES, Language
from roofsmith.proposers.cuda_launches import CudaLaunch, CudaLaunches
from roofsmith.proposers.edits import Span
from roofsmith.proposers.source import Source
from roofsmith.proposers.syntax import arguments, calls, text_of, walk
from roofsmith.proposers.tunables_python import read_python_sites
from roofsmith.proposers.tunables_sites import (
    THREADS,
    Site,
    SiteKind,
    Use,
    around,
    is_schedule,
    named_apart,
    tied,
)

_INTEGER = rb"(0[xX][0-9a-fA-F]+|0|[1-9]\d*)[uUlLzZ]*"
_MACRO_VALUE = re.compile(rb"\(?\s*" + _INTEGER + rb"\s*\)?\s*(?:/[/*].*)?", re.DOTALL)
_LITERAL = re.compile(_INTEGER)
_TUNE = re.compile(
    rb"^[\s/*!]*tune:\s*([A-Za-z_]\w*)\s*=\s*(\d+)\s*\[\s*(\d+(?:\s*,\s*\d+)*)\s*,?\s*\]",
    re.ASCII | re.MULTILINE,
)
_C_LIKE = frozenset((".c", ".h", ".cc", ".cpp", ".cxx", ".hpp", ".cu", ".cuh", ".hip"))
"""Files of a repository that are read as C++, which knows all of these well enough."""
_UNROLL = re.compile(rb"\b(?:unroll|unroll_count|partial)\s*\(?\s*([1-9]\d*)\b")
_NUM_THREADS = re.compile(rb"\bnum_threads\s*\(\s*([1-9]\d*)\s*\)")
_SCHEDULE = re.compile(rb"\bschedule\s*\(([^()]*)\)")
_ALLOCATORS = ("malloc", "calloc", "aligned_alloc", "posix_memalign", "_mm_malloc", "alloca")
_WORD = re.compile(r"[A-Za-z_]\w*")
_LOOPS = re.compile(r"\b(?:for|while)\b")
WARP = 32
_SMALLEST = 8
"""Smaller numbers are too common in a kernel to tell which of them are the thread count."""
_MIN_BLOCKS = (1, 2, 3, 4, 6, 8)
_BOUNDS = re.compile(r"__launch_bounds__\s*\([^(),]+,\s*(\d+)\s*\)")
_NUMBER = re.compile(r"(?<![\w.])([1-9]\d*)(?![\w.])")


@lru_cache(maxsize=64)
def read_sites(text: str, path: str, language: Language) -> tuple[Site, ...]:
    """Every setting of a file, in source order, each under a name of its own.

    A constant that is defined once keeps its name; where several share one, the line is added.
    Edits never move lines, so names stay the same from one assignment to the next.
    """
    suffix = PurePosixPath(path).suffix.lower()
    if language in MODULE_LANGUAGES or (language == "command" and suffix == ".py"):
        return read_python_sites(text)
    if language == "command" and suffix not in _C_LIKE:
        return ()
    source = Source(text, language)
    launches = read_launch_sites(source)
    constants = sorted(_constants(source), key=lambda site: site.spans)
    constants = named_apart(tied([*launches, *constants]))
    sites = [*_declared(source, constants), *_clauses(source.root), *_thread_calls(source.root)]
    return tuple(named_apart(sorted(sites, key=lambda site: site.spans)))


def _line(node: Node, offset: int = 0) -> int:
    return node.start_point[0] + 1 + (node.text or b"")[:offset].count(b"\n")


def _constants(source: Source) -> Iterator[Site]:
    """Every named integer of the file, with its uses."""
    uses = Uses(source)
    whole = (0, source.root.end_byte)
    for node in walk(source.root, "preproc_def", "init_declarator", "enumerator"):
        name = node.child_by_field_name("name") or node.child_by_field_name("declarator")
        value = node.child_by_field_name("value")
        if name is None or value is None or name.type != "identifier":
            continue
        if node.type == "init_declarator" and not _constant_integer(node):
            continue
        pattern = _MACRO_VALUE if node.type == "preproc_def" else _LITERAL
        match = pattern.fullmatch((value.text or b"").rstrip())
        if match is None:
            continue
        start, end = whole if node.type == "preproc_def" else _scope(node, whole)
        span = (value.start_byte + match.start(1), value.start_byte + match.end(1))
        yield Site(
            text_of(name), "constant", int(match.group(1), 0), _line(node), (span,),
            uses.of(text_of(name), start, end),
        )  # fmt: skip


def _constant_integer(declarator: Node) -> bool:
    declaration = declarator.parent
    if declaration is None or declaration.type != "declaration":
        return False
    words = {text_of(n) for n in declaration.children if n.type == "type_qualifier"}
    kind = declaration.child_by_field_name("type")
    if kind is None or not words & {"const", "constexpr"}:
        return False
    return not {"float", "double"} & set(text_of(kind).split())


def _scope(node: Node, whole: tuple[int, int]) -> tuple[int, int]:
    """Bytes in which a declaration can be seen: its block, or the file."""
    parent = node.parent
    while parent is not None:
        if parent.type in ("compound_statement", "for_statement"):
            return parent.start_byte, parent.end_byte
        parent = parent.parent
    return whole


def _declared(source: Source, sites: list[Site]) -> list[Site]:
    """The constants, those that a `tune:` line names with its choices. Where there is such a line,
    others only if they make launches: whoever wrote it left them out."""
    result = {site.spans[0]: site for site in sites}
    for match, start, line in _tune_lines(source.root):
        name = match.group(1).decode()
        named = [s for s in result.values() if s.name.split("@")[0] == name]
        if not named:
            continue
        # The definition on this line or the next one below, else the last one above.
        site = min(named, key=lambda s: (s.line < line, abs(s.line - line)))
        listed = tuple(dict.fromkeys(int(choice) for choice in match.group(3).split(b",")))
        spans = (*site.spans, (start + match.start(2), start + match.end(2)))
        result[site.spans[0]] = replace(site, kind="declared", choices=listed, spans=spans)
    left = [site for site in result.values() if site.kind != "constant" or site.choices]
    return left if any(site.kind == "declared" for site in left) else sites


def _tune_lines(root: Node) -> Iterator[tuple[re.Match[bytes], int, int]]:
    """Every comment line that starts with `tune:`, the byte from which it counts, its line."""
    for node in walk(root, "comment", "preproc_arg"):
        text = node.text or b""
        # The grammar leaves a `//` comment behind a macro inside the macro's value.
        begin = 0 if node.type == "comment" else text.find(b"//")
        if begin >= 0:
            for match in _TUNE.finditer(text[begin:]):
                yield match, node.start_byte + begin, _line(node, begin + match.start(1))


def _clauses(root: Node) -> Iterator[Site]:
    """Numbers in unroll pragmas and OpenMP clauses."""
    for node in walk(root, "preproc_call"):
        argument = node.child_by_field_name("argument")
        if argument is None or argument.text is None:
            continue
        found: list[tuple[str, SiteKind, re.Match[bytes]]] = []
        if b"unroll" in argument.text:
            found += [("unroll", "unroll", match) for match in _UNROLL.finditer(argument.text)]
        if argument.text.lstrip().startswith(b"omp"):
            threads = _NUM_THREADS.finditer(argument.text)
            schedule = _SCHEDULE.finditer(argument.text)
            found += [("num_threads", "threads", match) for match in threads]
            found += [("schedule", "schedule", m) for m in schedule if _plain_schedule(m)]
        for label, kind, match in found:
            line = _line(argument, match.start(1))
            span = (argument.start_byte + match.start(1), argument.start_byte + match.end(1))
            written = match.group(1).decode()
            setting = written if kind == "schedule" else int(written)
            yield Site(f"{label}@{line}", kind, setting, line, (span,))


def _plain_schedule(match: re.Match[bytes]) -> bool:
    return is_schedule(match.group(1).decode(errors="replace"))


def _thread_calls(root: Node) -> Iterator[Site]:
    """`omp_set_num_threads(4)`."""
    for name, call in calls(root):
        given = arguments(call)
        if name != "omp_set_num_threads" or len(given) != 1:
            continue
        match = _LITERAL.fullmatch(given[0].text or b"")
        if match is not None and int(match.group(1), 0) > 0:
            span = (given[0].start_byte + match.start(1), given[0].start_byte + match.end(1))
            line = _line(given[0])
            yield Site(f"num_threads@{line}", "threads", int(match.group(1), 0), line, (span,))


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


def read_launch_sites(source: Source) -> list[Site]:
    """Every setting of the launches of a file; none where nothing is launched."""
    read = CudaLaunches(source)
    sites: list[Site] = []
    for launch in read.launches:
        sites += _threads(read, launch)
        sites += _templates(read, launch)
    for match in _BOUNDS.finditer(read.text) if read.launches else ():
        line, current = _line_at(read, match.start(1)), int(match.group(1))
        span = match.span(1)
        sites.append(Site("min_blocks", "launch", current, line, (span,), choices=_MIN_BLOCKS))
    return tied(sites)


def _threads(read: CudaLaunches, launch: CudaLaunch) -> Iterator[Site]:
    written = read.block_arguments(launch)
    sizes = [read.text[slice(*span)] for span in written]
    is_flat = all(size == "1" for size in sizes[1:])
    for axis, span in zip("xyz", written, strict=False):
        name = read.text[slice(*span)]
        place = span if name.isdigit() else _local(read, name, launch.function)
        if place is None:
            continue
        value = int(read.text[slice(*place)])
        if value < _SMALLEST or value == WARP or _is_shifted(read, launch.function, value):
            continue
        same, less = _divisions(read, launch.function, value)
        same += [one for one in launch.templates if read.text[slice(*one)] == str(value)]
        same += _numbers(read, launch.shared, value)
        for kernel in read.called(launch.kernel):
            same += _numbers(read, read.kernel(kernel), value)
        choices = THREADS if is_flat else around(value, lowest=1)
        label = name if not name.isdigit() else "threads" if is_flat else f"block.{axis}"
        spans = tuple(dict.fromkeys((place, *same)))
        yield Site(
            label, "constant", value, _line_at(read, place[0]), spans, choices=choices,
            less_one=tuple(less),
        )  # fmt: skip


def _templates(read: CudaLaunches, launch: CudaLaunch) -> Iterator[Site]:
    """Integers in `kernel<64, 8><<<...>>>`, with the grid's divisions by them."""
    names = read.template_names(launch.kernel)
    for index, span in enumerate(launch.templates):
        text = read.text[slice(*span)]
        if not text.isdigit() or int(text) < 2:
            continue
        value = int(text)
        same, less = _divisions(read, launch.function, value)
        name = names[index] if index < len(names) else f"{launch.kernel}.{index}"
        yield Site(
            name, "constant", value, _line_at(read, span[0]), (span, *same),
            choices=around(value, lowest=1), less_one=tuple(less),
        )  # fmt: skip


def _local(read: CudaLaunches, name: str, function: Span) -> Span | None:
    """Where a variable of the launching function gets its number, if it never gets another."""
    if not _WORD.fullmatch(name):
        return None
    assigned = re.compile(
        rf"\b{name}\s*(?:[-+*/%&|^]|<<|>>)?=(?!=)|(?:\+\+|--)\s*{name}\b|\b{name}\s*(?:\+\+|--)"
    )
    if len(assigned.findall(read.text, *function)) != 1:
        return None
    given = re.compile(rf"\b{name}\s*=\s*([1-9]\d*)\s*[;,]").search(read.text, *function)
    return None if given is None else given.span(1)


def _divisions(read: CudaLaunches, function: Span, value: int) -> tuple[list[Span], list[Span]]:
    """Where a function divides by a number, and where it adds the number minus one for that."""
    divisor = re.compile(rf"/\s*({value})(?![\w.])|(?i:div|ceil)\w*\s*\([^;]*?,\s*({value})\s*\)")
    same = [m.span(m.lastindex or 1) for m in divisor.finditer(read.text, *function)]
    added = re.compile(rf"\+\s*({value - 1})(?![\w.])")
    less = [m.span(1) for m in added.finditer(read.text, *function)] if same else []
    return same, less


def _is_shifted(read: CudaLaunches, function: Span, value: int) -> bool:
    shift = re.compile(rf">>\s*{value.bit_length() - 1}(?![\w.>])")
    return shift.search(read.text, *function) is not None


def _numbers(read: CudaLaunches, span: Span | None, value: int) -> list[Span]:
    found = () if span is None else _NUMBER.finditer(read.text, *span)
    return [match.span(1) for match in found if int(match.group(1)) == value]


def _line_at(read: CudaLaunches, byte: int) -> int:
    return read.text.count("\n", 0, byte) + 1
