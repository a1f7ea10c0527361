"""What campaigns over a set of problems came to."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Literal

from roofsmith.domain.values import Value

Verdict = Literal["gained", "nothing kept", "failed", "hung"]
LEVELS = (1.0, 1.5, 2.0, 4.0)
"""Of fast_p: KernelBench's share of problems that are right and more than p times as fast."""


class SuiteRow(Value):
    """One campaign on one problem."""

    problem: str
    repeat: int = 1
    verdict: Verdict
    reason: str = ""
    """Why it failed, or says little; where its log is."""
    speedup: float | None = None
    """Of the final kernel over the first; 1 where nothing was kept."""
    interval: tuple[float, float] | None = None
    over_pytorch: float | None = None
    """The faster of eager and compile over the final kernel; None: neither was measured."""
    roofline_fraction: float | None = None
    rounds: int = 0
    seconds: float
    tokens: int = 0
    cost_usd: float | None = None
    """None: nobody knows what a token costs, or none was asked for."""
    weight: float = 1.0
    """Of the problem in its set."""
    campaign: str
    """Its folder, relative to the suite's."""
    budget_s: float | None = None
    """What it was given by `--again`; None: what the suite gives everyone."""


class SuiteScore(Value):
    """A figure over all problems."""

    name: str
    value: float | None
    spread: tuple[float, float] | None = None
    """The least and the most of single repeats; None: there was one."""


class Suite(Value):
    """All of it so far."""

    schema_version: Literal["suite/1"] = "suite/1"
    proposer: str
    budget_s: float
    repeats: int
    device: str = ""
    problems: int
    names: tuple[str, ...] = ()
    """Of the problems; empty where an older version wrote it."""
    rows: tuple[SuiteRow, ...] = ()

    @property
    def waiting(self) -> tuple[str, ...]:
        """What hasn't run: problems, by the first repeat that each lacks."""
        ran = {(row.problem, row.repeat) for row in self.rows}
        lacks = (
            (name, next((n for n in range(1, self.repeats + 1) if (name, n) not in ran), None))
            for name in self.names
        )
        return tuple(
            name if repeat == 1 else f"{name}, repeat {repeat}"
            for name, repeat in lacks
            if repeat is not None
        )

    @property
    def raised(self) -> tuple[SuiteRow, ...]:
        """Those that had another budget than the rest: what they came to isn't comparable."""
        return tuple(row for row in self.rows if row.budget_s is not None)

    @property
    def scores(self) -> tuple[SuiteScore, ...]:
        """What the field makes of rows. A failed or hung campaign counts as no gain, of none right.

        Over several repeats a problem's speedup is the geometric mean of its repeats.
        """
        of_repeat: dict[int, list[SuiteRow]] = defaultdict(list)
        for row in self.rows:
            of_repeat[row.repeat].append(row)
        names = [*_scored(())]
        alone = [_scored(rows) for rows in of_repeat.values()]
        all_ = _scored(_joined(self.rows))
        found = []
        for name in names:
            values = [one[name] for one in alone]
            known = [value for value in values if value is not None]
            spread = (min(known), max(known)) if len(known) > 1 else None
            found.append(SuiteScore(name=name, value=all_[name], spread=spread))
        return tuple(found)


def _joined(rows: Sequence[SuiteRow]) -> list[SuiteRow]:
    """One row for each problem."""
    of_problem: dict[str, list[SuiteRow]] = defaultdict(list)
    for row in rows:
        of_problem[row.problem].append(row)
    return [
        same[0].model_copy(
            update={
                "speedup": _mean((row.speedup or 1.0, 1.0) for row in same),
                "over_pytorch": _mean((row.over_pytorch, 1.0) for row in same),
                "roofline_fraction": _mean((row.roofline_fraction, 1.0) for row in same),
            }
        )
        for same in of_problem.values()
    ]


def _scored(rows: Sequence[SuiteRow]) -> dict[str, float | None]:
    compared = [row.over_pytorch for row in rows if row.over_pytorch is not None]
    failed = sum(row.over_pytorch is None and row.verdict in ("failed", "hung") for row in rows)
    shares: dict[str, float | None] = {
        f"fast_{p:g} (over PyTorch)": sum(one > p for one in compared) / (len(compared) + failed)
        if compared else None
        for p in LEVELS
    }  # fmt: skip
    return {
        "speedup, geometric mean": _mean((row.speedup or 1.0, 1.0) for row in rows),
        "speedup, weighted by importance": _mean((row.speedup or 1.0, row.weight) for row in rows),
        "over PyTorch, geometric mean": _mean((row.over_pytorch, 1.0) for row in rows),
        "share of the roofline, geometric mean": _mean((r.roofline_fraction, 1.0) for r in rows),
        **shares,
    }


def _mean(weighed: Iterable[tuple[float | None, float]]) -> float | None:
    """The geometric mean of what is known, by weight."""
    known = [(value, weight) for value, weight in weighed if value is not None and value > 0]
    total = sum(weight for _, weight in known)
    if not total:
        return None
    return math.exp(sum(weight * math.log(value) for value, weight in known) / total)
