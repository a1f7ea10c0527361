"""A worker process, seen from the parent: started, asked, paused, timed out, buried."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import IO, Any

from roofsmith.domain.kernel import Built
from roofsmith.domain.outcome import Cheated, Crashed, Failure
from roofsmith.errors import MachineError
from roofsmith.job_limits import memory_share
from roofsmith.judge import post_mortem
from roofsmith.judge.booting import Process, boot, require_image, worker_environment
from roofsmith.judge.channel import Channel, SurplusError
from roofsmith.judge.crash_log import with_last_words
from roofsmith.judge.host.arena import Arena
from roofsmith.judge.post_mortem import ended, hung_up, late, out_of_memory
from roofsmith.judge.sandbox.build_nonce import require_loaded
from roofsmith.judge.sandbox.cgroup import CGROUP
from roofsmith.judge.sandbox.enclosure import Enclosure, is_stopped
from roofsmith.judge.sandbox.inside import FILTER, TASKS
from roofsmith.judge.sandbox.isolation import (
    NO_ISOLATION,
    TASKS_PER_WORKER,
    Isolation,
    isolate,
)
from roofsmith.judge.sandbox.pages import are_gone
from roofsmith.judge.sandbox.process_memory import REACH, Move, read_memory, write_memory
from roofsmith.judge.timing.processor_time import (
    Awake,
    Spent,
    await_stillness,
    own_waiting_s,
    spent,
    spent_at_stop,
    waited_s,
)
from roofsmith.judge.timing.segment import Calls, Ranges, Segment, times_ns
from roofsmith.judge.wire import GarbledError, WireError, WireTimeoutError
from roofsmith.ports import KernelDiedError
from roofsmith.scratch import scratch_directory
from roofsmith.task_limits import tightest_limit

START_DEADLINE_S = 20.0
"""For a worker to start and load a library; many times what a loaded machine needs."""
LAUNCHED_DEADLINE_S = 120.0
"""The same under a launcher such as valgrind, which slows Python down fiftyfold."""
MAX_FILE_BYTES = 16 * 1024**2
"""Largest file a worker may write, its log included."""
MEMORY_SHARE = 0.8
"""Of the machine's memory that a worker may address beside its arenas."""
HUNG_UP_S = 5.0
"""For a process to end that has hung up; behind walls three of them end, one after the other."""
KILLED_S = 30.0
"""For a process that was killed to be gone: it may have much memory to give back. Chosen."""
STOPPED_S = 1.0
"""For a process to stop, and again for the scheduler to have counted all that it ran. Chosen."""
STOPPING_S = 1e-5
"""Between looks at whether a process has stopped. Its main thread must run to stop the others, and
this one has to leave it a processor: yielding alone gave threads that spin in a pool 0.2 to 5 ms
more."""


class WorkerProcess:
    """One process that holds one candidate's library."""

    needs_sockets = False
    """Whether what the library is linked to talks over local sockets."""

    def __init__(
        self,
        built: Built,
        *,
        threads: int,
        launcher: Sequence[str] = (),
        isolation: Isolation | None = None,
        keeps_log: bool = True,
    ) -> None:
        """Start the process; `wait_until_loaded` before anything else.

        Args:
            built: what to load.
            threads: that it may use.
            launcher: command that the worker is started under; there are no walls around it then.
            isolation: the walls around it; None: all that the host grants.
            keeps_log: whether what it printed stays in a file, if it dies.

        Raises:
            KernelDiedError: the process died at once, or the library isn't what was built.
        """
        self._isolation = NO_ISOLATION if launcher else isolation or isolate("standard")
        self._built = built
        self._keeps_log = keeps_log
        self._next_arena = 0
        require_image(built)
        self._launched = bool(launcher)
        self._most_processors: int | None = None
        """That its threads may run on; None where there are no others."""
        self._private_at: list[int] = []
        """Where the worker's own copy of each arena lies, as it says."""
        self._processors = min(threads, len(os.sched_getaffinity(0)))
        self._woken: Spent | None = None
        self._stopped: Spent | None = None
        self._scratch = scratch_directory("worker")
        self.log = self._scratch / "output.txt"
        self._deadline_s = LAUNCHED_DEADLINE_S if launcher else START_DEADLINE_S
        ours, theirs = socket.socketpair()
        self._channel = Channel(ours)
        with theirs, self.log.open("wb") as output:
            self._process = self._spawn(theirs, output, threads, launcher)
        self.pid = self._process.pid
        self._walls = Enclosure(self._process.pid, self._isolation)
        try:
            self._begin_load(threads)
        except BaseException:
            self.close()
            raise

    @property
    def candidate_id(self) -> str:
        """Of the candidate whose library it holds."""
        return self._built.candidate_id

    def _spawn(
        self, theirs: socket.socket, output: IO[bytes], threads: int, launcher: Sequence[str]
    ) -> Process:
        """Start the process at the other end of the channel."""
        return boot(
            "roofsmith.judge.host.worker", theirs, output, cwd=self._scratch, launcher=launcher,
            environment=worker_environment(self._built, threads),
        )  # fmt: skip

    def _begin_load(self, threads: int) -> None:
        if not self._launched and threads < len(os.sched_getaffinity(0)):
            self._most_processors = threads
        memory = None if self._launched else memory_share(MEMORY_SHARE)
        self._say("start", self._plan(sorted(os.sched_getaffinity(0))[-threads:], memory))

    def wait_until_loaded(self) -> None:
        """Hear what came of the start; several processes start side by side.

        Raises:
            KernelDiedError: the library can't be loaded, or took the process with it.
            MachineError: the walls can't be put up.
        """
        self._hear_start()
        answer = self.ask("load", self._kernel(), fds=self._channel.seal())
        if "error" in answer:
            raise KernelDiedError(Crashed(reason="load_failed", detail=str(answer["error"])))
        require_loaded(self._built, self.pid)

    def _plan(self, processors: list[int] | None, memory_bytes: int | None) -> dict[str, Any]:
        """Limits on the process, before any candidate code is in it."""
        return {
            "processors": processors,
            "memory_bytes": memory_bytes,
            "file_bytes": MAX_FILE_BYTES,
            "launched": self._launched,
            "isolation": self._isolation.plan(
                self._scratch, library=self._built.library, writable=self._writable(),
                is_python=self._is_python, sockets=self.needs_sockets,
            ),
        }  # fmt: skip

    @property
    def _is_python(self) -> bool:
        """Whether a module is loaded, which compiles, rather than a library."""
        return False

    def _writable(self) -> tuple[Path, ...]:
        """Folders that are shared with the candidate's other workers."""
        return ()

    def _hear_start(self) -> None:
        """Wait until the process has confined itself."""
        answer = self._hear("start")
        if "error" in answer:
            raise MachineError(
                f"a worker can't be isolated as the host promised: {answer['error']}",
                hint="--isolation none, if you trust the kernels",
            )
        self.pid = self._walls.find_worker()

    def _kernel(self) -> dict[str, Any]:
        """What to load."""
        kinds = [
            "pointer" if p.role != "size" else p.dtype for p in self._built.signature.parameters
        ]
        entry = self._built.signature.entry
        return {"library": str(self._built.library), "entry": entry, "kinds": kinds}

    def ask(
        self,
        op: str,
        message: dict[str, Any],
        deadline_s: float | None = None,
        fds: tuple[int, ...] = (),
    ) -> dict[str, Any]:
        """One message and its answer.

        Raises:
            KernelDiedError: no answer came: the worker died, or ran past its deadline.
        """
        self._say(op, message, fds)
        return self._hear(op, deadline_s)

    def _say(self, op: str, message: dict[str, Any], fds: tuple[int, ...] = ()) -> None:
        """Send a message without waiting for its answer."""
        try:
            self._channel.say({"op": op, **message}, fds)
        except SurplusError as error:
            raise self._died(post_mortem.unasked(op)) from error
        except WireError as error:
            raise self._died(self._post_mortem(op)) from error

    def _hear(self, op: str, deadline_s: float | None = None) -> dict[str, Any]:
        """Wait for the answer to the oldest message that has none yet."""
        limit_s = deadline_s or self._deadline_s
        try:
            return self._channel.hear(limit_s)
        except WireTimeoutError as error:
            raise self._died(late(op, limit_s)) from error
        except GarbledError as error:
            raise self._died(post_mortem.garbled(op, str(error))) from error
        except WireError as error:
            raise self._died(self._post_mortem(op)) from error

    def map(self, arena: Arena) -> int:
        """Share an arena, or have room made for one; the number that later calls name it by.

        Raises:
            KernelDiedError: the worker has no memory for it, or died.
        """
        number = self._next_arena
        self._next_arena += 1
        fds = (arena.fd,) if arena.is_shared else ()
        answer = self.ask("map", {"arena": number, "size": arena.size_bytes}, fds=fds)
        if "error" in answer:
            raise self._died(Crashed(reason="out_of_memory", detail=str(answer["error"])))
        at = answer.get("private_at")
        self._private_at.append(at if isinstance(at, int) else 0)
        return number

    def stage(self, number: int, arena: Arena, slots: Sequence[int]) -> None:
        self.ask("stage", {"arena": number, "ranges": arena.ranges(slots)})

    def settle(self, size_bytes: int) -> None:
        """Have the caches write back what was staged, by reading this much other memory."""
        self.ask("settle", {"bytes": size_bytes})

    def collect(self, number: int, arena: Arena, slots: Sequence[int]) -> None:
        """Get back what the kernel made of them."""
        self.ask("collect", {"arena": number, "ranges": arena.ranges(slots)})

    @property
    def is_reachable(self) -> bool:
        """Whether the parent can read and write its memory while it is stopped."""
        return REACH in self._isolation.layers

    def since(self, stop: Spent) -> Awake:
        """What it had since an earlier stop, now that it is stopped again."""
        may_start = FILTER not in self._isolation.layers
        return stop.until(spent_at_stop(self.pid), self._processors, is_alone=not may_start)

    def put(self, number: int, arena: Arena, slots: Sequence[int]) -> None:
        """As `stage`, but while the process is stopped: it sees nothing before it is woken.

        Raises:
            KernelDiedError: the memory isn't there any more.
        """
        self._move(write_memory, number, arena, slots)

    def take(self, number: int, arena: Arena, slots: Sequence[int]) -> None:
        """As `collect`, but while the process is stopped: what isn't done by then is missing."""
        self._move(read_memory, number, arena, slots)

    def lacks_pages(self, number: int, arena: Arena, slots: Sequence[int]) -> bool:
        """Whether pages that these slots were written to aren't its own any more."""
        there = self._private_at[number]
        ranges = [(there + offset, size) for offset, size in arena.ranges(slots)]
        return are_gone(self.pid, ranges, is_alone=FILTER in self._isolation.layers)

    def _move(self, move: Move, number: int, arena: Arena, slots: Sequence[int]) -> None:
        there = self._private_at[number]
        try:
            for offset, size in arena.ranges(slots):
                move(self.pid, there + offset, arena.address + offset, size)
        except OSError as error:
            detail = f"the memory of its arrays can't be reached any more: {error}"
            raise self._died(Crashed(reason="memory_gone", detail=detail)) from error

    def run_at_once(self, number: int, calls: Calls, deadline_s: float) -> Segment:
        """As `run`, from a stop to the next: what is left to threads counts as well."""
        self._require_stillness()
        try:
            segment = self.run(number, calls, deadline_s, from_stop=True)
            done = spent(self.pid)
            self._stop()
            return replace(segment, wall_s=segment.wall_s + done.worked_s())
        finally:
            self.pause()

    def run(
        self,
        number: int,
        calls: Calls,
        deadline_s: float,
        at_once: Ranges = (),
        *,
        from_stop: bool = False,
    ) -> Segment:
        """Call `solve` once per list of arguments; collect ranges when the last one has returned.

        Raises:
            KernelDiedError: it crashed, ran past the deadline, or answered nonsense.
        """
        waited, late = waited_s(self.pid), own_waiting_s()
        begin = time.perf_counter()
        made = [list(c) for c in calls]
        message = {"arena": number, "calls": made, "at_once": list(at_once)}
        self._say("run", {**message, "watched": self._launched})
        if from_stop:
            self.wake()
        answer = self._hear("run", deadline_s)
        wall_s = time.perf_counter() - begin
        waited = max(waited_s(self.pid) - waited, 0.0)
        late = own_waiting_s() - late
        times = times_ns(answer.get("times_ns"), len(calls))
        if times is None:
            again = self._channel.answers_again()
            raise self._died(post_mortem.misshapen(answer, len(calls), is_doubled=again))
        times_s = tuple(max(t, 1) * 1e-9 for t in times)
        return Segment(times_s, wall_s, waited, len(calls), fmean(times_s), late_s=late)

    @contextlib.contextmanager
    def awake(self) -> Iterator[None]:
        """Let the process run for a while; it is stopped, with all its threads, before and after.

        Threads that spin, wait or were left behind must not take time from the other side.
        """
        self._require_stillness()
        self.wake()
        try:
            yield
        finally:
            self.pause()

    @property
    def is_tampered(self) -> bool:
        """Whether its library has run Python code: see `judge.sandbox.tamper_check`."""
        return self._channel.is_tampered

    def wake(self) -> None:
        """Let the process run until it is paused."""
        self._woken = spent(self.pid)
        self._signal(signal.SIGCONT)

    def pause(self) -> None:
        """Stop the process and all its threads, and wait until they have.

        Raises:
            KernelDiedError: it left a process of its own behind, filled its log, or used processors
                that aren't its own.
        """
        self._stop()
        if detached := self._walls.detached():
            detail = f"it left {len(detached)} running that no longer belong to it: {detached[0]}"
            raise self._died(Cheated(reason="leftover_process", detail=detail))
        if self.log.stat().st_size >= MAX_FILE_BYTES:
            detail = f"it printed {MAX_FILE_BYTES // 1024**2} MiB or more, and was stopped there"
            raise self._died(Crashed(reason="too_much_output", detail=detail))
        if self._woken is not None and self._most_processors is not None:
            self._require(self._woken.beyond_processors(self._most_processors))
        self._stopped = None if self._launched else spent(self.pid)

    def _stop(self) -> None:
        self._signal(signal.SIGSTOP)
        until = time.monotonic() + STOPPED_S
        while self._process.poll() is None and time.monotonic() < until:
            if is_stopped(self.pid):
                await_stillness(self.pid, time.monotonic() + STOPPED_S)
                break
            time.sleep(STOPPING_S)

    def _require_stillness(self) -> None:
        """See that it did stand still since it was stopped."""
        if self._stopped is not None:
            self._require(self._stopped.stirred())

    def end(self) -> None:
        """Begin to end the process: several can die at the same time before `close` waits."""
        if not self._launched:
            self._walls.kill()

    def close(self) -> None:
        """End the process; politely where a profiler around it wants to write its output."""
        if self._launched and self._process.poll() is None:
            with contextlib.suppress(WireError):
                self._signal(signal.SIGCONT)
                self._channel.say({"op": "exit"})
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(self._deadline_s)
        self._kill()
        self._walls.close()
        self._channel.close()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _require(self, failure: Failure | None) -> None:
        if failure is not None:
            raise self._died(failure)

    def _died(self, outcome: Failure) -> KernelDiedError:
        """Bury the process and keep what it printed."""
        self._kill()
        told = with_last_words(outcome, self.log, keeps=self._keeps_log)
        own = TASKS_PER_WORKER if {TASKS, CGROUP} & {*self._isolation.layers} else None
        limit = tightest_limit(raised=own is not None)
        return KernelDiedError(post_mortem.for_lack_of_threads(told, own, limit))

    def _post_mortem(self, op: str) -> Crashed:
        try:
            code = self._process.wait(HUNG_UP_S)
        except subprocess.TimeoutExpired:
            return hung_up(op)
        if code < 0 and self._walls.ran_out_of_memory():
            return out_of_memory(op)
        return ended(op, code)

    def _kill(self) -> None:
        self._walls.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(KILLED_S)
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)
