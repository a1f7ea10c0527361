"""A page of the library: Markdown with front matter, and directions as README.md describes them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, Final, get_args
from urllib.parse import unquote

from roofsmith.domain.knowledge import KnownDirection, PageFinding
from roofsmith.domain.profile import BottleneckKind
from roofsmith.domain.values import Value
from roofsmith.errors import UsageError
from roofsmith.wording import printable
from roofsmith.yaml_document import parse_yaml

MAX_DIRECTION: Final = 3000
"""Characters; campaigns keep each that fits them."""
_FENCE: Final = "---"
_SCOPES: Final = {"ops": "op", "hardware": "gpu", "backend": "lang"}
"""Folder to the key of the front matter that the name of what is in it stands for."""
_KEYS: Final = ("title", "sources", *_SCOPES.values())
_BOTTLENECKS: Final = frozenset(get_args(BottleneckKind))
_SIDES: Final = ("host", "gpu")
_ITEM: Final = re.compile(r"- (change|moves|hurts|measured|source): *(.*)")
_NEEDED: Final = ("change", "moves", "hurts", "source")
_CODE: Final = re.compile(r"`[^`]*`")
_LINK: Final = re.compile(r"\]\(([^)\s:#]{1,200}\.md)[#)]")
_KEY: Final = re.compile(r"(?<![\w)\]])\[([a-z][\w-]*)\](?![(\[])")


class LibraryPage(Value):
    id: str
    """Its path in the library, without `.md`."""
    file: Path
    own: bool
    """Of the user's own folder."""
    title: str
    op: tuple[str, ...]
    gpu: tuple[str, ...]
    """Architectures, as patterns: `sm_90`, `gfx*`."""
    lang: tuple[str, ...]
    """Of these three, an empty one holds for all."""
    sources: dict[str, str]
    """What a text was written from, by the key that it cites: `[key]`."""
    text: str
    """All of it, as it is written; what steers a terminal is spelled out."""
    directions: tuple[KnownDirection, ...]

    @property
    def links(self) -> Iterator[tuple[int, str]]:
        """Line and id of every page that it refers to."""
        for number, line in enumerate(self.text.splitlines(), start=1):
            for match in _LINK.finditer(line):
                link = printable(unquote(match[1]))
                yield number, _resolved(PurePosixPath(self.id).parent / link)


def read_page(
    id_: str, file: Path, text: str, *, own: bool
) -> tuple[LibraryPage | None, tuple[PageFinding, ...]]:
    """The page in a text, and what is wrong with it; no page where its front matter is no good.

    Args:
        id_: its path in the library, without `.md`.
        own: whether it is of the user's own folder.
    """
    lines = printable(text.removeprefix("\ufeff")).splitlines()
    try:
        given, start = _front_matter(lines, file)
    except UsageError as error:
        return None, (PageFinding(code="front_matter", path=str(file), detail=error.message),)
    sources = {key: str(value) for key, value in given.get("sources", {}).items()}
    directions, findings = _directions(id_, file, lines, start, sources)
    heading = next((line[2:] for line in lines[start:] if line.startswith("# ")), id_)
    scopes = {key: _names(given.get(key, ())) for key in _SCOPES.values()}
    folder, *below = PurePosixPath(id_).parts
    if folder in _SCOPES and below and _SCOPES[folder] not in given and below[0] != "overview":
        scopes[_SCOPES[folder]] = _names(below[0])
    page = LibraryPage(
        id=id_, file=file, own=own, title=str(given.get("title", heading)), **scopes,
        sources=sources, text="\n".join(lines) + "\n", directions=directions,
    )  # fmt: skip
    return page, findings


def normal(name: str) -> str:
    """One spelling of an operator, an architecture or a language."""
    return name.strip().lower().replace("-", "_")


def _names(given: Any) -> tuple[str, ...]:
    return tuple(normal(str(name)) for name in ([given] if isinstance(given, str) else given))


def _front_matter(lines: list[str], file: Path) -> tuple[dict[str, Any], int]:
    """What stands between two lines of three dashes at the top, and the line behind it."""
    if not lines or lines[0] != _FENCE:
        return {}, 0
    if _FENCE not in lines[1:]:
        raise UsageError(f"{file}:1: the front matter has no end; close it with a line of {_FENCE}")
    end = lines.index(_FENCE, 1)
    text = "\n".join(["", *lines[1:end]])
    given = parse_yaml(text, file, UsageError, start_from="docs/knowledge.md shows a page").data
    for key, value in given.items():
        kind = {"title": str, "sources": dict}.get(key, (list, str))
        if key not in _KEYS or not isinstance(value, kind):
            raise UsageError(f"{file}: {key} is no key of a page, or has no such value")
    return given, end + 1


def _directions(
    id_: str, file: Path, lines: list[str], start: int, sources: Mapping[str, str]
) -> tuple[tuple[KnownDirection, ...], tuple[PageFinding, ...]]:
    """Sections that begin with the bottlenecks that they answer; and keys without a source."""
    found, findings = list[KnownDirection](), list[PageFinding]()

    def wrong(code: Any, line: int, detail: str) -> None:
        findings.append(PageFinding(code=code, path=str(file), line=line, detail=detail))

    for at, line in enumerate(lines[start:], start):
        if line.startswith("### ") and ":" in line:
            kinds, _, title = line[4:].partition(":")
            words = [kind.strip() for kind in kinds.split(",")]
            side = words.pop(0) if words[0] in _SIDES else None
            if not words or not _BOTTLENECKS.issuperset(words):
                continue  # an ordinary heading
            items = _items(islice(lines, at + 1, None))
            if missing := [key for key in _NEEDED if not items.get(key)]:
                wrong("direction", at + 1, f"{title.strip()} says nothing of {', '.join(missing)}")
            elif sum(map(len, items.values())) > MAX_DIRECTION:
                wrong("direction", at + 1, f"it has more than {MAX_DIRECTION} characters")
            else:
                entry = {"page": id_, "answers": words, "side": side, "title": title.strip()}
                found.append(KnownDirection.model_validate(entry | items))
        cited = _KEY.findall(_CODE.sub("", line))
        if match := _ITEM.match(line):
            cited += re.findall(r"[a-z][\w-]*", match[2]) if match[1] == "source" else []
        for key in cited:
            if key not in sources:
                wrong("unknown_source", at + 1, f"{key} is none of its sources")
    return tuple(found), tuple(findings)


def _items(lines: Iterable[str]) -> dict[str, str]:
    """The items below a heading; indented lines go on with the one before."""
    items: dict[str, str] = {}
    key = None
    for line in lines:
        if line.startswith("#"):
            break
        if match := _ITEM.match(line):
            key = match[1]
            items[key] = match[2]
        elif key is not None and line.startswith("  "):
            items[key] += f" {line.strip()}"
        else:
            key = None
    return items


def _resolved(path: PurePosixPath) -> str:
    """The id of a page, from a path that may go up; one out of the library has `..` in it."""
    parts: list[str] = []
    for part in path.with_suffix("").parts:
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        else:
            parts.append(part)
    return "/".join(parts)
