"""Keeps keys out of whatever is kept, shown or sent."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from roofsmith.domain.answer import Answer

HIDDEN = "[redacted]"
_SHORTEST = 8
"""Characters of what counts as a key: shorter ones would blank out words."""
_SECRET_NAME = re.compile(r"(_KEY|_TOKEN|_SECRET|_PASSWORD)$")
_LOOKS_SECRET = re.compile(r"\bsk-[A-Za-z0-9_-]{16,}")


class Redaction:
    """Blanks out given keys, and whatever looks like a provider's."""

    def __init__(self, secrets: Collection[str]) -> None:
        kept = {secret for secret in secrets if len(secret) >= _SHORTEST}
        self._secrets = sorted(kept, key=len, reverse=True)

    def __call__(self, text: str) -> str:
        """The text without them."""
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        return _LOOKS_SECRET.sub(HIDDEN, text)

    def answer(self, answer: Answer) -> Answer:
        """An answer without them: an endpoint may send back what it was sent."""
        text = answer.model_dump_json()
        clean = self(text)
        return answer if clean == text else Answer.model_validate_json(clean)


def secrets_in(environment: Mapping[str, str]) -> set[str]:
    """Values of variables whose names say that they are secret."""
    return {value for name, value in environment.items() if _SECRET_NAME.search(name)}
