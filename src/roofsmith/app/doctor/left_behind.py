"""Checks of what earlier runs and people left: locked clocks, pages of the wiki."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import ValidationError

from roofsmith.app.doctor.asking import Answer
from roofsmith.devices.clock_claims import boot_id, is_alive, recorded
from roofsmith.devices.clocks_amd import RocmSmiClocks
from roofsmith.devices.clocks_nvidia import NvmlClocks
from roofsmith.domain.clocks import ClockClaim
from roofsmith.domain.examination import Check, Level
from roofsmith.errors import RoofsmithError
from roofsmith.specs.wiki_problems import PageProblem

SHOWN_PROBLEMS = 3
"""Of the wiki: a folder of broken pages fills no screen."""


def clock_checks(folder: Path) -> Iterator[Check]:
    """Clocks that a run which was killed left locked.

    Args:
        folder: where runs record which clocks they hold.
    """
    for path in recorded(folder):
        try:
            claim = ClockClaim.model_validate_json(path.read_bytes())
        except (OSError, ValidationError):
            yield Check(
                area="GPU", name="locked clocks", level="limited",
                detail=f"{path} says that a run held clocks, but can't be read",
                fix=f"sudo nvidia-smi -rgc (AMD: rocm-smi --resetperfdeterminism), then rm {path}",
            )  # fmt: skip
            continue
        if claim.owner.boot_id != boot_id():
            continue
        if is_alive(claim.owner):
            if claim.owner.pid == os.getpid():
                continue
            yield Check(
                area="GPU", name="locked clocks", level="limited",
                detail=f"of {claim.uuid}, by {claim.owner.sentence}", fix="wait until it is over",
            )  # fmt: skip
            continue
        driver = NvmlClocks() if claim.vendor == "nvidia" else RocmSmiClocks(None)
        yield Check(
            area="GPU", name="locked clocks", level="limited",
            detail=f"of {claim.uuid}, by a run that was killed ({claim.owner.sentence})",
            fix=f"{driver.by_hand(claim.uuid)} (the next run on any GPU does it too)",
        )  # fmt: skip


def wiki_checks(wiki: Answer[Sequence[PageProblem]], folder: Path | None) -> Iterator[Check]:
    """Pages of the hardware wiki that don't load.

    Args:
        wiki: what is wrong with them.
        folder: of the user's own pages.
    """

    def check(level: Level, detail: str, fix: str | None = None) -> Check:
        return Check(area="files", name="wiki", level=level, detail=detail, fix=fix)

    try:
        problems = wiki.get()
    except RoofsmithError as error:
        yield check("limited", error.message, error.hint)
        return
    for problem in problems[:SHOWN_PROBLEMS]:
        detail = f"{problem.place}: {problem.detail}; the page is not used"
        yield check("limited", detail, problem.fix)
    if len(problems) > SHOWN_PROBLEMS:
        more = len(problems) - SHOWN_PROBLEMS
        yield check("limited", f"{more} more problems in {folder}", "roofsmith specs list")
    if not problems:
        yield check("ok", f"bundled pages; own pages go to {folder or '$ROOFSMITH_WIKI'}")
