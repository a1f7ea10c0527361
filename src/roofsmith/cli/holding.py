"""`roofsmith campaign ps` and `close`: the processes that hold campaigns open."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from roofsmith import campaign_socket
from roofsmith.cli import options
from roofsmith.cli.held import show_said
from roofsmith.cli.output import print_json, print_lines, print_table
from roofsmith.cli.root import campaign
from roofsmith.cli.screen import screen
from roofsmith.errors import MachineError

_ENDED: Mapping[campaign_socket.Closed, str] = {
    "closed": "closed",
    "killed": "the process that held it was killed; what was recorded is kept",
    "at work": "left alone",
    "none": "no process holds it open",
}


@campaign.command()
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
                "is_stopped": held.is_stopped,
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
                    _work(held, status), str(held.directory),
                )
                for held, status in found
            ],
        )  # fmt: skip


@campaign.command()
def close(
    directories: Annotated[
        list[Path] | None, typer.Argument(metavar="[DIR]...", show_default="all")
    ] = None,
) -> None:
    """Have processes end that hold campaigns open, each after what it does; none loses anything."""
    named = directories or [held.directory for held in campaign_socket.holders()]
    unheard: list[MachineError] = []
    for directory in named:
        try:
            with screen() as shown:
                ended = campaign_socket.closed(directory, lambda said: show_said(shown, said))
            print(f"{directory}: {_ENDED[ended]}")
        except MachineError as error:  # the others can be closed all the same
            unheard.append(error)
    if unheard:
        raise unheard[0]


def _work(held: campaign_socket.HeldProcess, status: dict[str, Any]) -> str:
    stopped = f"nothing: it was stopped (kill -CONT {held.pid} or kill -9 {held.pid})"
    return stopped if held.is_stopped else status.get("running") or ""


def _idle(status: dict[str, Any]) -> str:
    return "?" if "idle_s" not in status else f"{status['idle_s']:.0f} s"
