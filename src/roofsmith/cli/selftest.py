"""The adversarial suite: does the judge catch what it promises to catch?"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roofsmith import api
from roofsmith.cli.output import print_lines, print_table
from roofsmith.cli.root import cli
from roofsmith.cli.screen import screen
from roofsmith.cli.taking import takes
from roofsmith.domain.options import Opening
from roofsmith.wording import plural

if TYPE_CHECKING:
    from roofsmith.api import Observer
    from roofsmith.domain.campaign import Campaign, Event
    from roofsmith.selftest.examination import SampleFinding, Unexamined
    from roofsmith.selftest.record import Run
    from roofsmith.selftest.samples import CorpusSample


@cli.command()
@takes(opening=Opening)
def selftest(
    language: Annotated[
        list[str] | None,
        typer.Option(
            help="c, cuda, triton or torch; repeat for more.", show_default="all that runs here"
        ),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="One kernel; repeat for more.")
    ] = None,
    json: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write the record, after every kernel; what else is in it stays."
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Leave out kernels that the record has already, by this judge and on such a"
            " device.",
        ),
    ] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the matrix as Markdown.")
    ] = None,
    naive: Annotated[
        bool, typer.Option("--naive/--no-naive", help="Ask the naive harness, too.")
    ] = True,
    budget: Annotated[
        float, typer.Option(help="Seconds for the measurements of one kernel.", min=0.5)
    ] = 2.0,
    tools: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="In place of all that: run the vendor's tools on a tiny kernel, and keep what they"
            " print there and in DIR.tar.gz, to be sent back.",
        ),
    ] = None,
    opening: Any = None,
) -> None:
    """Judge a corpus of attacks, which must be caught, and of honest kernels, which must pass.

    Exit 1 if an attack gets through or an honest kernel is rejected; 2 if none can run here.
    """
    from roofsmith.errors import MachineError, UsageError
    from roofsmith.selftest import record
    from roofsmith.selftest.examination import examine
    from roofsmith.selftest.page import page

    if tools is not None:
        return _collect(tools)
    if resume and json is None:
        raise UsageError("--resume: there is no record to go on with", hint="--json FILE")
    known = record.read(json) if json is not None and json.exists() else record.SelftestRecord()
    wanted = _chosen(language, only)
    chosen = known.missing(wanted) if resume else wanted
    started, command = record.now(), shlex.join(["roofsmith", *sys.argv[1:]])
    settings = api.settings(**opening)
    with screen() as observer:
        api.try_clocks({sample.language for sample in chosen}, settings, observer)

        def progress(index: int, sample: CorpusSample) -> Observer:
            return _Counted(observer, f"{index + 1} of {len(chosen)}: {sample.id}")

        seen: list[SampleFinding | Unexamined] = []
        run = record.run_of(seen, command, started)
        for found in examine(chosen, settings, progress, naive=naive, budget_s=budget):
            seen.append(_told(found))
            run = record.run_of(seen, command, started)
            if json is not None:
                record.write(known.updated(run.record).text, json)
    known = known.updated(run.record)
    if out is not None:
        record.write(page(known), out)
    if resume:
        run = run.model_copy(update={"record": known.only(wanted)})
    if run.unexamined and not run.findings:
        reasons = sorted({absent.reason for absent in run.unexamined})
        raise MachineError(
            f"no kernel of {len(run.unexamined)} could be judged here: {'; '.join(reasons)}",
            hint="`roofsmith doctor` says what is missing; --language c needs a compiler alone",
        )
    _show(run)
    raise typer.Exit(0 if run.flawless else 1)


def _collect(folder: Path) -> None:
    from roofsmith.errors import StorageError
    from roofsmith.selftest.tools import collect

    with screen() as observer:
        try:
            packed, came = collect(folder, lambda name: observer.stage("tools", name))
        except OSError as error:
            raise StorageError(f"can't write {folder}: {error.strerror}") from error
    for name, how in came.items():
        print(f"{name}: {how}")
    print(f"\n{packed}: read it before you send it: names, serial numbers and paths are in it")


class _Counted:
    """An observer that shows which kernel of how many is judged, whatever stage it is in."""

    def __init__(self, inner: Observer, title: str) -> None:
        self._inner, self._title = inner, title

    def stage(self, name: str, detail: str = "") -> None:
        """The kernel, and in which stage its judgement is."""
        self._inner.stage("selftest", f"{self._title}: {name} {detail}".rstrip())

    def progress(self, fraction: float, detail: str = "") -> None:
        """Nothing: the stages change faster than a bar."""

    def event(self, event: Event, campaign: Campaign) -> None:
        """Hand on."""
        self._inner.event(event, campaign)


def _told(found: SampleFinding | Unexamined) -> SampleFinding | Unexamined:
    """A line per kernel in a log, where there is no live one."""
    from roofsmith.selftest.examination import SampleFinding

    if isinstance(found, SampleFinding) and not sys.stderr.isatty():
        print(f"{found.id}: {found.outcome}", file=sys.stderr, flush=True)
    return found


def _chosen(languages: list[str] | None, only: list[str] | None) -> tuple[CorpusSample, ...]:
    from roofsmith.errors import UsageError
    from roofsmith.selftest.samples import LANGUAGES, samples

    if strange := set(languages or ()) - set(LANGUAGES):
        raise UsageError(
            f"the corpus has nothing in {', '.join(sorted(strange))}",
            hint=f"--language {', --language '.join(LANGUAGES)}",
        )
    chosen = [s for s in samples() if not languages or s.language in languages]
    if strange := set(only or ()) - {sample.name for sample in chosen}:
        raise UsageError(
            f"the corpus has no kernel {', '.join(sorted(strange))}",
            hint="docs/selftest.md lists them all",
        )
    return tuple(sample for sample in chosen if not only or sample.name in only)


def _show(run: Run) -> None:
    print_table(
        ("kernel", "right", "reason", "the judge", "naive harness", "time"),
        [_row(found) for found in run.findings],
    )
    attacks = [found for found in run.findings if found.is_attack]
    honest = [found for found in run.findings if not found.is_attack]
    caught, passed = (sum(f.right for f in group) for group in (attacks, honest))
    rejected = [found for found in attacks if found.is_rejected]
    harmless = sum(found.right and not found.is_rejected for found in attacks)
    reasons = sum(found.right_reason for found in rejected)
    print_lines(
        [
            "",
            f"{caught} of {len(attacks)} attacks caught or harmless: {len(rejected)} rejected"
            f" ({reasons} with the right reason), {harmless} harmless",
            f"{passed} of {len(honest)} honest kernels let through",
        ]
    )
    for reason in sorted({absent.reason for absent in run.unexamined}):
        count = sum(absent.reason == reason for absent in run.unexamined)
        print_lines([f"{plural(count, 'kernel')} could not run here: {reason}"])


def _row(found: SampleFinding) -> tuple[str, ...]:
    naive = found.naive
    opinion = "" if naive is None else "wrong" if not naive.correct else f"{naive.speedup:.2f}x"
    if found.deceives_naive is not None:
        opinion = (
            f"{opinion or 'no verdict'}, {'deceived' if found.deceives_naive else 'not deceived'}"
        )
    return (
        found.id,
        "yes" if found.right else "NO",
        ("yes" if found.right_reason else "no") if found.is_rejected else "",
        found.outcome,
        opinion,
        f"{found.seconds:.1f} s",
    )
