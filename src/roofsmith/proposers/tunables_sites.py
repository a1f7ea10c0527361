"""A setting that is written in a kernel file, in any language."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from roofsmith.proposers.edits import SourceEdit, Span
from roofsmith.proposers.tunables_uses import Use

SiteKind = Literal["declared", "constant", "launch", "unroll", "threads", "schedule"]


@dataclass(frozen=True, slots=True)
class Site:
    """One setting in the text of the file."""

    name: str
    kind: SiteKind
    current: int | str
    line: int
    """1-based."""
    spans: tuple[Span, ...]
    """Byte ranges that hold the value: the definition's, then those that must change with it."""
    uses: frozenset[Use] = frozenset()
    choices: tuple[int, ...] = ()
    """As its `tune:` line or the documentation of the setting lists them."""
    less_one: tuple[Span, ...] = ()
    """Byte ranges that hold the value minus one: 255 in `(n + 255) / 256`."""
    written: str = "{}"
    """What is put at `spans`: `, num_warps={}` where the source doesn't name the setting."""

    def edits(self, setting: int | str) -> list[SourceEdit]:
        """What puts `setting` in place; nothing if it is there already."""
        if setting == self.current:
            return []
        edits = [SourceEdit(*span, self.written.format(setting)) for span in self.spans]
        return edits + [SourceEdit(*span, str(int(setting) - 1)) for span in self.less_one]


def named_apart(sites: Sequence[Site]) -> list[Site]:
    """The sites with their lines in their names where several share one."""
    names = Counter(site.name for site in sites)
    result: list[Site] = []
    taken: Counter[str] = Counter()
    for site in sites:
        name = site.name if names[site.name] == 1 else f"{site.name}@{site.line}"
        taken[name] += 1
        if taken[name] > 1:
            name = f"{name}#{taken[name]}"
        result.append(replace(site, name=name))
    return result


def tied(sites: Iterable[Site]) -> list[Site]:
    """Sites that share a byte range as one, since they can only change together."""
    result: list[Site] = []
    for site in sites:
        # Several may be inserted at one place.
        ranges = {span for span in (*site.spans, *site.less_one) if span[0] < span[1]}
        shared = [one for one in result if ranges & {*one.spans, *one.less_one}]
        result = [one for one in result if one not in shared]
        first, *others = [*shared, site]
        for other in others:
            first = replace(
                first,
                spans=tuple(dict.fromkeys((*first.spans, *other.spans))),
                less_one=tuple(dict.fromkeys((*first.less_one, *other.less_one))),
            )
        result.append(first)
    return result
