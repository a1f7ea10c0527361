"""perf, attached to a running worker: counts and samples only while `solve` is called."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from roofsmith.profilers.perf_output import PerfReading, Sighting, parse_perf_csv, parse_sightings
from roofsmith.scratch import scratch_prefix, written

Result = TypeVar("Result")

ATTACH_DEADLINE_S = 5.0
"""perf attaches in 10 ms; a machine that takes this long can't be measured on anyway."""

SCRIPT_DEADLINE_S = 20.0
"""perf reads a few thousand samples in a second."""
SAMPLES_PER_S = 4000
CLOCK = "cpu-clock:u"

BASE = ("cycles:u", "instructions:u", "branches:u", "branch-misses:u", "task-clock")
CACHE = ("instructions:u", "cache-references:u", "cache-misses:u", "dTLB-load-misses:u")
LAST_LEVEL = ("LLC-loads:u", "LLC-load-misses:u")
FLOATING_POINT: tuple[tuple[str, ...], ...] = (
    (
        "fp_arith_inst_retired.scalar_single:u",
        "fp_arith_inst_retired.128b_packed_single:u",
        "fp_arith_inst_retired.256b_packed_single:u",
        "fp_arith_inst_retired.scalar_double:u",
        "fp_arith_inst_retired.128b_packed_double:u",
        "fp_arith_inst_retired.256b_packed_double:u",
    ),
    (
        "fp_ops_retired_by_width.scalar_uops_retired:u",
        "fp_ops_retired_by_width.pack_128_uops_retired:u",
        "fp_ops_retired_by_width.pack_256_uops_retired:u",
        "fp_ops_retired_by_width.pack_512_uops_retired:u",
    ),
    ("fp_ret_sse_avx_ops.all:u", "ex_ret_mmx_fp_instr.sse_instr:u"),
)
"""Intel, AMD Zen 4 and later, AMD Zen 1 to 3: the first that this machine knows is used. Groups
are small enough for the four to six counters a core has, so that nothing is multiplexed."""


class PerfError(Exception):
    """perf did not count; the message is its own, or says what it failed to do."""


def find_perf() -> str | None:
    """perf's path; None if it isn't installed."""
    return shutil.which("perf")


def count(
    perf: str, pid: int, events: Sequence[str], work: Callable[[], Result]
) -> tuple[Result, tuple[PerfReading, ...]]:
    """Count events of a process while `work` runs: of its present threads and those they start.

    Args:
        perf: the program.
        pid: process to attach to.
        events: in perf's words.
        work: makes the process do what is to be counted; its result is handed on.

    Raises:
        PerfError: perf refuses the events or the process, or doesn't answer.
    """
    with tempfile.TemporaryDirectory(prefix=scratch_prefix("perf")) as name:
        folder = Path(name)
        command = [perf, "stat", "-x,", "-e", ",".join(events), "-p", str(pid)]
        result = _watched(command, folder, work)
        return result, parse_perf_csv(written(folder / _OUTPUT))


def sample(perf: str, pid: int, work: Callable[[], Result]) -> tuple[Result, tuple[Sighting, ...]]:
    """Look where a process is, some thousand times a second, while `work` runs.

    By the processor's clock, which every machine has: no counter is needed.

    Args:
        perf: the program.
        pid: process to attach to.
        work: makes the process do what is to be watched; its result is handed on.

    Raises:
        PerfError: perf refuses the process, or doesn't answer.
    """
    with tempfile.TemporaryDirectory(prefix=scratch_prefix("perf")) as name:
        folder = Path(name)
        command = [perf, "record", "-e", CLOCK, "-F", str(SAMPLES_PER_S), "-p", str(pid)]
        result = _watched(command, folder, work)
        return result, parse_sightings(_script(perf, folder / _OUTPUT))


def _watched(command: Sequence[str], folder: Path, work: Callable[[], Result]) -> Result:
    with _attached(command, folder) as attachment:
        attachment.say(b"enable\n")
        result = work()
        attachment.say(b"disable\n")
    return result


def _script(perf: str, recorded: Path) -> str:
    """What perf recorded, a line per sample."""
    command = [perf, "script", "-i", str(recorded), "-F", "ip,sym,symoff,dso"]
    try:
        finished = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={**os.environ, "LC_ALL": "C"},
            timeout=SCRIPT_DEADLINE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PerfError(f"perf script failed: {error}") from error
    if finished.returncode != 0:
        raise PerfError(_own_words(finished.stderr.decode(errors="replace")))
    return finished.stdout.decode(errors="replace")


_OUTPUT, _ERRORS, _CONTROL, _ACK = "output", "errors", "control", "ack"


class _Attachment:
    """A perf process that is told when to count."""

    def __init__(self, process: subprocess.Popen[bytes], control: int, ack: int) -> None:
        self._process = process
        self._control = control
        self._ack = ack

    def say(self, command: bytes) -> None:
        """Send a command and wait until perf has done it."""
        os.write(self._control, command)
        deadline = time.monotonic() + ATTACH_DEADLINE_S
        while time.monotonic() < deadline:
            readable, _, _ = select.select([self._ack], [], [], 0.02)
            if readable:
                os.read(self._ack, 64)
                return
            if self._process.poll() is not None:
                raise PerfError("perf ended before it counted")
        raise PerfError(f"perf did not answer within {ATTACH_DEADLINE_S:g} s")


@contextmanager
def _attached(command: Sequence[str], folder: Path) -> Iterator[_Attachment]:
    """perf on a process; when the context ends, perf has written its output into `folder`."""
    control, ack = folder / _CONTROL, folder / _ACK
    os.mkfifo(control)
    os.mkfifo(ack)
    # Opened for both directions, so that neither side waits for the other to open.
    control_fd, ack_fd = os.open(control, os.O_RDWR), os.open(ack, os.O_RDWR)
    waiting = ["-D", "-1", "--control", f"fifo:{control},{ack}", "-o", str(folder / _OUTPUT)]
    try:
        with (folder / _ERRORS).open("wb") as errors:
            process = subprocess.Popen(
                [*command, *waiting],
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                env={**os.environ, "LC_ALL": "C"},
            )
        try:
            yield _Attachment(process, control_fd, ack_fd)
        except PerfError as error:
            raise PerfError(f"{error}: {_own_words(written(folder / _ERRORS))}") from error
        finally:
            _stop(process)
    except OSError as error:
        raise PerfError(f"perf can't be started: {error}") from error
    finally:
        os.close(control_fd)
        os.close(ack_fd)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Interrupt perf, which makes it write its counts; kill it if it doesn't listen."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
    try:
        process.wait(timeout=ATTACH_DEADLINE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _own_words(printed: str) -> str:
    """The line in which perf says what is wrong."""
    lines = [line.strip() for line in printed.splitlines()]
    telling = [line for line in lines if line and not line.startswith(("Error:", "Events"))]
    return telling[0] if telling else "no message"
