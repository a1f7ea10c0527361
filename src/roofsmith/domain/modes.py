"""Words that the command line takes as well: nothing heavy is imported here."""

from __future__ import annotations

from typing import Literal

DialectLanguage = Literal["cutedsl", "flydsl", "tilelang", "helion", "gluon"]
"""Packages of Python that kernels are written with, beside Triton; see `domain.dialects`."""

KernelLanguage = Literal["c", "cpp", "cuda", "hip", "triton", "torch", DialectLanguage]
"""What a kernel is written in."""

FirstLanguage = Literal["c", "cpp", "cuda", "torch", "triton"]
"""What a first kernel of a PyTorch file may be written in."""

TimingMode = Literal["kernel", "launch"]
"""What counts on a GPU: the device's time, or calls as fast as the host launches them."""

CodeKind = Literal["asm", "ptx", "sass"]
"""asm: of an AMD GPU, or of the host's processors; ptx: what NVIDIA's compilers begin with; sass:
what an NVIDIA GPU runs."""
