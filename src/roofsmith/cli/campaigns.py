"""Whole campaigns: demo, optimize, resume, ask, try, tell, report, apply, verify."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from roofsmith import api
from roofsmith.cli import options
from roofsmith.cli.held import answered, reminded, show_answer
from roofsmith.cli.output import print_error, print_json, print_lines
from roofsmith.cli.pytorch import Framework, told_of
from roofsmith.cli.root import agent, campaign, cli
from roofsmith.cli.screen import screen
from roofsmith.cli.signals import exit_status
from roofsmith.cli.taking import takes, takes_subject
from roofsmith.domain.options import (
    LOOKED_AT,
    CampaignPlan,
    Opening,
    SessionLimits,
    Subject,
    SubmittedChange,
)
from roofsmith.errors import DeviceFailedError, NoIdleGpuError, StorageError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofsmith.api import FinishedCampaign, Observer

_OPENED = ("isolation", "waits")


@cli.command()
@takes(subject=(Subject, ("threads",)))
def demo(
    output: options.Output = None,
    subject: Any = None,
    cpu: Annotated[bool, typer.Option("--cpu", help="On the processors, GPU or not.")] = False,
    as_json: options.Json = False,
) -> None:
    """Optimize a bundled naive softmax on this machine, start to report in under two minutes.

    A GPU is taken where there is one, with PyTorch, and Triton or nvcc; else the processors.
    """
    choice = api.choose_demo(cpu)
    print(choice.line, file=sys.stderr)
    directory = output or api.new_demo_directory()
    settings = api.settings(waits=False)  # nobody watches a demo wait for an hour
    threads = subject["threads"]
    _run(lambda o: api.demo(choice, directory, threads, settings, o), directory, as_json)


@cli.command()
@takes_subject
@takes(plan=CampaignPlan, limits=SessionLimits, opening=Opening)
def optimize(
    subject: Any,
    plan: Any,
    limits: Any,
    agent_deadline_s: options.AgentDeadlineS = None,
    output: options.Output = None,
    framework: Framework = None,
    on_event: options.OnEvent = None,
    opening: Any = None,
    as_json: options.Json = False,
) -> None:
    """Run a campaign: propose, judge, keep or roll back, until a stop condition holds.

    A kernel needs no target file: --ref and --workload say what it is held against, and the target
    is written into the campaign. With --framework, the file is a function or module in PyTorch, and
    a target is made of it first.
    """
    settings = api.settings(**opening, agent_deadline_s=agent_deadline_s)
    if framework is not None:
        for key in ("reference", "entry", "flags", "ptr_size", "family", "timing"):
            if getattr(subject, key) is not None:
                raise UsageError(
                    f"--{'ref' if key == 'reference' else key.replace('_', '-')} means nothing with"
                    " --framework, which makes kernel and reference of the file",
                    hint=f"roofsmith init --from-pytorch {shlex.quote(str(subject.path))} writes a"
                    " target, in which it can be set",
                )
        file = api.PyTorchFile(
            subject.path, None, framework, workloads=subject.workloads, threads=subject.threads
        )
        with screen() as observer:
            made = api.initialize_pytorch(file, settings, observer)
        for line in told_of(made)[:-1]:
            print(line, file=sys.stderr)
        subject = api.Subject(made.directory)
    asked = api.CampaignPlan(subject, limits=api.SessionLimits(**limits), **plan)
    directory = output or api.new_directory(subject)
    for line in api.estimates(asked, settings):
        print(line, file=sys.stderr)
    _run(lambda o: api.optimize(asked, directory, settings, o), directory, as_json, on_event)


@cli.command()
@takes(plan=(CampaignPlan, ("proposers", "base_url")), limits=SessionLimits, opening=Opening)
def resume(
    directory: options.CampaignDir,
    plan: Any,
    limits: Any,
    opening: Any,
    agent_deadline_s: options.AgentDeadlineS = None,
    on_event: options.OnEvent = None,
    as_json: options.Json = False,
) -> None:
    """Go on with a campaign after a crash, Ctrl-C or a limit; limits may be raised here."""
    settings = api.settings(**opening, agent_deadline_s=agent_deadline_s)
    raised = api.SessionLimits(**limits)
    with reminded(directory):
        _run(
            lambda o: api.resume(
                directory, plan["proposers"], raised, settings, o, plan["base_url"]
            ),
            directory,
            as_json,
            on_event,
        )


@cli.command()
@takes(opening=(Opening, ("waits",)))
def ask(
    directory: options.CampaignDir,
    form: Annotated[
        Literal["json", "md"],
        typer.Option(
            "--format", metavar="json|md", help="For programs, or the page that a model reads."
        ),
    ] = "json",
    opening: Any = None,
) -> None:
    """Print what an outside proposer needs for the next change.

    The same lies in `asks/round-N/` of the campaign: brief.md, brief.json, schema.json, sources/,
    reference/, and repair/ where one is due. `roofsmith tell` takes a `proposal.json` in that
    schema; `roofsmith campaign show` has what the page has no room for.
    """
    found = answered(directory, "ask", {}, **opening)
    if form == "md":
        print_lines(found["text"].splitlines())
    else:
        print_json(found["document"])


@cli.command()
@takes(change=SubmittedChange, limits=SessionLimits, opening=(Opening, _OPENED))
def tell(
    directory: options.CampaignDir,
    kernel: Annotated[
        Path | None,
        typer.Option(
            help="The changed kernel; of a repository, an edited file or a folder of them."
        ),
    ] = None,
    proposal: Annotated[
        Path | None,
        typer.Option(
            help="A proposal.json, or a folder with one and changed files, in place of the others."
        ),
    ] = None,
    change: Any = None,
    limits: Any = None,
    opening: Any = None,
    as_json: options.Json = False,
) -> None:
    """Judge one change that was made elsewhere, as a round of a campaign.

    If some config classes gain by it and others lose, its dispatch is judged right after it. Limits
    hold as in `optimize`; they may be raised here. A change that can't be judged is refused, and
    why is a record. Exit 1 if it wasn't kept; giving up, with its reason, is a normal end.
    """
    if (kernel is None) == (proposal is None):
        raise UsageError(
            "name either the changed kernel or a proposal", hint="--kernel FILE, or --proposal FILE"
        )
    told: dict[str, Any] = {"limits": limits}
    if proposal is not None:
        told["proposal"] = str(proposal.absolute())
    elif kernel is not None:
        told["change"] = {"kernel": str(kernel.absolute()), **change}
    command = "tell" if proposal is None else "submit"
    found = answered(directory, command, told, **opening)
    show_answer(found, as_json=as_json)
    raise typer.Exit(0 if found["is_kept"] or found["gave_up"] else 1)


@cli.command("try")
@takes(change=(SubmittedChange, LOOKED_AT), opening=(Opening, _OPENED))
def try_(
    directory: options.CampaignDir,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="The changed kernel, a proposal.json, or a folder with one and changed files; of a"
            " repository an edited file or a folder of them.",
        ),
    ],
    change: Any,
    opening: Any,
    as_json: options.Json = False,
) -> None:
    """Look at a change before a round: right on one draw, about how fast, do its citations hold.

    Takes seconds, decides nothing and is no round: no record, and nothing of the campaign's budget;
    `logs/looks.jsonl` says what it took. Of a repository it runs the test, and the benchmark of
    both once. Exit 1 if it is wrong or doesn't build.
    """
    if not (directory / "ledger.jsonl").exists():
        raise UsageError(
            f"{directory} holds no campaign",
            hint="without one, `roofsmith kernel check KERNEL --ref REF --workload ...` says"
            " whether a kernel is right, and `roofsmith kernel judge` whether it is faster",
        )
    told = {"change": {"kernel": str(file.absolute()), **change}}
    found = answered(directory, "try", told, **opening)
    show_answer(found, as_json=as_json)
    raise typer.Exit(0 if found["is_right"] else 1)


@agent.command()
def schema(
    what: Annotated[
        Literal["proposal", "campaign"],
        typer.Argument(metavar="proposal|campaign", help="What to print the JSON schema of."),
    ] = "proposal",
) -> None:
    """Print the JSON schema that every proposer answers in, or that campaigns are shown in.

    The latter is what pages of `roofsmith serve` answer at `/json`, and what is told as JSON by
    `watch`, by MCP's campaign_status and to the command that hears of events.
    """
    from pydantic import TypeAdapter

    if what == "proposal":
        from roofsmith.domain.answer import Answer

        print_json(Answer.model_json_schema())
        return
    from roofsmith.domain.dashboard import Shown

    schema: TypeAdapter[Any] = TypeAdapter(Shown)
    print_json(schema.json_schema(mode="serialization"))


@campaign.command()
def report(
    directory: options.CampaignDir,
    open_: Annotated[
        bool, typer.Option("--open/--no-open", help="Show report.html in a browser.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Render a campaign's files again from its ledger, and say where the report is."""
    finished = api.render_report(directory)
    from roofsmith.cli import show

    show.finished(finished, as_json=as_json)
    if open_:
        typer.launch(str(finished.report))


@cli.command()
def apply(
    directory: options.CampaignDir,
    to: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Folder of the files.", show_default="where the campaign found them"
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Put the kernel that a campaign came to into your files: what it may edit, nothing else.

    They have to be as the campaign began with them, and in git nothing uncommitted.
    """
    found = api.apply_campaign(directory, to)
    if as_json:
        print_json({
            "written": [str(path) for path in found.paths], "build": found.home.build or None,
            "target_build": found.build or None, "difference": found.home.difference,
        })  # fmt: skip
        return
    wrote = [f"wrote {path}" for path in found.paths] or ["your files hold it already"]
    needed = [f"build it with: {found.home.build}"] if found.home.build else []
    if found.build:
        needed += ["set in its target file, which apply leaves alone:", *found.build.splitlines()]
    print_lines([*wrote, *needed, *found.home.difference.splitlines()])


@cli.command()
def verify(directory: options.CampaignDir, as_json: options.Json = False) -> None:
    """Recompute every decision of a campaign from its samples, and find any edited byte of them.

    Exit 1 if something doesn't follow.
    """
    verification = api.verify_campaign(directory, api.settings())
    from roofsmith.cli import show

    show.verification(verification, as_json=as_json)
    raise typer.Exit(1 if verification.findings else 0)


def _run(
    campaign: Callable[[Observer], FinishedCampaign],
    directory: Path,
    as_json: bool,
    on_event: str | None = None,
) -> None:
    """Run with a live screen, then show what came of it; an interrupt says how to go on."""
    from roofsmith import api
    from roofsmith.cli import show

    try:
        with (
            screen() as shown,
            api.announcing(
                shown, on_event, directory, lambda text: shown.lines([[(text, "yellow")]])
            ) as observer,
        ):
            finished = campaign(observer)
    except KeyboardInterrupt as interrupt:
        how = "nothing was kept, as there was no baseline yet: the same command begins again"
        if api.has_campaign(directory):
            how = f"go on with: roofsmith resume {shlex.quote(str(directory))}"
        said = str(interrupt) or "interrupted"
        print(f"{said}; {how}", file=sys.stderr)
        if as_json:
            print_error("Interrupted", said, how)
        raise typer.Exit(exit_status(interrupt)) from None
    except NoIdleGpuError as error:
        if not api.has_campaign(directory):
            raise
        hint = f"`roofsmith resume {shlex.quote(str(directory))}` once a GPU is idle"
        if isinstance(error, DeviceFailedError):
            hint = f"{error.hint}; then {hint}"
        raise NoIdleGpuError(error.message, hint=hint) from error
    except StorageError as error:
        if not api.has_campaign(directory):
            raise
        then = f"then `roofsmith resume {shlex.quote(str(directory))}`: what was recorded is kept"
        hint = f"{error.hint or 'make room'}; {then}"
        raise StorageError(error.message, hint=hint, log=error.log) from error
    show.finished(finished, as_json=as_json)
    stopped = finished.campaign.stopped
    if stopped is not None and stopped.code == "no_idle_gpu":
        print(f"go on with: roofsmith resume {shlex.quote(str(directory))}", file=sys.stderr)
        raise typer.Exit(NoIdleGpuError.exit_code)
    if stopped is not None and stopped.code == "out_of_ideas" and finished.campaign.unavailable:
        then = f"then go on with: roofsmith resume {shlex.quote(str(directory))}"
        for refusal in finished.campaign.unavailable:
            print(f"{refusal.proposer} can't be asked: {refusal.detail}; {then}", file=sys.stderr)
        raise typer.Exit(1)
