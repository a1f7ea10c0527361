"""Whole programs: which of their kernels are worth the work."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from roofsmith import api
from roofsmith.cli import options
from roofsmith.cli.root import kernel


@kernel.command()
def plan(
    trace: Annotated[
        Path,
        typer.Argument(
            metavar="TRACE",
            help="What a profiler saw of a whole program: torch.profiler's trace, an export of "
            "nsys (SQLite, or CSV of `nsys stats`), ncu's raw page, rocprofv3's CSV or .db; or a "
            "folder of them.",
        ),
    ],
    platform: Annotated[
        str | None, typer.Option(metavar="PRODUCT", help="The GPU, where the trace doesn't say.")
    ] = None,
    inside: Annotated[
        Path | None,
        typer.Option("--in", metavar="DIR", help="The program's sources: finds kernels in them."),
    ] = None,
    min_share: Annotated[
        float, typer.Option(min=0, max=1, help="Of GPU time; kernels below are dropped.")
    ] = 0.01,
    as_json: options.Json = False,
) -> None:
    """Which kernels of a program are worth the work, by a profiler's trace of it. Needs no GPU.

    Ranked by share of GPU time and headroom, with the most that each could gain end to end; why
    every other was dropped; what to type next.
    """
    from roofsmith.cli import show

    found = api.plan_program(
        trace, api.settings(), platform=platform, folder=inside, least_share=min_share
    )
    show.program_plan(found, as_json=as_json)


@kernel.command("trace-analysis")
def trace_analysis(
    command: Annotated[
        list[str], typer.Argument(metavar="-- COMMAND...", help="It runs in this folder.")
    ],
    deadline: Annotated[
        float, typer.Option(min=1, metavar="SECONDS", help="That it may take.")
    ] = 1800.0,
    as_json: options.Json = False,
) -> None:
    """Run a command under rocprofv3, nsys or ncu, and show what each of its kernels takes.

    A command that names a profiler is left as it is; what it leaves in this folder is read.
    """
    from roofsmith.cli import show

    show.program(api.analyse_command(command, Path.cwd(), deadline), as_json=as_json)
