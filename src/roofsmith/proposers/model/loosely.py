"""Reads what stands for a JSON object in a text, as small models write it. Pure.

Commas behind the last, comments, Python's quotes, a call as Python has it, and arguments between
tags, of which Qwen's and Llama's templates have two kinds.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

_MOST_TRIES: Final = 200
_LONGEST: Final = 200_000
"""Characters that are parsed as Python."""
_TEXT: Final = r'"(?:[^"\\]|\\.)*"'
_COMMENT: Final = re.compile(rf"({_TEXT})|//[^\n]*|/\*.*?\*/", re.DOTALL)
_COMMA: Final = re.compile(rf"({_TEXT})|,(?=\s*[}}\]])", re.DOTALL)
_CALL: Final = re.compile(r"\b[a-z_]+\((?=\s*[a-z_]+\s*=)")
_TAG: Final = re.compile(
    r"<(?:parameter=|parameter name=|arg name=)\"?(\w+)\"?>\n?(.*?)\n?</(?:parameter|arg)>",
    re.DOTALL,
)
_DECODER: Final = json.JSONDecoder(strict=False)


def objects_in(text: str) -> Iterator[dict[str, Any]]:
    """What of a text may be meant as an object, where none of it is one by JSON's rules."""
    if tagged := dict(_TAG.findall(text)):
        yield {name: _value(value) for name, value in tagged.items()}
    plain = _COMMA.sub(_text, _COMMENT.sub(_text, text))
    for begin in _places(plain, "{"):
        with suppress(ValueError, RecursionError):
            value, _ = _DECODER.raw_decode(plain, begin)
            if value:
                yield value
    if len(text) <= _LONGEST:
        yield from _of_python(text)


def _text(found: re.Match[str]) -> str:
    return found[1] or ""


def _value(text: str) -> object:
    if text.strip()[:1] in ("[", "{"):
        with suppress(ValueError, RecursionError):
            return _DECODER.raw_decode(text.strip())[0]
    return text


def _of_python(text: str) -> Iterator[dict[str, Any]]:
    for begin in _places(text, "{"):
        with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
            found = ast.literal_eval(_balanced(text, begin))
            if isinstance(found, dict) and found:
                yield found
    for call in _CALL.finditer(text):
        with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
            made = ast.parse(_balanced(text, call.start()), mode="eval").body
            if isinstance(made, ast.Call):
                named = {one.arg: ast.literal_eval(one.value) for one in made.keywords if one.arg}
                yield named


def _places(text: str, mark: str) -> Iterator[int]:
    """Where objects may begin that aren't within one another's beginnings."""
    place = text.find(mark)
    for _ in range(_MOST_TRIES):
        if place < 0:
            return
        yield place
        place = text.find(mark, place + 1)


def _balanced(text: str, begin: int) -> str:
    """From a bracket on, to the one that closes it; strings may hold others.

    Raises:
        ValueError: none does.
    """
    depth = 0
    quoted = re.compile(
        r'"""(?:.|\n)*?"""|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|[(\[{]|[)\]}]'
    )
    for found in quoted.finditer(text, begin):
        depth += (found[0] in "([{") - (found[0] in ")]}")
        if depth == 0 and found[0] in ")]}":
            return text[begin : found.end()]
    raise ValueError("no end")
