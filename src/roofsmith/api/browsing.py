"""The experiments of all campaigns, to look through. The database is opened to read alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from roofsmith.analysis.figures import first_line
from roofsmith.api.excerpts import ROWS, cut, excerpt, figure, paged
from roofsmith.api.views import experience as views
from roofsmith.domain.dashboard import Chosen, ExperiencePage, ExperimentPage, ExperimentRow
from roofsmith.domain.experiment import Experiment
from roofsmith.errors import RoofsmithError, UnknownNameError
from roofsmith.experience.database import Database, Query

_MOST = 5 * ROWS
"""Experiments that a choice is made of."""
_SILENT = frozenset(("baseline", "refused", "unstable"))
"""What came to nothing that says anything of a change."""


class Experience:
    """What a page shows of the database, opened anew for each."""

    def __init__(self, url: str | None) -> None:
        """`url`: as settings name it; None: nothing is kept."""
        self._there = None if url is None else Database(url, only_reads=True)

    def page(
        self, show: Chosen, query: str = "", kernel: str = "", page: int = 1
    ) -> ExperiencePage:
        """Some experiments that say all words of a query; why there are none is a value."""
        found: list[list[Experiment]] = []
        there, reason = self._there, "nothing matches"
        try:
            if there is None:
                reason = "no experiments are kept: ROOFSMITH_EXPERIENCE is none"
            elif there.path is not None and not there.path.exists():
                reason = "no campaign has left anything there yet"
            else:
                found = _chosen(there, show, query, kernel)
        except RoofsmithError as error:
            reason = str(error)
        shown, page, pages = paged(found, page)
        return ExperiencePage(
            database=cut(there.name if there else "none"), show=show, query=cut(query),
            kernel=cut(kernel), rows=tuple(_row(*one) for one in shown), page=page, pages=pages,
            reason="" if found else cut(reason),
        )  # fmt: skip

    def experiment(self, id_: str) -> ExperimentPage:
        """One, whole.

        Raises:
            UnknownNameError: there is none.
            StorageError: it can't be read.
        """
        if self._there is None:
            raise UnknownNameError("no experiments are kept")
        one = self._there.get(id_)
        said = "\n".join(str(line) for line in views.experiment(one))
        return ExperimentPage(row=_row(one), said=excerpt("", said, 60_000))


def _chosen(there: Database, show: Chosen, query: str, kernel: str) -> list[list[Experiment]]:
    failed, part = show == "failures", kernel.casefold()
    wanted = Query(op=kernel or None, outcome="failure" if failed else None)
    if query:
        found: Iterable[Experiment] = there.search(query, _MOST)
    elif show == "top":
        found = there.top(_MOST, wanted)
    else:
        found = reversed(there.list(wanted, _MOST))
    named = [one for one in found if part in f"{one.operator_sig} {one.family}".casefold()]
    if show == "latest":
        return [[one] for one in named]
    named = [one for one in named if one.outcome == ("failure" if failed else "success")]
    if failed:
        telling = (one for one in named if one.status not in _SILENT and not one.masked)
        named = sorted(telling, key=_surprise, reverse=True)
    groups: dict[tuple[str, ...], list[Experiment]] = defaultdict(list)
    for one in named:
        groups[one.operator, _change(one).casefold(), one.status].append(one)
    return list(groups.values())


def _change(one: Experiment) -> str:
    return one.hypothesis.statement if one.hypothesis else one.change_summary


def _surprise(one: Experiment) -> tuple[bool, float]:
    """Failures that somebody drew a lesson from, then those that were believed in most."""
    hypothesis = one.hypothesis
    expected = hypothesis.predicted_speedup if hypothesis else None
    return bool(hypothesis and hypothesis.insight), (expected or 1.0) / (one.score or 1.0)


def _row(one: Experiment, *alike: Experiment) -> ExperimentRow:
    hypothesis, measured = one.hypothesis, not one.is_buggy and one.score
    why = (hypothesis.insight if hypothesis else "") or one.error_message or one.rule
    expected = hypothesis.predicted_speedup if hypothesis else None
    return ExperimentRow(
        id=cut(one.id), at=cut(one.time), kernel=cut(one.operator_sig), backend=cut(one.backend),
        device=cut(one.device or one.arch), proposer=cut(one.proposer), outcome=one.outcome,
        status=cut(one.status.replace("_", " ")), what=cut(_change(one)), why=cut(first_line(why)),
        expected=figure(expected, "nobody said what to expect"), alike=len(alike),
        speedup=figure(measured or None, "not measured", one.interval),
    )  # fmt: skip
