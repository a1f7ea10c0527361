"""Turns what compilers and linkers print into lines for people."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from roofsmith.toolchains import remedies
from roofsmith.toolchains.grammar import descendants, parse, text_of

_MESSAGE = re.compile(
    r"^(?:(?P<place>[^:\n]+?)(?:\((?P<line>\d+)\)|(?P<position>(?::\d+){0,2})): )?"
    r"(?P<kind>(?:fatal |internal compiler |catastrophic )?[Ee]rror|[Ww]arning)"
    r"(?P<number> #\d+(?:-D)?)?: (?P<text>.*)$"
)
"""GCC, Clang and the GNU assembler: `kernel.c:3:5: error: text`; `cc1: error: text`; Clang about
its own flags: `error: text`; nvcc: `kernel.cu(3): error: text`, `kernel.cu(3): warning #177-D: t`.
"""

_PLACE_OF_NVCC = re.compile(r"^[^:\n(]+\(\d+\): ")

_LINKER = re.compile(
    r"undefined (?:reference to|symbol:) |multiple definition of |duplicate symbol|cannot find -l|"
    r"unable to find library|relocation .* can not be used|recompile with -f|"
    r"linker command failed|ld returned \d+ exit status"
)
_SUMMARY = re.compile(r"linker command failed|ld returned \d+ exit status")
_OBJECT = re.compile(r"\S*(?:\bcc\w{6}(?:\.ltrans\d*)*|-[0-9a-f]{6,10})\.o: ?")
"""The compiler's own name of an object file; the user's file follows."""
_UNDEFINED = re.compile(
    r"undefined (?:reference to|symbol:?) (?:hidden symbol )?[`'\"]?(?P<name>[^`'\"\s]+)"
)
_DIED = re.compile(r"internal compiler error|signal terminated program|Segmentation fault")
_NO_MEMORY = re.compile(
    r"out of memory|virtual memory exhausted|Cannot allocate memory|memory exhausted|"
    r"std::bad_alloc|LLVM ERROR: out of memory|Killed signal terminated"
)
_NO_TIME = re.compile(r"CPU time limit exceeded")
_NO_SPACE = re.compile(r"No space left on device|Disk quota exceeded|Read-only file system")

MAX_ERRORS = 5
"""Errors that a detail quotes; the log has them all."""
MAX_ERROR_CHARS = 400
"""How much of each one it quotes: C++ can fill a page with one type."""

TOO_MUCH_SHARED = "takes too much shared memory:"
"""Words of the message about a kernel that no block could run."""
LESS_SHARED = "smaller tiles, fewer stages or a narrower type"
"""What to try then."""

Reason = Literal[
    "compile_error", "link_error", "compiler_memory", "compiler_timeout", "compiler_crash",
    "too_much_shared_memory",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class CompilerDiagnosis:
    """Why a compiler refused, in a few lines."""

    reason: Reason
    detail: str


def diagnose(output: str, sources: Mapping[str, str], returncode: int) -> CompilerDiagnosis:
    """Read the output of a compiler that failed.

    Args:
        output: everything that it printed.
        sources: the user's file names and texts, to find where an undefined symbol is used.
        returncode: of the compiler, for an output that explains nothing.
    """
    lines = output.splitlines()
    own_words = _own_words(lines)
    if _NO_MEMORY.search(own_words):
        return CompilerDiagnosis("compiler_memory", "the compiler ran into its memory limit")
    if _NO_TIME.search(own_words):
        return CompilerDiagnosis("compiler_timeout", "the compiler ran into its limit of CPU time")
    errors = _messages(lines, "error")
    if _DIED.search(own_words) or any("internal compiler error" in e for e in errors):
        return CompilerDiagnosis("compiler_crash", _listed(errors) or lines[0])
    linker = [line for line in lines if _LINKER.search(line)]
    if linker and not any(_place_has_line(error) for error in errors):
        return CompilerDiagnosis("link_error", _explain_linker(linker, sources))
    if errors:
        shared = all(TOO_MUCH_SHARED in error for error in errors)
        detail = "\n".join([_listed(errors), *remedies.for_headers(errors)])
        return CompilerDiagnosis("too_much_shared_memory" if shared else "compile_error", detail)
    tail = "\n".join(lines[-MAX_ERRORS:])
    return CompilerDiagnosis(
        "compile_error", tail or f"the compiler ended with status {returncode}"
    )


def warnings_of(output: str) -> tuple[str, ...]:
    """Every distinct warning: `kernel.c:3:5: unused variable 'x' [-Wunused-variable]`."""
    return tuple(dict.fromkeys(_messages(output.splitlines(), "warning")))


def is_out_of_space(output: str) -> bool:
    """Whether the compiler failed because it couldn't write: our trouble, not the candidate's."""
    return _NO_SPACE.search(_own_words(output.splitlines())) is not None


def _own_words(lines: Sequence[str]) -> str:
    """What the compiler says about itself: not about a line of the source, and no quotation."""
    return "\n".join(line for line in lines if " | " not in line and not _place_has_line(line))


def _place_has_line(message: str) -> bool:
    """Whether a message begins with `file:line` or `file(line)`."""
    if _PLACE_OF_NVCC.match(message):
        return True
    parts = message.split(":", 2)
    return len(parts) > 2 and parts[1].isdigit()


def _messages(lines: Sequence[str], kind: str) -> list[str]:
    found = []
    for line in lines:
        match = _MESSAGE.match(line)
        if match and kind in match["kind"].lower():
            mark = f"{match['kind'].lower()}: " if kind == "error" else ""
            found.append(f"{_place(match)}{mark}{match['text']}{_number(match)}")
    return found


def _place(match: re.Match[str]) -> str:
    """`file:line: `, whichever way it was written."""
    if not match["place"]:
        return ""
    position = f":{match['line']}" if match["line"] else match["position"]
    return f"{match['place']}{position}: "


def _number(match: re.Match[str]) -> str:
    """How nvcc numbers its messages, where gcc names the flag: ` [#177-D]`."""
    return f" [{match['number'].strip()}]" if match["number"] else ""


def _listed(errors: Sequence[str]) -> str:
    more = len(errors) - MAX_ERRORS
    shown = [textwrap.shorten(error, MAX_ERROR_CHARS) for error in errors[:MAX_ERRORS]]
    return "\n".join([*shown, f"... and {more} more"] if more > 0 else shown)


def _explain_linker(lines: Sequence[str], sources: Mapping[str, str]) -> str:
    undefined = dict.fromkeys(m["name"] for line in lines if (m := _UNDEFINED.search(line)))
    if undefined:
        explained = [
            f"{_used_at(name, sources)}undefined reference to `{name}`" for name in undefined
        ]
        return "\n".join([_listed(explained[: MAX_ERRORS - 1]), *_hints_for(undefined)])
    facts = [line.rpartition("ld: ")[2] for line in lines if not _SUMMARY.search(line)]
    shown = _listed([_OBJECT.sub("", fact) for fact in facts or lines])
    return "\n".join([shown, *remedies.for_libraries(facts)])


def _hints_for(undefined: Iterable[str]) -> list[str]:
    words = "define it in the candidate's sources or name its library in `link` (-l...)"
    by_hint: dict[str, list[str]] = {}
    for name in undefined:
        by_hint.setdefault(remedies.for_symbol(name) or words, []).append(name)
    return [
        textwrap.shorten(f"{hint}: {', '.join(names)}", MAX_ERROR_CHARS)
        for hint, names in by_hint.items()
    ]


def _used_at(name: str, sources: Mapping[str, str]) -> str:
    """`file:line: ` of the first call of `name`; empty if none is found."""
    plain = name.partition("(")[0]  # a mangled name is printed with its parameters
    for path, text in sources.items():
        root = parse(text, cpp=not path.endswith(".c")).root_node
        for node in descendants(root, bodies=True):
            called = node.child_by_field_name("function")
            if node.type == "call_expression" and text_of(called) == plain:
                return f"{path}:{node.start_point.row + 1}: "
    return ""
