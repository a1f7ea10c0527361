"""What commands ask of an open campaign, and what they are answered; a class per command."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict, ValidationError

from roofsmith.api import documents
from roofsmith.api.session import (
    OUTSIDE,
    Session,
    ToldRounds,
    open_session,
    require_readable,
)
from roofsmith.api.telling import untold
from roofsmith.api.views import results
from roofsmith.api.views.blocks import Prose, Table
from roofsmith.config import Settings
from roofsmith.domain.isolation import IsolationMode
from roofsmith.domain.options import SessionLimits, SubmittedChange
from roofsmith.errors import UsageError
from roofsmith.ports import Observer
from roofsmith.store.answers import parse_answer
from roofsmith.store.sources import read_text

Answer = dict[str, Any]
"""`document` for programs, `blocks` or `text` for people, and what else a client asks for."""


class Strict(BaseModel):
    """Says no to what it doesn't know."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class OpenedWith(Strict):
    """What a campaign is opened with, beside the environment."""

    isolation: IsolationMode | None = None
    waits: bool = True

    def settings(self) -> Settings:
        found = replace(Settings.from_environment(os.environ, Path.cwd()), waits=self.waits)
        return found if self.isolation is None else replace(found, isolation=self.isolation)


class Request(Strict):
    """What a client sends first."""

    command: str
    arguments: dict[str, Any] = {}
    opened: OpenedWith = OpenedWith()
    width: int = 180
    """Columns of its screen."""
    is_live: bool = False
    """Whether it shows progress."""
    version: str = ""
    environment: str = ""
    """Digest of it."""


class Command(Protocol):
    """What is asked of an open campaign."""

    def check(self) -> None:
        """Say before anything is opened what can't be read.

        Raises:
            UsageError: something.
        """

    def answer(self, session: Session) -> Answer:
        """What it comes to."""


class Ask(Strict):
    """`roofsmith ask`."""

    most_characters: int = sys.maxsize
    """Of the page that a model reads."""

    def check(self) -> None:
        """Nothing is read."""

    def answer(self, session: Session) -> Answer:
        standing = session.ask()
        text = documents.brief_text(standing, self.most_characters)
        return {"document": documents.standing_document(standing), "text": text}


class Tell(Strict):
    """`roofsmith tell --kernel`."""

    change: SubmittedChange
    limits: SessionLimits = SessionLimits()

    def check(self) -> None:
        require_readable(self.change)

    def answer(self, session: Session) -> Answer:
        return _told(session.tell(self.change, self.limits))


class Submit(Strict):
    """`roofsmith tell --proposal`, or an answer that a client wrote."""

    proposal: Path | None = None
    answered: str = ""
    """In place of a file."""
    limits: SessionLimits = SessionLimits()
    proposer: str = OUTSIDE

    def check(self) -> None:
        if self.proposal is not None and not self.proposal.exists():
            raise UsageError(
                f"there is no {self.proposal}",
                hint="`roofsmith agent schema proposal` says what it holds",
            )

    def answer(self, session: Session) -> Answer:
        path = self.proposal
        read = parse_answer(self.answered) if path is None else session.read(path)
        return _told(session.submit(read, self.limits, self.proposer))


class TryChange(Strict):
    """`roofsmith try`: a look at a kernel, at a `proposal.json`, or at what a client wrote."""

    change: SubmittedChange | None = None
    answered: str = ""
    """In place of a change."""

    def check(self) -> None:
        if self.change is not None and not self.change.kernel.is_dir():
            read_text(self.change.kernel, "kernel", may_be_empty=True)

    def answer(self, session: Session) -> Answer:
        seen = session.look(self.change or parse_answer(self.answered))
        return {
            "document": documents.look_document(seen),
            "blocks": _plain(results.looked(seen)),
            "is_right": seen.is_right,
        }


class LookBack(Strict):
    """`roofsmith campaign show`, of what no profiler has seen yet."""

    round: int
    listing: bool = False
    """The instructions, too."""
    idle_only: bool = True
    """Rather not at all than after another command."""

    def check(self) -> None:
        """Nothing is read."""

    def answer(self, session: Session) -> Answer:
        session.look_at(self.round, listing=self.listing)
        return {"is_there": True}


COMMANDS: dict[str, type[Ask | Tell | Submit | TryChange | LookBack]] = {
    "ask": Ask,
    "tell": Tell,
    "submit": Submit,
    "try": TryChange,
    "look": LookBack,
}
"""By the name in a request."""


def command_of(request: Request) -> Command:
    """What a request asks for.

    Raises:
        UsageError: there is no such command, or it has no such arguments.
    """
    try:
        found: Command = COMMANDS[request.command].model_validate(request.arguments)
    except (KeyError, ValidationError) as error:
        raise UsageError(f"{request.command}: {error}") from error
    found.check()
    return found


def answered_here(directory: Path, sent: dict[str, Any], observer: Observer) -> Answer:
    """The same in a session of its own, where no process holds the campaign open."""
    request = Request.model_validate(sent)
    command, settings = command_of(request), request.opened.settings()
    is_ours = settings.asked_by is None or not isinstance(
        command, TryChange
    )  # else an agent's turn
    with open_session(directory, settings, observer, is_ours=is_ours) as session:
        return command.answer(session)


def reminders(directory: Path) -> list[str]:
    """Of each change that was told and is in no record: where it is, and how it is told again."""
    return [
        f"a change that was told is in no record: it is kept in {told.folder}; tell it again"
        f" (or delete {told.folder.parent}):\n  {told.command}"
        for told in untold(directory)
    ]


def _told(found: ToldRounds) -> Answer:
    return {
        "document": documents.told_document(found),
        "blocks": _plain(results.told(found)),
        "is_kept": found.is_kept,
        "gave_up": found.gave_up,
        "total_speedup": found.campaign.total_speedup,
    }


def _plain(blocks: Iterable[str | Prose | Table]) -> list[Any]:
    plain: list[Any] = []
    for block in blocks:
        if isinstance(block, Table):
            rows = [list(row) for row in block.rows]
            plain.append({"headers": list(block.headers), "rows": rows, "shorten": block.shorten})
        else:
            plain.append(block if isinstance(block, str) else asdict(block))
    return plain
