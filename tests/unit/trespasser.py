# ruff: noqa: PTH101, PTH102, PTH104, PTH106, PTH108, PTH116, PTH208, PTH211
"""An agent that tries every system call by which a file could be changed, where it may not.

    python -I -S trespasser.py changes|everything|NAME OUTSIDE OWN

OUTSIDE is a folder of its user's that it has no business in, made anew for each of the `changes`;
OWN is one that it may write to. `everything` also tries the ways around walls, which could harm a
machine without. What succeeded is printed, an attempt a line. Standard library only.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import socket
import stat
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

LIBC = ctypes.CDLL(None, use_errno=True)
AT_FDCWD = -100
NEW_USERS, NEW_MOUNTS = 0x10000000, 0x00020000
READ_ONLY, REMOUNT, BIND, RECURSIVE, PRIVATE = 1, 32, 4096, 16384, 1 << 18
GET_FLAGS, SET_FLAGS, NO_DUMP = 0x80086601, 0x40086602, 0x40
GET_OTHER_FLAGS, SET_OTHER_FLAGS = 0x801C581F, 0x401C5820


def call(number: int, *arguments: object) -> int:
    """A system call by its number, the same on x86-64 and aarch64 from 424 on."""
    given = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    return checked(LIBC.syscall(ctypes.c_long(number), *given))


def checked(result: int) -> int:
    """A result that is none of an error."""
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def mount(source: str | None, target: str, kind: str | None, flags: int) -> None:
    """mount(2)."""
    words = [None if text is None else os.fsencode(text) for text in (source, target, kind)]
    checked(LIBC.mount(*words, ctypes.c_ulong(flags), None))


def changes(outside: Path, own: Path) -> Iterator[tuple[str, Callable[[], object]]]:
    """Every way to change a file or a folder."""
    path, folder = str(outside / "file"), str(outside / "folder")

    def by_descriptor(change: Callable[[int], object], name: str = "file") -> None:
        change(os.open(outside / name, os.O_RDONLY))

    def flags(number: int) -> None:
        held = struct.unpack("l", fcntl.ioctl(number, GET_FLAGS, bytes(8)))[0]
        fcntl.ioctl(number, SET_FLAGS, struct.pack("l", held ^ NO_DUMP))

    def allocate() -> None:
        os.posix_fallocate(os.open(path, os.O_WRONLY), 0, 1 << 16)

    def bind_socket() -> None:
        with socket.socket(socket.AF_UNIX) as bound:
            os.chdir(outside)
            bound.bind("socket")

    yield "chmod", lambda: os.chmod(path, 0o666)
    yield "chmod of a folder", lambda: os.chmod(folder, 0o777)
    yield "chmod of the folder itself", lambda: os.chmod(outside, 0o777)
    yield "fchmod", lambda: by_descriptor(lambda fd: os.fchmod(fd, 0o666))
    yield "fchmod of a folder", lambda: by_descriptor(lambda fd: os.fchmod(fd, 0o777), "folder")
    yield (
        "fchmodat",
        lambda: by_descriptor(lambda fd: os.chmod("inside", 0o666, dir_fd=fd), "folder"),
    )
    yield "fchmodat2", lambda: call(452, AT_FDCWD, os.fsencode(path), 0o666, 0)
    yield (
        "chmod through /proc",
        lambda: by_descriptor(lambda fd: os.chmod(f"/proc/self/fd/{fd}", 0o666)),
    )
    owners = {"oneself": (os.getuid(), os.getgid()), "nobody new": (-1, -1), "another": (1, 1)}
    for who, (user, group) in owners.items():
        yield f"chown to {who}", lambda user=user, group=group: os.chown(path, user, group)
        yield (
            f"lchown to {who}",
            lambda user=user, group=group: os.lchown(outside / "link", user, group),
        )
        yield (
            f"fchown to {who}",
            lambda user=user, group=group: by_descriptor(lambda fd: os.fchown(fd, user, group)),
        )
    yield "utimensat", lambda: os.utime(path, (1, 1))
    yield "utimensat, now", lambda: os.utime(path)
    yield "utimensat of a link", lambda: os.utime(outside / "link", (1, 1), follow_symlinks=False)
    yield "futimens", lambda: by_descriptor(lambda fd: os.utime(fd, (1, 1)))
    for what, where in (("of a file", path), ("of a folder", folder)):
        yield f"setxattr {what}", lambda where=where: os.setxattr(where, "user.new", b"x")
        yield f"removexattr {what}", lambda where=where: os.removexattr(where, "user.held")
    yield "fsetxattr", lambda: by_descriptor(lambda fd: os.setxattr(fd, "user.held", b"y"))
    yield "setxattrat", lambda: attribute_at(path)
    yield "removexattrat", lambda: call(466, AT_FDCWD, os.fsencode(path), 0, b"user.held")
    yield "trusted attribute", lambda: os.setxattr(path, "trusted.new", b"x")
    yield "access list", lambda: os.removexattr(path, "system.posix_acl_access")
    yield "flags", lambda: by_descriptor(flags)
    yield "flags of a folder", lambda: by_descriptor(flags, "folder")
    yield (
        "flags of another kind",
        lambda: by_descriptor(
            lambda fd: fcntl.ioctl(fd, SET_OTHER_FLAGS, fcntl.ioctl(fd, GET_OTHER_FLAGS, bytes(28)))
        ),
    )
    yield "file_setattr", lambda: attributes_at(path)
    yield "truncate", lambda: os.truncate(path, 0)
    yield "open to write", lambda: os.open(path, os.O_WRONLY)
    yield "open to truncate", lambda: os.open(path, os.O_RDONLY | os.O_TRUNC)
    yield "fallocate", allocate
    yield "creat", lambda: os.open(outside / "new", os.O_CREAT | os.O_WRONLY)
    yield "nameless file", lambda: os.open(outside, os.O_TMPFILE | os.O_RDWR)
    yield "rename within", lambda: os.rename(path, outside / "renamed")
    yield "rename to", lambda: os.rename(own / "mine", path)
    yield "rename from", lambda: os.rename(path, own / "taken")
    yield "link to", lambda: os.link(own / "mine", outside / "linked")
    yield "link from", lambda: os.link(path, own / "linked")
    yield "symlink", lambda: os.symlink("/", outside / "symlink")
    yield "unlink", lambda: os.unlink(path)
    yield "mknod", lambda: os.mknod(outside / "node", stat.S_IFREG | 0o600)
    yield "mkfifo", lambda: os.mkfifo(outside / "fifo")
    yield "mkdir", lambda: os.mkdir(outside / "made")
    yield "rmdir", lambda: os.rmdir(outside / "empty")
    yield "socket", bind_socket
    yield "open by handle", lambda: by_handle(own, path)


def attribute_at(path: str) -> None:
    """setxattrat(2), Linux 6.13."""
    value = ctypes.create_string_buffer(b"x", 1)
    given = struct.pack("QII", ctypes.addressof(value), 1, 0)
    call(463, AT_FDCWD, os.fsencode(path), 0, b"user.new", given, len(given))


def attributes_at(path: str) -> None:
    """file_setattr(2), Linux 6.17, as file_getattr says that they are."""
    held = ctypes.create_string_buffer(24)
    call(468, AT_FDCWD, os.fsencode(path), held, len(held), 0)
    call(469, AT_FDCWD, os.fsencode(path), held, len(held), 0)


def by_handle(own: Path, path: str) -> None:
    """Open a file by its number, of a mount that can be written to."""
    handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + bytes(128))
    LIBC.name_to_handle_at.restype = LIBC.open_by_handle_at.restype = ctypes.c_int
    at, place = ctypes.c_int(), os.open(own, os.O_RDONLY)
    checked(LIBC.name_to_handle_at(AT_FDCWD, os.fsencode(path), handle, ctypes.byref(at), 0))
    os.fchmod(checked(LIBC.open_by_handle_at(place, handle, os.O_RDONLY)), 0o600)


def escapes(outside: Path, own: Path) -> Iterator[tuple[str, Callable[[], object]]]:
    """Ways around the walls, each tried in a process of its own."""
    parents = ancestors()

    def by(prefix: str) -> None:
        os.chmod(f"{prefix}{outside}/file", 0o600)

    def in_new_namespace(then: Callable[[], object]) -> None:
        user, group = os.getuid(), os.getgid()
        checked(LIBC.unshare(NEW_USERS | NEW_MOUNTS))
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")
        then()

    def remount(target: str) -> None:
        mount(None, target, None, REMOUNT | BIND)
        by("")

    def set_attributes() -> None:
        call(442, AT_FDCWD, b"/", 0x8000, struct.pack("4Q", 0, READ_ONLY, 0, 0), 32)
        by("")

    def unmount() -> None:
        for target in (str(outside), str(own), "/tmp"):
            LIBC.umount2(os.fsencode(target), 2)
        by("")

    def bind_own() -> None:
        mount(str(outside), str(own / "folder"), None, BIND | RECURSIVE)
        os.chmod(own / "folder/file", 0o600)

    def copy_mount() -> None:
        tree = call(428, AT_FDCWD, os.fsencode(outside), 1)
        os.chmod("file", 0o600, dir_fd=tree)

    def make_file_system() -> None:
        system = call(430, b"tmpfs", 0)
        call(431, system, 6, None, None, 0)
        call(429, call(432, system, 0, 0), b"", AT_FDCWD, os.fsencode(outside), 4)

    def disk() -> None:
        node = own / "disk"
        os.mknod(node, stat.S_IFBLK | 0o600, os.stat(outside).st_dev)
        os.open(node, os.O_RDWR)

    def open_device() -> None:
        device = os.stat(outside).st_dev
        for path in Path("/dev").iterdir():
            if path.is_block_device() and path.stat().st_rdev == device:
                os.open(path, os.O_RDWR)
                return
        raise OSError(0, "no such device")

    mounts = {
        "remount": lambda: remount(str(outside)), "remount of all": lambda: remount("/"),
        "mount_setattr": set_attributes, "umount": unmount, "bind": bind_own,
        "open_tree": copy_mount, "fsmount": make_file_system, "plain": lambda: by(""),
        "private": lambda: (mount(None, "/", None, RECURSIVE | PRIVATE), by("")),
    }  # fmt: skip
    for name, attempt in mounts.items():
        yield name, attempt
        yield f"{name} in a namespace of its own", lambda attempt=attempt: in_new_namespace(attempt)
    for parent in parents:
        yield f"root of {parent}", lambda parent=parent: by(f"/proc/{parent}/root")
        yield f"folder of {parent}", lambda parent=parent: os.chmod(f"/proc/{parent}/cwd", 0o700)
        yield (
            f"descriptor of {parent}",
            lambda parent=parent: os.open(f"/proc/{parent}/fd/1", os.O_WRONLY),
        )
        yield f"memory of {parent}", lambda parent=parent: os.open(f"/proc/{parent}/mem", os.O_RDWR)
        yield (
            f"namespace of {parent}",
            lambda parent=parent: checked(
                LIBC.setns(os.open(f"/proc/{parent}/ns/mnt", os.O_RDONLY), 0)
            ),
        )
        yield f"ptrace of {parent}", lambda parent=parent: checked(LIBC.ptrace(16, parent, 0, 0))
        yield (
            f"descriptor taken of {parent}",
            lambda parent=parent: call(438, os.pidfd_open(parent), 1, 0),
        )
        yield (
            f"limits of {parent}",
            lambda parent=parent: Path(f"/proc/{parent}/oom_score_adj").write_text("0"),
        )
    yield "device made", disk
    yield "device opened", open_device
    yield "chroot", lambda: (os.chroot(own), os.chroot("../../../../../.."), by(""))
    yield "standard input", lambda: os.fchmod(0, stat.S_IMODE(os.fstat(0).st_mode))
    yield "kernel's settings", lambda: os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY)
    yield (
        "what is open",
        lambda: [
            os.fchmod(int(name), 0o600) for name in os.listdir("/proc/self/fd") if int(name) > 2
        ],
    )


def ancestors() -> list[int]:
    """Who started this process, and who started those."""
    found, pid = [], os.getppid()
    while pid > 1:
        found.append(pid)
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return found


def attempted(name: str, attempt: Callable[[], object]) -> None:
    """Try it in a child, and say so where it succeeded."""
    child = os.fork()
    if child == 0:
        try:
            attempt()
        except OSError:
            os._exit(1)
        except BaseException as error:  # noqa: BLE001
            print(f"{name}: {error!r}", flush=True)
            os._exit(2)
        os._exit(0)
    if os.waitpid(child, 0)[1] == 0:
        print(name, flush=True)


def make(outside: Path) -> None:
    """Fill a folder with what can be changed."""
    for name in ("folder", "empty"):
        (outside / name).mkdir(parents=True)
    for file in (outside / "file", outside / "folder/inside"):
        file.write_text("held")
        file.chmod(0o644)
    (outside / "link").symlink_to("file")
    with suppress(OSError):  # a file system without them
        for path in (outside / "file", outside / "folder"):
            os.setxattr(path, "user.held", b"x")


def main() -> None:
    """Try everything, or one thing."""
    what, outside, own = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    (own / "folder").mkdir(exist_ok=True)
    for name, attempt in changes(outside, own):
        if what not in ("changes", "everything", name):
            continue
        (own / "mine").write_text("mine")
        attempted(name, attempt)
        if what == "changes":
            shutil.rmtree(outside, ignore_errors=True)
            make(outside)
    if what == "everything":
        for name, attempt in escapes(outside, own):
            attempted(name, attempt)


if __name__ == "__main__":
    main()
