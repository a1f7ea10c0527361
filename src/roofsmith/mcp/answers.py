"""Answers that fit a context window, and errors as a client's model reads them. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from roofsmith.errors import RoofsmithError

MOST_CHARACTERS = 25_000
"""Of an answer: what clients take without cutting it themselves. Chosen: about 7,000 tokens."""
_ROOM = 300
"""For the sentence that says where the rest is."""


def fitting(text: str, rest: str) -> str:
    """A text, cut at a line's end where it is too long."""
    if len(text) <= MOST_CHARACTERS:
        return text
    head = text[: MOST_CHARACTERS - _ROOM - len(rest)]
    cut = head[: head.rfind("\n") + 1] or head
    return f"{cut}\n[{len(text) - len(cut)} more characters left out; all of it: {rest}]\n"


def as_json(document: Mapping[str, Any], rest: str) -> str:
    """A document as JSON; where it is too long its largest parts go, and it says which."""
    kept = dict(document)
    sizes = {name: len(_dumped(value)) for name, value in kept.items()}
    left_out: list[str] = []
    while len(_dumped(kept)) > MOST_CHARACTERS and sizes:
        largest = max(sizes, key=lambda name: sizes[name])
        del sizes[largest]
        _shorten(kept, largest)
        left_out.append(largest)
        kept["left_out"] = {"of": left_out, "all_of_it": rest}
    return fitting(_dumped(kept), rest)


def error_text(error: RoofsmithError) -> str:
    """An error with its class, log and hint, a line each."""
    return f"{type(error).__name__}: {error}"


def _shorten(kept: dict[str, Any], name: str) -> None:
    """Leave the last items of a list, as far as they are short, and nothing of anything else."""
    value = kept[name]
    if isinstance(value, list) and len(value) > 1:
        last: list[Any] = []
        for item in reversed(value):
            if len(_dumped([item, *last])) > MOST_CHARACTERS // 5:
                break
            last.insert(0, item)
        kept[name] = last
    else:
        kept[name] = None


def _dumped(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False)
