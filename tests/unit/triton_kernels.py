"""Triton kernels compiled for real, for GPUs that needn't be here."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tool_stand_ins import built_file

from roofsmith.domain.kernel import Built, Language, Signature

needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="Triton is not installed"
)

COMPILES = """
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

SM_90, GFX942 = GPUTarget("cuda", 90, 32), GPUTarget("hip", "gfx942", 64)


@triton.jit
def scale(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)


@triton.jit
def total(x, y, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y, tl.sum(tl.load(x + i, mask=i < n, other=0.0), axis=0))


def compiled(kernel, target, block, **options):
    types = {"x": "*fp32", "y": "*fp32", "n": "i32", "BLOCK": "constexpr"}
    triton.compile(ASTSource(kernel, types, {"BLOCK": block}), target=target, options=options)

"""
"""`compiled` fills the cache as a launch would; `total` takes shared memory."""


def compile_kernels(cache: Path, *lines: str) -> None:
    """Run lines like `compiled(scale, SM_90, 1024, num_warps=4)`, with `cache` for results."""
    script = cache.parent / f"{cache.name}_kernels.py"  # a kernel's source must be in a file
    script.write_text(COMPILES + "\n".join(lines))
    finished = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "TRITON_CACHE_DIR": str(cache), "TRITON_INTERPRET": "0"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr


def module(folder: Path, language: Language = "triton") -> Built:
    """A module that was only kept, never run."""
    return built_file(
        folder / "kernel.py", language, signature=Signature(entry="run_kernel", parameters=())
    )
