"""Settings that are written in a kernel file: where they are, and what they are set to.

Found with tree-sitter: `tune:` lines, integer `#define`s, `const`/`constexpr` integers and
enumerators, launches of CUDA and HIP kernels, unroll pragmas, and OpenMP's thread counts and
schedules.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import PurePosixPath

from tree_sitter import Node

from roofsmith.domain.kernel import MODULE_LANGUAGES, Language
from roofsmith.proposers.source import Source
from roofsmith.proposers.syntax import arguments, calls, text_of, walk
from roofsmith.proposers.tunables_choices import is_schedule
from roofsmith.proposers.tunables_launches import read_launch_sites
from roofsmith.proposers.tunables_python import read_python_sites
from roofsmith.proposers.tunables_sites import Site, SiteKind, named_apart, tied
from roofsmith.proposers.tunables_uses import Uses

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
