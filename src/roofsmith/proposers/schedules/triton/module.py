"""A whole Triton module: kernels, the host function that launches them, what they need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from roofsmith.computation.graph import Graph
from roofsmith.computation.sizes import Size
from roofsmith.proposers.schedules.apart import taken_apart
from roofsmith.proposers.schedules.gpu_file import words
from roofsmith.proposers.schedules.groups import Group, Repetition
from roofsmith.proposers.schedules.lowering import NoSchedule
from roofsmith.proposers.schedules.matrix_products import product_of
from roofsmith.proposers.schedules.online_attention import attention_of
from roofsmith.proposers.schedules.partition import partition
from roofsmith.proposers.schedules.regroup import regrouped
from roofsmith.proposers.schedules.strides import merged
from roofsmith.proposers.schedules.triton import operations as t
from roofsmith.proposers.schedules.triton.attention_kernel import write_attention
from roofsmith.proposers.schedules.triton.both import MOST, go_together, write_both
from roofsmith.proposers.schedules.triton.launches import write_nest
from roofsmith.proposers.schedules.triton.nests import TritonNest
from roofsmith.proposers.schedules.triton.parts import is_shared, write_shared
from roofsmith.proposers.schedules.triton.product_kernel import write_product
from roofsmith.proposers.schedules.triton.tiles import form_of
from roofsmith.proposers.schedules.triton.values import size_text
from roofsmith.proposers.schedules.triton.written import (
    WrittenModule,
    described,
    dims_of,
    tunable_text,
)
from roofsmith.proposers.schedules.wanted import Wanted

MARK = "written from what the reference computes"
HOST = "launch"
LONG_FROM = 1 << 16
"""Elements of a row from which it is worth several launches: more than registers hold. Chosen."""
_IMPORTS = "import torch\nimport triton\nimport triton.language as tl"


@dataclass(frozen=True)
class TritonText:
    """A module without its entry."""

    text: str
    """From its docstring to the host function."""
    call: str
    """The statement that an entry consists of."""
    told: str
    """What its kernels are, in words."""
    has_products: bool = False


def triton_kernel(graph: Graph, given: Sequence[str], wanted: Wanted) -> TritonText:
    """Kernels of a graph, and a host function that launches them.

    Args:
        given: names that the entry is given: arrays, numbers and dims.

    Raises:
        NoSchedule: It can't be written.
    """
    program = partition(graph)
    for buffer in program.buffers.values():
        t.computed(buffer.dtype)
    program = regrouped(program)
    module = WrittenModule(program, wanted)
    module.names |= {HOST, "torch", "triton", "tl", *t.HELPERS, *program.buffers, *given}
    needed = dims_of(program)
    for loop, groups in program.runs():
        before, module.host = module.host, []
        _write_groups(module, groups)
        inside, module.host = module.host, before
        module.host += inside if loop is None else _repeated(loop, inside)
    used_scratch = words(module.host)
    module.host[:0] = [
        module.memory(buffer) for buffer in program.buffers.values()
        if buffer.role == "scratch" and buffer.name in used_scratch
    ]  # fmt: skip
    module.host[:0] = _unpacked(module, given, needed)
    lacking = {b.name for b in program.buffers.values() if b.role != "scratch"} | set(
        program.numbers
    )
    if lacking - set(given):
        raise NoSchedule(f"the entry isn't given {', '.join(sorted(lacking - set(given)))}")
    used = [name for name in given if name in words(module.host)]
    host = [f"def {HOST}({', '.join(used)}):", f'    """Kernels {MARK}, one after another."""']
    host += [f"    {line}" for line in module.host]
    says = '"""Kernels for each walk through memory, and what launches them."""'
    parts = [
        f"{says}\n\n{_IMPORTS}",
        "\n".join(tunable_text(one) for one in module.tunables.values()),
        *(t.helper(name) for name in sorted(module.used)),
        *module.extra.values(),
        *module.kernels,
        "\n".join(host),
    ]
    text = "\n\n\n".join(part for part in parts if part) + "\n"
    told = "; ".join(module.told)
    return TritonText(text, f"{HOST}({', '.join(used)})", told, module.has_products)


def triton_module(
    graph: Graph, given: Sequence[str], wanted: Wanted | None = None, *, entry: str = "run_kernel"
) -> str:
    """A file of its own, whose entry is given these names; raises as `triton_kernel`."""
    kernel = triton_kernel(graph, given, wanted or Wanted())
    return f"{kernel.text}\n\ndef {entry}({', '.join(given)}):\n    {kernel.call}\n"


def _repeated(loop: Repetition, lines: Sequence[str]) -> list[str]:
    """Launches in a loop; behind each iteration memory is handed on."""
    names, sources = ", ".join(loop.handed_on), ", ".join(loop.handed_on.values())
    head = f"for _ in range({size_text(loop.count)}):"
    return [head, *(f"    {line}" for line in (*lines, f"{names} = {sources}"))]


def _write_groups(module: WrittenModule, groups: Sequence[Group]) -> None:
    """One after another; rows with the columns behind them, where these are of the same arrays."""
    skipped: set[int] = set()
    for at, (group, following) in enumerate(zip(groups, [*groups[1:], None], strict=True)):
        if at in skipped:
            continue
        attention = attention_of(module.program, groups[at : at + 3], module.wanted.most)
        if attention is not None:
            module.has_products = True
            module.told.append("attention online")
            write_attention(module, attention, groups[at + 2])
            skipped |= {at + 1, at + 2}
            continue
        if following is not None and go_together(module, group, following):
            length = group.inner[0].size
            module.told += [described(group), described(following)]
            before, module.host = module.host, []
            write_both(module, group, following)
            together, module.host = module.host, []
            for one in (group, following):
                write_group(module, one)
            apart, module.host = module.host, before
            module.host += [
                f"if {size_text(length)} <= {MOST}:", *(f"    {line}" for line in together),
                "else:", *(f"    {line}" for line in apart),
            ]  # fmt: skip
            skipped.add(at + 1)
            continue
        module.told.append(described(group))
        write_group(module, group)


def write_group(module: WrittenModule, group: Group) -> None:
    """One group's kernels and launches."""
    group = merged(group, module.program.places)
    product = product_of(group, module.places, module.wanted.most)
    if product is not None:
        module.has_products = True
        write_product(module, group, product)
        return
    form = form_of(group, module.places, module.wanted)
    if is_shared(module, group, form):
        write_shared(module, group, form)
        return
    passed = None
    if form.reduced is not None:
        of_columns = form.position < form.rank - 1
        passed = taken_apart(module, group, of_columns=of_columns, long_from=LONG_FROM)
    for one in passed or ():
        write_group(module, one)
    if passed is None:
        write_nest(TritonNest(module, group, form))


def _unpacked(module: WrittenModule, given: Sequence[str], needed: set[str]) -> list[str]:
    """Dims that the entry isn't given, from arrays' shapes."""
    lines = []
    for dim in sorted(needed - set(given) - {"parts"}):
        found = next(
            (
                f"{dim} = {buffer.name}.shape[{axis}]"
                for buffer in module.program.buffers.values()
                if buffer.role == "input"
                for axis, size in enumerate(buffer.shape)
                if size == Size.of(dim)
            ),
            None,
        )
        if found is None:
            raise NoSchedule(f"the entry isn't given {dim}")
        lines.append(found)
    return lines
