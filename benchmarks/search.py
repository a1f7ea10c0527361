"""How many settings a search looks at until it has one within 2% of the best: ours and others.

    python benchmarks/search.py rows.jsonl --out benchmarks/results/search-h100.json

`search_record.py` timed every setting of some kernels once; here each search is replayed on these
tables, with 25 seeds: the sweep's, Optuna's TPE as it comes, random order, and all of them, which
is what `triton.autotune` does. Nothing is run, so everybody sees the same times.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from result_file import Made, made_now, write
from roofsmith.domain.values import Value
from roofsmith.proposers.sweep_search import Best, Pace, Point, SearchAllowance, SweepSearch
from roofsmith.proposers.tunables import Setting, Tunable, find_tunables
from search_spaces import SPACES, Space

NEAR = 1.02
"""Of the best time."""
SEEDS = 25
LOOK_S = 1.0
"""Of the sweep's look at a point: with its builds' time it says how large batches are."""
SIDE_BY_SIDE = 16
"""Builds on the machine of the record."""

Key = tuple[tuple[str, int], ...]


class Row(Value):
    """One setting."""

    settings: dict[str, int]
    time_s: float | None
    """None: it can't be built or launched, or is wrong."""


class Table(Value):
    """Every setting of one kernel."""

    space: str
    on: str
    """Device and versions."""
    compile_s: float
    """Median, with others beside it."""
    rows: tuple[Row, ...]


class Replay(Value):
    """One search on one table: points looked at until one was within 2% of the best, by seed."""

    space: str
    search: str
    looks: tuple[int, ...]


class SearchFigure(Value):
    """A result file."""

    made: Made
    tables: tuple[Table, ...]
    replays: tuple[Replay, ...]


class Near(Exception):  # noqa: N818 - it is good news
    """A search has found what counts."""


@dataclass
class Looks:
    """Answers from a table, and ends a search that is near the best."""

    table: Table
    space: Space
    pace: Pace = field(default_factory=lambda: Pace(SIDE_BY_SIDE))
    count: int = 0

    def __post_init__(self) -> None:
        self.times_s = {_key(row.settings): row.time_s for row in self.table.rows}
        self.best_s = min(time_s for time_s in self.times_s.values() if time_s is not None)
        self.start_s = self.times_s[_key(self.space.start)] or math.inf

    def prepare(self, points: Sequence[Point]) -> None:
        """A batch takes as long as one of its builds."""
        self.pace.built(len(points), self.table.compile_s)

    def look(self, point: Point) -> float | None:
        """Speedup over where the search began."""
        self.pace.looked(LOOK_S)
        time_s = self.times_s[_key(point)]
        self.count += 1
        if time_s is not None and time_s <= NEAR * self.best_s:
            raise Near
        return None if time_s is None else self.start_s / time_s


Search = Callable[[Looks, Sequence[Tunable], int], None]


def sweep(looks: Looks, tunables: Sequence[Tunable], seed: int) -> None:
    """As the sweep searches, without its limits on points and time."""
    start = {t.name: t.current for t in tunables}
    points = len(looks.times_s)
    allowance = SearchAllowance(points, points, lambda: math.inf)
    known: dict[tuple[tuple[str, Setting], ...], float | None] = {tuple(sorted(start.items())): 1.0}
    looks.look(start)
    SweepSearch(tunables, Best(start, 1.0), looks, known, allowance, seed).run()


def tpe(looks: Looks, tunables: Sequence[Tunable], seed: int) -> None:
    """Optuna's sampler with its own settings, a point after another; repeats cost nothing."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed), direction="minimize")
    seen: dict[Key, float | None] = {}
    for _ in range(20 * len(looks.times_s)):
        trial = study.ask()
        chosen = [trial.suggest_int(t.name, 0, len(t.choices) - 1) for t in tunables]
        point = {t.name: t.choices[n] for t, n in zip(tunables, chosen, strict=True)}
        key = _key(point)
        if key not in seen:
            looks.look(point)
            seen[key] = looks.times_s[key]
        if (time_s := seen[key]) is None:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
        else:
            study.tell(trial, math.log(time_s))
        if len(seen) == len(looks.times_s):
            break


def at_random(looks: Looks, tunables: Sequence[Tunable], seed: int) -> None:
    """Every point once, in random order."""
    del tunables
    keys = sorted(looks.times_s)
    random.Random(seed).shuffle(keys)
    for key in keys:
        looks.look(dict(key))


SEARCHES: Mapping[str, Search] = {"sweep": sweep, "TPE": tpe, "random": at_random}


def looks_of(search: str, table: Table, seed: int) -> int:
    """Points that a search looks at until one is within 2% of the best."""
    space = SPACES[table.space]
    looks = Looks(table, space)
    with suppress(Near):
        SEARCHES[search](looks, find_tunables(space.candidate, threads=1).of("declared"), seed)
    return looks.count


def replays(table: Table) -> Iterator[Replay]:
    """Every search on one table."""
    for name in SEARCHES:
        counts = tuple(looks_of(name, table, seed) for seed in range(SEEDS))
        yield Replay(space=table.space, search=name, looks=counts)
    yield Replay(space=table.space, search="all", looks=(len(table.rows),) * SEEDS)


def read_tables(paths: Sequence[Path]) -> Iterator[Table]:
    """Those whose every setting was timed."""
    rows = [json.loads(line) for path in paths for line in path.read_text().splitlines()]
    for name, space in SPACES.items():
        found = {_key(row["settings"]): row for row in rows if row["space"] == name}
        if missing := [p for p in space.points if _key(p) not in found]:
            print(f"{name}: {len(missing)} settings were not timed")
            continue
        yield Table(
            space=name,
            on=next(iter(found.values()))["on"],
            compile_s=median(r["compile_s"] for r in found.values() if "compile_s" in r),
            rows=tuple(
                Row(settings=dict(p), time_s=found[_key(p)].get("time_s")) for p in space.points
            ),
        )


def _key(point: Mapping[str, object]) -> Key:
    return tuple(sorted((name, int(str(value))) for name, value in point.items()))


def lines(figure: SearchFigure) -> Iterator[str]:
    """The medians as a table."""
    for table in figure.tables:
        found = {r.search: r.looks for r in figure.replays if r.space == table.space}
        shown = ", ".join(f"{name} {median(looks):g}" for name, looks in found.items())
        yield f"{table.space}: {shown}"


def main() -> None:
    """Replay, and write the file."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("rows", type=Path, nargs="+")
    options.add_argument("--out", type=Path, required=True)
    given = options.parse_args()
    tables = tuple(read_tables(given.rows))
    found = tuple(replay for table in tables for replay in replays(table))
    figure = SearchFigure(made=made_now(), tables=tables, replays=found)
    write(figure, given.out)
    print("\n".join(lines(figure)))


if __name__ == "__main__":
    main()
