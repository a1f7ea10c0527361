"""What may be asked of a campaign that runs: its end, after a round or now, and other limits."""

from __future__ import annotations

import os
import shlex
import signal
from contextlib import suppress
from pathlib import Path

from roofsmith.api.reading import read_campaign
from roofsmith.api.session import limited
from roofsmith.domain.options import SessionLimits
from roofsmith.domain.standing import limits_in_force
from roofsmith.errors import UsageError
from roofsmith.store.campaign_dir import Working, ask, asked, require_campaign, working


def stop(directory: Path, *, now: bool = False) -> str:
    """Have a campaign end after the round that it is at, or now; what comes of it, in a sentence.

    Raises:
        UsageError: no process of this user works there, or there is no campaign.
        StorageError: it can't be asked.
    """
    process = _process(directory)
    if now:
        with suppress(ProcessLookupError):  # it has just ended
            os.kill(process.pid, signal.SIGTERM)
        return "it ends now; the round that was judged is judged again when it goes on"
    ask(directory, asked(directory).model_copy(update={"stop": True}))
    return "it ends after the round that it is at, once the kernel that holds was measured"


def limit(directory: Path, limits: SessionLimits) -> str:
    """Set other limits for a campaign; what holds from its next round on, in a sentence.

    Raises:
        UsageError: none is named, one is out of its range or fixed, or no process works there.
        StorageError: it can't be asked.
    """
    if limits == SessionLimits():
        raise UsageError("no limit is named", hint="--max-iterations N, --budget-s S, --max-cost")
    _process(directory)
    in_force = asked(directory).limits or limits_in_force(read_campaign(directory))
    new = limited(in_force, limits)
    ask(directory, asked(directory).model_copy(update={"limits": new}))  # or a stop is forgotten
    changed = (f"{name} {value}" for name, value in new if value != getattr(in_force, name))
    return f"from the next round on: {', '.join(changed) or 'the same limits'}"


def _process(directory: Path) -> Working:
    """That works in a campaign's directory."""
    for one in working():
        if one.directory == directory.resolve():
            return one
    require_campaign(directory)
    raise UsageError(
        f"no process of yours works in {directory}",
        hint=f"roofsmith resume {shlex.quote(str(directory))} goes on, also with other limits",
    )
