"""What a column's name says of it: a time or a rate, its unit, what it sums up or counts. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from roofsmith.domain.command import BYTE_RATES, FLOP_RATES, Direction

_COLUMN: Final = re.compile(r"[A-Za-z_][\w.]*|\w+(?: +\w+)+|\[[^\[\]]+\]|`[^`]+`")
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_UNDERSCORED: Final = re.compile(
    r"(?<![A-Za-z])((?:[kmgtp]i?)?(?:b|bytes|flop|elems?|ops)|it|tok|tokens?|items?|samples?|images?)"
    r"_s(?:ec)?(?![A-Za-z])"
    r"|(?<![A-Za-z])([kmgtp]i?b)s(?![A-Za-z])",
    re.IGNORECASE,
)
"""Rates where a name can have no slash: `gb_s`, `GBs`, `tokens_s`."""
_WORD: Final = re.compile(r"[A-Za-zµμ]+|\d+(?:\.\d+)?|/")

TIME_WORDS: Final = {
    "s": "s", "sec": "s", "secs": "s", "second": "s", "seconds": "s",
    "ms": "ms", "msec": "ms", "msecs": "ms", "millis": "ms", "milliseconds": "ms",
    "us": "us", "µs": "us", "μs": "us", "usec": "us", "usecs": "us", "microseconds": "us",
    "ns": "ns", "nsec": "ns", "nsecs": "ns", "nanos": "ns", "nanoseconds": "ns",
}  # fmt: skip
"""Words of a unit of time, and what it is called in targets."""
_PREFIXES: Final = {"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15} | {
    f"{prefix}i": 2.0 ** (10 * power) for power, prefix in enumerate("KMGTP", start=1)
}
TIMES: Final = frozenset(
    ("time", "times", "latency", "duration", "elapsed", "runtime", "walltime", "cycles", "ticks")
)
_RATES: Final = frozenset(("throughput", "bandwidth", "gbps", "fps", "qps"))
_FLOPS: Final = re.compile(r"[kmgtp]?flops", re.IGNORECASE)
_CENTRES: Final = frozenset(("mean", "median", "avg", "average"))
_EXTREMES: Final = frozenset(
    ("min", "max", "minimum", "maximum", "best", "worst", "lowest", "highest", "low", "high",
     "lo", "hi", "lower", "upper", "fastest", "slowest")
)  # fmt: skip
_SPREADS: Final = frozenset(
    ("std", "stddev", "stdev", "sd", "sem", "var", "variance", "cv", "err", "error", "errors",
     "mad", "iqr", "ci", "noise", "spread", "jitter", "dev", "deviation")
)  # fmt: skip
_BESIDE: Final = frozenset(
    ("compile", "compilation", "build", "setup", "init", "warmup", "warm", "load", "timeout",
     "limit", "cpu", "user", "sys", "system", "ref", "reference", "baseline", "steps", "stamp",
     "idle", "est", "estimated")
)  # fmt: skip
"""Words of a time that isn't what a benchmark is there for."""
_COUNTS: Final = frozenset(
    ("cnt",
     "iterations", "iteration", "iters", "iter", "niter", "reps", "rep", "repeats", "repetitions",
     "runs", "rounds", "loops", "trials", "evals")
)  # fmt: skip
_WHOLE_COUNTS: Final = frozenset(("count", "counts", "samples", "calls"))
"""Repetitions where nothing else is said: `head_count` is a size."""
_OURS: Final = frozenset(
    ("ours", "our", "mine", "new", "candidate", "custom", "optimized", "optimised", "after",
     "triton")
)  # fmt: skip
_RIVALS: Final = frozenset(
    ("old", "before", "original", "orig", "base", "baseline", "reference", "ref", "naive", "native",
     "vendor", "stock", "upstream", "theirs", "golden", "expected", "torch", "pytorch", "aten",
     "eager", "inductor", "sdpa", "xformers", "numpy", "np", "scipy", "jax", "xla", "tensorflow",
     "tf", "onnxruntime", "onednn", "mkldnn", "mkl", "blas", "openblas", "eigen", "fftw", "ipp",
     "cublas", "cublaslt", "cudnn", "cufft", "cusparse", "cub", "thrust", "nccl", "rocblas",
     "hipblas", "hipblaslt", "miopen", "rccl", "libc", "glibc", "memcpy")
)  # fmt: skip
"""What a change is measured against. These and `_OURS`: Chosen, after what benchmarks print."""
_WHOSE: Final = frozenset(
    ("impl", "impls", "implementation", "provider", "library", "lib", "contender")
)  # fmt: skip
_OF_THE_RUN: Final = frozenset(
    ("unit", "units",
     "commit", "hash", "sha", "host", "hostname", "pid", "path", "file", "filename", "version",
     "date", "timestamp", "build", "driver", "index",
     "speedup", "ratio", "efficiency", "util", "utilization", "percent", "power", "watts", "temp",
     "mem", "memory", "vram", "rss", "peak", "score", "loss", "accuracy", "outliers", "ops")
)  # fmt: skip
_ANYTHING: Final = frozenset(
    ("src", "lib", "main", "kernel", "kernels", "bench", "benchmark", "test", "tests", "repo",
     "cpp", "cuda", "hip", "init", "ops", "gpu", "cpu", "time")
)  # fmt: skip
_ERRORS: Final = frozenset(("err", "error", "errors", "mismatch", "mismatches", "wrong"))
_CHECK: Final = re.compile(r"(?:^|_|\b)(check|status|pass|passed|correct|ok)(?:$|_|\b)", re.I)


@dataclass(frozen=True, slots=True)
class Meaning:
    direction: Direction
    unit: str
    """Empty where the name doesn't say."""


def bracketed(column: str) -> str:
    """A column as an expression names it."""
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.]*", column):
        return column
    return f"`{column}`" if {"[", "]"} & {*column} else f"[{column}]"


def meaning_of(metric: str) -> Meaning | None:
    """A time or a rate, by the name of a column; None for other names, and for expressions.

    `time/ms` is a time in ms, as physicists label axes; `GB/s` and `tokens_per_s` are rates, and
    `ms/iter` is a time.
    """
    if _COLUMN.fullmatch(metric) is None:
        return None
    rates, times, unit = _found(metric.strip("[]`" if metric[0] == "[" else "`"))
    if rates == times:  # none, or both
        return None
    return Meaning("higher" if rates else "lower", unit)


def is_result(name: str) -> bool:
    """Whether a column is measured or checked, and so tells no rows apart."""
    rates, times, _ = _found(name)
    words = _words(name)
    statistics = bool(words) and words <= _SPREADS | _CENTRES | _EXTREMES  # `max_seqlen` is a size
    return rates or times or is_error(name) or is_check(name) or statistics


def is_count(name: str) -> bool:
    """Whether it counts repetitions, which a benchmark may choose by how long they take."""
    words = _words(name)
    return bool(words & _COUNTS) or (len(words) == 1 and words <= _WHOLE_COUNTS)


def is_of_the_run(name: str) -> bool:
    """Whether it probably says when, where or how well was measured, rather than what."""
    return bool(_words(name) & _OF_THE_RUN)


def is_error(name: str) -> bool:
    """Whether it says how wrong results are."""
    return bool(_words(name) & _ERRORS)


def is_check(name: str) -> bool:
    """Whether it says whether results are right."""
    return _CHECK.search(name) is not None


def distance(name: str) -> int:
    """From what is to be improved: 0 a time or rate itself, 1 one beside it such as `cpu_time`,
    2 an extreme or a high percentile, 3 a dispersion."""
    words = _words(name)
    percentile = re.search(r"(?:^|[^A-Za-z])p_?(\d\d(?:\.\d+)?)(?!\d)", name, re.IGNORECASE)
    if words & _SPREADS:
        return 3
    if words & _EXTREMES or (percentile is not None and float(percentile[1]) != 50):
        return 2
    return 1 if words & (_BESIDE | {"cycles", "ticks"}) else 0


def is_spread(name: str) -> bool:
    """Whether it says how far measurements lie apart."""
    return bool(_words(name) & _SPREADS)


def rivalry(name: str, own: Collection[str]) -> int:
    """Whose result a column is: 0 the user's, 1 nobody says, 2 that of something else.

    Args:
        name: of the column.
        own: words of what the repository and its kernels are called.
    """
    words = _words(name)
    if words & _RIVALS:
        return 2
    return 0 if words & (_OURS | {*own}) else 1


def is_rival(value: str) -> bool:
    """Whether a cell names nothing but what a change is measured against, such as `torch`."""
    words = _words(value)
    return bool(words) and words <= _RIVALS


def says_whose(name: str) -> bool:
    """Whether a column's name says that its cells name implementations."""
    return bool(_words(name) & _WHOSE)


def words_of(names: Iterable[str]) -> frozenset[str]:
    """Words of what a repository and its files are called, less those that anything is called."""
    found = frozenset(word for name in names for word in _words(name) if len(word) > 2)
    return found - _ANYTHING


def _found(name: str) -> tuple[bool, bool, str]:
    words = _split(name)
    lower = [word.lower() for word in words]
    rate = time = False
    unit = ""
    for at in [at for at in range(1, len(words) - 1) if words[at] == "/"]:
        over, under = lower[at - 1], lower[at + 1]
        if under in TIME_WORDS and over in TIMES | _CENTRES | _EXTREMES | _SPREADS | {"t"}:
            time, unit = True, TIME_WORDS[under]
        elif over in TIME_WORDS and under not in TIME_WORDS:
            time, unit = True, TIME_WORDS[over]
        elif over in TIMES and under not in TIME_WORDS:
            time = True
        elif over not in TIME_WORDS and over not in TIMES and over.isalpha():
            if under not in TIME_WORDS and under not in TIMES:
                continue
            rate, unit = True, _rate_unit(f"{words[at - 1]}/s") if under in TIME_WORDS else ""
        lower[at - 1 : at + 2] = ["", "", ""]
    for word, said in zip(lower, words, strict=True):
        if _FLOPS.fullmatch(word):
            rate, unit = True, unit or _rate_unit(said)
        elif word in _RATES:
            rate = True
        elif word in TIME_WORDS:
            time, unit = True, unit or TIME_WORDS[word]
        elif word in TIMES:
            time = True
    return rate, time, unit


def prefixes_of(unit: str) -> Iterator[tuple[float, str]]:
    """What a prefix of a rate's unit may stand for, and the unit without it."""
    for prefix, scale in _PREFIXES.items():
        if unit.startswith(prefix) and len(unit) > len(prefix):
            yield scale, unit.removeprefix(prefix)


def _rate_unit(said: str) -> str:
    """As targets spell it; empty for other rates, such as Gb/s, which are bits."""
    if said[1:] == "b/s" and said[0].isupper():
        return ""
    known = {unit.lower(): unit for unit in (*FLOP_RATES, *BYTE_RATES)}
    return known.get(said.lower(), "")


def _split(name: str) -> list[str]:
    slashed = _UNDERSCORED.sub(lambda found: f"{found[1] or found[2]}/s", name)
    apart = re.sub(r"(?:^|[_ -])per(?=[_ -])", "/", _CAMEL.sub(" ", slashed))
    return _WORD.findall(apart)


def _words(name: str) -> set[str]:
    return {word.lower() for word in _split(name) if word.isalpha()}
