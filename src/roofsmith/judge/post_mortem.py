"""What the end of a worker's process says of its candidate, by what it was asked last."""

from __future__ import annotations

import re
import signal

from roofsmith.domain.outcome import Cheated, Crashed, Failure, TimedOut, Unstable
from roofsmith.task_limits import TaskLimit

CALLING = frozenset(("run", "queue", "finish"))
"""Messages during which candidate code runs."""

ADVICE = {
    "call_deadline": "look for a loop, a spin or a barrier that never ends, on a GPU one across"
    " blocks that aren't all resident at once, and for memory that grows until the machine swaps;"
    " or try a smaller workload",
    "worker_deadline": "look for what the kernel's file does when it is loaded; if the machine is"
    " busy, try again",
}
"""What to try, by reason code."""

_NO_MORE_THREADS = re.compile(
    r"Thread creation failed|unable to allocate necessary resources for OMP thread|pthread_create|"
    r"can't start new thread|what\(\):\s+Resource temporarily unavailable"
)
"""libgomp's words, libomp's, what programs print of pthreads, Python's and libstdc++'s."""


def late(op: str, limit_s: float) -> TimedOut:
    """It had to be killed at its deadline."""
    reason = "call_deadline" if op in CALLING else "worker_deadline"
    detail = f"{op} did not answer within {limit_s:.3g} s and was killed ({ADVICE[reason]})"
    return TimedOut(reason=reason, detail=detail)


def hung_up(op: str) -> Crashed:
    """It runs, but nobody can talk to it any more."""
    return Crashed(reason="hung_up", detail=f"the worker closed its channel during {op}")


def garbled(op: str, why: str) -> Cheated:
    """What came from it is no message: the worker's own code sends none such."""
    detail = f"something else than an answer was sent on the result channel during {op}: {why}"
    return Cheated(reason="verdict_forged", detail=detail)


def unasked(op: str) -> Cheated:
    """More came from it than was asked for: the worker's own code answers once."""
    detail = f"more than one answer was sent on the result channel before {op}"
    return Cheated(reason="verdict_forged", detail=detail)


def misshapen(answer: object, calls: int, *, is_doubled: bool) -> Failure:
    """An answer that isn't the times of so many calls; doubled if another one came after it."""
    detail = f"the worker answered {str(answer)[:200]} instead of {calls} times"
    if is_doubled:
        return Cheated(reason="verdict_forged", detail=f"{detail}, and answered again")
    return Crashed(reason="garbled_answer", detail=detail)


def out_of_memory(op: str) -> Crashed:
    """It was killed because its group used too much."""
    return Crashed(reason="out_of_memory", detail=f"it used more memory than it may, {_doing(op)}")


def for_lack_of_threads(died: Failure, own: int | None, limit: TaskLimit | None) -> Failure:
    """The same with the limit that was met, where no more threads could be started.

    It is the machine's fault where that is lower than the judge's own: nothing is known of the
    kernel then.

    Args:
        died: with what it printed in its detail.
        own: how many tasks the judge lets a worker have; None: any number.
        limit: the machine's.
    """
    if not isinstance(died, Crashed) or not _NO_MORE_THREADS.search(died.detail):
        return died
    if limit is not None and (own is None or limit.left < own):
        return Unstable(reason="no_threads", detail=f"{died.detail}; {limit}", log=died.log)
    most = "" if own is None else f"{own} threads, and "
    met = f"a kernel gets {most}80% of the memory's size for their stacks"
    return died.model_copy(update={"detail": f"{died.detail}; {met}"})


def ended(op: str, code: int) -> Crashed:
    """It ended with this code; negative: the signal that killed it."""
    if code < 0:
        name = signal.Signals(-code).name
        return Crashed(reason=f"signal_{name.lower()}", detail=f"killed by {name} {_doing(op)}")
    return Crashed(reason="exited", detail=f"the process exited with code {code} {_doing(op)}")


def _doing(op: str) -> str:
    return "while the kernel ran" if op in CALLING else f"during {op}"
