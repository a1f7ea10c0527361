"""Which compiler and linker flags a candidate may ask for.

A candidate is hostile until proven otherwise, so this is a list of what is allowed: flags that
choose code generation, macros and libraries. What runs other programs, loads plugins, or reads and
writes outside of the build's own directory is refused.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Mapping, Sequence

from roofsmith.domain.kernel import BuildSpec

_SYSTEM_FOLDERS = ("/usr/include", "/usr/lib", "/usr/lib64", "/usr/local", "/lib", "/lib64", "/opt")
"""Where headers and libraries are installed; nothing of the user's own lies there."""

_TAKE_NEXT = frozenset({"-D", "-U", "-I", "-L", "-l"})
"""Flags whose value may be the next word."""

_REFUSED_F = (
    # Programs and plugins.
    "plugin", "pass-plugin", "module", "use-ld", "integrated-as", "no-integrated-as", "lto-",
    "thinlto", "wpa", "ltrans", "resolution", "offload", "gpu-default-stream",
    # Files written or read beside the library.
    "dump", "profile", "auto-profile", "cs-profile", "branch-probabilities", "coverage",
    "test-coverage", "save-optimization-record", "opt-info", "stack-usage", "callgraph-info",
    "time-trace", "memory-profile", "xray", "pch", "preprocessed", "crash-diagnostics",
    "sanitize-blacklist", "sanitize-ignorelist", "proc-stat-report", "dep",
    # The form of the compiler's messages, which are parsed.
    "diagnostics", "color-diagnostics", "no-diagnostics", "message-length", "max-errors",
    "error-limit", "syntax-only", "compare-debug", "self-test", "file-prefix-map",
    "debug-prefix-map", "macro-prefix-map",
)  # fmt: skip

_EXACT = frozenset(
    {"-O", "-pthread", "-ansi", "-w", "-pipe", "-pedantic", "-pedantic-errors", "-undef",
     "-static-libgcc", "-static-libstdc++", "-s", "-shared", "-fPIC", "-fpic", "-W"}
)  # fmt: skip

_LINKER_WORDS = frozenset(
    {"-z", "now", "lazy", "relro", "norelro", "noexecstack", "defs", "text",
     "--as-needed", "--no-as-needed", "--gc-sections", "--no-gc-sections",
     "--no-undefined", "--start-group", "--end-group", "--strip-all", "--strip-debug",
     "-O1", "-O2", "--hash-style=gnu", "--hash-style=both", "--build-id", "--build-id=none",
     "--build-id=sha1", "-Bsymbolic", "-Bsymbolic-functions", "--sort-common", "--relax"}
)  # fmt: skip
"""What may follow `-Wl,`: none of these names a file or a program."""

_ENVIRONMENT = ("OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "BLIS_", "GOTO_")
"""Variables of thread runtimes and BLAS libraries; all others belong to the worker."""


def refusal(build: BuildSpec) -> tuple[str, str] | None:
    """Why a build spec is not allowed, as (reason code, sentence); None if it is."""
    for flag in joined((*build.flags, *build.link)):
        if not is_allowed(flag):
            return "flag_not_allowed", (
                f"flag `{flag}` is not allowed: flags may choose code generation (-O, -f, -m, "
                "-std, -g), macros (-D, -U), warnings (-W), folders of the candidate or the "
                "system (-I, -L) and libraries (-l)"
            )
    return environment_refusal(build)


def environment_refusal(build: BuildSpec) -> tuple[str, str] | None:
    """Why a build spec's environment is not allowed; None if it is."""
    for name, value in build.environment.items():
        if not name.startswith(_ENVIRONMENT) or "/" in value or "\0" in value:
            return "environment_not_allowed", (
                f"environment variable {name}={value!r} is not allowed: only settings of thread "
                f"runtimes and BLAS libraries are ({', '.join(p + '*' for p in _ENVIRONMENT)}), "
                "without paths"
            )
    return None


def is_shell_safe(text: str) -> bool:
    """Whether a shell that is handed this text, in double quotes or without any, runs nothing.

    nvcc and hipcc pass their arguments on through a shell: `-DX=$(command)` runs the command.
    """
    return all(char.isalnum() or char in "_-+=./:,@%()* " for char in text)


def joined(flags: Sequence[str]) -> tuple[str, ...]:
    """The flags with separate values attached: `-D N=4` becomes `-DN=4`."""
    words = iter(flags)
    return tuple(word + next(words, "") if word in _TAKE_NEXT else word for word in words)


def is_allowed(flag: str) -> bool:
    """Whether gcc and clang may be given this flag, its value attached."""
    if any(ord(char) < 32 for char in flag):
        return False
    if flag in _EXACT:
        return True
    rules: Mapping[str, Callable[[str], bool]] = {
        "-std=": _is_plain, "-O": _is_plain, "-f": _is_code_generation, "-m": _is_machine,
        "-D": lambda value: bool(value) and not value.startswith("-"),
        "-U": str.isidentifier, "-I": is_readable_folder, "-L": is_system_folder,
        "-l": _is_plain, "-Wl,": _is_linker_setting, "-W": _is_warning, "-g": _is_debug,
    }  # fmt: skip
    for prefix, rule in rules.items():
        if flag.startswith(prefix):
            return rule(flag[len(prefix) :])
    return False


def _is_plain(value: str) -> bool:
    """A word or number, such as `c++20`, `3`, `fast`, `openblas`: nothing that could be a path."""
    return bool(value) and all(char.isalnum() or char in "+-_.:" for char in value)


def _starts_with_any(value: str, stems: Iterable[str]) -> bool:
    return value.removeprefix("no-").startswith(tuple(stems)) or value.startswith(tuple(stems))


def _is_code_generation(value: str) -> bool:
    return bool(value) and "/" not in value and not _starts_with_any(value, _REFUSED_F)


def _is_machine(value: str) -> bool:
    return bool(value) and "/" not in value and not value.startswith("llvm")


def _is_warning(value: str) -> bool:
    """Warnings, but not `-Wa,` and `-Wp,`, which hand flags on to other programs."""
    return bool(value) and "," not in value and "/" not in value


def _is_debug(value: str) -> bool:
    return value in {"", "0", "1", "2", "3", "line-tables-only", "dwarf"} or value.startswith(
        ("gdb", "dwarf-")
    )


def _is_linker_setting(value: str) -> bool:
    return all(word in _LINKER_WORDS for word in value.split(","))


def is_system_folder(value: str) -> bool:
    """Whether a path lies where headers and libraries are installed."""
    path = posixpath.normpath(value)
    return any(path == folder or path.startswith(folder + "/") for folder in _SYSTEM_FOLDERS)


def is_readable_folder(value: str) -> bool:
    """Whether a path is one of the system's, or stays inside of the candidate's folder."""
    if value.startswith("/"):
        return is_system_folder(value)
    return bool(value) and posixpath.normpath(value).split("/")[0] != ".."
