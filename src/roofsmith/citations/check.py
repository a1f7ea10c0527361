"""Whether citations hold: in one text, in a hypothesis, in the files of a campaign."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from roofsmith.analysis.quantities import Quantity, hardware_quantities, quantity, without
from roofsmith.citations.form import ARROW, FORM, QUOTED, Cited, citations_in, parse
from roofsmith.citations.sources import CitationSource, CitationSources
from roofsmith.domain.citations import CheckedCitations
from roofsmith.domain.facts import Fact
from roofsmith.domain.proposal import Hypothesis

Kind = Literal["malformed", "unresolved", "differs", "ledger", "unsourced"]
"""malformed: not in the form; unresolved: nothing is written there; differs: something else is;
ledger: the records themselves were changed; unsourced: a number that somebody proposed with stands
without a citation."""

_NEAREST: Final = 2
"""Facts that are offered for a number without a source."""
_CITE: Final = "`roofsmith specs cite PRODUCT METRIC` prints a line that holds"
_FREE_TEXTS: Final = (
    "statement", "rationale", "expected_counter", "expected_change", "source", "risks", "rollback",
    "again",
)  # fmt: skip
"""Fields of a hypothesis that hold words, beside its lines of evidence."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One citation that doesn't hold."""

    file: str
    line: int
    kind: Kind
    number: str
    """As it is written; of a citation without a number, the place."""
    why: str
    fix: str

    def __str__(self) -> str:
        """`README.md:12: 3.35 TB/s: why; what to do`."""
        return f"{self.file}:{self.line}: {self.said}"

    @property
    def said(self) -> str:
        """The same without file and line."""
        return f"{self.number}: {self.why}; {self.fix}"


@dataclass(frozen=True, slots=True)
class CitationAudit:
    """What was looked at, and what doesn't hold."""

    files: int
    numbers: int
    """Citations with a number in front of them."""
    citations: int
    problems: tuple[Problem, ...]
    """Empty for a campaign that passes."""
    notes: tuple[str, ...] = ()
    """What it rested on."""


def audit(files: Mapping[str, str], sources: CitationSources) -> CitationAudit:
    """Check every citation in files."""
    found = [
        (cited, path, number)
        for path, text in sorted(files.items())
        for number, line in enumerate(text.splitlines(), start=1)
        for cited in citations_in(line)
    ]
    problems = (check(cited, sources, path, line) for cited, path, line in found)
    return CitationAudit(
        files=len(files),
        numbers=sum(cited.quantity is not None for cited, _, _ in found),
        citations=len(found),
        problems=tuple(problem for problem in problems if problem is not None),
    )


def check_hypothesis(
    hypothesis: Hypothesis,
    sources: CitationSources,
    known: Collection[str] = (),
    facts: Sequence[Fact] = (),
) -> CheckedCitations:
    """Check the citations that a hypothesis gives, and find hardware numbers that have none.

    Args:
        hypothesis: its `facts` must be in the form; citations in its words are checked as well.
        sources: where citations lead.
        known: texts that are the campaign's own, such as the evidence of a bottleneck; whoever
            repeats a number of them claims nothing.
        facts: that may be cited, beside the sources' own.
    """
    texts = [(name, text) for name, text in _texts(hypothesis) if text not in known]
    problems: list[str] = []
    holding: list[Cited] = []
    for name, text, cited in _given(hypothesis, texts):
        if cited is None:
            problems.append(f"{name}: {_quoted(text)}: not in the form {FORM}; {_CITE}")
        elif (problem := check(cited, sources, name)) is not None:
            problems.append(f"{name}: {problem.said}")
        else:
            holding.append(cited)
    cited_facts = [source.fact for cited in holding for source in _meant(cited, sources)]
    said = {number.meaning for text in known for number in hardware_quantities(text)}

    def has_source(number: Quantity) -> bool:
        return number.meaning in said or any(number.says(fact) for fact in cited_facts)

    bare = [(name, n) for name, text in texts for n in hardware_quantities(text)]
    bare = [(name, number) for name, number in bare if not has_source(number)]
    return CheckedCitations(
        problems=tuple(problems),
        unsourced=tuple(f"{name}: {number.text}" for name, number in bare),
        of_devices=tuple(f"{name}: {n.text}" for name, n in bare if n.is_devices),
        nearest=_nearest([number for _, number in bare], (*sources.own, *facts)),
        struck=_struck(hypothesis, has_source) if any(n.is_devices for _, n in bare) else None,
    )


def _struck(hypothesis: Hypothesis, has_source: Callable[[Quantity], bool]) -> Hypothesis:
    """A hypothesis without the numbers of a device that have no source."""
    left: dict[str, object] = {
        name: without(text, has_source)
        for name in _FREE_TEXTS
        if (text := getattr(hypothesis, name))
    }
    left["evidence"] = tuple(without(text, has_source) for text in hypothesis.evidence)
    return hypothesis.model_copy(update=left)


def _nearest(numbers: Sequence[Quantity], facts: Sequence[Fact]) -> tuple[str, ...]:
    """Facts in the numbers' units, of each number the nearest few by their ratio."""
    found = dict[str, None]()
    for number in numbers:
        alike = [f for f in facts if f.value and quantity("1", f.unit).unit == number.unit]
        alike.sort(
            key=lambda fact: abs(math.log(number.meaning[0] or 1) - math.log(fact.value or 1))
        )
        found |= dict.fromkeys(map(str, alike[:_NEAREST]))
    return tuple(found)


def check(cited: Cited, sources: CitationSources, file: str = "", line: int = 1) -> Problem | None:
    """What is wrong with one citation; None if it holds."""
    found, (text, where) = sources.behind(cited), cited.key
    if cited.key in sources.quoted:
        return None
    if not found and cited.line is None:
        return Problem(file, line, "malformed", text, f"{where} is no path:line", _CITE)
    if not found:
        return Problem(file, line, "unresolved", text, f"no fact is written at {where}", _CITE)
    if _meant(cited, sources):
        return None
    said = dict.fromkeys(str(source.fact).partition(ARROW)[0] for source in found)
    why = f"{where} says {'; '.join(said)}"
    fix = "give the metric and the value that stand there, or cite another line"
    return Problem(file, line, "differs", text, why, fix)


def _meant(cited: Cited, sources: CitationSources) -> tuple[CitationSource, ...]:
    return tuple(source for source in sources.behind(cited) if _agrees(cited, source))


def _agrees(cited: Cited, source: CitationSource) -> bool:
    if cited.metric is not None and not source.is_called(cited.metric):
        return False
    if cited.quantity is None:
        return True
    if source.fact.value is None:  # a text or a list of numbers stands there
        return (source.fact.reason or "").endswith(cited.quantity.text)
    return cited.quantity.says(source.fact)


def _given(
    hypothesis: Hypothesis, texts: list[tuple[str, str]]
) -> Iterator[tuple[str, str, Cited | None]]:
    """Every citation with its field and its text; None: it should be one."""
    for number, text in enumerate(hypothesis.facts):
        yield f"facts[{number}]", text, parse(text)
    for name, text in texts:
        for line in text.splitlines():
            for cited in citations_in(line):
                yield name, text, cited


def _texts(hypothesis: Hypothesis) -> Iterator[tuple[str, str]]:
    for name in _FREE_TEXTS:
        if text := getattr(hypothesis, name):
            yield name, text
    for number, text in enumerate(hypothesis.evidence):
        yield f"evidence[{number}]", text


def _quoted(text: str) -> str:
    """The begin of a text, which isn't taken for a citation where a report quotes it."""
    return text[:QUOTED].replace(ARROW, " from ")
