"""Files that profilers left of a whole program: told apart by what they hold, and put together.

Several files are of one run: rocprofv3's kernel trace says how long, its counter collection and
thread trace what was counted, its agent info on what.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
import re
import sqlite3
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from roofsmith.domain.profile import Counter, Hotspot, ProfiledKernel
from roofsmith.domain.program import TracedProgram
from roofsmith.errors import UsageError
from roofsmith.profilers import rocprof_att, torch_program
from roofsmith.profilers.dispatches import Dispatch, program_of
from roofsmith.profilers.launches import kernel_name
from roofsmith.profilers.ncu_output import parse_ncu_csv
from roofsmith.profilers.program_rows import dispatch, is_header, product, read_number
from roofsmith.profilers.rocprof_output import RocprofAgent, parse_agents
from roofsmith.profilers.vocabulary import vocabulary
from roofsmith.wording import some_of

MAX_BYTES = 256 * 1024**2
"""Of a file's text, unpacked; of a database, four times as many. Chosen."""
MOST_LAUNCHES = 5_000_000
DATABASE_S = 120.0
"""That reading one may take: its views are whoever's wrote it."""
MOST_OF_ROW = 16 * 1024**2
"""Bytes that a database makes of one. Chosen."""
_READ = (
    "give a trace of torch.profiler (.json, .json.gz), an export of nsys (`nsys export --type"
    " sqlite`, or `nsys stats --format csv`), ncu's `--csv --page raw`, or rocprofv3's CSV or .db"
)
_OTHER_FORMATS = {
    ".nsys-rep": "nsys export --type sqlite {}", ".qdrep": "nsys export --type sqlite {}",
    ".ncu-rep": "ncu --import {} --csv --page raw > ncu.csv",
    ".pftrace": "rocprofv3 --kernel-trace --output-format csv -- YOUR COMMAND",
}  # fmt: skip
_OTHER_SUMS = re.compile(r"(hip|hsa|domain|memory|marker|rccl|roc)\w*[._]stats\.csv$")
"""Whose columns are those of a table of kernels."""
_SUFFIXES = (".csv", ".json", ".gz", ".sqlite", ".db", ".txt", ".log", *_OTHER_FORMATS)
_MOST_FILES = 500
_SQLITE = b"SQLite format 3\0"


class NotATraceError(UsageError):
    """A file, or all of several, that no kernels can be read from."""

    def __init__(self, path: Path, why: str, hint: str = _READ) -> None:
        super().__init__(f"{path} {why}", hint=hint)


@dataclass
class _Left:
    """What was found in the files of one run."""

    programs: list[TracedProgram] = field(default_factory=list)
    slowed: list[TracedProgram] = field(default_factory=list)
    """By counting: their times are the last resort."""
    counted: dict[str, dict[str, Counter]] = field(default_factory=dict)
    hotspots: dict[str, tuple[Hotspot, ...]] = field(default_factory=dict)
    agents: tuple[RocprofAgent, ...] = ()


def read_program(path: Path) -> TracedProgram:
    """The kernels in a file, or in the files of a folder.

    Raises:
        NotATraceError: there are none, or it is no file that can be read.
    """
    if path.is_dir():
        return read_files([*profile_files(path)], path)
    left = _Left(agents=_agents([path.with_name(path.name.replace("kernel_trace", "agent_info"))]))
    _read(path, left)
    return _put_together(left, path)


def profile_files(folder: Path) -> Iterator[Path]:
    """The plain files of a folder that may be a profiler's, by their names."""
    number = 0
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in (".git", "node_modules"))
        for path in (Path(place, name) for name in sorted(names) if name.endswith(_SUFFIXES)):
            number += path.is_file() and not path.is_symlink()
            if number > _MOST_FILES:
                return
            if path.is_file() and not path.is_symlink():
                yield path


def read_files(files: Sequence[Path], folder: Path) -> TracedProgram:
    """The kernels in files of one run; what else lies among them is passed over.

    Raises:
        NotATraceError: there are none.
    """
    left, refused = _Left(agents=_agents(files)), []
    for path in files:
        try:
            _read(path, left)
        except NotATraceError:
            refused.append(path.name)
    if not left.programs and not left.slowed:
        raise NotATraceError(folder, f"holds no trace; there are {some_of(refused) or 'no files'}")
    return _put_together(left, folder)


def _agents(files: Sequence[Path]) -> tuple[RocprofAgent, ...]:
    listed = (file for file in files if file.name.endswith("agent_info.csv") and file.is_file())
    texts = (_bytes(file).decode(errors="replace") for file in listed)
    return tuple(agent for text in texts for agent in parse_agents(text))


def _read(path: Path, left: _Left) -> None:
    if (export := _OTHER_FORMATS.get(path.suffix)) is not None:
        raise NotATraceError(path, "can only be read by its own tool", export.format(path.name))
    if _OTHER_SUMS.search(path.name):
        raise NotATraceError(path, "has sums of calls and copies, not of kernels")
    try:
        with path.open("rb") as file:
            is_database = file.read(len(_SQLITE)) == _SQLITE
    except OSError as error:
        raise NotATraceError(path, f"can't be read: {error.strerror}", "check its name") from error
    if is_database:
        left.programs.append(_database(path))
        return
    data = _bytes(path)
    text = data.decode("utf-8-sig", errors="replace")
    if not text.strip():
        raise NotATraceError(path, "is empty")
    if text.lstrip()[0] in "{[":
        left.programs.append(_json(path, text))
    elif "\0" in text[:4096]:
        raise NotATraceError(path, "is no trace")
    else:
        _table(path, text, left)


def _bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
        with gzip.open(path) if packed else path.open("rb") as opened:
            data: bytes = opened.read(MAX_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        why = "is cut off, or no gzip file"
        raise NotATraceError(path, why, "copy it again, or profile again") from error
    if len(data) > MAX_BYTES:
        raise _too_large(path, MAX_BYTES)
    return data


def _too_large(path: Path, most: int) -> NotATraceError:
    return NotATraceError(
        path,
        f"holds more than {most // 1024**2} MiB",
        "profile fewer steps, or give sums: `nsys stats --report cuda_gpu_kern_sum --format csv`,"
        " or rocprofv3's `--stats`",
    )


def _database(path: Path) -> TracedProgram:
    if path.stat().st_size > 4 * MAX_BYTES:
        raise _too_large(path, 4 * MAX_BYTES)
    until = time.monotonic() + DATABASE_S
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            database.set_progress_handler(lambda: time.monotonic() > until, 100_000)
            database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_OF_ROW)
            database.row_factory = sqlite3.Row
            names = {row["name"] for row in _rows(database, "sqlite_master")}
            if "CUPTI_ACTIVITY_KIND_KERNEL" in names:
                return _of_nsys(database, names)
            if {"kernels", "rocpd_info_agent"} <= names:
                return _of_rocpd(database)
    except (sqlite3.Error, KeyError, TypeError, ValueError, OverflowError) as error:
        raise NotATraceError(path, f"is a database that can't be read: {error}") from error
    raise NotATraceError(path, "is a database in which no GPU ran a kernel")


def _rows(database: sqlite3.Connection, table: str) -> Iterator[dict[str, Any]]:
    for number, row in enumerate(database.execute(f"SELECT * FROM {table}")):
        if number >= MOST_LAUNCHES:
            raise ValueError(f"{table} has more than {MOST_LAUNCHES} rows")
        yield dict(row)


def _of_nsys(database: sqlite3.Connection, tables: set[str]) -> TracedProgram:
    """Kernels, copies and fills; names are numbers in StringIds, columns differ by version."""
    strings = {row["id"]: row["value"] for row in _rows(database, "StringIds")}
    listed = _rows(database, "TARGET_INFO_GPU") if "TARGET_INFO_GPU" in tables else ()
    gpus = {row.get("id", 0): row | {"numSms": row.get("smCount")} for row in listed}
    found = []
    for row in _rows(database, "CUPTI_ACTIVITY_KIND_KERNEL"):
        named = ("demangledName", "name", "mangledName", "shortName")
        name = next((row[column] for column in named if column in row), "")
        one = row | {"name": strings.get(name, name)}
        found.append(dispatch(one, device=gpus.get(row.get("deviceId", 0))))
    for table, word in (("MEMCPY", "copies of memory"), ("MEMSET", "fills of memory")):
        if f"CUPTI_ACTIVITY_KIND_{table}" in tables:
            for row in _rows(database, f"CUPTI_ACTIVITY_KIND_{table}"):
                moved = dispatch(row | {"name": word})
                found.append(moved and replace(moved, is_copy=True))
    return program_of("nsys", filter(None, found), {str(gpu["name"]) for gpu in gpus.values()})


def _of_rocpd(database: sqlite3.Connection) -> TracedProgram:
    """Dispatches; registers stand with the kernel's symbol in some versions."""
    gpus = [row for row in _rows(database, "rocpd_info_agent") if row.get("type") == "GPU"]
    agents = [RocprofAgent(int(row["absolute_index"]), str(row["name"]), 0) for row in gpus]
    symbols = {row["id"]: row for row in _rows(database, "rocpd_info_kernel_symbol")}
    sizes = ("arch_vgpr_count", "accum_vgpr_count", "sgpr_count")
    found = []
    for row in _rows(database, "kernels"):
        symbol = symbols.get(row.get("kernel_id"), {})
        more = {size: symbol[size] for size in sizes if size in symbol and size not in row}
        found.append(dispatch(row | more, agents))
    products = {str(row.get("product_name") or "") for row in gpus}
    return program_of("rocprofv3", filter(None, found), products)


def _json(path: Path, text: str) -> TracedProgram:
    try:
        found = torch_program.read_trace(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise NotATraceError(path, f"is no whole JSON: {error}") from error
    if found is None:
        raise NotATraceError(path, "is JSON, but no trace of torch.profiler")
    return program_of("torch.profiler", *found)


def _table(path: Path, text: str, left: _Left) -> None:
    if path.name.startswith("stats_") and (traced := rocprof_att.parse_att_stats(text)):
        for kernel in traced:
            if kernel.name is not None:
                _add(left, kernel.name, rocprof_att.counters(kernel))
                left.hotspots[kernel.name] = rocprof_att.hotspots(kernel)
        return
    if '"Metric Name"' in text[:65536]:
        raise NotATraceError(path, "is ncu's page of details", "ncu --import R --csv --page raw")
    if launches := parse_ncu_csv(text):
        seen = [
            Dispatch(one.kernel, max(one.time_s or 0.0, 0.0), counters=one.counters)
            for one in launches
        ]
        left.slowed.append(program_of("ncu", seen))
    elif not (tables := [*filter(None, _tables(text))]):
        raise NotATraceError(path, "is no trace")
    else:
        for rows in tables:
            _of_rows(rows, left)


def _tables(text: str) -> Iterator[list[Mapping[str, str]]]:
    """The tables of kernels in a text, in which other lines may stand."""
    columns: list[str] = []
    rows: list[Mapping[str, str]] = []
    reader = csv.reader(text.splitlines(keepends=True))
    while True:
        try:
            fields = next(reader)
        except StopIteration:
            break
        except csv.Error:
            continue
        if is_header(fields):
            yield rows
            columns, rows = [name.lower().strip("# \t") for name in fields], []
        elif columns and len(fields) == len(columns):
            rows.append(dict(zip(columns, fields, strict=True)))
        elif not any(fields):
            yield rows
            columns, rows = [], []
    yield rows


def _of_rows(rows: list[Mapping[str, str]], left: _Left) -> None:
    is_count = {"kernel_name", "counter_name"} <= rows[0].keys()
    if is_count:
        _counted(rows, left)
        rows = list({row.get("dispatch_id", str(n)): row for n, row in enumerate(rows)}.values())
    products = {name for row in rows if (name := product(row))} | {a.product for a in left.agents}
    found = [one for row in rows if (one := dispatch(row, left.agents)) is not None]
    tool = "nsys" if {"corrid", "instances"} & rows[0].keys() else "rocprofv3"
    tool = "perf" if "period" in rows[0] else tool
    (left.slowed if is_count else left.programs).append(program_of(tool, found, products))


def _counted(rows: Sequence[Mapping[str, str]], left: _Left) -> None:
    readings: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        name, counter = kernel_name(row["kernel_name"]), row["counter_name"]
        if (value := read_number(row.get("counter_value"))) is not None:
            readings.setdefault(name, {}).setdefault(counter, []).append(value)
    for kernel, found in readings.items():
        values = {name: sorted(seen)[len(seen) // 2] for name, seen in found.items()}
        _add(left, kernel, vocabulary().read("rocprofv3", values))


def _add(left: _Left, kernel: str, counters: Sequence[Counter]) -> None:
    known = left.counted.setdefault(kernel, {})
    left.counted[kernel] = {one.name: one for one in counters} | known


def _put_together(left: _Left, path: Path) -> TracedProgram:
    """The program of the best trace, with whatever else was counted of its kernels."""
    filled = [program for program in (*left.programs, *left.slowed) if program.kernels]
    if not filled:
        raise NotATraceError(
            path, "holds no launch of a kernel", "profile a run in which a GPU works"
        )
    for program in filled:
        for kernel in program.kernels:
            _add(left, kernel.name, kernel.counters)
    traced = (one for one in filled if one.span_s is not None and one not in left.slowed)
    best = next(traced, filled[0])
    kernels = tuple(_completed(kernel, left) for kernel in best.kernels)
    return best.model_copy(update={"kernels": kernels})


def _completed(kernel: ProfiledKernel, left: _Left) -> ProfiledKernel:
    own = {one.name: one for one in kernel.counters}
    counters = vocabulary().complete((left.counted[kernel.name] | own).values())
    spots = left.hotspots.get(kernel.name, ())
    return kernel.model_copy(update={"counters": counters, "hotspots": spots})
