"""Products of matrices in C: a call of the packed one, for each outer index."""

from __future__ import annotations

from roofsmith.computation.building import ZERO
from roofsmith.computation.sizes import elements
from roofsmith.proposers.schedules import c_values as c
from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.c_writer import CWriter, Lines, block, indented, nested, sizes
from roofsmith.proposers.schedules.groups import Group, Multiplied
from roofsmith.proposers.schedules.strides import coefficient, substituted


class CProducts(CWriter):
    """Writes groups that multiply."""

    def _multiply(self, group: Group, step: Multiplied) -> Lines:
        """A call for each outer index; on all threads where there are many small ones."""
        self.used.add("gemm")
        variables = frozenset(axis.name for axis in group.outer)
        sizes_ = [c.size_text(axis.size) for axis in (step.rows, step.columns, step.depth)]
        made = e.Read(step.dtype, step.buffer, step.index, step.shape)
        operands = []
        for read, own, other in (
            (step.left, step.rows, step.depth), (step.right, step.depth, step.columns),
            (made, step.rows, step.columns),
        ):  # fmt: skip
            index = e.flat(read.index, read.shape)
            strides = [c.size_text(coefficient(index, axis.name)) for axis in (own, other)]
            inner = {axis.name: ZERO for axis in (step.rows, step.columns, step.depth)}
            start = c.size_text(substituted(index, inner), variables)
            place = read.buffer if start == "0" else f"{read.buffer} + {start}"
            operands.append(f"{place}, {', '.join(strides)},")
        name = self.own("gemm_call")
        call = [
            f"const gemm_product {name} = {{{', '.join(sizes_)},", *indented(operands),
            "    1, 0};", f"gemm({name});",
        ]  # fmt: skip
        if not group.outer:
            return block("", call)
        count = c.size_text(elements(sizes(group.outer)))
        collapsed = f" collapse({len(group.outer)})" if len(group.outer) > 1 else ""
        spread = f"gemm_spread({', '.join([count, *sizes_])})"
        self.used.add("gemm_spread")
        pragma = f"#pragma omp parallel for{collapsed} schedule(dynamic) if ({spread})"
        lines = nested([self._for(axis) for axis in group.outer], call)
        return [pragma, *lines] if self.threads > 1 else lines
