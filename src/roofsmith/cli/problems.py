"""Problem sets of the field: their problems become targets, and a suite of campaigns."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from roofsmith import api
from roofsmith.cli import options
from roofsmith.cli.output import dumped, print_json, print_lines, printed
from roofsmith.cli.pytorch import Framework
from roofsmith.cli.root import campaign, kernel
from roofsmith.cli.screen import screen

if TYPE_CHECKING:
    from roofsmith.api import ImportedProblem


@kernel.command("import")
def import_(
    form: Annotated[
        str,
        typer.Argument(
            metavar="FORMAT",
            help="kernelbench, sol-execbench, flashinfer, atrex-bench, gpu-mode or"
            " agentkernelarena.",
        ),
    ],
    place: Annotated[Path, typer.Argument(metavar="PATH", help="A problem, or a folder of them.")],
    only: Annotated[str, typer.Option(metavar="GLOB", help="Problems of such names alone.")] = "*",
    output: Annotated[
        Path, typer.Option(metavar="DIR", help="A folder for a folder of each problem.")
    ] = Path("problems"),
    framework: Framework = None,
    force: Annotated[bool, typer.Option("--force", help="Replace targets that are there.")] = False,
    as_json: options.Json = False,
) -> None:
    """Make a target of each problem of a set: reference, workloads and a kernel that is right.

    A problem that can't be had is a row with the reason; the others go on. Exit 1: there are such,
    or kernels that aren't right.
    """
    wanted = api.ProblemSet(form, place, output, framework or "c", only)
    rows = []
    with screen() as observer:
        for row in api.import_problems(wanted, api.settings(), observer, force=force):
            rows.append(row)
            if not as_json:
                print_lines(_told(row))
    if as_json:
        print_json({"schema": 1, "problems": [_document(row) for row in rows]})
    had = [row for row in rows if row.directory is not None]
    if not as_json:
        print_lines([f"{len(had)} of {len(rows)} problems are targets in {output}"])
    raise typer.Exit(int(len(had) < len(rows) or any(row.is_right is False for row in rows)))


@campaign.command()
def suite(
    place: Annotated[
        Path, typer.Argument(metavar="DIR", help="A folder of targets, or of a suite to show.")
    ],
    proposer: Annotated[
        str, typer.Option(metavar="NAME", help="Who thinks of changes, as of `optimize`.")
    ] = "auto",
    budget_s: Annotated[
        float, typer.Option(min=1, metavar="SECONDS", help="That each campaign may take.")
    ] = 300.0,
    repeats: Annotated[
        int, typer.Option(min=1, help="Campaigns on each: one run of an agent says little.")
    ] = 1,
    only: Annotated[str, typer.Option(metavar="GLOB", help="Targets of such names alone.")] = "*",
    output: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where campaigns go; by default suites/<DIR's name>."),
    ] = None,
    again: Annotated[
        bool,
        typer.Option(
            "--again",
            help="Go on with those that failed, hung or had too short a --budget-s, which may be"
            " larger now.",
        ),
    ] = False,
    against: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Another suite, to compare by problem.")
    ] = None,
    on_event: options.OnEvent = None,
    as_json: options.Json = False,
) -> None:
    """Run a campaign on each target of a folder; what ended before is not run again.

    A line as each begins, a row as it ends; `suite.json` holds them, with the field's scores. A
    failure or a hang of one doesn't touch the next. The folder of a suite is shown, and nothing is
    run.
    """
    from roofsmith.api.views import suites

    if (place / "suite.json").exists():
        found = api.read_suite(place)
    else:
        wanted = api.SuiteRun(
            place, output or Path("suites") / place.absolute().name, proposer, budget_s, repeats,
            only, again, on_event,
        )  # fmt: skip
        try:
            found = api.run_suite(
                wanted, lambda row: None if as_json else print_lines([suites.row_line(row)]),
                lambda line: print(line, file=sys.stderr, flush=True),
            )  # fmt: skip
        except KeyboardInterrupt as interrupt:
            interrupt.args = (f"{str(interrupt) or 'interrupted'}; the same command goes on",)
            raise
    other = None if against is None else api.read_suite(against)
    printed(
        found,
        lambda one: {**dumped(one), "scores": [dumped(score) for score in one.scores]},
        lambda one: suites.suite(one, other),
        as_json=as_json,
    )
    raise typer.Exit(int(any(row.verdict in ("failed", "hung") for row in found.rows)))


@campaign.command()
def export(
    directory: options.CampaignDir,
    form: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="torch-op: an operator with a guard and a fallback; hf-kernels: the"
            " same for Hugging Face's kernel-builder. sol, flashinfer, kernelbench, gpu-mode: as"
            " those harnesses load it. patch: for `git apply`.",
        ),
    ] = "torch-op",
    output: Annotated[
        Path | None, typer.Option(metavar="DIR", help="By default the campaign's name and format.")
    ] = None,
) -> None:
    """Write a campaign's kernel as files that load without roofsmith.

    It runs on the shapes, types and strides that it was judged on; for others an operator calls the
    reference, and every other form says that nobody judged them.
    """
    place = output or Path(f"{directory.absolute().name}-{form}")
    with screen() as observer:
        exported = api.export_campaign(directory, form, place, api.settings(), observer)
    print_lines([*(f"wrote {one}" for one in exported.files), *filter(None, [exported.about])])


def _told(row: ImportedProblem) -> list[str]:
    if row.directory is None:
        return [f"{row.name}: not taken: {row.reason}"]
    state = {None: "written", True: "right", False: "its kernel isn't right"}[row.is_right]
    return [f"{row.name}: {state}", *(f"  {one}" for one in (*row.wrong, *row.notes))]


def _document(row: ImportedProblem) -> dict[str, object]:
    return {
        "name": row.name,
        "directory": None if row.directory is None else str(row.directory),
        "reason": row.reason or None,
        "is_right": row.is_right,
        "wrong": [*row.wrong],
        "notes": [*row.notes],
    }
