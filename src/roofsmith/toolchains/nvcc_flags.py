"""Which flags of nvcc a candidate may ask for, by `flags.yaml`; one spelling for each of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from roofsmith.domain.kernel import BuildSpec
from roofsmith.toolchains import flags as host

STREAM_MACROS = ("CUDA_API_PER_THREAD_DEFAULT_STREAM", "HIP_API_PER_THREAD_DEFAULT_STREAM")
"""Macros that make another stream the default one."""
_NVCC: Final = host.TABLE["nvcc"]


class RefusedFlagError(Exception):
    """A flag is not allowed; the message says which, and why where there is a special reason."""


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
    long = option["names"][0]
    if "value" not in option:
        if value is not None:
            raise _refused(word)
        return f"--{long}"
    if value is None:
        value = next(iter(following), None)
    if value is None or not host.is_shell_safe(value):
        raise _refused(word)
    parts = value.split(",") if option.get("many") else [value]
    if not all(_RULES[long](part) for part in parts):
        raise _refused(f"{word} {value}" if value not in word else word)
    return f"--{long}={value}"


def _split(word: str) -> tuple[Mapping[str, Any], str | None]:
    """An option and the value attached to it."""
    if not word.startswith("-") or word.startswith("---"):
        raise _refused(word)
    name, equals, value = word.removeprefix("-").removeprefix("-").partition("=")
    if name in _OPTIONS:
        return _OPTIONS[name], value if equals else None
    stem = word[1:2]
    if stem in _NVCC["attached"] and not word.startswith("--"):
        return _OPTIONS[stem], word[2:]
    raise _refused(word)


def _refused(word: str) -> RefusedFlagError:
    name = word.lstrip("-").partition("=")[0].partition(" ")[0]
    why = _NVCC["reasons"].get(name)
    if why is None and any(macro in word for macro in STREAM_MACROS):
        why = _NVCC["reasons"]["default-stream"]
    if why is not None:
        return RefusedFlagError(f"flag `{word}` is not allowed: {why}")
    return RefusedFlagError(
        f"flag `{word}` is not allowed: flags for nvcc may choose code generation (-O, "
        "-maxrregcount, -use_fast_math, -ftz, -fmad, -Xptxas, -rdc, -lineinfo, -std), the host's "
        "(-Xcompiler), macros (-D, -U), folders of the candidate or the system (-I, -L) and "
        "libraries (-l)"
    )


def _macro(value: str) -> bool:
    return not any(macro in value for macro in STREAM_MACROS)


def _host_flag(value: str) -> bool:
    """A flag for gcc; not one that hands flags on to other programs, or asks what machine it is."""
    if value.startswith("-D"):
        return _RULES["define-macro"](value[2:]) and not value.endswith("=native")
    handed_on = value.startswith(("-Wl,", "-l", "-L", "-I")) or value.endswith("=native")
    return host.is_allowed(value) and not handed_on


def _ptxas(word: str) -> bool:
    """A flag of ptxas, or the value of the one before it."""
    if word and not word.startswith("-"):
        return word.isalnum()
    name, equals, value = ("-" + word.lstrip("-")).partition("=")
    switches, values = _NVCC["ptxas"]["switches"], _NVCC["ptxas"]["values"]
    return name in values and value.isalnum() if equals else name in switches or name in values


_CHECKS: Final = {"macro": _macro, "host_flag": _host_flag, "ptxas": _ptxas}
_OPTIONS: Final = {name: option for option in _NVCC["options"] for name in option["names"]}
_RULES: Final = {
    option["names"][0]: host.rule_of(option["value"], _CHECKS)
    for option in _NVCC["options"]
    if "value" in option
}
