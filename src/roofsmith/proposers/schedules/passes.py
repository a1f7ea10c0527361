"""Which steps of a group share a loop along its inner axes, and what every row needs once."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.groups import Group, Reduced, Scanned, Step, Stored


@dataclass(frozen=True)
class Pass:
    """Steps that run in one loop along the inner axes."""

    steps: tuple[Step, ...]


def passes(
    group: Group, online: Collection[str] = ()
) -> tuple[tuple[Pass, ...], tuple[Stored, ...]]:
    """Loops along the inner axes in order, and what is stored once for each outer index after all.

    A step comes in the first pass whose earlier ones have reduced all that it needs; what is
    stored for every element, in the last that its value needs anyway. Sums that are kept `online`
    come in the pass of their maximum.
    """
    level: dict[str, int] = {}
    loops: list[list[Step]] = []
    after: list[Stored] = []
    for step in group.steps:
        if isinstance(step, Stored) and not step.inner:
            after.append(step)
            continue
        at = max((level[name] for name in held(step.value) if name in level), default=0)
        at -= isinstance(step, Reduced) and step.name in online
        while len(loops) <= at:
            loops.append([])
        loops[at].append(step)
        if isinstance(step, Reduced):
            level[step.name] = at + 1
        elif isinstance(step, Scanned):
            level[step.name] = at
    return tuple(Pass(tuple(steps)) for steps in loops), tuple(after)


def online_sums(group: Group, dtypes: Collection[str] = ("float32",)) -> dict[str, Reduced]:
    """Sums of exponentials of a maximum's values less that maximum, by the maximum's name."""
    reduced = [s for s in group.steps if isinstance(s, Reduced) and s.dtype in dtypes]
    tops = {step.name: step.value for step in reduced if step.op == "max"}
    found: dict[str, Reduced] = {}
    for step in reduced:
        match step:
            case Reduced(
                op="sum",
                value=e.Operation(
                    op="exp", args=(e.Operation(op="sub", args=(value, e.Held(name=top))),)
                ),
            ) if tops.get(top) == value:
                found.setdefault(top, step)
    return found


def held(value: e.Expression) -> set[str]:
    """Names of steps whose results it needs."""
    return {one.name for one in e.walk(value) if isinstance(one, e.Held)}


def is_sum(group: Group, *, places: bool) -> bool:
    """Whether it reduces in one pass, and stores only then; if `places`, also to where one is."""
    for step in group.steps:
        match step:
            case Reduced():
                if held(step.value):
                    return False
                if step.op.startswith("arg") and (not places or len(group.inner) > 1):
                    return False
            case Stored(inner=False):
                pass
            case _:
                return False
    return True


def is_scan(group: Group) -> bool:
    """Whether it is one running sum, and stores of it."""
    first, *rest = group.steps
    return isinstance(first, Scanned) and all(isinstance(one, Stored) and one.inner for one in rest)
