"""Reductions in CUDA: an element more, and what a team of threads has made one."""

from __future__ import annotations

from dataclasses import dataclass

from roofsmith.proposers.schedules import c_values as c
from roofsmith.proposers.schedules.c_folds import Fold
from roofsmith.proposers.schedules.cuda import moments
from roofsmith.proposers.schedules.groups import Reduced, Scanned

_JOINS = {
    "sum": "Sum", "prod": "Product", "max": "Larger", "min": "Smaller", "any": "Either",
    "all": "Both", "argmax": "Highest", "argmin": "Lowest", "moments": "Merged", "merged": "Merged",
}  # fmt: skip


def _of_two(name: str, text: str) -> str:
    return (
        f"struct {name} {{\n    template <typename T>\n"
        f"    __device__ T operator()(T a, T b) const {{\n        return {text};\n    }}\n}};"
    )


def _of_places(name: str, text: str) -> str:
    return (
        f"struct {name} {{\n    template <typename T>\n"
        "    __device__ Best<T> operator()(Best<T> a, Best<T> b) const {\n"
        f"        return better(a, b, {text});\n    }}\n}};"
    )


JOINS = {
    "sum": _of_two("Sum", "a + b"),
    "prod": _of_two("Product", "a * b"),
    "max": _of_two("Larger", "b > a || b != b ? b : a"),
    "min": _of_two("Smaller", "b < a || b != b ? b : a"),
    "any": _of_two("Either", "a | b"),
    "all": _of_two("Both", "a & b"),
    "argmax": _of_places("Highest", "a.value > b.value"),
    "argmin": _of_places("Lowest", "a.value < b.value"),
}
"""What makes two partial results one; of an extreme, NaN where one is."""
BESTS = """\
// An extreme and where it is; before the first element that is nowhere.
template <typename T>
struct Best {
    T value;
    ptrdiff_t at;
};

// The first of equals; NaN comes before all numbers.
template <typename T>
__device__ Best<T> better(Best<T> a, Best<T> b, bool a_beats) {
    if (a.at < 0 || b.at < 0) return a.at < 0 ? b : a;
    const bool a_odd = a.value != a.value, b_odd = b.value != b.value;
    if (a_odd != b_odd) return a_odd ? a : b;
    if (a_odd || a.value == b.value) return a.at < b.at ? a : b;
    return a_beats ? a : b;
}

template <typename T>
__device__ Best<T> exchanged(Best<T> value, int offset) {
    return {__shfl_xor_sync(ALL, value.value, offset), __shfl_xor_sync(ALL, value.at, offset)};
}"""
TEAMS = """\
constexpr unsigned ALL = 0xffffffffu;

template <typename T>
__device__ T exchanged(T value, int offset) {
    return __shfl_xor_sync(ALL, value, offset);
}"""
JOINED = """\
// What TEAM neighbouring threads have, or all of a block (TEAM = 0), made one for each of them.
template <int TEAM, typename T, typename Join>
__device__ T joined(T value, T start, Join join) {
    #pragma unroll
    for (int offset = (TEAM ? TEAM : 32) / 2; offset > 0; offset /= 2) {
        value = join(value, exchanged(value, offset));
    }
    if (TEAM == 0) {
        __shared__ T parts[32];
        const int lane = threadIdx.x % 32, warps = (blockDim.x + 31) / 32;
        __syncthreads();  // nobody reads what was joined before
        if (lane == 0) parts[threadIdx.x / 32] = value;
        __syncthreads();
        value = lane < warps ? parts[lane] : start;
        #pragma unroll
        for (int offset = 16; offset > 0; offset /= 2) {
            value = join(value, exchanged(value, offset));
        }
    }
    return value;
}"""


@dataclass(frozen=True)
class CudaFold:
    name: str
    """Of the variable."""
    op: str
    dtype: str
    """Of the values."""

    @classmethod
    def of(cls, step: Reduced | Scanned) -> CudaFold:
        is_place = step.op.startswith("arg")
        return cls(step.name, step.op, step.value.dtype if is_place else step.dtype)

    @property
    def is_place(self) -> bool:
        """Whether it finds where an extreme is."""
        return self.op.startswith("arg")

    @property
    def _fold(self) -> Fold:
        return Fold(self.op.removeprefix("arg"), self.dtype, self.name)

    @property
    def type(self) -> str:
        if self.is_place:
            return f"Best<{c.computed(self.dtype)}>"
        if self.dtype == moments.DTYPE:
            return "Moments"
        return "int" if self.dtype == "bool" else self._fold.type

    @property
    def start(self) -> str:
        """What changes nothing."""
        if self.is_place:
            return f"{self.type}{{{self._fold.start}, -1}}"
        if self.dtype == moments.DTYPE:
            return "Moments{0, 0, 0}"
        start = self._fold.start
        return f"{self.type}({start})" if self.type not in ("int", "float", "double") else start

    @property
    def join(self) -> str:
        """What makes two one."""
        return f"{_JOINS[self.op]}()"

    @property
    def held(self) -> str:
        """The result, once it is joined."""
        return self.named(self.name)

    def named(self, variable: str) -> str:
        """The result that another variable has."""
        return f"{variable}.at" if self.is_place else variable

    def element(self, value: str, index: str, target: str = "") -> str:
        """One more; `value` is a name where it is compared."""
        name = target or self.name
        if self.is_place:
            return f"{name} = {self.join[:-2]}()({name}, {self.type}{{{value}, {index}}});"
        if self.op == "moments":
            return f"add_moment({value}, {name});"
        if self.op == "merged":
            return f"{name} = {self.join}({name}, {value});"
        return self._fold.exact(value, name)

    @property
    def is_compared(self) -> bool:
        """Whether its element has to have a name."""
        return self.op in ("max", "min")

    def joined(self, target: str = "") -> str:
        name = target or self.name
        kind = self.type
        start = self.start if "(" in self.start or self.is_place else f"({kind}){self.start}"
        return f"{name} = joined<TEAM>({name}, {start}, {self.join});"

    def needs(self, extra: dict[str, str], *, team: bool = True) -> None:
        """Puts what it calls into a file's code."""
        if team or self.is_place:
            extra.setdefault("teams", TEAMS)
        if self.is_place:
            extra.setdefault("bests", BESTS)
        if self.dtype == moments.DTYPE:
            extra.setdefault("moments", moments.MOMENTS)
            if team:
                extra.setdefault("exchanged_moments", moments.EXCHANGED)
        else:
            extra.setdefault(self.op, JOINS[self.op])
        if team:
            extra.setdefault("joined", JOINED)
