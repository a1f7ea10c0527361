"""Products for the matrix units of a GPU: rows, columns and depth of a contraction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from roofsmith.computation.building import ONE
from roofsmith.computation.sizes import Size
from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.groups import Axis, Group, Reduced, Stored

HALVES = frozenset(("float16", "bfloat16"))
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


def product_of(
    group: Group, places: Mapping[str, e.Place], most: Callable[[Size, int], int]
) -> TileProduct | None:
    """The group as a product; None if it is none, or none for the matrix units.

    Args:
        places: what names in indices mean.
        most: a size on the largest workload, or the number given where that is unknown.
    """
    if not group.steps or not group.inner:
        return None
    step, *rest = group.steps
    stores = tuple(one for one in rest if isinstance(one, Stored) and not one.inner)
    if not isinstance(step, Reduced) or step.factors is None or len(stores) != len(rest):
        return None
    left, right = map(_operand, step.factors)
    if left.dtype != right.dtype:
        left, right = step.factors
    if left.dtype != right.dtype or left.dtype not in (*HALVES, "float32"):
        return None
    mine, theirs = (e.names_in(one, places) for one in (left, right))
    wide = [axis for axis in group.outer if axis.size != ONE]
    rows = [axis for axis in wide if axis.name in mine - theirs]
    columns = [axis for axis in wide if axis.name in theirs - mine]
    inner = [axis for axis in group.inner if axis.name in mine & theirs]
    if not rows or not columns or len(inner) != len(group.inner):
        return None
    if _is_stored_along(group, rows[-1], columns):
        left, right, rows, columns = right, left, columns, rows
    m, n, k = (
        max(reversed(some), key=lambda one: most(one.size, 1024)) for some in (rows, columns, inner)
    )
    if min(most(m.size, 1024), most(n.size, 1024)) < SMALLEST or most(k.size, 1024) < SMALLEST:
        return None
    batch = tuple(axis for axis in group.outer if axis not in (m, n))
    loops = tuple(axis for axis in group.inner if axis != k)
    return TileProduct(m, n, k, batch, loops, left, right, step, stores)


def _operand(value: e.Expression) -> e.Expression:
    """As the matrix units take it: 16 bits are multiplied exactly, into float32."""
    if isinstance(value, e.Converted) and value.dtype == "float32" and value.arg.dtype in HALVES:
        return value.arg
    return value


def _is_stored_along(group: Group, row: Axis, columns: list[Axis]) -> bool:
    """Whether results lie in one piece along what would be the rows."""
    names = [axis.name for axis in group.outer]
    return all(names.index(row.name) > names.index(column.name) for column in columns)
