"""Long sums of few rows or columns: programs sum up parts, which a second kernel joins."""

from __future__ import annotations

from dataclasses import dataclass, replace

from roofsmith.computation.sizes import Size, elements
from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.groups import Axis, Buffer, Group, Reduced, Scanned, Stored
from roofsmith.proposers.schedules.passes import is_scan, is_sum
from roofsmith.proposers.schedules.strides import merged
from roofsmith.proposers.schedules.triton import operations as t
from roofsmith.proposers.schedules.triton.launches import write_nest
from roofsmith.proposers.schedules.triton.nests import EARLIER, TritonNest
from roofsmith.proposers.schedules.triton.tiles import TileForm, form_of
from roofsmith.proposers.schedules.triton.values import bracketed, size_text
from roofsmith.proposers.schedules.triton.written import WrittenModule

LONG_FROM = 2048
"""Terms from which a sum is shared. Chosen."""


def is_shared(module: WrittenModule, group: Group, form: TileForm) -> bool:
    """Whether there are too few rows or columns to keep the device busy, and much to sum up."""
    if form.reduced is None or form.loops:
        return False
    if not (is_sum(group, places=False) or is_scan(group)):
        return False
    wanted = module.wanted
    width = 32 if form.position < form.rank - 1 else 1
    size = elements(tuple(axis.size for axis in group.outer))
    few = (1 if is_scan(group) else 4) * wanted.cores * width  # a shared scan reads twice
    return wanted.least(size, few) < few and wanted.most(form.reduced.size, 1 << 20) >= LONG_FROM


@dataclass(frozen=True)
class PartialSums:
    """A group's sums by parts."""

    part: Axis
    first: tuple[Reduced | Stored, ...]
    """What each program sums up and stores."""
    sums: tuple[Reduced, ...]
    """What is left to be joined."""
    names: tuple[str, ...]

    def allocated(self, module: WrittenModule) -> list[str]:
        """The host's statements that make the memory between."""
        return [module.memory(module.program.buffers[name]) for name in self.names]


def partial_sums(module: WrittenModule, group: Group) -> PartialSums:
    """The group in two, with memory between them."""
    program = module.program
    part = Axis(module.fresh("part"), Size.of("parts"))
    program.places.ranges[part.name] = part.size
    index = (part.index, *(axis.index for axis in group.outer))
    shape = tuple(axis.size for axis in (part, *group.outer))
    sums: list[Reduced] = []
    first: list[Reduced | Stored] = []
    buffers = dict(program.buffers)
    for step in group.steps:
        if not isinstance(step, Reduced | Scanned):
            continue
        dtype = "bool" if step.op in ("any", "all") else t.computed(step.dtype)
        name = module.fresh(f"{step.name}_by_part")
        buffers[name] = Buffer(name, shape, dtype, "scratch")
        inner = Reduced(f"{step.name}_of_part", step.op, step.value, dtype)
        first += [inner, Stored(name, index, shape, e.Held(dtype, inner.name), False)]
        sums.append(Reduced(step.name, step.op, e.Read(dtype, name, index, shape), step.dtype))
    module.program = replace(program, buffers=buffers)
    names = tuple(step.buffer for step in first if isinstance(step, Stored))
    return PartialSums(part, tuple(first), tuple(sums), names)


def write_joined(module: WrittenModule, group: Group, parts: PartialSums) -> None:
    """The kernel that joins parts and does the rest."""
    ends = tuple(step for step in group.steps if isinstance(step, Stored))
    joined = merged(Group(group.outer, (parts.part,), (*parts.sums, *ends)), module.program.places)
    write_nest(TritonNest(module, joined, form_of(joined, module.places, module.wanted)))


def write_shared(module: WrittenModule, group: Group, form: TileForm) -> None:
    """Two kernels, and the memory between them."""
    assert form.reduced is not None
    parts = partial_sums(module, group)
    most = module.tunable(
        "PROGRAMS", 1 << (4 * module.wanted.cores - 1).bit_length(), (256, 512, 1024, 2048, 4096),
        "That share a long sum, at most.",
    )  # fmt: skip
    is_wide = form.position < form.rank - 1
    size = bracketed(size_text(form.reduced.size))
    outer = size_text(elements(tuple(axis.size for axis in group.outer)))
    if is_wide:
        step = module.tunable("WIDE", 64, (32, 64, 128, 256))
        unit = module.tunable("DEEP", 32, (8, 16, 32, 64))
        outer = f"triton.cdiv({outer}, {step})"
    else:
        unit = module.tunable("LONG", 4096, (1024, 2048, 4096, 8192))
    # a program of a scan holds the totals of all parts for each of its columns
    ceiling = ", 128" if is_wide and is_scan(group) else ""
    module.host += [
        f"parts = max(1, min({most} // ({outer}), triton.cdiv({size}, {unit}){ceiling}))",
        f"depth = triton.cdiv(triton.cdiv({size}, parts), {unit}) * {unit}",
        f"parts = triton.cdiv({size}, depth)",
        *parts.allocated(module),
    ]
    of_parts = Group((parts.part, *group.outer), group.inner, parts.first)
    tile = TileForm(form.tile, form.reduced, form.scalars, ())
    write_nest(TritonNest(module, of_parts, tile, parts.part.name))
    if not is_scan(group):
        write_joined(module, group, parts)
        return
    (totals,) = (step.value for step in parts.sums)
    assert isinstance(totals, e.Read)
    before = replace(totals, index=(Size.of(EARLIER), *totals.index[1:]))
    again = Group((parts.part, *group.outer), group.inner, group.steps)
    write_nest(TritonNest(module, again, tile, parts.part.name, before))
