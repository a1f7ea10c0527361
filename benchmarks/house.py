"""The package's size and shape beside the budgets that hold for it: `make house`.

Budgets stand in pyproject.toml, under [tool.roofsmith.house]: figures of the day on which they were
set, rounded up. It ends with 1 where one is exceeded; raising one is a line of the commit that
needs it. `make house ARGS=--walk` runs the demo, too, and counts the files that its first
kept round runs through; `ARGS=--names` lists what makes up the figures.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import sys
import tempfile
import threading
import tomllib
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from xml.etree import ElementTree

import grimp
from rich.console import Console
from rich.table import Table

from roofsmith import api
from roofsmith.domain.campaign import Campaign, Committed, Event
from roofsmith.domain.proposal import Planned
from roofsmith.testing.observer import SilentObserver

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "roofsmith"
KERNELS = (PACKAGE / "selftest" / "corpus", PACKAGE / "selftest" / "operators")
"""Kernels and references to try the judge on: material, not program."""
LAST_SUITE = ROOT / ".venv" / "suite.xml"
"""Written by `make test`."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One row: what is counted, and the most that it may be."""

    name: str
    value: int
    budget: int
    names: tuple[str, ...] = ()
    """Of what is counted, where it isn't lines."""

    @property
    def is_over(self) -> bool:
        return self.value > self.budget


def figures(
    budgets: Mapping[str, int], rooms: Mapping[str, int], *, walk: bool
) -> Iterator[Figure]:
    """All of them; a room without a budget may hold nothing."""
    program = modules()
    yield Figure("package", lines(program), budgets["package"])
    for name, paths in sorted(by_room(program).items()):
        yield Figure(f"  {name}", lines(paths), rooms.get(name, 0))
    yield Figure("tests", lines((ROOT / "tests").rglob("*.py")), budgets["tests"])
    named = {
        "ports": protocols(PACKAGE / "ports.py"),
        "circles": circles(with_types=False),
        "circles-with-types": circles(with_types=True),
        "names-of-several-classes": ambiguous(program),
        **({"files-to-a-commit": walked()} if walk else {}),
    }
    for name, found in named.items():
        yield Figure(name, len(found), budgets[name], tuple(found))


def modules() -> list[Path]:
    """The package's files, without kernels that the judge is tried on."""
    found = sorted(PACKAGE.rglob("*.py"))
    return [path for path in found if not any(path.is_relative_to(folder) for folder in KERNELS)]


def by_room(paths: Iterable[Path]) -> dict[str, list[Path]]:
    """The same by the folder under the package; files beside these are the room `.`."""
    rooms: dict[str, list[Path]] = {}
    for path in paths:
        inside = path.relative_to(PACKAGE).parts
        rooms.setdefault(inside[0] if len(inside) > 1 else ".", []).append(path)
    return rooms


def lines(paths: Iterable[Path]) -> int:
    """As `wc -l` counts them."""
    return sum(path.read_bytes().count(b"\n") for path in paths)


def classes(path: Path) -> Iterator[ast.ClassDef]:
    """That a file defines at its top."""
    body = ast.parse(path.read_bytes()).body
    return (node for node in body if isinstance(node, ast.ClassDef))


def protocols(path: Path) -> list[str]:
    """Names of the Protocols of a file."""
    return [
        found.name
        for found in classes(path)
        if any(ast.unparse(base).startswith("Protocol") for base in found.bases)
    ]


def ambiguous(paths: Iterable[Path]) -> list[str]:
    """Public names of classes that several files define."""
    names = Counter(found.name for path in paths for found in classes(path))
    return sorted(n for n, times in names.items() if times > 1 and not n.startswith("_"))


@cache
def imports(with_types: bool) -> dict[str, frozenset[str]]:
    """Which module imports which, also inside functions; `with_types`: also for types alone."""
    graph = grimp.build_graph(
        "roofsmith", exclude_type_checking_imports=not with_types, cache_dir=None
    )
    return {
        name: frozenset(graph.find_modules_directly_imported_by(name)) for name in graph.modules
    }


def circles(with_types: bool) -> list[str]:
    """Groups of modules that all reach one another by imports."""
    graph = imports(with_types)
    reach = {name: reached(name, graph) for name in graph}
    groups = {
        frozenset({name, *(other for other in reach[name] if name in reach[other])})
        for name in graph
        if name in reach[name]
    }
    return sorted(" - ".join(sorted(group)) for group in groups)


def reached(start: str, graph: Mapping[str, frozenset[str]]) -> set[str]:
    """Modules that one imports, directly or not."""
    found: set[str] = set()
    ahead = [start]
    while ahead:
        new = graph[ahead.pop()] - found
        found |= new
        ahead += new
    return found


class Kept(BaseException):
    """The first change was kept and committed."""


class Walk(SilentObserver):
    """Notes which code runs from a round's plan to its commit, and ends the campaign there."""

    def __init__(self) -> None:
        self.ran: set[CodeType] = set()

    def event(self, event: Event, campaign: Campaign) -> None:
        if isinstance(event, Planned):
            self.ran = {frame.f_code for frame, _ in traceback.walk_stack(None)}
            threading.setprofile(self._note)
            sys.setprofile(self._note)
        elif isinstance(event, Committed) and campaign.kept:
            raise Kept

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            self.ran.add(frame.f_code)


def walked() -> list[str]:
    """Files whose functions `roofsmith demo` runs in its own process for the first kept round.

    From the plan of its change to its commit, and the calls that led there. Without nouns and pure
    functions (domain/, analysis/); what workers and compilers run isn't seen.
    """
    walk = Walk()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        try:
            api.demo(api.choose_demo(cpu=True), Path(folder) / "campaign", 1, api.settings(), walk)
        except Kept:
            pass
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
    ran = {Path(code.co_filename) for code in walk.ran if code.co_flags & inspect.CO_OPTIMIZED}
    inside = {path.relative_to(PACKAGE) for path in ran if path.is_relative_to(PACKAGE)}
    files = (path for path in inside if path.suffix == ".py")
    return sorted(str(path) for path in files if path.parts[0] not in ("domain", "analysis"))


def suite() -> str:
    """Of the last `make test` here."""
    if not LAST_SUITE.exists():
        return "not known: run make test"
    found = ElementTree.parse(LAST_SUITE).getroot()[0].attrib
    return f"{float(found['time']) / 60:.1f} minutes, {found['tests']} cases"


def table(found: Iterable[Figure]) -> Table:
    """A row per figure; what is over its budget in red."""
    drawn = Table("figure", "today", "budget")
    for one in found:
        style = "bold red" if one.is_over else None
        drawn.add_row(one.name, f"{one.value:,}", f"{one.budget:,}", style=style)
    return drawn


def main() -> int:
    """Print the table, and what is over its budget."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--walk", action="store_true")
    parser.add_argument("--names", action="store_true")
    asked = parser.parse_args()
    budgets = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["roofsmith"]["house"]
    found = list(figures(budgets, budgets["rooms"], walk=asked.walk))
    Console().print(table(found))
    print(f"last make test: {suite()}")
    over = [one for one in found if one.is_over]
    for one in found if asked.names else over:
        for name in one.names:
            print(f"{one.name}: {name}")
    for one in over:
        print(f"{one.name.strip()}: {one.value} is over its budget, {one.budget}", file=sys.stderr)
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
