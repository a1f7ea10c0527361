"""A GPU worker's process, seen from the parent."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from roofsmith.domain.kernel import MODULE_LANGUAGES, Built
from roofsmith.domain.outcome import BuildFailed, Crashed
from roofsmith.judge.booting import Process, boot, worker_environment
from roofsmith.judge.extensions import BUILD_S, home_of, too_much
from roofsmith.judge.extensions import VARIABLE as EXTENSIONS
from roofsmith.judge.gpu.driver import Api
from roofsmith.judge.gpu.forking import ForkServer
from roofsmith.judge.gpu.launch_gate import PLUG_PATIENCE_S, Queued, mapped, new_latch
from roofsmith.judge.gpu.reasons import device_failure
from roofsmith.judge.gpu.slots import Slots
from roofsmith.judge.host.arena import Arena
from roofsmith.judge.host.process import WorkerProcess
from roofsmith.judge.sandbox.build_nonce import require_loaded
from roofsmith.judge.sandbox.isolation import Isolation
from roofsmith.ports import KernelDiedError

PASSED_ON = (
    "PATH", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH", "ROCM_PATH", "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "PYTHONPATH", "CC", "CXX",
    "TORCH_CUDA_ARCH_LIST",
)  # fmt: skip
"""Of the user's environment: what finds the driver, the libraries and the device."""


FIRST_CALL_S = 120.0
"""A module compiles in the first call of every process, for every shape anew: Triton's autotuner
measures each of its configurations for a tenth of a second, and torch.compile imports its own
compiler."""
LOAD_DEADLINE_S = 120.0
"""For a module to be imported that builds no extension meanwhile."""
MODULE_FILE_BYTES = 256 * 1024**2
"""Largest file that a module may write: objects and libraries of what it compiles."""

STUCK_S = 2 * PLUG_PATIENCE_S
"""A worker that can let its own calls go has done so by then."""

ONE_QUEUE = {"CUDA_DEVICE_MAX_CONNECTIONS": "1"}
"""One hardware queue for launches instead of eight, with which a process opens the device in half
the time, and eight at once in a quarter: benchmarks/results/device_opening.json. Streams would
share it and wait for one another, so it is for kernels that have none of their own."""


@dataclass(frozen=True, slots=True)
class GpuSegment:
    """What one `run` came to."""

    elapsed_s: float
    """All timed calls together, by events: a claim."""
    wall_s: float
    """From the message that let the calls go to the answer; where the judge's own clock counts,
    from when inputs were there to when outputs had been looked at, and what was late of them."""
    calls: int = 1
    """That `wall_s` saw: where calls were held back, the discarded ones, too."""
    refused: object = None
    """Name of the last error that the runtime returned to the candidate, if any: a claim."""


@dataclass(frozen=True, slots=True)
class Taken:
    """That the whole device is taken for a while in the middle of a segment."""

    seconds: float
    before: int
    """The call, by its place in the segment, that finds it taken."""


class GpuWorkerProcess(WorkerProcess):
    """One process that holds one candidate's library or module, and a device."""

    needs_sockets = True
    """Device memory is shared over a socket of the driver's, cuda-uvmfd-*."""

    def __init__(
        self,
        built: Built,
        *,
        api: Api,
        cache_dir: Path,
        fork_server: ForkServer | None,
        launcher: Sequence[str] = (),
        isolation: Isolation | None = None,
        one_queue: bool = False,
        keeps_log: bool = True,
    ) -> None:
        """Start the process; `wait_until_loaded` before anything else.

        Args:
            built: a library, or a module's file.
            api: of the device's driver.
            cache_dir: holds a compilation cache per candidate.
            fork_server: starts workers for modules; None: a module's worker imports torch itself.
            launcher: command that the worker is started under; no walls are around it then.
            isolation: the walls around it; None: all that the host grants.
            one_queue: see `ONE_QUEUE`.
            keeps_log: whether what it printed stays in a file, if it dies.

        Raises:
            KernelDiedError: the fork server died.
        """
        self._api: Api = api
        self._queues = ONE_QUEUE if one_queue and api == "cuda" else {}
        self._cache_dir = cache_dir / built.candidate_id
        self._fork_server = fork_server
        self._latch, self._turn = -1, 0
        self.is_latched = False
        """Whether others can let its calls go, and see their end."""
        super().__init__(
            built, threads=1, launcher=launcher, isolation=isolation, keeps_log=keeps_log
        )

    def _spawn(
        self, theirs: socket.socket, output: IO[bytes], threads: int, launcher: Sequence[str]
    ) -> Process:
        environment = {**worker_environment(self._built, threads), **self._device_environment()}
        is_module = self._is_python
        if is_module and self._fork_server is not None and not launcher:
            return self._fork_server.spawn(
                theirs, cwd=self._scratch, log=self.log, environment=environment
            )
        return boot(
            "roofsmith.judge.gpu.worker", theirs, output, cwd=self._scratch,
            environment=environment, launcher=launcher, bare=not is_module,
        )  # fmt: skip

    def _begin_load(self, threads: int) -> None:  # noqa: ARG002
        # A CUDA context maps far more addresses than there is memory, so no limit on them.
        self._say("start", self._plan(None, None))
        self._latch = new_latch()
        form = "module" if self._is_python else "library"
        self._say("load", {**self._kernel(), "api": self._api, "form": form}, (self._latch,))

    def _plan(self, processors: list[int] | None, memory_bytes: int | None) -> dict[str, Any]:
        plan = super()._plan(processors, memory_bytes)
        return {**plan, "file_bytes": MODULE_FILE_BYTES} if self._is_python else plan

    def wait_until_loaded(self) -> None:
        """Hear what came of the start: opening a device takes a while, for several side by side.

        Raises:
            KernelDiedError: the candidate can't be loaded, or took the process with it.
        """
        self._hear_start()
        if self._built.names_extensions:
            answer = self._hear_building("load")
        else:
            answer = self._hear("load", LOAD_DEADLINE_S if self._is_python else None)
        if "error" in answer:
            raise self._died(_failure(answer, "load_failed", str(answer["error"])))
        self.is_latched = answer.get("shared") is True
        require_loaded(self._built, self.pid)

    def _hear_building(self, op: str) -> dict[str, Any]:
        """The answer of a module that may build an extension first, or wait for who builds it.

        Raises:
            KernelDiedError: there was none in time, or it died.
        """
        begin = time.monotonic()
        try:
            return self._hear(op, BUILD_S)
        except KernelDiedError as error:
            if time.monotonic() - begin < BUILD_S:
                raise
            slow = BuildFailed(reason="compiler_timeout", detail=too_much(), log=error.outcome.log)
            raise KernelDiedError(slow) from error

    def close(self) -> None:
        super().close()
        if self._latch >= 0:
            os.close(self._latch)
            self._latch = -1

    @property
    def _is_python(self) -> bool:
        return self._built.language in MODULE_LANGUAGES

    def _writable(self) -> tuple[Path, ...]:
        return (self._cache_dir,) if self._is_python else ()

    def _device_environment(self) -> dict[str, str]:
        own = {
            "HOME": str(self._scratch),
            "OMP_NUM_THREADS": "4",
            "OMP_PROC_BIND": "false",
        }
        if self._is_python:
            own |= module_caches(self._cache_dir)
            own["TRITON_CACHE_AUTOTUNING"] = "1"  # or every process measures all of them again
        else:  # torch has thousands of kernels, a library a few: all of them are on the device
            own["CUDA_MODULE_LOADING"] = "EAGER"
        return {**server_environment(), **own, **self._queues, **self._built.environment}

    @property
    def names_tuning(self) -> bool:
        """As its candidate does; see there."""
        return self._built.names_tuning

    def attach(self, slots: Slots) -> None:
        """Map the judge's device memory, and make its slots callable.

        Raises:
            KernelDiedError: it can't be mapped, or the worker died.
        """
        layout = {"slot_bytes": slots.memory.slot_bytes, "arguments": slots.arguments}
        self._tell(
            "attach",
            {
                "arena": slots.number, "handle": slots.handle, "slots": slots.count,
                "layout": layout,
            },
        )  # fmt: skip

    def own(self, arena: Arena, arguments: Sequence[dict[str, Any]]) -> int:
        """Have the worker copy a host's arena of one slot to the device; the number that names it.

        Raises:
            KernelDiedError: there is no memory for it, or the worker died.
        """
        number = self._next_arena
        self._next_arena += 1
        layout = {"slot_bytes": arena.layout.slot_bytes, "arguments": list(arguments)}
        message = {"arena": number, "size": arena.size_bytes, "layout": layout}
        self._tell("own", message, fds=(arena.fd,))
        return number

    def renew(self, number: int) -> None:
        """Copy the host's arena over an own arena on the device once more.

        Raises:
            KernelDiedError: the worker died.
        """
        self._tell("renew", {"arena": number})

    def take_back(self, number: int) -> None:
        """Copy an own arena from the device to the host's arena.

        Raises:
            KernelDiedError: the worker died.
        """
        self._tell("collect", {"arena": number})

    def begin_first_call(self, arena: int, slot: int) -> None:
        """Start a call that compiles or loads what it needs; `end_first_call` hears of it."""
        first = {"arena": arena, "slots": [], "warm": [slot], "profile": False, "defer": True}
        self._say("run", first)

    def end_first_call(self, deadline_s: float) -> None:
        """Wait for the call that was begun; a module, which compiles in it, has `FIRST_CALL_S`.

        Raises:
            KernelDiedError: it crashed or ran past the deadline.
        """
        if self._built.names_extensions:
            self._checked("run", self._hear_building("run"))
            return
        limit_s = max(deadline_s, FIRST_CALL_S) if self._is_python else deadline_s
        self._checked("run", self._hear("run", limit_s))

    def run_slots(
        self,
        arena: int,
        slots: Sequence[int],
        *,
        warm: Sequence[int],
        deadline_s: float,
        profile: bool = False,
        defer: bool = True,
        taken: Taken | None = None,
    ) -> GpuSegment:
        """Discarded calls, then timed ones, as fast as the host launches them.

        Args:
            arena: its number.
            slots: of the timed calls, in order; may repeat.
            warm: of the discarded ones.
            deadline_s: for all of it.
            profile: mark it for a profiler around the worker.
            defer: put off a library's own waits for the whole device to the end.
            taken: take the device first, where there is a way to.

        Raises:
            KernelDiedError: it crashed, ran past the deadline, or answered nonsense.
        """
        message = {
            "arena": arena, "slots": list(slots), "warm": list(warm), "profile": profile,
            "defer": defer,
        }  # fmt: skip
        if taken is not None and self._api == "cuda":
            nanoseconds = round(taken.seconds * 1e9)
            message["taken"] = {"before": taken.before, "nanoseconds": nanoseconds}
        return self._timed("run", message, deadline_s)

    def queue_slots(
        self, arena: int, slots: Sequence[int], *, warm: Sequence[int], deadline_s: float
    ) -> bool:
        """Queue the same calls behind a plug; `run_queued` lets them go, or whoever has the latch.

        An extension may wait for the device without letting Python's lock go, so that nothing in
        its process can end its wait: then it is ended from here, where others can do that.

        Returns:
            Whether the device waits for it: False if a call waits for the device itself.

        Raises:
            KernelDiedError: it crashed or ran past the deadline.
        """
        self._turn += 1
        message = {"arena": arena, "slots": list(slots), "warm": list(warm), "turn": self._turn}
        self._say("queue", message)
        is_stuck = self.is_latched and not self._channel.answers_within(STUCK_S)
        if is_stuck:
            mapped(self._latch).release(self._turn)
        answer = self._checked("queue", self._hear("queue", deadline_s))
        return answer.get("early") is False and not is_stuck

    @property
    def queued(self) -> Queued:
        """What lets the calls that were queued last go, if it `is_latched`."""
        return Queued(self._latch, self._turn)

    def run_queued(self, deadline_s: float) -> GpuSegment:
        """Let the queued calls go, if nobody did, and wait for them.

        Raises:
            KernelDiedError: one crashed, ran past the deadline, or the answer is nonsense.
        """
        return self._timed("finish", {}, deadline_s)

    def _timed(self, op: str, message: dict[str, Any], deadline_s: float) -> GpuSegment:
        begin = time.perf_counter()
        answer = self._tell(op, message, deadline_s)
        wall_s = time.perf_counter() - begin
        elapsed = _time(answer.get("elapsed_ns"))
        if elapsed is None:
            detail = f"the worker answered {str(answer)[:200]} instead of a time"
            raise self._died(Crashed(reason="garbled_answer", detail=detail))
        return GpuSegment(
            elapsed_s=max(elapsed, 1) * 1e-9, wall_s=wall_s, refused=answer.get("refused")
        )

    def _tell(
        self, op: str, message: dict[str, Any], deadline_s: float | None = None,
        fds: tuple[int, ...] = (),
    ) -> dict[str, Any]:  # fmt: skip
        return self._checked(op, self.ask(op, message, deadline_s, fds))

    def _checked(self, op: str, answer: dict[str, Any]) -> dict[str, Any]:
        if "error" in answer:
            raise self._died(_failure(answer, "raised", f"{op}: {answer['error']}"))
        return answer


def module_caches(folder: Path) -> dict[str, str]:
    """Variables that say where a module compiles to, once for all of its processes."""
    folder.mkdir(parents=True, exist_ok=True)
    return {
        "TRITON_CACHE_DIR": str(folder / "triton"),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        EXTENSIONS: str(home_of(folder)),
    }


def server_environment() -> dict[str, str]:
    """What a process that imports torch needs of the user's environment.

    Folders of modules are told as seen from here: the process starts in another one.

    And no processes that compile for torch.compile: behind the walls none comes up (semaphores lie
    in /dev/shm), but they would import torch, for seconds, beside the calls that are timed.
    """
    passed = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    if modules := passed.get("PYTHONPATH"):
        passed["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, modules.split(os.pathsep)))
    return {"LC_ALL": "C.UTF-8", "TORCHINDUCTOR_COMPILE_THREADS": "1", **passed}


def _failure(answer: dict[str, Any], otherwise: str, detail: str) -> Crashed:
    """What a worker's answer with an error in it means."""
    device = answer.get("device")
    if isinstance(device, str):
        return device_failure(device, detail, answer.get("refused"))
    return Crashed(reason=otherwise, detail=detail)


def _time(value: object) -> int | None:
    """What a worker says a time is, in ns, if it has the form that was asked for."""
    return value if type(value) is int and 0 <= value < 10**15 else None
