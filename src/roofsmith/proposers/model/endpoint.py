"""Which model is asked, where, and where its key comes from."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast, get_args
from urllib.parse import urlsplit

from roofsmith.errors import UsageError

Provider = Literal["anthropic", "openai"]
KEY_NAMES: Mapping[Provider, str] = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY"}
PREFIX = "model:"
SERVICE = "roofsmith"
"""Under which a keyring holds keys, each by the name of its environment variable."""

_FORMS = "model:anthropic:NAME, model:openai:NAME, or model:NAME with --base-url URL"
_MODEL = re.compile(r"[\w.:/@-]+")
_URL = re.compile(r"[\w.:/\[\]~%-]+")


@dataclass(frozen=True, slots=True)
class Endpoint:
    provider: Provider
    """Whose wire format it speaks."""
    model: str
    base_url: str | None = None
    """None: the provider's own."""

    @property
    def name(self) -> str:
        """`model:openai:NAME`, the address behind it where it isn't the provider's own.

        It is what a campaign records, so it says where kernels were sent to.
        """
        there = "" if self.base_url is None else f"@{self.base_url}"
        return f"{self.short_name}{there}"

    @property
    def short_name(self) -> str:
        return f"{PREFIX}{self.provider}:{self.model}"

    @property
    def key_name(self) -> str:
        """The environment variable that holds its key."""
        return KEY_NAMES[self.provider]

    @classmethod
    def parse(cls, name: str, base_url: str | None = None) -> Endpoint:
        """Read `model:PROVIDER:NAME`, or `model:NAME` for an endpoint that speaks OpenAI's format.

        Args:
            name: as it is asked for, or as a campaign recorded it.
            base_url: the endpoint's, in place of the one in the name.

        Raises:
            UsageError: it names no model that can be asked.
        """
        asked, recorded = _split(name.removeprefix(PREFIX))
        base_url = base_url or recorded
        provider, _, model = asked.partition(":")
        if provider not in get_args(Provider):
            if base_url is None:
                raise UsageError(f"{name!r}: which provider?", hint=_FORMS)
            provider, model = "openai", asked
        if not _MODEL.fullmatch(model):
            raise UsageError(f"{name!r} names no model", hint=_FORMS)
        url = None if base_url is None else _checked(base_url)
        return cls(cast(Provider, provider), model, url)


def _split(name: str) -> tuple[str, str | None]:
    found = re.fullmatch(r"(.*?)@(https?://.*)", name)
    return (name, None) if found is None else (found[1], found[2])


def _checked(base_url: str) -> str:
    """An address that may stand in a campaign's record: it holds no credentials."""
    hint = "such as http://127.0.0.1:8000/v1; keys come from the environment"
    try:
        parts = urlsplit(base_url)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname)
        port_fits = parts.port is None or parts.port > 0
    except ValueError as error:
        raise UsageError(f"--base-url is no address: {error}", hint=hint) from error
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise UsageError("--base-url holds more than an address", hint=hint)
    if not (fits and port_fits and _URL.fullmatch(base_url)):
        raise UsageError(f"--base-url {base_url!r} is no address", hint=hint)
    return base_url.rstrip("/")


def key_of(name: str) -> str | None:
    """A key by the name of its environment variable: from there, else from the user's keyring."""
    if found := os.environ.get(name, "").strip():
        return found
    try:
        kept: object = importlib.import_module("keyring").get_password(SERVICE, name)
    except Exception:  # noqa: BLE001 - not installed, locked, without a backend: there is no key
        return None
    return kept.strip() or None if isinstance(kept, str) else None


@dataclass(slots=True)
class Form:
    """How an endpoint is asked; what it once refused isn't asked of it again."""

    tools: bool = True
    """By a call of a tool; or else in text."""
    streams: bool = True
    json_mode: bool = True
    """With `response_format`, where it is asked in text."""
