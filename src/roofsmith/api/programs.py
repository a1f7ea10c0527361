"""Whole programs under a profiler: which kernels are worth the work, and what each takes."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from roofsmith.analysis.figures import one_line
from roofsmith.analysis.kernel_table import definition
from roofsmith.analysis.program_plan import LEAST_SHARE, planned
from roofsmith.config import Settings
from roofsmith.domain.facts import Fact
from roofsmith.domain.profile import ProfiledKernel
from roofsmith.domain.program import ProgramPlan, TracedProgram
from roofsmith.errors import UsageError
from roofsmith.profilers.left_behind import profiled_run
from roofsmith.profilers.program_files import read_program
from roofsmith.scratch import scratch_prefix
from roofsmith.specs.wiki import Wiki
from roofsmith.specs.wiki_datasheet import datasheet_of

_SOURCES = (".cu", ".cuh", ".hip", ".cpp", ".cc", ".h", ".hpp", ".py")
_MOST_CHARACTERS, _MOST_SOURCES = 2 << 20, 20_000
"""Of a file, and files, in which kernels are looked for. Chosen."""


def plan_program(
    trace: Path,
    settings: Settings,
    *,
    platform: str | None = None,
    folder: Path | None = None,
    least_share: float = LEAST_SHARE,
) -> ProgramPlan:
    """Every kernel of a trace with what it could bring, and what to type next.

    Args:
        trace: a file, or a folder of those of one run.
        settings: where the user's own wiki pages are.
        platform: the product that it ran on, where the trace's own name for it isn't wanted.
        folder: of the program's sources, in which kernels are looked for.
        least_share: of GPU time; kernels below are dropped.

    Raises:
        NotATraceError: no kernels can be read from it.
        UnknownNameError: no page has the platform's name.
    """
    program = read_program(trace)
    found = planned(program, _bandwidth(program, settings, platform), least_share)
    kept = [one.kernel.name for one in found.prospects if one.dropped is None]
    places = {} if folder is None else _defined_in(folder, kept)
    told = [
        one if one.dropped else one.model_copy(update={"next": _next(one.kernel, folder, places)})
        for one in found.prospects
    ]
    return found.model_copy(update={"prospects": tuple(told)})


def analyse_command(command: Sequence[str], directory: Path, deadline_s: float) -> TracedProgram:
    """Run a command, under a profiler that is here unless it is one itself, and read what it left.

    Raises:
        UsageError: it fails, or leaves nothing that can be read.
        ToolMissingError: it is no profiler, and none is here.
    """
    with tempfile.TemporaryDirectory(prefix=scratch_prefix("trace")) as scratch:
        return profiled_run(shlex.join(command), directory, Path(scratch), deadline_s)


def _bandwidth(program: TracedProgram, settings: Settings, platform: str | None) -> Fact | None:
    """Of the product's memory, by its page; None: no page, or none that states it."""
    wiki = Wiki.load(settings.own_pages(), settings.gpu_wiki)
    page = wiki.page(platform) if platform else wiki.lookup(program.device or "")
    fact = None if page is None else datasheet_of(wiki.stated(page)).bandwidth
    return fact if fact is not None and fact.value is not None else None


def _next(kernel: ProfiledKernel, folder: Path | None, places: dict[str, str]) -> str:
    if place := places.get(kernel.name):
        where = f"--repo {shlex.quote(str(folder))} --editable {shlex.quote(place)}"
        return f"roofsmith init {where} --benchmark COMMAND --metric COLUMN --rows COLUMNS"
    if kernel.name.startswith("triton_") and "_fused_" in kernel.name:
        made = f", in {kernel.source}" if kernel.source else ""
        return _from_pytorch(f"torch.compile made it{made}")
    if "at::native::" in kernel.name:
        return _from_pytorch(f"NAME calls {kernel.operator}" if kernel.operator else "")
    return "roofsmith init --repo DIR --editable FILE --benchmark COMMAND  # see --in"


def _from_pytorch(why: str) -> str:
    said = f"  # {one_line(why, 200)}" if why else ""
    return f"roofsmith init --from-pytorch FILE:NAME --framework triton{said}"


def _defined_in(folder: Path, kernels: Sequence[str]) -> dict[str, str]:
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder", hint="name the folder of the program's sources")
    wanted = {kernel: definition(kernel) for kernel in kernels}
    found: dict[str, str] = {}
    sources = (path for path in folder.rglob("*") if path.suffix in _SOURCES and path.is_file())
    for path in islice(sources, _MOST_SOURCES):
        with suppress(OSError), path.open(encoding="utf-8", errors="replace") as file:
            text = file.read(_MOST_CHARACTERS)
            here = path.relative_to(folder).as_posix()
            found |= {kernel: here for kernel, how in wanted.items() if how.search(text)}
    return found
