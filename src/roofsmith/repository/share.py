"""How much of a benchmark's run the editable files take: no change of theirs can gain more.

Of kernels on a GPU the target's own profiler says it. perf samples one run with call stacks, and a
thread beside Python's main one its frames; a sample counts where a function of an editable file is
on the stack. Of CUDA and other languages, of headers, whose functions are inlined elsewhere, and
where perf is missing, nothing is known.
"""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import subprocess
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from roofsmith.analysis.kernel_table import editable_part
from roofsmith.domain.command import EditableShare
from roofsmith.domain.kernel import Built, SourceFile
from roofsmith.domain.profile import ProfiledKernel
from roofsmith.profilers.perf import CLOCK, find_perf
from roofsmith.proposers.source import Source
from roofsmith.shell import run_shell

MOST_S: Final = 30.0
"""A run that takes longer isn't repeated for this. Chosen."""
_ENOUGH_S: Final = 2.0
_MOST_RUNS: Final = 10
"""Of a short benchmark, until it was sampled for so long. Chosen."""
_SAMPLES: Final = 2000
"""Of a run at most: each holds 4 KiB of stack."""
_MOST_PER_S: Final = 199
_LEAST: Final = 30
"""Below that many samples a share of them says nothing: 30% would be 14 to 49% (binomial, 95%)."""
_SCRIPT_DEADLINE_S: Final = 60.0
_FRAMES: Final = Path(__file__).parent / "frames"
_READ: Final = frozenset((".c", ".cc", ".cpp", ".cxx"))


def editable_share(
    built: Built, command: str, sources: Collection[SourceFile], wall_s: float, log: Path
) -> EditableShare:
    """Run the benchmark once more, sampled.

    Args:
        built: whose checkout it runs in.
        command: of the benchmark.
        sources: the editable files.
        wall_s: what a run takes.
        log: for what it prints; the samples lie beside it meanwhile.
    """
    suffixes = {PurePosixPath(source.path).suffix.lower() for source in sources}
    if wall_s > MOST_S:
        return EditableShare(unknown=f"a run takes {wall_s:.0f} s")
    runs = max(1, min(_MOST_RUNS, int(_ENOUGH_S / max(wall_s, 0.01))))
    command, wall_s = " && ".join([f"({command})"] * runs), runs * wall_s
    if suffixes == {".py"}:
        found = _by_frames(built, command, sources, log)
    elif suffixes <= _READ:
        found = _by_stacks(built, command, sources, wall_s, log)
    else:
        found = f"of {', '.join(sorted(suffixes))} files nobody can tell"
    if isinstance(found, str):
        return EditableShare(unknown=found)
    if found.samples < _LEAST:
        return EditableShare(unknown=f"{found.samples} samples of a run are too few")
    return found


def by_kernels(kernels: Sequence[ProfiledKernel], texts: Iterable[str]) -> EditableShare:
    """Of the GPU time of a profiled run, by the names of kernels that some sources define."""
    part = editable_part(kernels, texts)
    if not part:
        why = "defines a kernel of the run by its name" if kernels else "was profiled on the GPU"
        return EditableShare(unknown=f"no editable file {why}")
    total_ns = math.ceil(1e9 * math.fsum(one.time_s for one in kernels))
    return EditableShare(samples=total_ns, editable=round(part * total_ns), of_gpu_time=True)


def _by_frames(
    built: Built, command: str, sources: Iterable[SourceFile], log: Path
) -> EditableShare | str:
    """Of Python's files, by what is on the main thread's stack every few milliseconds."""
    folder = log.with_suffix(".frames")
    folder.mkdir(parents=True)
    top = built.library.resolve()
    said = {"files": [str(top / source.path) for source in sources], "folder": str(folder)}
    given = built.environment.get("PYTHONPATH") or os.environ.get("PYTHONPATH")
    places = os.pathsep.join(filter(None, (str(_FRAMES), given)))
    ran = run_shell(
        command, directory=built.library, deadline_s=10 * MOST_S, log=log,
        environment={
            **built.environment, "ROOFSMITH_FRAMES": json.dumps(said), "PYTHONPATH": places,
        },
    )  # fmt: skip
    if not ran.passed:
        return "the benchmark fails where its frames are counted"
    counts = [json.loads(file.read_text()) for file in folder.iterdir()]
    return EditableShare(
        samples=sum(total for total, _ in counts), editable=sum(hits for _, hits in counts)
    )


def _by_stacks(
    built: Built, command: str, sources: Collection[SourceFile], wall_s: float, log: Path
) -> EditableShare | str:
    """Of C and C++ files, by perf."""
    if (perf := find_perf()) is None:
        return "perf isn't there"
    recorded = log.with_suffix(".perf")
    per_s = max(1, min(_MOST_PER_S, int(_SAMPLES / max(wall_s, 0.1))))
    record = [perf, "record", "-q", "-e", CLOCK, "-F", str(per_s), "--call-graph", "dwarf,4096",
              "-o", str(recorded), "--", "sh", "-c", command]  # fmt: skip
    try:
        ran = run_shell(
            shlex.join(record), directory=built.library, environment=built.environment,
            deadline_s=10 * MOST_S, log=log,
        )  # fmt: skip
        if not ran.passed:
            return "the benchmark doesn't run under perf"
        stacks = _stacks(perf, recorded)
    finally:
        recorded.unlink(missing_ok=True)
    names = _functions(sources)
    seen = sum(not names.isdisjoint(stack) for stack in stacks)
    return EditableShare(samples=len(stacks), editable=seen)


def _functions(sources: Iterable[SourceFile]) -> frozenset[str]:
    found = (
        Source(source.text, "c" if source.path.endswith(".c") else "cpp").functions
        for source in sources
    )
    return frozenset(function.name.rpartition("::")[2] for some in found for function in some)


def _stacks(perf: str, recorded: Path) -> list[set[str]]:
    """The functions on the stack of each sample, without parameters and what they are in."""
    command = [perf, "script", "-i", str(recorded), "--no-inline", "-F", "comm,ip,sym"]
    try:
        finished = subprocess.run(
            command, capture_output=True, timeout=_SCRIPT_DEADLINE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    samples = finished.stdout.decode(errors="replace").split("\n\n")
    frames = [re.findall(r"^\s+[0-9a-f]+ (.+)$", sample, re.MULTILINE) for sample in samples]
    return [{_plain(frame) for frame in some} for some in frames if some]


def _plain(symbol: str) -> str:
    """`f` of `void ns::f<int>(float*)` and of `f.constprop.0`."""
    head = re.split(r"[(<.]", symbol, maxsplit=1)[0]
    return head.rpartition("::")[2].rpartition(" ")[2]
