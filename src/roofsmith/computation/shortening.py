"""A long graph for people on few lines: chains are formulas, repeated layers are told once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from roofsmith.computation import graph as g
from roofsmith.computation.text import SIGNS, named, said, shape_text, shown

WIDEST = 72
"""Letters of a formula that goes into another. Chosen."""
LONGEST = 96
"""Lines of a layer that is told once, at most. Chosen."""
LEAST_SAVED = 4
"""Lines that telling layers once has to save. Chosen."""
MOST_NAMES = 6
"""Inputs of one shape that are all named. Chosen."""
FOLDED = (g.Elementwise, g.Cast, g.View)
"""What goes into the formula of its only user."""


@dataclass(frozen=True)
class _Line:
    place: g.Id
    text: str
    """With `{}` for each name."""
    names: tuple[str | g.Id, ...]
    """Places of other lines, or names of inputs."""


def short_lines(graph: g.Graph) -> list[str]:
    """As `text.lines`, shorter; inputs of one shape are told together."""
    inputs: dict[str, list[str]] = {}
    shapes: dict[str, str] = {}
    for node in graph.inputs():
        shapes[node.name] = f"{shape_text(node.shape)} {node.dtype}"
        inputs.setdefault(shapes[node.name], []).append(node.name)
    told = [
        f"{names[0]}{shape}" if len(names) == 1 else f"{_listed(names)}: {shape}"
        for shape, names in inputs.items()
    ]
    lines = _lines(graph)
    numbers = {line.place: number for number, line in enumerate(lines)}
    at = 0
    while at < len(lines):
        period, times = max(
            ((some, _times(lines, numbers, shapes, at, some)) for some in range(1, LONGEST + 1)),
            key=lambda one: (one[0] * (one[1] - 1), -one[0]),
        )
        part = lines[at : at + period]
        if period * (times - 1) < LEAST_SAVED:
            told.append(_written(lines[at]))
            at += 1
            continue
        end = lines[at + period * times - 1].place
        told.append(f"{times} times, up to t{end}, as the first:")
        told += [f"    {_written(line)}" for line in part]
        at += period * times
    names = {line.place: f"t{line.place}" for line in lines}
    for name, place in graph.outputs.items():
        told.append(f"{name} = {names.get(place) or named(graph[place])}")
    return told


def _listed(names: Sequence[str]) -> str:
    if len(names) <= MOST_NAMES:
        return ", ".join(names)
    return f"{names[0]}, {names[1]}, ..., {names[-1]} ({len(names)})"


def _written(line: _Line) -> str:
    names = (name if isinstance(name, str) else f"t{name}" for name in line.names)
    return f"t{line.place}{line.text.format(*names)}"


def _lines(graph: g.Graph) -> list[_Line]:
    """A line for what several need, what is a result, and what is no part of a formula."""
    users, results = graph.users(), set(graph.outputs.values())
    found: list[_Line] = []
    parts: dict[g.Id, tuple[str, tuple[str | g.Id, ...]]] = {}
    for place, node in enumerate(graph.nodes):
        if isinstance(node, g.Input):
            parts[place] = "{}", (node.name,)
            continue
        if isinstance(node, g.Constant | g.Dimension):
            parts[place] = named(node).replace("{", "{{").replace("}", "}}"), ()
            continue
        operands = [parts[one] for one in shown(node)]
        text = " ".join(said(node, [text for text, _ in operands]))
        names = tuple(name for _, names in operands for name in names)
        used = users[place]
        is_part = (
            isinstance(node, FOLDED) and len(used) == 1 and place not in results
            and isinstance(graph[used[0]], g.Elementwise | g.Cast | g.Reduce)
            and graph[used[0]].operands.count(place) == 1 and len(text) <= WIDEST
        )  # fmt: skip
        if is_part:
            is_sum = isinstance(node, g.Elementwise) and node.op in SIGNS
            inside = isinstance(graph[used[0]], g.Elementwise) and (
                getattr(graph[used[0]], "op", "") in SIGNS
            )
            parts[place] = f"({text})" if is_sum and inside else text, names
        else:
            text = f"{shape_text(node.shape)} {node.dtype} = {text}"
            found.append(_Line(place, text, names))
            parts[place] = "{}", (place,)
    return found


def _times(
    lines: Sequence[_Line], numbers: Mapping[g.Id, int], shapes: Mapping[str, str], at: int,
    period: int,
) -> int:  # fmt: skip
    """How often the same lines come from there on, but for names that go on with them."""

    def same(one: str | g.Id, other: str | g.Id) -> bool:
        if isinstance(one, str) or isinstance(other, str):
            known = isinstance(one, str) and isinstance(other, str)
            return known and shapes[str(one)] == shapes[str(other)]
        return one == other or numbers[other] - numbers[one] == period

    times = 1
    while at + period * (times + 1) <= len(lines):
        start = at + period * times
        if any(
            one.text != other.text or len(one.names) != len(other.names)
            or not all(map(same, one.names, other.names))
            for one, other in zip(lines[start - period : start], lines[start : start + period],
                                  strict=True)
        ):  # fmt: skip
            break
        times += 1
    return times
