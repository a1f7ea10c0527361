"""What a kernel's source shows of each kind of change already. Pure.

Comments don't count. It is a hint for whoever looks for the next change, and no proof: what is
written may never run.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Final

from tree_sitter import Node

from roofsmith.analysis.scan.syntax import line_of, nodes_of, root_of, text_of
from roofsmith.domain.category import Category
from roofsmith.domain.kernel import MODULE_LANGUAGES, Candidate

_SHOWS: Final[Mapping[Category, re.Pattern[str]]] = {
    "vectorisation": re.compile(
        r"\b_mm\d*_\w+|\b__m(?:128|256|512)[di]?\b|\bv(?:ld|st|fma|mul|add)\d?q_\w+|\bsv(?:ld|mla)\w+"
        r"|\bvector_size\b|\bomp[ \w]*\bsimd\b|\bstd::(?:experimental::)?simd\b"
        r"|\b(?:float|int|double)[24]\b(?!\w)|\b(?:__)?(?:half2|nv_bfloat162)\b"
        r"|\bwmma\b|\bwgmma\b|\bmma(?:\.sync|_sync)?\b|\bmfma\w*|\btl\.dot\b"
    ),
    "parallelism": re.compile(
        r"\bomp[ \w]*\b(?:parallel|teams|taskloop)\b|\bpthread_create\b|\bstd::(?:j?thread|async)\b"
        r"|\bstd::execution::par\w*|\btbb::parallel_\w+|\bcilk_\w+|\bsplit_?k\b|\bgrid_group\b",
        re.IGNORECASE,
    ),
    "tiling": re.compile(
        r"__shared__|\btl\.dot\b|\bTILE\w*|\bBLOCK(?:_SIZE)?_?[MNK]\b|\b[MNK][CR]\b|\btiled?(?:_\w+)?\b"
    ),
    "layout": re.compile(
        r"\b\w*pack(?:ed)?_\w+\s*\(|\bpack(?:ed)?\w*\s*\(|\w*swizzl\w*|\b_MM_TRANSPOSE\w+"
        r"|__shared__(?=[^;]*\+\s*1\s*\])",
        re.IGNORECASE,
    ),
    "prefetch": re.compile(
        r"\b__builtin_prefetch\b|\b_mm_prefetch\b|\bprefetch\w*\s*\(|\bcp\.async\b"
        r"|\b(?:__pipeline_)?memcpy_async\b|\bcp_async\w*|\bnum_stages\b|\bTensorMap\b"
    ),
    "memory_access": re.compile(
        r"\b_mm\d*_stream_\w+|\b__builtin_nontemporal_\w+|\b__ldg\b|\bld\.global\.nc\b|\b__ldc[sg]\b"
        r"|\beviction_policy\b|\btl\.make_block_ptr\b"
    ),
    "scheduling": re.compile(
        r"#\s*pragma\s+(?:GCC\s+|clang\s+loop\s+)?unroll\b(?:[ (]*\d+\)?)?|\btl\.static_range\b"
        r"|\bschedule\s*\(\s*(?:static|dynamic|guided)|\b(?:acc|sum|part|total)_?1\b"
    ),
    "precision": re.compile(r"\b(?:_Float16|__bf16|__half2?|__nv_bfloat162?|float16|bfloat16)\b"),
    "launch": re.compile(r"__launch_bounds__|\bnum_warps\b|\btriton\.autotune\b|\+=\s*gridDim\.\w"),
}  # fmt: skip
"""Words that hardly stand in a source for another reason, by what they show."""


@dataclass(frozen=True, slots=True)
class Sign:
    """Where a source shows a kind of change."""

    path: str
    line: int
    """From 1; of the first place."""
    text: str
    """As it is written."""

    def __str__(self) -> str:
        return f"`{self.text}` ({self.path}:{self.line})"


def signs(candidate: Candidate) -> Mapping[Category, Sign]:
    """The first sign of each kind of change that shows in a candidate's sources."""
    is_python = candidate.language in MODULE_LANGUAGES
    found: dict[Category, Sign] = {}
    for source in candidate.sources:
        python = is_python or source.path.endswith(".py")
        for category, line, text in _signs(source.text, python, candidate.language == "c"):
            found.setdefault(category, Sign(source.path, line, text))
    return found


@lru_cache(maxsize=64)
def _signs(text: str, is_python: bool, plain_c: bool) -> tuple[tuple[Category, int, str], ...]:
    root = None if is_python else root_of(text, plain_c=plain_c)
    code = _python(text) if root is None else _native(text, root)
    found = []
    for category, pattern in _SHOWS.items():
        if match := pattern.search(code):
            said = " ".join(match.group().split()).removesuffix("(").rstrip()
            found.append((category, code.count("\n", 0, match.start()) + 1, said))
    seen = {category for category, *_ in found}
    if root is not None and "tiling" not in seen:
        found += [("tiling", line, text) for line, text in islice(_tiled(root), 1)]
    return tuple(found)


def _native(text: str, root: Node) -> str:
    """A C or C++ text whose comments are spaces; strings may be assembly."""
    data = bytearray(text.encode(errors="replace"))
    for node in nodes_of(root):
        if node.type == "comment":
            for place in range(node.start_byte, node.end_byte):
                if data[place] != ord("\n"):
                    data[place] = ord(" ")
    return data.decode(errors="replace")


def _tiled(root: Node) -> Iterator[tuple[int, str]]:
    """Lines and steps of loops in which an inner loop starts where the step does."""
    for loop in nodes_of(root):
        if (step := _step(loop)) is None:
            continue
        inner = (node for node in nodes_of(loop) if node.type == "for_statement" and node != loop)
        starts = (node.child_by_field_name("initializer") for node in inner)
        begins = re.compile(rf"=\s*{re.escape(step[1])}\s*;?$")
        if any(start is not None and begins.search(text_of(start)) for start in starts):
            yield line_of(loop), step[0]


def _step(loop: Node) -> re.Match[str] | None:
    """How a `for` loop that goes by more than one steps, and its variable; None of other nodes."""
    update = loop.child_by_field_name("update") if loop.type == "for_statement" else None
    match = re.fullmatch(r"(\w+)\s*\+=\s*(\w+)", text_of(update)) if update is not None else None
    return match if match is not None and match[2] != "1" else None


def _python(text: str) -> str:
    """A Python text whose comments and docstrings are spaces; any other text as it is."""
    try:
        places = [*_comments(text), *_docstrings(text)]
    except (SyntaxError, ValueError, tokenize.TokenError, RecursionError):
        return text
    lines = text.split("\n")
    for (first, begin), (last, end) in places:
        for number in range(first, last + 1):
            line = lines[number - 1]
            left = begin if number == first else 0
            right = end if number == last else len(line)
            lines[number - 1] = line[:left] + " " * (right - left) + line[right:]
    return "\n".join(lines)


_Place = tuple[tuple[int, int], tuple[int, int]]
"""Line and column of a beginning and an end; lines from 1."""


def _comments(text: str) -> Iterator[_Place]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start, token.end


def _docstrings(text: str) -> Iterator[_Place]:
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                end = node.end_lineno or node.lineno, node.end_col_offset or 0
                yield (node.lineno, node.col_offset), end
