"""Campaigns over a folder of targets, one after another: each in processes of its own."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path

from roofsmith.analysis.spending import spendings
from roofsmith.api.problem_sets import weight_of
from roofsmith.api.reading import read_campaign, read_suite
from roofsmith.domain.campaign import Campaign
from roofsmith.domain.suite import Suite, SuiteRow
from roofsmith.errors import RoofsmithError, UsageError
from roofsmith.report.summarize import summarize
from roofsmith.shell import run_shell, tail
from roofsmith.store.campaign_dir import RESULTS, held
from roofsmith.store.files import storage_errors, write_file
from roofsmith.targets.place import FILE_NAME
from roofsmith.wording import some_of

LOGS, LOCK = ".logs", ".suite.lock"
"""Beside the campaigns: no target of a set is called so, nor with the `@` of a repeat."""
TOO_SHORT = "the budget was too short for a single round"
SLACK = 3.0
"""Times the budget, and `SLACK_S`, after which a campaign hangs: imports, a baseline, an end."""
SLACK_S = 600.0


@dataclass(frozen=True, slots=True)
class SuiteRun:
    """What somebody asks for."""

    place: Path
    """A target's folder, or one with such folders."""
    output: Path
    proposers: str = "auto"
    budget_s: float = 300.0
    repeats: int = 1
    only: str = "*"
    again: bool = False
    """Whether those that failed, hung or had too short a budget go on, with a larger one, too."""
    on_event: str | None = None
    """The command that each campaign tells what matters."""


def run_suite(
    wanted: SuiteRun, tell: Callable[[SuiteRow], None], say: Callable[[str], None]
) -> Suite:
    """Run what hasn't ended yet, and write `suite.json` after each campaign.

    Args:
        wanted: which targets, and what each may take.
        tell: hears of each row as it ends, also of those that were there before.
        say: hears in words which campaign begins, and of commands that failed when they were told.

    Raises:
        UsageError: there is no target, or the folder holds another suite.
        CampaignBusyError: another process works in the folder; says which.
        StorageError: the folder can't be written.
    """
    targets = [*_targets(wanted.place)]
    if not targets:
        lacks = f"holds no folder with a {FILE_NAME}" if wanted.place.exists() else "isn't there"
        raise UsageError(
            f"{wanted.place} {lacks}",
            hint="roofsmith import FORMAT PATH --output DIR writes such folders",
        )
    problems = [one for one in targets if fnmatch(one.name, wanted.only)]
    if not problems:
        raise UsageError(
            f"none of {len(targets)} targets in {wanted.place} is called {wanted.only}",
            hint=some_of([one.name for one in targets]),
        )
    with storage_errors("make", wanted.output):
        wanted.output.mkdir(parents=True, exist_ok=True)
    with held(wanted.output, LOCK):
        return _ran(wanted, problems, tell, say)


def _ran(
    wanted: SuiteRun,
    problems: Sequence[Path],
    tell: Callable[[SuiteRow], None],
    say: Callable[[str], None],
) -> Suite:
    suite = _begun(wanted, tuple(one.name for one in problems))
    done = {(row.problem, row.repeat): row for row in suite.rows}
    for repeat in range(1, wanted.repeats + 1):
        for number, problem in enumerate(problems, 1 + (repeat - 1) * len(problems)):
            row = done.get((problem.name, repeat))
            if row is None or (wanted.again and _may_go_on(row)):
                campaign = _campaign(problem, repeat)
                say(f"{campaign} begins, {number} of {len(problems) * wanted.repeats}")
                given = wanted.budget_s if row is not None else suite.budget_s
                row = _row(replace(wanted, budget_s=given), problem, repeat)
                if given != suite.budget_s:
                    row = row.model_copy(update={"budget_s": given})
                for line in _untold(wanted.output / LOGS / f"{campaign}.log"):
                    say(f"{campaign}: {line}")
                done[problem.name, repeat] = row
                suite = suite.model_copy(update={"rows": tuple(done.values())})
                _write(suite, wanted.output)
            tell(row)
    return suite


def _may_go_on(row: SuiteRow) -> bool:
    return row.verdict in ("failed", "hung") or row.reason.startswith(TOO_SHORT)


def _untold(log: Path) -> dict[str, None]:
    """What a campaign said of its `on_event`, each once."""
    with log.open(encoding="utf-8", errors="replace") as lines:
        return dict.fromkeys(line.rstrip() for line in lines if line.startswith("--on-event: "))


def _targets(place: Path) -> Iterator[Path]:
    if (place / FILE_NAME).is_file():
        yield place.absolute()
    elif place.is_dir():
        yield from (one.parent.absolute() for one in sorted(place.glob(f"*/{FILE_NAME}")))


def _begun(wanted: SuiteRun, names: tuple[str, ...]) -> Suite:
    if not (wanted.output / RESULTS).exists():
        return Suite(
            proposer=wanted.proposers, budget_s=wanted.budget_s, repeats=wanted.repeats,
            problems=len(names), names=names,
        )  # fmt: skip
    before = read_suite(wanted.output)
    is_raised = wanted.again and wanted.budget_s > before.budget_s
    is_other = wanted.budget_s != before.budget_s and not is_raised
    if is_other or wanted.proposers != before.proposer:
        raise UsageError(
            f"{wanted.output} holds a suite of {before.proposer}, {before.budget_s:g} s each, and"
            " rows of two kinds can't be compared",
            hint="--output OTHER, or the same --proposer and --budget-s to go on with it; --again"
            " may give a larger --budget-s to those whose was too short",
        )
    return before.model_copy(
        update={"repeats": wanted.repeats, "problems": len(names), "names": names}
    )


def _write(suite: Suite, folder: Path) -> None:
    write_file(folder / RESULTS, (suite.model_dump_json(indent=2) + "\n").encode("utf-8"))


def _campaign(problem: Path, repeat: int) -> str:
    return problem.name if repeat == 1 else f"{problem.name}@{repeat}"


def _row(wanted: SuiteRun, problem: Path, repeat: int) -> SuiteRow:
    name = _campaign(problem, repeat)
    directory = (wanted.output / name).absolute()
    log = (wanted.output / LOGS / f"{name}.log").absolute()
    ran = run_shell(
        _command(wanted, problem, directory), directory=Path.cwd(), environment={},
        deadline_s=wanted.budget_s * SLACK + SLACK_S, log=log,
    )  # fmt: skip
    row = SuiteRow(
        problem=problem.name, repeat=repeat, verdict="failed", seconds=ran.wall_s,
        weight=weight_of(problem), campaign=name,
    )  # fmt: skip
    try:
        campaign = read_campaign(directory)
    except RoofsmithError as error:
        said = [line for line in tail(log) if line.startswith("roofsmith: ")]
        reason = said[-1].removeprefix("roofsmith: ") if said else error.message
        return row.model_copy(update={"reason": f"{reason}; {log}"})
    if ran.stopped is not None:
        return row.model_copy(update={"verdict": "hung", "reason": f"{ran.stopped}; {log}"})
    if not ran.passed and campaign.stopped is None:
        return row.model_copy(update={"reason": f"it {ran.ending}; {log}"})
    return _filled(row, campaign)


def _command(wanted: SuiteRun, problem: Path, directory: Path) -> str:
    here = [sys.executable, "-P", "-m", "roofsmith"]
    if (directory / "ledger.jsonl").exists():
        words = ["resume", str(directory)]
    else:
        words = ["optimize", str(problem), "--output", str(directory)]
    given = ["--proposer", wanted.proposers, "--budget-s", f"{wanted.budget_s:g}"]
    told = [] if wanted.on_event is None else ["--on-event", wanted.on_event]
    return shlex.join([*here, *words, *given, *told])


def _shortness(campaign: Campaign, tried: int) -> str:
    """Why its figure says little; empty: it doesn't."""
    ended = campaign.stopped
    if ended is None or ended.code != "budget" or tried:
        return ""
    return f"{TOO_SHORT}: {ended.detail}"


def _filled(row: SuiteRow, campaign: Campaign) -> SuiteRow:
    found = summarize(campaign)
    spent = spendings(campaign)
    lead = found.measured if found.is_direct and found.measured is not None else found.speedup
    whole = [
        one.speedup.value
        for one in found.yardsticks
        if one.workload is None and one.speedup is not None
    ]
    costs = [one.cost_usd for one in spent]
    return row.model_copy(
        update={
            "verdict": "gained" if campaign.kept else "nothing kept",
            "reason": _shortness(campaign, found.totals.tried),
            "speedup": 1.0 if lead is None else lead.value,
            "interval": None if lead is None else lead.ci,
            "over_pytorch": min(whole, default=None),
            "roofline_fraction": found.fraction,
            "rounds": found.totals.tried,
            "tokens": sum(one.tokens or 0 for one in spent),
            "cost_usd": None if None in costs else sum(one for one in costs if one is not None),
        }
    )
