"""Which flags of nvcc a candidate may ask for, and one spelling for each of them.

As in `flags`, a list of what is allowed: what chooses code, macros and libraries. What writes
files, runs programs, chooses the architecture (the device does) or changes what the default stream
is (measurements rely on it) is refused. nvcc splits most values at commas and hands them to a
shell, so values are made of plain characters only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from roofsmith.domain.kernel import BuildSpec
from roofsmith.toolchains import flags as host

Rule = Callable[[str], bool]

STREAM_MACROS = ("CUDA_API_PER_THREAD_DEFAULT_STREAM", "HIP_API_PER_THREAD_DEFAULT_STREAM")
"""Macros that make another stream the default one."""


class RefusedFlagError(Exception):
    """A flag is not allowed; the message says which, and why where there is a special reason."""


@dataclass(frozen=True, slots=True)
class _Option:
    """One option of nvcc: its canonical spelling and what may follow."""

    long: str
    value: Rule | None = None
    """None: the option takes no value."""
    many: bool = False
    """Whether the value is a list with commas between, each of which must pass."""


def _truth(value: str) -> bool:
    return value in {"true", "false"}


def _number(value: str) -> bool:
    return value.isascii() and value.isdigit() and len(value) <= 6


def _numbers(value: str) -> bool:
    return all(_number(part) for part in value.split(","))


def _level(value: str) -> bool:
    return value in {"0", "1", "2", "3"}


def _macro(value: str) -> bool:
    if not value or value.startswith("-") or "," in value:
        return False
    return not any(macro in value for macro in STREAM_MACROS)


def _readable_folder(value: str) -> bool:
    return "," not in value and host.is_readable_folder(value)


def _system_folder(value: str) -> bool:
    return "," not in value and host.is_system_folder(value)


def _standard(value: str) -> bool:
    return value in {"c++11", "c++14", "c++17", "c++20", "c++23"}


def _fast_compile(value: str) -> bool:
    return value in {"0", "min", "mid", "max"}


def _library(value: str) -> bool:
    return bool(value) and all(char.isalnum() or char in "+-_." for char in value)


def _host_flag(value: str) -> bool:
    """A flag for gcc; not one that hands flags on to other programs, or asks what machine it is."""
    if value.endswith("=native"):
        return False
    if value.startswith("-D"):
        return _macro(value[2:])
    return host.is_allowed(value) and not value.startswith(("-Wl,", "-l", "-L", "-I"))


_PTXAS_SWITCHES = frozenset(
    {"-v", "-g", "-lineinfo", "-warn-spills", "-warn-on-spills", "-warn-lmem-usage",
     "-warn-double-usage", "-warn-on-local-memory-usage", "-warn-on-double-precision-use",
     "-Werror", "-allow-expensive-optimizations", "-verbose", "-disable-warnings", "-w",
     "-position-independent-code", "-suppress-stack-size-warning", "-cloning"}
)  # fmt: skip
_PTXAS_VALUES = frozenset(
    {"-O", "-opt-level", "-dlcm", "-def-load-cache", "-dscm", "-def-store-cache", "-maxrregcount",
     "-regUsageLevel", "-register-usage-level", "-allow-expensive-optimizations", "-fmad",
     "-cloning", "-disable-optimizer-constants", "-preserve-relocs", "-fastimul", "-split-compile"}
)  # fmt: skip


def _ptxas(word: str) -> bool:
    """A flag of ptxas, or the value of the one before it."""
    if word and not word.startswith("-"):
        return word.isalnum()
    name, equals, value = ("-" + word.lstrip("-")).partition("=")
    if equals:
        return name in _PTXAS_VALUES and value.isalnum()
    return name in _PTXAS_SWITCHES or name in _PTXAS_VALUES or name in {f"-O{n}" for n in range(5)}


def _cudafe(word: str) -> bool:
    """Which messages the front end prints."""
    name, _, value = word.lstrip("-").partition("=")
    return name in {"diag_suppress", "diag_warning", "diag_error", "display_error_number"} and (
        not value or all(char.isalnum() or char in "_-" for char in value)
    )


_OPTIONS: Mapping[str, _Option] = {
    name: option
    for names, option in (
        (("optimize", "O"), _Option("optimize", _level)),
        (("std",), _Option("std", _standard)),
        (("define-macro", "D"), _Option("define-macro", _macro)),
        (("undefine-macro", "U"), _Option("undefine-macro", str.isidentifier)),
        (("include-path", "I"), _Option("include-path", _readable_folder)),
        (("system-include", "isystem"), _Option("system-include", _readable_folder)),
        (("library-path", "L"), _Option("library-path", _system_folder)),
        (("library", "l"), _Option("library", _library)),
        (("debug", "g"), _Option("debug")),
        (("device-debug", "G"), _Option("device-debug")),
        (("generate-line-info", "lineinfo"), _Option("generate-line-info")),
        (("maxrregcount",), _Option("maxrregcount", _number)),
        (("use_fast_math",), _Option("use_fast_math")),
        (("ftz",), _Option("ftz", _truth)),
        (("prec-div",), _Option("prec-div", _truth)),
        (("prec-sqrt",), _Option("prec-sqrt", _truth)),
        (("fmad",), _Option("fmad", _truth)),
        (("extra-device-vectorization",), _Option("extra-device-vectorization")),
        (("restrict",), _Option("restrict")),
        (("relocatable-device-code", "rdc"), _Option("relocatable-device-code", _truth)),
        (("dlink-time-opt", "dlto"), _Option("dlink-time-opt")),
        (("expt-relaxed-constexpr",), _Option("expt-relaxed-constexpr")),
        (("extended-lambda", "expt-extended-lambda"), _Option("extended-lambda")),
        (("split-compile",), _Option("split-compile", _number)),
        (("jump-table-density",), _Option("jump-table-density", _number)),
        (("Ofast-compile", "Ofc"), _Option("Ofast-compile", _fast_compile)),
        (("disable-warnings", "w"), _Option("disable-warnings")),
        (("resource-usage", "res-usage"), _Option("resource-usage")),
        (("diag-suppress",), _Option("diag-suppress", _numbers)),
        (("diag-warn",), _Option("diag-warn", _numbers)),
        (("Werror",), _Option("Werror", lambda v: v.replace("-", "").isalpha(), many=True)),
        (("ptxas-options", "Xptxas"), _Option("ptxas-options", _ptxas, many=True)),
        (("compiler-options", "Xcompiler"), _Option("compiler-options", _host_flag, many=True)),
        (("cudafe-options", "Xcudafe"), _Option("cudafe-options", _cudafe, many=True)),
    )
    for name in names
}  # fmt: skip
_ATTACHED = ("D", "U", "I", "L", "l", "O")
"""Short options whose value may follow without anything between."""
_ARCHITECTURE = frozenset(
    {"arch", "gpu-architecture", "gencode", "generate-code", "code", "gpu-code", "march"}
)
_REASONS: Mapping[str, str] = {
    **dict.fromkeys(_ARCHITECTURE, "the architecture is that of the device"),
    "default-stream": "measurements rely on the legacy default stream",
    "cudart": "the runtime library is chosen by roofsmith, so that judge and kernel share it",
}


def refusal(build: BuildSpec) -> tuple[str, str] | None:
    """Why a build spec is not allowed for CUDA, as (reason code, sentence); None if it is."""
    try:
        normalised((*build.flags, *build.link))
    except RefusedFlagError as error:
        return "flag_not_allowed", str(error)
    return host.environment_refusal(build)


def normalised(flags: Sequence[str]) -> tuple[str, ...]:
    """The flags in nvcc's long form, values attached: `-Xptxas -v` is `--ptxas-options=-v`.

    Raises:
        RefusedFlagError: one of them is not allowed.
    """
    words = iter(flags)
    return tuple(_normalised(word, words) for word in words)


def for_host(flags: Sequence[str]) -> tuple[str, ...]:
    """The flags of macros and folders of headers, as the host's compiler spells them.

    Of flags that are not allowed, none.
    """
    try:
        words = normalised(flags)
    except RefusedFlagError:
        return ()
    named = (word.partition("=") for word in words)
    spelled = {"--define-macro": "-D", "--undefine-macro": "-U", "--include-path": "-I"}
    return tuple(f"{spelled[name]}{value}" for name, _, value in named if name in spelled)


def _normalised(word: str, following: Iterable[str]) -> str:
    option, value = _split(word)
    if option.value is None:
        if value is not None:
            raise _refused(word)
        return f"--{option.long}"
    if value is None:
        value = next(iter(following), None)
    if value is None or not host.is_shell_safe(value):
        raise _refused(word)
    parts = value.split(",") if option.many else [value]
    if not all(option.value(part) for part in parts):
        raise _refused(f"{word} {value}" if value not in word else word)
    return f"--{option.long}={value}"


def _split(word: str) -> tuple[_Option, str | None]:
    """An option and the value attached to it."""
    if not word.startswith("-") or word.startswith("---"):
        raise _refused(word)
    name, equals, value = word.removeprefix("-").removeprefix("-").partition("=")
    if name in _OPTIONS:
        return _OPTIONS[name], value if equals else None
    stem = word[1:2]
    if stem in _ATTACHED and not word.startswith("--"):
        return _OPTIONS[stem], word[2:]
    raise _refused(word)


def _refused(word: str) -> RefusedFlagError:
    name = word.lstrip("-").partition("=")[0].partition(" ")[0]
    why = _REASONS.get(name)
    if why is None and any(macro in word for macro in STREAM_MACROS):
        why = _REASONS["default-stream"]
    if why is not None:
        return RefusedFlagError(f"flag `{word}` is not allowed: {why}")
    return RefusedFlagError(
        f"flag `{word}` is not allowed: flags for nvcc may choose code generation (-O, "
        "-maxrregcount, -use_fast_math, -ftz, -fmad, -Xptxas, -rdc, -lineinfo, -std), the host's "
        "(-Xcompiler), macros (-D, -U), folders of the candidate or the system (-I, -L) and "
        "libraries (-l)"
    )
