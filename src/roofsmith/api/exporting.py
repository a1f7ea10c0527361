"""A campaign's kernel leaves as files that an engine, a harness or a project loads."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from roofsmith.analysis import figures as fmt
from roofsmith.api.hardware import booted_reference, leased_machine, oracle_for
from roofsmith.api.reading import read_campaign
from roofsmith.config import Settings
from roofsmith.domain.campaign import Campaign
from roofsmith.errors import UsageError
from roofsmith.ports import Observer
from roofsmith.report.next_steps import taken_home
from roofsmith.report.summarize import summarize
from roofsmith.report.summary import Summary
from roofsmith.scratch import filing_logs
from roofsmith.store.files import storage_errors, write_file
from roofsmith.targets.exports.forms import FORMATS, Files, Winner

PATCH = "patch"
NOTHING_KEPT = "nothing was kept: this is the kernel that the campaign began with"


@dataclass(frozen=True, slots=True)
class Exported:
    """The files that were written, and what kernel they hold."""

    files: tuple[Path, ...]
    about: str
    """A sentence: what kernel it is, and how fast; empty of a patch."""


def export_campaign(
    directory: Path, form: str, output: Path, settings: Settings, observer: Observer
) -> Exported:
    """Write the kernel that a campaign came to in one of the field's forms.

    Raises:
        UsageError: there is no such form, the campaign is a repository's, or a file is there.
        StorageError: a file can't be written.
    """
    if form != PATCH and form not in FORMATS:
        raise UsageError(
            f"there is no format {form}", hint=f"one of {', '.join([*FORMATS, PATCH])}"
        )
    campaign = read_campaign(directory)
    if form == PATCH:
        files, about = _patch(campaign), ""
    else:
        winner = _winner(campaign, settings, observer)
        files, about = FORMATS[form](winner), winner.about
    paths = {output / name: text for name, text in files.items()}
    there = [path for path in paths if path.exists()]
    if there:
        raise UsageError(f"{there[0]} exists already", hint="--output OTHER")
    for path, text in paths.items():
        with storage_errors("write", path):
            path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, text.encode("utf-8"))
    return Exported(tuple(paths), about)


def _patch(campaign: Campaign) -> Files:
    home = taken_home(campaign)
    if home is None:
        raise UsageError("nothing was kept: your files stay as they are")
    return {f"{campaign.started.target.name}.patch": home.difference}


def _winner(campaign: Campaign, settings: Settings, observer: Observer) -> Winner:
    target = campaign.started.target
    if target.command is not None:
        raise UsageError(
            f"{target.name} is a repository, whose kernels stay in its files",
            hint="--format patch, or roofsmith apply",
        )
    found = summarize(campaign)
    with (
        filing_logs(settings.logs_dir),
        booted_reference(target) as booted,
        leased_machine(settings, target.language, observer) as machine,
        oracle_for(target, machine, booted) as oracle,
    ):
        signature = machine.toolchain.signature(campaign.incumbent)
        described = {one.label: oracle.describe(one) for one in target.workloads}
    about = f"{target.name}: {how_fast(found)}, on {found.device}"
    return Winner(target, campaign.incumbent, signature, described, about)


def how_fast(found: Summary) -> str:
    """The campaign's own headline, with its interval."""
    if not found.kept:
        return NOTHING_KEPT
    if found.headline is None:
        return "nobody measured how fast it is"
    return f"{fmt.ratio(found.headline.value, found.headline.ci)} over the kernel it began with"
