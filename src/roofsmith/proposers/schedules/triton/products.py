"""Products on the matrix units: tiles of `tl.dot`, anything elementwise before and after."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from roofsmith.computation.building import ONE
from roofsmith.computation.sizes import Size, elements
from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.groups import Axis, Group, Reduced, Stored
from roofsmith.proposers.schedules.triton import operations as t
from roofsmith.proposers.schedules.triton.written import WrittenModule

SIZES = ((128, 256, 8), (128, 128, 8), (128, 64, 4), (64, 64, 4), (32, 64, 4), (16, 64, 4))
"""Rows, columns and warps of tiles: what was best on an H100 where there are enough of them."""
SMALLEST = 8
"""Rows or columns from which the matrix units are worth their padding to 16. Chosen."""


@dataclass(frozen=True)
class TileProduct:
    """A contraction's axes."""

    m: Axis
    n: Axis
    k: Axis
    batch: tuple[Axis, ...]
    loops: tuple[Axis, ...]
    """Summed axes around `k`."""
    left: e.Expression
    right: e.Expression
    step: Reduced
    stores: tuple[Stored, ...]

    @property
    def is_single(self) -> bool:
        """Whether operands are float32."""
        return self.left.dtype == "float32"


def product_of(module: WrittenModule, group: Group) -> TileProduct | None:
    """The group as a product; None if it is none, or none for the matrix units."""
    if not group.steps or not group.inner:
        return None
    step, *rest = group.steps
    stores = tuple(one for one in rest if isinstance(one, Stored) and not one.inner)
    if not isinstance(step, Reduced) or step.factors is None or len(stores) != len(rest):
        return None
    left, right = map(_operand, step.factors)
    if left.dtype != right.dtype:
        left, right = step.factors
    if left.dtype != right.dtype or left.dtype not in (*t.HALVES, "float32"):
        return None
    mine, theirs = (e.names_in(one, module.places) for one in (left, right))
    wide = [axis for axis in group.outer if axis.size != ONE]
    rows = [axis for axis in wide if axis.name in mine - theirs]
    columns = [axis for axis in wide if axis.name in theirs - mine]
    inner = [axis for axis in group.inner if axis.name in mine & theirs]
    if not rows or not columns or len(inner) != len(group.inner):
        return None
    if _is_stored_along(group, rows[-1], columns):
        left, right, rows, columns = right, left, columns, rows
    size = module.wanted.most
    m, n, k = (
        max(reversed(some), key=lambda one: size(one.size, 1024)) for some in (rows, columns, inner)
    )
    if min(size(m.size, 1024), size(n.size, 1024)) < SMALLEST or size(k.size, 1024) < SMALLEST:
        return None
    batch = tuple(axis for axis in group.outer if axis not in (m, n))
    loops = tuple(axis for axis in group.inner if axis != k)
    return TileProduct(m, n, k, batch, loops, left, right, step, stores)


def _operand(value: e.Expression) -> e.Expression:
    """As the matrix units take it: 16 bits are multiplied exactly, into float32."""
    if isinstance(value, e.Converted) and value.dtype == "float32" and value.arg.dtype in t.HALVES:
        return value.arg
    return value


def _is_stored_along(group: Group, row: Axis, columns: list[Axis]) -> bool:
    """Whether results lie in one piece along what would be the rows."""
    names = [axis.name for axis in group.outer]
    return all(names.index(row.name) > names.index(column.name) for column in columns)


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
