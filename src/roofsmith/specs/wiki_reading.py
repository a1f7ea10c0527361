"""A wiki page's text as a page, or everything that is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from roofsmith.domain.facts import Citation
from roofsmith.errors import UsageError
from roofsmith.specs.wiki_page import Page, Statement, WikiEntry
from roofsmith.specs.wiki_problems import Code, PageProblem
from roofsmith.specs.wiki_schema import (
    ALIAS_UNITS,
    FACTS,
    REQUIRED,
    UNITS,
    is_fact,
    is_list,
    known_below,
)
from roofsmith.yaml_document import Location, YamlDocument, parse_yaml

VERSION = 1
"""Of the page format."""

_START = "copy a page that `roofsmith specs list` names, and change it"
_ID = re.compile(r"[a-z0-9][a-z0-9-]*")
_PREFIXES = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "Ki": 1024, "Mi": 1 << 20}
_UNSIGNED = re.compile(r"[-+]?[0-9.]+[eE][0-9]+")
"""What YAML 1.1 takes for a text: its numbers have a point and a sign in the exponent."""
_TOP = ("schema_version", "id", "short", "identity", "disagreements", "unknown")


class NotAPageError(Exception):
    """A text is no page; `problems` says why."""

    def __init__(self, problems: tuple[PageProblem, ...]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


@lru_cache(maxsize=256)
def read_page(text: str, file: Path, origin: str) -> Page:
    """The page in a text; read once in a process, which asks the wiki for every proposal.

    Args:
        file: for messages; its stem must be the page's id.
        origin: what citations of the page say.

    Raises:
        NotAPageError: with every problem that was found.
    """
    try:
        document = parse_yaml(text.removeprefix("\ufeff"), file, UsageError, start_from=_START)
    except UsageError as error:
        raise NotAPageError((_not_yaml(file, error),)) from error
    return _Reading(document, origin).page()


def _not_yaml(file: Path, error: UsageError) -> PageProblem:
    found = re.match(r":(\d+)?:? ?(.*)", error.message.removeprefix(str(file)), re.DOTALL)
    line, detail = found.groups() if found else (None, error.message)
    return PageProblem(
        code="not_yaml", path=str(file), line=int(line) if line else None, detail=detail,
        fix=error.hint or "mend the line; docs/specs.md shows a page",
    )  # fmt: skip


class _Reading:
    def __init__(self, document: YamlDocument, origin: str) -> None:
        self.document = document
        self.origin = origin
        self.entries: dict[str, WikiEntry] = {}
        self.problems: list[PageProblem] = []
        self.notes: list[str] = []

    def page(self) -> Page:
        data = self.document.data
        self._heading(data)
        aliases = self._aliases(data.get("identity"))
        for key, value in data.items():
            if key == "identity" and isinstance(value, dict):
                self._section(("identity",), {k: v for k, v in value.items() if k != "aliases"})
            elif key not in _TOP or key == "identity":
                self._section((key,), value)
        for metric in REQUIRED:
            if metric not in self.entries and not self._faulty(metric):
                fix = "add it, with value, unit and source, as other pages have it"
                self._wrong("missing_key", (), f"{metric} is missing", fix)
        self._sparse_below_dense()
        texts = {key: self._texts(key) for key in ("short", "disagreements", "unknown")}
        if self.problems:
            raise NotAPageError(tuple(self.problems))
        return Page(
            id=data["id"],
            file=self.document.path,
            origin=self.origin,
            short=texts["short"],
            aliases=aliases,
            entries=self.entries,
            notes=(*self.notes, *texts["disagreements"]),
            unknown=texts["unknown"],
        )

    def _heading(self, data: Mapping[str, Any]) -> None:
        version, stem = data.get("schema_version"), self.document.path.stem
        if version != VERSION:
            code: Code = "missing_key" if version is None else "wrong_type"
            detail = f"schema_version is {'missing' if version is None else version}"
            self._wrong(code, ("schema_version",), detail, f"write schema_version: {VERSION}")
        if "id" not in data:
            self._wrong("missing_key", (), "id is missing", f"write id: {stem}")
        elif data["id"] != stem or not _ID.fullmatch(stem):
            detail = f"id {data['id']!r} in a file called {self.document.path.name}"
            fix = "call the file <id>.yaml; an id has small letters, digits and hyphens"
            self._wrong("wrong_id", ("id",), detail, fix)

    def _texts(self, key: str) -> tuple[str, ...]:
        found = self.document.data.get(key, [])
        if not isinstance(found, list):
            self._wrong("wrong_type", (key,), f"{key} is no list", "write - text, a line each")
            return ()
        for index, item in enumerate(found):
            if not isinstance(item, str) or not item.strip():
                fix = "put it in quotes: '…'"
                self._wrong("wrong_type", (key, index), f"{key} holds {item!r}, no text", fix)
        return tuple(map(str, found))

    def _aliases(self, identity: Any) -> tuple[WikiEntry, ...]:
        found = identity.get("aliases", []) if isinstance(identity, dict) else []
        at = ("identity", "aliases")
        if not isinstance(found, list):
            self._wrong("wrong_type", at, "aliases is no list", "begin each with - value: NAME")
            return ()
        entries = [self._entry((*at, index), item) for index, item in enumerate(found)]
        return tuple(entry for entry in entries if entry is not None)

    def _section(self, at: Location, value: Any) -> None:
        metric = ".".join(map(str, at))
        if metric == "peak_rates.note":
            self._note(at, value)
        elif is_fact(metric):
            entry = self._entry(at, value)
            if entry is not None:
                self.entries[metric] = entry
        elif not _is_section(at):
            self._wrong("unknown_key", at, f"{metric} is no fact of a page", _similar(at))
        elif not isinstance(value, dict):
            detail = f"{metric} holds {_shown(value)}"
            self._wrong("wrong_type", at, detail, f"facts go below it: {_list(metric)}")
        else:
            for key, item in value.items():
                self._section((*at, key), item)

    def _note(self, at: Location, value: Any) -> None:
        if isinstance(value, str):
            self.notes.append(value)
        else:
            self._wrong("wrong_type", at, f"the note holds {_shown(value)}", "write a text")

    def _entry(self, at: Location, value: Any) -> WikiEntry | None:
        metric = "identity.aliases" if at[:2] == ("identity", "aliases") else ".".join(map(str, at))
        if not isinstance(value, dict):
            fix = "write value, unit, source and quality below it"
            self._wrong("wrong_type", at, f"{metric} holds {_shown(value)}, no fact", fix)
            return None
        given = {k: tuple(v) if isinstance(v, list) else v for k, v in value.items()}
        try:
            told = Statement.model_validate(given)
        except ValidationError as error:
            self._invalid(at, metric, value, error)
            return None
        before = len(self.problems)
        self._unit(at, metric, told)
        self._value(at, metric, told)
        if len(self.problems) > before:
            return None
        line = self.document.lines[*at, "value"]
        return WikiEntry(metric, told, Citation(path=self.origin, line=line))

    def _invalid(self, at: Location, metric: str, value: Any, error: ValidationError) -> None:
        seen = set()
        for detail in error.errors():
            # A union fails once per member, with the member's name behind the key.
            location = tuple(detail["loc"][:1] if detail["loc"][0] == "value" else detail["loc"])
            if location not in seen:
                seen.add(location)
                self._wrong(*_explained(at, location, metric, value, detail))

    def _unit(self, at: Location, metric: str, told: Statement) -> None:
        if metric == "identity.aliases":
            allowed: tuple[str, ...] = ALIAS_UNITS
        elif (own := FACTS.get(metric)) is not None:
            allowed = (own,)
        else:
            allowed = tuple(sorted(UNITS))
        if told.unit not in allowed:
            detail = f"{metric} in {told.unit!r}"
            fix = f"give it in {' or '.join(allowed)}"
            factor = _factor(told.unit, allowed)
            fix += f": multiply the value by {factor:g}" if factor else ""
            self._wrong("bad_unit", (*at, "unit"), detail, fix)

    def _value(self, at: Location, metric: str, told: Statement) -> None:
        value, at = told.value, (*at, "value")
        if told.unit in ALIAS_UNITS:
            if not isinstance(value, str) or not value.strip():
                fix = "put it in quotes: '…'"
                self._wrong("wrong_type", at, f"{metric} is {_shown(value)}, no text", fix)
        elif isinstance(value, tuple) != is_list(metric) or isinstance(value, str):
            wanted = _wanted(metric)
            fix = _as_number(value) or f"write {wanted}"
            self._wrong("wrong_type", at, f"{metric} is {_shown(value)}, not {wanted}", fix)
        elif isinstance(value, tuple):
            if any(item < 0 for item in value):
                self._wrong("not_positive", at, f"{metric} holds a negative size", "leave it out")
        elif not value > 0:
            fix = "leave out what isn't known: it is UNKNOWN then, never 0"
            self._wrong("not_positive", at, f"{metric} is {value}", fix)

    def _sparse_below_dense(self) -> None:
        for metric, entry in self.entries.items():
            dense = self.entries.get(metric.replace(".sparse.", ".dense."))
            if ".sparse." not in metric or dense is None:
                continue
            if cast("float", entry.number) < cast("float", dense.number):
                detail = f"{metric} {entry.said} is below the dense {dense.said}"
                fix = "sparse rates are those with 2:4 sparsity: have the two been swapped?"
                self._wrong("sparse_below_dense", (*metric.split("."), "value"), detail, fix)

    def _faulty(self, metric: str) -> bool:
        return any(metric in problem.detail for problem in self.problems)

    def _wrong(self, code: Code, at: Location, detail: str, fix: str) -> None:
        line = next(
            (self.document.lines[at[:n]] for n in range(len(at), 0, -1)
             if at[:n] in self.document.lines),
            None,
        )  # fmt: skip
        path = str(self.document.path)
        self.problems.append(PageProblem(code=code, path=path, line=line, detail=detail, fix=fix))


def _explained(
    at: Location, location: Location, metric: str, value: Mapping[str, Any], detail: ErrorDetails
) -> tuple[Code, Location, str, str]:
    """A pydantic error of a statement as one of ours."""
    key, dotted = str(location[0]), ".".join(map(str, location))
    here: Location = (*at, *location)
    if key == "source" and (len(location) == 1 or location[1] == "title"):
        gone = detail["type"] == "missing"
        found = f"no {dotted}" if gone else f"{dotted} {_shown(detail['input'])}"
        fix = "say where the number was published: source: {title: …, url: …, locator: …}"
        return "missing_source", here, f"{metric} has {found}", fix
    match detail["type"]:
        case "missing":
            return "missing_key", here, f"{metric} has no {dotted}", f"write {dotted}: …"
        case "extra_forbidden":
            known = list(Statement.model_fields) if len(location) == 1 else []
            fix = f"known: {', '.join(known)}" if known else "leave it out"
            return "unknown_key", here, f"{metric} has no use for {dotted}", fix
        case _:
            said = f"{metric}: {dotted} is {_shown(detail['input'])}"
            fix = _as_number(detail["input"]) or detail["msg"]
            if key == "value":
                text = value.get("unit") in ALIAS_UNITS
                fix = f"write {'a text' if text else _wanted(metric)}"
            return "wrong_type", here, said, fix


def _wanted(metric: str) -> str:
    return "a list of numbers" if is_list(metric) else "a number"


def _is_section(at: Location) -> bool:
    *above, key = map(str, at)
    return key in known_below(".".join(above))


def _similar(at: Location) -> str:
    above, key = ".".join(map(str, at[:-1])), str(at[-1])
    known = [*known_below(above), *(_TOP if not above else ())]
    close = get_close_matches(key, known, n=1)
    if close:
        return f"did you mean {close[0]}?"
    return f"known: {', '.join(known)}" if known else "names have small letters, digits and _"


def _list(metric: str) -> str:
    known = known_below(metric)
    return ", ".join(known[:3]) + (", …" if len(known) > 3 else "")


def _shown(value: Any) -> str:
    match value:
        case None:
            return "empty"
        case dict():
            return "a mapping"
        case list() | tuple():
            return "a list"
        case _:
            text = repr(value)
            return text if len(text) <= 40 else f"{text[:39]}…"


def _as_number(value: Any) -> str | None:
    if not isinstance(value, str) or not _UNSIGNED.fullmatch(value):
        return None
    try:
        return f"YAML takes that for a text; write {float(value):e}"
    except ValueError:
        return None


def _factor(unit: str, allowed: tuple[str, ...]) -> float | None:
    for prefix, factor in _PREFIXES.items():
        rest = unit.removeprefix(prefix)
        for base in allowed:
            if unit.startswith(prefix) and rest in (base, base.replace("byte", "B")):
                return factor
    return None
