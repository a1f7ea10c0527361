"""Where the time of a judgement goes.

    python benchmarks/judgement_time.py candidate.cu --against incumbent.cu --ref reference.py \\
        --workload N=4096,D=4096

Judges a candidate twice, the second time with everything started that outlives a judgement, and
prints what the judge waited for, stage by stage: operations of the reference's process, what
workers were asked, and their ends. What is left is its own. Any language, any kernel.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from roofsmith import api
from roofsmith.api.subjects import candidate_from
from roofsmith.domain.campaign import Campaign, Event
from roofsmith.judge.host.oracle import ReferenceProcess
from roofsmith.judge.host.process import WorkerProcess

SHOWN = 8
"""Waits of a stage, the longest first."""


class Stopwatch:
    """An observer that knows in which stage what was waited for."""

    def __init__(self) -> None:
        self.stages: dict[str, float] = {}
        self.waits: dict[str, dict[str, float]] = {}
        self.counts: dict[str, Counter[str]] = {}
        self._stage, self._since = "", time.perf_counter()

    def stage(self, name: str, detail: str = "") -> None:
        """The stage before is over."""
        now = time.perf_counter()
        self.stages[self._stage] = self.stages.get(self._stage, 0.0) + now - self._since
        self._stage, self._since = f"{name} {detail}".rstrip(), now

    def progress(self, fraction: float, detail: str = "") -> None:
        """Nothing."""

    def event(self, event: Event, campaign: Campaign) -> None:
        """Nothing."""

    def waited(self, what: str, seconds: float) -> None:
        """Count a wait for the stage that it was in."""
        waits = self.waits.setdefault(self._stage, {})
        waits[what] = waits.get(what, 0.0) + seconds
        self.counts.setdefault(self._stage, Counter())[what] += 1

    def lines(self) -> Iterator[str]:
        """The result for people."""
        self.stage("")
        for stage, seconds in self.stages.items():
            if not stage:
                continue
            waits, counts = self.waits.get(stage, {}), self.counts.get(stage, Counter())
            yield f"  {stage}: {seconds:.2f} s"
            for what, spent in sorted(waits.items(), key=lambda wait: -wait[1])[:SHOWN]:
                yield f"    {spent:7.2f} s in {counts[what]:4}  {what}"
            yield f"    {seconds - sum(waits.values()):7.2f} s          everything else"


@contextmanager
def waits_counted(told: Callable[[str, float], None]) -> Iterator[None]:
    """Have every wait for another process told of, as long as the block lasts."""

    def timed(real: Callable[..., Any], who: str, named: bool) -> Callable[..., Any]:
        def wait(self: object, *arguments: Any, **others: Any) -> Any:
            begin = time.perf_counter()
            try:
                return real(self, *arguments, **others)
            finally:
                what = f"{who}{arguments[0]}" if named else who
                told(what, time.perf_counter() - begin)

        return wait

    with ExitStack() as stack:
        for owner, name, who, named in (
            (ReferenceProcess, "ask", "the reference's process: ", True),
            (WorkerProcess, "_hear", "a worker: ", True),
            (WorkerProcess, "close", "a worker's end", False),
        ):
            stack.enter_context(patch.object(owner, name, timed(getattr(owner, name), who, named)))
        yield


def main() -> None:
    """Judge and print."""
    made = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    made.add_argument("candidate", type=Path)
    made.add_argument("--against", type=Path, required=True)
    made.add_argument("--ref", type=Path, required=True)
    made.add_argument("--workload", required=True, help="N=4096,D=4096")
    made.add_argument("--budget-s", type=float, default=6.0)
    options = made.parse_args()
    language = candidate_from(options.against, None).language
    against = api.Subject(
        path=options.against, reference=options.ref, workloads=(options.workload,)
    )
    candidate = candidate_from(options.candidate, None)
    quiet = Stopwatch()
    with api.opened_against(against, language, options.budget_s, api.settings(), quiet) as opened:
        for turn in ("first", "again"):
            watch = Stopwatch()
            with waits_counted(watch.waited):
                judgement = api.judge_with(opened.heard_by(watch), candidate)
            print(f"{turn}: {judgement.verdict} in {judgement.wall_s:.2f} s")
            print("\n".join(watch.lines()), flush=True)


if __name__ == "__main__":
    main()
