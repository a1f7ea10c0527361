"""Every hardware number of a campaign's files against what it cites. Pure.

A hardware number (`audit_rule`) needs a citation: in its statement, as `<metric>: <value> <unit>
<- <path>:<line>`, or by repeating, to the digits printed, a fact that the same file cites. A ridge
point may also be the quotient of two facts that the file cites, and a rate beside an intensity the
product of it and a bandwidth. A citation must resolve, and the number before it must be what is
written there, said of what is written there (`audit_subject`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from roofsmith.analysis.audit_quantities import (
    NUMBER,
    Quantity,
    dimension_of,
    quantities,
    quantity_of,
)
from roofsmith.analysis.audit_quotes import is_quoted
from roofsmith.analysis.audit_rule import hardware_numbers, plain, unmarked
from roofsmith.analysis.audit_subject import NO_PRODUCTS, Products, contradiction, is_name_of
from roofsmith.analysis.audit_text import Statement, statements
from roofsmith.domain.facts import Fact, shown

Resolve = Callable[[str], Fact | None]
"""`path:line` of a citation to the fact that is written there; None if there is none."""

CITE_IT: Final = "add `<- PAGE:LINE` (`roofsmith specs cite` prints it)"
OR_WHOSE: Final = "or say that a kernel reaches, moves or uses it"
_ARROW: Final = re.compile(r"<-\s*")
# The time in `PATH (COMMAND, 2026-11-21 05:02)` is no line.
_PLACE: Final = re.compile(r"[^\s;|<>\"(][^;|<>\"(\n]*?:L?\d+(?!\d)")
_WORD: Final = re.compile(r"[^\s,;()\[\]\"'|]+")
_VALUE: Final = re.compile(rf":\s*(?P<number>-?{NUMBER})\s+(?P<unit>\S+)\s*$")
_ITEM: Final = re.compile(r"\s*(?:[-+>]|\d+\.)?\s*")
"""What may stand before the metric on a line of its own."""
_END: Final = re.compile(r"[\s.)]*(?:\([^)]*\)[\s.]*)?")
"""What may stand behind its citation."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One number or citation that doesn't hold."""

    path: str
    line: int
    kind: Literal["uncited", "unresolved", "differs", "ledger"]
    number: str
    """As it is printed there; of a citation without a number, the citation."""
    why: str
    fix: str

    def __str__(self) -> str:
        """`README.md:12: 3.35 TB/s: why; what to do`."""
        return f"{self.path}:{self.line}: {self.number}: {self.why}; {self.fix}"


@dataclass(frozen=True, slots=True)
class Sources:
    """What citations may name."""

    resolve: Resolve
    """Looks a citation up where it points to."""
    kept: Sequence[Fact] = ()
    """Facts that the campaign keeps a copy of: measured, or told by a driver."""
    quoted: Collection[str] = ()
    """What tools and kernels printed: shown by the campaign, but stated by them."""
    known: Sequence[Fact] = ()
    """What an uncited number may be meant to say: the facts that the campaign began with."""
    products: Callable[[], Products] = lambda: NO_PRODUCTS
    """Who is who; asked for only where a number is cited."""

    def behind(self, citation: str) -> tuple[str, tuple[Fact, ...]]:
        """What stands after an arrow, as place and the facts there: several where a driver told."""
        own = tuple(
            fact
            for fact in self.kept
            if fact.citation is not None and _begins(citation, str(fact.citation))
        )
        if own:
            return str(own[0].citation), own
        match = _PLACE.match(citation) or _WORD.match(citation)
        place = match.group().rstrip(".") if match else citation
        place = re.sub(r":L(\d+)$", r":\1", place)
        near = tuple(f for f in self.kept if f.citation is not None and _place(f) == place)
        if near:
            return place, near
        found = self.resolve(place)
        return place, () if found is None else (found,)


@dataclass(frozen=True, slots=True)
class Audit:
    """What was looked at, and what doesn't hold."""

    files: int
    numbers: int
    """Hardware numbers."""
    citations: int
    problems: tuple[Problem, ...]


def audit(files: Mapping[str, str], sources: Sources) -> Audit:
    """Look at every file.

    Args:
        files: path in the campaign to text.
        sources: where citations are looked up.
    """
    checked = [_File(name, statements(name, text), sources) for name, text in sorted(files.items())]
    return Audit(
        files=len(checked),
        numbers=sum(file.numbers for file in checked),
        citations=sum(file.citations for file in checked),
        problems=tuple(problem for file in checked for problem in file.problems),
    )


def audit_text(name: str, text: str, sources: Sources) -> tuple[Problem, ...]:
    """The problems of one text, such as a hypothesis that somebody proposes."""
    return tuple(_File(name, statements(name, text), sources).problems)


class _File:
    """One file's statements and the facts that they cite."""

    def __init__(self, name: str, found: Sequence[Statement], sources: Sources) -> None:
        self._name = name
        self._sources = sources
        self.problems: list[Problem] = []
        self.citations = self.numbers = 0
        self._cited: list[Fact] = []
        rest = [(s, self._read_citations(s)) for s in found]
        for statement, text in rest:
            self._check(statement, text)
        self.problems.sort(key=lambda problem: problem.line)

    def _read_citations(self, statement: Statement) -> str:
        """Check the statement's citations; what is left of it without the values they cover."""
        text = unmarked(statement.text)
        left, start = "", 0
        for arrow in _ARROW.finditer(text):
            if arrow.start() < start:
                continue
            before, after = text[start : arrow.start()], text[arrow.end() :]
            place, facts = self._sources.behind(after)
            words = left + before
            covered = self._check_citation(statement, words, len(left), place, facts)
            if not start and _END.fullmatch(after.removeprefix(place).partition("\n")[0]):
                self._check_name(statement, before, place, facts)
            start = arrow.end() + (len(place) if after.startswith(place) else 0)
            gone = words[covered[0] : covered[1]] + text[arrow.start() : start]
            left = words[: covered[0]] + words[covered[1] :] + "; " + "\n" * gone.count("\n")
        return left + text[start:]

    def _check_citation(
        self, statement: Statement, words: str, first: int, place: str, facts: tuple[Fact, ...]
    ) -> tuple[int, int]:
        """Where in `words`, and not before `first`, the number is that the citation covers."""
        self.citations += 1
        cited, (start, end) = _covered(words[first:])
        span = first + start, first + end
        shown = cited.text if cited is not None else place
        line = statement.line + words.count("\n", 0, span[0])
        if not facts:
            why = f"no number is known at {place}"
            self._add(line, "unresolved", shown, why, f"cite a line that is there: {CITE_IT}")
            return span
        if cited is None:
            self._cited += facts
            return span
        self.numbers += 1
        true = [fact for fact in facts if cited.says(fact)]
        metric = words[first : span[0]]
        named = (
            [f for f in facts if f.metric and unmarked(f.metric) in metric]
            if len(facts) > 1
            else []
        )
        if not true or (named and not any(fact in true for fact in named)):
            fact = (named or facts)[0]
            says = f"{place} says {_said(fact)}"
            self._add(line, "differs", shown, says, "write what the citation says, or cite anew")
            return span
        others = [self._other(words, span, fact) for fact in true]
        if all(others):
            why = f"{place} is {true[0].metric}, {others[0]}"
            self._add(line, "differs", shown, why, _SAY_WHICH)
        else:
            self._cited += facts
        return span

    def _check_name(
        self, statement: Statement, before: str, place: str, facts: tuple[Fact, ...]
    ) -> None:
        """Where a line is nothing but `<metric>: <value> <unit> <- <place>`, the metric's name."""
        value, products = _VALUE.search(before), self._sources.products()
        about = len(unmarked(statement.text[: statement.about]))
        if value is None or value.start() <= about or not facts:
            return
        label, fact = before[about : value.start()], facts[0]
        item = _ITEM.match(label)
        label = label[item.end() :] if item else label
        if not products.is_page(fact) or is_name_of(label, fact, products):
            return
        line = statement.line
        if not any(problem.line == line for problem in self.problems):
            shown = f"{value['number']} {value['unit']}"
            why = f"{place} is {fact.metric}, and nothing is called {label!r}"
            self._add(line, "differs", shown, why, _SAY_WHICH)

    def _check(self, statement: Statement, text: str) -> None:
        flat, lines = text.replace("\n", " "), plain(text)
        for number in hardware_numbers(flat):
            self.numbers += 1
            if self._is_cited(flat, number) or self._is_quoted(flat, number):
                continue
            fix = self._meant(flat, number) or CITE_IT
            line = statement.line + lines.count("\n", 0, number.start)
            self._add(
                line, "uncited", number.text, "a hardware number without a citation",
                f"{fix}, {OR_WHOSE}",
            )  # fmt: skip

    def _meant(self, text: str, number: Quantity) -> str | None:
        """How to cite the first known fact that the number says."""
        for fact in self._sources.known:
            place = _place(fact)
            if place and self._is(text, number, fact):
                return f"if it is {fact.metric}: `{number.text} <- {place}`"
        return None

    def _is_cited(self, text: str, number: Quantity) -> bool:
        """Whether the file cites the fact, or the two facts that the number follows from."""
        if any(self._is(text, number, fact) for fact in self._cited):
            return True
        if number.dimension == "FLOP/byte":
            ridges = _ridges(self._agreeing(text, number))
            return any(number.near(ridge) for ridge in ridges)
        return number.dimension == "FLOP/s" and any(
            number.near(intensity * rate, slack)
            for intensity, slack in _intensities(text)
            for rate in _values(self._cited, "byte/s")
        )

    def _is(self, text: str, number: Quantity, fact: Fact) -> bool:
        """Whether the number is the fact's, and the words beside it speak of nothing else."""
        if not (number.says(fact) and _same_things(number, fact)):
            return False
        return self._other(plain(text), (number.start, number.end), fact) is None

    def _agreeing(self, text: str, number: Quantity) -> list[Fact]:
        """The rates that are cited, without those that the words beside the number exclude."""
        words, span = plain(text), (number.start, number.end)
        rates = [f for f in self._cited if dimension_of(f.unit) in ("FLOP/s", "byte/s")]
        return [fact for fact in rates if self._other(words, span, fact) is None]

    def _other(self, text: str, span: tuple[int, int], fact: Fact) -> str | None:
        return contradiction(text, *span, fact, self._sources.products())

    def _is_quoted(self, text: str, number: Quantity) -> bool:
        """Whether a tool printed it so, in the same words."""
        return is_quoted(plain(text), number.start, number.end, self._sources.quoted)

    def _add(
        self,
        line: int,
        kind: Literal["uncited", "unresolved", "differs"],
        number: str,
        why: str,
        fix: str,
    ) -> None:
        self.problems.append(Problem(self._name, line, kind, number, why, fix))


_SAY_WHICH: Final = "say what it is a number of as the citation does, or cite the other line"


def _covered(before: str) -> tuple[Quantity | None, tuple[int, int]]:
    """The number that a citation is of: what stands after the metric, else the last one before it.

    `<metric>: <value> <unit>` may have any unit; in prose, only units of hardware are known.
    """
    fact = _VALUE.search(before)
    if fact is not None:
        span = fact.start("number"), fact.end("unit")
        return quantity_of(fact["number"].lstrip("-"), fact["unit"]), span
    known = list(quantities(before))
    if known:
        return known[-1], (known[-1].start, known[-1].end)
    counted = hardware_numbers(before)
    if not counted:
        return None, (len(before), len(before))
    digits = counted[-1].text.split()[-1]
    start = max(before.rfind(digits), 0)
    return counted[-1], (start, start + len(digits))


def _said(fact: Fact) -> str:
    value = "UNKNOWN" if fact.value is None else shown(fact.value, fact.unit)
    return f"{fact.metric}: {value}"


def _begins(text: str, start: str) -> bool:
    start = unmarked(start)
    return text.startswith(start) and not text[len(start) :][:1].isalnum()


def _place(fact: Fact) -> str | None:
    """`path:line` of a fact, or the path where it has no lines."""
    cited = fact.citation
    if cited is None:
        return None
    return unmarked(cited.path if cited.line is None else f"{cited.path}:{cited.line}")


def _ridges(facts: Sequence[Fact]) -> Iterator[float]:
    """Every quotient of a cited peak and a cited bandwidth."""
    rates = list(_values(facts, "byte/s"))
    return (peak / rate for peak in _values(facts, "FLOP/s") for rate in rates)


def _values(facts: Sequence[Fact], dimension: str) -> Iterator[float]:
    return (fact.value for fact in facts if fact.value and dimension_of(fact.unit) == dimension)


def _intensities(text: str) -> Iterator[tuple[float, float]]:
    """FLOP per byte that a statement names, and half a unit of its last digit, as a share."""
    for quantity in quantities(text):
        if quantity.dimension == "FLOP/byte":
            yield quantity.values[0], quantity.tolerance


_KINDS_OF_THINGS: Final = (
    re.compile(r"\bSMX?s?\b|\bsm_|multiprocessor", re.IGNORECASE),
    re.compile(r"\bCUs?\b|\bcu_|compute.units?", re.IGNORECASE),
    re.compile(r"threads?", re.IGNORECASE),
    re.compile(r"warp|wave", re.IGNORECASE),
    re.compile(r"block|workgroup|CTA", re.IGNORECASE),
    re.compile(r"reg(?:ister)?s|GPR", re.IGNORECASE),
    re.compile(r"core", re.IGNORECASE),
)


def _same_things(number: Quantity, fact: Fact) -> bool:
    """Whether a count is of what the fact counts: 64 warps are not 64 registers."""
    if number.dimension not in ("count", "per"):
        return True
    things = [kind for kind in _KINDS_OF_THINGS if kind.search(number.text)]
    return not things or any(kind.search(fact.metric) for kind in things)
