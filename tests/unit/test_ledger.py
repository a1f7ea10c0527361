"""The ledger: every edited byte is found, and no crash or full disk loses a record."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from roofsmith.domain.campaign import Event, Started
from roofsmith.domain.kernel import SourceFile
from roofsmith.domain.target import Target
from roofsmith.domain.workload import Workload
from roofsmith.errors import LedgerError, StorageError
from roofsmith.ports import Ledger
from roofsmith.store.ledger import JsonlLedger
from roofsmith.testing.store import LedgerConformance, MemoryLedger, example_events

IN_TMP = settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


class TestMemoryLedger(LedgerConformance):
    @pytest.fixture
    def open_ledger(self) -> Callable[[], Ledger]:
        records: list[Event] = []
        return lambda: MemoryLedger(records)


class TestJsonlLedger(LedgerConformance):
    @pytest.fixture
    def open_ledger(self, path: Path) -> Callable[[], Ledger]:
        return lambda: JsonlLedger(path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    directory = tmp_path / "a \"quoted\" 'campaign' größer"
    directory.mkdir()
    return directory / "ledger.jsonl"


def fill(path: Path, count: int = 5) -> bytes:
    """A ledger of `count` different records; its bytes."""
    ledger = JsonlLedger(path)
    stopped = example_events()[0]
    for number in range(count):
        ledger.append(stopped.model_copy(update={"detail": f"stop {number} → ü"}))
    return path.read_bytes()


@contextmanager
def largest_file(size_bytes: int) -> Iterator[None]:
    """Let writes past a size fail, after a part of them, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_the_line_format_can_be_checked_without_roofsmith(path: Path) -> None:
    previous = "0" * 64
    for seq, line in enumerate(fill(path, 3).splitlines(), start=1):
        record = json.loads(line)
        assert list(record) == ["seq", "previous", "event", "hash"]
        digest = record.pop("hash")
        body = json.dumps(record, separators=(",", ":"))
        assert (record["seq"], record["previous"]) == (seq, previous)
        assert digest == hashlib.sha256(body.encode()).hexdigest()
        previous = digest
    assert json.loads((path.parent / "ledger.head").read_text()) == {"count": 3, "hash": previous}


def test_dimensions_keep_their_order(path: Path, started: Started) -> None:
    JsonlLedger(path).append(started)
    event = JsonlLedger(path).events()[0]
    assert event == started
    assert isinstance(event, Started)
    assert event.target.workloads[0].label == "Rows=4,Cols=8"
    assert event.target.digest == started.target.digest


@IN_TMP
@given(data=st.data())
def test_any_edited_byte_is_found(path: Path, data: st.DataObject) -> None:
    path.unlink(missing_ok=True)
    path.with_suffix(".head").unlink(missing_ok=True)
    original = bytearray(fill(path, 3))
    place = data.draw(st.one_of(st.integers(0, len(original) - 1), st.just(len(original) - 1)))
    original[place] ^= data.draw(st.integers(1, 255))
    path.write_bytes(original)
    with pytest.raises(LedgerError, match=r"ledger\.jsonl"):
        JsonlLedger(path).events()
    with pytest.raises(LedgerError):
        JsonlLedger(path).append(example_events()[0])
    assert path.read_bytes() == original, "a broken ledger is evidence: it must stay as it is"


@IN_TMP
@given(data=st.data())
def test_any_moved_line_is_found(path: Path, data: st.DataObject) -> None:
    path.unlink(missing_ok=True)
    path.with_suffix(".head").unlink(missing_ok=True)
    lines = fill(path, 4).splitlines(keepends=True)
    order = data.draw(st.lists(st.integers(0, 3), max_size=6).filter(lambda o: o != [0, 1, 2, 3]))
    path.write_bytes(b"".join(lines[index] for index in order))
    with pytest.raises(LedgerError):
        JsonlLedger(path).events()


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ([0, 2, 3, 4], r"line 2: record 2 is missing; record 3 stands here \(dropped\)"),
        ([0, 3, 4], r"line 2: records 2 to 3 are missing; record 4 stands here \(dropped\)"),
        ([0, 1, 1, 2, 3, 4], r"line 3: record 2 stands here again \(duplicated\)"),
        ([0, 2, 1, 3, 4], r"line 2: record 3 .* record 2 should, which comes later \(reordered\)"),
        ([0, 1, 2], r"3 records, but ledger.head knows of 5: records at its end are missing"),
        ([], r"0 records, but ledger.head knows of 5"),
    ],
)
def test_the_message_says_what_happened(path: Path, order: list[int], message: str) -> None:
    lines = fill(path).splitlines(keepends=True)
    path.write_bytes(b"".join(lines[index] for index in order))
    with pytest.raises(LedgerError, match=message):
        JsonlLedger(path).events()


def test_a_line_from_another_ledger_is_found(tmp_path: Path) -> None:
    one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    mine = fill(one, 3).splitlines(keepends=True)
    JsonlLedger(two).append(example_events()[1])
    JsonlLedger(two).append(example_events()[0])
    theirs = two.read_bytes().splitlines(keepends=True)
    one.write_bytes(mine[0] + theirs[1] + mine[2])
    with pytest.raises(LedgerError, match=r"line 2 doesn't follow line 1.*one of the two was"):
        JsonlLedger(one).events()


def test_a_chain_written_anew_is_found_by_its_head(tmp_path: Path) -> None:
    path, forged = tmp_path / "ledger.jsonl", tmp_path / "forged.jsonl"
    fill(path, 2)
    JsonlLedger(forged).append(example_events()[0])
    JsonlLedger(forged).append(example_events()[1])
    path.write_bytes(forged.read_bytes())
    with pytest.raises(LedgerError, match="the chain was written anew"):
        JsonlLedger(path).events()


@pytest.mark.parametrize(
    "head", [b"", b"{}", b"[]", b'{"count": "2", "hash": "x"}\n', b"\xff", b'{"count": -1}']
)
def test_an_edited_head_is_found(path: Path, head: bytes) -> None:
    fill(path, 2)
    path.with_suffix(".head").write_bytes(head)
    with pytest.raises(LedgerError, match=r"ledger\.head was edited"):
        JsonlLedger(path).events()


def test_a_missing_head_is_found(path: Path) -> None:
    fill(path, 2)
    path.with_suffix(".head").unlink()
    with pytest.raises(LedgerError, match=r"ledger\.head is missing"):
        JsonlLedger(path).events()


@pytest.mark.parametrize("count", [1, 3])
def test_a_crash_before_the_head_was_written_is_fine(path: Path, count: int) -> None:
    head_path = path.with_suffix(".head")
    fill(path, count)
    old = head_path.read_bytes()
    JsonlLedger(path).append(example_events()[1])
    head_path.write_bytes(old)
    JsonlLedger(path).events()
    JsonlLedger(path).append(example_events()[1])
    assert len(JsonlLedger(path).events()) == count + 2
    assert json.loads(head_path.read_text())["count"] == count + 2


def test_a_crash_before_the_first_head_is_fine(path: Path) -> None:
    fill(path, 1)
    path.with_suffix(".head").unlink()
    assert len(JsonlLedger(path).events()) == 1


@pytest.mark.parametrize("length", [1, 40, -2])
def test_a_torn_last_line_is_set_aside(path: Path, length: int) -> None:
    complete = fill(path, 3)
    ledger = JsonlLedger(path)
    ledger.append(example_events()[1])
    line = path.read_bytes()[len(complete) :]
    path.write_bytes(complete)
    path.with_suffix(".head").unlink()
    fresh = path.with_name("again.jsonl")
    fill(fresh, 3)
    fresh.with_suffix(".head").rename(path.with_suffix(".head"))

    path.write_bytes(complete + line[:length])
    reader = JsonlLedger(path)
    assert len(reader.events()) == 3
    assert path.read_bytes() == complete + line[:length], "reading must not change the file"

    writer = JsonlLedger(path)
    writer.append(example_events()[1])
    assert len(JsonlLedger(path).events()) == 4
    assert path.with_name("ledger.jsonl.torn-1").read_bytes() == line[:length]
    assert "ledger.jsonl.torn-1" in writer.notes[0]


def test_torn_lines_are_numbered(path: Path) -> None:
    fill(path, 1)
    for number in (1, 2):
        with path.open("ab") as file:
            file.write(b'{"seq":')
        JsonlLedger(path).recover()
        assert path.with_name(f"ledger.jsonl.torn-{number}").read_bytes() == b'{"seq":'
    assert len(JsonlLedger(path).events()) == 1


@pytest.mark.parametrize("room", [0, 1, 60])
def test_a_full_disk_leaves_the_ledger_as_it_was(path: Path, room: int) -> None:
    original = fill(path, 3)
    ledger = JsonlLedger(path)
    ledger.recover()
    with largest_file(len(original) + room), pytest.raises(StorageError, match=r"ledger\.jsonl"):
        ledger.append(example_events()[1])
    assert path.read_bytes() == original
    assert sorted(p.name for p in path.parent.iterdir()) == ["ledger.head", "ledger.jsonl"]
    ledger.append(example_events()[1])
    assert len(JsonlLedger(path).events()) == 4


def test_a_disk_too_full_for_the_head(path: Path) -> None:
    with largest_file(10), pytest.raises(StorageError, match="can't append to"):
        JsonlLedger(path).append(example_events()[1])
    assert list(path.parent.iterdir()) == []


def test_a_directory_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match=r"can't append to .*ledger.jsonl: Not a directory") as e:
        JsonlLedger(tmp_path / "file" / "ledger.jsonl").append(example_events()[1])
    assert "choose another path" in str(e.value)


def test_another_writer_is_noticed(path: Path) -> None:
    fill(path, 2)
    one, two = JsonlLedger(path), JsonlLedger(path)
    one.recover()
    two.append(example_events()[1])
    with pytest.raises(LedgerError, match="another process wrote to it"):
        one.append(example_events()[1])
    assert len(JsonlLedger(path).events()) == 3


def test_an_unknown_event_names_its_line(path: Path) -> None:
    original = json.loads(fill(path, 1))
    del original["hash"]
    original["event"]["colour"] = "red"
    body = json.dumps(original, separators=(",", ":"))
    digest = hashlib.sha256(body.encode()).hexdigest()
    path.write_text(f'{body[:-1]},"hash":"{digest}"}}\n')
    path.with_suffix(".head").unlink()
    with pytest.raises(LedgerError, match=r"line 1 is intact but isn't an event: .*colour"):
        JsonlLedger(path).events()


def test_kill_9_in_the_middle_of_appends(path: Path) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from roofsmith.store.ledger import JsonlLedger\n"
        "from roofsmith.testing.store import example_events\n"
        "ledger = JsonlLedger(Path(sys.argv[1])); event = example_events()[0]\n"
        "while True:\n    ledger.append(event); print('.', end='', flush=True)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, os.fspath(path)], stdout=subprocess.PIPE
    ) as process:
        process.stdout.read(20)
        process.send_signal(signal.SIGKILL)
        written = 20 + len(process.stdout.read())
    ledger = JsonlLedger(path)
    assert written <= len(ledger.events()) <= written + 1
    ledger.append(example_events()[1])
    JsonlLedger(path).events()


@pytest.fixture
def started() -> Started:
    environment = example_events()[1].environment  # type: ignore[union-attr]
    return Started.model_validate(
        {
            "campaign": "softmax",
            "target": Target(
                name="softmax",
                language="c",
                kernel=SourceFile(path="k.c", text="void solve(){}"),
                reference=SourceFile(path="r.py", text=""),
                workloads=(Workload(dims={"Rows": 4, "Cols": 8}),),
            ),
            "environment": environment,
            "facts": {"device_id": environment.device.id},
            "bounds": (),
            "classes": (),
            "proposers": ("sweep",),
            "at": "2025-01-01 00:00:00",
        }
    )
