"""NVIDIA compute-sanitizer around a worker: is one call of a CUDA kernel clean, and repeatable?"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

from roofsmith.cuda_programs import find_program
from roofsmith.domain.inspection import Clean, Inspection, SanitizerTool, Unavailable
from roofsmith.domain.kernel import Built
from roofsmith.domain.outcome import TimedOut
from roofsmith.domain.workload import Workload
from roofsmith.errors import RoofsmithError
from roofsmith.ports import Arguments, KernelDiedError, KernelRunner, Oracle
from roofsmith.profilers.attempts import SEED
from roofsmith.profilers.proof import Proof
from roofsmith.profilers.repeatability import repeats
from roofsmith.profilers.sanitizer_output import SanitizerReading, read, trouble
from roofsmith.programs import side_by_side
from roofsmith.scratch import scratch_prefix, written

TOOLS: tuple[SanitizerTool, ...] = get_args(SanitizerTool)
TOOL_DEADLINE_S = 120.0
"""For the call under one tool; racecheck makes a kernel 10 to 100 times slower."""
ERROR_EXIT = 86
"""compute-sanitizer's exit code where it found something; no worker ends with it by itself."""
PRINT_LIMIT = 32
"""Reports that are printed: one defect is usually reported once per thread."""


def find_compute_sanitizer() -> str | None:
    """compute-sanitizer, where `cuda_programs` finds it; None without."""
    found = find_program("compute-sanitizer")
    return str(found) if found is not None else None


def launcher(program: str, tool: SanitizerTool, log: Path) -> tuple[str, ...]:
    """What to start a worker under.

    After an error the kernel is ended, but not its context: the worker lives on, and the report is
    written to its end. Failed driver calls aren't reported: the judge hears of them itself.
    """
    own = ("--report-api-errors=no",) if tool == "memcheck" else ()
    return (
        program,
        f"--tool={tool}",
        f"--error-exitcode={ERROR_EXIT}",
        f"--log-file={log}",
        f"--print-limit={PRINT_LIMIT}",
        "--destroy-on-device-error=kernel",
        "--show-backtrace=no",
        "--target-processes=all",
        *own,
    )


@dataclass(frozen=True, slots=True)
class SanitizerInspector:
    """Port `Inspector` over compute-sanitizer."""

    runner: KernelRunner
    oracle: Oracle
    proof: Proof
    threads: int = 1
    find_program: Callable[[], str | None] = field(default=find_compute_sanitizer)
    deadline_s: float = TOOL_DEADLINE_S

    def inspect(self, built: Built, workload: Workload) -> Inspection:
        """One call under each tool and two without any, side by side.

        A tool that is missing, fails, hangs or is blind is `unavailable`, with the reason; never
        an exception.
        """
        try:
            arguments = self.oracle.inputs(workload, SEED)
        except RoofsmithError as error:
            return _blind(workload, f"no inputs to inspect it with: {error.message}")
        program = self.find_program()
        if program is None:
            repeatable, note = self._repeats(built, arguments)
            reason = (
                "compute-sanitizer is not installed: it comes with the CUDA toolkit, as NVIDIA's"
                " package cuda-sanitizer, and with `pip install nvidia-cuda-sanitizer-api`"
            )
            blind = _blind(workload, reason)
            return blind.model_copy(update={"repeatable": repeatable, "notes": (note,)})
        with ThreadPoolExecutor() as beside:
            twice = beside.submit(self._repeats, built, arguments)
            doubts = {tool: beside.submit(self._doubt, program, tool) for tool in TOOLS}
            found = side_by_side(lambda tool: self._run(program, tool, built, arguments), TOOLS)
        for tool, reading in found.items():
            if isinstance(reading.report, Unavailable) and "memory" in reading.report.reason:
                found[tool] = self._run(program, tool, built, arguments)  # it was short for all
        readings = [_believed(found[tool], doubts[tool].result()) for tool in TOOLS]
        repeatable, note = twice.result()
        return Inspection(
            workload=workload.label,
            reports=tuple(reading.report for reading in readings),
            repeatable=repeatable,
            notes=(note, *_warned(readings)),
        )

    def _repeats(self, built: Built, arguments: Arguments) -> tuple[bool | None, str]:
        return repeats(
            self.runner, built, arguments, threads=self.threads, deadline_s=self.deadline_s / 2
        )

    def _doubt(self, program: str, tool: SanitizerTool) -> str | None:
        return self.proof.doubt(
            tool, lambda kernel, given: self._run(program, tool, kernel, given).report
        )

    def _run(
        self, program: str, tool: SanitizerTool, built: Built, arguments: Arguments
    ) -> SanitizerReading:
        with tempfile.TemporaryDirectory(prefix=scratch_prefix("sanitizer")) as folder:
            log = Path(folder) / "report.txt"
            try:
                with self.runner.open(
                    built,
                    arguments,
                    threads=self.threads,
                    call_deadline_s=self.deadline_s / 2,  # a session grants one call more
                    launcher=launcher(program, tool, log),
                ) as session:
                    session.call(1)
            except KernelDiedError as died:
                return _after_death(tool, written(log), died)
            except OSError as error:
                reason = f"{program} can't be started: {error.strerror or error}"
                return SanitizerReading(Unavailable(tool=tool, reason=reason))
            return read(tool, written(log))


def _believed(reading: SanitizerReading, doubt: str | None) -> SanitizerReading:
    """What a tool found; that it found nothing only where it would have."""
    if doubt is None or not isinstance(reading.report, Clean):
        return reading
    return SanitizerReading(Unavailable(tool=reading.report.tool, reason=doubt), reading.warnings)


def _blind(workload: Workload, reason: str) -> Inspection:
    """No tool could look."""
    return Inspection(
        workload=workload.label,
        reports=tuple(Unavailable(tool=tool, reason=reason) for tool in TOOLS),
    )


def _after_death(tool: SanitizerTool, printed: str, died: KernelDiedError) -> SanitizerReading:
    """What a worker that died under a tool leaves: its findings count, its silence doesn't."""
    reading = read(tool, printed)
    if reading.report.kind == "found":
        return reading
    hung = isinstance(died.outcome, TimedOut)
    how = "it hung and was stopped" if hung else "the kernel did not survive it"
    reason = trouble(printed) or trouble(str(died)) or f"{how}: {died}"
    return SanitizerReading(Unavailable(tool=tool, reason=reason))


def _warned(readings: list[SanitizerReading]) -> tuple[str, ...]:
    count = sum(reading.warnings for reading in readings)
    if not count:
        return ()
    return (
        f"racecheck: {count} warnings, no errors by themselves: accesses of one warp that only the"
        " order of its execution keeps apart",
    )
