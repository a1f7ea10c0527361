"""The experiments of all campaigns: told, found, corrected, exchanged."""

from __future__ import annotations

import gzip
import io
import math
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeAlias, get_args

from roofsmith.analysis import recommend as analysis
from roofsmith.analysis.experiments import BACKENDS
from roofsmith.analysis.tips import neighbours, tip_of
from roofsmith.api.remembering import MOST_READ, rounds_of
from roofsmith.config import Settings
from roofsmith.domain.campaign import replay
from roofsmith.domain.experiment import Experiment, Result
from roofsmith.domain.outcome import Failure
from roofsmith.domain.profile import BottleneckKind
from roofsmith.domain.recommendation import Recommendation, Situation
from roofsmith.domain.tip import Tip
from roofsmith.errors import RoofsmithError, UnknownNameError, UsageError
from roofsmith.experience.database import Database, Query, now
from roofsmith.experience.exchange import Parsed, are_lines, lines_of, parsed
from roofsmith.experience.hearsay import dims_of, told
from roofsmith.experience.inbox import SpooledDatabase
from roofsmith.experience.rates import SuccessRate, success_rates
from roofsmith.experience.recovery import begins_as_database
from roofsmith.experience.tip_pages import Left, left_in, overview, tip_experiment, tip_pages
from roofsmith.store.campaign_dir import LEDGER
from roofsmith.store.files import storage_errors, write_file
from roofsmith.store.ledger import JsonlLedger, records_in
from roofsmith.store.records import Record

Group: TypeAlias = tuple[Experiment, tuple[Experiment, ...]]
"""The one that stands for the others, and those."""


def duplicates(rows: Iterable[Experiment]) -> tuple[Group, ...]:
    """The same change of the same kernel in the same environment, told or judged again; of rows in
    the order of time.

    Kernels are compared by their ids; of what somebody told, the words are. What came to something
    else is another finding. What was verified stays, then what was measured most precisely, else
    the newest. Masked experiments stay what they are.
    """
    groups: dict[tuple[object, ...], list[Experiment]] = defaultdict(list)
    for row in rows:
        if not row.masked:
            groups[_what(row)].append(row)
    return tuple(_told_by_one(group) for group in groups.values() if len(group) > 1)


def _told_by_one(group: list[Experiment]) -> Group:
    stays = min(reversed(group), key=_vagueness)
    return stays, tuple(one for one in group if one is not stays)


def _what(row: Experiment) -> tuple[object, ...]:
    where = (
        row.operator_sig,
        row.backend,
        row.device,
        row.arch,
        row.dtype_sig,
        row.status,
        row.outcome,
    )
    if row.candidate_id:
        return (*where, row.environment_fingerprint, row.incumbent_id, row.candidate_id)
    statement = row.hypothesis.statement if row.hypothesis is not None else ""
    words = " ".join(f"{row.change_summary} {statement}".lower().split())
    return (*where, row.env, tuple(row.dims), words)


def _vagueness(row: Experiment) -> tuple[bool, float]:
    """Whether nothing verified it, and the width of its interval."""
    low, high = row.interval or (0.0, math.inf)
    return row.verdict == "unverified", high - low


__all__ = ["Database", "Query", "Situation"]

EVERYTHING = Query(folded=None, tips=None)
_NAMES: Final = {
    "status": (
        "baseline", "kept", "rolled_back", "refused", "reported",
        *(failure.model_fields["kind"].default for failure in get_args(Failure)),
    ),
    "outcome": get_args(Result),
    "backend": BACKENDS,
    "bottleneck": get_args(BottleneckKind),
}  # fmt: skip
"""What fields of a query may say."""
_TIPS: Final = "tips.md"
_INSIDE: Final = (LEDGER, "*.jsonl.gz", _TIPS)
"""Files that a folder is looked through for."""
_SQLITE: Final = (".db", ".sqlite", ".sqlite3")
_GZIP: Final = b"\x1f\x8b"
_FIRST_RECORD: Final = b'{"seq":1,"previous":"'
_MOST_UNPACKED: Final = 1 << 29
"""Bytes. Chosen: the ledger of a long campaign has a tenth of it."""


@dataclass(frozen=True, slots=True)
class Imported:
    """What came of an import."""

    found: int
    new: int
    complaints: tuple[str, ...]
    """Of what was passed over."""


@dataclass(frozen=True, slots=True)
class Synced:
    """What came of a sync."""

    files: tuple[Path, ...]
    complaints: tuple[str, ...]
    """Of what people wrote into pages that is no lesson; it stays there."""


@dataclass(frozen=True, slots=True)
class Merged:
    """Experiments that tell the same."""

    groups: tuple[Group, ...]
    done: bool
    """Whether one of each now stands for the others."""


def database(settings: Settings, tell: Callable[[str], object] = str) -> Database:
    """The experiments of this user, with what waited for them; `tell` hears what was set aside.

    Raises:
        UsageError: the settings say that nothing is kept.
        StorageError: they can't be reached.
    """
    there = SpooledDatabase(settings.experience_url(), settings.experience_spool, tell)
    there.take_up()
    return there


def nothing(there: Database) -> str:
    """Why nothing was found, for people: there is nothing yet, or nothing that matches."""
    if there.list(EVERYTHING, 1):
        return f"nothing that {there.name} holds matches"
    return (
        f"{there.name} is empty: `roofsmith optimize` leaves its rounds there, and"
        " `roofsmith experience import` what others have"
    )


def add(there: Database, values: Mapping[str, Any]) -> Experiment:
    """Keep what somebody tells of an attempt, by the names of its fields.

    Raises:
        UsageError: a field can't have such a value, or what it builds on isn't there.
    """
    known(there, Query(status=values.get("status")))
    parent = values.get("pid")
    return there.create(told({**values, "pid": parent and there.get(parent).id}))


def known(there: Database, query: Query) -> Query:
    """The query, if its names are those of the field or something that is there has them.

    Raises:
        UsageError: nothing is called so.
    """
    for field, names in _NAMES.items():
        name = getattr(query, field)
        if name is None or name in names or there.list(replace(EVERYTHING, **{field: name}), 1):
            continue
        raise UsageError(f"no {field} is called {name!r}", hint=", ".join(names))
    return query


def situation(
    operator: str | None, backend: str | None, chip: str | None, bottleneck: str | None,
    dtype: str | None, shape: str | None, counters: Mapping[str, float] | None,
) -> Situation:  # fmt: skip
    """What is asked about, as people write it; None: not known.

    Raises:
        UsageError: there is no such bottleneck, or that is no shape.
    """
    kinds = get_args(BottleneckKind)
    bottleneck = bottleneck and bottleneck.removesuffix("-bound")
    if bottleneck is not None and bottleneck not in kinds:
        raise UsageError(f"no bottleneck is called {bottleneck!r}", hint=", ".join(kinds))
    chip_name = "arch" if (chip or "").startswith(("sm_", "gfx")) else "device"
    given = {
        "operator": operator, "backend": backend, chip_name: chip, "bottleneck": bottleneck,
        "dtype": dtype, "dims": {shape: dims_of(shape)} if shape else None, "counters": counters,
    }  # fmt: skip
    return Situation(**{name: value for name, value in given.items() if value is not None})


def recommend(there: Database, here: Situation) -> tuple[Recommendation, ...]:
    """What worked in like situations, the most promising first, then what failed."""
    return analysis.recommend(there.list(Query(masked=False), MOST_READ), here)


def merge(there: Database, *, fold: bool) -> Merged:
    """Which experiments tell the same; with `fold`, one of each stands for the others."""
    groups = duplicates(there.list(Query(tips=None)))
    if fold:
        there.fold(groups)
    return Merged(groups, fold)


def stats(there: Database) -> tuple[SuccessRate, ...]:
    """How often attempts succeed, by kernel, tactic and chip."""
    return success_rates(there.list())


def tips(there: Database, query: Query) -> tuple[tuple[Experiment, Tip], ...]:
    """What experiments teach, and what people told, oldest first; of a chip, what its neighbours
    of one architecture taught is marked."""
    rows = there.list(replace(query, tips=None, chip=None))
    chip = (query.chip or "").lower()
    own = {row.id for row in rows if chip in row.device.lower() or chip in row.arch.lower()}
    archs = {row.arch for row in rows if row.id in own and row.arch}
    found = ((row, tip) for row in rows if (tip := tip_of(row)) is not None)
    return tuple(
        (row, tip if row.id in own else neighbours(row, tip))
        for row, tip in found
        if row.id in own or row.arch in archs
    )


def tip(there: Database, experiment_id: str) -> tuple[Experiment, Tip]:
    """What one experiment teaches, or somebody told.

    Raises:
        UsageError: nothing that may be told.
    """
    hint = "`roofsmith experience tips list` names tips"
    try:
        row = there.get(experiment_id)
    except UnknownNameError as error:
        raise UnknownNameError(error.message, hint=hint) from error
    if (found := tip_of(row)) is None:
        raise UsageError(f"{row.id} teaches nothing that may be told", hint=hint)
    return row, found


def add_tip(
    there: Database, tip: Tip, *, operator: str, backend: str, device: str
) -> tuple[Experiment, Tip]:
    """Keep a lesson that somebody tells, for campaigns on that operator, backend and device.

    Raises:
        UsageError: it is there already.
    """
    named = tip.model_copy(update={"at": now()[:16]})
    row = tip_experiment(named, operator=operator, backend=backend, device=device)
    if there.add([row]) == 0:
        raise UsageError(
            f"that tip is there already: {row.id}",
            hint=f"`roofsmith experience tips show {row.id}` prints it",
        )
    return row, named


def sync(there: Database, directory: Path) -> Synced:
    """Write `experiences.md` and the pages of tips; lessons that people added there are taken over,
    and what else they wrote stays at the end of its page.

    Raises:
        StorageError: they can't be written.
    """
    left = dict[Path, tuple[Left, ...]]()
    for page in sorted(directory.rglob(_TIPS)):
        there.add(
            one for one in _found(str(page)).experiments if one.tip is None or not one.tip.lesson
        )
        left[page] = left_in(_bytes(page).decode("utf-8", errors="surrogateescape"))
    rows = there.list(EVERYTHING)
    told = {"experiences.md": overview(rows), **tip_pages(rows)}
    pages = {directory / name: text for name, text in told.items()}
    for page, text in pages.items():
        stays = "".join(f"\n{one.text}\n" for one in left.get(page, ()))
        ours = text.encode("utf-8", errors="backslashreplace")
        write_file(page, ours + stays.encode("utf-8", errors="surrogateescape"))
    said = (f"{page}, line {one.line}: no lesson" for page, ones in left.items() for one in ones)
    return Synced((*pages,), (*said,))


def export(there: Database, place: str | None) -> tuple[int, str]:
    """Everything as JSONL, the second of the two, or into another database or a file.

    Raises:
        UsageError: that is the database in use, a folder, or a file that holds something else.
        StorageError: it can't be written.
    """
    rows = there.list(EVERYTHING)
    if place is None:
        return len(rows), "".join(lines_of(rows))
    if (other := _other_database(there, place)) is not None:
        other.add(rows)
    else:
        write_file(Path(place), "".join(lines_of(rows)).encode("utf-8"))
    return len(rows), ""


def _other_database(there: Database, place: str) -> Database | None:
    """What is exported into; None: a file that may be written anew."""
    path = Path(place)
    with storage_errors("write", path):
        if "://" in place:
            other = Database(place)
        elif place.endswith("/") or path.is_dir():
            raise UsageError(f"{place} is a folder; name a file")
        elif path.suffix in _SQLITE or (path.is_file() and begins_as_database(path)):
            other = Database(_at(path))
        elif path.exists() and not (path.is_file() and are_lines(path.read_bytes())):
            raise UsageError(
                f"{place} holds something else than `roofsmith experience export` writes",
                hint="name another file; this one stays as it is",
            )
        else:
            return None
        mine, its = there.path, other.path
        if mine and its and its.exists() and its.samefile(mine):
            raise UsageError(f"{place} is the database in use", hint="name another file")
    return other


def _at(path: Path) -> str:
    return f"sqlite:///{path.absolute()}"


def import_(there: Database, place: str) -> Imported:
    """Keep the experiments of a file, a ledger, a folder of ledgers and tips or another database.

    Raises:
        UsageError: there is nothing like that, or not one experiment in it.
        StorageError: it can't be read.
        LedgerError: a ledger was changed.
    """
    found = _found(place)
    if not found.experiments:
        why = f": {found.complaints[0]}" if found.complaints else ""
        more = f", and {len(found.complaints) - 1} more" if len(found.complaints) > 1 else ""
        raise UsageError(
            f"no experiment was found in {place}{why}{more}",
            hint="name a campaign's directory, a folder with ledgers (ledger.jsonl, *.jsonl.gz) or"
            " tips.md files in it, JSON lines of `roofsmith experience export`, or a database",
        )
    return Imported(len(found.experiments), there.add(found.experiments), found.complaints)


def _found(place: str) -> Parsed:
    if "://" in place:
        return Parsed(Database(place).list(EVERYTHING), ())
    path = Path(place)
    if (path / LEDGER).is_file():
        path /= LEDGER
    if path.is_dir():
        inside = (one for name in _INSIDE for one in path.rglob(name))
        return _together(map(_one_of_many, sorted(inside)))
    if path.name == LEDGER:
        return _rounds(path, JsonlLedger(path).records())
    with storage_errors("read", path):
        is_database = begins_as_database(path)
    if is_database:
        return Parsed(Database(_at(path)).list(EVERYTHING), ())
    data = _bytes(path)
    if data.startswith(_FIRST_RECORD):
        return _rounds(path, records_in(path, data))
    return parsed(path, data.decode("utf-8", errors="replace"))


def _rounds(path: Path, records: tuple[Record, ...]) -> Parsed:
    campaign = replay([record.event() for record in records])
    if campaign is None:
        raise UsageError(f"{path} holds no campaign yet")
    return Parsed(rounds_of(campaign, records), ())


def _bytes(path: Path) -> bytes:
    """What a file holds, unpacked.

    Raises:
        UsageError: it is no whole archive, or a huge one.
    """
    with storage_errors("read", path):
        data = path.read_bytes()
    if not data.startswith(_GZIP):
        return data
    try:
        with gzip.open(io.BytesIO(data)) as packed:
            data = packed.read(_MOST_UNPACKED + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise UsageError(f"{path} is no whole gzip file: {error}") from error
    if len(data) > _MOST_UNPACKED:
        raise UsageError(f"{path} unpacks to more than {_MOST_UNPACKED >> 20} MiB")
    return data


def _together(found: Iterable[Parsed]) -> Parsed:
    parts = list(found)
    return Parsed(
        tuple(one for part in parts for one in part.experiments),
        tuple(one for part in parts for one in part.complaints),
    )


def _one_of_many(path: Path) -> Parsed:
    """What can't be read is complained about, and keeps nothing else back."""
    try:
        return _found(str(path))
    except RoofsmithError as error:
        return Parsed((), (error.message,))
