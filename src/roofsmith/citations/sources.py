"""What citations lead to: the campaign's own copies of facts, and files that are looked up."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

from roofsmith.citations.form import Cited, without_made
from roofsmith.domain.facts import Fact

_GOES_ON: Final = re.compile(r"\w|:L?\d|[/.-]\w")
"""What follows a known place where the text names another, longer one."""
_LABEL_STARTS: Final = re.compile(r"\A|[\"'|(\[>]\s*|[-;:,.+*)]\s+")
"""Where the name of a metric may begin: `- "name": copy bandwidth` names the copy bandwidth."""


@dataclass(frozen=True, slots=True)
class CitationSource:
    fact: Fact
    """`value` None: no number stands there, and `reason` says what does."""
    has_name: Callable[[str], bool] = lambda _: False
    """Whether people call the fact so, beside its own metric."""

    def is_called(self, label: str) -> bool:
        """Whether a label, maybe with a list's or a table's marks before it, names the fact."""
        names = {label[match.end() :].strip() for match in _LABEL_STARTS.finditer(label)} - {""}
        own = self.fact.metric.casefold().split()
        return any(name.casefold().split() == own or self.has_name(name) for name in names)


Lookup = Callable[[str], Sequence[CitationSource]]
"""`path:line` to what is written there; empty if there is nothing."""


@dataclass(frozen=True, slots=True)
class CitationSources:
    """Everything that a citation may name."""

    lookup: Lookup
    own: Sequence[Fact] = ()
    """Copies that the campaign keeps: measured, or told by the system or a driver."""
    quoted: Collection[tuple[str, str]] = frozenset()
    """`Cited.key` of citations that the campaign shows and others made: they aren't checked."""

    def behind(self, cited: Cited) -> tuple[CitationSource, ...]:
        """What may be meant: several where a driver told many facts; empty if nothing is there.

        The campaign's own copies count beside the files: those may have been measured again since.
        """
        own = (CitationSource(fact) for fact in self.own if _names(cited, fact))
        return (*own, *self.lookup(cited.line or without_made(cited.place)))


def _names(cited: Cited, fact: Fact) -> bool:
    place = fact.citation.place if fact.citation else ""
    here = cited.line == place.replace(":L", ":")
    rest = cited.place.removeprefix(place)
    return here or (rest != cited.place and not _GOES_ON.match(rest))
