"""Keeps keys out of logs, screens and records. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

_NAMED = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL")
SHORTEST = 8
"""Characters of a secret: shorter values are switches and numbers, which stand everywhere."""


class Secrets:
    """Values of environment variables whose names say that they are secret."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        found = {
            line.strip(): name
            for name, value in environment.items()
            if any(word in name.upper() for word in _NAMED) and not name.startswith("ROOFSMITH_")
            for line in value.splitlines()
            if len(line.strip()) >= SHORTEST
        }
        # the longest first: one may be a part of another
        self._names = dict(sorted(found.items(), key=lambda one: -len(one[0])))

    @property
    def longest(self) -> int:
        """Characters of the longest."""
        return max(map(len, self._names), default=0)

    def redacted(self, text: str) -> str:
        """The text with every secret replaced by its variable's name."""
        for value, name in self._names.items():
            if value in text:
                text = text.replace(value, f"<{name}>")
        return text

    def named_in(self, found: object) -> str | None:
        """The variable whose value stands in a text, or in any text of a document."""
        for text in _texts(found):
            for value, name in self._names.items():
                if value in text:
                    return name
        return None


def _texts(found: object) -> Iterator[str]:
    if isinstance(found, str):
        yield found
    elif isinstance(found, Mapping):
        for key, value in found.items():
            yield from _texts(key)
            yield from _texts(value)
    elif isinstance(found, list | tuple):
        for value in found:
            yield from _texts(value)
