"""What a told change costs beside its judgement: in an open session, and as a command of its own.

    python benchmarks/session_overhead.py examples/softmax --tells 5 --out session_overhead.json

Begins a campaign on the target in a temporary folder, then asks and tells in turns: changes that
differ from the kernel in a comment, some in one open session, as many by `roofsmith ask` and
`roofsmith tell`, each a process. Overhead is the wall time of a tell less that of its judgement
(checking and timing): in all, and without building and profiling the candidate. Works on
processors and on GPUs.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Literal

from result_file import Made, made_now, say, write
from roofsmith import api
from roofsmith.domain.campaign import Round
from roofsmith.domain.values import Value
from roofsmith.store.campaign_dir import LEDGER
from roofsmith.store.ledger import JsonlLedger
from roofsmith.targets.file import load_target
from roofsmith.testing.observer import RecordingObserver


class Tell(Value):
    """One told change."""

    how: Literal["session", "command"]
    ask_s: float
    """The ask before it, as its caller sees it."""
    wall_s: float
    """The tell, as its caller sees it; of a command, its process and all it imports included."""
    judgement_s: float
    """Checking and timing."""
    kernel_s: float
    """Building, judging and profiling: what the campaign counts as the kernels' time."""
    verdict: str

    @property
    def beside_judgement_s(self) -> float:
        """What a tell adds to its judgement, building and profiling the candidate included."""
        return self.wall_s - self.judgement_s

    @property
    def overhead_s(self) -> float:
        """What it adds to building, judging and profiling."""
        return self.wall_s - self.kernel_s


class SessionOverhead(Value):
    """A run of this script."""

    made: Made
    target: str
    opening_s: float
    """Of the session: survey, processes, ceilings (which are kept on this machine)."""
    tells: tuple[Tell, ...]
    median_overhead_s: dict[str, float]
    """By how they were told."""
    median_beside_judgement_s: dict[str, float]


def change(kernel: Path, folder: Path, number: int, comment: str) -> Path:
    """The kernel with a comment that says which change it is."""
    path = folder / f"{number}{kernel.suffix}"
    path.write_text(f"{comment} change {number}\n{kernel.read_text()}")
    return path


def told_in_session(directory: Path, changes: list[Path]) -> tuple[float, list[Tell]]:
    """Tell changes in one session; seconds that opening it took."""
    tells, begin = [], time.perf_counter()
    with api.open_session(directory, api.settings(), RecordingObserver()) as session:
        opened_s = time.perf_counter() - begin
        for path in changes:
            begin = time.perf_counter()
            session.ask()
            asked = time.perf_counter()
            told = session.tell(api.SubmittedChange(kernel=path, hypothesis="a comment"))
            tells.append(_tell("session", begin, asked, told.rounds[0]))
    return opened_s, tells


def told_by_command(directory: Path, changes: list[Path]) -> list[Tell]:
    """The same, a process each."""
    program = [sys.executable, "-m", "roofsmith"]
    tells = []
    for path in changes:
        begin = time.perf_counter()
        ask = [*program, "ask", str(directory)]
        subprocess.run(ask, check=True, stdout=subprocess.DEVNULL)
        asked = time.perf_counter()
        tell = ["tell", str(directory), "--kernel", str(path), "--hypothesis", "a comment"]
        subprocess.run([*program, *tell], check=False)
        rounds = (e for e in JsonlLedger(directory / LEDGER).events() if isinstance(e, Round))
        tells.append(_tell("command", begin, asked, list(rounds)[-1]))
    return tells


def _tell(how: Literal["session", "command"], begin: float, asked: float, judged: Round) -> Tell:
    tell = Tell(
        how=how,
        ask_s=asked - begin,
        wall_s=time.perf_counter() - asked,
        judgement_s=judged.judgement.wall_s,
        kernel_s=judged.kernel_s,
        verdict=judged.judgement.verdict,
    )
    say(f"{how}: {tell.wall_s:.1f} s, of which overhead {tell.overhead_s:.1f} s; {tell.verdict}")
    return tell


def medians(tells: Iterable[Tell], field: str) -> dict[str, float]:
    """Of a field, by how changes were told."""
    found: dict[str, list[float]] = {}
    for tell in tells:
        found.setdefault(tell.how, []).append(getattr(tell, field))
    return {how: median(values) for how, values in found.items()}


def main() -> None:
    """Measure, print, and write the record."""
    made = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    made.add_argument("target", type=Path)
    made.add_argument("--tells", type=int, default=5)
    made.add_argument("--out", type=Path, required=True)
    options = made.parse_args()
    target = load_target(options.target)
    kernel = options.target / target.kernel.path
    comment = "#" if kernel.suffix == ".py" else "//"
    with tempfile.TemporaryDirectory() as place:
        folder, directory = Path(place), Path(place) / "campaign"
        subject, limits = api.Subject(path=options.target), api.SessionLimits(max_iterations=100)
        plan = api.CampaignPlan(subject, "none", limits)
        begun = api.optimize(plan, directory, api.settings(), RecordingObserver())
        numbers = range(2 * options.tells)
        changes = [change(kernel, folder, number, comment) for number in numbers]
        opening_s, tells = told_in_session(directory, changes[: options.tells])
        tells += told_by_command(directory, changes[options.tells :])
    found = SessionOverhead(
        made=made_now(begun.campaign.started.environment),
        target=target.name,
        opening_s=opening_s,
        tells=tuple(tells),
        median_overhead_s=medians(tells, "overhead_s"),
        median_beside_judgement_s=medians(tells, "beside_judgement_s"),
    )
    print(f"opening a session takes {opening_s:.1f} s; medians of a tell:")
    for how, overhead_s in found.median_overhead_s.items():
        beside_s = found.median_beside_judgement_s[how]
        print(f"  {how:<8} overhead {overhead_s:.1f} s, beside its judgement {beside_s:.1f} s")
    write(found, options.out)


if __name__ == "__main__":
    main()
