"""Products in CUDA: tiles in shared memory, anything elementwise before and after.

A product is a struct: what it reads, how elements of its factors are found, how sums are finished.
The kernels, which are templates of it, are the files beside this one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from roofsmith.computation.building import ONE, ZERO
from roofsmith.computation.sizes import elements
from roofsmith.proposers.schedules import c_values as c
from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.cuda.structs import (
    StructWriter,
    add_texts,
    has_async_copies,
    names_clash,
)
from roofsmith.proposers.schedules.cuda.writer import CudaSource
from roofsmith.proposers.schedules.groups import Group
from roofsmith.proposers.schedules.matrix_products import TileProduct, product_of
from roofsmith.proposers.schedules.strides import coefficient, merged, substituted

FILLED = 0.75
"""Part of the multiprocessors that have a tile, from which on larger tiles are faster. Chosen."""


@dataclass(frozen=True)
class TileKernel:
    """A kernel, and the constants that it takes."""

    name: str
    texts: tuple[str, ...]
    tiles: tuple[tuple[int, int], ...]
    """Rows and columns, the largest first."""
    tunables: tuple[tuple[str, int, tuple[int, ...]], ...]
    fixed: tuple[str, ...]
    """Constants that follow from these."""


MMA_FIXED = ("THREADS = WARPS_M * WARPS_N * 32",)
_WARPS = (("WARPS_M", 2, (1, 2, 4)), ("WARPS_N", 2, (1, 2, 4)), ("RESIDENT", 2, (1, 2)),
          ("GROUP", 8, (1, 4, 8, 16)))  # fmt: skip
FFMA = TileKernel(
    "ffma", ("packed", "tiles", "ffma"), ((128, 128), (128, 64), (64, 64)),
    (("BLOCK_K", 8, (8, 16)), ("GROUP", 8, (1, 4, 8, 16))),
    ("THREADS = BLOCK_M / 32 * (BLOCK_N / 64) * 32",),
)  # fmt: skip
_MMA_TILES = ((128, 128), (128, 64), (64, 64), (32, 64), (32, 32))
SINGLE = TileKernel(
    "mma",
    ("packed", "neighbours", "tiles", "copies", "mma", "mma_single", "split", "mma_float",
     "mma_kernel"),
    _MMA_TILES, (("BLOCK_K", 16, (16, 32)), ("STAGES", 2, (2, 3, 4, 5)), *_WARPS), MMA_FIXED,
)  # fmt: skip
HALF = TileKernel(
    "mma",
    ("packed", "neighbours", "tiles", "copies", "mma", "mma_half", "mma_16", "mma_kernel"),
    _MMA_TILES, (("BLOCK_K", 32, (32, 64)), ("STAGES", 4, (2, 3, 4, 5)), *_WARPS), MMA_FIXED,
)  # fmt: skip


def write_product(file: CudaSource, group: Group) -> bool:
    """The kernel of a contraction and its launch; False where it is none for tiles.

    Values have the types of the arrays, 16-bit floats among them.
    """
    group = merged(group, file.program.places)
    found = product_of(group, file.places, file.wanted.most)
    if found is None or not found.stores or names_clash(file, found.stores):
        return False
    engine = _engine(file, found)
    if engine is None:
        return False
    writer = StructWriter(
        file, group, file.kernel_name(group, "product"), dtype=found.left.dtype,
        stores=found.stores, batch=found.batch, loops=found.loops,
    )  # fmt: skip
    writer.flag("BATCHED", any(axis.size != ONE for axis in found.batch))
    writer.flag("LOOPED", any(axis.size != ONE for axis in found.loops))
    methods = [
        *writer.enter(), *writer.side("left", found.left, found.m, found.k),
        *writer.side("right", found.right, found.n, found.k),
        *writer.finish(found.m, found.n, found.step.name),
    ]  # fmt: skip
    hopper = _hopper(file, found, writer) if engine is HALF else None
    constants = _constants(file, found, engine)
    if hopper is not None:
        constants += _hopper_constants(file, found)
        file.includes.add("cuda.h")
    file.kernels.append(writer.text(constants, methods))
    add_texts(file, (*engine.texts, *(["wgmma"] if hopper is not None else [])))
    sizes = [axis.size for axis in (found.m, found.n, found.k)]
    sizes.append(elements(tuple(axis.size for axis in found.loops)))
    given = [f"(int)({c.size_text(size)})" for size in sizes]
    batches = c.size_text(elements(tuple(axis.size for axis in found.batch)))
    file.block([
        writer.instance(), f"const Extents size_ = {{{', '.join(given)}, (int64_t)({batches})}};",
        writer.is_wide(),
        f"launch_{engine.name}(kernel_, size_, wide_);" if hopper is None
        else f"launch_wgmma(kernel_, size_, wide_, {', '.join(hopper)});",
    ])  # fmt: skip
    return True


def _engine(file: CudaSource, found: TileProduct) -> TileKernel | None:
    """Tensor cores, but for float32 that may be infinite: its rest would be no number."""
    if not found.is_single:
        return HALF if has_async_copies(file) else None
    numbers = [
        one.value for side in (found.left, found.right) for one in e.walk(side)
        if isinstance(one, e.Number)
    ]  # fmt: skip
    may_be = any(math.isinf(one) for one in numbers)
    return FFMA if may_be or not has_async_copies(file) else SINGLE


def _constants(file: CudaSource, found: TileProduct, engine: TileKernel) -> list[str]:
    m, n = _tile(file, found, engine)
    sizes = (("BLOCK_M", m, (64, 128, 256)), ("BLOCK_N", n, (64, 128, 256)), *engine.tunables)
    if engine.name == "ffma":
        sizes = (("BLOCK_M", m, (64, 128)), ("BLOCK_N", n, (64, 128)), *engine.tunables)
    lines = [
        f"{name} = {file.tunable(f'PRODUCT_{name}', value, choices)}"
        for name, value, choices in sizes
    ]
    if engine is SINGLE:
        lines.append(f"PRODUCTS = {1 if file.wanted.tf32 else 3}")
    return [*lines, *engine.fixed]


def _tile(file: CudaSource, found: TileProduct, engine: TileKernel) -> tuple[int, int]:
    """As large as leaves few multiprocessors idle."""
    most = file.wanted.most
    rows, columns = most(found.m.size, 4096), most(found.n.size, 4096)
    batch = most(elements(tuple(axis.size for axis in found.batch)), 1)
    for m, n in engine.tiles:
        tiles = -(-rows // m) * -(-columns // n) * batch
        if rows > m // 2 and columns > n // 2 and tiles >= FILLED * file.wanted.cores:
            return m, n
    fitting = ((m, n) for m, n in engine.tiles if rows > m // 2 and columns > n // 2)
    return next((tile for tile in fitting if tile[0] <= 64), engine.tiles[-1])


HOPPER_ROWS = 128
HOPPER_TILES = ((256, 4, 2), (128, 5, 2), (64, 6, 1))
"""Columns of a tile, stages, and blocks of a cluster; measured on an H100."""


def _hopper_tiles(file: CudaSource, found: TileProduct, columns: int) -> int:
    """How many there are on the largest workload."""
    most = file.wanted.most
    batch = most(elements(tuple(axis.size for axis in found.batch)), 1)
    rows = -(-most(found.m.size, 4096) // HOPPER_ROWS)
    return rows * -(-most(found.n.size, 4096) // columns) * batch


def _hopper(file: CudaSource, found: TileProduct, writer: StructWriter) -> list[str] | None:
    """Both factors for Hopper's copy engine; None where it can't bring them, or tiles are few."""
    batch = [axis for axis in found.batch if axis.size != ONE]
    many = _hopper_tiles(file, found, HOPPER_TILES[-1][0]) >= FILLED * file.wanted.cores
    if file.wanted.arch != "sm_90" or len(batch) > 1 or found.loops or not many:
        return None
    sides = []
    for value, own in ((found.left, found.m), (found.right, found.n)):
        copied = writer.copied(value, own, found.k)
        if copied is None or not isinstance(value, e.Read):
            return None
        index, along = copied
        stride = coefficient(index, own.name if along else found.k.name)
        moved = {axis.name: ZERO for axis in (own, found.k, *found.batch)}
        start = substituted(index, moved)
        apart = coefficient(index, batch[0].name) if batch else ZERO
        names = e.names_in(e.Position("int64", start + apart), file.places)
        if names & (file.places.keys() | file.program.places.ranges.keys()):
            return None
        place = c.wrapped(c.size_text(start))
        far = f"{c.size_text(stride)}, {c.size_text(apart)}"
        sides.append(f"Matrices{{{value.buffer} + {place}, {far}}}")
    return sides


def _hopper_constants(file: CudaSource, found: TileProduct) -> list[str]:
    """The widest tiles of which there is one for most multiprocessors."""
    columns, stages, cluster = next(
        (
            one for one in HOPPER_TILES
            if _hopper_tiles(file, found, one[0]) >= FILLED * file.wanted.cores
        ), HOPPER_TILES[-1],
    )  # fmt: skip
    chosen = (
        ("M", HOPPER_ROWS, (128, 256)), ("N", columns, (64, 128, 256)),
        ("STAGES", stages, (3, 4, 5, 6)), ("CLUSTER", cluster, (1, 2)), ("GROUP", 8, (2, 4, 8, 16)),
    )  # fmt: skip
    return [
        f"HOPPER_{name} = {file.tunable(f'PRODUCT_HOPPER_{name}', value, choices)}"
        for name, value, choices in chosen
    ]
