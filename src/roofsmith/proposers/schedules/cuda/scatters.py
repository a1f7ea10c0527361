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
from roofsmith.proposers.schedules.cuda.writer import CudaSource, launched
from roofsmith.proposers.schedules.groups import Group, Scattered
from roofsmith.proposers.schedules.lowering import NoSchedule

_WORDS = frozenset(("float32", "float64", "int32", "uint32", "int64", "uint64"))
FEW = 4096
"""Results of which blocks may have their own. Chosen."""
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


def write_scatter(file: CudaSource, group: Group) -> None:
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
        loop = f"for (ptrdiff_t {axis.name} = 0; {axis.name} < {c.size_text(axis.size)}; "
        lines = block(f"{loop}{axis.name}++)", lines)
    name = file.kernel_name(group, "scatter")
    if fast is None:
        arguments = file.add(name, group, [*file.ones(group.outer), *lines])
        file.block([launched(name, "1", "1", arguments)])
        return
    threads = file.tunable("THREADS", 256, THREADS, "Of a block that maps elements.")
    total = c.size_text(elements(tuple(axis.size for axis in axes)))
    parted: list[str] = []
    for axis in reversed(axes[1:]):
        size = c.wrapped(c.size_text(axis.size))
        parted += [f"const ptrdiff_t {axis.name} = $rest % {size};", f"$rest /= {size};"]
    parted += [f"const ptrdiff_t {axes[0].name} = $rest;", *file.ones(group.outer)]
    file.used.add("tiles")
    begin = "(ptrdiff_t)blockIdx.x * blockDim.x + threadIdx.x"
    head = [f"ptrdiff_t $rest = {begin};", f"if ($rest >= {total}) return;"]
    arguments = file.add(name, group, [*head, *parted, *lines])
    launch = launched(name, f"tiles({total}, {threads})", threads, arguments)
    if not _is_counted(file, step):
        file.block([launch])
        return
    most = file.tunable("BINS", 4096, (1024, 2048, 4096, 8192),
                        "Results of which each block has its own in shared memory.")  # fmt: skip
    blocks = file.tunable("SHARERS", 4 * file.wanted.cores, (132, 264, 528, 1056),
                          "Blocks that have such results of their own.")  # fmt: skip
    kind = file.storage(step.buffer)
    size = c.size_text(elements(step.shape))
    private_lines = [line.replace(f"{step.buffer} + ", "$own + ") for line in lines]
    apart = [
        f"__shared__ {kind} $own[{most}];",
        f"for (int $item = threadIdx.x; $item < {size}; $item += blockDim.x) $own[$item] = 0;",
        "__syncthreads();",
        "#pragma unroll 4",
        *block(f"for (ptrdiff_t $at = {begin}; $at < {total}; $at += gridDim.x * blockDim.x)",
               ["ptrdiff_t $rest = $at;", *parted, *private_lines]),
        "__syncthreads();",
        f"for (int $item = threadIdx.x; $item < {size}; $item += blockDim.x)",
        f"    if ($own[$item] != 0) atomicAdd({step.buffer} + $item, $own[$item]);",
    ]  # fmt: skip
    private = file.kernel_name(group, "private_scatter")
    given = file.add(private, group, apart, says="Each block adds up its own first.")
    shape = f"tiles({total}, {threads}) < {blocks} ? tiles({total}, {threads}) : {blocks}"
    file.block([
        f"if ({size} <= {most}) {{",
        f"    const unsigned $shape = {shape};",
        f"    {launched(private, '$shape', threads, given)}",
        "} else {", f"    {launch}", "}",
    ])  # fmt: skip


def _is_counted(file: CudaSource, step: Scattered) -> bool:
    """Whether few results are added up, of a type that shared memory adds."""
    dtype = file.program.buffers[step.buffer].dtype
    size = elements(step.shape)
    few = size.constant if size.constant is not None else file.wanted.most(size, FEW)
    return step.op == "add" and dtype in ("int32", "uint32", "float32") and few <= FEW


def _combined(file: CudaSource, step: Scattered, at: str, text: str) -> list[str]:
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
