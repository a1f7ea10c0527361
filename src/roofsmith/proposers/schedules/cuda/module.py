"""A whole CUDA file: kernels, and the entry that launches them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from roofsmith.computation.bounds import needed_sizes
from roofsmith.computation.graph import Graph
from roofsmith.domain.kernel import Signature
from roofsmith.proposers.schedules.c_file import (
    entry_parameters,
    given_numbers,
    repeated,
    signed_numbers,
    told,
    value_prefix,
)
from roofsmith.proposers.schedules.c_writer import broken, indented
from roofsmith.proposers.schedules.cuda.attention import write_attention
from roofsmith.proposers.schedules.cuda.body import STORAGE, in_float32
from roofsmith.proposers.schedules.cuda.nests import write_group
from roofsmith.proposers.schedules.cuda.products import write_product
from roofsmith.proposers.schedules.cuda.writer import (
    RESERVED,
    WIDTH,
    CudaSource,
    broken_parameters,
    resolved,
    tunable_text,
)
from roofsmith.proposers.schedules.gpu_file import words
from roofsmith.proposers.schedules.groups import Buffer, Group, Program, Reduced, Scanned, rewritten
from roofsmith.proposers.schedules.lowering import NoSchedule
from roofsmith.proposers.schedules.matrix_products import HALVES
from roofsmith.proposers.schedules.partition import partition
from roofsmith.proposers.schedules.regroup import regrouped
from roofsmith.proposers.schedules.wanted import Wanted

MARK = "Kernels written from what the reference computes"
"""In the first line of every such file."""
_INCLUDES = "cuda_bf16.h", "cuda_fp16.h", "cuda_runtime.h", "math.h", "stddef.h", "stdint.h"


@dataclass(frozen=True)
class CudaText:
    text: str
    told: str
    """What its kernels are, in words."""
    has_products: bool = False


def cuda_kernel(graph: Graph, signature: Signature, wanted: Wanted | None = None) -> CudaText:
    """Kernels of a graph, behind the entry of a signature.

    Args:
        graph: what is computed; arrays and numbers have the names of the signature's parameters.
        signature: the entry: pointers to memory of the device, and numbers.

    Raises:
        NoSchedule: It can't be written.
    """
    program = partition(graph)
    program = regrouped(program)
    numbers = _checked(program, signature)
    prefix = value_prefix([one.name for one in signature.parameters])
    file = CudaSource(widened(program), wanted or Wanted(), numbers=numbers, prefix=prefix)
    file.taken |= {*program.buffers, *program.places.ranges}
    file.taken |= {p.name for p in signature.parameters}
    file.names |= {*HELPERS, *RESERVED, *file.taken}
    scratch = [one for one in program.buffers.values() if one.role == "scratch"]
    for (loop, groups), (_, wide) in zip(program.runs(), file.program.runs(), strict=True):
        before, file.host = file.host, []
        _write_groups(file, program, groups, wide)
        inside, file.host = file.host, before
        turn = "turn" if "turn" not in file.taken else "turn_"
        file.host += (
            inside if loop is None else repeated(program, loop, inside, turn, STORAGE.__getitem__)
        )
    head = [f"// {MARK}, one after another."]
    if needed := needed_sizes(graph):
        head.append(f"// For {', '.join(needed)}: below, other elements or steps are needed.")
    entry = _entry(file, signature, scratch)
    slots = [f"constexpr int SLOTS = {file.slots};"] if "work_space" in file.used else []
    parts = [
        "\n".join([*head, *(f"#include <{one}>" for one in sorted({*_INCLUDES, *file.includes}))]),
        "namespace {",
        "\n".join([tunable_text(one) for one in file.tunables.values()] + slots),
        *helper_codes(file.used),
        *file.extra.values(),
        *file.kernels,
        "}  // namespace",
        entry,
    ]
    text = resolved("\n\n".join(part for part in parts if part) + "\n", file.taken)
    return CudaText(text, told(program), file.has_products)


def _write_groups(
    file: CudaSource, program: Program, groups: Sequence[Group], widened: Sequence[Group]
) -> None:
    """One after another; `widened` are the same with values of 16 bits in float32."""
    skipped = 0
    for at, (group, wide) in enumerate(zip(groups, widened, strict=True)):
        if skipped:
            skipped -= 1
        elif write_attention(file, program, groups[at : at + 3]):
            skipped = 2
        elif not write_product(file, group):
            write_group(file, wide)


def widened(program: Program) -> Program:
    """With values of 16-bit floats computed in float32; arrays stay what they are."""

    groups = []
    for group in program.groups:
        steps = []
        for step in group.steps:
            step = rewritten(step, in_float32)
            if isinstance(step, Reduced | Scanned) and step.dtype in HALVES:
                step = replace(step, dtype="float32")
            steps.append(step)
        groups.append(replace(group, steps=tuple(steps)))
    return replace(program, groups=tuple(groups))


def _checked(program: Program, signature: Signature) -> dict[str, str]:
    """As `given_numbers`, if CUDA has its types and names."""
    for buffer in program.buffers.values():
        if buffer.dtype not in STORAGE:
            raise NoSchedule(f"{buffer.dtype} is no type of CUDA here")
    if clash := {p.name for p in signature.parameters} & (RESERVED | {*HELPERS}):
        raise NoSchedule(f"{', '.join(sorted(clash))} has a meaning of its own in what is written")
    return given_numbers(program, signature)


def _entry(file: CudaSource, signature: Signature, scratch: Sequence[Buffer]) -> str:
    """The function that the judge calls."""
    host = list(file.host)
    used = words(host)
    memory = [file.memory(buffer) for buffer in scratch if buffer.name in used]
    signed = signed_numbers(signature)
    parameters = entry_parameters(signature, STORAGE.__getitem__)
    head = f'extern "C" void {signature.entry}('
    line = head + ", ".join(parameters) + ") {"
    if len(line) > WIDTH:
        line = broken_parameters(head, parameters) + ") {"
    inner = [part for one in indented([*signed, *memory, *host]) for part in broken(one.rstrip())]
    return "\n".join([line, *inner, "}"])


HELPERS: Mapping[str, str] = {
    "Vector": "// Neighbours in memory, which are loaded and stored at once.\n"
    "template <typename T, int N>\n"
    "struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Vector {\n    T at[N];\n};",
    "load": "template <int N, typename T>\n"
    "__device__ Vector<T, N> load(const T *from) {\n"
    "    Vector<T, N> values;\n"
    "    constexpr int SIZE = sizeof(values);\n"
    "    if constexpr (SIZE % 16 == 0) {\n"
    "        #pragma unroll\n"
    "        for (int at = 0; at < SIZE / 16; at++) {\n"
    "            reinterpret_cast<int4 *>(&values)[at] = "
    "reinterpret_cast<const int4 *>(from)[at];\n"
    "        }\n"
    "    } else {\n"
    "        values = *reinterpret_cast<const Vector<T, N> *>(from);\n"
    "    }\n"
    "    return values;\n}",
    "store": "// By an intrinsic, since a plain store of a vector may be taken apart.\n"
    "template <int N, typename T>\n"
    "__device__ void store(T *to, const Vector<T, N> &values) {\n"
    "    constexpr int SIZE = sizeof(values);\n"
    "    if constexpr (SIZE % 16 == 0) {\n"
    "        #pragma unroll\n"
    "        for (int at = 0; at < SIZE / 16; at++) {\n"
    "            __stcg(reinterpret_cast<int4 *>(to) + at, "
    "reinterpret_cast<const int4 *>(&values)[at]);\n"
    "        }\n"
    "    } else if constexpr (SIZE == 8) {\n"
    "        __stcg(reinterpret_cast<int2 *>(to), *reinterpret_cast<const int2 *>(&values));\n"
    "    } else {\n"
    "        *reinterpret_cast<Vector<T, N> *>(to) = values;\n"
    "    }\n}",
    "is_aligned": "bool is_aligned(const void *array) {\n"
    "    return (uintptr_t)array % 16 == 0;\n}",
    "tiles": "unsigned tiles(ptrdiff_t size, ptrdiff_t tile) {\n"
    "    return (unsigned)((size + tile - 1) / tile);\n}",
    "block_for": "// A block as wide as what lies in one piece, and as high as threads suffice.\n"
    "dim3 block_for(ptrdiff_t width, int threads) {\n"
    "    int x = 1;\n"
    "    while (x < threads && x < width) x *= 2;\n"
    "    return dim3(x, threads / x);\n}",
    "column_block": "// Up to 32 threads side by side, or more to a column.\n"
    "dim3 column_block(ptrdiff_t width) {\n"
    "    int x = 1;\n"
    "    while (x < 32 && x < width) x *= 2;\n"
    "    return dim3(x, 32 * DEEP / x);\n}",
    "squared": "template <typename T>\n__device__ T squared(T a) {\n    return a * a;\n}",
    "cubed": "template <typename T>\n__device__ T cubed(T a) {\n    return a * a * a;\n}",
    "larger": "// The larger; NaN where one is.\n"
    "__device__ {0} larger_{0}({0} a, {0} b) {{\n    return b > a || b != b ? b : a;\n}}",
    "smaller": "// The smaller; NaN where one is.\n"
    "__device__ {0} smaller_{0}({0} a, {0} b) {{\n    return b < a || b != b ? b : a;\n}}",
    "floor_quotient": "__device__ {0} floor_quotient_{0}({0} a, {0} b) {{\n"
    "    return ({0})floor(a / b);\n}}",
    "floor_remainder": "// Of the divisor's sign.\n"
    "__device__ {0} floor_remainder_{0}({0} a, {0} b) {{\n"
    "    const {0} rest = ({0})fmod(a, b);\n"
    "    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;\n}}",
    "whole_quotient": "// Rounded down.\n"
    "__device__ int64_t whole_quotient(int64_t a, int64_t b) {\n"
    "    return a / b - (a % b != 0 && (a < 0) != (b < 0));\n}",
    "whole_remainder": "// Of the divisor's sign.\n"
    "__device__ int64_t whole_remainder(int64_t a, int64_t b) {\n"
    "    const int64_t rest = a % b;\n"
    "    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;\n}",
    "whole_power": "__device__ int64_t whole_power(int64_t base, int64_t exponent) {\n"
    "    int64_t power = 1;\n"
    "    for (; exponent > 0; exponent--) power *= base;\n    return power;\n}",
    "work_space": "// Work space stays from call to call; it holds no result.\n"
    "template <typename T>\n"
    "T *work_space(int slot, size_t count) {\n"
    "    static struct {\n        void *memory;\n        size_t size;\n    } slots[SLOTS];\n"
    "    if (slots[slot].size < count * sizeof(T)) {\n"
    "        cudaFree(slots[slot].memory);\n"
    "        cudaMalloc(&slots[slot].memory, count * sizeof(T));\n"
    "        slots[slot].size = count * sizeof(T);\n    }\n"
    "    return (T *)slots[slot].memory;\n}",
}  # fmt: skip
_NEEDS = {"load": ("Vector",), "store": ("Vector",)}


def helper_codes(used: set[str]) -> list[str]:
    """Definitions of what is called, those that others need first."""
    wanted = {need for name in used for need in (name, *_NEEDS.get(name, ()))}
    codes = []
    kinds = ("float", "double")
    for name, code in HELPERS.items():
        if name in wanted:
            codes.append(code)
        codes += [code.format(kind) for kind in kinds if f"{name}_{kind}" in wanted]
    return codes
