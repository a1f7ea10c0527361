"""Reference projects: folders of other people's kernels, searched by symbol, language and operator.

They are read anew each time, within limits on size and count; nothing in them is run, followed or
believed.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from roofsmith.analysis.family_guess import FAMILY_WORDS, mentions, words_of
from roofsmith.domain.references import ReferenceHit, ReferenceSearch
from roofsmith.errors import UsageError
from roofsmith.wording import printable

MOST_FILES: Final = 20_000
MAX_BYTES: Final = 512 * 1024
"""Of a file; a larger source is generated."""
MOST_BYTES: Final = 32 << 20
"""Of all files together: some seconds."""
MOST_HITS: Final = 6
_LINE: Final = 200
_LINE_DIGITS: Final = 9
_AROUND: Final = 40
"""Lines that are shown from the one that is asked for."""
_LANGUAGES: Final[Mapping[str, str]] = {
    ".cu": "cuda", ".cuh": "cuda", ".hip": "hip", ".c": "c", ".cc": "cpp", ".cpp": "cpp",
    ".cxx": "cpp", ".h": "cpp", ".hpp": "cpp", ".py": "python",
    ".md": "prose",
}  # fmt: skip
_GLOBAL: Final = re.compile(
    r"__global__\b(?:__launch_bounds__\s{0,9}\([^()]{0,99}\)|[\w:<>,*&\s]){0,120}?"
    r"\b(?!__launch)(\w+)\s{0,9}\("
)
_C_FUNCTION: Final = re.compile(
    r"^(?:static |inline |extern \"C\" )*(?:void|float|double) (\w+)\(", re.MULTILINE
)
_DECORATED: Final = re.compile(
    r"^@(triton|cute|flydsl|flyc|tilelang|T|numba|cuda)\b[^\n]*\n"
    r"(?:[@ )\]}#][^\n]*\n){0,40}?def (\w+)",
    re.MULTILINE,
)
_DSL: Final = {"cute": "cutedsl", "flyc": "flydsl", "T": "tilelang", "cuda": "numba"}
_NAME, _PATH, _TEXT = 4, 2, 1
"""What a word of the query counts for where it is found."""


@dataclass(frozen=True, slots=True)
class Source:
    path: Path
    language: str
    text: str

    @property
    def kernels(self) -> tuple[tuple[str, int, str], ...]:
        """Name, line and language of every kernel in it."""
        if self.language == "python":
            found = [
                (match[2], match.start(2), _DSL.get(match[1], match[1]))
                for match in _DECORATED.finditer(self.text)
            ]
        else:
            hip = "hip/hip_runtime" in self.text
            on_gpu = "hip" if hip or self.language == "hip" else "cuda"
            found = [(m[1], m.start(1), on_gpu) for m in _GLOBAL.finditer(self.text)]
            if not found and self.language in ("c", "cpp"):
                found = [(m[1], m.start(1), "c") for m in _C_FUNCTION.finditer(self.text)]
        ends = [match.end() for match in re.finditer("\n", self.text)]
        return tuple((name, bisect_right(ends, at) + 1, kind) for name, at, kind in found)


@dataclass(slots=True)
class Projects:
    """Folders that are read, and what of them isn't."""

    folders: tuple[Path, ...]
    files: int = 0
    left_out: Counter[str] = field(default_factory=Counter)

    def sources(self) -> Iterator[Source]:
        """Every source file once, folder by folder, in order of its path."""
        self.files, total, seen = 0, 0, set[Path]()
        self.left_out.clear()
        for folder in self.folders:
            root = folder.resolve()
            if not root.is_dir():
                self.left_out[f"{folder} is no folder"] += 1
            for path in _walk(root):
                language = _LANGUAGES.get(path.suffix.lower())
                if language is None or path in seen:
                    continue
                seen.add(path)
                if self.files >= MOST_FILES or total >= MOST_BYTES:
                    self.left_out[f"beyond {MOST_FILES} files or {MOST_BYTES} byte"] += 1
                    return
                text = self.read(path, root)
                if text is not None:
                    self.files += 1
                    total += len(text)
                    yield Source(path, language, text)

    def search(self, query: str, language: str | None = None) -> ReferenceSearch:
        """The kernels, and lines of files without one, that a query tells of; the best first.

        Args:
            query: words; of an operator, its other names count as well.
            language: of the kernel; hits in it come before others that match as well.
        """
        wanted = {word: _synonyms(word) for word in words_of(query)}
        ranked: list[tuple[int, str, ReferenceHit]] = []
        for source in self.sources():
            for score, hit in _hits(source, wanted, language):
                ranked.append((-score, hit.where, hit))
        ranked.sort(key=lambda one: one[:2])
        return ReferenceSearch(
            query=query,
            folders=tuple(map(str, self.folders)),
            files=self.files,
            hits=tuple(hit for _, _, hit in ranked[:MOST_HITS]),
            left_out=self.reasons,
        )

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why files weren't read, each with how many."""
        return tuple(f"{count} x {why}" for why, count in sorted(self.left_out.items()))

    def read(self, path: Path, root: Path) -> str | None:
        """A file's text; None, and counted among what is left out, where it isn't to be read."""
        try:
            if not path.resolve().is_relative_to(root):
                self.left_out["link that leads out"] += 1
            elif not path.is_file():
                self.left_out["no file"] += 1
            elif path.stat().st_size > MAX_BYTES:
                self.left_out[f"larger than {MAX_BYTES} byte"] += 1
            elif b"\0" in (data := path.read_bytes()):
                self.left_out["binary"] += 1
            else:
                return data.decode("utf-8", errors="replace")
        except OSError:
            self.left_out["unreadable"] += 1
        return None


def show_reference(place: str, folders: Sequence[Path]) -> tuple[Path, tuple[tuple[int, str], ...]]:
    """The lines of a file of a reference project, from `FILE:LINE` on.

    Raises:
        UsageError: it is no file of the projects, none that is read, or has no such line.
    """
    name, _, number = place.rpartition(":")
    is_line = name and number.isdecimal() and len(number) < _LINE_DIGITS
    name, first = (name, int(number)) if is_line else (place, 1)
    for folder in folders:
        for path in (folder / name, folder.parent / name):
            real = path.resolve()
            if real.is_file() and real.is_relative_to(folder.resolve()):
                projects = Projects((folder,))
                text = projects.read(real, folder.resolve())
                if text is None:
                    raise UsageError(f"{name} isn't read: {', '.join(projects.left_out)}")
                lines = printable(text).removesuffix("\n").split("\n")
                if first > len(lines):
                    raise UsageError(f"{name} has {len(lines)} lines, and none is {first}")
                end = min(len(lines), first - 1 + _AROUND)
                return real, tuple((n + 1, lines[n]) for n in range(max(0, first - 1), end))
    raise UsageError(
        f"{name} is no file of the reference projects",
        hint="`roofsmith knowledge references search WORDS` prints places that are",
    )


def _walk(root: Path) -> Iterator[Path]:
    for folder, names, files in os.walk(root):
        names[:] = sorted(name for name in names if not name.startswith("."))
        yield from (Path(folder) / name for name in sorted(files))


def _synonyms(word: str) -> frozenset[str]:
    return frozenset(
        {word, *(w for names in FAMILY_WORDS.values() if word in names for w in names)}
    )


def _hits(
    source: Source, wanted: Mapping[str, frozenset[str]], language: str | None
) -> Iterator[tuple[int, ReferenceHit]]:
    path = "/".join(source.path.parts[-2:])
    text = {*words_of(source.text), *words_of(path)}
    if 2 * sum(bool(alike & text) for alike in wanted.values()) < len(wanted):
        return
    lines = source.text.split("\n")
    for name, line, kind in source.kernels or (("", _best_line(lines, wanted), source.language),):
        counts = {
            word: _NAME if mentions(name, alike)
            else _PATH if mentions(path, alike)
            else _TEXT * bool(alike & text)
            for word, alike in wanted.items()
        }  # fmt: skip
        hit = ReferenceHit(
            where=printable(f"{source.path}:{line}"),
            symbol=name,
            language=kind,
            text=printable(lines[line - 1].strip()[:_LINE]),
            words=tuple(word for word, count in counts.items() if count),
        )
        yield 4 * sum(counts.values()) + 2 * (kind == language) + bool(name), hit


def _best_line(lines: Sequence[str], wanted: Mapping[str, frozenset[str]]) -> int:
    """The first line with the most words of a query."""
    every = frozenset().union(*wanted.values())
    counts = [len(every.intersection(words_of(line))) for line in lines]
    return counts.index(max(counts)) + 1 if counts else 1
