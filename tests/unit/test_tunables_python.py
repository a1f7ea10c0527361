"""Settings of Triton and PyTorch modules."""

from __future__ import annotations

import ast

from hypothesis import given
from hypothesis import strategies as st

from roofsmith.domain.kernel import Candidate, SourceFile, default_build
from roofsmith.proposers.tunables import apply, find_tunables

TEXT = '''\
"""Größe: a docstring with more bytes than characters."""
import triton

BLOCK = 1024  # tune: BLOCK = 1024 [256, 512, 1024, 2048]
ROWS: int = 4
small = 3


def run_kernel(x, y, N, D):
    softmax[(N,)](x, y, D, BLOCK=BLOCK, num_warps=4, num_stages=2)
'''


def module(text: str = TEXT) -> Candidate:
    return Candidate(
        language="triton",
        sources=(SourceFile(path="kernel.py", text=text),),
        build=default_build("triton"),
        entry="run_kernel",
    )


def test_constants_and_launch_options_are_found() -> None:
    found = {t.name: t for t in find_tunables(module(), threads=1).tunables}
    assert set(found) == {"BLOCK", "ROWS", "num_warps@10", "num_stages@10"}
    assert found["BLOCK"].choices == (256, 512, 1024, 2048)
    assert found["num_warps@10"].choices == (1, 2, 4, 8, 16)
    assert 4 in found["ROWS"].choices


def test_no_flags_of_another_compiler_are_offered() -> None:
    found = find_tunables(module(), threads=8, isa=("avx2",))
    assert not found.of("build")
    cuda = Candidate(
        language="cuda",
        sources=(SourceFile(path="kernel.cu", text="#define T 256 // tune: T = 256 [128, 256]\n"),),
        build=default_build("cuda"),
    )
    names = {t.name: t.group for t in find_tunables(cuda, threads=8).tunables}
    assert names == {"T": "declared", "-maxrregcount": "build"}


@given(st.sampled_from([256, 512, 2048]), st.sampled_from([1, 2, 8, 16]))
def test_settings_go_where_they_belong(block: int, warps: int) -> None:
    changed = apply(module(), {"BLOCK": block, "num_warps@10": warps}).kernel.text
    ast.parse(changed)
    assert f"BLOCK = {block}  # tune: BLOCK = {block} [" in changed
    assert f"num_warps={warps}, num_stages=2" in changed
    restored = apply(module(changed), {"BLOCK": 1024, "num_warps@10": 4})
    assert restored.kernel.text == TEXT


def test_what_is_no_python_has_no_settings() -> None:
    assert not find_tunables(module("def (:\n"), threads=1).tunables
