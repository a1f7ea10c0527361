"""Whole campaigns: start one, go on with one, render one again."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from roofsmith.api.agents import Workplace, distrusting
from roofsmith.api.citations import citation_check
from roofsmith.api.demonstration import DemoChoice
from roofsmith.api.doctor import Examination, examine
from roofsmith.api.finished import FinishedCampaign, campaign_in, finished, unrendered
from roofsmith.api.preferences import DEFAULT_PROPOSERS
from roofsmith.api.session import going_on, limited
from roofsmith.api.subjects import bundled_example, target_of, write_campaign_target
from roofsmith.api.wiring import (
    LateLineage,
    OpenTarget,
    make_proposer,
    model_options,
    models_of,
    open_target,
    proposers_of,
    require_prices,
    spelled,
)
from roofsmith.config import Settings
from roofsmith.domain.campaign import replay
from roofsmith.domain.options import CampaignPlan, SessionLimits
from roofsmith.domain.returning import told_of
from roofsmith.domain.standing import limits_in_force
from roofsmith.domain.target import LONGEST_NOTES, StopPolicy, Target, plain_name
from roofsmith.engine.loop import Engine
from roofsmith.errors import (
    CampaignBusyError,
    MachineError,
    RoofsmithError,
    StorageError,
    UnknownNameError,
    UsageError,
)
from roofsmith.evaluator.steal import steal_note
from roofsmith.machine.probes import processor_time
from roofsmith.ports import Observer, Proposer
from roofsmith.proposers.model.estimate import estimate
from roofsmith.report.manifest import env_check, error_report
from roofsmith.specs.wiki import Wiki
from roofsmith.store.campaign_dir import LEDGER, CampaignDirectory
from roofsmith.store.files import storage_errors, write_file
from roofsmith.store.ledger import JsonlLedger
from roofsmith.store.sources import LANGUAGES
from roofsmith.targets.file import load_target, load_target_file

DEMO_BUDGET_S = 100.0
"""The end is within it. Two minutes have room for what comes before, imports and a look at the
machine, and for a last round that takes longer than usual: two processors needed 18 s for that."""
LOOK_S = 30.0
"""For the machine to say what it is before a campaign begins. Nobody waits for that as for doctor's
answer, and without it there is no campaign: a busy machine must not be taken for one that hangs."""


def demo(
    choice: DemoChoice,
    directory: Path,
    threads: int | None,
    settings: Settings,
    observer: Observer,
) -> FinishedCampaign:
    """A campaign on a bundled softmax, over in two minutes on a GPU or on two processors."""
    overrides = {"stop.budget_s": DEMO_BUDGET_S, "threads": threads, "held_out": 0}
    with bundled_example(choice.example) as path:
        target = load_target(path, overrides=overrides)
    # one workload that doesn't fit in a cache: the whole story in the time people have
    target = target.model_copy(update={"workloads": target.workloads[:1]})
    proposer = make_proposer(choice.proposers)
    return _start(target, None, proposer, directory, settings, observer)


def estimates(plan: CampaignPlan, settings: Settings) -> tuple[str, ...]:
    """A line for each model of a campaign that is to begin: what it will probably cost.

    Raises:
        TargetError: the target, or what it names, can't be used.
        UsageError: a model can't be asked.
    """
    names = spelled(plan.proposers or DEFAULT_PROPOSERS, settings)
    models = models_of(names, model_options(plan.base_url, settings))
    target = _limited_target(plan) if models else None
    return tuple(estimate(model, target) for model in models if target is not None)


def _limited_target(plan: CampaignPlan) -> Target:
    target = target_of(plan.subject)
    goal = target.goal
    if plan.limits.forever:
        goal = goal.model_copy(update={"roofline_fraction": None})
    stop = limited(target.stop, plan.limits, begun=False)
    return target.model_copy(update={"goal": goal, "stop": stop})


def optimize(
    plan: CampaignPlan, directory: Path, settings: Settings, observer: Observer
) -> FinishedCampaign:
    """A new campaign in a new directory.

    Raises:
        TargetError: the target, or what it names, can't be used.
        BaselineError: its kernel doesn't pass.
        CampaignBusyError: another process works in the directory.
    """
    subject, target = plan.subject, _limited_target(plan)
    if plan.notes is not None:
        if len(plan.notes) > LONGEST_NOTES:
            raise UsageError(f"the notes have more than {LONGEST_NOTES} characters")
        target = target.model_copy(update={"notes": plan.notes})
    is_kernel = subject.path.suffix in LANGUAGES
    kernel_path = subject.path if is_kernel else load_target_file(subject.path).kernel_path
    models = model_options(plan.base_url, settings, observer)
    names = spelled(plan.proposers or DEFAULT_PROPOSERS, settings, target.language)
    require_prices(names, models, target.stop)
    with distrusting(settings, names) as trusted:
        place = Workplace(
            directory, observer, trusted.private_dir, settings.agent_deadline_s
        )  # fmt: skip
        proposer = make_proposer(names, models, place)
        finished = _start(target, kernel_path, proposer, directory, trusted, observer)
    if is_kernel:
        write_campaign_target(subject, finished.directory / "target")
    return finished


def resume(
    directory: Path,
    proposers: str | None,
    limits: SessionLimits,
    settings: Settings,
    observer: Observer,
    base_url: str | None = None,
) -> FinishedCampaign:
    """Go on where the ledger ends.

    Args:
        directory: the campaign's.
        proposers: None: those that it began with.
        limits: that are to be other than the target's.
        settings: where caches are.
        observer: hears what happens.
        base_url: of the model's endpoint, where it isn't its provider's own.

    Raises:
        LedgerError: a record was changed.
        MachineError: this is another machine.
    """
    with CampaignDirectory.open(directory) as files:
        known = campaign_in(files)
        started = known.started
        models = model_options(base_url, settings, observer)
        named = proposers or proposers_of(started.proposers, base_url)
        names = spelled(named, settings, started.target.language)
        policy = limited(limits_in_force(known), limits)
        require_prices(names, models, policy)
        with distrusting(settings, names) as trusted:
            place = Workplace(
                files.directory, observer, trusted.private_dir, settings.agent_deadline_s
            )  # fmt: skip
            proposer = make_proposer(names, models, place)
            with going_on(started, trusted, observer) as opened:
                return _run(opened, files, proposer, trusted, started.campaign, limits=policy)


def _start(
    target: Target,
    kernel_path: Path | None,
    proposer: Proposer,
    directory: Path,
    settings: Settings,
    observer: Observer,
) -> FinishedCampaign:
    new = [folder for folder in (directory, *directory.parents) if not folder.exists()]
    seen: Examination | None = None
    with (
        _explained(directory, lambda: seen),
        CampaignDirectory.create(directory) as files,
        _removed_without_baseline(files, new, settings.logs_dir),
    ):
        # Before any process of ours is on the GPU, which a container's driver may call others'.
        seen = examine(settings, target, deadline_s=LOOK_S, brief=True)
        require_minimums(seen)
        with open_target(
            target, settings, observer, builds=(target.baseline,), reads=True
        ) as opened:
            _require_platform(target, opened, settings)
            name = plain_name(files.directory.name)
            drawn = (*told_of(target.kernel.text), *opened.draw_notes())
            opened = opened.with_attainable(settings)
            found = _run(opened, files, proposer, settings, name, kernel_path, seen=seen)
            return replace(found, notes=(*drawn, *found.notes))


@contextmanager
def _explained(directory: Path, seen: Callable[[], Examination | None]) -> Iterator[None]:
    """Of a machine that a campaign can't begin on, leave what was seen of it, and the cure."""
    try:
        yield
    except (CampaignBusyError, StorageError):
        raise
    except MachineError as error:
        if not (directory / LEDGER).exists():
            found, command = seen(), shlex.join(["roofsmith", *sys.argv[1:]])
            texts = {"error_report.md": error_report(error.message, error.hint, command, found)}
            texts |= {} if found is None else {"env_check.md": env_check(found)}
            with storage_errors("write", directory):
                directory.mkdir(parents=True, exist_ok=True)
            for name, text in texts.items():
                write_file(directory / name, text.encode("utf-8"))
        raise


def require_minimums(seen: Examination) -> None:
    """See that nothing that the target needs is older than it may be.

    Raises:
        MachineError: something is.
    """
    if old := [check for check in seen.checks if check.below and check.level == "missing"]:
        what = "; ".join(f"{check.name}: {check.detail}" for check in old)
        raise MachineError(what, hint="; ".join(f"{check.fix}" for check in old))


def _require_platform(target: Target, opened: OpenTarget, settings: Settings) -> None:
    """See that this is the machine that the target was defined for.

    Raises:
        MachineError: it is another.
    """
    asked, device = target.definition, opened.survey.environment.device
    if asked is None or (asked.platform or asked.target_gpu) is None:
        return
    sheet = opened.survey.facts.datasheet
    wiki = Wiki.load(settings.own_pages(), settings.gpu_wiki)
    is_arch = asked.target_gpu in (None, device.arch)
    if is_arch and sheet is not None and asked.platform is not None:
        with suppress(UnknownNameError):  # an architecture, which it is of
            is_arch = sheet.product in {page.product for page in wiki.called(asked.platform)}
    if not is_arch:
        raise MachineError(
            f"{target.name} is defined for {asked.platform or asked.target_gpu}; this is"
            f" {device.name}",
            hint="start it there, or change `definition` in its target file",
        )


@contextmanager
def _removed_without_baseline(
    files: CampaignDirectory, new: list[Path], logs: Path
) -> Iterator[None]:
    """A campaign without a baseline holds nothing that another start wouldn't find again, but for
    the log that its error names: that goes to the others."""
    try:
        yield
    except RoofsmithError as error:
        if new and error.log and files.directory in error.log.parents and not _has_baseline(files):
            logs.mkdir(parents=True, exist_ok=True)
            error.log = Path(shutil.move(error.log, logs / error.log.name))
        raise
    finally:
        if new and not _has_baseline(files):
            shutil.rmtree(files.directory, ignore_errors=True)
            with suppress(OSError):  # others have something there by now
                for folder in new[1:]:
                    folder.rmdir()


def _run(
    opened: OpenTarget,
    files: CampaignDirectory,
    proposer: Proposer,
    settings: Settings,
    name: str,
    kernel_path: Path | None = None,
    *,
    limits: StopPolicy | None = None,
    seen: Examination | None = None,
) -> FinishedCampaign:
    lineage = LateLineage(files.directory, name, opened.target, kernel_path)
    checks = citation_check(settings.reading(opened.target.gpu_wiki))
    parts = replace(opened.parts(proposer, files, lineage, checks), examination=seen)
    engine = Engine(parts, name, limits)
    begin = processor_time()
    campaign = engine.run()
    missing = unrendered(engine.unrendered, files.directory)
    notes = (*missing, *lineage.notes, *steal_note(begin, processor_time()))
    return finished(campaign, files, lineage.branch, notes)


def _has_baseline(files: CampaignDirectory) -> bool:
    campaign = replay(JsonlLedger(files.ledger_path).events())
    return campaign is not None and campaign.baseline is not None
