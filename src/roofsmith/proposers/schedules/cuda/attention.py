"""Attention in CUDA: queries go along keys and values once, with anything between both products."""

from __future__ import annotations

from collections.abc import Sequence

from roofsmith.computation.building import ZERO
from roofsmith.computation.sizes import elements
from roofsmith.proposers.schedules import c_values as c
from roofsmith.proposers.schedules.cuda.structs import (
    Lines,
    StructWriter,
    add_texts,
    has_async_copies,
    names_clash,
)
from roofsmith.proposers.schedules.cuda.writer import CudaSource
from roofsmith.proposers.schedules.groups import Group, Program
from roofsmith.proposers.schedules.online_attention import (
    SCORE,
    OnlineAttention,
    attention_of,
    unmasked,
)

WIDEST = 128
"""Elements of a query or a value that fit into a warp's registers."""
_TEXTS = ("packed", "neighbours", "copies", "mma", "attention_sides", "attention")
_SINGLE = ("mma_single", "split", "attention_float")
_HALF = ("mma_half", "attention_16")


def write_attention(file: CudaSource, program: Program, groups: Sequence[Group]) -> bool:
    """The first three groups as one kernel; False where they are something else.

    Values have the types of the arrays, 16-bit floats among them.
    """
    most = file.wanted.most
    found = attention_of(program, groups, most)
    if found is None or not found.stores or names_clash(file, found.stores):
        return False
    if not has_async_copies(file):
        return False
    if max(most(found.d.size, WIDEST), most(found.depth.size, WIDEST)) > WIDEST:
        return False
    group = groups[2]
    is_single = found.query.dtype == "float32"
    writer = StructWriter(
        file, group, file.kernel_name(group, "attention"), dtype=found.query.dtype,
        stores=found.stores, batch=found.batch,
    )  # fmt: skip
    methods = [
        *writer.enter(),
        *writer.element("query", found.query, found.m, found.depth),
        *writer.side("key", found.key, found.n, found.depth, always=True),
        *writer.side("value", found.value, found.d, found.n, always=True),
        *_scores(writer, found),
        *writer.finish(found.m, found.d, found.result),
    ]
    file.kernels.append(writer.text(_constants(file, found), methods))
    add_texts(file, (*_TEXTS, *(_SINGLE if is_single else _HALF)))
    sizes = [axis.size for axis in (found.m, found.n, found.depth, found.d)]
    given = [f"(int)({c.size_text(size)})" for size in sizes]
    batches = c.size_text(elements(tuple(axis.size for axis in found.batch)))
    file.block([
        writer.instance(),
        f"const AttentionSize size_ = {{{', '.join(given)}, (int64_t)({batches})}};",
        writer.is_wide(), "launch_attention(kernel_, size_, wide_);",
    ])  # fmt: skip
    file.told.append("attention online")
    return True


def _scores(writer: StructWriter, found: OnlineAttention) -> Lines:
    """What the softmax is of; `plain`: where no key comes after its query."""
    plain, last = unmasked(found.score, found.m.name, found.n.name)
    writer.flag("CAUSAL", last is not None)
    lines: Lines = []
    for name, value in (("score", found.score), ("plain_score", plain)):
        lines += writer.computed(f"float {name}", value, (found.m, found.n), held=SCORE)
    return [*lines, *writer.place("last", ZERO if last is None else last)]


def _constants(file: CudaSource, found: OnlineAttention) -> list[str]:
    is_single = found.query.dtype == "float32"
    warps = file.tunable("ATTENTION_WARPS", 8, (2, 4, 8))
    keys = file.tunable("ATTENTION_KEYS", 64, (16, 32, 64) if is_single else (32, 64, 128))
    sizes = (found.d.size, found.depth.size)
    return [
        f"THREADS = {warps} * 32", f"KEYS = {keys}",
        f"PRODUCTS = {1 if file.wanted.tf32 else 3}",
        f"LEAST = {max(file.wanted.least(size, 1) for size in sizes)}",
        f"MOST = {max(file.wanted.most(size, WIDEST) for size in sizes)}",
    ]  # fmt: skip
