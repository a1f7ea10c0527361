"""What a campaign leaves to later ones, and finds of earlier ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final

from roofsmith.analysis.experiments import backend_of, experiments, family_of, refused
from roofsmith.analysis.recommend import recommend, situation_of
from roofsmith.analysis.tips import tips_near
from roofsmith.config import Settings
from roofsmith.domain.campaign import Campaign, Started
from roofsmith.domain.device import Device
from roofsmith.domain.experiment import Experiment
from roofsmith.domain.recommendation import Recommendation
from roofsmith.domain.target import Target, plain_name
from roofsmith.domain.tip import Tip
from roofsmith.errors import RoofsmithError
from roofsmith.ports import Observer
from roofsmith.store.ledger import JsonlLedger
from roofsmith.store.records import Record

if TYPE_CHECKING:
    from roofsmith.experience.inbox import Inbox


def rounds_of(campaign: Campaign, records: Iterable[Record]) -> tuple[Experiment, ...]:
    """Its rounds and refusals, each with the hash of the ledger's record that it comes from."""
    seals, refusals = dict[str, str](), 0
    for record in records:
        match record.payload:
            case {"kind": "baseline" | "round", "round": number}:
                seals[str(number)] = record.hash
            case {"kind": "refused"}:
                refusals += 1
                seals[f"r{refusals}"] = record.hash
    rows = (*experiments(campaign), *refused(campaign))
    numbers = [row.id.rpartition("-")[2] for row in rows]
    return tuple(
        row.model_copy(update={"ledger": seals.get(number, "")})
        for row, number in zip(rows, numbers, strict=True)
    )


MOST_READ: Final = 2000
"""The newest experiments that tips and recommendations are made of."""


class Remembering:
    """The database, opened when it is first needed: SQLAlchemy takes a while to import."""

    def __init__(self, settings: Settings, tell: Callable[[str], object] = str) -> None:
        """`tell` hears why nothing could be read, what was left out or set aside."""
        self._settings = settings
        self._tell = tell

    @cached_property
    def inbox(self) -> Inbox:
        """Where experiments go.

        Raises:
            UsageError: the settings name no database that can be.
        """
        from roofsmith.experience.database import Database
        from roofsmith.experience.inbox import Inbox

        database = Database(self._settings.experience_url(), self._tell)
        return Inbox(database, self._settings.experience_spool)

    def leave(self, ledger: JsonlLedger, campaign: Campaign) -> None:
        """Keep a campaign's rounds.

        Raises:
            RoofsmithError: they wait in the spool, or only in the ledger.
        """
        self.inbox.leave(rounds_of(campaign, ledger.records()))

    def tips(self, target: Target, device: Device) -> tuple[Tip, ...]:
        """What was learned on the same operator and backend, here and on the device's neighbours;
        nothing where that can't be read."""
        from roofsmith.experience.database import Query

        operator, backend = family_of(target) or target.name, backend_of(target, target.baseline)
        try:
            found = self.inbox.database.list(
                Query(op=operator, backend=backend, tips=None), MOST_READ
            )
        except RoofsmithError as error:
            self._tell(error.message)
            return ()
        named = plain_name(operator.lower())
        rows = [
            row
            for row in found
            if named in (plain_name(one.lower()) for one in (row.operator, row.target))
        ]
        return tips_near(rows, device)

    def recommended(self, started: Started) -> tuple[Recommendation, ...]:
        """What worked and failed in situations like that of a campaign that begins; nothing where
        that can't be read."""
        from roofsmith.experience.database import Query

        try:
            found = self.inbox.database.list(Query(masked=False), MOST_READ)
        except RoofsmithError as error:
            self._tell(error.message)
            return ()
        return recommend(found, situation_of(started))


def remembering(settings: Settings, observer: Observer | None = None) -> Remembering | None:
    """As the settings say; None: nothing is kept."""
    if settings.experience is None:
        return None
    tell = partial(observer.stage, "experience") if observer is not None else str
    return Remembering(settings, tell)
