"""What cards write is read by people: folded, indented as the file is, and without new warnings."""

from __future__ import annotations

import re
import subprocess
from collections import Counter

import pytest
from recipe_bench import context_of, needs_gcc
from recipe_kernels import KERNELS, Kernel

from roofsmith.proposers.cards import all_cards
from roofsmith.proposers.tidy import tidied

CARDS = {card.id: card for card in all_cards() if "c" in card.languages}
STENCIL = """\
/* 7-point heat step on a 3D grid, zero boundary kept */
void solve(const float* u, float* v, int N, float a) {
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            for (int k = 0; k < N; k++) {
                int c = (i * N + j) * N + k;
                if (i == 0 || j == 0 || k == 0 || i == N - 1 || j == N - 1 || k == N - 1) {
                    v[c] = u[c];
                } else {
                    v[c] = u[c] + a * (u[c - 1] + u[c + 1] + u[c - N] + u[c + N]
                                       + u[c - N * N] + u[c + N * N] - 6.0f * u[c]);
                }
            }
}
"""
READ_BY_HAND = {("pointer-walk", "parallel-loops"), ("pointer-walk", "restrict-pointers"),
                ("pointer-walk", "simd-reductions"), ("pointer-walk", "vector-accumulators"),
                ("argmax", "blocked-argmin")}  # fmt: skip
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
@pytest.mark.parametrize("name", KERNELS)
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
def test_border_loops_read_like_the_file(unit: str) -> None:
    text = re.sub(r"^ +", lambda m: unit * (len(m[0]) // 4) + " " * (len(m[0]) % 4), STENCIL,
                  flags=re.MULTILINE)  # fmt: skip
    cube = {"u": ("N", "N", "N"), "v": ("N", "N", "N")}
    context = context_of(Kernel(text.replace("float a", "int a"), {"N": 20, "a": 1}, cube))
    change = CARDS["split-borders"].apply(context)
    assert change is not None
    found = change.candidate.kernel.text
    assert len(re.findall(r"for \(", found)) < 12
    assert not re.search(r"(\(|\|\| |&& )[01] (\|\||&&)|\bif \([01]\)", found)
    lines = found.split("\n")
    bodies = [line for line in lines if "int c = " in line]
    levels = {len(line) - len(line.lstrip(unit[0])) for line in bodies}
    assert {level % len(unit) for level in levels} == {0}
    inner = next(k for k, line in enumerate(lines) if "for (int k = k_low" in line)
    assert lines[inner + 1].startswith(unit + lines[inner][: lines[inner].index("for")])
    assert CARDS["split-borders"].apply(context_of(context_kernel(found))) is None


def context_kernel(text: str) -> Kernel:
    return Kernel(text, {"N": 20, "a": 1}, {"u": ("N", "N", "N"), "v": ("N", "N", "N")})


@pytest.mark.parametrize(
    ("written", "left"),
    [
        ("if (0 || n > 2) x[0] = 1;", "if (n > 2) x[0] = 1;"),
        ("if (0 || 0) x[0] = 1; else x[0] = 2;", "x[0] = 2;"),
        ("if (1 && !0) { x[0] = 1; x[1] = 2; }", "x[0] = 1; x[1] = 2;"),
        ("x[0] = 0 ? n : 2 * n;", "x[0] = 2 * n;"),
        ("x[0] = n || 0;", "x[0] = n || 0;"),
        ("for (int n = 0; n < 4; n++) x[n] = 1;", "for (int n_1 = 0; n_1 < 4; n_1++) x[n_1] = 1;"),
    ],
)
def test_what_a_number_decides_is_decided(written: str, left: str) -> None:
    before = "void solve(float* x, int n) {\n    x[0] = n;\n}\n"
    after = before.replace("    x[0] = n;", f"  {written}")
    assert tidied(before, after, "c") == before.replace("x[0] = n;", left)
