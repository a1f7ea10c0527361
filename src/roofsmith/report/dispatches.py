"""Rounds whose classes diverged, and dispatches: which class runs which kernel. Pure."""

from __future__ import annotations

from roofsmith.analysis import figures as fmt
from roofsmith.domain.campaign import Kept, Round
from roofsmith.domain.dispatch import Dispatch


def dispatch_lines(round_: Round) -> tuple[str, ...]:
    """What a round has to do with dispatches, a line each; none for most."""
    lines = []
    if round_.splits is not None:
        lines.append(f"the dispatch of round {round_.splits}, whose config classes diverged")
    decision = round_.decision
    if isinstance(decision, Kept):
        if decision.dispatch is not None:
            lines += _who_runs_what(decision.dispatch, round_)
    elif decision.diverged:
        follows = (
            f"no dispatch follows: {round_.unsplit}"
            if round_.unsplit
            else "a dispatch is judged next"
        )
        lines.append(f"config classes diverged in both measurements; {follows}")
    return tuple(lines)


def _who_runs_what(dispatch: Dispatch, round_: Round) -> list[str]:
    comparison = round_.judgement.comparison
    speedups = (
        {c.config_class: c.estimate.speedup for c in comparison.classes} if comparison else {}
    )
    sizes = ", ".join(
        f"{name} {low}" if low == high else f"{name} {low} to {high}"
        for name, (low, high) in dispatch.within.items()
    )

    def named(classes: tuple[str, ...]) -> str:
        return ", ".join(
            f"{name} ({fmt.speedup(speedups[name])})" if name in speedups else name
            for name in classes
        )

    return [
        f"{named(dispatch.new)}: round {dispatch.splits}'s kernel, where {dispatch.rule.text}",
        f"{named(dispatch.old)}: the kernel before it, as whatever is outside of {sizes}",
    ]
