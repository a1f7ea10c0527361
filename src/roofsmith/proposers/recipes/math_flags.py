"""Let the compiler forget about errno and floating-point traps."""

from __future__ import annotations

import re

from roofsmith.proposers.accesses import PURE_CALLS
from roofsmith.proposers.cards import Card, CardChange, CardContext, add_flags
from roofsmith.proposers.costs import amdahl
from roofsmith.proposers.syntax import calls, walk

FLAGS = ("-fno-math-errno", "-fno-trapping-math")
"""Neither changes a result: only errno after a library call, and the floating-point status flags.
`-ffinite-math-only` is left out on purpose: masks of -infinity are common in kernels."""


def apply(context: CardContext) -> CardChange | None:
    """Add the flags that the build doesn't have yet."""
    if set(FLAGS) <= set(context.build.flags) or "-ffast-math" in context.build.flags:
        return None
    if not _selects(context) and not _called(context):
        return None
    candidate = context.candidate.with_build(add_flags(context.build, *FLAGS))
    return CardChange(candidate, f"Build with {' '.join(FLAGS)}")


def _selects(context: CardContext) -> bool:
    """Conditions in loops: gcc turns them into vector selects only where nothing can trap.

    Integers never do.
    """
    if not re.search(r"\b(float|double|_Float16)\b", context.source.text):
        return False
    loops = (loop for f in context.functions for loop in walk(f.body, "for_statement"))
    return any(any(walk(loop, "if_statement", "conditional_expression")) for loop in loops)


def _called(context: CardContext) -> set[str]:
    return {name for f in context.functions for name, _ in calls(f.body)} & PURE_CALLS


def predict(context: CardContext) -> float:
    """A few percent: what conditions and square roots are of a loop, vectorised."""
    return amdahl(context, 0.2 if _selects(context) else 0.05, 2.0)


CARD = Card(
    id="math-flags",
    title="No errno, no traps",
    category="vectorisation",
    answers=frozenset(("compute", "latency", "unknown")),
    rationale="The library sets errno and conditions might trap, so gcc keeps both scalar.",
    expected_counter="instructions",
    expected_change="down in loops with conditions or square roots",
    source="Using the GNU Compiler Collection, section 3.11 (-fno-math-errno, -fno-trapping-math)",
    apply=apply,
    predict=predict,
)
