"""The reference from the parent's side: deadlines, descriptions, draws, expectations."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import psutil
from numpy.typing import NDArray

from roofsmith.domain.arrays import ArraySpec
from roofsmith.domain.bound import OperationCount
from roofsmith.domain.description import WorkloadDescription
from roofsmith.domain.kernel import Signature, SourceFile, names_extensions
from roofsmith.domain.target import Target
from roofsmith.domain.values import content_id
from roofsmith.domain.workload import Workload
from roofsmith.errors import BadReferenceError, RoofsmithError, TargetError
from roofsmith.job_limits import memory_limit, memory_share
from roofsmith.judge.correctness.distributions import FIRST, OWN
from roofsmith.judge.correctness.hidden_workloads import reductions
from roofsmith.judge.correctness.own_draws import DrawFigures
from roofsmith.judge.correctness.tolerated import Tolerated
from roofsmith.judge.extensions import BUILD_S, home_of, too_much
from roofsmith.judge.host.arena import Arena
from roofsmith.judge.host.array_messages import as_json, from_json
from roofsmith.judge.host.booted import BootedProcess
from roofsmith.judge.host.draws import Draws
from roofsmith.judge.host.free_memory import COPIES
from roofsmith.judge.host.made_ahead import MadeAhead
from roofsmith.judge.host.shelf import Shelf
from roofsmith.judge.sandbox.enclosure import is_stopped
from roofsmith.judge.wire import WireError, WireTimeoutError, receive, send
from roofsmith.scratch import scratch_directory

DEADLINE_S = 120.0
"""For one answer of the reference; float64 on the largest workloads takes a few seconds."""

HUNG_UP_S = 5.0
"""For a process to end that has hung up."""

MEMORY_SHARE = 0.7
"""Of the machine's memory that the reference may address."""

STOPPED_S, STOPPING_S = 1.0, 1e-5
"""For processes to stop, and between looks at whether they have. Chosen."""

HELD_SHARE = 1 / 4
"""Of the memory that was free: for draws that are made ahead, and places that are kept. Chosen."""


class ReferenceProcess:
    """A process that holds the reference: started when it is first asked, under deadlines."""

    module: str
    """What the process runs."""

    def __init__(
        self,
        target: Target,
        signature: Signature,
        booted: BootedProcess | None = None,
        compiled_dir: Path | None = None,
    ) -> None:
        """Nothing starts yet.

        Args:
            target: has the reference.
            signature: of the kernel's entry.
            booted: runs this class's module already; its first process.
            compiled_dir: holds what sources compile when they run, a folder each; None: it is gone
                with the process.
        """
        self._compiled_dir = compiled_dir
        self.target = target
        self.signature = signature
        self._spare = booted
        self._booted: BootedProcess | None = None
        self._is_loaded = False
        self._scratch: Path | None = None
        self._tolerated: Tolerated | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._booted is not None:
            self._booted.close()
            self._booted = None
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)
            self._scratch = None

    def described(self, workload: Workload) -> WorkloadDescription:
        """Ask for shapes, types and declared cost of a workload.

        Raises:
            BadReferenceError: the reference raises, hangs, or doesn't fit the kernel's signature.
        """
        answer = self.ask("describe", {"dims": workload.dims})
        return WorkloadDescription(
            arrays=tuple(from_json(answer["arrays"])),
            scalars=answer["scalars"],
            flops=answer["flops"],
            bytes=answer["bytes"],
            atol=answer["atol"],
            rtol=answer["rtol"],
            is_fixed=answer.get("fixed", False),
            other_order={name: tuple(by) for name, by in answer.get("other_order", {}).items()},
            arguments=tuple(answer.get("arguments", ())),
            counted=OperationCount.model_validate(answer["counted"]) if answer["counted"] else None,
            written_bytes=answer["written_bytes"],
        )

    def tolerated(self) -> Tolerated:
        """The distributions that the operator tolerates, found on a small workload.

        Deterministic per target. Without a small workload that the reference takes, none are.
        """
        if self._tolerated is None:
            self._tolerated = Tolerated()
            for dims in reductions(self.target.workloads):
                with contextlib.suppress(BadReferenceError, TargetError):
                    self._tolerated = Tolerated.model_validate(self.ask("explore", {"dims": dims}))
                    break
        return self._tolerated

    def figures(
        self, workload: Workload, seed: int, tolerances: tuple[float, float] | None = None
    ) -> DrawFigures:
        """What the numbers of one of its own draws are like; see `own_draws.figures`.

        Raises:
            BadReferenceError: the reference raises or hangs.
        """
        message = {"dims": workload.dims, "seed": seed, "tolerances": tolerances}
        return DrawFigures.model_validate(self.ask("figures", message))

    def rest(self) -> None:
        """Nothing more is made ahead: something else is about to be measured."""

    @property
    def is_alive(self) -> bool:
        """Whether the process was started and hasn't been ended since."""
        return self._booted is not None

    @contextlib.contextmanager
    def asleep(self) -> Iterator[None]:
        """Stop the reference's process and its library threads while kernels are timed."""
        self._signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._signal(signal.SIGCONT)

    def ask(
        self, op: str, message: dict[str, Any], fds: tuple[int, ...] = (), hand: int = 0
    ) -> dict[str, Any]:
        """One message and its answer.

        Raises:
            BadReferenceError: the reference raised, hung, or took its process with it.
            TargetError: the workload doesn't fit in memory.
            DeviceFailedError: on a GPU, that is at fault.
        """
        self._be_loaded()
        channel = self._channel(hand)
        limit_s = BUILD_S if self._builds else DEADLINE_S
        try:
            send(channel, {"op": op, **message}, fds)
            answer, _ = receive(channel, limit_s)
        except WireTimeoutError as error:
            self.close()
            silent = BadReferenceError(
                f"{self._name}: no answer to {op} within {limit_s:.0f} s",
                hint=too_much() if self._builds else "make the reference or the workload smaller",
            )
            raise self._lost(op, message, silent) from error
        except WireError as error:
            how = self._ending()
            self.close()
            ended = BadReferenceError(
                f"{self._name}: its process ended during {op} ({how})", hint=self._by_hand
            )
            raise self._lost(op, message, ended) from error
        if "error" in answer:
            raise self._complaint(op, message, answer)
        self._heard(op, message)
        return answer

    @property
    def _builds(self) -> bool:
        """Whether its process may build an extension."""
        files = (self.target.truth, *self.target.reference_files, self.target.kernel)
        return any(names_extensions(file.text) for file in files)

    @property
    def _extensions(self) -> dict[str, str]:
        """Folders of what the reference builds, and of what the baseline does: its own workers
        find that, since their code is the one that is loaded here, too."""
        root = self._compiled_dir or self._scratch
        assert root is not None  # made when the process was started
        texts = [file.text for file in (self.target.truth, *self.target.reference_files)]
        reference = content_id("\0".join(texts))[:16]
        return {
            "extensions": str(home_of(root / reference)),
            "kernel_extensions": str(home_of(root / self.target.baseline.id)),
        }

    def _channel(self, hand: int) -> socket.socket:
        """To a process that was started."""
        del hand
        assert self._booted is not None
        return self._booted.channel

    def _lost(self, op: str, message: dict[str, Any], error: BadReferenceError) -> RoofsmithError:
        """What a process that doesn't answer any more comes to."""
        del op, message
        return error

    def _heard(self, op: str, message: dict[str, Any]) -> None:
        """Every message that was answered."""

    def _ending(self) -> str:
        """Of a process that hung up."""
        assert self._booted is not None  # it had a channel
        try:
            return f"exit code {self._booted.process.wait(HUNG_UP_S)}"
        except subprocess.TimeoutExpired:
            return "it closed its channel, and had to be killed"

    @property
    def _name(self) -> str:
        return self.target.truth.path

    @property
    def _by_hand(self) -> str:
        """What to try where the process ended without a word."""
        return f"call it by hand: python -c 'import {Path(self._name).stem}'"

    def start(self) -> None:
        """Start the process, unless it runs: it imports its libraries while the caller goes on."""
        if self._booted is not None:
            return
        self._booted, self._spare = self._spare or BootedProcess(self.module), None
        self._scratch = scratch_directory("reference")
        self._is_loaded = False

    def _be_loaded(self) -> None:
        """Start the process and have it import the reference, unless it did."""
        self.start()
        if not self._is_loaded:
            self._is_loaded = True
            for source in self.target.reference_files:
                self._written(source)
            self._load(self._written(self.target.truth))

    def _written(self, source: SourceFile, folder: str = "") -> Path:
        """A file of the target, where the reference's process can import it.

        A kernel has a folder of its own: by its name it can't stand in for what says the truth.
        """
        assert self._scratch is not None  # made when the process was started
        path = self._scratch / folder / Path(source.path).name
        path.parent.mkdir(exist_ok=True)
        path.write_text(source.text, encoding="utf-8")
        return path

    def _load(self, path: Path) -> None:
        """Have the process import the reference."""
        self.ask(
            "load",
            {
                "path": str(path),
                "signature": self.signature.model_dump(mode="json"),
                "ptr_size": self.target.ptr_size,
                "memory_bytes": memory_share(MEMORY_SHARE),
                **self._extensions,
            },
        )

    def _signal(self, number: signal.Signals) -> None:
        if self._booted is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._booted.process.pid, number)

    def _complaint(
        self, op: str, message: dict[str, Any], answer: dict[str, Any]
    ) -> RoofsmithError:
        dims = message.get("dims")
        where = f" for {','.join(f'{k}={v}' for k, v in dims.items())}" if dims else ""
        if answer.get("memory"):
            return TargetError(
                f"{self._name}{where}: not enough memory: {answer['error']}",
                hint=str(memory_limit() or "choose a smaller workload"),
            )
        log = None
        if "trace" in answer:
            handle, name = tempfile.mkstemp(prefix="roofsmith-reference-", suffix=".log")
            with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as out:
                out.write(answer["trace"])
            log = Path(name)
        doing = {"load": "", "describe": "setup: ", "draw": "setup: ", "expect": "reference: "}
        function = answer.get("function")
        at = f"{function}: " if function in ("setup", "reference") else doing.get(op, "")
        return BadReferenceError(
            f"{self._name}{where}: {at}{answer['error']}", log=log, hint=self._cure(answer)
        )

    def _cure(self, answer: dict[str, Any]) -> str:
        """What to do about an error: its own code's, a missing module, or that it doesn't fit."""
        raised = answer.get("raised")
        if raised in ("ModuleNotFoundError", "ImportError"):
            return f"install it for the Python that roofsmith runs in, {sys.executable}"
        is_call = raised == "TypeError" and answer.get("function") is None
        if not is_call and raised not in (None, "KeyError"):
            return f"{self._name} itself raises it; the log has the whole trace"
        names = ", ".join(parameter.name for parameter in self.signature.parameters)
        unset = f"; without a setup, reference is called with solve's names: {names}"
        return (
            "setup(**dims, seed) and reference(**inputs) must fit solve's arguments"
            f"{unset if names else ''}"
        )


class ReferenceOracle(ReferenceProcess):
    """Port `Oracle` for kernels on the CPU; also draws for the judge."""

    module = "roofsmith.judge.host.reference_process"

    def __init__(
        self, target: Target, signature: Signature, compiled_dir: Path | None = None
    ) -> None:
        super().__init__(target, signature, compiled_dir=compiled_dir)
        self._descriptions: dict[str, WorkloadDescription] = {}
        self._next_arena = 0
        self._twin: socket.socket | None = None
        """To the second process."""
        self._twin_pid = 0
        self._has_tried = False
        self._shelves: dict[str, Shelf] = {}
        """By workload, the longest unused first."""
        self._kept = {workload.label: {OWN, *FIRST} for workload in target.workloads}
        """Workloads whose places stay when nobody uses them, and which draws with them."""
        self._free_bytes = psutil.virtual_memory().available
        self._room_bytes = int(self._free_bytes * HELD_SHARE)
        self.is_resting = False
        """Whether what is to be made ahead waits: something else is measured."""
        self.made_ahead = MadeAhead()
        self.decided: set[str] = set()
        """Outputs whose jumps rounding explained before, or was seen to cause."""

    def describe(self, workload: Workload) -> WorkloadDescription:
        """Shapes, types and declared cost of a workload.

        Raises:
            BadReferenceError: the reference raises, hangs, or doesn't fit the kernel's signature.
            TargetError: the workload can't fit in this machine's memory.
        """
        if workload.label not in self._descriptions:
            description = self.described(workload)
            left_bytes = self._free_bytes - _require_memory(workload, description)
            self._room_bytes = max(min(self._room_bytes, left_bytes), 0)
            self._descriptions[workload.label] = description
        return self._descriptions[workload.label]

    def inputs(self, workload: Workload, seed: int) -> dict[str, NDArray[np.generic] | int | float]:
        """Fresh arguments for `solve` in its order, for whoever measures beside the judge: from now
        on nothing is made ahead, until somebody foresees draws. Outputs are zeros.

        Raises:
            BadReferenceError: the reference raises or hangs.
        """
        description = self.describe(workload)
        with self.draws(workload, 1) as draws:
            given = draws.draw(0, seed)
            arrays = {a.name: a for a in description.arrays}
            arguments: dict[str, NDArray[np.generic] | int | float] = {}
            scalars = iter(description.numbers.items())
            names = iter(arrays)
            for parameter in self.signature.parameters:
                if parameter.role == "size":
                    name, value = next(scalars)
                    arguments[name] = value
                else:
                    name = next(names)
                    spec = arrays[name]
                    arguments[name] = (
                        given[name].copy() if name in given else np.zeros(spec.shape, spec.dtype)
                    )
        self.rest()
        return arguments

    @contextlib.contextmanager
    def draws(self, workload: Workload, slots: int) -> Iterator[Draws]:
        """Slots of fresh inputs, as long as the block lasts."""
        made = Draws(self, workload, slots)
        try:
            yield made
        finally:
            made.close()

    def close(self) -> None:
        """End the processes; what they held is lost."""
        if self._twin is not None:
            self._twin.close()
        self._twin, self._has_tried, self.is_resting = None, False, False
        self.made_ahead.close()
        super().close()
        while self._shelves:
            self._shelves.popitem()[1].close()

    @contextlib.contextmanager
    def asleep(self) -> Iterator[None]:
        """The same; they may be at work, so they are waited for."""
        with super().asleep():
            pids = [self._booted.process.pid] if self._booted is not None else []
            pids += [self._twin_pid] if self._twin is not None else []
            until = time.monotonic() + STOPPED_S
            while not all(map(is_stopped, pids)) and time.monotonic() < until:
                time.sleep(STOPPING_S)
            yield

    @property
    def hands(self) -> int:
        """Processes that hold the reference: a second one is made of the first, if it may be.

        Whatever is asked of either, both are asleep while kernels are timed.
        """
        if not self._has_tried:
            self._has_tried = True
            ours, theirs = socket.socketpair()
            with theirs, contextlib.ExitStack() as unused:
                unused.callback(ours.close)
                if pid := self.ask("fork", {}, (theirs.fileno(),))["pid"]:
                    unused.pop_all()
                    self._twin, self._twin_pid = ours, pid
            for hand in range(self.hands):
                with self.made_ahead.listen() as reports:
                    self.ask("report", {}, (reports.fileno(),), hand)
        return 1 if self._twin is None else 2

    def tell(self, op: str, message: dict[str, Any], fds: tuple[int, ...], hand: int) -> None:
        """A message that has no answer: what goes wrong with it is the answer to the next.

        Nobody waits for it, so that a process may have other things to do first.

        Raises:
            BadReferenceError: the process has ended.
        """
        self._be_loaded()
        try:
            send(self._channel(hand), {"op": op, "told": True, **message}, fds)
        except WireError:
            self.ask(op, message, (), hand)  # which says how it ended

    def _channel(self, hand: int) -> socket.socket:
        return self._twin if hand and self._twin is not None else super()._channel(hand)

    def shelf(self, workload: Workload, arrays: Sequence[ArraySpec]) -> Shelf:
        """Places for a workload's draws, those that lie ready included, until `leave`."""
        shelf = self._shelves.pop(workload.label, None) or Shelf(self, arrays)
        self._shelves[workload.label] = shelf  # the last that was used is the last to go
        shelf.users += 1
        return shelf

    def leave(self, shelf: Shelf) -> None:
        """Somebody is done with it: its places stay as long as there is memory for them, those of
        workloads that will be asked for again alone, with what every examination needs."""
        shelf.users -= 1
        for label, other in list(self._shelves.items()):
            if other is shelf and not shelf.users:
                shelf.clear(but=self._kept.get(label, ()))
            if not other.users and label not in self._kept:
                self._shelves.pop(label).close()
            elif self._held_bytes > self._room_bytes:
                other.trim(self._held_bytes - self._room_bytes)

    def keep(self, workload: Workload, distributions: Iterable[str]) -> None:
        """It will be asked for again: draws that are made ahead for it stay."""
        self._kept.setdefault(workload.label, set()).update(distributions)

    def rest(self) -> None:
        """See `ReferenceProcess`; both processes do."""
        if self.is_alive:
            for hand in range(self.hands):
                self.ask("rest", {}, (), hand)
            self.is_resting = True

    def has_room_for(self, size_bytes: int) -> bool:
        """Whether more for draws that are made ahead fits in memory."""
        return self._held_bytes + size_bytes <= self._room_bytes

    @property
    def _held_bytes(self) -> int:
        return sum(shelf.size_bytes for shelf in self._shelves.values())

    def map(self, arena: Arena, hand: int) -> int:
        """Share an arena with one of the reference's processes; the number that names it."""
        number = self._next_arena
        self._next_arena += 1
        arrays = as_json(arena.layout.arrays)
        message = {"arena": number, "arrays": arrays, "slots": arena.slots}
        self.tell("map", message, (arena.fd,), hand)
        return number

    def unmap(self, number: int, hand: int) -> None:
        """Take an arena back; does nothing if the process is gone."""
        self.made_ahead.forget_arena(number)
        if self.is_alive:
            self.tell("unmap", {"arena": number}, (), hand)


def _require_memory(workload: Workload, description: WorkloadDescription) -> int:
    """What a judgement of it takes, in bytes."""
    needed = COPIES * sum(array.size_bytes for array in description.arrays)
    available = psutil.virtual_memory().available
    if needed > available:
        raise TargetError(
            f"workload {workload.label} needs about {needed / 1e9:.1f} GB to be judged"
            f" ({COPIES} copies of its arrays), and {available / 1e9:.1f} GB are free",
            hint="choose a smaller workload",
        )
    return needed
