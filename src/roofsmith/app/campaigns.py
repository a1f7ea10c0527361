"""Whole campaigns: start one, go on with one, take a change from outside."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from pydantic import ValidationError

from roofsmith.app.audit import recorded, sources_for
from roofsmith.app.citing import require_cited
from roofsmith.app.doctor import Examination, examine
from roofsmith.app.subjects import bundled_example
from roofsmith.app.telling import Change, contract_of, keep_told, told_candidate
from roofsmith.app.wiring import (
    DEFAULT_PROPOSERS,
    LateLineage,
    OpenTarget,
    make_proposer,
    open_target,
    proposers_of,
)
from roofsmith.config import Settings
from roofsmith.devices.processor_time import processor_time
from roofsmith.domain.campaign import Campaign, Round, Started, Stopped, replay
from roofsmith.domain.ending import StopCode
from roofsmith.domain.measure import TIME, Measure
from roofsmith.domain.proposal import Hypothesis, Proposal, RepairTask
from roofsmith.domain.standing import limits_in_force
from roofsmith.domain.target import StopPolicy, Target
from roofsmith.engine.diagnosing import require_material
from roofsmith.engine.loop import Engine
from roofsmith.engine.progress import overhead_fraction, spent_s
from roofsmith.engine.repairing import repair_task, require_repair_task
from roofsmith.engine.stopping import Stop
from roofsmith.errors import UsageError
from roofsmith.evaluator.steal import steal_note
from roofsmith.ports import Brief, Observer, Proposer
from roofsmith.report.campaign_files import render_campaign
from roofsmith.store.campaign_dir import CampaignDirectory
from roofsmith.store.ledger import JsonlLedger
from roofsmith.store.lineage_place import remembered
from roofsmith.store.sources import read_text
from roofsmith.store.target_file import load_target, load_target_file
from roofsmith.store.target_schema import plain_name
from roofsmith.store.told import drop

DEMO_BUDGET_S = 102.0
"""Leaves room in two minutes for the final measurement and the report."""
LOOK_S = 30.0
"""For the machine to say what it is before a campaign begins. Nobody waits for that as for doctor's
answer, and without it there is no campaign: a busy machine must not be taken for one that hangs."""
REPORT = "report.html"


@dataclass(frozen=True, slots=True)
class Plan:
    """A campaign that somebody asks for."""

    target: Path
    proposers: str = DEFAULT_PROPOSERS
    max_iterations: int | None = None
    budget_s: float | None = None
    max_tokens: int | None = None
    threads: int | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """In place of a target's own; None: the target's stays."""

    max_iterations: int | None = None
    budget_s: float | None = None
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class ToldRounds:
    """What became of a change from outside."""

    rounds: tuple[Round, ...]
    """Its own, and that of its dispatch, if one followed."""
    stopped: Stopped | None
    """Why the campaign has ended with it, if it has."""
    measure: Measure = TIME
    """What was measured."""


@dataclass(frozen=True, slots=True)
class Finished:
    """What a run of a campaign came to."""

    campaign: Campaign
    directory: Path
    branch: str | None
    """Where the accepted rounds are commits; None without git."""
    wall_s: float
    """Over all runs of the campaign."""
    overhead_fraction: float | None
    """Share of it that was not building, running or profiling kernels."""
    notes: tuple[str, ...] = ()

    @property
    def report(self) -> Path:
        """The page to open."""
        return self.directory / REPORT


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a campaign is, for a proposer outside."""

    directory: Path
    brief: Brief
    stop: Stop | None
    """The stop condition that holds, if one does."""
    contract: str
    """What a change may be, and how to tell it."""


def demo(directory: Path, threads: int | None, settings: Settings, observer: Observer) -> Finished:
    """A campaign on the bundled softmax, over in two minutes on two processors."""
    overrides = {"stop.budget_s": DEMO_BUDGET_S, "threads": threads}
    with bundled_example("softmax") as folder:
        target = load_target(folder, overrides=overrides)
    # one workload that doesn't fit in a cache: the whole story in the time people have
    target = target.model_copy(update={"workloads": target.workloads[:1]})
    proposer = make_proposer("recipes", settings)  # a sweep would take a quarter of the time
    return _start(target, None, proposer, directory, settings, observer)


def optimize(plan: Plan, directory: Path, settings: Settings, observer: Observer) -> Finished:
    """A new campaign in a new directory.

    Raises:
        TargetError: the target, or what it names, can't be used.
        BaselineError: its kernel doesn't pass.
        CampaignBusyError: another process works in the directory.
    """
    overrides = {
        "stop.max_iterations": plan.max_iterations,
        "stop.budget_s": plan.budget_s,
        "stop.max_tokens": plan.max_tokens,
        "threads": plan.threads,
    }
    loaded = load_target_file(plan.target, overrides=overrides)
    proposer = make_proposer(plan.proposers, settings)
    return _start(loaded.target, loaded.kernel_path, proposer, directory, settings, observer)


def resume(
    directory: Path,
    proposers: str | None,
    limits: Limits,
    settings: Settings,
    observer: Observer,
) -> Finished:
    """Go on where the ledger ends.

    Args:
        directory: the campaign's.
        proposers: None: those that it began with.
        limits: that are to be other than the target's.
        settings: where caches are.
        observer: hears what happens.

    Raises:
        LedgerError: a record was changed.
        MachineError: this is another machine.
    """
    with CampaignDirectory.open(directory) as files:
        known = _campaign_in(files)
        started = known.started
        proposer = make_proposer(proposers or proposers_of(started.proposers), settings)
        policy = _limited(limits_in_force(known), limits)
        with _going_on(started, settings, observer) as opened:
            return _run(opened, files, proposer, started.campaign, None, policy)


def ask(directory: Path, settings: Settings, observer: Observer) -> Standing:
    """What the next change may build on; after rollbacks in a row, that is gathered first.

    Raises:
        UsageError: the baseline was not measured yet.
    """
    with _opened(directory, settings, observer) as engine:
        if engine.campaign.baseline is None:
            raise UsageError(
                "this campaign has no baseline yet",
                hint=f"roofsmith resume {shlex.quote(str(directory))}",
            )
        engine.heed_masks()
        engine.diagnose()
        return Standing(
            directory=directory,
            brief=engine.brief(),
            stop=engine.stop_condition(),
            contract=contract_of(engine.campaign.started.target),
        )


def tell(
    directory: Path, change: Change, limits: Limits, settings: Settings, observer: Observer
) -> ToldRounds:
    """One round with a kernel from outside; if its classes diverge, a second with its dispatch.

    Args:
        directory: the campaign's.
        change: the kernel, and what it is about.
        limits: that are to be other than those in force.
        settings: where caches are.
        observer: hears what happens.

    Raises:
        UsageError: the kernel can't be read, or is the incumbent; there is no such class; there is
            nothing to repair, or the repair is of another idea; the hypothesis is missing, or holds
            a hardware number without a citation, or another one than it cites; nobody asked what
            the last rollbacks show; a limit allows no further round.
    """
    if not change.kernel.is_dir():
        read_text(change.kernel, "kernel", may_be_empty=True)
    if change.hypothesis is None and not change.repair:
        raise UsageError(
            "there is no hypothesis", hint="say what changed and why: --hypothesis TEXT"
        )
    known, _ = recorded(directory)
    # Of a repair as well, which may say something of a counter.
    require_cited(_hypothesis(change, None), sources_for(known, settings))
    with _opened(directory, settings, observer, limits) as engine:
        campaign = engine.campaign
        _require_class(change.target_class or "global", campaign)
        if campaign.baseline is not None:
            _require_room(engine.limit_reached(repair=change.repair), directory)
        task = None  # what is refused leaves no record
        if change.repair:
            task = require_repair_task(campaign)
        else:
            require_material(campaign, shlex.quote(str(directory)))
        before = campaign.incumbent if task is None else task.candidate
        # Before the incumbent is put into the worktree: the change may have been made there.
        candidate = told_candidate(change.kernel, change.flags, before, campaign.started.target)
        keep_told(change, directory, candidate, before, campaign.started.target)
        engine.take_up()
        engine.split()  # due since a crash
        held = engine.stop_condition()
        told = engine.round(
            Proposal(
                hypothesis=_hypothesis(change, task),
                candidate=candidate,
                repair=change.repair,
                tokens=change.tokens,
            )
        )
        drop(directory, candidate.id)
        split = engine.split()
        stop = engine.stop_condition()
        is_news = stop is not None and (held is None or held.code != stop.code or change.repair)
        if stop is not None and is_news and repair_task(engine.campaign) is None:
            engine.finish(stop)
        rounds = (told,) if split is None else (told, split)
        return ToldRounds(rounds, engine.campaign.stopped, engine.campaign.started.target.measure)


def _require_room(stop: Stop | None, directory: Path) -> None:
    if stop is None:
        return
    restart = f"roofsmith memory restart {shlex.quote(str(directory))}"
    ways: dict[StopCode, str] = {
        "max_iterations": "allow more with --max-iterations N",
        "budget": "allow more with --budget-s S",
        "tokens": "allow more with --max-tokens N",
        "regressions": f"have it forget a half of its rounds: {restart}",
    }
    raise UsageError(f"this campaign has no room for a round: {stop.detail}", hint=ways[stop.code])


def _hypothesis(change: Change, task: RepairTask | None) -> Hypothesis:
    """What the change is about; of a repair, the idea's own, but for what is said anew."""
    said: dict[str, object] = {
        "statement": change.hypothesis,
        "target_class": change.target_class,
        "category": change.category,
        "predicted_speedup": change.predicted_speedup,
        "expected_counter": change.expected_counter,
        "expected_delta": change.expected_delta,
    }
    told = {name: value for name, value in said.items() if value is not None}
    if task is not None:
        return task.hypothesis.model_copy(update=told)
    origin = {"rationale": "proposed from outside", "tactic": "external"}
    return Hypothesis.model_validate({"statement": "", **origin, **told})


def render_report(directory: Path) -> Finished:
    """Write every rendered file of a campaign again."""
    with CampaignDirectory.open(directory) as files:
        campaign = _campaign_in(files)
        files.write(render_campaign(campaign))
        place = remembered(files.directory)
        return _finished(campaign, files, place.branch if place else None, ())


def has_campaign(directory: Path) -> bool:
    """Whether there is something to resume."""
    return bool(JsonlLedger(directory / "ledger.jsonl").events())


def _start(
    target: Target,
    kernel_path: Path | None,
    proposer: Proposer,
    directory: Path,
    settings: Settings,
    observer: Observer,
) -> Finished:
    new = [folder for folder in (directory, *directory.parents) if not folder.exists()]
    with CampaignDirectory.create(directory) as files:
        try:
            # Before any process of ours is on the GPU, which a container's driver may call others'.
            seen = examine(settings, target, deadline_s=LOOK_S)
            with open_target(target, settings, observer) as opened:
                name = plain_name(files.directory.name)
                return _run(opened, files, proposer, name, kernel_path, None, seen)
        finally:
            # A campaign without a baseline holds nothing that another start wouldn't find again.
            if new and not _has_baseline(files):
                shutil.rmtree(files.directory, ignore_errors=True)
                with suppress(OSError):  # others have something there by now
                    for folder in new[1:]:
                        folder.rmdir()


def _run(
    opened: OpenTarget,
    files: CampaignDirectory,
    proposer: Proposer,
    name: str,
    kernel_path: Path | None,
    limits: StopPolicy | None,
    seen: Examination | None = None,
) -> Finished:
    lineage = LateLineage(files.directory, name, opened.target.baseline, kernel_path)
    parts = replace(opened.parts(proposer, files, lineage), examination=seen)
    engine = Engine(parts, name, limits)
    begin = processor_time()
    campaign = engine.run()
    notes = (*lineage.notes, *steal_note(begin, processor_time()))
    return _finished(campaign, files, lineage.branch, notes)


@contextmanager
def _opened(
    directory: Path, settings: Settings, observer: Observer, limits: Limits | None = None
) -> Iterator[Engine]:
    """A campaign that has begun, for steps by hand."""
    with CampaignDirectory.open(directory) as files:
        known = _campaign_in(files)
        started = known.started
        policy = _limited(limits_in_force(known), limits or Limits())
        lineage = LateLineage(files.directory, started.campaign, started.target.baseline, None)
        with _going_on(started, settings, observer) as opened:
            proposer = make_proposer("none", settings)
            parts = opened.parts(proposer, files, lineage)
            yield Engine(parts, started.campaign, policy)


def _going_on(
    started: Started, settings: Settings, observer: Observer
) -> AbstractContextManager[OpenTarget]:
    """Open the target of a campaign that has begun: on any GPU of the product that it began on.

    AMD's tools and HIP don't always call a product alike: there, the engine refuses another one.
    """
    device = started.environment.device
    product = device.name if device.kind == "nvidia" else None
    return open_target(started.target, settings, observer, product)


def _require_class(name: str, campaign: Campaign) -> None:
    names = [found.name for found in campaign.classes]
    if name != "global" and name not in names:
        raise UsageError(
            f"this campaign has no config class called {name!r}",
            hint=f"known: {', '.join(names)}; without --class the change is judged on all of them",
        )


def _campaign_in(files: CampaignDirectory) -> Campaign:
    campaign = replay(JsonlLedger(files.ledger_path).events())
    assert campaign is not None, "an opened campaign directory has a record"
    return campaign


def _has_baseline(files: CampaignDirectory) -> bool:
    campaign = replay(JsonlLedger(files.ledger_path).events())
    return campaign is not None and campaign.baseline is not None


def _limited(stop: StopPolicy, limits: Limits) -> StopPolicy:
    given = asdict(limits)
    values = stop.model_dump() | {name: value for name, value in given.items() if value is not None}
    try:
        return StopPolicy.model_validate(values)
    except ValidationError as error:
        complaint = error.errors()[0]
        raise UsageError(f"{complaint['loc'][0]}: {complaint['msg']}") from error


def _finished(
    campaign: Campaign, files: CampaignDirectory, branch: str | None, notes: tuple[str, ...]
) -> Finished:
    events = JsonlLedger(files.ledger_path).events()
    return Finished(
        campaign=campaign,
        directory=files.directory,
        branch=branch,
        wall_s=spent_s(events),
        overhead_fraction=overhead_fraction(events),
        notes=notes,
    )
