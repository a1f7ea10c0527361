"""A worker whose arrays are granted page by page, as the kernel touches them.

Started as a process of its own, never imported. Every array lies in memory that may not be touched;
the handler of SIGSEGV grants the page at the fault's address, first for reading, and notes it. What
a kernel is called with is made up: numbers that say nothing, and integers that are asked for.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import signal
import socket
from array import array
from typing import Any

from roofsmith.judge.host.worker import NUMBERS, answer_parent, begin
from roofsmith.judge.wire import receive, send

PAGE_BYTES = mmap.PAGESIZE
ROOM_BYTES = 64 * 1024**2
"""Of an array: for tens of elements a dimension it is plenty. Chosen."""
BEFORE_BYTES = 1024**2
"""In front of an array, for indices below zero."""
_SA_SIGINFO, _ADDRESS_AT = 4, 16
"""Of `struct sigaction` and `siginfo_t`: Linux on 64 bits."""
_ERROR_AT = {"x86_64": 40 + 8 * 19}
"""Where `ucontext_t` has the fault's error code (gregs[REG_ERR]); elsewhere nobody tells reads
from writes."""
_IS_WRITE = 2
"""Bit of that: the fault was a write (Intel SDM 3A, 4.7)."""
_CODES = {"int8": "b", "int16": "h", "int32": "i", "int64": "q", "uint8": "B", "uint16": "H",
          "uint32": "I", "uint64": "Q", "bool": "B", "float32": "f", "float64": "d"}  # fmt: skip

_Handler = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


class _Action(ctypes.Structure):
    _fields_ = (
        ("handler", _Handler),
        ("mask", ctypes.c_ubyte * 128),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    )


class Region:
    """The memory of one array."""

    def __init__(self, libc: ctypes.CDLL, dtype: str, fill: str, shift: int) -> None:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)
        self._libc = libc
        self._dtype, self._fill = dtype, fill
        self._start = libc.mmap(None, ROOM_BYTES, 0, flags, -1, 0)
        if self._start in (None, ctypes.c_void_p(-1).value):
            raise MemoryError("no room to watch an array in")
        self._base = self._start + BEFORE_BYTES
        self.address = self._base + shift
        self._shift = shift
        self._readable: set[int] = set()
        self.last = -1
        self.is_negative = self.is_read_first = self.is_written = False

    def close(self) -> None:
        self._libc.munmap(ctypes.c_void_p(self._start), ROOM_BYTES)

    def grant(self, at: int, *, writes: bool | None) -> bool:
        """Allow what a fault wanted; False if its address is elsewhere."""
        if not self._start <= at < self._start + ROOM_BYTES:
            return False
        page = at - at % PAGE_BYTES
        self.is_negative |= at < self.address
        self.last = max(self.last, (page - self._base) // PAGE_BYTES)
        is_new = page not in self._readable
        if is_new:
            self._readable.add(page)
            self._protect(page, mmap.PROT_READ | mmap.PROT_WRITE)
            self._write(page)
            self.is_read_first |= writes is not True and not self.is_written
        if is_new and writes is False:
            self._protect(page, mmap.PROT_READ)
        else:
            self._protect(page, mmap.PROT_READ | mmap.PROT_WRITE)
            self.is_written = True
        return True

    def _protect(self, page: int, how: int) -> None:
        self._libc.mprotect(ctypes.c_void_p(page), PAGE_BYTES, how)

    def _write(self, page: int) -> None:
        """What a page holds before anybody reads it."""
        code = _CODES.get(self._dtype)
        if code is None or (self._fill == "zeros" and code not in "fd"):
            return
        size = array(code).itemsize
        count, most = PAGE_BYTES // size, (1 << 8 * size - code.islower()) - 1
        first = (page - self.address) // size
        if code in "fd":
            values: bytes = array(code, [1.0] * count).tobytes()
        elif self._fill == "most":
            values = array(code, [most] * count).tobytes()
        else:
            values = array(code, [max(first + i, 0) % (most + 1) for i in range(count)]).tobytes()
        ctypes.memmove(page, values, PAGE_BYTES)


class PageWatch:
    """A loaded kernel, and what it is seen to touch."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.mmap.restype = ctypes.c_void_p
        self._libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3,
                                    ctypes.c_long]  # fmt: skip
        self._regions: list[Region] = []
        self._error_at = _ERROR_AT.get(platform.machine())
        self._action = _Action(_Handler(self._faulted), flags=_SA_SIGINFO)
        self._solve: Any = None
        self._kinds: list[str] = []

    def load(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Load the library and find its entry."""
        for fd in fds:
            os.close(fd)
        library = ctypes.CDLL(message["library"], mode=os.RTLD_NOW | os.RTLD_LOCAL)
        self._solve = getattr(library, message["entry"])
        self._solve.restype = None
        self._kinds = message["kinds"]
        self._solve.argtypes = [
            ctypes.c_void_p if kind == "pointer" else NUMBERS[kind] for kind in self._kinds
        ]
        return {}

    def observe(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:  # noqa: ARG002
        """Call the kernel once; what it touched of each array."""
        arguments: list[Any] = []
        for kind, given in zip(self._kinds, message["arguments"], strict=True):
            if kind == "pointer":
                region = Region(self._libc, given["dtype"], given["fill"], given["shift"])
                self._regions.append(region)
                arguments.append(ctypes.c_void_p(region.address))
            else:
                arguments.append(NUMBERS[kind](given))
        self._libc.sigaction(signal.SIGSEGV, ctypes.byref(self._action), None)
        try:
            self._solve(*arguments)
            return {
                "seen": [
                    [one.last, one.is_negative, one.is_read_first, one.is_written]
                    for one in self._regions
                ]
            }
        finally:
            for region in self._regions:
                region.close()
            self._regions.clear()

    def _faulted(self, number: int, info: int, context: int) -> None:
        """Grant what was touched; elsewhere the fault comes again, and ends the process."""
        at = ctypes.c_size_t.from_address(info + _ADDRESS_AT).value
        writes: bool | None = None
        if self._error_at is not None:
            error = ctypes.c_size_t.from_address(context + self._error_at).value
            writes = bool(error & _IS_WRITE)
        if not any(region.grant(at, writes=writes) for region in self._regions):
            self._libc.signal(number, ctypes.c_void_p(0))


def serve(channel: socket.socket) -> None:
    """Answer messages until the parent hangs up or says `exit`."""
    begin(channel)
    observer = PageWatch()
    operations = {"load": observer.load, "observe": observer.observe}
    while True:
        message, fds = receive(channel)
        if message["op"] == "exit":
            return
        try:
            answer = operations[message["op"]](message, fds)
        except (OSError, AttributeError, MemoryError, ValueError) as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        send(channel, answer)


def main() -> None:
    """Entry of the process."""
    answer_parent(serve)


if __name__ == "__main__":
    main()
