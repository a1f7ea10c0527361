"""Whole campaigns: demo, optimize, resume, ask, tell, report, verify."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from roofsmith.cli import options
from roofsmith.cli.held import answered, show_answer
from roofsmith.cli.output import print_error, print_json, print_lines
from roofsmith.cli.reminding import reminded
from roofsmith.cli.root import cli
from roofsmith.cli.screen import screen
from roofsmith.cli.signals import exit_status
from roofsmith.cli.subject import takes_subject
from roofsmith.errors import DeviceFailedError, NoIdleGpuError, StorageError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofsmith.api import FinishedCampaign, Observer

_CAMPAIGNS = "Campaigns"


@cli.command(rich_help_panel=_CAMPAIGNS)
def demo(
    output: options.Output = None,
    threads: options.Threads = None,
    cpu: Annotated[bool, typer.Option("--cpu", help="On the processors, GPU or not.")] = False,
    as_json: options.Json = False,
) -> None:
    """Optimize a bundled naive softmax on this machine, start to report in under two minutes.

    A GPU is taken where there is one, with PyTorch, and Triton or nvcc; else the processors.
    """
    from roofsmith import api

    choice = api.choose_demo(cpu)
    print(choice.line, file=sys.stderr)
    directory = output or api.new_demo_directory()
    settings = api.settings(waits=False)  # nobody watches a demo wait for an hour
    _run(lambda o: api.demo(choice, directory, threads, settings, o), directory, as_json)


@cli.command(rich_help_panel=_CAMPAIGNS)
@takes_subject
def optimize(
    subject: Any,
    proposer: options.Proposers = None,
    base_url: options.BaseUrl = None,
    max_iterations: options.MaxIterations = None,
    budget_s: options.BudgetS = None,
    max_tokens: options.MaxTokens = None,
    max_cost: options.MaxCost = None,
    agent_deadline_s: options.AgentDeadlineS = 900.0,
    notes: Annotated[
        str | None,
        typer.Option(
            help='What whoever proposes should know or keep to, such as "keep fp32 accuracy".'
        ),
    ] = None,
    learn: Annotated[
        bool,
        typer.Option(
            "--learn",
            help="Let what came of changes in like campaigns decide the order of cards, and where"
            " sweeps begin; otherwise it is only shown.",
        ),
    ] = False,
    gpu_wiki: options.GpuWiki = None,
    output: options.Output = None,
    isolation: options.Isolation = None,
    lock_clocks: options.LockClocks = False,
    wait: options.Wait = True,
    as_json: options.Json = False,
) -> None:
    """Run a campaign: propose, judge, keep or roll back, until a stop condition holds.

    A kernel needs no target file: --ref and --workload say what it is held against, and the target
    is written into the campaign.
    """
    from roofsmith import api

    settings = api.settings(
        isolation, lock_clocks=lock_clocks, waits=wait, agent_deadline_s=agent_deadline_s
    )  # fmt: skip
    plan = api.CampaignPlan(
        subject=replace(subject, gpu_wiki=gpu_wiki),
        proposers=proposer or "auto",
        limits=api.SessionLimits(max_iterations, budget_s, max_tokens, max_cost),
        notes=notes,
        learn=learn,
        base_url=base_url,
    )
    directory = output or api.new_directory(subject)
    for line in api.estimates(plan, settings):
        print(line, file=sys.stderr)
    _run(lambda o: api.optimize(plan, directory, settings, o), directory, as_json)


@cli.command(rich_help_panel=_CAMPAIGNS)
def resume(
    directory: options.CampaignDir,
    proposer: options.Proposers = None,
    base_url: options.BaseUrl = None,
    max_iterations: options.MaxIterations = None,
    budget_s: options.BudgetS = None,
    max_tokens: options.MaxTokens = None,
    max_cost: options.MaxCost = None,
    agent_deadline_s: options.AgentDeadlineS = 900.0,
    isolation: options.Isolation = None,
    lock_clocks: options.LockClocks = False,
    wait: options.Wait = True,
    as_json: options.Json = False,
) -> None:
    """Go on with a campaign after a crash, Ctrl-C or a limit; limits may be raised here."""
    from roofsmith import api

    settings = api.settings(
        isolation, lock_clocks=lock_clocks, waits=wait, agent_deadline_s=agent_deadline_s
    )  # fmt: skip
    with reminded(directory):
        limits = api.SessionLimits(max_iterations, budget_s, max_tokens, max_cost)
        _run(
            lambda o: api.resume(directory, proposer, limits, settings, o, base_url),
            directory,
            as_json,
        )


@cli.command(rich_help_panel=_CAMPAIGNS)
def ask(
    directory: options.CampaignDir,
    form: Annotated[
        Literal["json", "md"],
        typer.Option(
            "--format", metavar="json|md", help="For programs, or the page that a model reads."
        ),
    ] = "json",
    wait: options.Wait = True,
) -> None:
    """Print what an outside proposer needs for the next change.

    The same lies in `asks/round-N/` of the campaign: brief.md, brief.json, schema.json, sources/,
    reference/, and repair/ where one is due. `roofsmith tell` takes a `proposal.json` in that
    schema; `roofsmith show` has what the page has no room for.
    """
    found = answered(directory, "ask", {}, waits=wait)
    if form == "md":
        print_lines(found["text"].splitlines())
    else:
        print_json(found["document"])


@cli.command(rich_help_panel=_CAMPAIGNS)
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
    hypothesis: Annotated[
        str | None,
        typer.Option(help="What changed and why, in a sentence; a repair has that of its idea."),
    ] = None,
    flags: Annotated[
        str | None, typer.Option(help="Compiler flags; by default the incumbent's.")
    ] = None,
    target_class: Annotated[
        str | None,
        typer.Option(
            "--class",
            metavar="NAME",
            help="The config class that should gain; the others must not lose.",
            show_default="all",
        ),
    ] = None,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair", help="It repairs the last round's idea, whose results were wrong."
        ),
    ] = False,
    tokens: Annotated[
        int, typer.Option(min=0, help="Tokens that it took to think of it.", show_default=False)
    ] = 0,
    base: Annotated[
        int | None,
        typer.Option(
            min=2,
            metavar="N",
            help="The undecided round whose kernel was changed; both changes are judged together.",
            show_default="the kernel that holds",
        ),
    ] = None,
    category: options.ChangeCategory = None,
    predict: Annotated[
        float | None,
        typer.Option(min=0.01, metavar="RATIO", help="The speedup you expect, such as 1.3."),
    ] = None,
    counter: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The counter of the profile that should move."),
    ] = None,
    counter_ratio: Annotated[
        float | None,
        typer.Option(min=1e-6, metavar="RATIO", help="Its value afterwards over that before."),
    ] = None,
    fact: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CITATION",
            help="A fact of the device that it rests on, as `roofsmith specs cite` prints it.",
        ),
    ] = None,
    max_iterations: options.MaxIterations = None,
    budget_s: options.BudgetS = None,
    max_tokens: options.MaxTokens = None,
    max_cost: options.MaxCost = None,
    isolation: options.Isolation = None,
    wait: options.Wait = True,
    as_json: options.Json = False,
) -> None:
    """Judge one change that was made elsewhere, as a round of a campaign.

    If some config classes gain by it and others lose, its dispatch is judged right after it. Limits
    hold as in `optimize`; they may be raised here. A change that can't be judged is refused, and
    why is a record. Exit 1 if nothing was kept, unless it gives up: that is a normal end.
    """
    if (kernel is None) == (proposal is None):
        raise UsageError(
            "name either the changed kernel or a proposal", hint="--kernel FILE, or --proposal FILE"
        )
    told: dict[str, Any] = {
        "limits": {
            "max_iterations": max_iterations, "budget_s": budget_s,
            "max_tokens": max_tokens, "max_cost_usd": max_cost,
        },
    }  # fmt: skip
    if proposal is not None:
        told["proposal"] = str(proposal.absolute())
    elif kernel is not None:
        told["change"] = {
            "kernel": str(kernel.absolute()), "hypothesis": hypothesis, "flags": flags,
            "target_class": target_class, "repair": repair, "tokens": tokens, "base": base,
            "category": category, "predicted_speedup": predict, "expected_counter": counter,
            "expected_delta": counter_ratio, "facts": fact or [],
        }  # fmt: skip
    command = "tell" if proposal is None else "submit"
    found = answered(directory, command, told, isolation=isolation, waits=wait)
    show_answer(found, as_json=as_json)
    raise typer.Exit(0 if found["is_kept"] or found["gave_up"] else 1)


@cli.command("try", rich_help_panel=_CAMPAIGNS)
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
    hypothesis: Annotated[
        str | None, typer.Option(help="What changed and why; citations in it are looked up.")
    ] = None,
    flags: Annotated[
        str | None, typer.Option(help="Compiler flags; by default the incumbent's.")
    ] = None,
    base: Annotated[
        int | None,
        typer.Option(
            min=2,
            metavar="N",
            help="The undecided round whose kernel was changed.",
            show_default="the kernel that holds",
        ),
    ] = None,
    evidence: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="Evidence of the brief that it rests on, such as E1."),
    ] = None,
    fact: Annotated[
        list[str] | None,
        typer.Option(metavar="CITATION", help="A fact of the device that it rests on."),
    ] = None,
    isolation: options.Isolation = None,
    wait: options.Wait = True,
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
            hint="without one, `roofsmith check KERNEL --ref REF --workload ...` says whether a"
            " kernel is right, and `roofsmith judge` whether it is faster",
        )
    change = {
        "kernel": str(file.absolute()), "hypothesis": hypothesis, "flags": flags, "base": base,
        "facts": fact or [], "evidence": evidence or [],
    }  # fmt: skip
    found = answered(directory, "try", {"change": change}, isolation=isolation, waits=wait)
    show_answer(found, as_json=as_json)
    raise typer.Exit(0 if found["is_right"] else 1)


@cli.command(rich_help_panel=_CAMPAIGNS)
def schema(
    what: Annotated[
        str, typer.Argument(metavar="proposal", help="What to print the JSON schema of.")
    ] = "proposal",
) -> None:
    """Print the JSON schema that every proposer answers in."""
    from roofsmith.domain.answer import Answer

    if what != "proposal":
        raise UsageError(f"there is no schema of {what!r}", hint="roofsmith schema proposal")
    print_json(Answer.model_json_schema())


@cli.command(rich_help_panel=_CAMPAIGNS)
def report(
    directory: options.CampaignDir,
    open_: Annotated[
        bool, typer.Option("--open/--no-open", help="Show report.html in a browser.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Render a campaign's files again from its ledger, and say where the report is."""
    from roofsmith import api

    finished = api.render_report(directory)
    from roofsmith.cli import show

    show.finished(finished, as_json=as_json)
    if open_:
        typer.launch(str(finished.report))


@cli.command(rich_help_panel=_CAMPAIGNS)
def verify(directory: options.CampaignDir, as_json: options.Json = False) -> None:
    """Recompute every decision of a campaign from its samples, and find any edited byte of them.

    Exit 1 if something doesn't follow.
    """
    from roofsmith import api

    verification = api.verify_campaign(directory)
    from roofsmith.cli import show

    show.verification(verification, as_json=as_json)
    raise typer.Exit(1 if verification.findings else 0)


def _run(campaign: Callable[[Observer], FinishedCampaign], directory: Path, as_json: bool) -> None:
    """Run with a live screen, then show what came of it; an interrupt says how to go on."""
    from roofsmith.cli import show

    try:
        with screen() as observer:
            finished = campaign(observer)
    except KeyboardInterrupt as interrupt:
        from roofsmith import api

        how = "nothing was kept, as there was no baseline yet: the same command begins again"
        if api.has_campaign(directory):
            how = f"go on with: roofsmith resume {shlex.quote(str(directory))}"
        said = str(interrupt) or "interrupted"
        print(f"{said}; {how}", file=sys.stderr)
        if as_json:
            print_error("Interrupted", said, how)
        raise typer.Exit(exit_status(interrupt)) from None
    except NoIdleGpuError as error:
        from roofsmith import api

        if not api.has_campaign(directory):
            raise
        hint = f"`roofsmith resume {shlex.quote(str(directory))}` once a GPU is idle"
        if isinstance(error, DeviceFailedError):
            hint = f"{error.hint}; then {hint}"
        raise NoIdleGpuError(error.message, hint=hint) from error
    except StorageError as error:
        from roofsmith import api

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
