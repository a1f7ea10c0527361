"""Reductions in C: where they start, how one element comes in, and how parts are joined."""

from __future__ import annotations

from dataclasses import dataclass

from roofsmith.proposers.schedules import c_values as c
from roofsmith.proposers.schedules.lowering import NoSchedule

_CLAUSES = {"sum": "+", "prod": "*", "max": "max", "min": "min", "any": "|", "all": "&"}
_BOUNDS = {
    "int8": "INT8", "int16": "INT16", "int32": "INT32", "int64": "INT64", "uint8": "UINT8",
    "uint16": "UINT16", "uint32": "UINT32", "uint64": "UINT64",
}  # fmt: skip


@dataclass(frozen=True)
class Fold:
    """One reduction."""

    op: str
    """sum, prod, max, min, any or all."""
    dtype: str
    name: str
    """Of the variable."""

    @property
    def type(self) -> str:
        """Of the variable; floats sum up in float, what is any or all in int."""
        return "int" if self.op in ("any", "all") else c.computed(self.dtype)

    @property
    def start(self) -> str:
        match self.op:
            case "sum" | "any":
                return "0"
            case "prod" | "all":
                return "1"
            case "max" | "min":
                if self.dtype in c.FLOATS:
                    return "-INFINITY" if self.op == "max" else "INFINITY"
                if self.dtype == "bool":
                    return "0" if self.op == "max" else "1"
                if self.op == "max" and self.dtype.startswith("u"):
                    return "0"
                return f"{_BOUNDS[self.dtype]}_{'MIN' if self.op == 'max' else 'MAX'}"
            case _:
                raise NoSchedule(f"a reduction by {self.op}")

    @property
    def is_ordered(self) -> bool:
        """Whether NaN has to be watched for apart, since comparisons don't see it."""
        return self.op in ("max", "min") and self.dtype in c.FLOATS

    @property
    def odd(self) -> str:
        """The variable that says whether NaN was seen."""
        return f"{self.name}_nan"

    @property
    def clauses(self) -> str:
        """Of the loop over elements."""
        text = f" reduction({_CLAUSES[self.op]}:{self.name})"
        return text + (f" reduction(|:{self.odd})" if self.is_ordered else "")

    def declared(self) -> list[str]:
        lines = [f"{self.type} {self.name} = {self.start};"]
        return lines + ([f"int {self.odd} = 0;"] if self.is_ordered else [])

    def element(self, value: str, target: str | None = None) -> list[str]:
        """One more element; a value that is used twice is a name."""
        name = target or self.name
        match self.op:
            case "sum":
                return [f"{name} += {value};"]
            case "prod":
                return [f"{name} *= {value};"]
            case "any":
                return [f"{name} |= {c.wrapped(value)} != 0;"]
            case "all":
                return [f"{name} &= {c.wrapped(value)} != 0;"]
            case _:
                sign = ">" if self.op == "max" else "<"
                line = f"{name} = {value} {sign} {name} ? {value} : {name};"
                return [line]

    def watched(self, value: str) -> list[str]:
        """Notes whether an element is NaN."""
        return [f"{self.odd} |= {value} != {value};"] if self.is_ordered else []

    def finished(self) -> list[str]:
        return [f"if ({self.odd}) {self.name} = NAN;"] if self.is_ordered else []

    def exact(self, value: str, target: str) -> str:
        """One more element where NaN isn't watched for apart."""
        if not self.is_ordered:
            return self.element(value, target)[0]
        sign = ">" if self.op == "max" else "<"  # one instruction, which keeps a NaN in the target
        best = f"{value} {sign} {target} ? {value} : {target}"
        return f"{target} = {value} != {value} ? {value} : {best};"
