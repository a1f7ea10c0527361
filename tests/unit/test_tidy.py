"""What cards write is read by people: it brings no new warnings."""

from __future__ import annotations

import re
import subprocess
from collections import Counter

import pytest
from recipe_bench import context_of, needs_gcc
from recipe_kernels import CASES, KERNELS

from roofsmith.proposers.cards import all_cards
from roofsmith.proposers.tidy import tidied

CARDS = {card.id: card for card in all_cards() if "c" in card.languages}
READ_BY_HAND = {
    ("pointer-walk", "parallel-loops"), ("pointer-walk", "restrict-pointers"),
    ("pointer-walk", "simd-reductions"), ("pointer-walk", "vector-accumulators"),
}  # fmt: skip
"""Whose warnings are of what the kernel computes and no loop needs any more."""


def warnings(text: str, language: str, flags: tuple[str, ...]) -> Counter[str]:
    compiler, kind = ("gcc", "c") if language == "c" else ("g++", "c++")
    strict = ("-Wall", "-Wextra", "-Wshadow", "-fsyntax-only", "-")
    done = subprocess.run(
        [compiler, "-x", kind, *flags, *strict],
        input=text, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stderr}\n{text}"
    return Counter(re.findall(r"warning: (.*)", done.stderr))


@needs_gcc
@pytest.mark.parametrize("name", CASES)
@pytest.mark.slow
def test_a_card_brings_no_warnings(name: str) -> None:
    kernel = KERNELS[name]
    context = context_of(kernel)
    before = warnings(kernel.text, kernel.language, context.build.flags)
    for id, card in CARDS.items():
        change = card.apply(context)
        if change is None or (name, id) in READ_BY_HAND:
            continue
        text, flags = change.candidate.kernel.text, change.candidate.build.flags
        found = warnings(text, kernel.language, flags)
        assert not {one for one in found if one not in before}, (id, found, text)


@pytest.mark.parametrize("unit", ["    ", "  ", "\t"])
def test_lines_are_as_deep_as_the_files(unit: str) -> None:
    head = "void solve(const float* x, float* y, int n, int m) {"
    row = f"{unit}for (int i = 0; i < n; i++) {{\n{unit * 2}y[i] = x[i] / m;\n{unit}}}"
    raw = row.replace(f"\n{unit * 2}y", "\n#pragma GCC unroll 4\n  y")
    before, after = (f"{head}\n{one}\n}}\n" for one in (row, raw))
    pragma = f"\n{unit * 2}#pragma GCC unroll 4\n{unit * 2}y[i]"
    assert tidied(before, after, "c") == before.replace(f"\n{unit * 2}y[i]", pragma)
