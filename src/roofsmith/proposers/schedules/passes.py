"""Which steps of a group share a loop along its inner axes, and what every row needs once."""

from __future__ import annotations

from dataclasses import dataclass

from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.groups import Group, Reduced, Scanned, Step, Stored


@dataclass(frozen=True)
class Pass:
    """Steps that run in one loop along the inner axes."""

    steps: tuple[Step, ...]


def passes(group: Group) -> tuple[tuple[Pass, ...], tuple[Stored, ...]]:
    """Loops along the inner axes in order, and what is stored once for each outer index after all.

    A step comes in the first pass whose earlier ones have reduced all that it needs; what is
    stored for every element, in the last that its value needs anyway.
    """
    level: dict[str, int] = {}
    loops: list[list[Step]] = []
    after: list[Stored] = []
    for step in group.steps:
        if isinstance(step, Stored) and not step.inner:
            after.append(step)
            continue
        at = max((level[name] for name in held(step.value) if name in level), default=0)
        while len(loops) <= at:
            loops.append([])
        loops[at].append(step)
        if isinstance(step, Reduced):
            level[step.name] = at + 1
        elif isinstance(step, Scanned):
            level[step.name] = at
    return tuple(Pass(tuple(steps)) for steps in loops), tuple(after)


def held(value: e.Expression) -> set[str]:
    """Names of steps whose results it needs."""
    return {one.name for one in e.walk(value) if isinstance(one, e.Held)}
