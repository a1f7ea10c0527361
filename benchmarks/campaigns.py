"""Whole campaigns: how long, how much faster, how near the roofline, how much overhead.

    python benchmarks/campaigns.py demo sgemm attention --ceilings fresh \\
        --out benchmarks/results/campaigns.json

Each campaign is one run of the command line in an empty directory with an empty cache. Afterwards
the final kernel and the naive one are judged against each other once more, directly: the product of
the accepted rounds is an estimate, this is a measurement.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from result_file import Made, Times, made_now, pair_times, say, write
from roofsmith.analysis.fractions import fraction_of_timings
from roofsmith.api.wiring import open_target
from roofsmith.config import Settings
from roofsmith.domain.campaign import Campaign, Event, Round, replay
from roofsmith.domain.comparison import Timing
from roofsmith.domain.values import Value
from roofsmith.engine.progress import overhead_fraction
from roofsmith.judge.version import judge_version
from roofsmith.ports import Scope, required
from roofsmith.store.ledger import JsonlLedger
from roofsmith.testing.observer import SilentObserver

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ("softmax", "sgemm", "attention")
Ceilings = Literal["fresh", "warm"]


class RoundRow(Value):
    """One round, without its samples; the ledger of the campaign has those."""

    round: int
    tactic: str
    statement: str
    outcome: str
    verdict: str
    decision: str
    speedup: float | None
    ci: tuple[float, float] | None
    pairs: int
    roofline_fraction: float | None
    total_speedup: float
    wall_s: float
    kernel_s: float


class WorkloadPairs(Value):
    """Valid pairs of naive against final kernel, on one workload."""

    workload: str
    pairs_ns: tuple[Times, ...]


class Direct(Value):
    """The final kernel against the naive one, judged at once."""

    verdict: str
    speedup: float | None
    ci: tuple[float, float] | None
    workloads: tuple[WorkloadPairs, ...]


class CampaignRow(Value):
    """One campaign."""

    name: str
    command: str
    wall_s: float
    """Of the whole command: start of the program to the report on disk."""
    recorded_s: float
    """The campaign's own account of it."""
    baseline_s: float
    """Machine, ceilings, roofline, and the measurement of the naive kernel."""
    overhead_fraction: float | None
    stopped: str
    total_speedup: float
    """The product of the accepted rounds."""
    roofline_fraction: float | None
    """Of the final kernel, measured on its own: geometric mean over workloads."""
    baseline: tuple[Timing, ...]
    final: tuple[Timing, ...]
    rounds: tuple[RoundRow, ...]
    direct: Direct
    final_kernel: str
    """Its source."""
    final_flags: tuple[str, ...]


class Campaigns(Value):
    """A result file."""

    made: Made
    judge: str | None = None
    """Its version, `judge_version`; None: from before this was kept."""
    ceilings: Ceilings
    """warm: they were measured before the clock started."""
    campaigns: tuple[CampaignRow, ...]


def run(options: argparse.Namespace) -> Campaigns:
    """Every campaign that was asked for, one after the other."""
    result = Campaigns(
        made=made_now(), judge=judge_version(), ceilings=options.ceilings, campaigns=()
    )
    try:
        for name in options.names:
            rows = (*result.campaigns, _campaign(name, options))
            result = result.model_copy(update={"campaigns": rows})
            write(result, options.out)
    except KeyboardInterrupt:
        say(f"interrupted after {len(result.campaigns)} campaigns")
    return result


def _campaign(name: str, options: argparse.Namespace) -> CampaignRow:
    with empty_place() as place:
        environment = os.environ | {"ROOFSMITH_CACHE": str(place / "cache")}
        if options.ceilings == "warm":
            say(f"{name}: measuring ceilings")
            run_command(["specs", "measure", *_threads(options)], environment)
        directory = place / name
        arguments = command_line(name, options)
        say(f"{name}: {shlex.join(['roofsmith', *arguments])}")
        begin = time.monotonic()
        run_command([*arguments, "--output", str(directory), "--json"], environment)
        wall_s = time.monotonic() - begin
        if options.keep is not None:
            shutil.copytree(directory, options.keep / name)
        events = JsonlLedger(directory / "ledger.jsonl").events()
        say(f"{name}: {wall_s:.0f} s; now the final kernel against the naive one")
        return _row(name, arguments, wall_s, events, Settings(place / "cache", place))


def command_line(name: str, options: argparse.Namespace) -> list[str]:
    """Of the command line. `demo` takes no limits: it is what strangers run."""
    if name == "demo":
        return ["demo", *_threads(options)]
    limits = {"--budget-s": options.budget_s, "--max-iterations": options.max_iterations}
    given = [text for flag, value in limits.items() if value is not None for text in (flag, value)]
    return ["optimize", f"examples/{name}", *map(str, given), *_threads(options)]


def _threads(options: argparse.Namespace) -> list[str]:
    return [] if options.threads is None else ["--threads", str(options.threads)]


def run_command(arguments: list[str], environment: dict[str, str]) -> None:
    """Run the command line; its failure ends the benchmark."""
    program = [sys.executable, "-c", "from roofsmith.cli import main; main()"]
    done = subprocess.run(
        [*program, *arguments],
        cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        check=False,
    )  # fmt: skip
    if done.returncode != 0:
        command = shlex.join(["roofsmith", *arguments])
        raise SystemExit(f"{command} ended with {done.returncode}:\n{done.stderr[-2000:]}")


@contextmanager
def empty_place() -> Iterator[Path]:
    """A folder outside every git repository, so that a campaign's branch is its own."""
    place = Path(tempfile.mkdtemp(prefix="roofsmith-campaign-"))
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _row(
    name: str, arguments: list[str], wall_s: float, events: list[Event], settings: Settings
) -> CampaignRow:
    campaign = replay(events)
    if campaign is None or campaign.baseline is None or campaign.stopped is None:
        raise SystemExit(f"{name}: the campaign ended without a baseline or a final measurement")
    baseline, stopped = campaign.baseline, campaign.stopped
    incumbent = campaign.incumbent
    return CampaignRow(
        name=name,
        command=shlex.join(["roofsmith", *arguments]),
        wall_s=wall_s,
        recorded_s=baseline.wall_s + sum(r.wall_s for r in campaign.rounds) + stopped.wall_s,
        baseline_s=baseline.wall_s,
        overhead_fraction=overhead_fraction(events),
        stopped=f"{stopped.code}: {stopped.detail}",
        total_speedup=campaign.total_speedup,
        roofline_fraction=fraction_of_timings(stopped.final_timings),
        baseline=baseline.timings,
        final=stopped.final_timings,
        rounds=tuple(map(_round_row, campaign.rounds)),
        direct=_direct(campaign, settings),
        final_kernel=incumbent.kernel.text,
        final_flags=incumbent.build.flags,
    )


def _round_row(round_: Round) -> RoundRow:
    judgement = round_.judgement
    overall = judgement.comparison.overall if judgement.comparison else None
    return RoundRow(
        round=round_.round,
        tactic=round_.hypothesis.tactic,
        statement=round_.hypothesis.statement,
        outcome=judgement.outcome.kind,
        verdict=judgement.verdict,
        decision=round_.decision.kind,
        speedup=overall.speedup if overall else None,
        ci=overall.ci if overall else None,
        pairs=overall.pairs if overall else 0,
        roofline_fraction=round_.roofline_fraction,
        total_speedup=round_.total_speedup,
        wall_s=round_.wall_s,
        kernel_s=round_.kernel_s,
    )


def _direct(campaign: Campaign, settings: Settings) -> Direct:
    target = campaign.started.target
    with open_target(target, settings, SilentObserver()) as opened:
        scope = Scope(built_before=True)
        found = required(
            opened.evaluator.evaluate(campaign.incumbent, target.baseline, scope).judgement
        )
    counting = found.confirmation or found.samples
    overall = found.comparison.overall if found.comparison else None
    return Direct(
        verdict=found.verdict,
        speedup=overall.speedup if overall else None,
        ci=overall.ci if overall else None,
        workloads=tuple(
            WorkloadPairs(
                workload=workload.label,
                pairs_ns=pair_times([s for s in counting if s.workload == workload.label]),
            )
            for workload in target.workloads
        ),
    )


def table(result: Campaigns) -> str:
    """The result for people."""
    lines = [f"{'campaign':<10} {'wall':>7} {'overhead':>8} {'roofline':>8}  final over naive"]
    for row in result.campaigns:
        direct = row.direct
        ratio = "not measured"
        if direct.speedup is not None and direct.ci is not None:
            ratio = f"{direct.speedup:.2f}x [{direct.ci[0]:.2f}, {direct.ci[1]:.2f}]"
        lines.append(
            f"{row.name:<10} {row.wall_s:>5.0f} s {_share(row.overhead_fraction):>8}"
            f" {_share(row.roofline_fraction):>8}  {ratio}  ({row.stopped})"
        )
        lines += [
            f"    #{r.round:<3}{r.decision:<12} {r.verdict:<13}"
            f"{'' if r.speedup is None else f'{r.speedup:.2f}x':>8} {r.wall_s:>5.1f} s"
            f"  {r.statement}"
            for r in row.rounds
        ]
    return "\n".join(lines)


def _share(fraction: float | None) -> str:
    return "unknown" if fraction is None else f"{fraction:.1%}"


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    made.add_argument("names", nargs="+", choices=("demo", *EXAMPLES), metavar="NAME",
                      help=f"demo, {', '.join(EXAMPLES)}")  # fmt: skip
    made.add_argument("--ceilings", choices=("fresh", "warm"), default="fresh")
    made.add_argument("--budget-s", type=float, help="of every campaign but demo")
    made.add_argument("--max-iterations", type=int, help="of every campaign but demo")
    made.add_argument("--threads", type=int)
    made.add_argument("--keep", type=Path, metavar="DIR", help="copy the campaign directories here")
    made.add_argument("--out", type=Path, required=True)
    return made


def main() -> None:
    """Run and print."""
    made = parser()
    options = made.parse_args()
    taken = [options.keep / name for name in options.names if options.keep is not None]
    if found := next((place for place in taken if place.exists()), None):
        made.error(f"{found} exists: name another folder to --keep the campaigns in")
    print(table(run(options)))
    print(f"wrote {options.out}")


if __name__ == "__main__":
    main()
