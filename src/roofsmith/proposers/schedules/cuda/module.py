"""A whole CUDA file: kernels, and the entry that launches them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from roofsmith.computation.bounds import needed_sizes
from roofsmith.computation.graph import Graph
from roofsmith.domain.kernel import Signature
from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.c_file import given_numbers, repeated, told
from roofsmith.proposers.schedules.c_writer import broken, indented
from roofsmith.proposers.schedules.cuda.attention import write_attention
from roofsmith.proposers.schedules.cuda.body import HALVES, STORAGE
from roofsmith.proposers.schedules.cuda.helpers import HELPERS, helper_codes
from roofsmith.proposers.schedules.cuda.nests import write_group
from roofsmith.proposers.schedules.cuda.products import write_product
from roofsmith.proposers.schedules.cuda.writer import (
    RESERVED,
    UNSIGNED,
    WIDTH,
    CudaSource,
    broken_parameters,
    plain,
    resolved,
)
from roofsmith.proposers.schedules.groups import Buffer, Group, Program, Reduced, Scanned
from roofsmith.proposers.schedules.lowering import NoSchedule
from roofsmith.proposers.schedules.partition import partition
from roofsmith.proposers.schedules.regroup import regrouped
from roofsmith.proposers.schedules.wanted import Wanted

MARK = "Kernels written from what the reference computes"
"""In the first line of every such file."""
_INCLUDES = "cuda_bf16.h", "cuda_fp16.h", "cuda_runtime.h", "math.h", "stddef.h", "stdint.h"


@dataclass(frozen=True)
class CudaText:
    """A file."""

    text: str
    told: str
    """What its kernels are, in words."""
    has_products: bool = False


def cuda_kernel(graph: Graph, signature: Signature, wanted: Wanted | None = None) -> CudaText:
    """Kernels of a graph, behind the entry of a signature.

    Args:
        graph: what is computed; arrays and numbers have the names of the signature's parameters.
        signature: the entry: pointers to memory of the device, and numbers.
        wanted: for which sizes and device.

    Raises:
        NoSchedule: It can't be written.
    """
    program = partition(graph)
    program = regrouped(program)
    numbers = _checked(program, signature)
    prefix = next(
        p for p in ("v", "e", "value", "value_of_")
        if not any(re.fullmatch(rf"{p}\d+", one.name) for one in signature.parameters)
    )  # fmt: skip
    file = CudaSource(widened(program), wanted or Wanted(), numbers, prefix)
    file.taken |= {*program.buffers, *program.places.ranges}
    file.taken |= {p.name for p in signature.parameters}
    file.names |= {*HELPERS, *RESERVED, *file.taken}
    scratch = [one for one in program.buffers.values() if one.role == "scratch"]
    for (loop, groups), (_, wide) in zip(program.runs(), file.program.runs(), strict=True):
        before, file.host = file.host, []
        _write_groups(file, program, groups, wide)
        inside, file.host = file.host, before
        turn = "turn" if "turn" not in file.taken else "turn_"
        file.host += (
            inside if loop is None else repeated(program, loop, inside, turn, STORAGE.__getitem__)
        )
    head = [f"// {MARK}, one after another."]
    if needed := needed_sizes(graph):
        head.append(f"// For {', '.join(needed)}: below, other elements or steps are needed.")
    entry = _entry(file, signature, scratch)
    slots = [f"constexpr int SLOTS = {file.slots};"] if "work_space" in file.used else []
    parts = [
        "\n".join([*head, *(f"#include <{one}>" for one in sorted({*_INCLUDES, *file.includes}))]),
        "namespace {",
        "\n".join([one.text for one in file.tunables.values()] + slots),
        *helper_codes(file.used),
        *file.extra.values(),
        *file.kernels,
        "}  // namespace",
        entry,
    ]
    text = resolved("\n\n".join(part for part in parts if part) + "\n", file.taken)
    return CudaText(text, told(program), file.has_products)


def _write_groups(
    file: CudaSource, program: Program, groups: Sequence[Group], widened: Sequence[Group]
) -> None:
    """One after another; `widened` are the same with values of 16 bits in float32."""
    skipped = 0
    for at, (group, wide) in enumerate(zip(groups, widened, strict=True)):
        if skipped:
            skipped -= 1
        elif write_attention(file, program, groups[at : at + 3]):
            skipped = 2
        elif not write_product(file, group):
            write_group(file, wide)


def widened(program: Program) -> Program:
    """With values of 16-bit floats computed in float32; arrays stay what they are."""

    def wide(value: e.Expression) -> e.Expression:
        return replace(value, dtype="float32") if value.dtype in HALVES else value

    groups = []
    for group in program.groups:
        steps = []
        for step in group.steps:
            step = replace(step, value=e.rewritten(step.value, wide))
            if isinstance(step, Reduced) and step.factors is not None:
                left, right = (e.rewritten(one, wide) for one in step.factors)
                step = replace(step, factors=(left, right))
            if isinstance(step, Reduced | Scanned) and step.dtype in HALVES:
                step = replace(step, dtype="float32")
            steps.append(step)
        groups.append(replace(group, steps=tuple(steps)))
    return replace(program, groups=tuple(groups))


def _checked(program: Program, signature: Signature) -> dict[str, str]:
    """As `given_numbers`, if CUDA has its types and names."""
    for buffer in program.buffers.values():
        if buffer.dtype not in STORAGE:
            raise NoSchedule(f"{buffer.dtype} is no type of CUDA here")
    if clash := {p.name for p in signature.parameters} & (RESERVED | {*HELPERS}):
        raise NoSchedule(f"{', '.join(sorted(clash))} has a meaning of its own in what is written")
    return given_numbers(program, signature)


def _entry(file: CudaSource, signature: Signature, scratch: Sequence[Buffer]) -> str:
    """The function that the judge calls."""
    host = list(file.host)
    words = {word for line in host for word in re.findall(r"[A-Za-z_]\w*", line)}
    memory = [file.memory(buffer) for buffer in scratch if buffer.name in words]
    signed = [
        f"const ptrdiff_t {p.name} = (ptrdiff_t){p.name}_given;"
        for p in signature.parameters
        if p.role == "size" and p.dtype in UNSIGNED
    ]
    parameters = []
    for p in signature.parameters:
        kind = STORAGE[p.dtype]
        match p.role:
            case "input":
                parameters.append(f"const {kind} *{p.name}")
            case "output":
                parameters.append(f"{kind} *{p.name}")
            case "size":
                given = "_given" if p.dtype in UNSIGNED else ""
                parameters.append(f"{plain(p.dtype)} {p.name}{given}")
    head = f'extern "C" void {signature.entry}('
    line = head + ", ".join(parameters) + ") {"
    if len(line) > WIDTH:
        line = broken_parameters(head, parameters) + ") {"
    inner = [part for one in indented([*signed, *memory, *host]) for part in broken(one.rstrip())]
    return "\n".join([line, *inner, "}"])
