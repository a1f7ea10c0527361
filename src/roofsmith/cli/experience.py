"""What all campaigns learned: experiments and the tips that follow from them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from roofsmith import api
from roofsmith.cli import options
from roofsmith.cli.output import dumped, print_lines, printed
from roofsmith.cli.root import cli
from roofsmith.errors import UsageError

if TYPE_CHECKING:
    from roofsmith.api import Settings
    from roofsmith.api.experience import Database
    from roofsmith.api.views.blocks import Blocks
    from roofsmith.domain.experiment import Experiment
    from roofsmith.domain.tip import Tip

Rows = TypeVar("Rows", bound=Sequence[Any])

experience = typer.Typer(
    no_args_is_help=True, help="What was tried in all campaigns, and how it came out."
)
tips = typer.Typer(no_args_is_help=True, help="Lessons that campaigns begin with.")
cli.add_typer(experience, name="experience")
experience.add_typer(tips, name="tips")

Id = Annotated[str, typer.Argument(metavar="ID", help="Or how it begins.", show_default=False)]
Op = Annotated[
    str | None, typer.Option("--op", "--kernel", help="Operator, or a part of its name.")
]
DType = Annotated[str | None, typer.Option(help="Such as float32, or a part of it.")]
Env = Annotated[str | None, typer.Option(help="Device, system or fingerprint, or a part.")]
Backend = Annotated[str | None, typer.Option(help="c, cpp, cuda, hip, triton, torch, ...")]
Chip = Annotated[str | None, typer.Option(help="Architecture, such as sm_90, or device.")]
BaseCommit = Annotated[str | None, typer.Option(help="Of the kernel that was changed.")]
Status = Annotated[
    str | None, typer.Option(help="baseline, kept, rolled_back, refused, build_failed, ...")
]
Outcome = Annotated[str | None, typer.Option(help="success, neutral or failure.")]
Kind = Annotated[str | None, typer.Option("--bottleneck", help="memory, compute, latency, ...")]
Most = Annotated[int, typer.Option("-n", "--max-results", min=1, help="At most so many.")]
Score = Annotated[float | None, typer.Option("--score", "--speedup", min=0, help="Speedup.")]
Summary = Annotated[str | None, typer.Option("--summary", help="What - result; 80 characters.")]
Description = Annotated[
    str | None, typer.Option("--description", help="Approach, result, why, key insight.")
]
RawResult = Annotated[str | None, typer.Option(help="As the benchmark gave it.")]
Counters = Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="A counter.")]


@experience.command()
def add(
    op: Op = None,
    backend: Backend = None,
    chip: Chip = None,
    dims: Annotated[str | None, typer.Option(help="Such as N=4096,D=128.")] = None,
    dtype: DType = None,
    env: Env = None,
    bottleneck: Kind = None,
    stall: Annotated[str | None, typer.Option(help="What its warps waited for most.")] = None,
    optimization: Annotated[str | None, typer.Option(help="What was changed.")] = None,
    hypothesis: Annotated[str | None, typer.Option(help="Why it should help.")] = None,
    outcome: Outcome = None,
    score: Score = None,
    before: Counters = None,
    after: Counters = None,
    summary: Summary = None,
    description: Description = None,
    raw_result: RawResult = None,
    profiling_info: Annotated[str | None, typer.Option(help="What a profiler showed.")] = None,
    parent: Annotated[str | None, typer.Option(help="Id of what it builds on.")] = None,
    base_commit: BaseCommit = None,
    status: Status = None,
    buggy: Annotated[bool, typer.Option("--buggy", help="It crashes or is wrong.")] = False,
    error: Annotated[str | None, typer.Option(help="What went wrong.")] = None,
    notes: Annotated[list[str] | None, typer.Option(help="Anything else.")] = None,
    as_json: options.Json = False,
) -> None:
    """Tell of an attempt; rounds of campaigns land by themselves."""
    values = {
        "operator_sig": op, "backend": backend, "chip": chip, "dims": dims, "dtype_sig": dtype,
        "env": env, "bottleneck": bottleneck, "stall": stall, "optimization": optimization,
        "hypothesis": hypothesis, "outcome": outcome, "score": score,
        "counters_before": _numbers(before), "counters_after": _numbers(after),
        "change_summary": summary, "detailed_description": description, "raw_result": raw_result,
        "profiling_info": profiling_info, "pid": parent, "base_commit": base_commit,
        "status": status, "is_buggy": buggy or None, "error_message": error, "notes": notes,
    }  # fmt: skip
    if not any(values[name] for name in ("optimization", "change_summary", "hypothesis")):
        raise UsageError("nothing says what was changed", hint="--optimization or --summary TEXT")
    if score is None and outcome is None and not buggy:
        raise UsageError("nothing says how it came out", hint="--speedup, --outcome or --buggy")
    _show(api.experience.add(_database(), values), as_json=as_json)


@experience.command()
def update(
    experiment_id: Id,
    reason: Annotated[str, typer.Option(help="Why; kept with what was there before.")],
    score: Score = None,
    outcome: Outcome = None,
    summary: Summary = None,
    description: Description = None,
    raw_result: RawResult = None,
    fields: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="FIELD=VALUE", help="Any other, as `show --json` names it."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Correct an experiment; the old value stays with the reason."""

    given = {
        "score": score, "outcome": outcome, "change_summary": summary,
        "detailed_description": description, "raw_result": raw_result,
    }  # fmt: skip
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    for one in fields or ():
        name, equals, text = one.partition("=")
        if not equals:
            raise UsageError(f"--set {one}: FIELD=VALUE")
        changes[name] = _value(text)
    if not changes:
        raise UsageError("nothing is to be changed", hint="--score, --summary or --set FIELD=VALUE")
    _show(_database().update(experiment_id, changes, reason), as_json=as_json)


@experience.command()
def show(experiment_id: Id, as_json: options.Json = False) -> None:
    """Print one of them whole."""

    _show(_database().get(experiment_id), as_json=as_json)


@experience.command("list")
def list_(
    op: Op = None,
    dtype: DType = None,
    env: Env = None,
    base_commit: BaseCommit = None,
    status: Status = None,
    outcome: Outcome = None,
    backend: Backend = None,
    chip: Chip = None,
    bottleneck: Kind = None,
    most: Most = 50,
    as_json: options.Json = False,
) -> None:
    """The newest that match, the oldest of them first."""
    query = api.experience.Query(
        op=op, dtype=dtype, env=env, base_commit=base_commit, status=status, outcome=outcome,
        backend=backend, chip=chip, bottleneck=bottleneck,
    )  # fmt: skip
    there = _database()
    _list(there, there.list(api.experience.known(there, query), most), as_json=as_json)


@experience.command()
def recommend(
    op: Op = None,
    backend: Backend = None,
    chip: Chip = None,
    bottleneck: Kind = None,
    dtype: DType = None,
    shape: Annotated[str | None, typer.Option(help="Such as N=4096,D=128.")] = None,
    counters: Counters = None,
    most: Most = 20,
    as_json: options.Json = False,
) -> None:
    """What worked and what failed in like situations, each with the rounds that show it.

    Ranked by likeness (family, architecture, bottleneck, type, size, counters) times effect. What
    isn't told is compared with nothing.
    """
    from roofsmith.api.views import experience as views

    here = api.experience.situation(op, backend, chip, bottleneck, dtype, shape, _numbers(counters))
    there = _database()
    api.experience.known(there, api.experience.Query(backend=backend))
    found = api.experience.recommend(there, here)
    worked = [one for one in found if one.worked][:most]
    failed = [one for one in found if not one.worked][:most]

    def document(_: Sequence[Any]) -> dict[str, Any]:
        told = {"worked": [*map(dumped, worked)], "failed": [*map(dumped, failed)]}
        return {"situation": dumped(here), **told}

    _found(there, worked + failed, document, views.recommendations, as_json=as_json)


@experience.command()
def top(most: Most = 20, op: Op = None, as_json: options.Json = False) -> None:
    """The correct ones of the highest score, best first."""
    there = _database()
    _list(there, there.top(most, api.experience.Query(op=op)), as_json=as_json)


@experience.command()
def search(
    words: Annotated[list[str], typer.Argument(metavar="WORD...", show_default=False)],
    most: Most = 20,
    as_json: options.Json = False,
) -> None:
    """Those with all of the words in summaries, descriptions, notes, errors and diffs."""
    text = " ".join(words)
    if not any(map(str.isalnum, text)):
        raise UsageError("there is no word to search for")
    there = _database()
    _list(there, there.search(text, most), as_json=as_json)


@experience.command()
def merge(
    yes: Annotated[bool, typer.Option("--yes", help="Fold them.")] = False,
    as_json: options.Json = False,
) -> None:
    """Which experiments tell the same; with --yes, one of each stands for the others."""
    from roofsmith.api.views import experience as views

    def document(found: api.experience.Merged) -> dict[str, Any]:
        groups = ({"stays": a.id, "folded": [b.id for b in others]} for a, others in found.groups)
        return {"groups": list(groups), "done": found.done}

    printed(api.experience.merge(_database(), fold=yes), document, views.merged, as_json=as_json)


@experience.command()
def sync(
    directory: Annotated[Path, typer.Argument(metavar="DIR", show_default=False)],
    as_json: options.Json = False,
) -> None:
    """Write DIR/experiences.md and DIR/GPU/OPERATOR/BACKEND/tips.md."""
    from roofsmith.api.views import experience as views

    def document(found: api.experience.Synced) -> dict[str, Any]:
        return {"files": [*map(str, found.files)], "complaints": found.complaints}

    printed(api.experience.sync(_database(), directory), document, views.written, as_json=as_json)


@experience.command()
def stats(as_json: options.Json = False) -> None:
    """How often attempts succeed, by kernel, tactic and chip, with Wilson's intervals."""
    from dataclasses import asdict

    from roofsmith.api.views import experience as views

    def document(found: Sequence[Any]) -> dict[str, Any]:
        return {"rates": [{**asdict(one), "share": one.share} for one in found]}

    there = _database()
    _found(there, api.experience.stats(there), document, views.rates, as_json=as_json)


@experience.command()
def export(
    place: Annotated[
        str | None,
        typer.Argument(
            metavar="[FILE|URL]",
            help="JSONL; a database: sqlite:////folder/x.db, postgresql://user@host/name, or a"
            " file that is one or ends in .db, .sqlite or .sqlite3.",
            show_default="JSONL on stdout",
        ),
    ] = None,
) -> None:
    """Everything as JSON lines, or into another database."""
    count, text = api.experience.export(_database(), place)
    if place is None:
        sys.stdout.write(text)
    else:
        print_lines([f"{count} experiments are in {place}"])


@experience.command("import")
def import_(
    place: Annotated[
        str,
        typer.Argument(
            metavar="FILE|DIR|URL",
            show_default=False,
            help="JSONL, JSON, tips.md, a ledger, a folder of those, or a database.",
        ),
    ],
    as_json: options.Json = False,
) -> None:
    """Keep what somebody else has; what is there already stays as it is."""
    from dataclasses import asdict

    from roofsmith.api.views import experience as views

    printed(api.experience.import_(_database(), place), asdict, views.imported, as_json=as_json)


@tips.command("list")
def tips_list(
    op: Op = None, backend: Backend = None, device: Chip = None, as_json: options.Json = False
) -> None:
    """Lessons of campaigns and of people, the oldest first."""
    from roofsmith.api.views import experience as views

    def document(found: Sequence[tuple[Any, Any]]) -> dict[str, Any]:
        return {"tips": [*map(_tip_document, found)]}

    there = _database()
    found = api.experience.tips(there, api.experience.Query(op=op, backend=backend, chip=device))
    _found(there, found, document, views.tips, as_json=as_json)


@tips.command("show")
def tips_show(experiment_id: Id, as_json: options.Json = False) -> None:
    """Print one of them whole."""
    from roofsmith.api.views import experience as views

    found = api.experience.tip(_database(), experiment_id)
    printed(found, _tip_document, views.tip, as_json=as_json)


@tips.command("add")
def tips_add(
    takeaway: Annotated[str, typer.Argument(help="What to do, or to leave.", show_default=False)],
    op: Annotated[str, typer.Option("--op", "--kernel", help="Operator: the target's family.")],
    backend: Annotated[str, typer.Option(help="c, cpp, cuda, hip, triton, torch, ...")],
    device: Annotated[str, typer.Option(help="As `doctor` names it, or an architecture.")],
    context: Annotated[str, typer.Option(help="On what kernel it was learned.")] = "",
    signal: Annotated[str, typer.Option(help="What was measured.")] = "",
    applicability: Annotated[str, typer.Option(help="Where it holds.")] = "",
    author: Annotated[str, typer.Option(help="Who says so.")] = "",
    as_json: options.Json = False,
) -> None:
    """Tell later campaigns a lesson."""
    from roofsmith.api.views import experience as views
    from roofsmith.domain.tip import Tip

    tip = Tip(
        lesson="", context=context, signal=signal, takeaway=takeaway,
        applicability=applicability, origin=author, at="",
    )  # fmt: skip
    added = api.experience.add_tip(_database(), tip, operator=op, backend=backend, device=device)
    printed(added, _tip_document, views.tip, as_json=as_json)


def _tip_document(found: tuple[Experiment, Tip]) -> dict[str, Any]:
    row, tip = found
    return {"id": row.id, **tip.model_dump()}


def _database() -> Database:
    from roofsmith.api.experience import database

    return database(_settings(), partial(print, file=sys.stderr))


def _settings() -> Settings:
    return api.settings()


def _show(found: Experiment, *, as_json: bool) -> None:
    from roofsmith.api.views import experience as views

    printed(found, dumped, views.experiment, as_json=as_json)


def _list(there: Database, found: Sequence[Experiment], *, as_json: bool) -> None:
    from roofsmith.api.views import experience as views

    def document(rows: Sequence[Experiment]) -> dict[str, Any]:
        return {"experiments": [dumped(one) for one in rows]}

    _found(there, found, document, views.listing, as_json=as_json)


def _found(
    there: Database, found: Rows, document: Callable[[Rows], Any], view: Callable[[Rows], Blocks],
    *, as_json: bool,
) -> None:  # fmt: skip
    from roofsmith.api.experience import nothing

    if found or as_json:
        printed(found, document, view, as_json=as_json)
    else:
        print(nothing(there))


def _numbers(pairs: Sequence[str] | None) -> dict[str, float] | None:
    try:
        found = (one.split("=") for one in pairs or ())
        return {name: float(value) for name, value in found} or None
    except ValueError as error:
        raise UsageError(f"a counter is NAME=VALUE, not {', '.join(pairs or ())}") from error


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
