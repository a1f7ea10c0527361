"""Builds candidates, and rejects those that aren't what a target asks for, before and after."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from roofsmith.domain.kernel import Built, Candidate
from roofsmith.domain.outcome import Cheated, Unfit
from roofsmith.ports import Toolchain


class CodeRule(Protocol):
    """Decides whose code a candidate may run, where a target demands its own."""

    def before_build(self, candidate: Candidate) -> Cheated | None:
        """What sources and flags leave to a library; None: nothing that shows there."""
        ...

    def after_build(self, built: Built) -> Cheated | None:
        """What the build takes from libraries; None: nothing that counts."""
        ...


def build_all(
    candidates: Sequence[Candidate], toolchain: Toolchain, rule: CodeRule | None
) -> tuple[Built | Unfit, ...]:
    """Compile side by side what a rule has nothing against; outcomes in order.

    Args:
        candidates: what to build.
        toolchain: compiles.
        rule: whose code they may run; None: anybody's.
    """
    if rule is None:
        return toolchain.build_all(candidates)
    refused = [rule.before_build(candidate) for candidate in candidates]
    wanted = [one for one, no in zip(candidates, refused, strict=True) if no is None]
    made = iter(toolchain.build_all(wanted) if wanted else ())
    return tuple(_allowed(next(made), rule) if no is None else no for no in refused)


def build(candidate: Candidate, toolchain: Toolchain, rule: CodeRule | None) -> Built | Unfit:
    """Compile one candidate, as `build_all` does several."""
    if rule is None:
        return toolchain.build(candidate)
    return rule.before_build(candidate) or _allowed(toolchain.build(candidate), rule)


def _allowed(built: Built | Unfit, rule: CodeRule) -> Built | Unfit:
    if not isinstance(built, Built):
        return built
    return rule.after_build(built) or built
