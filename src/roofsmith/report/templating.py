"""The template environments: what is foreign is escaped unless a filter says otherwise.

Two environments, since Markdown and HTML need different escapes. In both, None prints as UNKNOWN, a
name that doesn't exist is an error, and every text goes through `format.visible` first.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemBytecodeCache, FileSystemLoader, StrictUndefined
from jinja2.bccache import Bucket
from markupsafe import Markup, escape

from roofsmith.analysis import figures as fmt

TIMES = "\N{MULTIPLICATION SIGN}"

_MARKDOWN_SPECIAL = re.compile(
    r"[\\`*|]|<(?=[A-Za-z/!?])|~~+|(?<!\w)_|_(?!\w)|\](?=[(\[:])|&(?=#?\w+;)"
)
_CODE_SPAN = re.compile(r"(?<![`\\])(`[^`|\n]+`)(?!`)")
_MARKDOWN_BLOCK_START = re.compile(r"^(?:#{1,6}(?=\s|$)|[-+](?=\s|$)|>|[-=]+$|\d+(?=[.)](?:\s|$)))")


class Raw(str):
    """Text that is Markdown already."""

    __slots__ = ()


@cache
def markdown_environment() -> Environment:
    """For `.md` and `.txt` templates."""
    environment = _environment("templates/md", finalize=_finalized(Raw, escape_markdown))
    environment.filters |= {name: _raw(function) for name, function in _FORMATS.items()}
    environment.filters |= {
        "fence": fence,
        "code": code,
        "line": lambda text: Raw(fmt.one_line(text)),
        "first_line": fmt.first_line,
        # A profiler names its units itself, and so does a benchmark: they are foreign text.
        "counter": fmt.counter,
        "measured": fmt.measured,
        "raw": Raw,
    }
    return environment


def render_markdown(template: str, **context: object) -> str:
    """The text of a template `templates/md/<template>.j2`."""
    return markdown_environment().get_template(f"{template}.j2").render(**context)


@cache
def html_environment() -> Environment:
    """For `.html` and `.css` templates."""
    environment = _environment(
        "templates/html", finalize=_finalized(Markup, fmt.visible), autoescape=True
    )
    own: dict[str, Callable[..., str]] = {
        "ratio": _html_ratio,
        "speedup": lambda value: fmt.speedup(value, TIMES),
        "interval": _interval,
        "width": css_width,
        "prose": prose,
        "breakable": breakable,
    }
    environment.filters |= {name: _unbroken(function) for name, function in _FORMATS.items()}
    environment.filters |= own
    return environment


class _Compiled(FileSystemBytecodeCache):
    """Compiled templates beside their sources, where Python keeps compiled modules, and by the same
    switch: compiling all of them takes 0.3 s, most of what a report costs."""

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep one, unless whoever runs this may not write there."""
        if not sys.dont_write_bytecode:
            with suppress(OSError):
                Path(self.directory).mkdir(exist_ok=True)
                super().dump_bytecode(bucket)


def _environment(
    folder: str, *, finalize: Callable[[Any], Any], autoescape: bool = False
) -> Environment:
    templates = Path(__file__).parent / folder
    return Environment(
        loader=FileSystemLoader(templates),
        bytecode_cache=_Compiled(str(templates / "__pycache__")),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        auto_reload=False,
        autoescape=autoescape,
        finalize=finalize,
    )


def escape_markdown(text: str) -> Raw:
    """Foreign text as one line of Markdown that shows exactly that text.

    Escapes what could start markup, an HTML tag, a link or a table cell, and nothing else: the
    files are read as plain text as often as they are rendered. Names between backticks stay code.
    """
    pieces = _CODE_SPAN.split(fmt.one_line(text))
    pieces[::2] = [_MARKDOWN_SPECIAL.sub(_escape_one, piece) for piece in pieces[::2]]
    return Raw(_MARKDOWN_BLOCK_START.sub(_escape_start, "".join(pieces)))


def prose(text: str) -> Markup:
    """Foreign text as HTML: escaped, with what stands between backticks as code."""
    pieces = _CODE_SPAN.split(fmt.visible(text))
    return Markup("").join(
        Markup("<code>{}</code>").format(piece[1:-1]) if index % 2 else escape(piece)
        for index, piece in enumerate(pieces)
    )


def breakable(text: str) -> Markup:
    """Foreign text as HTML: escaped, and rather broken after a comma than within a word."""
    return Markup(",<wbr>").join(escape(piece) for piece in fmt.visible(text).split(","))


def _escape_one(match: re.Match[str]) -> str:
    special = match.group()
    return {"<": "&lt;", "&": "&amp;"}.get(special, "".join(f"\\{char}" for char in special))


def _escape_start(match: re.Match[str]) -> str:
    start = match.group()
    return f"{start}\\" if start.isdigit() else f"\\{start}"


def fence(text: str, language: str = "") -> Raw:
    """Foreign text as a code block whose fence it can't close."""
    body = fmt.visible(text).rstrip("\n")
    ticks = "`" * (max(2, _longest_run(body)) + 1)
    return Raw(f"{ticks}{language}\n{body}\n{ticks}")


def code(text: str) -> Raw:
    """Foreign text as a code span; not for table cells, whose `|` it can't escape."""
    body = fmt.one_line(text)
    ticks = "`" * (_longest_run(body) + 1)
    pad = " " if body.startswith("`") or body.endswith("`") else ""
    return Raw(f"{ticks}{pad}{body}{pad}{ticks}")


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall(r"`+", text)), default=0)


def _finalized(escaped: type[str], shown: Callable[[str], str]) -> Callable[[Any], Any]:
    def finalize(value: Any) -> Any:
        if value is None:
            return fmt.UNKNOWN
        is_foreign = isinstance(value, str) and not isinstance(value, escaped)
        return shown(value) if is_foreign else value

    return finalize


def _raw(function: Callable[..., str]) -> Callable[..., Raw]:
    return lambda *given, **named: Raw(function(*given, **named))


def _ratio(ratio: Any) -> str:
    """A summary `Ratio` or a domain `Estimate`, with its interval."""
    if ratio is None:
        return fmt.UNKNOWN
    value = ratio.value if hasattr(ratio, "value") else ratio.speedup
    return fmt.ratio(value, ratio.ci)


def _html_ratio(ratio: Any) -> Markup:
    if ratio is None:
        return Markup(fmt.UNKNOWN)
    value = ratio.value if hasattr(ratio, "value") else ratio.speedup
    text = fmt.ratio(value, ratio.ci, TIMES)
    head, _, interval = text.partition(" ")
    return Markup('<span class="ratio">{} <span class="ci">{}</span></span>').format(
        escape(head), escape(interval)
    )


def _interval(ratio: Any) -> str:
    """The ends of a ratio's interval alone: `9.8 to 10.5`."""
    interval = _ratio(ratio).partition(" ")[2]
    return interval.strip("[]").replace(", ", " to ")


def _unbroken(function: Callable[..., str]) -> Callable[..., str]:
    """A number that isn't torn from its unit at the end of a line."""
    return lambda *given, **named: function(*given, **named).replace(" ", "\N{NO-BREAK SPACE}")


def css_width(fraction: float) -> str:
    """A share as a CSS length, kept within its box."""
    return f"{100 * min(1.0, max(0.0, fraction)):.1f}%"


_FORMATS: dict[str, Callable[..., str]] = {
    "time": fmt.time,
    "measured": fmt.measured,
    "duration": fmt.duration,
    "quantity": fmt.quantity,
    "size": fmt.size,
    "intensity": fmt.intensity,
    "counter": fmt.counter,
    "percent": fmt.percent,
    "share": fmt.share,
    "money": fmt.money,
    "delta": fmt.delta,
    "speedup": fmt.speedup,
    "ratio": _ratio,
    "error": fmt.error,
    "minute": fmt.minute,
    "plural": fmt.plural,
}
