"""Told rounds in an open campaign, each with what its caller waited for: `pace.py` starts this.

    python pace_rounds.py DIR KERNEL ...

The campaign is opened once; what it needs to know of itself (how exact honest arithmetic is, the
incumbent's own check) is found with the first kernel. A line of JSON for each of the others, which
are told `THINKING_S` after the brief was asked for. It runs under any version that has sessions, so
it asks them for no more than `ask` and `tell`.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from roofsmith import api
from roofsmith.testing.observer import RecordingObserver

THINKING_S = 5.0
"""Chosen: models and agents that propose take longer."""


def main() -> None:
    """Tell every kernel in turn."""
    directory, *kernels = map(Path, sys.argv[1:])
    with api.open_session(directory, api.settings(), RecordingObserver()) as session:
        for number, kernel in enumerate(kernels):
            session.ask()
            time.sleep(THINKING_S)
            begin = time.perf_counter()
            told = session.tell(api.SubmittedChange(kernel=kernel, hypothesis=kernel.stem))
            wall_s = time.perf_counter() - begin
            round_ = told.rounds[0]
            seen = {
                "kernel": kernel.stem,
                "decision": round_.decision.kind,
                "verdict": round_.judgement.verdict,
                "speedup": c.overall.speedup if (c := round_.judgement.comparison) else None,
                "wall_s": wall_s,
                "round_s": round_.wall_s,
                "kernel_s": round_.kernel_s,
                "judgement_s": round_.judgement.wall_s,
            }
            if number:
                print(json.dumps(seen), flush=True)


if __name__ == "__main__":
    main()
