"""One step alone: judge, check, bench, profile, roofline, classify."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from roofsmith import api
from roofsmith.cli import options
from roofsmith.cli.output import print_json, print_lines, write_file
from roofsmith.cli.root import cli, kernel
from roofsmith.cli.screen import screen
from roofsmith.cli.taking import takes, takes_subject
from roofsmith.domain.modes import CodeKind
from roofsmith.domain.options import Judging, Opening, Subject
from roofsmith.wording import plural

_WAITS = ("waits",)


@kernel.command()
@takes(subject=Subject, judging=Judging, opening=Opening)
def judge(
    candidate: Annotated[Path, typer.Argument(metavar="CANDIDATE", help="The kernel to judge.")],
    against: Annotated[
        Path, typer.Option(help="The kernel that it has to beat, or a target whose kernel that is.")
    ],
    subject: Any,
    judging: Any,
    opening: Any,
    as_json: options.Json = False,
) -> None:
    """Judge a kernel against another: correct, and provably faster?

    Exit 0 if it is faster, 1 if it isn't or was rejected.
    """
    settings = api.settings(**opening)
    api.require_kernel(candidate)
    named, how = api.Subject(against, **subject), api.Judging(**judging)
    api.require_named(api.incumbent_of(named, how))
    with screen() as observer, api.begin_ahead(candidate, settings, observer) as begun:
        judgement = api.judge(candidate, named, how, settings, observer, begun)
    from roofsmith.cli import show

    show.judgement(judgement, as_json=as_json)
    raise typer.Exit(0 if judgement.verdict == "faster" else max(1, judgement.outcome.exit_code))


@kernel.command()
@takes_subject
@takes(opening=(Opening, ("isolation", "waits")))
def check(
    subject: Any,
    sanitize: Annotated[
        bool,
        typer.Option(
            "--sanitize",
            help="Run a CUDA kernel under compute-sanitizer too, also one that is wrong or "
            "crashes, and see if it repeats itself.",
        ),
    ] = False,
    repeats: Annotated[
        bool,
        typer.Option(
            "--repeats",
            help="Run a GPU kernel twice on the same inputs, and see if its outputs are the same "
            "bit by bit.",
        ),
    ] = False,
    opening: Any = None,
    as_json: options.Json = False,
) -> None:
    """Build a kernel and check its outputs against the reference.

    Exit 1 if it is wrong.
    """
    with screen() as observer:
        settings = api.settings(**opening)
        measured = api.check(subject, settings, observer, sanitize=sanitize, repeats=repeats)
    from roofsmith.cli import show

    show.measured(measured, as_json=as_json)
    raise typer.Exit(measured.outcome.exit_code)


@kernel.command()
@takes_subject
@takes(opening=Opening)
def bench(
    subject: Any,
    profile: Annotated[
        bool,
        typer.Option(
            "--profile/--no-profile",
            help="On a GPU, have a profiler see occupancy and speed of light on the slowest "
            "workload: some seconds.",
        ),
    ] = True,
    opening: Any = None,
    as_json: options.Json = False,
) -> None:
    """Check a kernel and time it: against its ceilings and, on a GPU, against PyTorch.

    Exit 1 if it is wrong.
    """
    with screen() as observer:
        found = api.bench(subject, api.settings(**opening), observer, profiled=profile)
    from roofsmith.cli import show

    show.benched(found, as_json=as_json)
    raise typer.Exit(found.measured.outcome.exit_code)


@kernel.command()
@takes_subject
@takes(opening=(Opening, _WAITS))
def profile(subject: Any, opening: Any, as_json: options.Json = False) -> None:
    """Count what a kernel does on each workload, with the best tool this machine allows."""
    with screen() as observer:
        profiles = api.profile(subject, api.settings(**opening), observer)
    from roofsmith.cli import show

    show.profiles(profiles, as_json=as_json)


@kernel.command(name="listing")
@takes_subject
@takes(opening=(Opening, _WAITS))
def listing_(
    subject: Any,
    kind: Annotated[
        CodeKind | None,
        typer.Option(metavar="KIND", help="asm, ptx or sass.", show_default="what the device runs"),
    ] = None,
    arch: Annotated[
        str | None,
        typer.Option(
            metavar="ARCH",
            help="Build a CUDA or HIP kernel for this one, such as sm_90 or gfx942; needs no GPU.",
            show_default="this machine's GPU",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write it there.", show_default="stdout")
    ] = None,
    opening: Any = None,
    as_json: options.Json = False,
) -> None:
    """Print a kernel's instructions, as its compiler made them.

    A kernel file alone is enough, but for Triton and PyTorch, which compile for the workloads that
    they run; of a repository it is what its build or its benchmark makes. With --arch, nvcc and
    cuobjdump, or hipcc and llvm-objdump, are all that is needed.
    """
    with screen() as observer:
        found = api.listed(subject, kind, api.settings(**opening), observer, arch=arch)
    for note in found.notes:
        print(f"roofsmith: {note}", file=sys.stderr)
    if out is not None:
        write_file(out, found.text)
    if as_json:
        print_json({**asdict(found), "file": None if out is None else str(out)})
    elif out is None:
        print_lines([found.visible])
    else:
        count = plural(len(found.text.splitlines()), "line")
        print_lines([f"{found.kind}: {count} in {out}"])


@kernel.command()
@takes_subject
@takes(opening=(Opening, _WAITS))
def roofline(
    subject: Any,
    svg: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw it into a file as well.")
    ] = None,
    platform: Annotated[
        str | None,
        typer.Option(
            metavar="PRODUCT",
            help="For a product that needn't be plugged in, such as H20 or MI355X: step 0 from"
            " cited facts alone.",
            show_default="this machine",
        ),
    ] = None,
    opening: Any = None,
    as_json: options.Json = False,
) -> None:
    """The least time that a machine allows and the goal, per workload, with citations."""
    with screen() as observer:
        found = api.roofline(subject, api.settings(**opening), observer, platform)
    if svg is not None:
        write_file(svg, found.drawing)
    from roofsmith.cli import show

    show.roofline(found, as_json=as_json)
    if svg is not None and not as_json:
        print_lines(["", f"drawn in {svg}"])


@cli.command()
@takes_subject
def explain(subject: Any, as_json: options.Json = False) -> None:
    """What a target's reference computes, read from it: operations, counts, doubts.

    Nothing is built or measured. Exit 1 if it can't be read; the line that is why is named.
    """
    found = api.explain(subject, api.settings())
    if as_json:
        print_json(found.document)
    else:
        print_lines(found.lines)
    raise typer.Exit(0 if found.computation.graph is not None else 1)


@kernel.command()
@takes_subject
@takes(opening=(Opening, _WAITS))
def classify(subject: Any, opening: Any, as_json: options.Json = False) -> None:
    """What limits a kernel on each workload: memory, compute or latency, with the evidence."""
    with screen() as observer:
        bottlenecks = api.classify(subject, api.settings(**opening), observer)
    from roofsmith.cli import show

    show.bottlenecks(bottlenecks, as_json=as_json)


@kernel.command()
def remarks(
    kernel: Annotated[Path, typer.Argument(metavar="KERNEL", help="A kernel's source file.")],
    as_json: options.Json = False,
) -> None:
    """What a kernel's source does that the judge watches for; nothing is built or run."""
    found = api.remarks(kernel)
    if as_json:
        print_json({"remarks": [remark.model_dump() for remark in found]})
    else:
        print_lines([remark.text for remark in found] or ["nothing that the judge watches for"])
