"""Which of two ways to propose takes kernels further, and what does each cost?

    python benchmarks/proposers.py --a recipes,sweep --b 'agent:/home/me/mine.py' \\
        --targets examples/softmax examples/sgemm --repeats 4 --budget-s 300 --out proposers.json

Two values of `--proposer`, or one with two texts for its brief (`--a-notes`, `--b-notes`, such as
what a skill says). Each repeat runs both on every target, one after the other; who begins
alternates (ABBA), so that a machine that drifts favours nobody. A campaign is the command line on
a copy of the target's folder, without tips, and with a cache that holds nothing but the machine's
ceilings.
"""

from __future__ import annotations

import argparse
import math
import os
import shlex
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Literal

from campaigns import empty_place, run_command
from result_file import Made, made_now, mean_interval, say, write
from roofsmith.domain.campaign import Campaign, Round, replay
from roofsmith.domain.device import Environment
from roofsmith.domain.refusal import Refusal
from roofsmith.domain.values import Value
from roofsmith.judge.version import judge_version
from roofsmith.proposers.portfolio import kept_gain
from roofsmith.store.campaign_dir import LEDGER
from roofsmith.store.ledger import JsonlLedger

Side = Literal["a", "b"]


class Arm(Value):
    """One of the two ways."""

    proposers: str
    """As `--proposer` takes them."""
    notes: str | None
    """What the brief says from its user."""


class Try(Value):
    """A round, or a refusal."""

    proposer: str
    decision: Literal["kept", "rolled_back", "refused"]
    gain: float
    """Ratio that was kept; 1 unless it was."""
    wall_s: float
    tokens: int
    cost_usd: float


class Sample(Value):
    """One campaign."""

    target: str
    repeat: int
    side: Side
    was_first: bool
    """Of its pair."""
    speedup: float
    """Of the final kernel over the baseline: measured at the end, where that was more than one
    change, else the one that was kept."""
    wall_s: float
    """Of the whole command."""
    stopped: str
    tries: tuple[Try, ...]


class Figure(Value):
    """One quantity on both sides; pairs are of one target and repeat."""

    quantity: str
    target: str
    """A target, or `all`: what holds for these targets, not for others."""
    a: float
    """Mean; of speedups and seconds, the geometric one."""
    b: float
    is_ratio: bool
    """Whether b is compared with a by their ratio, or by their difference."""
    estimate: float
    """b over a, or b less a."""
    ci: tuple[float, float] | None
    """95%, by Student's distribution, for the mean of the pairs' logarithms or differences; None
    for a single pair."""
    pairs: int


class Proposers(Value):
    """A result file."""

    made: Made
    judge: str
    a: Arm
    b: Arm
    figures: tuple[Figure, ...]
    samples: tuple[Sample, ...]


QUANTITIES: dict[str, tuple[bool, Callable[[Sample], float]]] = {
    "speedup": (True, lambda found: found.speedup),
    "seconds": (True, lambda found: found.wall_s),
    "rounds": (False, lambda found: sum(one.decision != "refused" for one in found.tries)),
    "refusals": (False, lambda found: sum(one.decision == "refused" for one in found.tries)),
    "tokens": (False, lambda found: sum(one.tokens for one in found.tries)),
    "dollars": (False, lambda found: math.fsum(one.cost_usd for one in found.tries)),
}
"""By name: whether sides are compared by their ratio, and how it is read off a campaign."""


def run(options: argparse.Namespace) -> Proposers:
    """Every campaign, in turns; what is there is written after each."""
    a, b = _arm(options.a, options.a_notes), _arm(options.b, options.b_notes)
    result = Proposers(made=made_now(), judge=judge_version(), a=a, b=b, figures=(), samples=())
    with empty_place() as ceilings:
        say("measuring ceilings")
        run_command(["specs", "measure"], os.environ | {"ROOFSMITH_CACHE": str(ceilings)})
        try:
            for target, repeat, side, was_first in turns(options.targets, options.repeats):
                arm = a if side == "a" else b
                campaign, wall_s = _campaign(target, arm, ceilings, options)
                sample = _sample(campaign, wall_s, str(target), repeat, side, was_first=was_first)
                result = _with(result, sample, campaign.started.environment)
                write(result, options.out)
        except KeyboardInterrupt:
            say(f"interrupted after {len(result.samples)} campaigns")
    return result


def _with(result: Proposers, sample: Sample, environment: Environment) -> Proposers:
    """One campaign more, and the device that it ran on."""
    on = {"environment": environment, "fingerprint": environment.fingerprint}
    samples = (*result.samples, sample)
    made = result.made.model_copy(update=on)
    update = {"made": made, "samples": samples, "figures": figures(samples)}
    return result.model_copy(update=update)


def turns(targets: Sequence[Path], repeats: int) -> Iterator[tuple[Path, int, Side, bool]]:
    """Target, repeat, side, and whether it is the first of its pair: AB BA AB ... on each."""
    for repeat in range(repeats):
        for place, target in enumerate(targets):
            order: tuple[Side, Side] = ("b", "a") if (repeat + place) % 2 else ("a", "b")
            yield target, repeat, order[0], True
            yield target, repeat, order[1], False


def _arm(proposers: str, notes: Path | None) -> Arm:
    """A `+` stands for a comma where reports join names so."""
    names = proposers if ":" in proposers else proposers.replace("+", ",")
    return Arm(proposers=names, notes=notes.read_text(encoding="utf-8") if notes else None)


def _campaign(
    target: Path, arm: Arm, ceilings: Path, options: argparse.Namespace
) -> tuple[Campaign, float]:
    """The campaign, and how long the whole command took."""
    with empty_place() as place:
        shutil.copytree(ceilings, place / "cache")
        shutil.copytree(_folder(target), place / "target", symlinks=True)
        copy = place / "target" / target.relative_to(_folder(target))
        arguments = command_line(copy, arm, options)
        say(shlex.join(["roofsmith", *arguments]))
        here = {"ROOFSMITH_CACHE": str(place / "cache"), "ROOFSMITH_EXPERIENCE": "none"}
        begin = time.monotonic()
        run_command([*arguments, "--output", str(place / "campaign")], os.environ | here)
        wall_s = time.monotonic() - begin
        campaign = replay(JsonlLedger(place / "campaign" / LEDGER).events())
    if campaign is None or campaign.stopped is None:
        raise SystemExit(f"{target}: the campaign has no end")
    say(f"  {wall_s:.0f} s, {campaign.total_speedup:.2f}x: {campaign.stopped.detail}")
    return campaign, wall_s


def command_line(target: Path, arm: Arm, options: argparse.Namespace) -> list[str]:
    """Of one campaign, but for where it goes."""
    limits = {
        "--notes": arm.notes,
        "--budget-s": options.budget_s,
        "--max-iterations": options.max_iterations,
        "--max-tokens": options.max_tokens,
        "--max-cost": options.max_cost,
    }
    given = [text for flag, value in limits.items() if value is not None for text in (flag, value)]
    return ["optimize", str(target), "--proposer", arm.proposers, *map(str, given)]


def _folder(target: Path) -> Path:
    return target if target.is_dir() else target.parent


def _sample(
    campaign: Campaign, wall_s: float, target: str, repeat: int, side: Side, *, was_first: bool
) -> Sample:
    stopped = campaign.stopped
    whole = stopped.against_baseline if stopped is not None else None
    measured = whole.comparison if whole is not None else None
    return Sample(
        target=target, repeat=repeat, side=side, was_first=was_first, wall_s=wall_s,
        speedup=campaign.total_speedup if measured is None else measured.overall.speedup,
        stopped="" if stopped is None else stopped.code,
        tries=tuple(map(_try, campaign.proposed)),
    )  # fmt: skip


def _try(past: Round | Refusal) -> Try:
    return Try(
        proposer=past.proposer,
        decision="refused" if isinstance(past, Refusal) else past.decision.kind,
        gain=kept_gain(past),
        wall_s=past.wall_s,
        tokens=past.tokens,
        cost_usd=past.cost_usd,
    )


def figures(samples: Sequence[Sample]) -> tuple[Figure, ...]:
    """Of every quantity, over all targets and on each; what has no partner yet is left out."""
    by_place = {(s.target, s.repeat, s.side): s for s in samples}
    pairs = [
        (one, by_place[one.target, one.repeat, "b"])
        for one in samples
        if one.side == "a" and (one.target, one.repeat, "b") in by_place
    ]
    targets = list(dict.fromkeys(a.target for a, _ in pairs))
    shown = ["all", *targets] if len(targets) > 1 else targets
    return tuple(
        _figure(quantity, target, [p for p in pairs if target in ("all", p[0].target)])
        for quantity in QUANTITIES
        for target in shown
    )


def _figure(quantity: str, target: str, pairs: Sequence[tuple[Sample, Sample]]) -> Figure:
    is_ratio, of = QUANTITIES[quantity]
    there, back = (math.log, math.exp) if is_ratio else (float, float)
    a, b = ([there(of(pair[side])) for pair in pairs] for side in (0, 1))
    gained = [after - before for before, after in zip(a, b, strict=True)]
    ci = mean_interval(gained) if len(gained) > 1 else None
    return Figure(
        quantity=quantity, target=target, a=back(fmean(a)), b=back(fmean(b)), is_ratio=is_ratio,
        estimate=back(fmean(gained)), ci=(back(ci[0]), back(ci[1])) if ci else None,
        pairs=len(pairs),
    )  # fmt: skip


def table(result: Proposers) -> str:
    """The result for people."""
    lines = [
        f"a: {result.a.proposers}{' with notes' if result.a.notes else ''}",
        f"b: {result.b.proposers}{' with notes' if result.b.notes else ''}",
        f"{'':<10} {'a':>10} {'b':>10}   b over a, or b less a [95%]",
    ]
    for found in result.figures:
        sign, unit = ("", "x") if found.is_ratio else ("+", "")
        said = f"{found.estimate:{sign}.4g}{unit}"
        if found.ci is not None:
            said += " [" + ", ".join(f"{bound:{sign}.4g}" for bound in found.ci) + "]"
        where = f"{found.target}, {found.pairs} pair{'s' * (found.pairs > 1)}"
        lines.append(f"{found.quantity:<10} {found.a:>10.4g} {found.b:>10.4g}   {said}  ({where})")
    return "\n".join(lines)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    for side in ("a", "b"):
        made.add_argument(f"--{side}", required=True, metavar="PROPOSER",
                          help="as `roofsmith optimize --proposer` takes it")  # fmt: skip
        made.add_argument(f"--{side}-notes", type=Path, metavar="FILE",
                          help="what its brief says from its user, such as a skill")  # fmt: skip
    made.add_argument("--targets", nargs="+", type=Path, required=True,
                      help="target.yaml, or its folder, which holds all that it names")  # fmt: skip
    made.add_argument("--repeats", type=int, default=3)
    made.add_argument("--budget-s", type=float, help="of every campaign")
    made.add_argument("--max-iterations", type=int, help="of every campaign")
    made.add_argument("--max-tokens", type=int, help="of every campaign")
    made.add_argument("--max-cost", type=float, metavar="USD", help="of every campaign")
    made.add_argument("--out", type=Path, required=True)
    return made


def main() -> None:
    """Run and print."""
    options = parser().parse_args()
    print(table(run(options)))
    print(f"wrote {options.out}")


if __name__ == "__main__":
    main()
