"""Campaigns that a process holds open: commands that go through it, and `ps` and `close`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from roofsmith import campaign_socket
from roofsmith.cli import options
from roofsmith.cli.output import print_blocks, print_json, print_lines, print_table
from roofsmith.cli.reminding import print_reminders, reminded, reminders_of
from roofsmith.cli.root import cli
from roofsmith.cli.screen import LiveScreen, PlainScreen, screen

_CAMPAIGNS = "Campaigns"


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
        _show(shown, said)

    try:
        with screen() as shown:
            request |= {"width": shown.width, "is_live": shown.is_live}
            if (answer := campaign_socket.exchanged(directory, request, hear)) is not None:
                return answer
            from roofsmith import api

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


@cli.command(rich_help_panel=_CAMPAIGNS)
def ps(as_json: options.Json = False) -> None:
    """List the campaigns that a process holds open for `ask` and `tell`."""
    found = [
        (held, campaign_socket.status(held.directory) or {}) for held in campaign_socket.holders()
    ]
    if as_json:
        rows = [
            {
                "pid": held.pid, "directory": str(held.directory), "since": status.get("since"),
                "idle_s": status.get("idle_s"), "running": status.get("running"),
            }
            for held, status in found
        ]  # fmt: skip
        print_json({"held": rows})
    elif not found:
        print_lines(["no campaign is held open"])
    else:
        print_table(
            ("pid", "since", "idle", "at work on", "directory"),
            [
                (
                    str(held.pid), status.get("since", "?"), _idle(status),
                    status.get("running") or "", str(held.directory),
                )
                for held, status in found
            ],
        )  # fmt: skip


@cli.command(rich_help_panel=_CAMPAIGNS)
def close(
    directories: Annotated[
        list[Path] | None, typer.Argument(metavar="[DIR]...", show_default="all")
    ] = None,
) -> None:
    """Have processes end that hold campaigns open, each after what it does; none loses anything."""
    named = directories or [held.directory for held in campaign_socket.holders()]
    for directory in named:
        with screen() as shown:
            there = campaign_socket.closed(directory, lambda said: _show(shown, said))
        print(f"{directory}: {'closed' if there else 'no process holds it open'}")


def _show(shown: LiveScreen | PlainScreen, said: dict[str, Any]) -> None:
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


def _idle(status: dict[str, Any]) -> str:
    return "?" if "idle_s" not in status else f"{status['idle_s']:.0f} s"
