"""How much of a benchmark's run the editable files take: no change of theirs can gain more.

perf samples one run with call stacks; a sample counts where a function of an editable C or C++ file
is on its stack. Of other languages, of headers, whose functions are inlined elsewhere, and where
perf is missing or refuses, nothing is known.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from roofsmith.domain.kernel import Built, SourceFile
from roofsmith.profilers.perf import CLOCK, find_perf
from roofsmith.proposers.source import Source
from roofsmith.shell import run_shell

MOST_S: Final = 30.0
"""A run that takes longer isn't repeated for this. Chosen."""
_SAMPLES: Final = 2000
"""Of a run at most: each holds 4 KiB of stack."""
_MOST_PER_S: Final = 199
_LEAST: Final = 30
"""Below that many samples a share of them says nothing: 30% would be 14 to 49% (binomial, 95%)."""
_SCRIPT_DEADLINE_S: Final = 60.0
_READ: Final = frozenset((".c", ".cc", ".cpp", ".cxx"))


@dataclass(frozen=True, slots=True)
class Share:
    """What a sampled run showed."""

    samples: int
    editable: int
    """Of these, with an editable function on the stack."""

    def __str__(self) -> str:
        """The bound that follows (Amdahl, 1967), in a sentence."""
        part = self.editable / self.samples
        if not self.editable:
            return (
                f"WARNING: no function of an editable file was seen in {self.samples} samples of a"
                " run of the benchmark: is what may be edited what is measured?"
            )
        most = f"{1 / (1 - part):.3g}x" if part < 0.99 else "100x"
        return (
            f"editable files take {part:.0%} of a run of the benchmark: if its metric counts all of"
            f" that run, no change gains more than {most}"
        )


def editable_share(
    built: Built, command: str, sources: Collection[SourceFile], wall_s: float, log: Path
) -> Share | str:
    """Run the benchmark once more, under perf; or why nothing is known.

    Args:
        built: whose checkout it runs in.
        command: of the benchmark.
        sources: the editable files.
        wall_s: what a run takes.
        log: for what it prints; the samples lie beside it meanwhile.
    """
    other = [s.path for s in sources if PurePosixPath(s.path).suffix.lower() not in _READ]
    perf = find_perf()
    if other:
        return f"{other[0]} is no C or C++ file with functions of its own"
    if perf is None or wall_s > MOST_S:
        return "perf isn't there" if perf is None else f"a run takes {wall_s:.0f} s"
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
    if len(stacks) < _LEAST:
        return f"perf took {len(stacks)} samples of a run, which are too few"
    names = _functions(sources)
    return Share(len(stacks), sum(not names.isdisjoint(stack) for stack in stacks))


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
