"""Sorts in CUDA: a row in the shared memory of a block, or each element's rank counted."""

from __future__ import annotations

from roofsmith.computation.building import ONE
from roofsmith.computation.sizes import elements
from roofsmith.proposers.schedules import c_values as c
from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.c_writer import block
from roofsmith.proposers.schedules.cuda.writer import CudaSource, launched
from roofsmith.proposers.schedules.groups import Axis, Group, Sorted
from roofsmith.proposers.schedules.lowering import NoSchedule

Lines = list[str]
LONGEST = 1 << 15
"""Elements of a row up to which counting ranks, whose cost is their square, is no loss. Chosen."""
_AHEAD = """\
// Whether one element of a row comes before another: NaN is larger than all, and equals keep
// their order. Places from `n` on are behind everything.
template <bool DOWN, typename T>
__device__ bool is_ahead(T a, int a_at, T b, int b_at, int n) {
    if (a_at >= n || b_at >= n) return a_at < b_at;
    const bool a_larger = a > b || (a != a && b == b), b_larger = b > a || (b != b && a == a);
    if (a_larger || b_larger) return DOWN ? a_larger : b_larger;
    return a_at < b_at;
}"""
_BITONIC = """\
// Batcher, "Sorting Networks and Their Applications" (1968); `size` is a power of two.
template <bool DOWN, typename T>
__device__ void sort_in_block(T *keys, int *places, int n, int size) {
    for (int width = 2; width <= size; width *= 2) {
        for (int step = width / 2; step > 0; step /= 2) {
            __syncthreads();
            for (int one = threadIdx.x; one < size; one += blockDim.x) {
                const int other = one ^ step;
                if (other < one) continue;
                const bool swapped = is_ahead<DOWN>(keys[other], places[other], keys[one],
                                                    places[one], n);
                if (swapped != ((one & width) == 0)) continue;
                const T key = keys[one];
                const int place = places[one];
                keys[one] = keys[other];
                places[one] = places[other];
                keys[other] = key;
                places[other] = place;
            }
        }
    }
    __syncthreads();
}"""


def write_sort(file: CudaSource, group: Group) -> None:
    """Two kernels, for rows that shared memory holds and for longer ones.

    Raises:
        NoSchedule: Rows are too long, or more is done with them at once.
    """
    step, *rest = group.steps
    if rest or not isinstance(step, Sorted) or len(group.inner) != 1:
        raise NoSchedule("a sort beside other steps")
    (axis,) = group.inner
    if file.wanted.most(axis.size, 1) > LONGEST:
        raise NoSchedule("a sort of long rows isn't written in CUDA here")
    most = file.tunable("SORTED", 2048, (1024, 2048, 4096),
                        "Elements of a row that is sorted in shared memory.")  # fmt: skip
    file.extra.setdefault("ahead", _AHEAD)
    file.extra.setdefault("bitonic", _BITONIC)
    outer = [a for a in group.outer if a.size != ONE]
    rows = c.size_text(elements(tuple(a.size for a in outer)))
    span = c.size_text(axis.size)
    file.used.add("tiles")
    short, long = file.kernel_name(group, "sorted"), file.kernel_name(group, "ranked")
    one = file.add(short, group, _in_block(file, group, step, axis, most))
    other = file.add(
        long, group, _by_rank(file, group, step, axis),
        says="Each element goes where it belongs, by how many come before it.",
    )  # fmt: skip
    file.block([
        f"const unsigned $rows = {rows};",
        f"if ({span} <= {most}) {{",
        "    int $shape = 32;",
        f"    while ($shape < 1024 && 2 * $shape < {span}) $shape *= 2;",
        f"    {launched(short, '$rows', '$shape', one)}",
        "} else {",
        f"    {launched(long, f'$rows * tiles({span}, 256)', '256', other)}",
        "}",
    ])  # fmt: skip


def _kind(step: Sorted) -> str:
    return c.computed(step.value.dtype)


def _value(file: CudaSource, group: Group, step: Sorted, axis: Axis) -> tuple[Lines, str]:
    """An element of the row, where the axis's variable is known."""
    names = [*(a.name for a in group.outer), axis.name]
    body = file.body(names, len(names))
    (text,) = body.write([step.value])
    return [line for part in body.lines for line in part], text


def _stored(file: CudaSource, group: Group, step: Sorted, axis: Axis, key: str, at: str) -> Lines:
    """The element of that key, which was at a place, where the axis's variable says."""
    names = [*(a.name for a in group.outer), axis.name]
    body = file.body(names, len(names))
    index = e.flat(step.index, step.shape)
    body.write([], [index])
    value = at if step.order else file.narrowed(step.buffer, key)
    lines = [line for part in body.lines for line in part]
    return [*lines, f"{step.buffer}[{body.index(index)}] = {value};"]


def _row(file: CudaSource, group: Group, mine: str) -> Lines:
    axes = [a for a in group.outer if a.size != ONE]
    lines = file.ones(group.outer)
    if not axes:
        return lines
    lines.append(f"ptrdiff_t $rest = {mine};")
    for axis in reversed(axes[1:]):
        size = c.wrapped(c.size_text(axis.size))
        lines += [f"const ptrdiff_t {axis.name} = $rest % {size};", f"$rest /= {size};"]
    return [*lines, f"const ptrdiff_t {axes[0].name} = $rest;"]


def _in_block(file: CudaSource, group: Group, step: Sorted, axis: Axis, most: str) -> Lines:
    before, text = _value(file, group, step, axis)
    a, down = axis.name, str(step.descending).lower()
    return [
        f"__shared__ {_kind(step)} $keys[{most}];", f"__shared__ int $places[{most}];",
        *_row(file, group, "blockIdx.x"),
        f"const int $count = {c.size_text(axis.size)};", "int $size = 1;",
        "while ($size < $count) $size *= 2;",
        *block("for (int $item = threadIdx.x; $item < $size; $item += blockDim.x)", [
            "$places[$item] = $item;",
            *block("if ($item < $count)", [
                f"const ptrdiff_t {a} = $item;", *before, f"$keys[$item] = {text};",
            ]),
        ]),
        f"sort_in_block<{down}>($keys, $places, $count, $size);",
        *block(f"for (ptrdiff_t {a} = threadIdx.x; {a} < {c.size_text(step.count)}; "
               f"{a} += blockDim.x)",
               _stored(file, group, step, axis, f"$keys[{a}]", f"$places[{a}]")),
    ]  # fmt: skip


def _by_rank(file: CudaSource, group: Group, step: Sorted, axis: Axis) -> Lines:
    before, text = _value(file, group, step, axis)
    a, down, size = axis.name, str(step.descending).lower(), c.size_text(axis.size)
    return [
        f"__shared__ {_kind(step)} $keys[256];",
        f"const int $count = {size};",
        "const unsigned $turns = ($count + 255) / 256;",
        *_row(file, group, "blockIdx.x / $turns"),
        "const int $place = blockIdx.x % $turns * 256 + threadIdx.x;",
        f"{_kind(step)} $key = 0;",
        *block("if ($place < $count)", [
            f"const ptrdiff_t {a} = $place;", *before, f"$key = {text};",
        ]),
        "ptrdiff_t $rank = 0;",
        *block("for (int $begin = 0; $begin < $count; $begin += 256)", [
            f"const ptrdiff_t {a} = $begin + threadIdx.x;",
            "__syncthreads();",
            *block(f"if ({a} < $count)", [*before, f"$keys[threadIdx.x] = {text};"]),
            "__syncthreads();",
            *block("for (int $item = 0; $item < 256 && $begin + $item < $count; $item++)", [
                f"$rank += is_ahead<{down}>($keys[$item], $begin + $item, $key, $place, $count);",
            ]),
        ]),
        *block(f"if ($place < $count && $rank < {c.size_text(step.count)})", [
            f"const ptrdiff_t {a} = $rank;",
            *_stored(file, group, step, axis, "$key", "$place"),
        ]),
    ]  # fmt: skip
