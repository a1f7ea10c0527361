"""Leases of GPUs: one holder on the whole host, whoever it is and however it ends."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import pytest
from forked_processes import Forked, Server, serving
from simulated_fleet import fake_uuid

from roofsmith.errors import MachineError
from roofsmith.machine.lease import FileLease, FileLeases, Holder
from roofsmith.machine.lock_files import UNNAMED, lock_name, told, usual_folder
from roofsmith.machine.processes import started_ticks
from roofsmith.scratch import pid_namespace
from roofsmith.testing.clock import FakeClock

GPU = fake_uuid(0)
HOLD = """
import os, sys, time
from pathlib import Path
from roofsmith.machine.lease import FileLeases
from roofsmith.testing.clock import FakeClock
# become
lease = FileLeases(FakeClock(), "roofsmith optimize far.yaml", Path(sys.argv[1])).take(sys.argv[2])
print("held" if hasattr(lease, "release") else lease.who, flush=True)
time.sleep(60)
"""
HOLD_PLAINLY = """
import fcntl, os, sys, time
# become
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600)
fcntl.flock(file, fcntl.LOCK_EX)
os.fchmod(file, int(sys.argv[2], 8))
print("held", flush=True)
time.sleep(60)
"""
SOMEBODY_ELSE = 65534


@pytest.fixture
def folder() -> Iterator[Path]:
    """As /run/lock is; not below pytest's, which other users can't enter."""
    made = Path(tempfile.mkdtemp(prefix="leases-", dir="/tmp"))
    made.chmod(0o1777)
    yield made
    shutil.rmtree(made)


def leases(folder: Path) -> FileLeases:
    return FileLeases(FakeClock(), "roofsmith bench here.yaml", folder)


def taken(folder: Path, uuid: str = GPU) -> FileLease:
    lease = leases(folder).take(uuid)
    assert isinstance(lease, FileLease), lease
    return lease


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Forks processes that know leases."""
    with serving("roofsmith.machine.lease", "roofsmith.testing.clock") as server:
        yield server


class Others(Protocol):
    """Starts another process, perhaps another user's."""

    def __call__(self, code: str, *arguments: str, user: int | None = None) -> Forked: ...


@pytest.fixture
def other_process(server: Server) -> Others:
    def started(code: str, *arguments: str, user: int | None = None) -> Forked:
        if user:  # once everything is imported: Python may lie in root's home
            code = code.replace("# become", f"os.setuid({user})")
        process = Forked(server, code, *arguments)
        assert process.said
        return process

    return started


def test_a_second_process_hears_who_holds_it(folder: Path, other_process: Others) -> None:
    with other_process(HOLD, str(folder), GPU) as other:
        assert other.said == "held"
        found = leases(folder).take(GPU)
        assert isinstance(found, Holder)
        assert found.who.startswith(f"pid {other.pid} (")
        assert "): roofsmith optimize far.yaml, since " in found.who
        assert found.who.endswith(" UTC")
    taken(folder).release()


def test_we_are_heard_of_as_well(folder: Path, other_process: Others) -> None:
    lease = taken(folder)
    with other_process(HOLD, str(folder), GPU) as other:
        assert other.said.startswith(f"pid {os.getpid()} (")
        assert "roofsmith bench here.yaml" in other.said
    lease.release()


def test_kill_9_of_the_holder_frees_it(folder: Path, other_process: Others) -> None:
    with other_process(HOLD, str(folder), GPU) as other:
        assert isinstance(leases(folder).take(GPU), Holder)
        other.kill()
        other.wait()
        taken(folder).release()


def test_a_child_doesnt_keep_it(folder: Path, other_process: Others) -> None:
    """What is started while a lease is held doesn't inherit its lock."""
    lease = taken(folder)
    with subprocess.Popen(["sleep", "600"]) as child:
        lease.release()
        with other_process(HOLD, str(folder), GPU) as other:
            assert other.said == "held"
        child.kill()


def test_one_command_may_take_it_again(folder: Path, other_process: Others) -> None:
    outer, inner = taken(folder), taken(folder)
    assert GPU in leases(folder).held()
    inner.release()
    inner.release()
    with other_process(HOLD, str(folder), GPU) as other:
        assert "roofsmith bench" in other.said
    outer.release()
    assert GPU not in leases(folder).held()
    with other_process(HOLD, str(folder), GPU) as other:
        assert other.said == "held"


def test_everybody_may_use_the_file_whatever_the_umask(folder: Path) -> None:
    before = os.umask(0o077)
    try:
        taken(folder).release()
    finally:
        os.umask(before)
    assert stat.S_IMODE((folder / lock_name(GPU)).stat().st_mode) == 0o666


@pytest.mark.skipif(os.getuid() != 0, reason="only root may be somebody else")
@pytest.mark.parametrize("mode", ["666", "644"])
def test_another_users_file_locks_as_well(folder: Path, other_process: Others, mode: str) -> None:
    path = folder / lock_name(GPU)
    with other_process(HOLD_PLAINLY, str(path), mode, user=SOMEBODY_ELSE) as other:
        assert other.said == "held"
        assert path.stat().st_uid == SOMEBODY_ELSE
        found = leases(folder).take(GPU)
        assert isinstance(found, Holder)
        assert found.who == UNNAMED
    taken(folder).release()
    assert path.stat().st_uid == SOMEBODY_ELSE


@pytest.mark.skipif(os.getuid() != 0, reason="only root may be somebody else")
def test_a_user_who_may_only_read_it_still_locks_it(folder: Path, other_process: Others) -> None:
    path = folder / lock_name(GPU)
    path.write_text("{}")
    path.chmod(0o644)
    with other_process(HOLD, str(folder), GPU, user=SOMEBODY_ELSE) as other:
        assert other.said == "held"
        found = leases(folder).take(GPU)
        assert isinstance(found, Holder)
        assert found.who == UNNAMED


@pytest.mark.parametrize(
    ("put", "said"),
    [
        (lambda path, precious: path.symlink_to(precious), "can't be used"),
        (lambda path, precious: path.hardlink_to(precious), "several names"),
        (lambda path, _: os.mkfifo(path), "no plain file"),
    ],
    ids=["link", "second name", "pipe"],
)
def test_nothing_but_a_plain_file_is_locked(
    put: Callable[[Path, Path], None], said: str, folder: Path
) -> None:
    precious = folder / "precious"
    precious.write_text("keep me")
    put(folder / lock_name(GPU), precious)
    with pytest.raises(MachineError, match=said):
        leases(folder).take(GPU)
    assert precious.read_text() == "keep me"


def test_a_folder_where_others_may_replace_files_is_refused(folder: Path) -> None:
    folder.chmod(0o777)
    with pytest.raises(MachineError, match="may replace them") as refused:
        leases(folder).take(GPU)
    assert f"chmod 1777 {folder}" in str(refused.value)


def test_a_missing_folder_comes_with_what_to_do(folder: Path) -> None:
    with pytest.raises(MachineError, match="mkdir -p"):
        leases(folder / "gone").take(GPU)


def test_a_file_that_was_cleared_away_is_not_what_is_locked(
    folder: Path, other_process: Others
) -> None:
    lease = taken(folder)
    (folder / lock_name(GPU)).unlink()
    with other_process(HOLD, str(folder), GPU) as other:
        assert other.said == "held"
        lease.release()
        assert isinstance(leases(folder).take(GPU), Holder)


def test_strange_names_stay_in_the_folder() -> None:
    assert lock_name("MIG-1/../../etc/passwd") == "roofsmith-MIG-1_.._.._etc_passwd.lock"
    assert usual_folder() in (Path("/run/lock"), Path("/tmp"))


# -- what the text is worth -------------------------------------------------------------------

NOW = datetime(2026, 3, 5, 12, 0, tzinfo=UTC)


def text(**changes: object) -> bytes:
    pid = os.getpid()
    name = {
        "pid": pid, "started": started_ticks(pid), "space": pid_namespace(), "user": "nobody",
        "command": "roofsmith demo", "since": "2026-03-05 10:31",
    }  # fmt: skip
    return json.dumps(name | changes).encode()


def test_a_living_holder_is_named_by_what_the_system_says() -> None:
    who = told(text(user="mallory"), NOW)
    assert who.startswith(f"pid {os.getpid()} (")
    assert who.endswith("): roofsmith demo, since 10:31 UTC")
    assert "mallory" not in who


def test_a_day_that_isnt_today_is_shown() -> None:
    assert told(text(since="2026-03-04 23:59"), NOW).endswith("since 2026-03-04 23:59 UTC")


def test_the_dead_hold_nothing() -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    assert told(text(pid=child.pid, started=1), NOW) == UNNAMED


def test_another_process_with_the_same_number_is_not_blamed() -> None:
    assert told(text(started=1), NOW) == UNNAMED


def test_a_number_of_another_container_is_called_that() -> None:
    who = told(text(space=1, pid=7, user="bob"), NOW)
    assert who == "pid 7 in another container (bob): roofsmith demo, since 10:31 UTC"


@pytest.mark.parametrize(
    "scribble", [b"", b"\xff\xfe", b"[]", b"{}", b'{"pid": "x"}', b"null", b"[" * 3000]
)
def test_scribbles_name_nobody(scribble: bytes) -> None:
    assert told(scribble, NOW) == UNNAMED


def test_nothing_reaches_the_terminal_but_text() -> None:
    who = told(text(command="\x1b[2J\x07 rm -rf\r\n" + "x" * 500), NOW)
    assert who.isprintable()
    assert len(who) < 200
