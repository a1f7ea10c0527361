"""The home of a Python kernel while steps of training are run with it.

Started as a process of its own, never imported. Every call gets new tensors for its activations;
those of weights stay the same objects, and are changed in place when a step is over. What the
kernel finds again is counted where its source says it looks; like its times, that is a claim.
"""

from __future__ import annotations

import builtins
import gc
import mmap
import os
import socket
import sys
import time
import types
from pathlib import Path
from typing import Any

from roofsmith.judge.host.worker import answer_parent, begin
from roofsmith.judge.wire import receive, send
from roofsmith.overfitting.trace.marks import MARK, Site, compiler, mark_imports


class Steps:
    """A module, its weights, and the memory that inputs come from and outputs go to."""

    def __init__(self) -> None:
        self._module = types.ModuleType("candidate")
        self._entry = ""
        self._device = "cpu"
        self._sites: list[dict[str, Any]] = []
        self._seen: list[dict[str, int]] = []
        self._memory: mmap.mmap | None = None
        self._arguments: list[dict[str, Any]] = []
        self._weights: dict[str, Any] = {}

    def load(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:  # noqa: ARG002
        """Import the module, with marks in it."""
        path = Path(message["library"])
        self._entry, self._device = message["entry"], message["device"]
        self._sites = message["sites"]
        self._forget()
        places: dict[str, list[Site]] = {}
        for number, site in enumerate(self._sites):
            places.setdefault(site["path"], []).append((number, site))
        compiled = compiler(places)
        if message["root"] is not None:
            mark_imports(message["root"], compiled)
        setattr(builtins, MARK, self._mark)
        self._module.__file__ = str(path)
        sys.modules["candidate"] = self._module
        exec(compiled(path.read_bytes(), str(path)), self._module.__dict__)
        getattr(self._module, self._entry)
        return {}

    def map(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Take the memory that arrays are exchanged in, and what the kernel is called with."""
        self._memory = mmap.mmap(fds[0], message["size"])
        os.close(fds[0])
        self._arguments = message["arguments"]
        return {}

    def run(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:  # noqa: ARG002
        """One call; `changed` says whether the weights are others than before."""
        import torch

        with torch.no_grad():
            arguments = {
                given["name"]: given["value"] if "value" in given else self._tensor(given, message)
                for given in self._arguments
            }
        self._forget()
        before = self._memoised()
        self._wait()
        started = time.perf_counter_ns()
        getattr(self._module, self._entry)(**arguments)
        self._wait()
        took_ns = time.perf_counter_ns() - started
        for given in self._arguments:
            if given.get("role") in ("output", "inout"):
                self._shared(given).copy_(arguments[given["name"]].reshape(-1).view(torch.uint8))
        self._add_memoised(before)
        return {"took_ns": took_ns, "seen": self._seen}

    def _tensor(self, given: dict[str, Any], message: dict[str, Any]) -> Any:
        import torch

        kind = getattr(torch, given["dtype"])
        fresh = self._shared(given).to(self._device, copy=True).view(kind).reshape(given["shape"])
        name = given["name"]
        if name not in message["weights"]:
            return fresh
        if name not in self._weights:
            self._weights[name] = fresh
        elif message["changed"]:
            self._weights[name].copy_(fresh)
        return self._weights[name]

    def _shared(self, given: dict[str, Any]) -> Any:
        """An array's bytes in the memory that is exchanged."""
        import torch

        assert self._memory is not None  # it is mapped before anything is run
        return torch.frombuffer(
            self._memory, dtype=torch.uint8, count=given["bytes"], offset=given["offset"]
        )

    def _wait(self) -> None:
        if self._device != "cpu":
            import torch

            torch.cuda.synchronize()

    def _mark(self, number: int, kind: str) -> None:
        self._seen[number][kind] += 1

    def _forget(self) -> None:
        self._seen = [{"looked_up": 0, "stored": 0} for _ in self._sites]

    def _memoised(self) -> dict[int, tuple[int, int]]:
        """Hits and misses of functions that keep their results by themselves."""
        found = {}
        files = {str(getattr(m, "__file__", "")): m for m in list(sys.modules.values())}
        for number, site in enumerate(self._sites):
            function = getattr(files.get(site["path"]), site["name"], None)
            told = getattr(function, "cache_info", None)
            if callable(told):
                info = told()
                found[number] = (info.hits, info.misses)
        return found

    def _add_memoised(self, before: dict[int, tuple[int, int]]) -> None:
        for number, (hits, misses) in self._memoised().items():
            hit, missed = hits - before[number][0], misses - before[number][1]
            self._seen[number] = {"looked_up": hit + missed, "stored": missed}


def serve(channel: socket.socket) -> None:
    """Answer messages until the parent hangs up or says `exit`."""
    begin(channel)
    steps = Steps()
    operations = {"load": steps.load, "map": steps.map, "run": steps.run}
    while True:
        message, fds = receive(channel)
        if message["op"] == "exit":
            return
        try:
            answer = operations[message["op"]](message, fds)
        except Exception as error:  # noqa: BLE001  a module may raise anything; it is the candidate's failure
            answer = {"error": f"{type(error).__name__}: {error}"}
        gc.collect()  # what a step is done with is gone in the next
        send(channel, answer)


def main() -> None:
    """Entry of the process: the channel's descriptor is the first argument."""
    answer_parent(serve)


if __name__ == "__main__":
    main()
