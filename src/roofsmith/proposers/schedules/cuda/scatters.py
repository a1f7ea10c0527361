"""Scatters in CUDA: a thread for each element, and atomic operations where elements may meet."""

from __future__ import annotations

from roofsmith.computation.building import ONE
from roofsmith.computation.sizes import Size, elements
from roofsmith.proposers.schedules import c_values as c
from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.c_writer import block
from roofsmith.proposers.schedules.cuda.body import STORAGE
from roofsmith.proposers.schedules.cuda.folds import JOINS, CudaFold
from roofsmith.proposers.schedules.cuda.maps import THREADS
from roofsmith.proposers.schedules.cuda.writer import CudaFile, launched
from roofsmith.proposers.schedules.groups import Group, Scattered
from roofsmith.proposers.schedules.lowering import NoSchedule

_WORDS = frozenset(("float32", "float64", "int32", "uint32", "int64", "uint64"))
_EXTREME = """\
// The larger or smaller, or whatever else `Join` makes of two.
template <typename Join>
__device__ void combined(float *to, float value, Join join) {
    int seen = *(volatile int *)to;
    for (int before = ~seen; before != seen;) {
        before = seen;
        const int next = __float_as_int(join(__int_as_float(before), value));
        seen = next == before ? before : atomicCAS((int *)to, before, next);
    }
}"""


def write_scatter(file: CudaFile, group: Group) -> None:
    """A kernel in which no order counts.

    Raises:
        NoSchedule: The order counts, or the device has no such atomic operation.
    """
    (step,) = group.steps
    assert isinstance(step, Scattered)
    own = {name for part in step.index for name in part.dims if part == Size.of(name)}
    axes = [axis for axis in group.outer if axis.size != ONE]
    ordered = [axis for axis in axes if axis.name not in own] if step.op == "set" else []
    axes = [axis for axis in axes if axis not in ordered]
    if ordered and not axes:
        raise NoSchedule("a scatter whose order counts")
    fast = axes[-1] if axes else None
    body = file.body([axis.name for axis in group.outer], len(group.outer))
    index = e.flat(step.index, step.shape)
    (text,) = body.write([step.value], [index])
    lines = [line for part in body.lines for line in part]
    lines += _combined(file, step, body.index(index), text)
    for axis in reversed(ordered):
        head = f"for (ptrdiff_t {axis.name} = 0; {axis.name} < {c.size_text(axis.size)}; "
        lines = block(f"{head}{axis.name}++)", lines)
    name = file.kernel_name(group, "scatter")
    if fast is None:
        arguments = file.add(name, group, [*file.ones(group.outer), *lines])
        file.block([launched(name, "1", "1", arguments)])
        return
    threads = file.tunable("THREADS", 256, THREADS, "Of a block that maps elements.")
    total = c.size_text(elements(tuple(axis.size for axis in axes)))
    head = ["ptrdiff_t $rest = (ptrdiff_t)blockIdx.x * blockDim.x + threadIdx.x;",
            f"if ($rest >= {total}) return;"]  # fmt: skip
    for axis in reversed(axes[1:]):
        size = c.wrapped(c.size_text(axis.size))
        head += [f"const ptrdiff_t {axis.name} = $rest % {size};", f"$rest /= {size};"]
    head += [f"const ptrdiff_t {axes[0].name} = $rest;", *file.ones(group.outer)]
    file.used.add("tiles")
    arguments = file.add(name, group, [*head, *lines])
    file.block([launched(name, f"tiles({total}, {threads})", threads, arguments)])


def _combined(file: CudaFile, step: Scattered, at: str, text: str) -> list[str]:
    dtype = file.program.buffers[step.buffer].dtype
    kind, place = STORAGE[dtype], f"{step.buffer} + {c.wrapped(at)}"
    value = file.narrowed(step.buffer, text)
    if step.op == "set":
        return [f"{step.buffer}[{at}] = {value};"]
    if step.op == "add" and (dtype in _WORDS or dtype in ("float16", "bfloat16")):
        if dtype in ("int64", "uint64"):  # the same with a sign and without one
            word = "unsigned long long"
            return [f"atomicAdd(({word} *)({place}), ({word}){c.wrapped(value)});"]
        return [f"atomicAdd({place}, ({kind}){c.wrapped(value)});"]
    if step.op in ("max", "min") and dtype in ("int32", "uint32"):
        return [f"atomic{step.op.title()}({place}, ({kind}){c.wrapped(value)});"]
    if step.op in ("max", "min", "mul") and dtype == "float32":
        op = {"mul": "prod"}.get(step.op, step.op)
        file.extra.setdefault(op, JOINS[op])
        file.extra.setdefault("combined", _EXTREME)
        return [f"combined({place}, {value}, {CudaFold('', op, dtype).join});"]
    raise NoSchedule(f"a scatter by {step.op} of {dtype}")
