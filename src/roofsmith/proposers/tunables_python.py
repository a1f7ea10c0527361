"""Settings that are written in a Triton or PyTorch module: constants, tune lines, options.

Found with `ast`: integers of the module's top level in capitals (`BLOCK = 1024`), a `# tune:` line
with its choices, and the launch options that Triton defines (`num_warps=4`).
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import replace

from roofsmith.proposers.tunables_choices import around
from roofsmith.proposers.tunables_sites import Site

LAUNCH_OPTIONS = {"num_warps": (1, 2, 4, 8, 16), "num_stages": (1, 2, 3, 4, 5)}
"""Triton's own choices of warps per program and depth of software pipelining: the documentation of
`triton.Config`."""

_TUNE = re.compile(r"#\s*tune:\s*([A-Za-z_]\w*)\s*=\s*(\d+)\s*\[\s*(\d+(?:\s*,\s*\d+)*)\s*,?\s*\]")
_CONSTANT = re.compile(r"[A-Z][A-Z0-9_]*")


def read_python_sites(text: str) -> tuple[Site, ...]:
    """Every setting of a module, in source order; none of a file that isn't Python."""
    try:
        tree = ast.parse(text)
        comments = list(_comments(text))
    except (SyntaxError, tokenize.TokenError):
        return ()
    starts = line_starts(text)
    named = {site.name: site for site in _constants(tree, starts)}
    for line, column, match in comments:
        site = named.get(match.group(1))
        if site is None:
            continue
        begin = starts[line - 1] + len(text.splitlines()[line - 1][:column].encode())
        span = (begin + match.start(2), begin + match.end(2))
        listed = tuple(dict.fromkeys(int(choice) for choice in match.group(3).split(",")))
        spans = (site.spans[0], span)
        named[site.name] = replace(site, kind="declared", choices=listed, spans=spans)
    sites = [*named.values(), *_launch_options(tree, starts)]
    return tuple(sorted(sites, key=lambda site: site.spans))


def _constants(tree: ast.Module, starts: list[int]) -> Iterator[Site]:
    for node in tree.body:
        if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None:
            continue
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        value = _integer(node.value)
        if isinstance(target, ast.Name) and _CONSTANT.fullmatch(target.id) and value is not None:
            choices = around(value, lowest=1)
            yield Site(
                target.id, "declared", value, node.lineno, (span_of(node.value, starts),),
                choices=choices,
            )  # fmt: skip


def _launch_options(tree: ast.Module, starts: list[int]) -> Iterator[Site]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.keyword) or node.arg not in LAUNCH_OPTIONS:
            continue
        value = _integer(node.value)
        if value is not None:
            line = node.value.lineno
            span = span_of(node.value, starts)
            choices = LAUNCH_OPTIONS[node.arg]
            yield Site(f"{node.arg}@{line}", "declared", value, line, (span,), choices=choices)


def _integer(node: ast.expr) -> int | None:
    """A positive integer that is written as one."""
    if isinstance(node, ast.Constant) and type(node.value) is int and node.value > 0:
        return node.value
    return None


def _comments(text: str) -> Iterator[tuple[int, int, re.Match[str]]]:
    """Line and column of every comment that is a `tune:` line."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        match = _TUNE.match(token.string) if token.type == tokenize.COMMENT else None
        if match is not None:
            yield *token.start, match


def line_starts(text: str) -> list[int]:
    """Byte offset of every line."""
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line.encode()))
    return starts


def span_of(node: ast.expr | ast.stmt | ast.arg, starts: list[int]) -> tuple[int, int]:
    """Bytes of a node; columns of `ast` are bytes already."""
    end = starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or node.col_offset)
    return starts[node.lineno - 1] + node.col_offset, end
