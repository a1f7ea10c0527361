"""This machine: doctor and specs."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roofsmith import api
from roofsmith.cli import options
from roofsmith.cli.output import (
    print_json,
    print_lines,
    print_unpadded,
    printed,
    table_console,
    write_file,
)
from roofsmith.cli.root import agent, cli
from roofsmith.cli.screen import screen
from roofsmith.cli.taking import takes
from roofsmith.domain.options import Opening, Subject

if TYPE_CHECKING:
    from roofsmith.domain.examination import Examination, Level
    from roofsmith.domain.facts import FactSheet


specs = typer.Typer(
    no_args_is_help=True, help="Limits of this machine and of products, each with its citation."
)
cli.add_typer(specs, name="specs")


Gpu = Annotated[bool, typer.Option("--gpu", help="Of the GPU, not of the processors.")]


@cli.command()
def doctor(
    target: Annotated[
        Path | None,
        typer.Argument(
            metavar="[TARGET]",
            help="A target.yaml, its folder, or a kernel file: what it needs must be here; without "
            "one, all that this machine can run is listed.",
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write env_check.md too.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Check devices, tools and permissions; every problem comes with its fix.

    Exit 1 if the target, or without one any kernel, can't run here.
    """
    examination = api.examine(api.settings(), target)
    if output is not None:
        write_file(output, api.env_check(examination))
    if as_json:
        print_json(examination_document(examination))
    else:
        examined(examination)
    raise typer.Exit(0 if examination.ready else 1)


@agent.command()
def config(
    model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Agree that kernels are sent to this model, such as model:openai:NAME, wherever"
            " no proposer is named; none takes it back.",
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Show, or change, what you agreed to once: which model is asked without being named.

    It is asked where there is a key for it, in the environment or the keyring, or it has an address
    of its own behind it.
    """
    found = api.consent(api.settings(), model)
    if as_json:
        told = {"folder": str(found.folder), "model": found.model, "proposers": found.proposers}
        print_json(told)
        return
    asked = found.model or "none: nothing is sent anywhere unless --proposer says so"
    print_lines([f"model: {asked}", f"proposers: {found.proposers}", f"kept in: {found.folder}"])


@specs.command()
@takes(subject=(Subject, ("threads",)), opening=(Opening, ("waits",)))
def measure(
    subject: Any, gpu: Gpu = False, opening: Any = None, as_json: options.Json = False
) -> None:
    """Measure the ceilings again; the higher of the old and the new figure is kept."""
    with screen() as observer:
        settings = api.settings(**opening)
        sheet = api.ceilings(subject["threads"], settings, observer, gpu=gpu, again=True)
    _limits(sheet, as_json=as_json)


@specs.command("show")
@takes(subject=(Subject, ("threads", "gpu_wiki")), opening=(Opening, ("waits",)))
def show_(
    product: Annotated[
        str | None,
        typer.Argument(
            metavar="PRODUCT",
            help="A product of the wiki, such as 'H100 SXM', or several of one name, such as H100; "
            "without one, this machine.",
        ),
    ] = None,
    subject: Any = None,
    gpu: Gpu = False,
    opening: Any = None,
    wiki: options.WikiDir = None,
    as_json: options.Json = False,
) -> None:
    """Limits, each with its citation: the datasheet's beside the measured ones.

    Products that share a name stand side by side. This machine's limits are measured now if they
    aren't kept.
    """
    from roofsmith.api.views import specs as views

    settings = api.settings(wiki=wiki, gpu_wiki=subject["gpu_wiki"], **opening)
    if product is None:
        with screen() as observer:
            sheet = api.ceilings(subject["threads"], settings, observer, gpu=gpu)
        _limits(sheet, as_json=as_json)
        return
    found = api.show_products(product, settings)
    document, view = api.specs_documents.products_document, views.products
    printed(found, partial(document, product), partial(view, product), as_json=as_json)
    if not as_json:
        _warn(warning for one in found for warning in one.warnings)


def _limits(sheet: FactSheet, *, as_json: bool) -> None:
    from roofsmith.api.views import specs as views

    printed(sheet, api.specs_documents.sheet_document, views.machine, as_json=as_json)


def _warn(warnings: Iterable[str]) -> None:
    for warning in dict.fromkeys(warnings):
        print(f"roofsmith: {warning}", file=sys.stderr)


@specs.command("list")
def list_(wiki: options.WikiDir = None, as_json: options.Json = False) -> None:
    """Pages of the hardware wiki, files of measured ceilings, and pages that are wrong."""
    from roofsmith.api.views import specs as views

    found = api.list_specs(api.settings(wiki=wiki))
    printed(found, api.specs_documents.listing_document, views.listing, as_json=as_json)


@specs.command()
@takes(subject=(Subject, ("gpu_wiki",)))
def cite(
    product: Annotated[str, typer.Argument(metavar="PRODUCT", help="Such as 'H100 SXM'.")],
    metric: Annotated[
        str, typer.Argument(metavar="METRIC", help="Such as bandwidth, fp16, vector.fp32.")
    ],
    wiki: options.WikiDir = None,
    subject: Any = None,
    as_json: options.Json = False,
) -> None:
    """Print one fact of a product, and the line of the wiki that says so.

    Exit 1 if the wiki doesn't say, 2 if the product's name is that of several.
    """
    found = api.cite(product, metric, api.settings(wiki=wiki, **subject))
    if as_json:
        print_json(api.specs_documents.cited_document(found))
    else:
        print_lines([found.line])
        _warn(found.warnings)
        print(found.source or f"roofsmith: {found.hint}", file=sys.stderr)
    raise typer.Exit(0 if found.entry is not None else 1)


@specs.command()
@takes(subject=(Subject, ("gpu_wiki",)))
def audit(
    directory: options.CampaignDir,
    wiki: options.WikiDir = None,
    subject: Any = None,
    as_json: options.Json = False,
) -> None:
    """Check a campaign's facts and citations: each leads to what it says.

    Exit 1 if one doesn't.
    """
    from roofsmith.api.views.specs import audited

    found = api.audit_campaign(directory, api.settings(wiki=wiki, **subject))
    where = {"passed": not found.problems, "directory": str(directory)}
    printed(found, lambda audit: {**where, **asdict(audit)}, audited, as_json=as_json)
    raise typer.Exit(1 if found.problems else 0)


_STYLES: dict[Level, str] = {
    "ok": "green", "limited": "yellow", "absent": "dim", "missing": "bold red",
}  # fmt: skip


def examined(found: Examination) -> None:
    """Checks by area with their fixes, and what can run here."""
    _print_checks(found)
    print_lines(["", *_verdict(found)])


def examination_document(found: Examination) -> dict[str, Any]:
    """What this machine has and lacks."""
    return {
        "ready": found.ready,
        "subject": found.subject,
        "language": found.language,
        "machine": found.machine,
        "readiness": [
            {
                "name": one.name,
                "languages": list(one.languages),
                "ready": one.ready,
                "lacks": list(one.lacks),
            }
            for one in found.readiness
        ],
        "checks": [check.model_dump(mode="json", exclude={"lack"}) for check in found.checks],
    }


def _print_checks(found: Examination) -> None:
    from rich.table import Table
    from rich.text import Text

    shown = table_console()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for area, checks in groupby(found.checks, key=lambda check: check.area):
        table.add_row(Text(area[0].upper() + area[1:], "bold"), "", "")
        for check in checks:
            style = _STYLES[check.level]
            mark = "" if check.level == "ok" else check.level
            detail = Text(check.detail, style if check.level == "absent" else "")
            table.add_row(Text(f"  {check.name}"), Text(mark or "ok", style), detail)
            if check in found.problems:
                table.add_row("", Text("  fix", "dim"), Text(check.fix or "none known", "cyan"))
    print_unpadded(shown, Text(found.machine, "bold"), table)


def _verdict(found: Examination) -> Iterator[str]:
    yield found.summary
    if found.subject is not None:
        yield f"{found.subject} can{'' if found.ready else chr(39) + 't'} run here"
