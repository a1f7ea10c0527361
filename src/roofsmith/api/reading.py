"""Looks at a campaign without holding its directory: also one that somebody works on right now."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path

from roofsmith.analysis.scan import scan
from roofsmith.api.subjects import candidate_from
from roofsmith.domain.campaign import Campaign, Round, replay
from roofsmith.domain.kernel import Candidate
from roofsmith.domain.profile import Profile
from roofsmith.domain.remark import Remark
from roofsmith.errors import UsageError
from roofsmith.store.ledger import JsonlLedger


def read_campaign(directory: Path) -> Campaign:
    """The campaign that a directory's ledger holds.

    Raises:
        UsageError: there is none.
        LedgerError: a record was changed.
    """
    campaign = replay(JsonlLedger(directory / "ledger.jsonl").events())
    if campaign is None:
        raise UsageError(
            f"{directory} holds no campaign", hint="name the directory that its start printed"
        )
    return campaign


def round_of(campaign: Campaign, number: int) -> Round:
    """One round by its number.

    Raises:
        UsageError: there is none of that number; the first is the baseline, which changed nothing.
    """
    for round_ in campaign.rounds:
        if round_.round == number:
            return round_
    last = campaign.last_round
    known = f"rounds 2 to {last}" if last > 1 else "only the baseline, round 1, so far"
    raise UsageError(f"there is no change in round {number}", hint=f"there are {known}")


def diff_of(campaign: Campaign, number: int) -> str:
    """What a round changed of its incumbent, as a unified diff.

    Raises:
        UsageError: there is no such round.
    """
    round_ = round_of(campaign, number)
    known = {r.candidate.id: r.candidate for r in campaign.rounds}
    before = known.get(round_.incumbent_id, campaign.started.target.baseline)
    old, new = _texts(before), _texts(round_.candidate)
    lines: list[str] = []
    for path in sorted(old.keys() | new.keys()):
        a, b = (texts.get(path, "").splitlines(keepends=True) for texts in (old, new))
        lines += difflib.unified_diff(a, b, f"a/{path}", f"b/{path}")
    if before.build != round_.candidate.build:
        lines.append(f"flags: {' '.join(before.build.flags)} -> ")
        lines.append(f"{' '.join(round_.candidate.build.flags)}\n")
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def profile_of(campaign: Campaign, number: int | None = None) -> Profile | None:
    """Counters of a round's candidate, or of the kernel that holds now; None: nobody counted.

    Raises:
        UsageError: there is no such round.
    """
    if number is not None and number > 1:
        return round_of(campaign, number).profile
    found = campaign.holder if number is None else campaign.baseline
    return None if found is None else found.profile


def remarks(path: Path) -> tuple[Remark, ...]:
    """What a kernel's source does that a judge watches for; nothing is built.

    Raises:
        TargetError: the file can't be read, or its suffix says no language.
    """
    return scan(candidate_from(path, None))


def _texts(candidate: Candidate) -> Mapping[str, str]:
    return {source.path: source.text for source in candidate.sources}
