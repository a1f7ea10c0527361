"""Tunables of the build: optimization level, unrolling, vector width, float rules, threads,
registers.

Only flags that keep every result inside an error budget are offered. `-ffast-math` and
`-ffinite-math-only` never are: they let the compiler assume that no NaN or infinity exists.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from roofsmith.domain.kernel import BuildSpec
from roofsmith.proposers.tunables_sites import thread_counts

OMP_THREADS = "env:OMP_NUM_THREADS"
UNSET = "unset"
"""Setting of an environment variable that the build spec doesn't name."""

_LOOSE = ("-Ofast", "-ffast-math", "-funsafe-math-optimizations", "-ffinite-math-only")
"""With any of these, the author has decided on floating-point rules; they are left alone."""
_DEFINE = re.compile(r"-D([A-Za-z_]\w*)=(0|[1-9]\d*)")


@dataclass(frozen=True, slots=True)
class FlagGroup:
    """Flags that make one decision together."""

    name: str
    levels: Mapping[str, tuple[str, ...]]
    """Setting to the flags that hold in it, one per family, in the order of `_FAMILIES`."""
    defaults: tuple[str, ...]
    """What the compiler does where a family isn't mentioned."""


LEVEL = FlagGroup("-O", {"-O2": ("-O2",), "-O3": ("-O3",)}, ("-O0",))
UNROLL = FlagGroup(
    "-funroll-loops",
    {"off": ("-fno-unroll-loops",), "on": ("-funroll-loops",)},
    ("-fno-unroll-loops",),
)
WIDTH = FlagGroup(
    "-mprefer-vector-width",
    {size: (f"-mprefer-vector-width={size}",) for size in ("none", "256", "512")},
    ("-mprefer-vector-width=none",),
)
_STRICT = ("-fmath-errno", "-ftrapping-math", "-fsigned-zeros", "-fno-associative-math")
MATH = FlagGroup(
    "float-math",
    {
        "strict": _STRICT,
        "no-errno": ("-fno-math-errno", *_STRICT[1:]),
        "no-trap": ("-fno-math-errno", "-fno-trapping-math", *_STRICT[2:]),
        # GCC ignores -fassociative-math unless traps and signed zeros are given up as well.
        "reassociate": (
            "-fno-math-errno", "-fno-trapping-math", "-fno-signed-zeros", "-fassociative-math",
        ),
    },
    _STRICT,
)  # fmt: skip

REGISTERS = FlagGroup(
    "-maxrregcount",
    {size: (f"-maxrregcount={size}",) for size in ("32", "40", "64", "96", "128", "255")},
    ("-maxrregcount=255",),
)
"""Of nvcc: the most registers of a thread; 255 is what the hardware has."""

_GROUPS = {group.name: group for group in (LEVEL, UNROLL, WIDTH, MATH, REGISTERS)}
BUILD_NAMES = frozenset((*_GROUPS, OMP_THREADS))
_FAMILIES = (
    "-O", "-funroll-loops", "-mprefer-vector-width",
    "-fmath-errno", "-ftrapping-math", "-fsigned-zeros", "-fassociative-math", "-maxrregcount",
)  # fmt: skip


def _rank(flag: str) -> int:
    """Index of the flag's family; -1 for a flag that no group manages."""
    family = "-O" if flag.startswith("-O") else flag.split("=")[0].replace("-fno-", "-f", 1)
    return _FAMILIES.index(family) if family in _FAMILIES else -1


def _position(flags: Sequence[str], rank: int) -> int | None:
    """Where the family is decided: the last flag of it wins."""
    places = [index for index, flag in enumerate(flags) if _rank(flag) == rank]
    return places[-1] if places else None


def read_level(group: FlagGroup, flags: Sequence[str]) -> str:
    """The level that holds under `flags`; the flags themselves where they are no level of ours."""
    effective = []
    for default in group.defaults:
        place = _position(flags, _rank(default))
        effective.append(default if place is None else flags[place])
    levels = (name for name, wanted in group.levels.items() if wanted == tuple(effective))
    return next(levels, " ".join(effective))


def write_level(group: FlagGroup, flags: Sequence[str], level: str) -> tuple[str, ...]:
    """`flags` with the group at `level`; unchanged if it is there already.

    A family that is mentioned is replaced in place. Another is inserted in front of the trailing
    flags of later families, so that the result doesn't depend on the order of the edits.
    """
    result = list(flags)
    if level == read_level(group, flags):
        return tuple(result)
    for wanted, default in zip(group.levels[level], group.defaults, strict=True):
        rank = _rank(wanted)
        place = _position(result, rank)
        if place is not None:
            result[place] = wanted
        elif wanted != default:
            place = len(result)
            while place > 0 and _rank(result[place - 1]) > rank:
                place -= 1
            result.insert(place, wanted)
    return tuple(result)


def levels_offered(build: BuildSpec, isa: Sequence[str]) -> list[tuple[str, str, tuple[str, ...]]]:
    """(name, current, choices in increasing order) of every flag group that fits this build."""
    loose = any(flag in _LOOSE for flag in build.flags)
    widths = ["none"]
    widths += ["256"] if "avx2" in isa or "avx" in isa else []
    widths += ["512"] if "avx512f" in isa else []
    groups: list[tuple[FlagGroup, Sequence[str]]] = [(UNROLL, tuple(UNROLL.levels))]
    if "-Ofast" not in build.flags:
        groups.insert(0, (LEVEL, tuple(LEVEL.levels)))
    if len(widths) > 1:
        groups.append((WIDTH, widths))
    if not loose:
        groups.append((MATH, tuple(MATH.levels)))
    offered = []
    for group, levels in groups:
        current = read_level(group, build.flags)
        choices = tuple(levels) if current in levels else (current, *levels)
        offered.append((group.name, current, choices))
    return offered


def registers_offered(build: BuildSpec) -> tuple[str, str, tuple[str, ...]]:
    """The same of the flag of nvcc."""
    current = read_level(REGISTERS, build.flags)
    levels = tuple(REGISTERS.levels)
    return REGISTERS.name, current, levels if current in levels else (current, *levels)


def threads_offered(
    build: BuildSpec, threads: int
) -> tuple[str, int | str, tuple[int | str, ...]] | None:
    """OMP_NUM_THREADS, where OpenMP is on; None where it is not, or holds no plain number.

    Unset means all processors that the kernel may use, so only smaller counts are offered then.
    """
    if not any(flag.startswith("-fopenmp") for flag in build.flags):
        return None
    written = build.environment.get("OMP_NUM_THREADS")
    if written is None:
        fewer = [count for count in thread_counts(threads) if count < threads]
        return (OMP_THREADS, UNSET, (*fewer, UNSET)) if fewer else None
    if not written.isdecimal() or str(int(written)) != written or written == "0":
        return None
    counts = thread_counts(threads, int(written))
    return (OMP_THREADS, int(written), counts) if len(counts) > 1 else None


def defines(build: BuildSpec) -> dict[str, int]:
    """Integers that the command line defines (`-DNAME=64`), by name."""
    found = (_DEFINE.fullmatch(flag) for flag in build.flags)
    return {match.group(1): int(match.group(2)) for match in found if match is not None}


def write_build(build: BuildSpec, assignment: Mapping[str, int | str]) -> BuildSpec:
    """The build with every setting of `assignment` in place; names of the source are ignored."""
    flags = build.flags
    for name, setting in assignment.items():
        if name in _GROUPS:
            flags = write_level(_GROUPS[name], flags, str(setting))
    environment = dict(build.environment)
    omp = assignment.get(OMP_THREADS)
    if omp is not None and omp != UNSET:
        environment["OMP_NUM_THREADS"] = str(omp)
    given = defines(build)
    wanted = {n: s for n, s in assignment.items() if n in given and s != given[n]}
    flags = tuple(_redefined(flag, wanted) for flag in flags)
    return build.model_copy(update={"flags": flags, "environment": environment})


def _redefined(flag: str, wanted: Mapping[str, int | str]) -> str:
    match = _DEFINE.fullmatch(flag)
    if match is None or match.group(1) not in wanted:
        return flag
    return f"-D{match.group(1)}={wanted[match.group(1)]}"
