"""Campaigns and suites as a page shows them. Takes no lock, and writes nothing anywhere."""

from __future__ import annotations

import hashlib
import math
import os
import shlex
import stat
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from statistics import median
from typing import TypeVar

from roofsmith.analysis.bases import bundle
from roofsmith.analysis.experiments import family_of
from roofsmith.analysis.fractions import attainable_share, final_fraction
from roofsmith.analysis.hypotheses import lines
from roofsmith.analysis.spending import spendings
from roofsmith.api.comparing import course_of, curves, floors, sides
from roofsmith.api.excerpts import LONG, ROWS, SHORT, cut, excerpt, figure, paged, ratio, short
from roofsmith.api.finished import REPORT
from roofsmith.api.reading import read_suite
from roofsmith.domain.campaign import Campaign, Event, Resumed, Round, after
from roofsmith.domain.dashboard import (
    Activity,
    Beginning,
    BrokenEntry,
    CampaignPage,
    CampaignRow,
    ComparePage,
    CounterLine,
    Figure,
    Filter,
    Limit,
    LimitName,
    Now,
    Overview,
    RoundPage,
    RoundRow,
    SuitePage,
    WorkloadLine,
)
from roofsmith.domain.experiment import UNKNOWN_FAMILY
from roofsmith.domain.standing import limits_in_force
from roofsmith.errors import LedgerError, RoofsmithError, UnknownNameError, UsageError
from roofsmith.machine.seats import QueuePlace, turn_of
from roofsmith.report.counters import counter_rows
from roofsmith.report.diagnoses import LEVELS, diagnosis_page
from roofsmith.report.diffs import candidate_diff
from roofsmith.report.drawings import drawn_campaign, drawn_round, style
from roofsmith.report.ends import PAUSES
from roofsmith.report.headline import leading
from roofsmith.report.next_steps import DIFFERENCE, taken_home
from roofsmith.report.samples_chart import paired_rows
from roofsmith.report.steps import counting_ratio, mark_of, status_of
from roofsmith.report.summarize import product, summarize
from roofsmith.report.summary import Ratio, Summary, WorkloadRow
from roofsmith.store.campaign_dir import LEDGER, RESULTS, Working, asked, working
from roofsmith.store.ledger import JsonlLedger
from roofsmith.store.lineage_place import remembered
from roofsmith.store.records import unseal

__all__ = ["Dashboard", "style"]
T = TypeVar("T")

_FEW = 4
"""Files that are shown; of more, their names."""
_TREND = 40
"""Points of a sparkline."""
_NAME, _MOST_PROPOSERS = 60, 6
"""Characters of a name to choose by, and how many are shown of a list."""
ANY = Filter()
MOST_COMPARED, _MOST_KEPT = 12, 12
"""Campaigns side by side, and kept changes of each."""
_MANY, _SAID = 200, 24
"""Lines of a table, and of what was said about a round."""
_HELD_S = 5.0
"""How long it is believed which processes work in which campaign."""
_USUAL = 20
"""Rounds whose median is what a round usually takes."""
_PATIENCE_S, _PATIENCE = 300.0, 5.0
"""Without a record for so long, and so many times what a round usually takes: it has stalled."""


def id_of(directory: Path, *, is_suite: bool = False) -> str:
    """What a campaign or suite in a directory is called in addresses."""
    return hashlib.sha256(os.fsencode(directory) + bytes([is_suite])).hexdigest()[:12]


class _Place:
    """A campaign's directory or a suite's."""

    def __init__(self, directory: Path, *, is_suite: bool) -> None:
        self.directory, self.is_suite = directory, is_suite
        self.id = id_of(directory, is_suite=is_suite)
        self._file = directory / (RESULTS if is_suite else LEDGER)
        self._lock = threading.Lock()
        self._stamp: tuple[int, ...] = ()
        self._read: tuple[Campaign | None, int, str] = (None, 0, "")
        self._beginning: tuple[int, Beginning] | None = None
        self._row: tuple[object, CampaignRow] | None = None
        self._drawn: tuple[Campaign, tuple[Summary, dict[str, str]]] | None = None

    def stamp(self) -> tuple[int, ...]:
        """Changes whenever what it shows may have; empty while there is no file."""
        try:
            found = self._file.stat()
        except OSError:
            return ()
        regular = stat.S_ISREG(found.st_mode)
        return (found.st_ino, found.st_size, found.st_mtime_ns) if regular else ()

    def beginning(self) -> Beginning:
        """Of its first record alone: where hundreds are filtered, few are read whole."""
        stamp = self.stamp()
        if not stamp:
            raise UsageError(f"{self._file} is gone, or no file")
        if self._beginning is None or self._beginning[0] != stamp[0]:
            with self._file.open("rb") as file:
                line = file.readline().rstrip(b"\n")
            campaign = after(None, unseal(line).event())
            self._beginning = stamp[0], _beginning(campaign, self.id, self.directory)
        return self._beginning[1]

    def row(self, *, works: bool) -> CampaignRow:
        """Made anew where something is new. Of a campaign that nobody works in or looks at, nothing
        else is held: hundreds would fill the memory.
        """
        seen = (self.stamp(), works)
        if self._row is None or self._row[0] != seen:
            is_held = self._read[0] is not None
            self._row = seen, campaign_row(self.campaign(), self.id, self.directory, works=works)
            if not works and not is_held:
                with self._lock:
                    self._stamp, self._read = (), (None, 0, "")
        return self._row[1]

    def campaign(self) -> Campaign:
        """As it is now. All bytes are checked, records that were read before aren't read again."""
        with self._lock:
            stamp = self.stamp()
            if not stamp:
                raise UsageError(f"{self._file} is gone, or no file")
            if stamp != self._stamp:
                ledger = JsonlLedger(self._file)
                try:
                    records = ledger.records()
                except LedgerError:  # two were written between its head and its end, perhaps
                    records = ledger.records()
                campaign, count, digest = self._read
                if count > len(records) or (count and records[count - 1].hash != digest):
                    campaign, count = None, 0
                for record in records[count:]:
                    campaign = after(campaign, record.event())
                self._read = campaign, len(records), records[-1].hash if records else ""
                self._stamp = stamp
            if self._read[0] is None:
                raise UsageError(f"{self._file} holds no whole record yet")
            return self._read[0]

    def drawn(self, campaign: Campaign) -> tuple[Summary, dict[str, str]]:
        """The campaign's summary and pictures, made once for all who look at it."""
        if self._drawn is None or self._drawn[0] is not campaign:
            self._drawn = campaign, drawn_campaign(campaign, f"{self.id}/round/")
        return self._drawn[1]


class Dashboard:
    """What lies in some folders, looked up again for each page.

    Its methods raise `UnknownNameError` for what was never there; what can't be read is a value.
    """

    def __init__(self, folders: Sequence[Path], leases: Path | None = None) -> None:
        """Look once.

        Args:
            folders: of campaigns and suites.
            leases: where leases of GPUs are; None: where all users of this host look.

        Raises:
            UsageError: one of them holds neither a campaign nor a suite.
        """
        self._folders, self._leases = [folder.absolute() for folder in folders], leases
        self._places: dict[str, _Place] = {}
        self._held: tuple[float, dict[Path, Working]] = (0.0, {})
        for folder in self._folders:
            if next(_found(folder), None) is None:
                what = "holds no campaign and no suite" if folder.is_dir() else "is no directory"
                raise UsageError(
                    f"{folder} {what}",
                    hint="name a directory that `roofsmith optimize` or `suite` printed, or a"
                    " folder of such",
                )
        self._look()

    def stamp(self, id_: str | None = None) -> tuple[object, ...]:
        """Another one whenever a campaign, or any of all, may have changed."""
        places = self._look() if id_ is None else [self._place(id_)]
        stamps = [(one.id, one.stamp(), self._working(one)) for one in places]
        return tuple(stamps) if id_ is None else (*stamps, *self._live(places[0]))

    def overview(self, page: int = 1, wanted: Filter = ANY, within_s: float = math.inf) -> Overview:
        """A page of all that match.

        Args:
            page: from 1.
            wanted: what must be said of a campaign; suites are shown where nothing is asked for.
            within_s: after so long, what wasn't read yet is left unread.
        """
        until, asked = time.monotonic() + within_s, wanted.model_dump(exclude_defaults=True)
        places = sorted(self._look(), key=lambda one: one.stamp()[-1:], reverse=True)
        begun = {one.id: _read(one, _Place.beginning) for one in places if not one.is_suite}
        matching = [one for one in places if not asked or _matches(begun.get(one.id), asked)]
        chosen, page, pages = paged(matching, page)
        read = [
            _read(one, self._suite) if one.is_suite
            else _read(one, self._row) if time.monotonic() < until else begun[one.id]
            for one in chosen
        ]  # fmt: skip
        known = [one for one in begun.values() if isinstance(one, Beginning)]
        return Overview(
            campaigns=tuple(one for one in read if isinstance(one, CampaignRow)),
            unread=tuple(one for one in read if type(one) is Beginning),
            suites=tuple(one for one in read if isinstance(one, SuitePage)),
            unreadable=tuple(one for one in read if isinstance(one, BrokenEntry)),
            filter=wanted, choices={name: _choices(known, name) for name in Filter.model_fields},
            matching=sum(not one.is_suite for one in matching), page=page, pages=pages,
        )  # fmt: skip

    def compare(self, ids: Sequence[str]) -> ComparePage:
        """Campaigns side by side, as many as fit, in this order."""
        places = [self._place(one) for one in dict.fromkeys(ids[:MOST_COMPARED])]
        read = [_read(one, lambda place: (place.campaign(), self._row(place), _kept(place)))
                for one in places]  # fmt: skip
        found = [one for one in read if not isinstance(one, BrokenEntry)]
        campaigns, rows = [one[0] for one in found], [one[1] for one in found]
        return ComparePage(
            campaigns=tuple(rows), rows=tuple(sides([one[2] for one in found])),
            unreadable=tuple(one for one in read if isinstance(one, BrokenEntry)),
            kept=tuple(
                tuple(_round_row(one, kept) for kept in one.kept[-_MOST_KEPT:])
                for one in campaigns
            ),
            by_seconds=tuple(curves(rows, campaigns)),
            by_cost=tuple(curves(rows, campaigns, by_cost=True)),
            floors=tuple(islice(floors(rows, [one[2] for one in found]), _MOST_KEPT)),
        )  # fmt: skip

    def directory(self, id_: str) -> Path:
        """Where a campaign is."""
        return self._place(id_).directory

    def latest(self) -> str:
        """The id of the campaign that was written last; UsageError: there is none."""
        here = [one for one in self._look() if not one.is_suite]
        if not here:
            raise UsageError("no campaign has begun there", hint="roofsmith optimize begins one")
        return max(here, key=lambda one: one.stamp()[-1:]).id

    def records(self, id_: str) -> tuple[Campaign, list[Event]]:
        """A campaign, and those of its records that people follow."""
        found = self._place(id_).campaign()
        events = (found.started, found.baseline, *found.rounds, found.stopped)
        return found, [one for one in events if one is not None]

    def campaign(self, id_: str, page: int = 1) -> CampaignPage | BrokenEntry:
        """One campaign, with a page of its rounds, the last ones first."""
        return _read(self._place(id_), lambda place: self._campaign(place, page))

    def news(self, id_: str, since: int) -> CampaignPage | BrokenEntry:
        """A campaign with its rounds after one, the last page of them at most, and nothing else."""
        return _read(self._place(id_), lambda place: self._campaign(place, 1, since))

    def round(self, id_: str, number: int) -> RoundPage | BrokenEntry:
        """One round, whole."""
        return _read(self._place(id_), lambda place: _round(place, number))

    def difference(self, id_: str, number: int, *, whole: bool) -> str | BrokenEntry:
        """Of a round's kernel to the one that it was held against, or to the first: all of it."""

        def read(place: _Place) -> str:
            campaign = place.campaign()
            found = _found_round(campaign, number)
            before = campaign.held_before(found)
            before = campaign.started.target.baseline if whole else before
            return "".join(one.text for one in candidate_diff(before, found.candidate))

        return _read(self._place(id_), read)

    def text(self, id_: str, number: int) -> str | BrokenEntry:
        """One of a campaign's files, from 1, as long as it is; 0 is the whole patch."""

        def read(place: _Place) -> str:
            campaign = place.campaign()
            home = taken_home(campaign)
            texts = [home.difference if home else "", *(one for _, one in _files(campaign))]
            if number not in range(len(texts)):
                raise UnknownNameError(f"there is no file {number}")
            return texts[number]

        return _read(self._place(id_), read)

    def suite(self, id_: str, page: int = 1) -> SuitePage | BrokenEntry:
        """A suite, with a page of its campaigns."""
        return _read(self._place(id_, is_suite=True), lambda one: self._suite(one, page, rows=ROWS))

    def report(self, id_: str) -> bytes:
        """A campaign's `report.html`, as it lies there."""
        path = self._place(id_).directory / REPORT
        try:
            if path.is_file() and not path.is_symlink():
                return path.read_bytes()
        except OSError as error:
            raise UnknownNameError(f"{path} can't be read: {error.strerror}") from error
        raise UnknownNameError(f"{path} isn't there")

    def _place(self, id_: str, *, is_suite: bool = False) -> _Place:
        found = self._places.get(id_)
        if found is None or found.is_suite != is_suite:
            raise UnknownNameError(f"nothing here is called {id_}")
        return found

    def _look(self) -> list[_Place]:
        """All that were ever seen: one that vanishes is said to have."""
        known = {(one.directory, one.is_suite) for one in [*self._places.values()]}
        for folder in self._folders:
            for directory, is_suite in _found(folder):
                if (directory, is_suite) not in known:
                    new = _Place(directory, is_suite=is_suite)
                    self._places.setdefault(new.id, new)
        return [*self._places.values()]

    def _working(self, place: _Place) -> Working | None:
        """The process of this user that works there."""
        at, held = self._held
        if time.monotonic() - at > _HELD_S:
            held = {one.directory: one for one in working()}
            self._held = time.monotonic(), held
        return None if place.is_suite else held.get(place.directory.resolve())

    def _live(self, place: _Place) -> tuple[str, QueuePlace | None]:
        """What was asked of it, and its turn on a GPU; what can't be read is said elsewhere."""
        process, gpu = self._working(place), ""
        if process is None:
            return "", None
        with suppress(Exception):
            gpu = _gpu(place.campaign())
        return _asked(place), turn_of(gpu, process.pid, self._leases) if gpu else None

    def _row(self, place: _Place) -> CampaignRow:
        return place.row(works=self._working(place) is not None)

    def _campaign(self, place: _Place, page: int, since: int | None = None) -> CampaignPage:
        campaign = place.campaign()
        wanted = [one for one in campaign.rounds[::-1] if one.round > (since or 0)]
        rounds, page, pages = paged(wanted, page)
        home, known = taken_home(campaign), remembered(place.directory)
        to = "" if known is not None and known.kernel else " --to DIR"
        files = _files(campaign)[:ROWS] if since is None else []
        kept = campaign.kept[-_SAID:] if since is None else ()
        row, process, live = self._row(place), self._working(place), self._live(place)
        summary, drawn = place.drawn(campaign)
        share = attainable_share(row.fraction.value, campaign.started.bounds)
        return CampaignPage(
            row=row,
            now=None if campaign.stopped else _now(campaign, row, place, process, live),
            limits=_limits(campaign, summary), came_to=_came_to(campaign),
            baseline_fraction=figure(summary.baseline_fraction, "the limit isn't known"),
            attainable=figure(share, "nobody measured what memory gives here"),
            limit_speedup=figure(summary.limit_speedup, "the limit isn't known"),
            workloads=tuple(_workload_line(one) for one in summary.workloads[:ROWS]),
            drawn=drawn, build=cut(home.build, LONG) if home else "",
            apply=f"roofsmith apply {shlex.quote(str(place.directory))}{to}" if home else "",
            files=tuple(excerpt(*one, LONG if n < _FEW else 0) for n, one in enumerate(files)),
            patch=excerpt(DIFFERENCE, home.difference) if home and since is None else None,
            lineage=tuple(_round_row(campaign, one) for one in kept),
            rounds=tuple(_round_row(campaign, one) for one in rounds),
            page=page, pages=pages, has_report=(place.directory / REPORT).is_file(),
        )  # fmt: skip

    def _suite(self, place: _Place, page: int = 1, *, rows: int = 0) -> SuitePage:
        if not place.stamp():
            raise UsageError(f"{place.directory / RESULTS} is gone, or no file")
        suite = read_suite(place.directory)
        shown, page, pages = paged(suite.rows, page)
        here = {one.directory: one.id for one in self._look() if not one.is_suite}
        texts = ("problem", "reason", "campaign")
        return SuitePage(
            id=place.id, directory=cut(place.directory), proposer=cut(suite.proposer),
            device=cut(suite.device), expected=suite.problems * suite.repeats,
            ended=len(suite.rows), page=page, pages=pages, budget_s=suite.budget_s,
            waiting=tuple(cut(one) for one in suite.waiting[:rows]), raised=len(suite.raised),
            scores=tuple(
                (one.name, figure(one.value, "no campaign measured it", one.spread))
                for one in suite.scores
            ),
            rows=tuple(
                (one.model_copy(update={name: cut(getattr(one, name)) for name in texts}),
                 here.get(place.directory / one.campaign))
                for one in shown[:rows]
            ),
        )  # fmt: skip


def _found(folder: Path) -> Iterator[tuple[Path, bool]]:
    """Campaigns and suites of a folder, and whether each is a suite; not what campaigns hold."""
    for depth in ("", "*/", "*/*/"):
        for name in (LEDGER, RESULTS):
            for file in folder.glob(depth + name):
                place = file.parent
                above = place.relative_to(folder).parents
                if not any((folder / one / LEDGER).exists() for one in above):
                    yield place, name == RESULTS


def _read(place: _Place, how: Callable[[_Place], T]) -> T | BrokenEntry:
    """What is made of a place, or why it can't be: files change, and break, while one looks."""
    try:
        return how(place)
    except UnknownNameError:
        raise
    except RoofsmithError as error:
        reason = str(error)
    except Exception as error:  # noqa: BLE001 - one strange ledger must not hide the others
        reason = f"this version of roofsmith can't show it ({type(error).__name__}: {error})"
    return BrokenEntry(id=place.id, directory=cut(place.directory), reason=cut(reason, 600))


def _kept(place: _Place) -> Summary:
    return summarize(place.campaign(), lambda round_: round_.decision.kind == "kept")


def _said(found: Beginning, name: str) -> tuple[str, ...]:
    """What a campaign says to a field of the filter."""
    return found.proposers if name == "proposer" else (getattr(found, name),)


def _matches(found: Beginning | BrokenEntry | None, asked: Mapping[str, str]) -> bool:
    return isinstance(found, Beginning) and all(
        part.casefold() in ", ".join(_said(found, name)).casefold() for name, part in asked.items()
    )


def _choices(known: Sequence[Beginning], name: str) -> tuple[str, ...]:
    there = {one for found in known for one in _said(found, name) if len(one) <= _NAME}
    return tuple(sorted(there, key=str.casefold)[:ROWS])


def _beginning(campaign: Campaign, id_: str, directory: Path) -> Beginning:
    started = campaign.started
    return Beginning(
        id=id_, directory=cut(directory), name=cut(started.campaign),
        kernel=cut(started.target.name), family=cut(family_of(started.target) or UNKNOWN_FAMILY),
        device=cut(started.environment.device.name), started_at=cut(started.at),
        proposers=tuple(cut(one, _NAME) for one in started.proposers[:_MOST_PROPOSERS]),
    )  # fmt: skip


def campaign_row(campaign: Campaign, id_: str, directory: Path, *, works: bool) -> CampaignRow:
    """A campaign in a line; `works` is whether a process does in it."""
    started, holder = campaign.started, campaign.holder
    fates = [mark_of(one)[0] for one in campaign.rounds]
    costs = [one.cost_usd for one in spendings(campaign)]
    known = [one for one in costs if one is not None]
    state, doing = _state(campaign, works)
    last = [one.event.at for one in campaign.asides[-1:]]
    last += [one.at for one in campaign.rounds[-1:] or ([holder] if holder else [])]
    course = course_of(campaign)
    return CampaignRow(
        **dict(_beginning(campaign, id_, directory)),
        state=state, doing=cut(doing),
        last_at=cut(max([started.at, *last])), speedup=_headline(campaign),
        fraction=figure(
            final_fraction(campaign) if campaign.baseline else None,
            "the limit isn't known" if campaign.baseline else "nothing is measured yet",
        ),
        tried=len(fates), kept=fates.count("kept"), failed=fates.count("failed"),
        refused=len(campaign.refusals), trend=_trend(campaign),
        seconds=figure(course[-1][0] if course else None, "the baseline isn't measured yet"),
        cost_usd=figure(
            sum(known) if len(known) == len(costs) else None, "nobody knows what some took"
        ),
    )  # fmt: skip


def _headline(campaign: Campaign) -> Figure:
    """As the report's, without its other figures: those take seconds of a long campaign."""
    if campaign.baseline is None:
        return Figure(reason="the baseline isn't measured yet")
    if (status := status_of(campaign.baseline.outcome)) != "passed":
        return Figure(reason=f"the first kernel: {status}")
    ratios = (counting_ratio(one.judgement) for one in campaign.kept)
    kept = product(one for one in ratios if one is not None)
    low, high = (end / kept.value for end in kept.ci)
    total = Ratio(1.0, (low, high)).over(campaign.total_speedup)
    direct = leading(campaign, total)
    return ratio(total if direct is None else counting_ratio(direct), "not measured")


def _state(campaign: Campaign, works: bool) -> tuple[Activity, str]:
    if (end := campaign.stopped) is not None:
        state: Activity = "interrupted" if end.code in PAUSES else "finished"
        return state, f"{end.code.replace('_', ' ')}: {end.detail}"
    if not works:
        return "waiting", "no process of yours works in it; `roofsmith resume` goes on"
    if campaign.planned is None:
        return "running", "between two changes"
    return "running", f"judges {campaign.planned.proposal.hypothesis.statement}"


def _trend(campaign: Campaign) -> tuple[float, ...]:
    found = [1.0, *(short(one.total_speedup) for one in campaign.rounds)]
    return tuple(found[:: -len(found) // _TREND][::-1]) if campaign.baseline else ()


def _now(
    campaign: Campaign, row: CampaignRow, place: _Place, process: Working | None,
    live: tuple[str, QueuePlace | None],
) -> Now:  # fmt: skip
    planned = campaign.planned
    idea = planned.proposal.hypothesis if planned is not None else None
    lasted = [one.wall_s for one in campaign.rounds[-_USUAL:]]
    usual = median(lasted) if lasted else None
    kept = max((one.round for one in campaign.kept), default=1)
    (asked, turn), gpu = live, _gpu(campaign)
    why = "no process of yours works in it"
    if not gpu:
        why = "it measures on the host's processors"
    elif turn is not None:
        why = "it has it now" if turn.is_its else "it doesn't wait for it"
    return Now(
        round=planned.round if planned is not None else None,
        since=cut(planned.at if planned is not None else row.last_at),
        at=datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S"),
        hypothesis=cut(idea.statement, 2 * SHORT) if idea is not None else "",
        thought=cut(idea.rationale, 2 * SHORT) if idea is not None else "",
        proposer=cut(planned.proposal.proposer if planned is not None else ""),
        usual_s=figure(usual, "no round has ended yet"),
        patience_s=max(_PATIENCE_S, _PATIENCE * (usual or 0.0)),
        fruitless=len(campaign.rounds) - sum(one.round <= kept for one in campaign.rounds),
        gpu=cut(gpu), gpu_holder=cut(turn.holder) if turn else "", asked=asked,
        place=figure(turn.place if turn else None, why),
        commands=tuple(_commands(campaign, place, process)),
    )  # fmt: skip


def _gpu(campaign: Campaign) -> str:
    """The one that it measures on since it was begun or resumed last."""
    resumes = [one.event.gpu for one in campaign.asides if isinstance(one.event, Resumed)]
    return [campaign.started.gpu, *resumes][-1] or ""


def _asked(place: _Place) -> str:
    wanted = asked(place.directory)
    ends = ["to end after this round"] if wanted.stop else []
    return ", ".join([*ends, "for other limits"] if wanted.limits else ends)


def _commands(
    campaign: Campaign, place: _Place, process: Working | None
) -> Iterator[tuple[str, str]]:
    where, limits = shlex.quote(str(place.directory)), limits_in_force(campaign)
    on = f"roofsmith resume {where}"
    if process is None:
        yield "go on", on
    else:
        yield "stop after this round", f"roofsmith campaign stop {where}"
        yield "stop now; its round is judged again later", f"roofsmith campaign stop {where} --now"
        on = f"roofsmith campaign limit {where}"
    if limits.max_iterations and not limits.fixed_iterations:
        yield "more rounds", f"{on} --max-iterations {min(119, 2 * limits.max_iterations)}"
    if limits.budget_s:
        yield "more time", f"{on} --budget-s {2 * limits.budget_s:g}"
    if limits.max_cost_usd:
        yield "more money", f"{on} --max-cost {2 * limits.max_cost_usd:g}"


def _limits(campaign: Campaign, summary: Summary) -> tuple[Limit, ...]:
    limits, spent = limits_in_force(campaign), summary.spendings
    tokens, costs = [one.tokens for one in spent], [one.cost_usd for one in spent]
    known = [one for one in tokens if one is not None], [one for one in costs if one is not None]
    counted = sum(not one.is_own and one.repairs is None for one in campaign.rounds)
    nobody = "nobody knows what some took"
    rows: tuple[tuple[LimitName, float | None, float | None], ...] = (
        ("rounds", counted, limits.max_iterations),
        ("seconds", summary.totals.wall_s, limits.budget_s),
        ("tokens", sum(known[0]) if len(known[0]) == len(tokens) else None, limits.max_tokens),
        ("usd", sum(known[1]) if len(known[1]) == len(costs) else None, limits.max_cost_usd),
    )
    return tuple(
        Limit(name=name, used=figure(used, nobody), limit=figure(limit, "no limit is set"))
        for name, used, limit in rows
    )


def _came_to(campaign: Campaign) -> tuple[tuple[str, int], ...]:
    found = Counter(mark_of(one)[1] for one in campaign.rounds)
    found.update(f"refused: {one.reason.replace('_', ' ')}" for one in campaign.refusals)
    return tuple((cut(name), count) for name, count in found.most_common(ROWS))


def _workload_line(row: WorkloadRow) -> WorkloadLine:
    floor = "the limit isn't known"
    if row.final_time_s is None and row.floor_time_s is not None:
        floor = "not measured"
    return WorkloadLine(
        workload=cut(row.label, 80), config_class=cut(row.config_class, 80),
        baseline_s=figure(row.baseline_time_s, "not measured"),
        final_s=figure(row.final_time_s, "not measured"),
        floor_s=figure(row.floor_time_s, floor),
        speedup=ratio(row.speedup, "not measured"), fraction=figure(row.fraction, floor),
    )  # fmt: skip


def _round_row(campaign: Campaign, found: Round) -> RoundRow:
    fate, status = mark_of(found)
    judged = found.judgement
    return RoundRow(
        round=found.round, at=cut(found.at), fate=fate, status=status, verdict=judged.verdict,
        parent=max((one.round for one in campaign.kept if one.round < found.round), default=1),
        proposer=cut(found.proposer or "not recorded"), rule=cut(found.decision.rule),
        hypothesis=cut(found.hypothesis.statement), total_speedup=found.total_speedup,
        speedup=ratio(counting_ratio(judged), f"not measured: {status_of(judged.outcome)}"),
        predicted=figure(found.hypothesis.predicted_speedup, "nothing was predicted"),
    )  # fmt: skip


def _found_round(campaign: Campaign, number: int) -> Round:
    found = next((one for one in campaign.rounds if one.round == number), None)
    if found is None:
        raise UnknownNameError(f"there is no round {number}")
    return found


def _round(place: _Place, number: int) -> RoundPage:
    campaign = place.campaign()
    found = _found_round(campaign, number)
    judged, (step, drawn) = found.judgement, drawn_round(campaign, found)
    counters = counter_rows(step.profile_before, step.profile_after) if found.profile else ()
    loops = found.disassembly.loops if found.disassembly else ()
    missing = "; ".join(found.disassembly.missing) if found.disassembly else ""
    whole = candidate_diff(campaign.started.target.baseline, found.candidate)
    said = [
        *lines(found.hypothesis, bundle(campaign, found.base)),
        *(("Came out", one) for one in step.predictions),
        ("Decision", found.decision.rule),
    ]
    detail = getattr(judged.outcome, "detail", "")
    messages = [
        *([(status_of(judged.outcome), detail)] if detail else []),
        *(("judge", one) for one in judged.notes),
        *((f"refused before it: {one.proposer}", f"{one.reason.replace('_', ' ')}: {one.detail}")
          for one in campaign.refusals if one.after_round == number - 1),
        *(("kept as evidence", one.path) for one in found.artifacts),
    ]  # fmt: skip
    return RoundPage(
        campaign=place.id,
        row=_round_row(campaign, found),
        said=tuple((name, cut(text, 4 * SHORT)) for name, text in said[:_SAID] if text),
        patch=excerpt(f"round-{number}.diff", "".join(one.text for one in step.diff)),
        whole=excerpt("from-the-start.diff", "".join(one.text for one in whole)),
        pairs=paired_rows(judged)[:_FEW],
        counters=tuple(
            CounterLine(name=cut(one.name), unit=cut(one.unit), before=one.before,
                        after=one.after)
            for one in counters[:_MANY]
        ),
        unprofiled="" if counters else "no profiler looked at this round's kernel",
        loops=tuple(excerpt(f"{one.function}: {one.chosen}", one.listing, 8_000)
                    for one in loops[:2]),
        unlisted="" if loops else cut(missing or "nobody asked for its instructions"),
        ladder=tuple(
            (one.level, LEVELS[one.level], excerpt("", diagnosis_page(one, campaign), 8_000).text)
            for one in campaign.diagnoses if one.after_round == number - 1
        ),
        messages=tuple((cut(who), cut(what, 2_500)) for who, what in messages[: _SAID // 3]),
        rounds=campaign.rounds[-1].round,
        drawn=drawn,
    )  # fmt: skip


def _files(campaign: Campaign) -> list[tuple[str, str]]:
    return [(one.path, one.text) for one in campaign.incumbent.sources]
