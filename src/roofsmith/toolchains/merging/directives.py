"""Preprocessor directives of a C or C++ text, and texts without the ones that lead elsewhere."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from roofsmith.toolchains.grammar import blank_comments

_DIRECTIVE = re.compile(r"\s*#\s*(\w*)\s*(.*)", re.DOTALL)
_PUSH = re.compile(r'push_macro\s*\(\s*"(\w+)"')
_OPENS = ("if", "ifdef", "ifndef")
_SHAPES = (*_OPENS, "elif", "elifdef", "elifndef", "else", "endif", "define", "undef")
"""What decides which includes are read, and how."""
_SWITCH = re.compile(r"_[A-Z0-9_]*_SOURCE|_USE_MATH_DEFINES|__STDC_WANT_\w+|__STDC_\w+_MACROS")
"""Macros that headers of the system look at: they have to be set before the first of them."""


@dataclass(frozen=True, slots=True)
class Directive:
    first: int
    """Its first line, from 0."""
    behind: int
    """The line behind its last one."""
    name: str
    """`define`; empty for a lone `#`."""
    rest: str
    """What follows on the line, without comments, in one line."""

    @property
    def word(self) -> str:
        """The macro that is defined or undefined, or whatever comes first."""
        found = re.match(r"\w+", self.rest)
        return found[0] if found else ""


def directives(text: str, *, cpp: bool) -> Iterator[Directive]:
    """Every directive, in order; none out of comments and raw strings."""
    lines = blank_comments(text, cpp=cpp).split("\n")
    at = 0
    while at < len(lines):
        behind = at + 1
        while behind < len(lines) and lines[behind - 1].rstrip().endswith("\\"):
            behind += 1
        joined = " ".join(line.rstrip().removesuffix("\\") for line in lines[at:behind])
        if found := _DIRECTIVE.fullmatch(joined):
            yield Directive(at, behind, found[1], found[2].strip())
        at = behind


def inlined(path: str, files: Mapping[str, str], *, cpp: bool) -> str:
    """A file with the candidate's own files in the place of its `#include "..."`.

    What isn't among `files` is left to the compiler. A file that includes itself, directly or not,
    is read once: that is what a guard makes of it.
    """
    return _inlined(path, files, (), set(), cpp=cpp)


def _inlined(
    path: str, files: Mapping[str, str], around: tuple[str, ...], once: set[str], *, cpp: bool
) -> str:
    lines = files[path].split("\n")
    for directive in directives(files[path], cpp=cpp):
        own = _own_file(directive, path, files)
        if directive.name == "pragma" and directive.word == "once":
            once.add(path)
            _replace(lines, directive, "")
        elif own is not None:
            skipped = own in once or own in (*around, path)
            text = "" if skipped else _inlined(own, files, (*around, path), once, cpp=cpp)
            _replace(lines, directive, text)
    return "\n".join(lines)


def _own_file(directive: Directive, path: str, files: Mapping[str, str]) -> str | None:
    """The candidate's file that a directive includes."""
    if directive.name != "include" or not directive.rest.startswith('"'):
        return None
    wanted = directive.rest[1:].partition('"')[0]
    beside = posixpath.normpath(posixpath.join(posixpath.dirname(path), wanted))
    return next((f for f in (beside, posixpath.normpath(wanted)) if f in files), None)


def without_includes(text: str, *, cpp: bool) -> str:
    """A text whose own files are inlined, without the includes that are left."""
    lines = text.split("\n")
    for directive in directives(text, cpp=cpp):
        if directive.name in ("include", "include_next"):
            _replace(lines, directive, "")
    return "\n".join(lines)


def includes_alone(text: str, *, cpp: bool) -> str:
    """The includes of a text, and what decides whether and how they are read; empty without any."""
    found = list(directives(text, cpp=cpp))
    last = max((n for n, d in enumerate(found) if d.name == "include"), default=-1)
    kept = [d for d in found[: last + 1] if d.name == "include" or d.name in _SHAPES]
    depth = sum((d.name in _OPENS) - (d.name == "endif") for d in kept)
    raw = text.split("\n")
    lines = [line for d in kept for line in raw[d.first : d.behind]]
    return "\n".join([*lines, *("#endif" for _ in range(depth))])


def switches(texts: Sequence[str], *, cpp: bool) -> str:
    """Definitions of the macros that headers of the system look at, of all texts, for the top."""
    lines: dict[str, str] = {}
    for text in texts:
        for found in directives(text, cpp=cpp):
            if found.name == "define" and _SWITCH.fullmatch(found.word):
                given = f"#define {found.rest}"
                lines.setdefault(found.word, f"#ifndef {found.word}\n{given}\n#endif")
    return "\n".join(lines.values())


def touched_macros(text: str, *, cpp: bool) -> tuple[str, ...]:
    """Macros that mean something else behind a text than before it, in any branch, each once.

    Those that the text pushes are left out: it pops them.
    """
    found = tuple(directives(text, cpp=cpp))
    pushed = {m[1] for d in found if d.name == "pragma" and (m := _PUSH.match(d.rest))}
    named = dict.fromkeys(d.word for d in found if d.name in ("define", "undef") and d.word)
    return tuple(name for name in named if name not in pushed)


def changes_options(text: str, *, cpp: bool) -> bool:
    """Whether a text sets the compiler's options for what follows: `#pragma GCC optimize`."""
    pragmas = (d.rest for d in directives(text, cpp=cpp) if d.name == "pragma")
    return any(re.match(r"GCC\s+(optimize|target)\b", rest) for rest in pragmas)


def _replace(lines: list[str], directive: Directive, text: str) -> None:
    """Put a text in a directive's place; other directives keep their line numbers."""
    lines[directive.first] = text
    for at in range(directive.first + 1, directive.behind):
        lines[at] = ""
