"""Turns what compilers and linkers print into lines for people."""

from __future__ import annotations

import re
import signal
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from roofsmith.toolchains.grammar import descendants, parse, text_of

Reason = Literal[
    "compile_error", "link_error", "compiler_memory", "compiler_timeout", "compiler_crash",
    "too_much_shared_memory",
]  # fmt: skip

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
_OWN_TROUBLE: Sequence[tuple[re.Pattern[str], Reason, str]] = (
    (
        re.compile(
            r"out of memory|virtual memory exhausted|Cannot allocate memory|memory exhausted|"
            r"std::bad_alloc|LLVM ERROR: out of memory|Killed signal terminated"
        ),
        "compiler_memory",
        "the compiler ran into its memory limit",
    ),
    (
        re.compile(r"CPU time limit exceeded"),
        "compiler_timeout",
        "the compiler ran into its limit of CPU time",
    ),
)
"""What a compiler says of itself, and what that means."""
_NO_SPACE = re.compile(
    r"No space left on device|Disk quota exceeded|Read-only file system|"
    r"File size limit exceeded|File too large"
)

_HEADER = re.compile(
    r"fatal error: (\S+): No such file|cannot open source file \"([^\"]+)\"|"
    r"'([^']+)' file not found"
)
_OPENMP = (
    "is of OpenMP: install libomp-dev for clang (libomp-14-dev for clang-14, ...), libgomp1 for gcc"
)
_FOR_HEADERS = (
    (r"omp\.h$", f"{{name}} {_OPENMP}"),
    (
        r"cutlass/|cute/",
        "{name} is of CUTLASS: set CUTLASS_PATH to a checkout of NVIDIA/cutlass that has it",
    ),
    (
        r"cub/|thrust/|cuda/|nv/target",
        "{name} is of the CUDA toolkit's C++ libraries: install its package cuda-cccl, or "
        "nvidia-cuda-cccl beside nvcc's wheel",
    ),
    (
        r"(cublas|cufft|curand|cusolver|cusparse|npp)",
        "{name} is of the CUDA toolkit's {of}: install its package lib{of}-dev, or nvidia-{of} "
        "beside nvcc's wheel",
    ),
    (
        "",
        "if {name} is the kernel's own, put it beside the kernel, or name it: `init --include "
        "FILE`, `includes` in a target",
    ),
)
"""What to do about a header that isn't found, by how its name begins."""
_FOR_SYMBOLS = (
    (
        r"cu[A-Z]\w*$",  # so the CUDA driver API names its functions: cuTensorMapEncodeTiled
        "of the CUDA driver API, which `-lcuda` in `link` takes from the driver (libcuda.so.1) or "
        "the toolkit's stub (package cuda-driver-dev), whichever is installed",
    ),
    (r"(?:omp_|GOMP_|__kmpc_)\w+$", "of OpenMP's runtime, which -fopenmp in `flags` links"),
    ("", "define it in the candidate's sources or name its library in `link` (-l...)"),
)
_FOR_LIBRARIES = (
    (
        r".*(?:cannot find -l:?(?:lib)?g?omp\b|unable to find library -lg?omp\b|"
        r"cannot read spec file '?libgomp\.spec)",
        f"it {_OPENMP}",
    ),
    (
        r".*(?:cannot find -l:?(?:lib)?cuda\b|unable to find library -lcuda\b)",
        "libcuda comes with NVIDIA's driver; to link without one, install the toolkit's stub of it "
        "(package cuda-driver-dev), or ask cudaGetDriverEntryPoint for its functions",
    ),
)

MAX_ERRORS = 5
"""Errors that a detail quotes; the log has them all."""
MAX_ERROR_CHARS = 400
"""How much of each one it quotes: C++ can fill a page with one type."""

TOO_MUCH_SHARED = "takes too much shared memory:"
"""Words of the message about a kernel that no block could run."""
LESS_SHARED = "smaller tiles, fewer stages or a narrower type"
"""What to try then."""


@dataclass(frozen=True, slots=True)
class CompilerDiagnosis:
    """Why a compiler refused, in a few lines."""

    reason: Reason
    detail: str


def diagnose(output: str, sources: Mapping[str, str], returncode: int) -> CompilerDiagnosis:
    """Read the output of a compiler that failed.

    Args:
        sources: the user's file names and texts, to find where an undefined symbol is used.
        returncode: of the compiler, for an output that explains nothing.
    """
    lines = output.splitlines()
    own_words = _own_words(lines)
    for pattern, reason, words in _OWN_TROUBLE:
        if pattern.search(own_words):
            return CompilerDiagnosis(reason, words)
    errors = _messages(lines, "error")
    if _DIED.search(own_words) or any("internal compiler error" in e for e in errors):
        return CompilerDiagnosis("compiler_crash", _listed(errors) or lines[0])
    linker = [line for line in lines if _LINKER.search(line)]
    if linker and not any(_place_has_line(error) for error in errors):
        return CompilerDiagnosis("link_error", _explain_linker(linker, sources))
    if errors:
        shared = all(TOO_MUCH_SHARED in error for error in errors)
        detail = "\n".join([_listed(errors), *_advice(_FOR_HEADERS, _missing(errors))])
        return CompilerDiagnosis("too_much_shared_memory" if shared else "compile_error", detail)
    tail = "\n".join(lines[-MAX_ERRORS:])
    return CompilerDiagnosis(
        "compile_error", tail or f"the compiler ended with status {returncode}"
    )


def warnings_of(output: str) -> tuple[str, ...]:
    """Every distinct warning: `kernel.c:3:5: unused variable 'x' [-Wunused-variable]`."""
    return tuple(dict.fromkeys(_messages(output.splitlines(), "warning")))


def is_out_of_space(output: str, returncode: int) -> bool:
    """Whether the compiler failed because it couldn't write: our trouble, not the candidate's."""
    return returncode == -signal.SIGXFSZ or bool(_NO_SPACE.search(_own_words(output.splitlines())))


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
    return "\n".join([shown, *_advice(_FOR_LIBRARIES, facts)])


def _hints_for(undefined: Iterable[str]) -> list[str]:
    by_hint: dict[str, list[str]] = {}
    for name in undefined:
        (hint,) = _advice(_FOR_SYMBOLS, [name])
        by_hint.setdefault(hint, []).append(name)
    return [
        textwrap.shorten(f"{hint}: {', '.join(names)}", MAX_ERROR_CHARS)
        for hint, names in by_hint.items()
    ]


def _missing(errors: Iterable[str]) -> list[str]:
    """Headers that a compiler didn't find."""
    found = (_HEADER.search(error) for error in errors)
    return [next(filter(None, match.groups())) for match in found if match]


def _advice(table: Sequence[tuple[str, str]], about: Iterable[str]) -> list[str]:
    """What to do about each of some names or sentences, by the first line that knows it."""
    found = []
    for text in about:
        for pattern, words in table:
            if match := re.match(pattern, text):
                found.append(words.format(name=text, of=(*match.groups(), "")[0]))
                break
    return list(dict.fromkeys(found))


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
