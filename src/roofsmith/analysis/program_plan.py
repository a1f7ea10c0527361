"""Which kernels of a program are worth the work: their part of it, and how much of that is left.

A floor is bytes over a cited bandwidth where operators' shapes were traced; ncu's own shares of the
ceilings stand in for it where it counted. Amdahl's law makes a gain of the whole of it. Pure.
"""

from __future__ import annotations

import re
from functools import cache

from roofsmith.domain.facts import Fact
from roofsmith.domain.profile import ProfiledKernel
from roofsmith.domain.program import ProgramPlan, Prospect, TracedProgram
from roofsmith.yaml_document import shipped_table

LEAST_SHARE = 0.01
"""Of GPU time; less isn't worth a campaign. Chosen; `--min-share` says otherwise."""
LEAST_GAIN = 0.005
"""Of the program's time, idle GPUs included; what saves less at most is no work. Chosen."""
AT_ROOFLINE = 0.9
"""Of its floor's rate: what is left is within what such floors leave out. Chosen."""
_CACHED = 1.1
"""A kernel faster than its bytes allow has them in cache: the floor says nothing. Chosen."""


def planned(
    program: TracedProgram, bandwidth: Fact | None = None, least_share: float = LEAST_SHARE
) -> ProgramPlan:
    """Every kernel's prospects, those that are worth the work first, the best before others."""
    rate = None if bandwidth is None else bandwidth.value
    found = [_prospect(program, kernel, rate, least_share) for kernel in program.kernels]
    return ProgramPlan(
        program=program,
        prospects=tuple(sorted(found, key=lambda one: (one.dropped is not None, -_saved(one)))),
        ceiling=_ceiling(bandwidth, program),
    )


def library_of(name: str) -> str | None:
    """The library that a kernel comes with; None: nobody knows one."""
    return next((library for library, pattern in _libraries() if pattern.search(name)), None)


def _prospect(
    program: TracedProgram, kernel: ProfiledKernel, rate: float | None, least_share: float
) -> Prospect:
    fraction, part = _fraction(kernel, rate), program.part(kernel)
    saved = part * (1 - (fraction or 0.0))
    dropped = _dropped(kernel, fraction, least_share)
    if dropped is None and saved < LEAST_GAIN:
        dropped = f"less than {LEAST_GAIN:.1%} of the program's time could be saved"
    return Prospect(
        kernel=kernel,
        part=part,
        fraction=fraction,
        most_speedup=1 / (1 - saved) if saved < 1 else None,
        dropped=dropped,
    )


def _saved(one: Prospect) -> float:
    return one.kernel.share * (1 - (one.fraction or 0.0))


def _dropped(kernel: ProfiledKernel, fraction: float | None, least_share: float) -> str | None:
    if kernel.is_copy:
        return "copies or fills memory: the program has to ask for less of it"
    if (library := library_of(kernel.name)) is not None:
        return f"a library's kernel ({library})"
    if kernel.share < least_share:
        return f"below {least_share * 100:.3g}% of GPU time"
    if fraction is not None and fraction >= AT_ROOFLINE:
        return f"at its roofline ({fraction:.0%})"
    return None


def _fraction(kernel: ProfiledKernel, rate: float | None) -> float | None:
    """How near a kernel is to the time that nothing could go below; None: no floor is known."""
    counted = [kernel.get("dram_throughput"), kernel.get("sm_throughput")]
    known = [share for share in counted if share is not None]
    if len(known) == len(counted):
        return min(1.0, max(known))
    if kernel.least_bytes is None or not rate or not kernel.time_s:
        return None
    fraction = kernel.least_bytes / rate / kernel.time_s
    return min(fraction, 1.0) if fraction <= _CACHED else None


def _ceiling(bandwidth: Fact | None, program: TracedProgram) -> str:
    if bandwidth is not None:
        return str(bandwidth)
    why = f"no page states that of {program.device!r}" if program.device else "no GPU is named"
    return f"UNKNOWN ({why}; `--platform PRODUCT` says which it was)"


@cache
def _libraries() -> tuple[tuple[str, re.Pattern[str]], ...]:
    rows = shipped_table(__package__, "library_kernels.yaml")
    return tuple((row["library"], re.compile(row["name"])) for row in rows)
