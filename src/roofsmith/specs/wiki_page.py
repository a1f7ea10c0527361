"""A wiki page: what one product's documents say, each statement with its line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, StrictFloat, StrictInt, StrictStr, StringConstraints

from roofsmith.domain.facts import Citation, Fact, shown
from roofsmith.domain.values import Value

NOT_FOUND = "wiki not found"
"""Why a fact that no page states is UNKNOWN."""
NOT_IN_GPU_WIKI = "gpu-wiki not found"
"""The same where a local gpu-wiki has the word."""

Quality = Literal["primary", "transcribed", "device_log", "secondary", "measured"]
"""primary: read in the vendor's own text or code; transcribed: a third party quotes the vendor;
device_log: a device printed it; secondary: the third party's own; measured: our own measurement."""

Words = Annotated[StrictStr, StringConstraints(strip_whitespace=True, min_length=1)]
"""A text that isn't blank."""


class WikiSource(Value):
    """Where a number was published."""

    title: Words
    url: Words | None = None
    locator: Words | None = None
    """Page, table, section, function or line."""
    url_status: StrictStr | None = None
    """What to know of an address that wasn't seen."""


class WikiCheck(Value):
    """The same rate, computed from counts and clocks."""

    formula: StrictStr
    value: float = Field(gt=0)
    ratio_to_value: float = Field(gt=0)
    clock: StrictStr | None = None
    """Where the clock of the formula is not a fact of the page."""


class Statement(Value):
    """One fact as a page writes it."""

    value: StrictInt | StrictFloat | StrictStr | tuple[StrictInt, ...]
    unit: StrictStr
    source: WikiSource
    quality: Quality
    read_via: StrictStr | None = None
    """Where the number was actually read."""
    derived: StrictStr | None = None
    """How it was computed, if it isn't printed as it stands."""
    check: WikiCheck | None = None
    note: StrictStr | None = None
    date: StrictStr | None = None
    """For a measurement: when it was made."""
    device: StrictStr | None = None
    """For a measurement: on what."""


@dataclass(frozen=True, slots=True)
class WikiEntry:
    metric: str
    """Its path on the page, such as `memory.bandwidth_byte_per_s`."""
    told: Statement
    citation: Citation
    """The line of its `value:`."""

    @property
    def number(self) -> float | None:
        value = self.told.value
        return None if isinstance(value, str | tuple) else value

    def fact(self, metric: str | None = None) -> Fact:
        """The fact, under its path or another name; UNKNOWN if it isn't one number."""
        name, unit = metric or self.metric, self.told.unit
        if self.number is None:
            reason = f"no number; {self.citation} says {self.said}"
            return Fact(metric=name, value=None, unit=unit, reason=reason)
        return Fact(metric=name, value=self.number, unit=unit, citation=self.citation)

    @property
    def said(self) -> str:
        """The value with its unit, as facts print them; a text stands alone."""
        value = self.told.value
        match value:
            case str():
                return value
            case tuple():
                return f"{', '.join(map(str, value))} {self.told.unit}"
            case _:
                return shown(value, self.told.unit)

    def line(self, metric: str) -> str:
        """`<metric>: <value> <unit> <- <citation>`, also for texts and lists."""
        return f"{metric}: {self.said} <- {self.citation}"


@dataclass(frozen=True, slots=True)
class Page:
    id: str
    file: Path
    origin: str
    """How citations call it: `wiki/<id>.yaml`, or a user's page by its absolute path."""
    short: tuple[str, ...]
    """What people call it; products may share one."""
    aliases: tuple[WikiEntry, ...]
    """What drivers call it."""
    entries: Mapping[str, WikiEntry]
    """By metric, in the order of the page."""
    notes: tuple[str, ...] = ()
    """On the rates, and where sources disagree."""
    unknown: tuple[str, ...] = ()
    """What was looked for and not found."""
    lacking: str = NOT_FOUND
    """Why a fact is UNKNOWN that isn't here."""

    @property
    def product(self) -> str:
        return self._word("identity.product")

    @property
    def vendor(self) -> str:
        return self._word("identity.vendor")

    @property
    def arch(self) -> str | None:
        """The vendor's name of its architecture."""
        return self._word("identity.arch") if "identity.arch" in self.entries else None

    @property
    def compiler_arch(self) -> str | None:
        """What compilers call its architecture: sm_90, gfx942."""
        if "identity.gfx_target" in self.entries:
            return self._word("identity.gfx_target")
        if "identity.compute_capability" not in self.entries:
            return None
        return f"sm_{self._word('identity.compute_capability').replace('.', '')}"

    @property
    def driver_names(self) -> tuple[str, ...]:
        """What drivers print for it, each once."""
        return tuple(dict.fromkeys(str(alias.told.value) for alias in self.aliases))

    @property
    def names(self) -> tuple[str, ...]:
        """Everything that people may call it."""
        return (self.id, self.product, *self.driver_names, *self.short)

    def number(self, metric: str) -> float | None:
        entry = self.entries.get(metric)
        return None if entry is None else entry.number

    def _word(self, metric: str) -> str:
        return str(self.entries[metric].told.value)
