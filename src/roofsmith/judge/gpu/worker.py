"""The home of GPU candidates: loads a library or a module, maps device memory, queues calls.

Started as a process of its own, never imported. Like the CPU's worker it knows neither seeds nor
reference nor tolerance, and what it says is a claim. Device memory belongs to the judge: inputs lie
there before a segment begins, and outputs are read from there by the judge's own process. A library
is loaded with the standard library alone; a module needs torch, which a fork server has imported.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib.util
import mmap
import os
import socket
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roofsmith.judge.gpu.busy_kernel import Occupant
from roofsmith.judge.gpu.driver import DeviceError, Driver, Plug
from roofsmith.judge.gpu.launch_gate import PLUG_PATIENCE_S, mapped
from roofsmith.judge.host.worker import NUMBERS, answer_parent, begin
from roofsmith.judge.wire import receive, send

PYTHON_ERRORS = {
    "OutOfMemoryError": "CUDA_ERROR_OUT_OF_MEMORY",
    "OutOfResources": "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
}
"""Exceptions of torch and of Triton, and the driver's names for what they mean."""

Call = Callable[[], object]


class LibraryKernel:
    """`solve` of a shared library, with device pointers."""

    def __init__(self, message: dict[str, Any]) -> None:
        self._library = ctypes.CDLL(message["library"])
        self._solve = getattr(self._library, message["entry"])
        self._solve.restype = None
        self._kinds: list[str] = message["kinds"]
        self._solve.argtypes = [
            ctypes.c_void_p if kind == "pointer" else NUMBERS[kind] for kind in self._kinds
        ]
        self._defers = ctypes.c_int()
        with contextlib.suppress(ValueError):  # not in a library that was compiled otherwise
            self._defers = ctypes.c_int.in_dll(self._library, "roofsmith_defer_waits")
        self._refused = getattr(self._library, "roofsmith_refused", None)
        if self._refused is not None:
            self._refused.restype = ctypes.c_char_p

    def defer_waits(self, defer: bool) -> None:
        """Whether `solve` comes back before the device is done, though it waits for all of it."""
        self._defers.value = int(defer)

    def refused(self) -> str | None:
        """Name of the last error that the runtime returned to the library since this was asked."""
        name = self._refused() if self._refused is not None else None
        return name.decode(errors="replace") if isinstance(name, bytes) else None

    def bind(self, base: int, layout: dict[str, Any], slot: int) -> Call:
        """A call of `solve` on a slot, with its arguments ready."""
        start = base + slot * layout["slot_bytes"]
        arguments = tuple(
            ctypes.c_void_p(start + given["offset"])
            if kind == "pointer"
            else NUMBERS[kind](given["value"])
            for kind, given in zip(self._kinds, layout["arguments"], strict=True)
        )
        solve = self._solve
        return lambda: solve(*arguments)


class ModuleKernel:
    """`run_kernel` of a Python module, with tensors over device memory."""

    def __init__(self, message: dict[str, Any]) -> None:
        from roofsmith.judge.extensions import use_locks_that_end
        from roofsmith.judge.gpu.tensors import open_device

        use_locks_that_end()
        open_device()  # workers are loaded side by side, but called one after the other
        path = Path(message["library"])
        spec = importlib.util.spec_from_file_location("candidate", path)
        if spec is None or spec.loader is None:
            raise ImportError(f"{path} is not a Python file")
        sys.path.append(str(path.parent))  # for the candidate's other files
        module = importlib.util.module_from_spec(spec)
        sys.modules["candidate"] = module
        spec.loader.exec_module(module)
        self._run = getattr(module, message["entry"])

    def defer_waits(self, defer: bool) -> None:
        """Nothing to put off: modules wait in their own way."""

    def refused(self) -> str | None:
        """Nothing: torch and Triton raise what they are refused."""
        return None

    def bind(self, base: int, layout: dict[str, Any], slot: int) -> Call:
        """A call of `run_kernel` on a slot, with its tensors made."""
        from roofsmith.judge.gpu.tensors import tensor_at

        start = base + slot * layout["slot_bytes"]
        arguments = {
            given["name"]: (
                given["value"]
                if "value" in given
                else tensor_at(start + given["offset"], given["shape"], given["dtype"])
            )
            for given in layout["arguments"]
        }
        run = self._run
        return lambda: run(**arguments)


@dataclass(frozen=True, slots=True)
class Owned:
    """An arena of the worker's own: the parent's memory here, and its copy on the device."""

    shared: mmap.mmap
    host: int
    base: int


class GpuWorker:
    """State of one worker: a kernel, the memory it was given, and its segments."""

    def __init__(self) -> None:
        self._driver: Driver | None = None
        self._plug: Plug | None = None
        self._occupant: Occupant | None = None
        self._kernel: LibraryKernel | ModuleKernel | None = None
        self._calls: dict[int, list[Call]] = {}
        self._owned: dict[int, Owned] = {}
        self._marks: tuple[ctypes.c_void_p, ...] = ()

    def load(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Open the device, then load the candidate; whether others can let its calls go."""
        self._driver = Driver(message["api"])
        self._plug = self._driver.plug(mapped(fds[0]))
        os.close(fds[0])
        kind = LibraryKernel if message["form"] == "library" else ModuleKernel
        self._kernel = kind(message)
        return {"shared": self._plug.is_shared}

    def attach(self, message: dict[str, Any]) -> dict[str, Any]:
        """Map one arena of the judge's device memory, and bind calls to its slots."""
        driver, kernel = self._ready()
        base = driver.take(bytes.fromhex(message["handle"]))
        layout = message["layout"]
        self._calls[message["arena"]] = [
            kernel.bind(base, layout, slot) for slot in range(message["slots"])
        ]
        return {}

    def own(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Device memory of this worker's own, filled from the parent's: for profilers."""
        driver, kernel = self._ready()
        shared = mmap.mmap(fds[0], message["size"])
        os.close(fds[0])
        host = ctypes.addressof(ctypes.c_char.from_buffer(shared))
        base = driver.alloc(message["size"])
        driver.write(base, host, message["size"])
        self._owned[message["arena"]] = Owned(shared, host, base)
        self._calls[message["arena"]] = [kernel.bind(base, message["layout"], 0)]
        return {}

    def renew(self, message: dict[str, Any]) -> dict[str, Any]:
        """Copy the parent's memory over an own arena once more."""
        owned = self._owned[message["arena"]]
        self._ready()[0].write(owned.base, owned.host, len(owned.shared))
        return {}

    def collect(self, message: dict[str, Any]) -> dict[str, Any]:
        """Copy an own arena back to the parent's memory."""
        owned = self._owned[message["arena"]]
        self._ready()[0].read(owned.host, owned.base, len(owned.shared))
        return {}

    def run(self, message: dict[str, Any]) -> dict[str, Any]:
        """Discarded calls, then timed ones between two events; one number for all of them."""
        driver, kernel = self._ready()
        kernel.defer_waits(message["defer"])
        watched = driver.profiled() if message["profile"] else contextlib.nullcontext()
        with watched:
            self._queue(message)
            answer = self._elapsed()
        # Where only the event was waited for, memcheck and racecheck missed defects on an H200.
        if message["arena"] in self._owned:
            driver.wait()
        return answer

    def queue(self, message: dict[str, Any]) -> dict[str, Any]:
        """Like `run`, but nothing starts before it is let go: the device waits behind a plug.

        So it never waits for the host between calls, and their inputs needn't be there yet. Its end
        is written where whoever lets it go from outside can see it. Whether
        it was let go before, because a call waits for the device or the host was held up, is in the
        answer: what is discarded may run still, with the first event yet to come.
        """
        plug = self._plug
        if plug is None:
            raise ValueError("nothing was loaded")
        self._ready()[1].defer_waits(True)
        let_go = threading.Event()

        def give_up() -> None:
            let_go.set()
            plug.release()

        patience = threading.Timer(PLUG_PATIENCE_S, give_up)
        plug.hold(message["turn"])
        patience.start()
        try:
            self._queue(message)
            plug.tell()
            patience.cancel()
            patience.join()
            return {"early": let_go.is_set() or self._ready()[0].is_done(self._events()[0])}
        except BaseException:
            plug.release()
            raise
        finally:
            patience.cancel()

    def finish(self, message: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG002
        """Let the queued calls go, unless somebody did, and wait for them."""
        if self._plug is not None:
            self._plug.release()
        return self._elapsed()

    def _queue(self, message: dict[str, Any]) -> None:
        driver, calls = self._ready()[0], self._calls[message["arena"]]
        begin, end = self._events()
        taken: dict[str, int] | None = message.get("taken")
        for slot in message["warm"]:
            calls[slot]()
        driver.record(begin)
        for index, slot in enumerate(message["slots"]):
            if taken is not None and index == taken["before"]:
                self._occupy(taken["nanoseconds"] * 1e-9)
            calls[slot]()
        driver.record(end)

    def _occupy(self, seconds: float) -> None:
        """Take the whole device for a while, so that no other kernel of this process starts."""
        # Whoever asked sees that nothing was taken; it is no fault of the candidate's.
        with contextlib.suppress(DeviceError):
            self._occupant = self._occupant or Occupant(self._ready()[0])
            self._occupant.take(seconds)

    def _elapsed(self) -> dict[str, Any]:
        driver, kernel = self._ready()
        refused = kernel.refused()
        try:
            # Not for the whole device: what a call left on a stream that it never joined isn't done
            # when the call is, and nobody should find it done.
            driver.wait_for(self._events()[1])
        except DeviceError as error:
            error.refused = refused
            raise
        elapsed_s = driver.elapsed_s(*self._events())
        return {"elapsed_ns": round(elapsed_s * 1e9), "refused": refused}

    def cause(self, error: Exception) -> dict[str, str]:
        """The device's error behind an exception of torch or Triton; empty for any other."""
        name = PYTHON_ERRORS.get(type(error).__name__)
        code = getattr(error, "error_code", None)  # of torch.AcceleratorError
        if name is None and type(code) is int and self._driver is not None:
            name = self._driver.name_of(code)
        return {"device": name} if name is not None else {}

    def _events(self) -> tuple[ctypes.c_void_p, ctypes.c_void_p]:
        """Before the first timed call and after the last; the same ones for every segment."""
        driver, _ = self._ready()
        if not self._marks:
            self._marks = (driver.event(), driver.event())
        return self._marks[0], self._marks[1]

    def _ready(self) -> tuple[Driver, LibraryKernel | ModuleKernel]:
        if self._driver is None or self._kernel is None:
            raise ValueError("nothing was loaded")
        return self._driver, self._kernel


def serve(channel: socket.socket) -> None:
    """Answer messages until the parent hangs up or says `exit`."""
    begin(channel)
    worker = GpuWorker()
    operations = {
        "attach": worker.attach, "run": worker.run, "queue": worker.queue,
        "finish": worker.finish, "collect": worker.collect, "renew": worker.renew,
    }  # fmt: skip
    given = {"load": worker.load, "own": worker.own}
    gc.disable()
    while True:
        message, fds = receive(channel)
        if message["op"] == "exit":
            return
        try:
            if (op := message["op"]) in given:
                answer = given[op](message, fds)
            else:
                answer = operations[op](message)
        except DeviceError as error:
            answer = {"error": str(error), "device": error.name, "refused": error.refused}
        except Exception as error:  # noqa: BLE001  a module may raise anything; it is the candidate's failure
            answer = {"error": f"{type(error).__name__}: {error}", **worker.cause(error)}
        send(channel, answer)


def main() -> None:
    """Entry of a worker process: the channel's descriptor is the first argument."""
    answer_parent(serve)


if __name__ == "__main__":
    main()
