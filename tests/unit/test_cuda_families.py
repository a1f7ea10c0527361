"""Whole kernels in CUDA: they fit a user's `solve`, compile, and refuse what isn't theirs."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from recipe_bench import DEVICE

from roofsmith.analysis.instructions import counted, mnemonics, read_sass
from roofsmith.cuda_programs import find_program
from roofsmith.domain.arrays import ArraySpec
from roofsmith.domain.description import Scalar, WorkloadDescription
from roofsmith.domain.facts import DType
from roofsmith.domain.kernel import Candidate, Parameter, Signature, SourceFile
from roofsmith.domain.profile import Bottleneck, Profile
from roofsmith.proposers.cards import CardContext, all_cards
from roofsmith.proposers.tunables import find_tunables
from roofsmith.toolchains.disassembly import sass
from roofsmith.toolchains.signature import read_signature

CARDS = {card.id: card for card in all_cards() if ".families." in card.apply.__module__}
Shape = tuple[int, ...]
Array = tuple[str, str, Shape] | tuple[str, str, Shape, DType]


def context_of(
    *parameters: Array | tuple[str, Scalar],
    family: str | None,
    text: str = "",
    fraction: float | None = 0.1,
) -> CardContext:
    """A naive kernel of these arrays (name, role, shape, type) and numbers (name, value)."""
    arrays, scalars, declared = [], dict[str, Scalar](), []
    for parameter in parameters:
        if len(parameter) == 2:
            name, value = parameter
            scalars[name] = value
            dtype: DType = "float32" if isinstance(value, float) else "int32"
            declared.append(Parameter(name=name, role="size", dtype=dtype))
        else:
            name, role, shape, dtype = (*parameter, "float32")[:4]
            arrays.append(ArraySpec(name, role, dtype, shape))
            kind = "input" if role == "input" else "output"
            declared.append(Parameter(name=name, role=kind, dtype=dtype))
    described = WorkloadDescription(tuple(arrays), scalars, None, None, None, None)
    return CardContext(
        candidate=Candidate(language="cuda", sources=(SourceFile(path="k.cu", text=text),)),
        signature=Signature(parameters=tuple(declared)),
        device=DEVICE,
        threads=1,
        family=family,
        dims=({n: v for n, v in scalars.items() if isinstance(v, int)},),
        bounds=(),
        descriptions={"a workload": described},
        profile=Profile(tool="none", workload="a workload", counters=()),
        bottleneck=Bottleneck(
            kind="memory", confidence=1, evidence=("dram: 0.9",), roofline_fraction=fraction
        ),
        times_s={},
    )


ATTENTION = context_of(
    ("Q", "input", (128, 128)), ("K", "input", (128, 128)), ("V", "input", (128, 128)),
    ("output", "output", (128, 128)), ("N", 128), ("d", 128), ("h", 4), family="attention",
)  # fmt: skip
HALF = context_of(
    ("x", "input", (64, 96), "bfloat16"), ("w", "input", (32, 96), "bfloat16"),
    ("y", "output", (64, 32), "float32"), ("tokens", 64), ("n", 32), ("k", 96), family="gemm",
)  # fmt: skip
HOPPER = replace(HALF, device=DEVICE.model_copy(update={"arch": "sm_90"}))
CASES: Mapping[str, tuple[CardContext, str]] = {
    "attention-3xtf32": (ATTENTION, "launch_attention(Q, K, V, output, shape)"),
}


def rendered(card: str, context: CardContext) -> str:
    change = CARDS[card].apply(context)
    assert change is not None
    again = CARDS[card].apply(context_of(family=context.family, text=change.candidate.kernel.text))
    assert again is None
    return change.candidate.kernel.text


@pytest.mark.parametrize("card", CASES)
def test_the_users_solve_calls_the_kernel(card: str) -> None:
    context, call = CASES[card]
    text = rendered(card, context)
    assert call in text
    change = CARDS[card].apply(context)
    assert change is not None
    assert read_signature(change.candidate) == context.signature
    assert len(find_tunables(change.candidate, threads=1).of("declared")) >= 2


@pytest.mark.parametrize("card", CASES)
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
def test_kernels_compile(card: str, tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    source.write_text(rendered(card, CASES[card][0]))
    command = [
        "nvcc",
        "-arch=sm_90a",
        "-Werror=all-warnings",
        "-cubin",
        "-o",
        source.with_suffix(".o"),
    ]
    done = subprocess.run([*command, source], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    claim = CARDS[card].instruction
    if claim is not None and find_program("cuobjdump") is not None:
        assert counted(claim, mnemonics(read_sass(sass(source.with_suffix(".o")))))


def test_heads_of_every_layout() -> None:
    def shape_of(rank4: tuple[int, ...], *scalars: tuple[str, Scalar], text: str = "") -> str:
        arrays = [(name, "input", rank4) for name in ("q", "k", "v")]
        context = context_of(
            *arrays, ("o", "output", rank4), *scalars, family="attention", text=text
        )
        text = rendered("attention-3xtf32", context)
        return ", ".join(re.findall(r"shape\.\w+ = (.*);", text.partition('extern "C"')[2]))

    four = (("B", 2), ("H", 4), ("S", 96), ("D", 64))
    assert shape_of((2, 4, 96, 64), *four) == "B, H, S, S, D, false, false, 0"
    assert shape_of((2, 96, 4, 64), *four) == "B, H, S, S, D, true, false, 0"
    scaled = (("scale", 0.5), ("causal", 1))
    assert shape_of((8, 96, 64), ("BH", 8), *four[2:], *scaled) == (
        "1, BH, S, S, D, false, causal, scale"
    )
