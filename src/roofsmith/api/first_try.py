"""A kernel and its reference meet once on every workload, before anybody builds on them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from typing import Any

from roofsmith.domain.arrays import ArraySpec
from roofsmith.domain.kernel import Built, Candidate
from roofsmith.domain.outcome import Crashed, Failure, Incorrect, Outcome, TimedOut
from roofsmith.domain.target import Target
from roofsmith.domain.workload import Workload
from roofsmith.engine.progress import NOTABLE_S, REFERENCE_CALLS
from roofsmith.judge.host.oracle import ReferenceOracle
from roofsmith.judge.timing.bench import Bench, SideDiedError
from roofsmith.ports import Observer

FIRST_CALL_S = 10.0
"""For a first call on the host: nobody waits a judge's minute for an endless loop."""
LONGEST_CALL_S = 10.0
"""A first look takes a dozen calls, the search for other inputs some 80. Chosen."""
UNFUSED = "-ffp-contract=off"
_FUSING = re.compile(r"-ffp-contract=|-ffast-math|-Ofast|-funsafe-math")
_FLOATING = re.compile(r"\b(?:float|double)\b")


def call_s(oracle: ReferenceOracle, workload: Workload) -> float:
    """Seconds of one call of a reference in float64, as most of a judgement's are.

    Raises:
        BadReferenceError: it raises or hangs.
    """
    with oracle.draws(workload, 1) as draws:
        draws.draw(0, 0)
        begin = time.monotonic()
        draws.expect(0, exact=True)
        return time.monotonic() - begin


def reference_s(oracle: object, target: Target) -> float | None:
    """The same on every workload, all together; None where nobody can time it.

    Raises:
        BadReferenceError: it raises or hangs.
    """
    if not isinstance(oracle, ReferenceOracle):
        return None
    return sum(call_s(oracle, workload) for workload in target.workloads)


def is_slow(taken_s: float) -> bool:
    """Whether a reference whose call takes so long takes much of a judgement."""
    return REFERENCE_CALLS * taken_s > NOTABLE_S


def slowness(label: str, taken_s: float) -> str:
    """What a slow reference means for a campaign."""
    whole_s = REFERENCE_CALLS * taken_s
    whole = f"{whole_s / 60:.0f} min" if whole_s >= 120 else f"{whole_s:.0f} s"
    return (
        f"the reference takes {taken_s:.2g} s a call for {label}: about {whole} a judgement;"
        " a faster one or a smaller workload saves most of that"
    )


def first_failure(
    bench: Bench[Any],
    workloads: Sequence[Workload],
    built: Built,
    deadline_s: float,
    observer: Observer,
) -> Failure | None:
    """What a kernel does wrong in one call per workload, on fresh inputs; None if nothing.

    Raises:
        BadReferenceError: the reference raises, hangs, or isn't deterministic.
    """
    try:
        with bench.lineup([built]) as lineup:
            for workload in workloads:
                observer.stage("check", f"{workload.label}, a call of at most {deadline_s:.0f} s")
                with bench.inputs(workload, bench.examination.slots) as inputs:
                    station = lineup.station(inputs, bench.examination)
                    station.turn([0], deadline_s)
                    if failure := station.examine().failure:
                        return failure
    except SideDiedError as error:
        return error.outcome
    return None


def unfused(
    candidate: Candidate, outcome: Outcome, arrays: Sequence[ArraySpec]
) -> Candidate | None:
    """The same kernel built without fused multiply-adds, where these may be what is wrong.

    None elsewhere: integers leap where floating arithmetic decides about them, and only there does
    the last bit of a product matter so much.
    """
    whole = any("int" in array.dtype and array.role in ("output", "inout") for array in arrays)
    fuses = not any(_FUSING.match(flag) for flag in candidate.build.flags)
    floating = any(_FLOATING.search(source.text) for source in candidate.sources)
    wrong = isinstance(outcome, Incorrect) and outcome.reason == "wrong_output"
    if not (wrong and candidate.language in ("c", "cpp") and whole and fuses and floating):
        return None
    build = candidate.build.model_copy(update={"flags": (*candidate.build.flags, UNFUSED)})
    return candidate.model_copy(update={"build": build})


def cure(failure: Failure, other: Candidate | None, is_right: Callable[[Candidate], bool]) -> str:
    """What to do about a kernel that failed."""
    if other is not None and is_right(other):
        return fused(other)
    match failure:
        case TimedOut():
            return "it loops for ever, or judges, who call it hundreds of times, need less work"
        case Incorrect(reason="input_altered"):
            return (
                'list that array under "scratch" in setup if nobody reads it afterwards and the'
                ' kernel reads none of it first, or under "outputs" if the reference computes it,'
                " too; else leave it alone"
            )
        case Crashed() | Incorrect(reason="out_of_bounds"):
            return "compare its indices with the sizes that setup gives, under -fsanitize=address"
        case Incorrect():
            return "kernel and reference disagree: correct the one that is wrong"
        case _:
            return "`roofsmith kernel check` says more"


def fused(other: Candidate) -> str:
    """What to say where a kernel is right without fused multiply-adds."""
    return (
        f"built with {UNFUSED} it is right: fused multiply-adds round once, and integers leap where"
        f" that decides. Give the target `build: {{flags: [{', '.join(other.build.flags)}]}}`, or"
        " let integers be off by `tolerance: {atol: N}`"
    )
