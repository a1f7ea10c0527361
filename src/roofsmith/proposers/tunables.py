"""Tunables: the settings of a candidate that change its speed and should not change its results.

    find_tunables(candidate, threads=2, isa=("avx2", "fma")) -> Found
    apply(candidate, {"BM": 128, "-funroll-loops": "on"})    -> Candidate

Three groups, by how much is known of them: `declared` ones, whose author lists the choices
(`// tune: BM = 64 [16, 32, 64, 128]`); those `found` in the source, with choices generated around
the current value; and those of the `build`. What a setting does to the results is for the judge to
find out: a choice that breaks the kernel is a failed point and nothing worse.

Source settings are looked for in the kernel file only; the other files of a candidate are not for
editing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from roofsmith.domain.kernel import MODULE_LANGUAGES, Candidate
from roofsmith.proposers.edits import apply_edits
from roofsmith.proposers.source import Source
from roofsmith.proposers.tunables_build import (
    BUILD_NAMES,
    defines,
    levels_offered,
    registers_offered,
    threads_offered,
    write_build,
)
from roofsmith.proposers.tunables_python import AUTOTUNED, autotuned_edits, idle_spans
from roofsmith.proposers.tunables_sites import (
    Site,
    Use,
    around,
    schedules,
    thread_counts,
    unroll_factors,
)
from roofsmith.proposers.tunables_source import Uses, read_sites

Setting = int | str
Assignment = Mapping[str, Setting]
"""Tunable name to setting. What it doesn't name stays as it is."""

Kind = Literal[
    "declared", "constant", "launch", "unroll", "threads", "schedule", "environment", "flag"
]
Group = Literal["declared", "found", "build"]

_STRUCTURAL: frozenset[Use] = frozenset(("bound", "step", "array", "unroll", "threads", "launch"))
_FROM_ONE: frozenset[Use] = frozenset(("step", "unroll", "threads"))
"""Uses in which 1 is an ordinary value; elsewhere it is more likely a flag or an index."""
_NOT_OURS = re.compile(r"_[A-Z_]\w*|\w*VERSION\w*|(?i:\w*warp_?size)")
"""Reserved names (feature-test macros), version macros, and what the device says."""


@dataclass(frozen=True, slots=True)
class Tunable:
    """One setting, and what it could be set to."""

    name: str
    kind: Kind
    current: Setting
    choices: tuple[Setting, ...]
    """Includes the current setting. In increasing order, unless `ordered` is False."""
    where: str
    """`solve.c:12`, or `build`."""

    @property
    def group(self) -> Group:
        """How much is known of it."""
        match self.kind:
            case "declared":
                return "declared"
            case "environment" | "flag":
                return "build"
            case _:
                return "found"

    @property
    def ordered(self) -> bool:
        """Whether neighbouring choices are likely to behave alike."""
        return self.kind != "schedule"


@dataclass(frozen=True, slots=True)
class Found:
    tunables: tuple[Tunable, ...]
    """Source order; those of the build last."""

    def of(self, *groups: Group) -> tuple[Tunable, ...]:
        return tuple(tunable for tunable in self.tunables if tunable.group in groups)

    @property
    def current(self) -> dict[str, Setting]:
        """The assignment that the candidate has now."""
        return {tunable.name: tunable.current for tunable in self.tunables}


def find_tunables(
    candidate: Candidate, *, threads: int, isa: Sequence[str] = (), ran: Collection[str] = ()
) -> Found:
    """Everything in a candidate that a sweep may set.

    Args:
        ran: Triton kernels that were seen to run; settings of others are left out.
        threads: processors that the kernel may use; no choice goes beyond them.
        isa: instruction-set extensions of the device, as in `Device.isa`.
    """
    path = candidate.kernel.path
    source = [(site, _from_site(site, path, threads)) for site in _sites(candidate)]
    if ran and candidate.language in MODULE_LANGUAGES:
        idle = idle_spans(candidate.kernel.text, ran)
        source = [(site, one) for site, one in source if not site.lies_in(idle)]
    found = [
        *(one for _, one in source),
        *_from_defines(candidate, threads),
        *_from_build(candidate, threads, isa),
    ]
    return Found(tuple(t for t in found if len(t.choices) > 1))


def apply(candidate: Candidate, assignment: Assignment) -> Candidate:
    """The candidate with the settings in place, and every other byte as it was.

    Edits are made by byte range, never by searching for text. The current settings give the
    candidate back unchanged, and the order of assignments of different names makes no difference.

    Raises:
        KeyError: the candidate has no setting of that name.
    """
    sites = {site.name: site for site in _sites(candidate)}
    built = write_build(candidate.build, assignment)
    unknown = set(assignment) - set(sites) - set(defines(candidate.build)) - BUILD_NAMES
    if unknown:
        raise KeyError(f"{candidate.kernel.path} has no tunable {', '.join(sorted(unknown))}")
    edits = [
        edit
        for name, setting in assignment.items()
        if name in sites
        for edit in sites[name].edits(setting)
    ]
    if any(sites[name].current == AUTOTUNED for name in assignment if name in sites):
        edits += autotuned_edits(candidate.kernel.text, assignment)
    text = apply_edits(candidate.kernel.text, edits) if edits else candidate.kernel.text
    return candidate.with_kernel_text(text).with_build(built)


def declared_tunables(candidate: Candidate) -> tuple[str, ...]:
    """Names of the parameters that the kernel file declares with `tune:` lines."""
    return tuple(site.name for site in _sites(candidate) if site.kind == "declared")


def _all_sites(candidate: Candidate) -> tuple[Site, ...]:
    kernel = candidate.kernel
    return read_sites(kernel.text, kernel.path, candidate.language)


def _sites(candidate: Candidate) -> tuple[Site, ...]:
    """The settings of the kernel file that count: `-DNAME=64` overrides a definition there."""
    overridden = defines(candidate.build)
    return tuple(site for site in _all_sites(candidate) if site.name not in overridden)


def _from_site(site: Site, path: str, threads: int) -> Tunable:
    kind: Kind = site.kind
    choices: tuple[Setting, ...]
    if kind == "launch":
        named = (site.current, *site.choices)
        choices = named if isinstance(site.current, str) else tuple(sorted({*named}))
    elif isinstance(site.current, str):
        choices = schedules(site.current)
    elif (kind == "constant" and site.choices) or kind == "declared":
        choices = tuple(sorted({site.current, *site.choices}))
    elif kind == "unroll":
        choices = unroll_factors(site.current)
    elif kind == "threads":
        choices = thread_counts(threads, site.current)
    else:
        choices = _constant_choices(site.name, site.current, site.uses, threads)
    return Tunable(site.name, kind, site.current, choices, f"{path}:{site.line}")


def _constant_choices(name: str, value: int, uses: frozenset[Use], threads: int) -> tuple[int, ...]:
    """Choices for a constant that nobody declared; none for one that is no tuning parameter."""
    if _NOT_OURS.fullmatch(name):
        return ()
    if value > 1 or (value == 1 and uses & _FROM_ONE):
        if "threads" in uses:
            return thread_counts(threads, value)
        if "unroll" in uses:
            return unroll_factors(value)
        if uses & _STRUCTURAL:
            return around(value, lowest=1 if uses & _FROM_ONE else 2)
    if value in (0, 1) and "condition" in uses:
        return (0, 1)
    return ()


def _from_defines(candidate: Candidate, threads: int) -> list[Tunable]:
    """`-DNAME=64` on the command line, with the choices of a `tune:` line if the file has one."""
    given = defines(candidate.build)
    if not given or candidate.language in MODULE_LANGUAGES:
        return []
    source = Source(candidate.kernel.text, candidate.language)
    uses = Uses(source)
    declared = {site.name: site for site in _all_sites(candidate) if site.choices}
    result = []
    for name, value in given.items():
        if name in declared:
            site = replace(declared[name], current=value)
            tunable = _from_site(site, candidate.kernel.path, threads)
            result.append(replace(tunable, where="build"))
        else:
            found = uses.of(name, 0, source.root.end_byte)
            choices = _constant_choices(name, value, found, threads)
            result.append(Tunable(name, "constant", value, choices, "build"))
    return result


def _from_build(candidate: Candidate, threads: int, isa: Sequence[str]) -> list[Tunable]:
    result: list[Tunable] = []
    if candidate.language == "cuda":
        flag, level, levels = registers_offered(candidate.build)
        return [Tunable(flag, "flag", level, levels, "build")]
    if candidate.language not in ("c", "cpp"):  # these are flags of gcc and clang
        return result
    omp = threads_offered(candidate.build, threads)
    if omp is not None:
        name, current, choices = omp
        result.append(Tunable(name, "environment", current, choices, "build"))
    for flag, level, levels in levels_offered(candidate.build, isa):
        result.append(Tunable(flag, "flag", level, levels, "build"))
    return result
