"""Targets: of a kernel or a repository, or of a sentence that says which."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roofsmith import api
from roofsmith.cli import options
from roofsmith.cli.output import print_json, print_lines
from roofsmith.cli.pytorch import Framework, of_pytorch, told_of
from roofsmith.cli.root import campaign, cli
from roofsmith.cli.screen import screen
from roofsmith.cli.taking import takes
from roofsmith.domain.options import Opening, Subject
from roofsmith.errors import UsageError

if TYPE_CHECKING:
    from roofsmith.api import Initialized

_REPOSITORY = "Of a repository"


def _of_repository(help: str, name: str | None = None, metavar: str | None = None) -> Any:
    declared = (name,) if name else ()
    return typer.Option(*declared, help=help, metavar=metavar, rich_help_panel=_REPOSITORY)


def _deadline(what: str, default_s: int) -> Any:
    help = f"Seconds that {what} may take; by default {default_s}."
    return _of_repository(help, metavar="SECONDS")


@cli.command()
@takes(subject=Subject, opening=(Opening, ("waits",)))
def init(
    kernel: Annotated[Path | None, typer.Argument(help="A naive, correct kernel.")] = None,
    subject: Any = None,
    name: Annotated[
        str | None, typer.Option(help="Of the target; by default the kernel's or folder's.")
    ] = None,
    include: Annotated[
        list[Path] | None,
        typer.Option(
            help="A file that it needs to build, besides what it includes from beside it; repeat.",
            metavar="FILE",
        ),
    ] = None,
    repo: Annotated[
        Path | None,
        _of_repository("A folder in a git repository, in place of a kernel.", metavar="DIR"),
    ] = None,
    editable: Annotated[
        list[str] | None,
        _of_repository("Files that may change, such as 'src/*.c'; repeat.", metavar="GLOB"),
    ] = None,
    build: Annotated[
        str | None, _of_repository("Command that builds it.", metavar="COMMAND")
    ] = None,
    test: Annotated[
        str | None,
        _of_repository("Command that succeeds only if results are right.", metavar="COMMAND"),
    ] = None,
    benchmark: Annotated[
        str | None, _of_repository("Command that measures, and gives a table.", metavar="COMMAND")
    ] = None,
    quick: Annotated[
        str | None,
        _of_repository("Command that measures $ROOFSMITH_ROWS alone.", metavar="COMMAND"),
    ] = None,
    workspace: Annotated[
        bool,
        _of_repository("Try changes with the files alone that the commands need.", "--workspace"),
    ] = False,
    results: Annotated[
        str | None,
        _of_repository("The file that it writes; by default what it prints.", metavar="GLOB"),
    ] = None,
    pattern: Annotated[
        str | None,
        _of_repository("Where it gives no table: a row per line that matches.", metavar="REGEX"),
    ] = None,
    only: Annotated[
        str | None, _of_repository("Which rows count: 'impl == ours'.", metavar="CONDITION")
    ] = None,
    gate: Annotated[
        str | None, _of_repository("What every row must meet: 'err == 0'.", metavar="CONDITION")
    ] = None,
    metric: Annotated[
        str | None, _of_repository("Column or expression that decides.", metavar="FORMULA")
    ] = None,
    direction: Annotated[
        str | None, _of_repository("lower or higher: which way it is better.", metavar="WAY")
    ] = None,
    unit: Annotated[
        str | None, _of_repository("Of the metric: us, ms, TFLOP/s.", metavar="UNIT")
    ] = None,
    rows: Annotated[
        str | None, _of_repository("Columns that tell rows apart: M,N,K.", metavar="A,B")
    ] = None,
    classes: Annotated[
        str | None, _of_repository("Columns that make config classes.", metavar="A,B")
    ] = None,
    device: Annotated[
        str | None, _of_repository("cpu or gpu: where its kernels run.", metavar="KIND")
    ] = None,
    build_deadline: Annotated[float | None, _deadline("the build", 1800)] = None,
    test_deadline: Annotated[float | None, _deadline("a run of the test", 1800)] = None,
    benchmark_deadline: Annotated[float | None, _deadline("a run of the benchmark", 600)] = None,
    from_pytorch: Annotated[
        str | None,
        of_pytorch(
            "A Python file with a function or an nn.Module, and get_inputs(), in place of a"
            " kernel: reference, kernel, test and target are written.",
            metavar="FILE[:NAME]",
        ),
    ] = None,
    framework: Framework = None,
    output: Annotated[
        Path | None,
        of_pytorch("The new folder; by default the file's name and the language.", metavar="DIR"),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a target.yaml.")] = False,
    opening: Any = None,
) -> None:
    """Write a target.yaml for a kernel, with --repo for a repository, or with --from-pytorch a
    kernel and all the rest for a function or module in PyTorch.

    A kernel and its reference are tried on every workload first. What is wrong is said, with exit
    1; the target is written all the same. A repository's commands run once, and its benchmark
    twice; what isn't said is guessed from its columns, and marked so.
    """
    said: dict[str, Any] = {
        "editable": editable, "build": build, "test": test, "benchmark": benchmark,
        "quick": quick,
        "results": results, "pattern": pattern, "only": only, "gate": gate, "metric": metric,
        "direction": direction, "unit": unit,
        "rows": _columns(rows), "classes": _columns(classes), "device": device,
        "build_deadline_s": build_deadline, "test_deadline_s": test_deadline,
        "benchmark_deadline_s": benchmark_deadline,
    }  # fmt: skip
    said = {key: value for key, value in said.items() if value}
    if from_pytorch is not None:
        workloads, threads = subject.pop("workloads"), subject.pop("threads")
        kernels = {f"--{key}": value for key, value in subject.items()}
        _refuse({"KERNEL": kernel, "--repo": repo, **kernels}, "with --from-pytorch")
        path, function = api.pytorch_file(from_pytorch)
        file = api.PyTorchFile(path, function, framework or "c", output, workloads, name, threads)
        with screen() as observer:
            made = api.initialize_pytorch(file, api.settings(**opening), observer, force=force)
        print_lines(told_of(made))
        raise typer.Exit(1 if made.wrong else 0)
    if repo is not None:
        family, threads = subject.pop("family"), subject.pop("threads")
        kernels = {f"--{key}": value for key, value in subject.items()}
        others = {"--framework": framework, "--output": output}
        _refuse({"KERNEL": kernel, **kernels, **others}, "with --repo")
        if "editable" not in said:
            raise UsageError(
                "--editable is missing",
                hint="roofsmith init --repo DIR --editable 'src/*.c' --build make"
                " --benchmark ./bench --results results.csv",
            )
        wanted = api.RepositoryInit(repo, said, name, family, threads, workspace)
        with screen() as observer:
            found = api.initialize_repository(wanted, force, api.settings(**opening), observer)
        print_lines(_told(found))
        return
    repositorys = {f"--{key}": value for key, value in said.items()}
    _refuse(repositorys | {"--workspace": workspace}, "without --repo")
    _refuse({"--framework": framework, "--output": output}, "without --from-pytorch")
    if kernel is None:
        raise UsageError(
            "a kernel is missing",
            hint="roofsmith init KERNEL --ref REF --workload N=4096,D=4096, or --repo DIR",
        )
    with screen() as observer:
        written = api.initialize(
            api.Subject(kernel, **subject), name, tuple(include or ()), api.settings(**opening),
            observer, force=force,
        )  # fmt: skip
    told = [f"note: {note}" for note in written.notes]
    if written.is_unfinished:
        again = shlex.join(["roofsmith", *sys.argv[1:]])
        print_lines([f"wrote {written.path}", *told, "next: write its reference(), then", again])
        raise typer.Exit(1)
    step = f"{'kernel check' if written.wrong else 'optimize'} {shlex.quote(str(written.path))}"
    print_lines([f"wrote {written.path}", *written.wrong, *told, f"next: roofsmith {step}"])
    raise typer.Exit(1 if written.wrong else 0)


def _columns(text: str | None) -> list[str]:
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def _refuse(given: dict[str, Any], why: str) -> None:
    wrong = [name for name, value in given.items() if value]
    if wrong:
        raise UsageError(f"{wrong[0]} means nothing {why}", hint="roofsmith init --help")


def _shown(value: Any) -> str:
    return str(value) if isinstance(value, str) else ", ".join(value) or "none"


def _told(found: Initialized) -> list[str]:
    guesses = [
        f"guessed {key}: {_shown(found.values[key])}, from {source}"
        for key, source in found.guessed.items()
    ]
    least_s = found.least_runs * found.run_s
    where, named = found.execution, ", ".join(found.execution.files)
    is_set = "workspace" in found.values or where.mode == "repo"
    advice = "" if is_set else f"; --workspace tries changes with {named} alone"
    return [
        f"wrote {found.path}: {found.rows} rows",
        *guesses,
        *found.remarks,
        f"a run of the benchmark took {found.run_s:.2g} s: to keep a change takes"
        f" {found.least_runs} runs, {least_s:.0f} s, or more",
        f"execution mode: {where.mode}, since {where.reason}{advice}",
        f"next: roofsmith optimize {shlex.quote(str(found.path))}",
    ]


@campaign.command()
def define(
    sentence: Annotated[
        list[str], typer.Argument(metavar="SENTENCE", help="What to optimize, where, how far.")
    ],
    yes: Annotated[bool, typer.Option("--yes", help="Write the target without asking.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a target.yaml.")] = False,
    as_json: options.Json = False,
) -> None:
    """Make a campaign of a sentence: "optimize kernel.cu on H20, 3 iterations, into out/".

    Shows every parameter with the words that it was read from, then what is missing and what wasn't
    understood. A terminal is asked for the one, and whether all is right; then the target is
    written, and the command that starts its campaign printed. Exit 2 if something is missing, or
    nobody is there to ask and no --yes answers for them.
    """
    text, settings = " ".join(sentence), api.settings()
    asks, command = sys.stdin.isatty() and not (yes or as_json), None
    found = api.define(text, settings)
    while asks and found.missing:
        print_lines(found.lines)
        for name, why in found.missing.items():
            told = typer.prompt(f"{name}: {why}", err=True)
            text += f"; {told}" if " " in told else f"; {name}: {told}"
        found = api.define(text, settings)
    if not as_json:
        print_lines(found.lines)
    if yes or (asks and typer.confirm("Is that right?", err=True)):
        with screen() as observer:
            command = api.write_defined(found, settings, observer, force=force)
    if as_json:
        print_json(found.document | {"command": command})
    elif command is not None:
        print_lines([f"start it with: {command}"])
    if not (asks or yes or found.missing or as_json):
        why = "nothing was written: there is no terminal to ask whether this is right"
        raise UsageError(why, hint="the same command with --yes, once you have read it")
    raise typer.Exit(2 if found.missing else 0)
