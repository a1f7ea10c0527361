"""What citations lead to: the campaign's own copies of facts, and files that are looked up."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from roofsmith.citations.form import Cited, without_made
from roofsmith.domain.facts import Citation, Fact

_GOES_ON: Final = re.compile(r"\w|:L?\d|[/.-]\w")
"""What follows a known place where the text names another, longer one."""
_LABEL_STARTS: Final = re.compile(r"\A\W*|[\"'|(\[>]\s*|[-;:,.+*)]\s+")
"""Where the name of a metric may begin: `- "name": copy bandwidth` names the copy bandwidth."""


@dataclass(frozen=True, slots=True)
class Source:
    """A fact where it is written."""

    fact: Fact
    """`value` None: no number stands there, and `reason` says what does."""
    has_name: Callable[[str], bool] = lambda _: False
    """Whether people call the fact so, beside its own metric."""

    def is_called(self, label: str) -> bool:
        """Whether a label, maybe with a list's or a table's marks before it, names the fact."""
        names = (label[match.end() :].strip() for match in _LABEL_STARTS.finditer(label))
        return any(
            _folded(name) == _folded(self.fact.metric) or self.has_name(name)
            for name in names
            if name
        )


Lookup = Callable[[str], Source | None]
"""`path:line` to what is written there; None if there is nothing."""


@dataclass(frozen=True, slots=True)
class Sources:
    """Everything that a citation may name."""

    lookup: Lookup
    own: Sequence[Fact] = ()
    """Copies that the campaign keeps: measured, or told by the system or a driver."""

    def behind(self, cited: Cited) -> tuple[Source, ...]:
        """What may be meant: several where a driver told many facts; empty if nothing is there.

        The campaign's own copies come first: a file may have been measured again since.
        """
        own = (Source(f) for f in self.own if f.citation and _names(cited, f.citation))
        there = self.lookup(cited.line or without_made(cited.place))
        return (*own, *(() if there is None else (there,)))


def _names(cited: Cited, citation: Citation) -> bool:
    place = citation.path if citation.line is None else f"{citation.path}:{citation.line}"
    return cited.line == place or any(_begins(cited.place, known) for known in _spellings(citation))


def _spellings(citation: Citation) -> Iterator[str]:
    yield str(citation)
    yield citation.path if citation.line is None else f"{citation.path}:{citation.line}"


def _begins(text: str, place: str) -> bool:
    return text.startswith(place) and not _GOES_ON.match(text[len(place) :])


def _folded(name: str) -> str:
    return " ".join(name.split()).casefold()
