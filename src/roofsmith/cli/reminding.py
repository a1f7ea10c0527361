"""Says which changes were told and got lost on the way to a record, and how to tell them again."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
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
            print_reminders(reminders_of(directory))


def reminders_of(directory: Path) -> Iterable[str]:
    """What is said of each change that no record holds."""
    from roofsmith import api

    return api.reminders(directory)


def print_reminders(reminders: Iterable[str]) -> None:
    """Say it."""
    for line in reminders:
        print(line, file=sys.stderr)
