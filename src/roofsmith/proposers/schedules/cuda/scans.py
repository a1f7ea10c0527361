"""Running sums in CUDA, along what lies in one piece: a team of threads goes along a row."""

from __future__ import annotations

from dataclasses import dataclass

from roofsmith.proposers.schedules import c_values as c
from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.c_writer import block, indented
from roofsmith.proposers.schedules.cuda.folds import TEAMS, CudaFold
from roofsmith.proposers.schedules.cuda.maps import vector_stores
from roofsmith.proposers.schedules.cuda.rows import RowNest
from roofsmith.proposers.schedules.groups import Scanned, Stored
from roofsmith.proposers.schedules.lowering import NoSchedule

Lines = list[str]
BEFORE = """\
// What the members of a team before a thread have, made one; `total`: what all have.
template <int TEAM, typename T, typename Join>
__device__ T before(T value, T start, Join join, T &total) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    #pragma unroll
    for (int offset = 1; offset < 32; offset *= 2) {
        const T other = __shfl_up_sync(ALL, value, offset);
        if (lane >= offset) value = join(other, value);
    }
    T earlier = __shfl_up_sync(ALL, value, 1);
    if (lane == 0) earlier = start;
    total = __shfl_sync(ALL, value, 31);
    if (TEAM == 0) {
        __shared__ T parts[32];
        __syncthreads();  // nobody reads those of the turn before
        if (lane == 31) parts[warp] = value;
        __syncthreads();
        T others = start;
        total = start;
        for (int w = 0; w < blockDim.x / 32; w++) {
            if (w < warp) others = join(others, parts[w]);
            total = join(total, parts[w]);
        }
        earlier = join(others, earlier);
    }
    return earlier;
}"""


@dataclass
class ScanNest(RowNest):
    """Writes the kernel of one running sum, and of what is stored of it."""

    totals: e.Read | None = None
    """Of a part that a block has: what each part adds up to; the first index numbers them."""

    def lines(self, *, in_registers: bool = False) -> Lines:
        """All of a row, turn by turn."""
        del in_registers
        first, *rest = self.group.steps
        if not isinstance(first, Scanned) or len(self.group.inner) != 1:
            raise NoSchedule("several running sums at once")
        stores = [step for step in rest if isinstance(step, Stored) and step.inner]
        if len(stores) < len(rest):
            raise NoSchedule("something beside a running sum")
        file, own = self.file, self.fast.name
        fold = CudaFold.of(first)
        fold.needs(file.extra, team=self.totals is not None)
        file.extra.setdefault("teams", TEAMS)
        file.extra.setdefault("before", BEFORE)
        name, kind = fold.name, fold.type
        start = fold.start if "(" in fold.start else f"({kind}){fold.start}"
        join = fold.join
        depth = len(self.outer) + 1
        held = {name: (f"{name}[$lane]", depth)}
        staged = {read: f"{vector}.at[$lane]" for read, vector in self.vectors.reads.items()}
        body = file.body([*self.outer, own], len(self.outer), {}, staged, self.names)
        reads = self.vectors.beside(self.vectors.reads)
        (text,) = body.write([first.value], reads)
        lines = list(body.lines[-2])
        fill: Lines = []
        for read in self.vectors.reads:
            fill += self.vectors.load(file, body, read)
        value = [*body.lines[-1], f"{name}[$lane] = {text};"]
        # stores read again what only they need
        again = file.body([*self.outer, own], len(self.outer), held, staged, self.names)
        indices = [e.flat(step.index, step.shape) for step in stores]
        texts = again.write([step.value for step in stores], [*indices, *reads])
        lines += again.lines[-2]
        used = {r for step in stores for r in e.walk(step.value)} & self.vectors.reads.keys()
        shared = fill if used else []
        before, inner, behind = vector_stores(file, self.group, self.vectors, again, stores, texts)
        inner = [*again.lines[-1], *inner]
        end, begin = c.size_text(self.fast.size), "0"
        if self.part:
            begin, end = "$begin", "$end"
        turn = [
            f"const ptrdiff_t {own}0 = $turn + (ptrdiff_t)$member * VEC;",
            f"const bool $inside = {own}0 < {end};",
            f"{kind} {name}[VEC];",
            "if ($inside) {",
            *indented([*fill, *self._lanes(value)]),
            "} else {",
            "    #pragma unroll",
            f"    for (int $lane = 0; $lane < VEC; $lane++) {name}[$lane] = {start};",
            "}",
            "#pragma unroll",
            "for (int $lane = 1; $lane < VEC; $lane++)",
            f"    {name}[$lane] = {join}({name}[$lane - 1], {name}[$lane]);",
            f"{kind} $total;",
            f"const {kind} $earlier = {join}($carried, "
            f"before<TEAM>({name}[VEC - 1], {start}, {join}, $total));",
            f"$carried = {join}($carried, $total);",
            "#pragma unroll",
            "for (int $lane = 0; $lane < VEC; $lane++)",
            f"    {name}[$lane] = {join}($earlier, {name}[$lane]);",
            *block("if ($inside)", [*shared, *before, *self._lanes(inner), *behind]),
        ]
        head = f"for (ptrdiff_t $turn = {begin}; $turn < {end}; $turn += $members * VEC)"
        return [
            *lines, f"{kind} $carried = {start};", *self._carried(fold, start),
            *block(head, turn),
        ]  # fmt: skip

    def _carried(self, fold: CudaFold, start: str) -> Lines:
        """Totals of the parts before this one, made one."""
        if self.totals is None:
            return []
        body = self.file.body(self.outer, len(self.outer), names=self.names)
        index = e.flat(self.totals.index, self.totals.shape)
        body.write([], [index])
        value = f"{self.totals.buffer}[{body.index(index)}]"
        part = self.group.outer[0].name
        return [
            f"for (ptrdiff_t $earlier_part = $member; $earlier_part < {part}; "
            "$earlier_part += $members)",
            f"    $carried = {fold.join}($carried, {value});",
            f"$carried = joined<TEAM>($carried, {start}, {fold.join});",
        ]
