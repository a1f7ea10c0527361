"""Values inside a CUDA kernel: as C writes them, with elements that were loaded before by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from roofsmith.proposers.schedules import c_values as c
from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.c_body import Body, Term
from roofsmith.proposers.schedules.cuda import moments
from roofsmith.proposers.schedules.formulas import stripped
from roofsmith.proposers.schedules.matrix_products import HALVES

STORAGE: Mapping[str, str] = {
    **c.STORAGE, "float16": "__half", "bfloat16": "__nv_bfloat16", moments.DTYPE: "Moments",
}  # fmt: skip
"""What elements are in memory."""
_POWERS = {2.0: "squared", 3.0: "cubed"}


@dataclass
class CudaBody(Body):
    """Writes values inside loops of a kernel."""

    halves: frozenset[str] = frozenset()
    """Buffers of 16-bit floats, which are computed in float."""
    staged: Mapping[e.Read, str] = field(default_factory=dict)
    """What stands for elements that were loaded before."""

    def _parts(self, term: Term) -> list[Term]:
        """See `Body`; what was loaded before needs no index."""
        return [] if isinstance(term, e.Read) and term in self.staged else super()._parts(term)

    def _is_named(self, term: Term, uses: int, around: int) -> bool:
        """See `Body`; what is read once is read where it is used, behind a thread's bounds."""
        return uses > 1 if isinstance(term, e.Read) else super()._is_named(term, uses, around)

    def tests(self, one: e.Inside) -> list[str]:
        """What has to hold so that an index is inside."""
        return self._tests(one)

    def _inline(self, value: e.Expression) -> str:
        match value:
            case e.Read():
                text = self.staged.get(value)
                if text is None:
                    text = f"{value.buffer}[{self.index(e.flat(value.index, value.shape))}]"
                return f"(float){text}" if value.buffer in self.halves else text
            case e.Operation(op="pow", args=(base, e.Number(value=known))) if (
                value.dtype in c.FLOATS and known in _POWERS
            ):
                self.used.add(_POWERS[known])
                return f"{_POWERS[known]}({stripped(self.text(base))})"
            case e.Operation(op=op) if op in moments.PARTS:
                return f"({moments.PARTS[op].format(self.text(value.args[0]))})"
            case e.Operation(op="rsqrt", dtype="float32"):
                return f"rsqrtf({stripped(self.text(value.args[0]))})"
            case e.Operation():
                used = set[str]()
                text = c.operation(value, [self.text(arg) for arg in value.args], used)
                for name in used & c.OWN.keys():  # the library's are fast here
                    text = text.replace(f"{c.OWN[name]}(", f"{name}(")
                self.used |= used - c.OWN.keys()
                return text
            case _:
                return super()._inline(value)


def in_float32(value: e.Expression) -> e.Expression:
    """A value; a 16-bit float's in float32, as kernels compute it."""
    return replace(value, dtype="float32") if value.dtype in HALVES else value
