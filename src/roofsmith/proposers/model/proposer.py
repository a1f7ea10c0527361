"""A language model as a proposer."""

from __future__ import annotations

import importlib.util
import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofsmith.asking.brief import CHARACTERS_PER_TOKEN, document, markdown
from roofsmith.asking.proposing import LONGEST_DETAIL, editable, proposal_of, without_keys
from roofsmith.config import MODEL_DEADLINE_S
from roofsmith.domain.answer import Answer
from roofsmith.domain.campaign import Round
from roofsmith.domain.price import Price, Usage
from roofsmith.domain.proposal import Proposal, RepairTask
from roofsmith.domain.refusal import PASSES, BadAnswer
from roofsmith.errors import UsageError
from roofsmith.ports import Brief, Observer, Screen
from roofsmith.proposers.model.allowance import LONGEST_ANSWER, Allowance
from roofsmith.proposers.model.endpoint import Endpoint, Form, Provider, key_of
from roofsmith.redaction import Redaction
from roofsmith.yaml_document import shipped_table


def system_prompt() -> str:
    """The rules that hold whatever the brief is about."""
    return Path(__file__).with_name("system.md").read_text(encoding="utf-8")


def user_prompt(brief: Brief) -> str:
    """The brief; behind it the idea that is to be repaired, if there is one."""
    if brief.repair is None:
        return markdown(document(brief))
    page = markdown({**document(brief), "repair": None})
    return f"{page}\n{_repair(brief.repair, brief)}"


def _repair(task: RepairTask, brief: Brief) -> str:
    found = task.outcome.model_dump_json(exclude={"log"})
    lines = [
        "## repair",
        "",
        f"- idea of round {task.round}: {task.hypothesis.statement}",
        f"- why: {task.hypothesis.rationale}",
        f"- what the judge found: {found}",
        f"- attempt {task.attempt}; {task.attempts_left} left, this one included",
        "",
        "The files of the candidate that was wrong, which a repair changes:",
        "",
    ]
    for path, text in editable(task.candidate, brief).items():
        lines += [f"`{path}`", "", _fenced(text), ""]
    return "\n".join(lines)


def _fenced(text: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text.rstrip()}\n{fence}"


if TYPE_CHECKING:
    from roofsmith.proposers.model.conversation import HeardAnswer

INSTALL = "pip install 'pydantic-ai-slim[openai,anthropic]'"
_PACKAGES = ("pydantic_ai", "openai", "anthropic")
_SHOWN = 60
"""Characters of what a model says that a screen shows at a time."""
_SHOWN_EVERY_S = 0.25


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """What holds for every model of a campaign."""

    base_url: str | None = None
    """Of an endpoint other than the provider's own."""
    deadline_s: float = MODEL_DEADLINE_S
    """For one answer with all its turns and waits."""
    observer: Observer | None = None
    """Hears what a model says while it says it."""
    keys: Callable[[str], str | None] = key_of
    """A key by the name of its environment variable."""
    first_wait_s: float = 1.0
    """Before a request that failed is made again."""
    prices: Mapping[str, Price] = field(default_factory=dict)
    """The user's own, by the model's name."""
    longest: int | None = None
    """Tokens of one turn's answer; None: `LONGEST_ANSWER` at a vendor's own address."""


class ModelProposer:
    """Sends a model the brief, and makes a proposal of what it answers.

    Args:
        endpoint: the model.
        options: that hold for all.
    """

    def __init__(self, endpoint: Endpoint, options: ModelOptions | None = None) -> None:
        self._endpoint = endpoint
        self._options = options or ModelOptions()
        self._form = Form()

    @property
    def name(self) -> str:
        """`model:anthropic:NAME`, say, with the address behind it where it isn't the usual one."""
        return self._endpoint.name

    @property
    def price(self) -> Price | None:
        """What it charges; None: nobody says."""
        return price_of(self._endpoint, self._options.prices)

    @property
    def longest(self) -> int | None:
        """Tokens of one turn's answer; None: as many as the endpoint likes."""
        usual = LONGEST_ANSWER if self._endpoint.base_url is None else None
        return self._options.longest or usual

    def ask(self, brief: Brief, screen: Screen) -> Proposal | BadAnswer:
        key = self._options.keys(self._endpoint.key_name)
        if key is None and self._endpoint.base_url is None:
            name = self._endpoint.key_name
            detail = f"there is no key for {self.name}: export {name}=..., or keep it in a keyring"
            return BadAnswer(reason="unavailable", detail=detail, proposer=self.name)
        keys = {} if key is None else {self._endpoint.key_name: key}
        redacted = Redaction(os.environ, keys)
        brief = screen.with_evidence(brief)
        rules, page = system_prompt(), redacted(user_prompt(brief))
        heard = self._heard(key, rules, page, brief, redacted)
        used = heard.used if heard.used.tokens else _estimate(heard, len(rules) + len(page))
        taken = {"tokens": used.tokens, "cost_usd": self.price.cost_usd(used) if self.price else 0}
        if isinstance(heard.answer, BadAnswer):
            detail = redacted(heard.answer.detail)[:LONGEST_DETAIL]
            changes = {"detail": detail, "proposer": self.name}
            return heard.answer.model_copy(update=changes | taken)
        counted = without_keys(heard.answer, redacted).model_copy(update=taken)
        return self._proposal(counted, brief)

    def tell(self, round: Round) -> None:
        """Nothing to remember: the next brief holds it."""

    def _heard(
        self, key: str | None, rules: str, page: str, brief: Brief, redacted: Redaction
    ) -> HeardAnswer:
        from roofsmith.proposers.model.conversation import Asked, talk

        options = self._options
        allowance = Allowance.of(brief.campaign, self.price, self.longest)
        asked = Asked(
            self._endpoint, key, rules, page, options.deadline_s, allowance, self._form,
            options.first_wait_s,
        )  # fmt: skip

        def complaint(answer: Answer) -> BadAnswer | None:
            made = self._proposal(without_keys(answer, redacted), brief)
            if not isinstance(made, BadAnswer) or made.reason in PASSES:
                return None
            return made.model_copy(update={"detail": made.detail[:LONGEST_DETAIL]})

        return talk(asked, complaint, _Ticker(self.name, options.observer, redacted))

    def _proposal(self, answer: Answer, brief: Brief) -> Proposal | BadAnswer:
        if answer.give_up is None and brief.repair is not None and not answer.repair:
            return BadAnswer(
                reason="bad_repair",
                detail="the last idea is to be repaired: set `repair`, or say `give_up`",
                tokens=answer.tokens,
                cost_usd=answer.cost_usd,
                proposer=self.name,
            )
        if brief.repair is None:
            answer = answer.model_copy(update={"repair": False})
        made = proposal_of(answer, brief, self._endpoint.short_name)
        return made.model_copy(update={"proposer": self.name})


class _Ticker:
    """Shows the end of what a model says, a few times a second."""

    def __init__(self, name: str, observer: Observer | None, redacted: Redaction) -> None:
        self._name = name
        self._observer = observer
        self._redacted = redacted
        self._tail = ""
        self._shown_at = 0.0

    def __call__(self, text: str) -> None:
        if self._observer is None:
            return
        self._tail = (self._tail + text)[-4 * _SHOWN :]
        now = time.monotonic()
        if now - self._shown_at < _SHOWN_EVERY_S:
            return
        self._shown_at = now
        printable = "".join(c if c.isprintable() else " " for c in self._redacted(self._tail))
        self._observer.stage("ask", f"{self._name}: {printable[-_SHOWN:]}")


_UNSAID = ("failed", "unavailable", *PASSES)
"""Reasons under which an endpoint may have said nothing."""


def _estimate(heard: HeardAnswer, sent: int) -> Usage:
    """By length, where an endpoint counts no tokens; none where nothing was said."""
    failed = isinstance(heard.answer, BadAnswer) and heard.answer.reason in _UNSAID
    if failed and not heard.characters:
        return Usage()
    said = round(heard.characters / CHARACTERS_PER_TOKEN)
    return Usage(input=round(sent / CHARACTERS_PER_TOKEN), output=said)


def model_proposer(name: str, options: ModelOptions) -> ModelProposer:
    """The proposer that is called so.

    Raises:
        UsageError: it names no model, or what talks to models isn't installed.
    """
    endpoint = Endpoint.parse(name, options.base_url)
    if missing := [p for p in _PACKAGES if importlib.util.find_spec(p) is None]:
        raise UsageError(f"{name} takes {missing[0]}, which isn't installed", hint=INSTALL)
    return ModelProposer(endpoint, options)


_SNAPSHOT = re.compile(r"-(\d{8}|\d{4}-\d{2}-\d{2})$")


def price_of(endpoint: Endpoint, own: Mapping[str, Price]) -> Price | None:
    """What a model charges where it is asked; None: nobody says.

    Args:
        endpoint: the model. At an address of its own, a vendor's prices say nothing.
        own: the user's table, by the model's name; it wins.
    """
    if endpoint.model in own:
        return own[endpoint.model]
    if endpoint.base_url is not None:
        return None
    listed = vendor_prices()[endpoint.provider]
    return listed.get(endpoint.model) or listed.get(_SNAPSHOT.sub("", endpoint.model))


@cache
def vendor_prices() -> Mapping[Provider, Mapping[str, Price]]:
    """The table beside this file."""
    tables: Mapping[Provider, Any] = shipped_table(__package__, "prices.yaml")
    return {provider: _prices(table) for provider, table in tables.items()}


def _prices(table: Mapping[str, Any]) -> dict[str, Price]:
    return {
        model: Price(input=fresh, cached=cached, output=output, as_of=table["as_of"])
        for model, (fresh, cached, output) in table["models"].items()
    }
