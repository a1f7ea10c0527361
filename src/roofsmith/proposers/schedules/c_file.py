"""A whole file of C or C++: what groups need around them."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from roofsmith.computation.bounds import needed_sizes
from roofsmith.computation.graph import Graph
from roofsmith.computation.sizes import Shape, elements
from roofsmith.domain.kernel import Signature
from roofsmith.proposers.recipes._code import rendered
from roofsmith.proposers.schedules import c_values as c
from roofsmith.proposers.schedules.byte_tables import with_byte_tables
from roofsmith.proposers.schedules.c_attention import attention_in, with_attention
from roofsmith.proposers.schedules.c_memory import with_shared_memory
from roofsmith.proposers.schedules.c_nests import CNests
from roofsmith.proposers.schedules.c_sorts import sort_codes
from roofsmith.proposers.schedules.c_writer import broken, indented
from roofsmith.proposers.schedules.formulas import formula, said
from roofsmith.proposers.schedules.groups import (
    Axis,
    Group,
    Program,
    Reduced,
    Repetition,
    Scanned,
    Scattered,
    Sorted,
)
from roofsmith.proposers.schedules.in_place import repeated_in_place
from roofsmith.proposers.schedules.lanes_across import with_lanes_across
from roofsmith.proposers.schedules.lowering import NoSchedule
from roofsmith.proposers.schedules.partition import partition
from roofsmith.proposers.schedules.products import with_products
from roofsmith.proposers.schedules.unrolling import with_short_sums

MARK = "Written from what the reference computes"
"""In the first line of every such file that is to be fast."""
PLAIN = "Plainly what the reference computes"
"""There in a file to begin with."""
FLAGS = ("-fopenmp-simd", "-fno-math-errno", "-fno-trapping-math")
"""What gcc needs to vectorise selects and square roots; results stay the same."""
REACHED = 0.7
"""Part of the roofline that groups get to which read and write each array about once. Chosen."""
REACHED_BY_PRODUCTS = 0.2
"""Part that a product of matrices gets to without packing. Chosen."""
REACHED_BY_PACKED = 0.8
"""Part that a packed product gets to; on Zen 3 it was 0.85 to 0.9 from 512 on."""
REACHED_IN_ORDER = 0.05
"""Part that one thread gets to, one element after another. Chosen."""
_CONSTANTS: Mapping[str, tuple[str, str]] = {
    "COLUMNS": ("Columns that are summed up side by side.", "128 [32, 64, 128, 256, 512]"),
    "TILE": ("Rows and columns of a tile that is turned in the cache.", "32 [16, 32, 64]"),
    "QUERIES": ("Queries of a block, which keep their sums.", "128 [64, 128, 256]"),
    "KEYS": ("Keys of a block, whose scores are there at once.", "256 [128, 256, 512]"),
    "PARTS": ("Parts of a long sum, which are joined in this order.", "64 [16, 64, 256]"),
}
_TEMPLATES = {
    "expf": ("expf",), "exp": ("exp",), "tanhf": ("expf", "tanhf"), "logf": ("logf",),
    "erff": ("expf", "erff"), "log1pf": ("logf", "log1pf"),
}  # fmt: skip
_HELPERS = {
    "larger": "/* The larger; NaN where one is. */\n"
    "static inline {0} larger_{0}({0} a, {0} b) {{\n"
    "    const {0} most = b > a ? b : a; /* one instruction, which keeps a NaN in a */\n"
    "    return b != b ? b : most;\n}}",
    "smaller": "/* The smaller; NaN where one is. */\n"
    "static inline {0} smaller_{0}({0} a, {0} b) {{\n"
    "    const {0} least = b < a ? b : a; /* one instruction, which keeps a NaN in a */\n"
    "    return b != b ? b : least;\n}}",
    "most": "/* The larger; a where one is NaN. */\n"
    "static inline {0} most_{0}({0} a, {0} b) {{\n    return b > a ? b : a;\n}}",
    "least": "/* The smaller; a where one is NaN. */\n"
    "static inline {0} least_{0}({0} a, {0} b) {{\n    return b < a ? b : a;\n}}",
    "nan_if": "/* Without a branch: the value is there in any case. */\n"
    "static inline {0} nan_if_{0}(int odd, {0} value) {{\n    return odd ? NAN : value;\n}}",
    "floor_quotient": "static inline {0} floor_quotient_{0}({0} a, {0} b) {{\n"
    "    return ({0})floor(a / b);\n}}",
    "floor_remainder": "/* Of the divisor's sign. */\n"
    "static inline {0} floor_remainder_{0}({0} a, {0} b) {{\n"
    "    const {0} rest = ({0})fmod(a, b);\n"
    "    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;\n}}",
    "whole_quotient": "/* Rounded down. */\n"
    "static inline int64_t whole_quotient(int64_t a, int64_t b) {{\n"
    "    return a / b - (a % b != 0 && (a < 0) != (b < 0));\n}}",
    "whole_remainder": "/* Of the divisor's sign. */\n"
    "static inline int64_t whole_remainder(int64_t a, int64_t b) {{\n"
    "    const int64_t rest = a % b;\n"
    "    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;\n}}",
    "whole_power": "static inline int64_t whole_power(int64_t base, int64_t exponent) {{\n"
    "    int64_t power = 1;\n"
    "    for (; exponent > 0; exponent--) power *= base;\n    return power;\n}}",
}
_SCRATCH = """/* Work space stays from call to call, since fresh pages cost; it holds no result. */
static void *work_space(int slot, size_t size) {{
    static struct {{
        void *memory;
        size_t size;
    }} slots[{count}];
    if (slots[slot].size < size) {{
        free(slots[slot].memory);
        slots[slot].memory = malloc(size);
        if (slots[slot].memory == NULL) abort();
        slots[slot].size = size;
    }}
    return slots[slot].memory;
}}"""


@dataclass(frozen=True)
class CKernel:
    """A file, and the flags that it is built with beside a usual build's."""

    text: str
    flags: tuple[str, ...]
    told: str
    """What it consists of, for people."""
    reach: float
    """What part of the roofline its slowest group gets to, as a rule."""


def c_kernel(
    graph: Graph, signature: Signature, *, language: str, threads: int,
    dims: Sequence[Mapping[str, int]] = (), fused: bool = True,
    packing: Callable[[str, bool], str] | None = None, mark: str = MARK,
) -> CKernel:  # fmt: skip
    """A kernel of a graph, with the entry of a signature.

    Args:
        graph: what it computes; arrays and numbers have the names of the signature's parameters.
        language: c or cpp.
        threads: that it may use.
        dims: of the workloads; they decide what is worth threads or parts, never what is right.
        fused: whether operations share loops.
        packing: code that multiplies matrices of a C type, in batches, too, by `gemm()` and
            `gemm_spread()`; None: products are plain loops.
        mark: how the first line begins.

    Raises:
        NoSchedule: It can't be written.
    """
    graph = with_short_sums(graph) if fused else graph
    program = repeated_in_place(with_byte_tables(partition(graph, fused=fused), dims))
    if packing is not None:
        program = program if program.loops else with_attention(program, dims)
        program = with_products(program, dims, next(iter(_packed(program)), None))
    program = with_lanes_across(program, dims) if fused else program
    program = program if program.loops else with_shared_memory(program)
    types = _check(program, signature, language)
    given = [p.name for p in signature.parameters]
    prefix = value_prefix(given)
    axes = {axis.name for group in program.groups for axis in axes_of(group)}
    taken = frozenset((*program.places.taken, *program.buffers, *given, *axes))
    nests = CNests(program, threads, tuple(dims), types, prefix, taken)
    body: list[str] = []
    for loop, groups in program.runs():
        written = [line for one in groups for line in ("", *described(one), *nests.schedule(one))]
        body += written if loop is None else repeated(program, loop, written, nests.own("turn"))
    meant = {*_CALL.findall("\n".join(body)), *nests.used, "work_space"}
    if clash := sorted(meant.intersection(given)):
        raise NoSchedule(f"{', '.join(clash)} has a meaning of its own in what is written")
    slots = [b for b in program.buffers.values() if b.role == "scratch"]
    memory = [
        f"{c.storage(b.dtype)} *{b.name} = ({c.storage(b.dtype)} *)"
        f"work_space({at}, sizeof({c.storage(b.dtype)}) * {count_text(b.shape)});"
        for at, b in enumerate(slots)
    ]
    signed = signed_numbers(signature)
    lines = [*signed, *memory, *body] if signed or memory else body[1:]
    packed = _packed(program)
    code = ""
    if packing is not None and packed:
        code = packing(c.storage(packed[0]), "gemm_spread" in nests.used).strip()
    needed = needed_sizes(graph)
    only = (
        f"/* For {', '.join(needed)}: below, other elements or steps are needed. */"
        if needed
        else ""
    )
    head = [f"/* {mark}: groups of loops, one after the other. */", *([only] if only else [])]
    text = _head(head, nests.used, len(slots), language, code) + _entry(signature, language)
    lines = [part for line in indented(lines) for part in broken(line.rstrip())]
    text += " {\n" + "\n".join(lines) + "\n}\n"
    shared = ("-fopenmp",) if threads > 1 else ()
    return CKernel(text, (*shared, *FLAGS), told(program), reach(program))


_CALL = re.compile(r"(?<!\w)([A-Za-z_]\w*)\(")


def _packed(program: Program) -> list[str]:
    """Types that packed products are of."""
    found = [group.product.dtype for group in program.groups if group.product is not None]
    online = [attention_in(group) for group in program.groups]
    return found + [one.query.dtype for one in online if one is not None]


def repeated(
    program: Program, loop: Repetition, body: Sequence[str], turn: str,
    storage: Callable[[str], str] = c.storage,
) -> list[str]:  # fmt: skip
    """A loop around groups; behind each iteration memory is handed on."""
    moves = loop.handed_on
    old = {name: f"{name}_before" for name in moves}
    inside = [
        *(body[1:] if body and not body[0] else body),
        *(f"{storage(program.buffers[name].dtype)} *const {kept} = {name};"
          for name, kept in old.items()),
        *(f"{name} = {old[source]};" for name, source in moves.items()),
    ]  # fmt: skip
    return [
        "",
        f"for (ptrdiff_t {turn} = 0; {turn} < {c.size_text(loop.count)}; {turn}++) {{",
        *(f"    {line}" if line else line for line in inside),
        "}",
    ]


def value_prefix(given: Sequence[str]) -> str:
    """How names of values begin, which have a number behind it: as none that are given do."""
    return next(
        prefix for prefix in ("v", "e", "value", "value_of_")
        if not any(re.fullmatch(rf"{prefix}\d+", name) for name in given)
    )  # fmt: skip


def _check(program: Program, signature: Signature, language: str) -> dict[str, str]:
    """As `given_numbers`, if C has its types."""
    for buffer in program.buffers.values():
        c.storage(buffer.dtype)
        if buffer.dtype == "float16" and language != "c":
            raise NoSchedule("_Float16 is no type of C++ here")
    return given_numbers(program, signature)


def given_numbers(program: Program, signature: Signature) -> dict[str, str]:
    """Types of an entry's numbers by name, if all that is needed is given.

    Raises:
        NoSchedule: It isn't.
    """
    given = {p.name: p for p in signature.parameters}
    for buffer in program.buffers.values():
        if buffer.role == "scratch":
            continue
        if buffer.name not in given:
            raise NoSchedule(f"{signature.entry} isn't given {buffer.name}")
        parameter = given[buffer.name]
        if parameter.dtype != buffer.dtype:
            raise NoSchedule(f"{buffer.name} is {parameter.dtype}, and {buffer.dtype} in the graph")
        if buffer.role == "output" and parameter.role != "output":
            raise NoSchedule(f"{buffer.name} is const")
    numbers: dict[str, str] = {p.name: p.dtype for p in signature.parameters if p.role == "size"}
    axes = [axis for group in program.groups for axis in axes_of(group)]
    named = {axis.name for axis in axes}
    dims = program.dims.union(*(axis.size.dims for axis in axes))
    for name in (dims | set(program.numbers)) - named:
        if name not in numbers:
            raise NoSchedule(f"{signature.entry} isn't given {name}")
    return numbers


def count_text(shape: Shape) -> str:
    """Elements of an array, for `sizeof`."""
    text = c.size_text(elements(shape))
    return f"(size_t){text}" if text.isidentifier() else f"(size_t)({text})"


def _head(comments: Sequence[str], used: set[str], slots: int, language: str, products: str) -> str:
    """Comments, includes, constants and helpers."""
    includes = ["math.h", "stddef.h", "stdint.h"]
    includes += ["stdlib.h"] if slots or "stdlib.h" in used else []
    includes += ["stdbool.h"] if language == "c" else []
    parts = ["\n".join([*comments, *(f"#include <{name}>" for name in sorted(includes))])]
    for name, (comment, choices) in _CONSTANTS.items():
        if name in used:
            value = choices.split()[0]
            parts.append(f"/* {comment} */\n// tune: {name} = {choices}\n#define {name} {value}")
    templates = dict.fromkeys(t for name in sorted(used) for t in _TEMPLATES.get(name, ()))
    parts += [rendered(name, vector=False).strip() for name in templates]
    for name in sorted(used):
        stem, _, kind = name.rpartition("_")
        code = _HELPERS.get(name) or _HELPERS.get(stem)
        if code is not None:
            parts.append(code.format(kind))
    parts += sort_codes(used)
    parts += [products] if products else []
    if slots:
        parts.append(_SCRATCH.format(count=slots))
    return "\n\n".join(parts) + "\n\n"


def _entry(signature: Signature, language: str) -> str:
    parameters = entry_parameters(signature, c.storage, "__restrict__ ")
    extern = 'extern "C" ' if language == "cpp" else ""
    head = f"{extern}void {signature.entry}("
    line = head + ", ".join(parameters) + ")"
    if len(line) <= 98:
        return line
    return head + (",\n" + " " * len(head)).join(parameters) + ")"


UNSIGNED = frozenset(("uint8", "uint16", "uint32", "uint64"))
"""Types of numbers that indices below zero would be lost in."""


def entry_parameters(
    signature: Signature, storage: Callable[[str], str], restrict: str = ""
) -> list[str]:
    """Of the function that is called, of which numbers without a sign are another's `_given`."""
    consts = {"input": "const ", "output": ""}
    return [
        f"{consts[p.role]}{storage(p.dtype)} *{restrict}{p.name}" if p.role in consts
        else f"{plain(p.dtype, storage)} {p.name}{'_given' if p.dtype in UNSIGNED else ''}"
        for p in signature.parameters
    ]  # fmt: skip


def signed_numbers(signature: Signature) -> list[str]:
    """Statements that give such numbers a sign."""
    return [
        f"const ptrdiff_t {p.name} = (ptrdiff_t){p.name}_given;"
        for p in signature.parameters
        if p.role == "size" and p.dtype in UNSIGNED
    ]


def plain(dtype: str, storage: Callable[[str], str]) -> str:
    """The type of a number that is given by value."""
    return {"int32": "int", "uint64": "size_t"}.get(dtype) or storage(dtype)


def told(program: Program) -> str:
    """How many groups of loops there are, and what they do."""
    kinds = [kind_of(group) for group in program.groups]
    counted = [f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds)]
    return ", ".join(counted)


def kind_of(group: Group) -> str:
    """In a word."""
    if group.product is not None:
        return "packed product"
    if attention_in(group) is not None:
        return "attention online"
    match group.steps[0]:
        case Scattered():
            return "scatter"
        case Sorted():
            return "sort"
        case Scanned():
            return "scan"
        case Reduced(factors=None):
            return "reduction"
        case Reduced():
            return "product"
        case _:
            return "map"


def reach(program: Program) -> float:
    """The part of the roofline that loops like these get to: rules of thumb, which order ideas."""
    return min((_reach(group) for group in program.groups), default=REACHED)


def _reach(group: Group) -> float:
    if not group.steps:
        return REACHED_BY_PACKED
    match group.steps[0]:
        case Scattered() if group.loop is not None or len(group.outer) < 2:  # in order, on a thread
            return REACHED_IN_ORDER
        case Scanned() if not group.outer:
            return REACHED_IN_ORDER
        case Reduced() as step if step.factors is not None and len(group.outer) > 1:
            return REACHED_BY_PRODUCTS
        case _:
            return REACHED


def axes_of(group: Group) -> tuple[Axis, ...]:
    """All loops of a group, those inside a product, too."""
    inside: tuple[Axis, ...] = ()
    if (one := group.product) is not None:
        inside = (one.rows, one.columns, one.depth)
    if (online := attention_in(group)) is not None:
        inside = (online.n, online.d, online.depth)
    return (*group.outer, *group.inner, *inside)


def described(group: Group) -> list[str]:
    """What a group computes, as a comment."""
    text = said(group, c.size_text)
    if (one := attention_in(group)) is not None:
        query, key, value = (formula(v, c.size_text) for v in (one.query, one.key, one.value))
        results = ", ".join(store.buffer for store in one.stores)
        text = f"{results} = {value} weighted by the softmax of {query} times {key}, online."
    lines = textwrap.wrap(text, 88, break_long_words=False, break_on_hyphens=False)
    return [("/* " if at == 0 else "   ") + line for at, line in enumerate(lines[:-1])] + [
        ("/* " if len(lines) == 1 else "   ") + lines[-1] + " */"
    ]
