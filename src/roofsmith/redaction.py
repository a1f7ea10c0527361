"""Keeps keys out of whatever is kept, shown or sent, whoever wrote it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

KEY = "<key>"
"""In place of what looks like a key, and has no name here."""
SHORTEST = 8
"""Characters of a secret: shorter values are switches and numbers, which stand everywhere."""
_NAMED = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL)S?(_|$)", re.IGNORECASE)
_SHAPES = re.compile(
    r"\bsk-[A-Za-z0-9_-]{16,}"  # OpenAI, Anthropic, OpenRouter
    r"|\b(?:ghp|gho|ghu|ghs|ghr|glpat|hf|gsk|npm|pypi|xai)[_-][A-Za-z0-9_-]{20,}"
    r"|\bgithub_pat_[A-Za-z0-9_]{20,}"
    r"|\bxox[abeprs]-[A-Za-z0-9-]{10,}"  # Slack
    r"|\bA(?:KIA|SIA)[A-Z0-9]{16}\b|\bAIza[A-Za-z0-9_-]{35}"  # AWS, Google
    r"|\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]*"  # RFC 7519
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
)
"""What providers' keys look like, as they and the secret scanners of code hosts say."""


class Redaction:
    """Replaces values of environment variables whose names say that they are secret, and keys.

    Args:
        environment: whose variables are looked through, but for roofsmith's own.
        keys: secret whatever their names say.
    """

    def __init__(
        self, environment: Mapping[str, str], keys: Mapping[str, str] | None = None
    ) -> None:
        named = {
            name: value
            for name, value in environment.items()
            if _NAMED.search(name) and not name.startswith("ROOFSMITH_")
        }
        found = {
            line.strip(): name
            for name, value in {**named, **(keys or {})}.items()
            for line in value.splitlines()
            if len(line.strip()) >= SHORTEST
        }
        # the longest first: one may be a part of another
        self._names = dict(sorted(found.items(), key=lambda one: -len(one[0])))

    @property
    def longest(self) -> int:
        """Characters of the longest value; 0 where there is none."""
        return max(map(len, self._names), default=0)

    def __call__(self, text: str) -> str:
        """The text with every secret replaced by its variable's name."""
        for value, name in self._names.items():
            text = text.replace(value, f"<{name}>")
        return _SHAPES.sub(KEY, text)

    def document(self, found: Any) -> Any:
        """A document of texts, lists and mappings without secrets."""
        if isinstance(found, str):
            return self(found)
        if isinstance(found, Mapping):
            return {self.document(key): self.document(value) for key, value in found.items()}
        if isinstance(found, list | tuple):
            return [self.document(value) for value in found]
        return found

    def named_in(self, found: object) -> str | None:
        """The variable whose value stands in a text, or in any text of a document."""
        texts = list(_texts(found))
        held = (name for value, name in self._names.items() if any(value in t for t in texts))
        return next(held, None)


def _texts(found: object) -> Iterator[str]:
    if isinstance(found, str):
        yield found
    elif isinstance(found, Mapping):
        for item in found.items():
            yield from _texts(item)
    elif isinstance(found, list | tuple):
        for value in found:
            yield from _texts(value)
