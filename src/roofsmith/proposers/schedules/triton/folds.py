"""Reductions and scans in Triton: where they start, how a tile comes in, how it becomes one."""

from __future__ import annotations

from dataclasses import dataclass

from roofsmith.proposers.schedules.formulas import stripped
from roofsmith.proposers.schedules.lowering import NoSchedule
from roofsmith.proposers.schedules.triton import operations as t
from roofsmith.proposers.schedules.triton.values import TileValue

_LEAST = {"int8": -(2**7), "int16": -(2**15), "int32": -(2**31), "int64": -(2**63)}
_MOST = {
    **{name: -least - 1 for name, least in _LEAST.items()},
    "uint8": 2**8 - 1, "uint16": 2**16 - 1, "uint32": 2**32 - 1, "uint64": 2**64 - 1,
}  # fmt: skip


@dataclass(frozen=True)
class TritonFold:
    """One reduction along an axis of a tile."""

    op: str
    dtype: str
    """Of the elements."""

    @property
    def start(self) -> str:
        """What changes nothing."""
        match self.op:
            case "sum":
                return "0.0" if self.dtype in t.FLOATS else "0"
            case "prod":
                return "1.0" if self.dtype in t.FLOATS else "1"
            case "any":
                return "False"
            case "all":
                return "True"
            case "max" | "argmax" | "min" | "argmin":
                largest = self.op.endswith("max")
                if self.dtype in t.FLOATS:
                    return '-float("inf")' if largest else 'float("inf")'
                if self.dtype == "bool":
                    return "False" if largest else "True"
                return str(_LEAST.get(self.dtype, 0) if largest else _MOST[self.dtype])
            case _:
                raise NoSchedule(f"a reduction by {self.op}")

    @property
    def held(self) -> str:
        """The type of a tile of partial results."""
        return "int1" if self.op in ("any", "all") else t.STORAGE[t.computed(self.dtype)][3:]

    def masked(self, value: TileValue, mask: str) -> str:
        """The tile with what changes nothing where it is outside."""
        if not mask:
            return value.text
        return f"tl.where({mask}, {stripped(value.text)}, {self.start})"

    def combined(self, one: str, other: str, used: set[str]) -> str:
        """Two partial results."""
        match self.op:
            case "sum":
                return f"{one} + {other}"
            case "prod":
                return f"{one} * {other}"
            case "any":
                return f"{one} | {other}"
            case "all":
                return f"{one} & {other}"
            case _:
                if self.dtype not in t.FLOATS:
                    return f"tl.{self.op}imum({one}, {other})"
                name = "larger" if self.op == "max" else "smaller"
                used.add(name)
                return f"{name}({one}, {other})"

    def along(self, tile: str, axis: int, rank: int, used: set[str]) -> str:
        """A tile made one along an axis; the axis stays where there is another."""
        keep = ", keep_dims=True" if rank > 1 else ""
        match self.op:
            case "sum" | "max" | "min":
                if self.dtype == "bool":
                    return f"(tl.{self.op}({tile}.to(tl.int32), axis={axis}{keep}) != 0)"
                return f"tl.{self.op}({tile}, axis={axis}{keep})"
            case "prod":
                used.add("multiplied")
                return f"tl.reduce({tile}, {axis}, multiplied{keep})"
            case "any" | "all":
                which = "max" if self.op == "any" else "min"
                return f"tl.{which}({tile}.to(tl.int32), axis={axis}{keep}) != 0"
            case _:
                return f"tl.{self.op}({tile}, axis={axis}, tie_break_left=True{keep})"

    def scanned(self, tile: str, axis: int, used: set[str]) -> str:
        """Each element with those before it."""
        match self.op:
            case "sum":
                return f"tl.cumsum({tile}, axis={axis})"
            case "prod":
                return f"tl.cumprod({tile}, axis={axis})"
            case "max" | "min":
                name = "larger" if self.op == "max" else "smaller"
                if self.dtype not in t.FLOATS:
                    raise NoSchedule("a running maximum of whole numbers")
                used.add(name)
                return f"tl.associative_scan({tile}, {axis}, {name})"
            case _:
                raise NoSchedule(f"a scan by {self.op}")
