"""Scratch arrays that lie where others did that nobody reads any more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from roofsmith.computation.sizes import Size, elements
from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.c_attention import AttentionGroup, attention_in, buffers_of
from roofsmith.proposers.schedules.groups import (
    Buffer,
    Group,
    Program,
    Reduced,
    Scanned,
    Step,
    Stored,
    rewritten,
)

Kind = tuple[str, Size]
"""Type and number of elements."""


def with_shared_memory(program: Program) -> Program:
    """The program with as few scratch arrays as are needed at once, of each type and size.

    What is read last where it is overwritten, element by element, is overwritten in place: sweeps
    over time steps need two arrays.
    """
    apart = {name for place in program.places.names for name in _of_place(place)}
    touched = [buffers_of(group) for group in program.groups]
    scratch = [
        name for name, one in program.buffers.items() if one.role == "scratch" and name not in apart
    ]
    last = {name: max(at for at, names in enumerate(touched) if name in names)
            for name in scratch if any(name in names for names in touched)}  # fmt: skip
    free: dict[Kind, list[str]] = {}
    names: dict[str, str] = {}
    groups: list[Group] = []
    for at, group in enumerate(program.groups):
        dying = [name for name in touched[at] if last.get(name) == at]
        for name in _written(group):
            if name not in last or name in names:
                continue
            kind = _kind(program.buffers[name])
            if found := free.get(kind):
                names[name] = found.pop()
                continue
            donor = next((one for one in dying if _kind(program.buffers[one]) == kind
                          and _goes_on(group, one, name)), None)  # fmt: skip
            names[name] = name if donor is None else names[donor]
            dying = [one for one in dying if one != donor]
        groups.append(renamed(group, names))
        for name in dying:
            free.setdefault(_kind(program.buffers[name]), []).append(names[name])
    kept = {name: one for name, one in program.buffers.items() if names.get(name, name) == name}
    return replace(program, buffers=kept, groups=tuple(groups))


def _kind(buffer: Buffer) -> Kind:
    return buffer.dtype, elements(buffer.shape)


def _of_place(place: e.Place) -> set[str]:
    return {one.buffer for one in e.reads(place.value)} if isinstance(place, e.Chosen) else set()


def _written(group: Group) -> list[str]:
    """Arrays that a group stores into, in order."""
    if group.product is not None:
        return [group.product.buffer]
    online = attention_in(group)
    steps = group.steps if online is None else online.stores
    found = [one.buffer for one in steps if not isinstance(one, Reduced | Scanned)]
    return list(dict.fromkeys(found))


def _goes_on(group: Group, old: str, new: str) -> bool:
    """Whether each element of an array is read last where one of the other is written."""
    if not group.steps or group.inner or old == new:
        return False
    stored = [step for step in group.steps
              if not isinstance(step, Reduced | Scanned) and step.buffer in (old, new)]  # fmt: skip
    if len(stored) != 1 or stored[0].buffer != new or not isinstance(stored[0], Stored):
        return False
    place = e.flat(stored[0].index, stored[0].shape)
    return all(
        e.flat(one.index, one.shape) == place
        for one in group.reads if one.buffer == old
    )  # fmt: skip


def renamed(group: Group, names: Mapping[str, str]) -> Group:
    """With other arrays."""

    def moved(value: e.Expression) -> e.Expression:
        if isinstance(value, e.Read) and value.buffer in names:
            return replace(value, buffer=names[value.buffer])
        return value

    def step_of(step: Step) -> Step:
        new = rewritten(step, moved)
        if isinstance(new, Reduced | Scanned):
            return new
        return replace(new, buffer=names.get(new.buffer, new.buffer))

    def read(value: e.Read) -> e.Read:
        return replace(value, buffer=names.get(value.buffer, value.buffer))

    if (one := group.product) is not None:
        target = names.get(one.buffer, one.buffer)
        one = replace(one, left=read(one.left), right=read(one.right), buffer=target)
        return replace(group, product=one)
    if isinstance(group, AttentionGroup) and (online := group.attention) is not None:
        stores = tuple(step for one in online.stores if isinstance(step := step_of(one), Stored))
        online = replace(
            online, query=e.rewritten(online.query, moved), key=e.rewritten(online.key, moved),
            value=e.rewritten(online.value, moved), score=e.rewritten(online.score, moved),
            stores=stores,
        )  # fmt: skip
        return replace(group, attention=online)
    return replace(group, steps=tuple(map(step_of, group.steps)))
