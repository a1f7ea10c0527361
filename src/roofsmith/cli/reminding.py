"""Says which changes were told and got lost on the way to a record, and how to tell them again."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from roofsmith.errors import CampaignBusyError


@contextmanager
def reminded(directory: Path) -> Iterator[None]:
    """Around a command that works in a campaign's directory; on stderr, however it ends.

    Raises:
        UsageError: there is no campaign; said before anything that measures is imported.
    """
    from roofsmith import api

    api.require_campaign(directory)
    is_ours = True
    try:
        yield
    except CampaignBusyError:
        is_ours = False  # what is on its way there may be another process's
        raise
    finally:
        if is_ours:
            _remind(directory)


def _remind(directory: Path) -> None:
    from roofsmith import api

    for line in api.reminders(directory):
        print(line, file=sys.stderr)
