"""Products on the matrix units: tiles of `tl.dot`, anything elementwise before and after."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from roofsmith.computation.sizes import Size, elements
from roofsmith.proposers.schedules.matrix_products import TileProduct
from roofsmith.proposers.schedules.triton.written import WrittenModule

SIZES = ((128, 256, 8), (128, 128, 8), (128, 64, 4), (64, 64, 4), (32, 64, 4), (16, 64, 4))
"""Rows, columns and warps of tiles: what was best on an H100 where there are enough of them."""


@dataclass(frozen=True)
class ProductTile:
    """How a product is cut up; first values that the sweep goes on from."""

    m: int
    n: int
    k: int
    warps: int
    stages: int

    @property
    def text(self) -> str:
        """In the order of `BLOCKS`."""
        return f"{self.m}, {self.n}, {self.k}, {self.warps}, {self.stages}"


Choose = Callable[[Size, int], int]
"""Of a size's values in all workloads the most, or the least."""


def tile_of(
    module: WrittenModule, product: TileProduct, choose: Choose, *, by_boxes: bool = False
) -> ProductTile:
    """Tiles as large as leave no SM idle, in the largest workload or the least."""
    m, n, warps = _size(module, product, choose, by_boxes)
    width = 4 if product.is_single else 2
    is_shallow = product.is_single and (m > 64 or not by_boxes)
    depth = 32 if is_shallow else 64 if m > 16 else 128
    room = module.wanted.shared_bytes // ((m + n) * depth * width)
    return ProductTile(m, n, depth, warps, max(1, min(3 if m > 64 else 4, room)))


def _size(
    module: WrittenModule, product: TileProduct, choose: Choose, by_boxes: bool
) -> tuple[int, int, int]:
    """Rows, columns and warps."""
    sizes = SIZES[(1 if module.wanted.tf32 else 2) if product.is_single else 0 :]
    if product.is_single and by_boxes:
        sizes = (SIZES[1], *SIZES[3:])
    rows, columns = choose(product.m.size, 4096), choose(product.n.size, 4096)
    for m, n, warps in sizes:
        tiles = tile_count(product, choose, m, n)
        if rows > m // 2 and columns > n // 2 and tiles >= enough(module):
            return m, n, warps
    return sizes[-1]


def tile_count(product: TileProduct, choose: Choose, m: int, n: int) -> int:
    """Of the largest workload or the least."""
    batch = choose(elements(tuple(axis.size for axis in product.batch)), 1)
    return -(-choose(product.m.size, 4096) // m) * -(-choose(product.n.size, 4096) // n) * batch


def enough(module: WrittenModule) -> int:
    """Tiles that keep most SMs busy: three quarters of them; chosen."""
    return -(-3 * module.wanted.cores // 4)
