"""What a look at a machine found: whether kernels can run here, and what to do about the rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, get_args

from roofsmith.domain.dialects import DIALECTS
from roofsmith.domain.kernel import Language
from roofsmith.domain.values import Value

Area = Literal["GPU", "processor", "compilers", "Python", "profilers", "isolation", "files"]
"""Checks are shown in this order."""
Level = Literal["ok", "limited", "absent", "missing"]
"""limited: works, but worse; absent: missing, and nothing that was asked for needs it; missing:
what was asked for can't run."""

GROUPS: Mapping[str, tuple[Language, ...]] = {
    "C/C++": ("c", "cpp"), "CUDA": ("cuda",), "HIP": ("hip",), "Triton": ("triton",),
    "PyTorch": ("torch",),
}  # fmt: skip
"""Languages that are ready or not together, as people call them."""


class Check(Value):
    """One thing that was looked at."""

    area: Area
    name: str
    level: Level
    detail: str
    """What was found, or what is wrong."""
    fix: str | None = None
    """One line: a command where there is one. None where nothing needs fixing."""
    languages: tuple[Language, ...] = get_args(Language)
    """Kernels that it matters to."""
    required: bool = False
    """Without it, kernels in `languages` can't run."""
    below: str | None = None
    """The minimum that it is older than: no campaign that needs it begins."""
    lack: str | None = None
    """For the summary, where it is missing: `no GPU`."""


class Readiness(Value):
    """Whether kernels in some languages can run here."""

    name: str
    languages: tuple[Language, ...]
    lacks: tuple[str, ...] = ()
    """What is missing, in a few words each; empty: ready."""

    @property
    def ready(self) -> bool:
        """Whether they can run."""
        return not self.lacks

    def __str__(self) -> str:
        """`CUDA: not ready (no GPU)`."""
        return f"{self.name}: " + ("ready" if self.ready else f"not ready ({self.reason})")

    @property
    def reason(self) -> str:
        """The first two things that are missing."""
        more = len(self.lacks) - 2
        return ", ".join(self.lacks[:2]) + (f", {more} more" if more > 0 else "")


class Examination(Value):
    """Everything that doctor found."""

    subject: str | None
    """The target that it was asked about; None: the machine as such."""
    language: Language | None
    """Of the subject."""
    machine: str
    """Device and system, for people."""
    checks: tuple[Check, ...]
    """By area."""
    readiness: tuple[Readiness, ...]
    """Of the subject's language, or of every group of languages."""

    @property
    def ready(self) -> bool:
        """Whether the subject's kernels can run here; without one, whether any can."""
        return any(one.ready for one in self.readiness)

    @property
    def problems(self) -> tuple[Check, ...]:
        """Checks with something to do, those that are in the way first.

        A GPU that nobody asked for is no problem; what is lacking beside one that is there, is.
        """
        order: tuple[Level, ...] = ("missing", "limited", "absent")
        wrong = (check for level in order for check in self.checks if check.level == level)
        return tuple(c for c in wrong if (c.level, c.area) != ("absent", "GPU"))

    @property
    def summary(self) -> str:
        """One line."""
        return "; ".join(map(str, self.readiness))


def examination(
    found: Iterable[Check],
    *,
    machine: str,
    subject: str | None = None,
    language: Language | None = None,
    here: frozenset[Language] = frozenset(get_args(Language)),
) -> Examination:
    """What checks amount to for a target, or for a machine.

    Checks that matter to nothing that was asked for are left out.

    Args:
        found: a missing thing has the level `missing`, whoever needs it.
        machine: for people.
        subject: the target.
        language: the target's.
        here: languages whose kind of device this machine has, for when there is no target.
    """
    checks = tuple(found)
    groups = GROUPS if language is None else {_group_of(language): (language,)}
    readiness = tuple(
        Readiness(name=name, languages=languages, lacks=_lacks(checks, languages))
        for name, languages in groups.items()
    )
    ready = {language for one in readiness if one.ready for language in one.languages}
    asked = {language} if language is not None else ready or set(GROUPS["C/C++"])
    shown = {language} if language is not None else {*here, *ready}
    order = get_args(Area)
    return Examination(
        subject=subject,
        language=language,
        machine=machine,
        checks=tuple(
            _as_asked(check, asked)
            for check in sorted(checks, key=lambda check: order.index(check.area))
            if (check.area == "GPU" and language is None) or shown & set(check.languages)
        ),
        readiness=readiness,
    )


def _group_of(language: Language) -> str:
    names = {"c": "C", "cpp": "C++", "command": "the repository's commands"}
    names |= {dialect: one.label for dialect, one in DIALECTS.items()}
    return names.get(language) or next(n for n, group in GROUPS.items() if language in group)


def _lacks(checks: Iterable[Check], languages: Iterable[Language]) -> tuple[str, ...]:
    wanted = set(languages)
    missing = (c for c in checks if c.level == "missing" and wanted & set(c.languages))
    return tuple(dict.fromkeys(check.lack or f"no {check.name}" for check in missing))


def _as_asked(check: Check, asked: Iterable[Language]) -> Check:
    """A missing thing that nothing needs is merely absent."""
    if check.level != "missing" or set(asked) & set(check.languages):
        return check
    return check.model_copy(update={"level": "absent"})
