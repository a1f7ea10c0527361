"""Walls around agents against one that tries every way to change what isn't its own."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
import trespasser
from agent_programs import LAYERS

from kinds import another
from roofsmith.landlock import LANDLOCK
from roofsmith.namespaces import MOUNT, USER
from roofsmith.proposers.agent import keeper
from roofsmith.proposers.agent.attributes import AttributeWatch

NOBODY = 65534
SAFE_PYTHONS = (sys.executable, "/usr/bin/python3")
ROOTS = ("chown to another", "lchown to another", "fchown to another", "trusted attribute",
         "open by handle")  # fmt: skip
"""What nobody else may do."""
NEWER = ("fchmodat2", "setxattrat", "removexattrat", "file_setattr", "flags of another kind")
"""What not every kernel and file system has."""
needs_mounts = pytest.mark.skipif(MOUNT not in LAYERS, reason="no mount namespaces here")


@dataclass(frozen=True)
class Home:
    """A user's folders, and where an agent of theirs works."""

    user: int
    python: str
    root: Path

    @property
    def outside(self) -> Path:
        """What is the user's own."""
        return self.root / "outside"

    @property
    def work(self) -> Path:
        """What is the agent's."""
        return self.root / "work"

    def run(self, layers: tuple[str, ...], *command: str) -> tuple[int, str]:
        """Its exit code and what it printed, kept behind these walls."""
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ran = subprocess.Popen(
                [self.python, "-I", "-S", keeper.__file__, str(theirs.fileno()), str(1 << 30), "0",
                 ",".join(layers), "1", str(self.work), *command],
                cwd=self.work, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, pass_fds=[theirs.fileno()], text=True,
                user=self.user, group=self.user, extra_groups=[],
                env={"PATH": os.defpath, "TMPDIR": str(self.work / "tmp")},
            )  # fmt: skip
            theirs.close()
            printed, _ = ran.communicate(timeout=120)
            return json.loads(ours.recv(1 << 16))["code"], printed

    def state(self) -> dict[str, tuple[object, ...]]:
        """All that is known of what is outside, but for when it was read last."""
        return {str(path): _state(path) for path in (self.outside, *self.outside.rglob("*"))}


def _state(path: Path) -> tuple[object, ...]:
    found = path.lstat()
    attributes = {
        name: os.getxattr(path, name, follow_symlinks=False)
        for name in os.listxattr(path, follow_symlinks=False)
    }
    flags = None
    if not path.is_symlink():
        number = os.open(path, os.O_RDONLY)
        with suppress(OSError):
            flags = fcntl.ioctl(number, trespasser.GET_FLAGS, bytes(8))
        os.close(number)
    content = path.read_bytes() if stat.S_ISREG(found.st_mode) else None
    return found[:7], found.st_mtime_ns, found.st_ctime_ns, attributes, flags, content


def _lasting(states: dict[str, tuple[object, ...]]) -> dict[str, tuple[object, ...]]:
    """All but the time of the last change, and flags: one is the kernel's, the others are seen."""
    return {path: (*state[:2], state[3], state[5]) for path, state in states.items()}


@pytest.fixture(params=["root", "nobody"])
def home(request: pytest.FixtureRequest) -> Iterator[Home]:
    """Of the superuser and of anybody else, below /tmp, as campaigns of tests are."""
    user = {"root": 0, "nobody": NOBODY}[request.param]
    if os.geteuid() != 0:
        if user == 0:
            pytest.skip("not root")
        user = os.geteuid()
    python = next(filter(lambda path: _may_run(user, path), SAFE_PYTHONS), None)
    if python is None:
        pytest.skip("no Python that this user may run")
    root = Path(tempfile.mkdtemp(dir="/tmp"))
    found = Home(user, python, root)
    (found.work / "tmp").mkdir(parents=True)
    trespasser.make(found.outside)
    for path in (root, *root.rglob("*")):
        if os.geteuid() == 0:
            os.chown(path, user, user, follow_symlinks=False)
    shutil.copy(trespasser.__file__, root)
    yield found
    shutil.rmtree(root)


def _may_run(user: int, program: str) -> bool:
    with suppress(OSError):
        ran = subprocess.run(
            [program, "-I", "-S", "-c", "import os; os.pidfd_open"], user=user, check=False,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        return ran.returncode == 0
    return False


def trespass(home: Home, layers: tuple[str, ...], what: str = "everything") -> list[str]:
    """What the hostile agent says that it could do."""
    code, printed = home.run(
        layers, home.python, "-I", "-S", str(home.root / "trespasser.py"), what,
        str(home.outside), str(home.work),
    )  # fmt: skip
    assert code == 0
    return printed.splitlines()


@needs_mounts
@pytest.mark.parametrize("layers", [LAYERS, (USER, MOUNT)], ids="+".join)
def test_nothing_outside_can_be_changed(home: Home, layers: tuple[str, ...]) -> None:
    before = home.state()
    assert trespass(home, layers) == []
    assert home.state() == before


def test_what_is_tried_would_change_something(home: Home) -> None:
    tried = [name for name, _ in trespasser.changes(home.outside, home.work)]
    possible = [name for name in tried if home.user == 0 or name not in ROOTS]
    assert set(possible) - {*trespass(home, (), "changes")} <= {*NEWER}


@pytest.mark.skipif(LANDLOCK not in LAYERS, reason="this kernel has no Landlock")
@pytest.mark.parametrize("home", ["root", another("nobody")], indirect=True)
def test_what_landlock_does_not_know_is_seen_and_put_back(home: Home) -> None:
    """Each is tried alone, so that nothing hides another."""
    for name, _ in trespasser.changes(home.outside, home.work):
        before = home.state()
        watch = AttributeWatch([home.outside], [home.root], besides={home.work})
        assert trespass(home, (LANDLOCK,), name) in ([], [name])
        after = home.state()
        assert bool(watch.changed()) == (after != before), name
        assert _lasting(home.state()) == _lasting(before), name


NEEDS = """
import os, pathlib, pty, socket, subprocess, sys, tarfile
os.chdir("tmp")
pathlib.Path("/tmp/mine").write_text("mine")
assert pathlib.Path("mine").read_text() == "mine"
assert pathlib.Path(sys.argv[1], "file").read_text() == "held"
pathlib.Path("/dev/null").write_text("gone")
assert sys.stdin.read() == ""
parent, child = pty.openpty()
os.write(parent, b"typed\\n")
assert os.read(child, 9) == b"typed\\n"
with socket.create_server(("127.0.0.1", 0)) as server:
    socket.create_connection(server.getsockname()).close()
pathlib.Path("k.c").write_text("int main(void) { return 7; }")
subprocess.run(["gcc", "k.c", "-o", "k"], check=True, env={**os.environ, "TMPDIR": "/tmp"})
assert subprocess.run(["./k"]).returncode == 7
git = ["git", "-c", "user.name=x", "-c", "user.email=x@y"]
subprocess.run([*git, "init", "-q", "."], check=True)
subprocess.run([*git, "add", "k.c"], check=True)
subprocess.run([*git, "commit", "-q", "-m", "one"], check=True)
os.chmod("k.c", 0o600), os.utime("k.c", (1, 1)), os.setxattr("k.c", "user.x", b"x")
with tarfile.open("k.tar", "w") as archive:
    entry = archive.gettarinfo("k.c")
    entry.uid, entry.gid, entry.uname, entry.gname = 1, 1, "", ""
    archive.addfile(entry, open("k.c", "rb"))
subprocess.run(["tar", "xf", "k.tar"], check=True)
assert os.stat("k.c").st_uid == (1 if os.geteuid() == 0 else os.geteuid())
print(os.geteuid(), os.stat("/").st_uid == 0 or os.geteuid() != 0)
"""


@needs_mounts
@pytest.mark.parametrize("layers", [LAYERS, (USER, MOUNT)], ids="+".join)
def test_what_an_agent_needs_works(home: Home, layers: tuple[str, ...]) -> None:
    outside = str(home.outside)
    ran = home.run(layers, home.python, "-I", "-S", "-c", NEEDS, outside)
    assert ran == (0, f"{home.user} True\n")
    assert not Path("/tmp/mine").exists()
    assert (home.work / "tmp/mine").stat().st_uid == home.user
