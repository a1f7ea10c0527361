"""Enough of the C preprocessor to read one signature as the compiler will see it.

Comments, continuation lines, conditionals, object-like macros and `#include`s of the candidate's
own files are dealt with; lines keep their numbers. Headers of the system and function-like macros
are left alone: whatever a signature takes from them, the reader knows by name or refuses.

A condition that can't be decided here (`__AVX2__`, `__STDC_VERSION__`) is *maybe*: both branches
stay, and a macro that they define differently is not expanded, so that nothing is guessed.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from roofsmith.domain.kernel import Language
from roofsmith.toolchains.conditions import Macros, decide
from roofsmith.toolchains.gpu_dialect import blank_gpu_syntax, gpu_macros
from roofsmith.toolchains.lexical import blank_attributes, blank_comments, expand

_DIALECT: Mapping[str, str | None] = {
    # Spellings that the grammars don't know, and what they mean. None: defined, value not known.
    "__const": "const", "__const__": "const", "__volatile": "volatile",
    "__volatile__": "volatile", "__signed": "signed", "__signed__": "signed",
    "__inline": "inline", "__inline__": "inline", "__extension__": "",
    "__restrict": "__restrict__", "__GNUC__": None, "__linux__": None, "__unix__": None,
    "__STDC__": "1", "_Thread_local": "",
}  # fmt: skip
_MAX_FILES = 100
"""Files that one kernel may include of its own; each may include the next one."""
_PUSH_OR_POP = re.compile(r'(push|pop)_macro\s*\(\s*"(\w+)"\s*\)')
_UNDEFINED = "\0"


@dataclass(frozen=True, slots=True)
class Unit:
    """One preprocessed file: only code, every line where it was."""

    path: str
    text: str


@dataclass
class _Branch:
    """One `#if` that is open. None means maybe, here and everywhere in this file."""

    live: bool | None
    settled: bool
    """An earlier branch was surely taken."""
    doubted: bool
    """An earlier branch may have been taken."""


@dataclass
class Preprocessor:
    """Reads a candidate's files from the kernel file on.

    Args:
        files: path to text, of every file that `#include "..."` may find.
        defined: macros from the command line (`-D`): name to value.
        language: of the kernel.
    """

    files: Mapping[str, str]
    defined: Mapping[str, str]
    language: Language
    units: list[Unit] = field(default_factory=list)
    """Finished files, an included one before the file that includes it."""
    _macros: Macros = field(init=False)
    _gpu: bool = field(init=False)
    _seen: set[str] = field(default_factory=set)
    _pushed: dict[str, list[str | None]] = field(default_factory=dict)
    """What macros were when they were pushed; `_UNDEFINED` where they were none."""

    def __post_init__(self) -> None:
        self._macros = {**_DIALECT, **gpu_macros(self.language), **self.defined}
        self._gpu = self.language in {"cuda", "hip"}
        if self.cpp:
            self._macros |= {"__cplusplus": None, "restrict": "__restrict__"}

    @property
    def cpp(self) -> bool:
        """Whether the language is C++, or an extension of it."""
        return self.language != "c"

    @property
    def visited(self) -> frozenset[str]:
        """Every file that was read, included ones too."""
        return frozenset(self._seen)

    def read(self, path: str) -> None:
        """Preprocess one file and what it includes; the results are in `units`."""
        self._seen.add(path)
        branches: list[_Branch] = []
        lines: list[str] = []
        for line, height in _logical_lines(blank_comments(self.files[path], cpp=self.cpp)):
            words = line.strip()
            if words.startswith("#"):
                self._directive(words[1:].strip(), branches, path)
                lines.append("\n" * height)
            elif _live(branches) is False:
                lines.append("\n" * height)
            else:
                lines.append(expand(line, self._macros) + "\n" * height)
        code = blank_attributes("".join(lines))
        self.units.append(Unit(path, blank_gpu_syntax(code) if self._gpu else code))

    def _directive(self, words: str, branches: list[_Branch], path: str) -> None:
        name, _, rest = words.replace("\t", " ").partition(" ")
        if "(" in name:  # `#if(X)` and `#elif(X)` need no space
            name, _, rest = words.partition("(")
            rest = "(" + rest
        rest = rest.strip()
        match name:
            case "if" | "ifdef" | "ifndef":
                live = self._decide(name, rest)
                branches.append(_Branch(live, settled=live is True, doubted=live is None))
            case "elif" | "else" | "elifdef" | "elifndef" if branches:
                self._next_branch(name, rest, branches[-1])
            case "endif" if branches:
                branches.pop()
            case "define" | "undef" if (live := _live(branches)) is not False:
                self._define(name, rest, surely=live is True)
            case "include" if _live(branches) is not False:
                self._include(rest, path)
            case "pragma" if _live(branches) is not False:
                self._push_or_pop(rest)
            case _:
                pass  # line, error: nothing that a signature is made of

    def _decide(self, name: str, rest: str) -> bool | None:
        word = rest.split()[0] if rest else ""
        match name:
            case "ifdef" | "elifdef":
                return decide(f"defined({word})", self._macros)
            case "ifndef" | "elifndef":
                return decide(f"!defined({word})", self._macros)
            case "else":
                return True
            case _:
                return decide(rest, self._macros)

    def _next_branch(self, name: str, rest: str, branch: _Branch) -> None:
        if branch.settled:
            branch.live = False
            return
        live = self._decide(name, rest)
        branch.settled = live is True and not branch.doubted
        branch.live = None if live and branch.doubted else live
        branch.doubted = branch.doubted or live is None

    def _define(self, directive: str, rest: str, *, surely: bool) -> None:
        name = _leading_identifier(rest)
        after = rest[len(name) :]
        if not name or (directive == "define" and after.startswith("(")):
            self._macros.pop(name, None)  # a function-like macro hides an object-like one
        elif directive == "undef":
            if surely:
                self._macros.pop(name, None)
            elif name in self._macros:
                self._macros[name] = None
        elif surely or self._macros.get(name, after.strip()) == after.strip():
            self._macros[name] = after.strip()
        else:
            self._macros[name] = None

    def _push_or_pop(self, rest: str) -> None:
        found = _PUSH_OR_POP.match(rest)
        if found is None:
            return
        name, pushed = found[2], self._pushed.setdefault(found[2], [])
        if found[1] == "push":
            pushed.append(self._macros.get(name, _UNDEFINED))
        elif pushed and (before := pushed.pop()) != _UNDEFINED:
            self._macros[name] = before
        else:
            self._macros.pop(name, None)

    def _include(self, rest: str, path: str) -> None:
        if not rest.startswith('"'):
            return
        wanted = rest[1:].partition('"')[0]
        beside = posixpath.normpath(posixpath.join(posixpath.dirname(path), wanted))
        for found in (beside, posixpath.normpath(wanted)):
            if found in self.files:
                if found not in self._seen and len(self._seen) < _MAX_FILES:
                    self.read(found)
                return


def _live(branches: list[_Branch]) -> bool | None:
    states = {branch.live for branch in branches}
    if False in states:
        return False
    return None if None in states else True


def _leading_identifier(text: str) -> str:
    end = 0
    while end < len(text) and (text[end].isalnum() or text[end] == "_"):
        end += 1
    return text[:end]


def _logical_lines(text: str) -> Iterator[tuple[str, int]]:
    """Lines with their continuations joined, and how many lines of the file each one took."""
    held, height = "", 0
    for line in text.split("\n"):
        height += 1
        if line.rstrip().endswith("\\"):
            held += line.rstrip()[:-1] + " "
            continue
        yield held + line, height
        held, height = "", 0
    if height:
        yield held, height
