"""The only home of candidate code: loads a library, maps memory, calls `solve`, reports times.

Started as a process of its own, never imported. It knows neither seeds nor reference nor tolerance:
it maps the bytes of inputs to the bytes of outputs. Everything it says is a claim that the parent
checks. Standard library only, so that it starts in a few hundredths of a second.

Two copies of the memory: the shared one, which the parent reads and writes, and a private one with
huge pages, which the kernel works on; `stage` copies one way, `collect` the other. Where the parent
writes and reads the private one itself, there is no other.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import mmap
import os
import resource
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

from roofsmith.judge.sandbox.confinement import NoFilterError, keep_on_processor
from roofsmith.judge.sandbox.inside import Refused, put_up
from roofsmith.judge.sandbox.tamper_check import put_on
from roofsmith.judge.wire import WireError, receive, send
from roofsmith.privileges import die_with_parent

HUGE_PAGE_BYTES = 2 * 1024**2

NUMBERS: dict[str, Any] = {
    "int8": ctypes.c_int8, "int16": ctypes.c_int16, "int32": ctypes.c_int32,
    "int64": ctypes.c_int64, "uint8": ctypes.c_uint8, "uint16": ctypes.c_uint16,
    "uint32": ctypes.c_uint32, "uint64": ctypes.c_uint64, "bool": ctypes.c_bool,
    "float32": ctypes.c_float, "float64": ctypes.c_double,
}  # fmt: skip


class Memory:
    """One arena: private memory and, unless the parent reaches that, shared memory like it."""

    def __init__(self, fds: list[int], size: int) -> None:
        self.shared_at = 0
        for fd in fds:
            self._shared = mmap.mmap(fd, size)
            os.close(fd)
            self.shared_at = ctypes.addressof(ctypes.c_char.from_buffer(self._shared))
        whole_pages = -(-size // HUGE_PAGE_BYTES) * HUGE_PAGE_BYTES
        self._private = mmap.mmap(
            -1, whole_pages + HUGE_PAGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        )
        _prefer_huge_pages(self._private)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._private))
        self.private_at = -(-start // HUGE_PAGE_BYTES) * HUGE_PAGE_BYTES


class Worker:
    """State of one worker: a library, its arenas, and what can be asked of it."""

    def __init__(self) -> None:
        self._library: ctypes.CDLL | None = None
        self._solve: Any = None
        self._kinds: list[str] = []
        self._memories: dict[int, Memory] = {}
        self._bystander = bytearray()
        self._seen_at_once: tuple[int, int] | None = None
        """The range that was collected as soon as the last call had returned."""

    def load(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Load the library and find its entry."""
        for fd in fds:
            put_on(fd)
        self._library = ctypes.CDLL(message["library"], mode=os.RTLD_NOW | os.RTLD_LOCAL)
        self._solve = getattr(self._library, message["entry"])
        self._solve.restype = None
        self._kinds = message["kinds"]
        self._solve.argtypes = [
            ctypes.c_void_p if kind == "pointer" else NUMBERS[kind] for kind in self._kinds
        ]
        return {}

    def map(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Map one more arena."""
        memory = self._memories[message["arena"]] = Memory(fds, message["size"])
        return {"private_at": memory.private_at}

    def stage(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:  # noqa: ARG002
        memory = self._memories[message["arena"]]
        for offset, size in message["ranges"]:
            ctypes.memmove(memory.private_at + offset, memory.shared_at + offset, size)
        return {}

    def settle(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:  # noqa: ARG002
        """Read through other memory, so that what was staged is written back to its own.

        A kernel would else pay for bytes that staging wrote and the caches still hold.
        """
        if len(self._bystander) < message["bytes"]:
            self._bystander = bytearray(b"\1") * message["bytes"]
        self._bystander.find(0)
        return {}

    def collect(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:  # noqa: ARG002
        """Copy ranges from the private to the shared memory."""
        for offset, size in message["ranges"]:
            if (offset, size) != self._seen_at_once:
                self._collect(self._memories[message["arena"]], offset, size)
        self._seen_at_once = None
        return {}

    def _collect(self, memory: Memory, offset: int, size: int) -> None:
        ctypes.memmove(memory.shared_at + offset, memory.private_at + offset, size)

    def run(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:  # noqa: ARG002
        """Call `solve` for every list of arguments; nanoseconds of each call.

        An argument that is a pointer is an offset into the arena. A range that is to be collected
        `at_once` holds what was there when the last call returned: what that left to a thread, and
        is done by the time that anybody asks, is missing. A launcher that is to look at the calls
        is told when they are `watched`.
        """
        self._seen_at_once = None
        base = self._memories[message["arena"]].private_at
        calls = [self._arguments(base, values) for values in message["calls"]]
        if message["watched"]:
            from roofsmith.client_request import simulated

            with simulated():
                times = self._times(calls)
        else:
            times = self._times(calls)
        for offset, size in message["at_once"]:
            self._collect(self._memories[message["arena"]], offset, size)
            self._seen_at_once = (offset, size)
        return {"times_ns": times}

    def _times(self, calls: list[tuple[Any, ...]]) -> list[int]:
        solve, clock = self._solve, time.perf_counter_ns
        times = []
        for arguments in calls:
            begin = clock()
            solve(*arguments)
            times.append(clock() - begin)
        return times

    def _arguments(self, base: int, values: list[Any]) -> tuple[Any, ...]:
        return tuple(
            ctypes.c_void_p(base + value) if kind == "pointer" else NUMBERS[kind](value)
            for kind, value in zip(self._kinds, values, strict=True)
        )


def _prefer_huge_pages(memory: mmap.mmap) -> None:
    """Ask for huge pages, as performance-minded programs do; both sides get the same answer."""
    if hasattr(mmap, "MADV_HUGEPAGE"):
        try:
            memory.madvise(mmap.MADV_HUGEPAGE)
        except OSError as error:
            sys.stderr.write(f"no huge pages here: {error}\n")


def begin(channel: socket.socket) -> None:
    """Hear the plan, confine this process, and say whether that went well."""
    plan, _ = receive(channel)
    try:
        confine(plan)
    except Refused as error:
        send(channel, {"error": f"{type(error).__name__}: {error}"})
        sys.exit(1)
    send(channel, {})


def confine(plan: dict[str, Any]) -> None:
    """Limits on this process, before any candidate code is in it."""
    if not plan["launched"]:  # a launcher's thread that started it may end before it does
        die_with_parent()
    if plan["isolation"] is not None:
        put_up(plan["isolation"])
    if plan["processors"] is not None:
        os.sched_setaffinity(0, plan["processors"])
        if len(plan["processors"]) == 1 and plan["isolation"] is not None:
            with contextlib.suppress(NoFilterError):
                keep_on_processor()
    limits = [(resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, plan["file_bytes"])]
    if plan["memory_bytes"] is not None:
        limits.append((resource.RLIMIT_AS, plan["memory_bytes"]))
    for what, most in limits:
        _, hard = resource.getrlimit(what)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (most, most))


def serve(channel: socket.socket) -> None:
    """Answer messages until the parent hangs up or says `exit`."""
    begin(channel)
    worker = Worker()
    operations = {
        "load": worker.load,
        "map": worker.map,
        "stage": worker.stage,
        "settle": worker.settle,
        "collect": worker.collect,
        "run": worker.run,
    }
    gc.disable()
    while True:
        message, fds = receive(channel)
        if message["op"] == "exit":
            return
        try:
            answer = operations[message["op"]](message, fds)
        except (OSError, AttributeError, MemoryError, ValueError) as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        send(channel, answer)


def answer_parent(serve: Callable[[socket.socket], None]) -> None:
    """Serve on the channel whose descriptor is the first argument, until the parent hangs up."""
    channel = socket.socket(fileno=int(sys.argv[1]))
    channel.setblocking(True)
    try:
        serve(channel)
    except WireError:
        sys.exit(0)


def main() -> None:
    """Entry of the worker process."""
    answer_parent(serve)


if __name__ == "__main__":
    main()
