"""How far campaigns take naive kernels that no idea of roofsmith's was written for.

    python benchmarks/unseen.py c --budget-s 90 --output benchmarks/results/unseen-c.json

Runs `roofsmith optimize` on a copy of each kernel of `unseen/`, then times good kernels for the same
work (`unseen_library.py`). What is finished is written at once; the same command goes on with what
its file lacks.
"""

from __future__ import annotations

import argparse
import math
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from result_file import Made, made_now, say, write
from roofsmith.domain.campaign import Campaign, Kept, replay
from roofsmith.domain.values import Value
from roofsmith.judge.version import judge_version
from roofsmith.machine.choice import source_for
from roofsmith.store.ledger import JsonlLedger
from unseen_library import Library, Way

FOLDER = Path(__file__).with_name("unseen")
SPARE_S = 240.0
"""For the end of a campaign beyond its budget. Chosen."""
LIBRARY_S = 400.0
"""For good kernels; torch.compile takes most of it. Chosen."""
MEMORY_STAYS = {"MALLOC_MMAP_THRESHOLD_": str(2**31), "MALLOC_TRIM_THRESHOLD_": str(2**33)}
"""Results that PyTorch allocates get pages that it had before, as kernels' outputs are there before."""


class Offer(Value):
    """The first change that a campaign judged."""

    tactic: str
    proposer: str
    verdict: str
    decision: str


class WorkloadRow(Value):
    """One workload: a campaign's own times beside the best good kernel's."""

    workload: str
    baseline_s: float
    final_s: float
    library: Way | None

    def share(self, time_s: float) -> float | None:
        """Of the good kernel's speed, at such a time."""
        known = self.library.time_s if self.library else None
        return None if known is None else known / time_s


class KernelRow(Value):
    """One kernel."""

    name: str
    wall_s: float
    stopped: str
    rounds: int
    kept: tuple[str, ...]
    """Tactics, in order."""
    first: Offer | None
    """None: nothing was offered."""
    speedup: float
    """Geometric mean over workloads, as the shares."""
    share_before: float | None
    share: float | None
    workloads: tuple[WorkloadRow, ...]
    library: Library | None
    kernel: str
    """Source of the final one."""
    failed: tuple[str, ...] = ()


class Means(Value):
    """Geometric means over kernels that have all figures."""

    kernels: int
    speedup: float | None = None
    share_before: float | None = None
    share: float | None = None
    kept_any: int = 0
    first_kept: int = 0


class Unseen(Value):
    """A result file."""

    made: Made
    judge: str
    budget_s: float
    proposer: str
    means: Means
    kernels: tuple[KernelRow, ...] = ()

    def with_row(self, row: KernelRow) -> Unseen:
        """With one more kernel, and means over all."""
        rows = (*(one for one in self.kernels if one.name != row.name), row)
        return self.model_copy(update={"kernels": rows, "means": means(rows)})


def main() -> None:
    """Measure, print, and write the record."""
    made = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    made.add_argument("names", nargs="*", default=["c"], help="folders; c or triton: all of them")
    made.add_argument("--budget-s", type=float, default=90.0, help="of each campaign")
    made.add_argument("--proposer", default="auto", help="as of `roofsmith optimize`")
    made.add_argument("--output", type=Path, required=True)
    options = made.parse_args()
    everything = sorted(one.name for one in FOLDER.iterdir() if (one / "target.yaml").exists())
    names = [n for n in everything if n in options.names or n.split("-")[0] in options.names]
    languages = {name.split("-")[0] for name in names}
    if len(languages) != 1:
        raise SystemExit(f"name kernels of one language, for a file each: {', '.join(everything)}")
    result = earlier(options, languages.pop())
    for name in names:
        if any(one.name == name for one in result.kernels):
            say(f"{name}: is in {options.output}")
            continue
        row = measured(name, options)
        if row is not None:
            write(result := result.with_row(row), options.output)
            print(line(row), flush=True)
    print(result.means.model_dump_json())


def earlier(options: argparse.Namespace, language: str) -> Unseen:
    """What the file holds already, if it is of this device, budget and proposer."""
    made = made_now(source_for("c" if language == "c" else "triton").environment())
    asked = {"budget_s": options.budget_s, "proposer": options.proposer}
    new = Unseen(made=made, judge=judge_version(), means=Means(kernels=0), **asked)
    if not options.output.exists():
        return new
    known = Unseen.model_validate_json(options.output.read_text(encoding="utf-8"))
    if (known.made.environment.device.name, known.budget_s, known.proposer) != (
        made.environment.device.name, new.budget_s, new.proposer,
    ):  # fmt: skip
        raise SystemExit(f"{options.output} is of another device, budget or proposer")
    return known


def measured(name: str, options: argparse.Namespace) -> KernelRow | None:
    """A campaign on a copy without `library.py`, then the good kernels; None without a baseline."""
    with tempfile.TemporaryDirectory(prefix="roofsmith-unseen-") as place:
        copy, ledger = Path(place) / name, Path(place) / "campaign" / "ledger.jsonl"
        hidden = shutil.ignore_patterns("library.py", "__pycache__")
        shutil.copytree(FOLDER / name, copy, ignore=hidden)
        command = [
            *(sys.executable, "-m", "roofsmith", "optimize", str(copy), "--json"),
            *("--budget-s", str(options.budget_s), "--proposer", options.proposer),
            *("--output", str(ledger.parent)),
        ]
        begin = time.monotonic()
        why = ran(command, options.budget_s + SPARE_S)[1]
        wall_s = time.monotonic() - begin
        campaign = replay(JsonlLedger(ledger).events()) if ledger.exists() else None
    if campaign is None or campaign.baseline is None:
        say(f"{name}: no baseline: {why}")
        return None
    program = [sys.executable, str(Path(__file__).with_name("unseen_library.py"))]
    printed, why_not = ran([*program, str(FOLDER / name)], LIBRARY_S)
    library = None if why_not else Library.model_validate_json(printed.splitlines()[-1])
    return row_of(name, campaign, library, wall_s, tuple(filter(None, (why, why_not))))


def ran(command: list[str], limit_s: float) -> tuple[str, str | None]:
    """What a command printed, and why it failed."""
    say(shlex.join(command[1:]))
    try:
        done = subprocess.run(
            command, timeout=limit_s, capture_output=True, text=True, check=False,
            env=os.environ | (MEMORY_STAYS if "unseen_library" in command[1] else {}),
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "", f"killed after {limit_s:.0f} s"
    return done.stdout, done.stderr.strip()[-400:] if done.returncode else None


def row_of(
    name: str, campaign: Campaign, library: Library | None, wall_s: float, failed: tuple[str, ...]
) -> KernelRow:
    """A campaign's figures beside the good kernels'."""
    assert campaign.baseline is not None
    stopped, rounds = campaign.stopped, campaign.rounds
    before = {one.workload: one.time_s for one in campaign.baseline.timings}
    after = before | {o.workload: o.time_s for o in (stopped.final_timings if stopped else ())}
    workloads = tuple(
        WorkloadRow(
            workload=one,
            baseline_s=before[one],
            final_s=after[one],
            library=library.best(one) if library else None,
        )
        for one in before
    )
    return KernelRow(
        name=name,
        wall_s=wall_s,
        stopped=f"{stopped.code}: {stopped.detail}" if stopped else "killed",
        rounds=len(rounds),
        kept=tuple(one.hypothesis.tactic for one in rounds if isinstance(one.decision, Kept)),
        first=Offer(
            tactic=rounds[0].hypothesis.tactic,
            proposer=rounds[0].proposer,
            verdict=rounds[0].judgement.verdict,
            decision=rounds[0].decision.kind,
        )
        if rounds
        else None,
        speedup=geometric(one.baseline_s / one.final_s for one in workloads) or 1.0,
        share_before=geometric(one.share(one.baseline_s) for one in workloads),
        share=geometric(one.share(one.final_s) for one in workloads),
        workloads=workloads,
        library=library,
        kernel=campaign.incumbent.kernel.text,
        failed=failed,
    )


def geometric(values: Iterable[float | None]) -> float | None:
    """The geometric mean; None where a value is missing, or all are."""
    found = list(values)
    logs = [math.log(one) for one in found if one is not None]
    return math.exp(sum(logs) / len(logs)) if logs and len(logs) == len(found) else None


def means(rows: Iterable[KernelRow]) -> Means:
    """Over kernels whose library was timed."""
    whole = [one for one in rows if one.share is not None]
    mean: Callable[[Iterable[float | None]], float | None] = geometric
    return Means(
        kernels=len(whole),
        speedup=mean(one.speedup for one in whole),
        share_before=mean(one.share_before for one in whole),
        share=mean(one.share for one in whole),
        kept_any=sum(bool(one.kept) for one in whole),
        first_kept=sum(one.first is not None and one.first.decision == "kept" for one in whole),
    )


def line(row: KernelRow) -> str:
    """A kernel for people."""
    share = "unknown" if row.share is None else f"{row.share_before:.0%} -> {row.share:.0%}"
    first = f"{row.first.tactic}: {row.first.verdict}" if row.first else "nothing offered"
    told = f"{row.name}: {row.speedup:.2f}x, of a good kernel's speed {share}"
    return f"{told}; {len(row.kept)} of {row.rounds} kept; first {first}"


if __name__ == "__main__":
    main()
