"""Text of C and C++ below the level of a grammar: comments, words, attributes.

Every function keeps line breaks where they are, so that line numbers stay true.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

MAX_EXPANSION = 20_000
"""Characters that one line may grow to by macro expansion; a longer one is left as it was."""
MAX_NESTING = 8
"""Macros in macros: how deep they are followed."""
_OPENS_OPAQUE = re.compile(r"//|/\*|[\"']")
_LITERAL_OR_WORD = re.compile(r"""(?:"(?:\\.?|[^"\\\n])*"?|'(?:\\.?|[^'\\\n])*'?)|\w+""", re.DOTALL)
"""A literal ends at its closing quote, or with its line; it holds what a backslash escapes."""


def blank_comments(text: str, *, cpp: bool) -> str:
    """`text` with comments, and in C++ the contents of raw strings, turned into spaces."""
    out: list[str] = []
    at = 0
    while at < len(text):
        start, end, keep = _next_opaque(text, at, cpp=cpp)
        out.append(text[at:start])
        piece = text[start:end]
        out.append(piece if keep else blank(piece))
        at = end
    return "".join(out)


def _next_opaque(text: str, at: int, *, cpp: bool) -> tuple[int, int, bool]:
    """Start and end of the next comment or literal, and whether its text is to be kept."""
    for found in _OPENS_OPAQUE.finditer(text, at):
        start = found.start()
        match found[0]:
            case "//":
                return start, _end_of_line_comment(text, start), False
            case "/*":
                end = text.find("*/", start + 2)
                return start, len(text) if end < 0 else end + 2, False
            case '"' if cpp and start > 0 and _is_raw(text, start):
                return start, _end_of_raw_string(text, start), False
            case "'" if _is_digit_separator(text, start):
                pass
            case _:
                return start, _end_of_literal(text, start), True
    return len(text), len(text), True


def blank(piece: str) -> str:
    """Spaces in the place of a text, line breaks where they are."""
    return "\n".join(" " * len(line) for line in piece.split("\n"))


def _end_of_line_comment(text: str, at: int) -> int:
    end = text.find("\n", at)
    while end > 0 and text[end - 1] == "\\":  # a comment may go on behind a backslash
        end = text.find("\n", end + 1)
    return len(text) if end < 0 else end


def _end_of_literal(text: str, at: int) -> int:
    """Behind the closing quote; at the end of the line where there is none."""
    quote, end = text[at], at + 1
    while end < len(text):
        if text[end] == "\\":
            end += 2
            continue
        if text[end] == quote:
            return end + 1
        if text[end] == "\n":
            return end
        end += 1
    return len(text)


def _is_raw(text: str, quote: int) -> bool:
    word = _word_before(text, quote)
    return word in {"R", "LR", "uR", "UR", "u8R"}


def _is_digit_separator(text: str, quote: int) -> bool:
    word = _word_before(text, quote)
    return bool(word) and word not in {"L", "u", "U", "u8"}


def _word_before(text: str, end: int) -> str:
    start = end
    while start > 0 and _in_word(text[start - 1]):
        start -= 1
    return text[start:end]


def _end_of_raw_string(text: str, quote: int) -> int:
    bracket = text.find("(", quote)
    if bracket < 0:
        return len(text)
    closing = f'){text[quote + 1 : bracket]}"'
    end = text.find(closing, bracket)
    return len(text) if end < 0 else end + len(closing)


def _in_word(char: str) -> bool:
    return char.isalnum() or char == "_"


def expand(line: str, macros: Mapping[str, str | None]) -> str:
    """One line with its object-like macros replaced, as often as they nest (within reason)."""
    for _ in range(MAX_NESTING):
        expanded = _expand_once(line, macros)
        if expanded == line or len(expanded) > MAX_EXPANSION:
            break
        line = expanded
    return line


def _expand_once(line: str, macros: Mapping[str, str | None]) -> str:
    def meant(found: re.Match[str]) -> str:
        value = macros.get(found[0])
        return found[0] if value is None else value

    return _LITERAL_OR_WORD.sub(meant, line)


def blank_attributes(text: str) -> str:
    """`text` without `__attribute__((...))`, which may stand where the grammars don't expect it."""
    out: list[str] = []
    at = 0
    while (start := text.find("__attribute", at)) >= 0:
        opening = text.find("(", start)
        end = end_of_brackets(text, opening) if opening >= 0 else len(text)
        out.append(text[at:start])
        out.append(blank(text[start:end]))
        at = end
    out.append(text[at:])
    return "".join(out)


def end_of_brackets(text: str, opening: int) -> int:
    """Behind the bracket that closes the one at `opening`; the text's end where none does."""
    depth = 0
    for at in range(opening, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0:
            return at + 1
    return len(text)
