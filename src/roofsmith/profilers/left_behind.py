"""What a command left that ran under a profiler: one that it names itself, or one that is here."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from roofsmith.cuda_programs import find_program
from roofsmith.domain.program import TracedProgram
from roofsmith.errors import ToolMissingError, UsageError
from roofsmith.profilers.program_files import profile_files, read_files
from roofsmith.profilers.rocprof import find_rocprof
from roofsmith.shell import run_shell

_PROFILERS = re.compile(r"\b(rocprofv?\d?|nsys|ncu)\b")
"""A command that names one is left as it is."""
_EXPORT_S = 600.0  # chosen
_NCU = (
    "--csv --page raw --print-units base --clock-control none"
    " --section LaunchStats --section Occupancy --metrics gpu__time_duration.sum"
)
_REPORTS = {
    ".nsys-rep": "{nsys} export --type sqlite --force-overwrite true -o {made}.sqlite {report}",
    ".ncu-rep": "{ncu} --import {report} --csv --page raw --log-file {made}.csv",
}


def profiled_run(command: str, directory: Path, scratch: Path, deadline_s: float) -> TracedProgram:
    """Run a command and read what its profiler left.

    Args:
        command: for the shell.
        directory: that it runs in.
        scratch: takes the log, and what a profiler of our choice writes.
        deadline_s: wall time.

    Raises:
        UsageError: it fails, or leaves nothing that can be read.
        ToolMissingError: it names no profiler, and none is here.
    """
    before = times(directory)
    said = command if _PROFILERS.search(command) else _under_profiler(command, scratch)
    log = scratch / "command.log"
    ran = run_shell(said, directory=directory, environment={}, deadline_s=deadline_s, log=log)
    if not ran.passed:
        raise UsageError(ran.told(), hint="let it succeed without a profiler first")
    return read_left([*new_files(directory, before), *profile_files(scratch)], directory, scratch)


def read_left(files: Sequence[Path], folder: Path, scratch: Path) -> TracedProgram:
    """The kernels in what a run left; reports of NVIDIA's tools are exported where these are here.

    Raises:
        NotATraceError: there are none.
    """
    for report in files:
        if (command := _REPORTS.get(report.suffix)) is not None:
            tools = {tool: shlex.quote(str(find_program(tool) or tool)) for tool in ("nsys", "ncu")}
            made, given = shlex.quote(str(scratch / report.stem)), shlex.quote(str(report))
            said = command.format(made=made, report=given, **tools)
            log = scratch / "export.log"
            run_shell(said, directory=scratch, environment={}, deadline_s=_EXPORT_S, log=log)
            files = [*files, *(scratch / f"{report.stem}{end}" for end in (".sqlite", ".csv"))]
    return read_files([*dict.fromkeys(file for file in files if file.is_file())], folder)


def times(folder: Path) -> dict[Path, int]:
    """The files that may be a profiler's, with their time stamps."""
    return {path: path.stat().st_mtime_ns for path in profile_files(folder)}


def new_files(folder: Path, before: Mapping[Path, int]) -> list[Path]:
    """Those that are new since, or were written anew."""
    return [path for path, stamp in times(folder).items() if before.get(path) != stamp]


def _under_profiler(command: str, scratch: Path) -> str:
    place = shlex.quote(str(scratch))
    if (rocprof := find_rocprof()) is not None:
        return f"{rocprof} --kernel-trace --output-format csv -d {place} -- {command}"
    if (nsys := find_program("nsys")) is not None:
        return f"{nsys} profile --trace cuda --force-overwrite true -o {place}/report {command}"
    if (ncu := find_program("ncu")) is not None:  # slower: kernel by kernel
        return f"{ncu} {_NCU} --log-file {place}/ncu.csv {command}"
    raise ToolMissingError(
        "the command names no profiler, and none is here: rocprofv3, nsys and ncu weren't found",
        hint="put one on PATH, or read a trace from elsewhere: `roofsmith plan TRACE`",
    )
