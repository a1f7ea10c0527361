"""What an endpoint's response means beyond its status: a hook of the HTTP client.

An error under status 200 gets a status of its own; a quota's end that stands in the text or in a
header of the provider's own is told as `Retry-After`; what isn't an API at all is said to be none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final

from pydantic_ai.exceptions import ModelRequestRejectedError

_ERRORS: Final = range(400, 600)
_BUSY: Final = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)
_SPAN: Final = re.compile(
    r"(\d+(?:\.\d+)?)\s*(ms|days?|d|hours?|hrs?|h|min(?:ute)?s?|m|sec(?:ond)?s?|s)(?![a-z])"
)
_AGAIN: Final = re.compile(
    rf"(?:again|retry|retry\s?delay|wait|resets?|available)\W{{1,4}}(?:\w+\s){{0,3}}?"
    rf"((?:{_SPAN.pattern}[,\s]*(?:and\s)?)+)",
    re.IGNORECASE,
)
_SECONDS: Final = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_YEAR_2001: Final = 1e9
"""Above it a header's number is a time and no span; above a thousand times that, in ms."""


class NoApiError(ModelRequestRejectedError):
    """What answers isn't what models are asked by; the message says what it sent."""

    def __init__(self, sent: str) -> None:
        super().__init__("", sent)


async def refine(response: Any) -> None:
    """Give a response the status and the wait that its text speaks of.

    So does a whole answer to who asked for a stream: no client looks for either.

    Raises:
        NoApiError: a page or a redirect came.
    """
    kind = response.headers.get("content-type", "")
    if response.is_redirect:
        to = response.headers.get("location", "")
        raise NoApiError(f"it redirects to {to}, which isn't followed")
    if response.status_code == HTTPStatus.OK and "html" in kind:
        raise NoApiError("it sent a web page")
    if response.status_code in _BUSY:
        await response.aread()
        if "retry-after" not in response.headers and "retry-after-ms" not in response.headers:
            wait_s = wait_in(response.headers, response.text)
            if wait_s is not None:
                response.headers["retry-after-ms"] = f"{1000 * wait_s:.0f}"
    if response.status_code != HTTPStatus.OK or "json" not in kind:
        return
    await response.aread()
    found = response.json() if response.content.startswith(b"{") else {}
    if error := found.get("error"):
        code = error.get("code") if isinstance(error, Mapping) else None
        response.status_code = code if code in _ERRORS else HTTPStatus.BAD_GATEWAY
    elif json.loads(response.request.content).get("stream"):
        response.status_code = HTTPStatus.NOT_ACCEPTABLE


def wait_in(headers: Mapping[str, str], text: str) -> float | None:
    """Seconds after which a limit is over: `try again in 7h12m0s`, or a header `…-reset…`.

    Returns:
        None where neither says. Of several headers the longest: all of them have to be over.
    """
    if found := _AGAIN.search(text):
        return _span(found[1])
    waits = [_reset(value) for name, value in headers.items() if "reset" in name.lower()]
    return max((wait for wait in waits if wait is not None and wait > 0), default=None)


def _span(text: str) -> float:
    parts = _SPAN.findall(text.lower())
    return sum(
        float(number) * _SECONDS[unit if unit == "ms" else unit[0]] for number, unit in parts
    )


def _reset(value: str) -> float | None:
    """Of a header: a span, seconds, or a time as a number or in ISO 8601."""
    now = datetime.now(UTC)
    try:
        number = float(value)
    except ValueError:
        if _SPAN.match(value):
            return _span(value)
        try:
            at = datetime.fromisoformat(value)
        except ValueError:
            return None
        return (at.replace(tzinfo=at.tzinfo or UTC) - now).total_seconds()
    if number < _YEAR_2001:
        return number
    return number / (1000 if number > 1000 * _YEAR_2001 else 1) - now.timestamp()
