"""The database of experiments: one suite, over SQLite and a PostgreSQL server."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from campaign_builder import softmax_campaign

from kinds import another
from roofsmith.analysis.experiments import experiments
from roofsmith.api.experience import duplicates
from roofsmith.domain.experiment import Experiment
from roofsmith.errors import StorageError, UnknownNameError, UsageError
from roofsmith.experience.database import Database, Query

SERVERS = sorted(Path("/usr/lib/postgresql").glob("*/bin"))


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """A PostgreSQL server of its own, not run by root; its URL without a database."""
    if not SERVERS:
        pytest.skip("no PostgreSQL server is installed")
    place = Path(tempfile.mkdtemp(prefix="roofsmith-postgres-", dir="/tmp"))  # where nobody may go
    user = {"user": "nobody"} if os.getuid() == 0 else {}
    if user:
        shutil.chown(place, "nobody")
    data = place / "data"
    made = [SERVERS[-1] / "initdb", "-D", data, "-U", "it", "-A", "trust", "--no-sync"]
    subprocess.run(made, check=True, capture_output=True, cwd=place, **user)
    options = ["-c", "listen_addresses=", "-k", place, "-c", "fsync=off"]
    with (place / "log").open("wb") as log:
        running = subprocess.Popen(
            [SERVERS[-1] / "postgres", "-D", data, *options], stderr=log, cwd=place, **user
        )
    try:
        ready = [SERVERS[-1] / "pg_isready", "-h", place]
        for _ in range(600):
            if subprocess.run(ready, capture_output=True, check=False).returncode == 0:
                break
            time.sleep(0.1)
        yield f"postgresql://it@/{{}}?host={place}"
    finally:
        running.send_signal(signal.SIGQUIT)
        running.wait()
        shutil.rmtree(place, ignore_errors=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of an empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'data' / 'experience.db'}"
    server = request.getfixturevalue("server")
    import psycopg

    name = f"d{abs(hash(tmp_path))}"
    place = server.rpartition("=")[2]
    with psycopg.connect(f"host={place} user=it dbname=postgres", autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}")
    return server.format(name)


@pytest.fixture
def database(url: str) -> Database:
    return Database(url)


def test_who_only_reads_makes_and_changes_nothing(url: str) -> None:
    reader = Database(url, only_reads=True)
    with pytest.raises(StorageError):
        reader.list()  # there is no table, and it makes none
    rows = experiments(softmax_campaign())
    Database(url).add(rows)
    assert [reader.get(row.id) for row in rows] == list(rows)
    for write in (lambda: reader.add([rows[0].model_copy(update={"id": "new"})]),
                  lambda: reader.update(rows[0].id, {"score": 9.0}, "because")):  # fmt: skip
        with pytest.raises(StorageError, match=r"read-?only"):
            write()
    assert Database(url).list(Query(folded=None, tips=None)) == rows


def test_every_round_comes_back_as_it_was(database: Database) -> None:
    rows = experiments(softmax_campaign())
    assert database.add(rows) == len(rows)
    assert database.add(rows, refresh=True) == 0
    assert [database.get(row.id) for row in rows] == list(rows)
    assert {row.status for row in database.list(Query(op="SOFT", status="kept"))} == {"kept"}
    assert database.list(Query(op="gemm")) == ()
    best = database.top(2)
    assert best[0].score == max(row.score for row in rows)
    with pytest.raises(UnknownNameError):
        database.get("none")


def test_a_masked_round_is_flagged_and_flagged_no_longer(database: Database) -> None:
    for masked in (False, True, False):
        database.add([Experiment(id="a", score=1.2, masked=masked)], refresh=True)
        assert database.get("a").masked == masked
        assert len(database.top(5)) == (0 if masked else 1)


def test_words_are_found_in_summaries_notes_and_diffs(database: Database) -> None:
    told = {"change_summary": "Vectorise loads", "notes": ("bank_conflicts vanish",)}
    database.add([Experiment(id="a", diff="+float4 quad = x[i];", **told), Experiment(id="b")])
    for words in ("VECTOR", "conflicts", "bank_conflicts", "float4 quad", "loads vanish"):
        assert [one.id for one in database.search(words, 9)] == ["a"], words
    for words in ("nothing", "", "_ *", "x" * 9999, "' OR 1=1 --", 'a" OR "b', "vectorise missing"):
        assert database.search(words, 9) == (), words


def test_what_was_changed_is_kept_with_its_reason(database: Database) -> None:
    database.create(Experiment(id="a", score=1.2, change_summary="old words"))
    changed = database.update("a", {"score": 0.9, "change_summary": "new"}, "timed anew")
    assert database.get("a") == changed
    assert changed.outcome == "failure"
    assert {(one.field, one.old, one.new, one.reason) for one in changed.revisions} == {
        ("score", 1.2, 0.9, "timed anew"),
        ("outcome", "success", "failure", "timed anew"),
        ("change_summary", "old words", "new", "timed anew"),
    }
    assert [one.id for one in database.search("new", 9)] == ["a"]
    assert database.search("old", 9) == ()
    for wrong in ({"id": "b"}, {"colour": "red"}, {"score": -1}):
        with pytest.raises(UsageError):
            database.update("a", wrong, "")
    with pytest.raises(UsageError):
        database.create(Experiment(id="a"))


def test_hostile_notes_are_text(database: Database) -> None:
    words = "<b>\x00\x1b[2J'); DROP TABLE experiments; --" + "x" * 10_000_000
    database.create(Experiment(id="a", notes=(words,), operator_sig="\x00op", proposer="\ud800"))
    found = database.get("a")
    assert found.notes[0].startswith("<b>\\x00\\x1b[2J'); DROP TABLE")
    assert len(found.notes[0]) < 200_000


def test_a_schema_from_the_future_is_refused(database: Database) -> None:
    import sqlalchemy as sa

    database.add([])
    engine = sa.create_engine(database._url, poolclass=sa.NullPool)
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9000'"))
    with pytest.raises(StorageError, match="9000"):
        Database(str(database._url)).list()


WRITER = """
import sys
from roofsmith.domain.experiment import Experiment
from roofsmith.errors import StorageError
from roofsmith.experience.database import Database
url, name = sys.argv[1:]
for number in range(10_000):
    try:
        Database(url).add([Experiment(id=f"{name}-{number}", notes=("x" * 500,))])
    except StorageError:  # on a slow disk, the others had the lock longer than it waits
        continue
    print(number, flush=True)
"""


@pytest.mark.parametrize("url", ["sqlite", another("postgresql")], indirect=True)
@pytest.mark.slow
def test_eight_writers_who_are_killed_lose_nothing_that_was_acknowledged(
    url: str, tmp_path: Path
) -> None:
    def writer(name: int) -> subprocess.Popen[bytes]:
        with (tmp_path / f"said-{name}").open("wb") as said:
            command = [sys.executable, "-c", WRITER, url, str(name)]
            return subprocess.Popen(command, stdout=said, stderr=subprocess.DEVNULL)

    running = {name: writer(name) for name in range(8)}
    said = {name: tmp_path / f"said-{name}" for name in running}
    deadline = time.monotonic() + 300
    for name, process in running.items():
        while said[name].read_bytes().count(b"\n") < 2 + name and time.monotonic() < deadline:
            time.sleep(0.01)
        process.kill()  # in the middle of something
        process.wait()
    there = {one.id for one in Database(url).list()}
    for name, path in said.items():
        acknowledged = path.read_text().split("\n")[:-1]
        assert acknowledged
        assert {f"{name}-{number}" for number in acknowledged} <= there


# -- a file that is broken, locked or out of reach ------------------------------------------------


def filled(path: Path, count: int = 300) -> list[Experiment]:
    rows = [Experiment(id=f"{n:04}", time=f"{n:04}", notes=(f"{n}" * 400,)) for n in range(count)]
    Database(f"sqlite:///{path}").add(rows)
    return rows


def damaged(path: Path, where: Callable[[int], slice]) -> bytes:
    """Noise in place of a part of it."""
    data = bytearray(path.read_bytes())
    part = where(len(data))
    data[part] = os.urandom(len(data[part]))
    path.write_bytes(data)
    return bytes(data)


@pytest.mark.parametrize(
    "where",
    [
        lambda _: slice(16, 4096),
        lambda size: slice(size // 3, size // 2),
        lambda size: slice(16, size),
    ],
    ids=["first page", "middle", "all"],
)
def test_a_broken_file_stays_and_a_new_one_begins(
    tmp_path: Path, where: Callable[[int], slice]
) -> None:
    path = tmp_path / "experience.db"
    filled(path)
    broken = damaged(path, where)
    told: list[str] = []
    database = Database(f"sqlite:///{path}", told.append)
    database.search("1", 1)
    database.add([Experiment(id="new")])
    assert "new" in {one.id for one in database.list()}
    assert (tmp_path / "experience.db.broken-1").read_bytes() == broken
    assert len(told) == 1
    assert sqlite3.connect(path).execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert {one.name for one in tmp_path.iterdir()} <= {
        "experience.db", "experience.db.broken-1", "experience.db-wal", "experience.db-shm",
    }  # fmt: skip


def test_a_file_of_another_kind_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("mine\n" * 100)
    with pytest.raises(StorageError):
        Database(f"sqlite:///{path}").add([Experiment(id="new")])
    assert [one.name for one in tmp_path.iterdir()] == ["notes.txt"]
    assert path.read_text() == "mine\n" * 100


def test_a_file_in_a_folder_of_another_user_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = filled(path := tmp_path / "experience.db", 3)
    monkeypatch.setattr(os, "access", lambda *_: False)
    database = Database(f"sqlite:///{path}")
    assert database.list() == tuple(rows)
    with pytest.raises(StorageError):
        database.add([Experiment(id="new")])
    assert [one.name for one in tmp_path.iterdir()] == ["experience.db"]


def test_an_empty_file_is_an_empty_database(tmp_path: Path) -> None:
    (tmp_path / "x.db").touch()
    assert Database(f"sqlite:///{tmp_path / 'x.db'}").list() == ()


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:////proc/nothing/x.db",
        "postgresql://it:secret@127.0.0.1:1/x",
        "postgresql://it:secret@nowhere.invalid/x",
    ],
)
def test_what_cannot_be_reached_says_so_without_its_password(url: str) -> None:
    with pytest.raises(StorageError) as raised:
        Database(url).list()
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("url", ["nonsense", "oracle://x/y", "postgresql+nothing://x"])
def test_what_is_no_database_is_refused(url: str) -> None:
    with pytest.raises(UsageError):
        Database(url)


def test_what_another_version_wrote_is_left_out(database: Database) -> None:
    import sqlalchemy as sa

    database.add([Experiment(id="a"), Experiment(id="b")])
    engine = sa.create_engine(database._url, poolclass=sa.NullPool)
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE experiments SET body = '{\"new\": 1}' WHERE id = 'a'"))
    database.add([Experiment(id="a", masked=True)], refresh=True)
    assert [one.id for one in database.list()] == ["b"]


def test_what_could_not_be_measured_is_no_failure() -> None:
    campaign = softmax_campaign()
    first, *rest = campaign.rounds
    void = {"comparison": None, "verdict": "unverified"}
    busy = first.model_copy(update={"judgement": first.judgement.model_copy(update=void)})
    rows = experiments(campaign.model_copy(update={"rounds": (busy, *rest)}))
    assert [one.outcome for one in rows if one.round == busy.round] == ["neutral"]


def test_what_came_to_something_else_is_never_folded() -> None:
    kept = Experiment(candidate_id="b", status="kept", verdict="faster", interval=(1.2, 1.8))
    gone = {"status": "rolled_back", "outcome": "neutral"}
    sure = kept.model_copy(update={**gone, "verdict": "tie", "interval": (0.9, 1.9)})
    unsure = kept.model_copy(update={**gone, "verdict": "unverified", "interval": (1.49, 1.51)})
    assert duplicates([sure, kept, unsure]) == ((sure, (unsure,)),)
