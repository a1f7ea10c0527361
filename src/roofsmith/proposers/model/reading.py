"""Finds the answer in what a model wrote, whatever it wrote around it. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from roofsmith.domain.answer import Answer
from roofsmith.proposers.model.loosely import objects_in

_MOST_TRIES = 2_000
"""Places where an object may begin. Chosen: a long thought with code in it has hundreds."""
_DEEPEST = 4
"""Objects around an answer: a call in a list of calls, say."""
_CHANGES = frozenset({"statement", "files", "edits", "diff"})
_LISTS = frozenset({"edits", "evidence", "facts", "sources", "searches"})
_DECODER = json.JSONDecoder(strict=False)
"""Takes line ends within texts, as small models write them."""


def answer_in(text: str) -> str | None:
    """The last answer in a text, as JSON: behind thoughts, in a fence, or a call spelt out.

    Returns:
        None where nothing in it looks like one. Whether it is a valid one is for others to say.
    """
    with suppress(ValueError, RecursionError):
        if isinstance(whole := _DECODER.decode(text), str):
            text = whole
    for objects in (_objects, objects_in):
        if found := [one for value in objects(text) for one in _answers(value, _DEEPEST)]:
            return json.dumps(_plain(found[-1]))
    return None


def _plain(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Without fields that say nothing, with lists where their text or their one element is.

    Beside a whole change, what nobody asked for goes, too.
    """
    made = dict[str, Any]()
    is_change = bool(answer.get("statement")) and bool({"files", "edits", "diff"} & answer.keys())
    for name, value in answer.items():
        if value is None or (is_change and name not in Answer.model_fields):
            continue
        if isinstance(value, str) and name in _LISTS | {"files"}:
            opened = value.lstrip()[:1] in ("[", "{")
            held = next(_objects_or_lists(value), value) if opened else [value]
            made[name] = [held] if name in _LISTS and not isinstance(held, list) else held
        else:
            made[name] = value
    return made


def _objects_or_lists(text: str) -> Iterator[Any]:
    with suppress(ValueError, RecursionError):
        yield _DECODER.raw_decode(text.lstrip())[0]


def _objects(text: str) -> Iterator[Any]:
    place = 0
    for _ in range(_MOST_TRIES):
        place = text.find("{", place)
        if place < 0:
            return
        try:
            value, place = _DECODER.raw_decode(text, place)
            yield value
        except (ValueError, RecursionError):
            place += 1


def _answers(value: object, depth: int) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, str) and value.lstrip().startswith("{"):
        yield from (found for one in _objects(value) for found in _answers(one, 0))
    elif isinstance(value, Mapping) and _is_answer(value):
        yield value
    elif depth > 0 and isinstance(value, Mapping | list):
        for inside in value.values() if isinstance(value, Mapping) else value:
            yield from _answers(inside, depth - 1)


def _is_answer(value: Mapping[str, Any]) -> bool:
    """An answer with a field too many is one, so that it hears which."""
    gives_up = isinstance(value.get("give_up"), str) and value.keys() <= Answer.model_fields.keys()
    return gives_up or (bool(value.get("statement")) and len(_CHANGES & value.keys()) > 1)
