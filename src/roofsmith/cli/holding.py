"""`roofsmith campaign ps`, `close`, `stop` and `limit`: processes that work in campaigns."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from roofsmith import api, campaign_socket
from roofsmith.cli import options
from roofsmith.cli.held import show_said
from roofsmith.cli.output import print_json, print_lines, print_table
from roofsmith.cli.root import campaign
from roofsmith.cli.screen import screen
from roofsmith.cli.taking import takes
from roofsmith.domain.options import SessionLimits
from roofsmith.errors import MachineError

_ENDED: Mapping[campaign_socket.Closed, str] = {
    "closed": "closed",
    "killed": "the process that held it was killed; what was recorded is kept",
    "at work": "left alone",
    "none": "no process holds it open",
}


@campaign.command()
def ps(as_json: options.Json = False) -> None:
    """List the campaigns that a process holds open for `ask` and `tell`, or works in."""
    rows: list[dict[str, Any]] = []
    for held in campaign_socket.holders():
        status = campaign_socket.status(held.directory) or {}
        rows.append({
            "pid": held.pid, "directory": str(held.directory), "since": status.get("since"),
            "idle_s": status.get("idle_s"), "running": status.get("running"),
            "is_stopped": held.is_stopped,
        })  # fmt: skip
    known = {row["pid"] for row in rows}
    rows.extend(
        {
            "pid": one.pid, "directory": str(one.directory), "idle_s": 0.0,
            "since": one.since.isoformat("T", "seconds"), "running": one.command,
            "is_stopped": campaign_socket.HeldProcess(one.pid, one.directory).is_stopped,
        }
        for one in api.working() if one.pid not in known
    )  # fmt: skip
    if as_json:
        print_json({"held": rows})
    elif not rows:
        print_lines(["no process holds a campaign open, or works in one"])
    else:
        print_table(
            ("pid", "since", "idle", "at work on", "directory"),
            [
                (str(row["pid"]), row["since"] or "?", _idle(row), _work(row), row["directory"])
                for row in rows
            ],
        )


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


@campaign.command()
def stop(
    directory: options.CampaignDir,
    now: Annotated[
        bool, typer.Option("--now", help="Not after the round: that is judged again later.")
    ] = False,
) -> None:
    """Have a campaign that runs end after the round that it is at; `roofsmith resume` goes on."""
    print(api.stop(directory, now=now))


@campaign.command()
@takes(limits=SessionLimits)
def limit(directory: options.CampaignDir, limits: Any) -> None:
    """Set other limits for a campaign that runs, from its next round on.

    One that has ended gets them by `roofsmith resume`.
    """
    print(api.limit(directory, SessionLimits(**limits)))


def _work(row: Mapping[str, Any]) -> str:
    pid = row["pid"]
    stopped = f"nothing: it was stopped (kill -CONT {pid} or kill -9 {pid})"
    return stopped if row["is_stopped"] else row["running"] or ""


def _idle(row: Mapping[str, Any]) -> str:
    return "?" if row["idle_s"] is None else f"{row['idle_s']:.0f} s"
