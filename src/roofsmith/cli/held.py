"""How a command is answered by the process that holds its campaign open."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from roofsmith import api, campaign_socket
from roofsmith.cli.output import print_blocks, print_json
from roofsmith.cli.screen import LiveScreen, PlainScreen, screen
from roofsmith.errors import CampaignBusyError


def answered(
    directory: Path,
    command: str,
    arguments: dict[str, Any],
    *,
    isolation: str | None = None,
    waits: bool = True,
) -> dict[str, Any]:
    """What an open campaign answers; where no process can hold it open, it is opened here.

    Raises:
        RoofsmithError: as if it were asked in this process.
    """
    request: dict[str, Any] = {
        "command": command,
        "arguments": arguments,
        "opened": {"isolation": isolation, "waits": waits},
    }
    reminders: list[str] = []

    def hear(said: dict[str, Any]) -> None:
        if said["kind"] == "reminder":
            reminders.append(said["line"])
        elif said["kind"] == "died":
            reminders.extend(reminders_of(directory))
        show_said(shown, said)

    try:
        with screen() as shown:
            request |= {"width": shown.width, "is_live": shown.is_live}
            if (answer := campaign_socket.exchanged(directory, request, hear)) is not None:
                return answer
            with reminded(directory):
                return api.answered_here(directory, request, shown)
    finally:
        print_reminders(reminders)


def show_answer(answer: dict[str, Any], *, as_json: bool) -> None:
    """Its document, or as people are shown it."""
    if as_json:
        print_json(answer["document"])
    else:
        print_blocks(_blocks(answer["blocks"]))


def show_said(shown: LiveScreen | PlainScreen, said: dict[str, Any]) -> None:
    """What the process that holds a campaign says meanwhile."""
    match said["kind"]:
        case "stage":
            shown.stage(said["name"], said["detail"])
        case "progress":
            shown.progress(said["fraction"], said["detail"])
        case "lines":
            shown.lines([[(text, style) for text, style in line] for line in said["lines"]])
        case _:
            pass


def _blocks(plain: list[Any]) -> Iterator[Any]:
    from roofsmith.api.views.blocks import Prose, Table

    for block in plain:
        if isinstance(block, str):
            yield block
        else:
            yield Prose(**block) if "text" in block else Table(**block)


@contextmanager
def reminded(directory: Path) -> Iterator[None]:
    """Around a command that works in a campaign's directory; on stderr, however it ends.

    Raises:
        UsageError: there is no campaign; said before anything that measures is imported.
    """
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
    return api.reminders(directory)


def print_reminders(reminders: Iterable[str]) -> None:
    """Say it."""
    for line in reminders:
        print(line, file=sys.stderr)
