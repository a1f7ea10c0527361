"""Groups that come again and again, such as a stencil's sweeps over time, as one loop in C."""

from __future__ import annotations

import re
from collections.abc import Sequence

from roofsmith.proposers.schedules.c_writer import Lines, indented
from roofsmith.proposers.schedules.groups import Program, Reduced, Scanned

LONGEST = 16
"""Groups of one sweep, at most. Chosen."""
_WORD = re.compile(r"[A-Za-z_]\w*")


def with_sweeps(blocks: Sequence[Lines], program: Program, prefix: str, counter: str) -> Lines:
    """All groups' lines; those that are the same, but for names of values, once and in a loop.

    Args:
        blocks: of each group.
        program: the groups.
        prefix: what names of values begin with, before a number.
        counter: the loop's variable.
    """
    own = {
        step.name
        for group in program.groups for step in group.steps if isinstance(step, Reduced | Scanned)
    }  # fmt: skip
    plain = [_plain(lines, own, prefix) for lines in blocks]
    lines: Lines = []
    at = 0
    while at < len(blocks):
        period, times = max(
            ((period, _times(plain, at, period)) for period in range(1, LONGEST + 1)),
            key=lambda one: one[0] * (one[1] - 1),
        )
        sweep = [line for some in blocks[at : at + period] for line in some]
        if times > 2:
            head = f"for (int {counter} = 0; {counter} < {times}; {counter}++) {{"
            lines += ["", head, *indented(sweep[1:]), "}"]
            at += period * times
        else:
            lines += blocks[at]
            at += 1
    return lines


def _plain(lines: Lines, own: set[str], prefix: str) -> str:
    """With names of values in the order in which they come."""
    numbers: dict[str, str] = {}

    def number(found: re.Match[str]) -> str:
        name = found[0]
        stem = next((one for one in own if name == one or name.startswith(f"{one}_")), "")
        if not stem and name.startswith(prefix) and name[len(prefix) :].isdigit():
            stem = name
        if not stem:
            return name
        return numbers.setdefault(stem, f"?{len(numbers)}") + name[len(stem) :]

    return _WORD.sub(number, "\n".join(lines))


def _times(plain: Sequence[str], at: int, period: int) -> int:
    """How often the same groups come from there on."""
    first = plain[at : at + period]
    times = 1
    while plain[at + period * times : at + period * (times + 1)] == first:
        times += 1
    return times if len(first) == period else 1
