"""The kernel that a campaign came to, as its user takes it home: where it is, what it changes from
the start, what it is built with. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from roofsmith.domain.campaign import Campaign
from roofsmith.report.diffs import BUILD_PATH, FileDiff, candidate_diff

DIFFERENCE = "final.diff"
"""In the campaign's directory: the whole difference from the start, as `git apply` reads it."""


@dataclass(frozen=True, slots=True)
class TakenHome:
    """What was kept, all together."""

    snapshot: str
    """Folder of its files in the campaign's directory."""
    files: tuple[FileDiff, ...]
    """Sources that differ from the start."""
    build: str
    """The whole command line that it was measured with; empty where its repository builds it."""

    @property
    def difference(self) -> str:
        """Of all files, as one patch."""
        return "".join(diff.text for diff in self.files)

    @property
    def patch(self) -> str:
        """The file that holds that."""
        return DIFFERENCE


def taken_home(campaign: Campaign) -> TakenHome | None:
    """None where nothing was kept."""
    if not campaign.kept:
        return None
    target, last = campaign.started.target, campaign.kept[-1]
    diffs = candidate_diff(target.baseline, last.candidate)
    return TakenHome(
        snapshot=f"rounds/round-{last.round}/kernel_snapshot",
        files=tuple(diff for diff in diffs if diff.path != BUILD_PATH),
        build="" if target.command else last.candidate.build.command_line(target.language),
    )
