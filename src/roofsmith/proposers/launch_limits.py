"""Launches that no GPU of the kind can make, or that can't pay: seen in the text, before a build.

What can't be computed from the file's constants is no reason against anything. Numbers without a
name are those of the CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable, Iterator, Mapping

from roofsmith.domain.device import Device
from roofsmith.domain.kernel import Candidate
from roofsmith.proposers.arithmetic import computed, value_of
from roofsmith.proposers.cuda_launches import CudaLaunch, CudaLaunches
from roofsmith.proposers.source import Source
from roofsmith.proposers.triton_module import TritonLaunch, TritonModule, last_name
from roofsmith.proposers.tunables_build import defines

THREADS = 1024
"""Of a block."""
RESIDENT_THREADS = 2048
"""Of a multiprocessor."""
STATIC_SHARED_BYTES = 48 << 10
"""Arrays of a fixed size in shared memory of a block on NVIDIA; more must be asked for."""
SHARED_BYTES = 227 << 10
"""Of a block of compute capability 9.0 that asks for it; other devices tell theirs."""
REGISTERS = 64 << 10
"""Of a multiprocessor, 32 bits each."""
MOST_OF_A_THREAD = 256
"""Values of one tile in a thread: more than the 255 registers that it can have."""

_BYTES = {
    "double": 8, "float": 4, "int": 4, "unsigned": 4, "half": 2, "__half": 2, "__nv_bfloat16": 2,
    "half2": 4, "__half2": 4, "float2": 8, "float4": 16, "int4": 16, "uint32_t": 4,
}  # fmt: skip
"""A type that isn't here counts as one byte."""
_BOUNDS = re.compile(r"__launch_bounds__\s*\(([^(),]+),([^(),]+)\)")
_GIVEN = re.compile(
    r"\b([A-Za-z_]\w*)\s*=\s*([^=;,{}\n][^;,{}\n]*)[;,]|#\s*define\s+(\w+)[ \t]+(.+)"
)
_ARRAY = re.compile(
    r"(__shared__\s+)?(?:__align__\(\d+\)\s*|alignas\(\d+\)\s*)?\b(\w+)\s+\w+\s*((?:\[[^\]\[]+\]\s*)+)[;,=]"
)
_PASSES = 4
"""Constants may be made of others, whose definitions come in any order."""


def over_limit(candidate: Candidate, device: Device) -> str | None:
    """Why a candidate isn't worth building for the device; None if nothing speaks against it."""
    kernel = candidate.kernel
    if candidate.language in ("cuda", "hip"):
        read = CudaLaunches(Source(kernel.text, candidate.language))
        names = {**_constants(read.text), **defines(candidate.build)}
        reasons = (_of_cuda(read, one, names, device) for one in read.launches)
        return _crowded(read, names, device) or next(_first(reasons), None)
    if candidate.language == "triton":
        try:
            module = TritonModule(kernel.text)
        except (SyntaxError, ValueError):
            return None
        reasons = (_of_triton(module.tree, one, device) for one in module.launches)
        return next(_first(reasons), None)
    return None


def _first(reasons: Iterable[str | None]) -> Iterator[str]:
    return (reason for reason in reasons if reason is not None)


def _of_cuda(
    read: CudaLaunches, launch: CudaLaunch, names: Mapping[str, int], device: Device
) -> str | None:
    sizes = [computed(read.text[slice(*one)], names) for one in read.block_arguments(launch)]
    known = [size for size in sizes if size is not None]
    threads = math.prod(known) if known and len(known) == len(sizes) else None
    if threads is not None and threads > device.limits.get("max_threads_per_block", THREADS):
        return f"{threads} threads per block"
    if threads is not None and threads % device.limits.get("warp_size", 32):
        return f"{threads} threads per block are no whole warps"
    values = (computed(read.text[slice(*one)], names) for one in launch.templates)
    bound = zip(read.template_names(launch.kernel), values, strict=False)
    names = {**names, **{name: value for name, value in bound if value is not None}}
    span = read.kernel(launch.kernel)
    shared, own = _arrays(read.text[slice(*span)] if span else "", names)
    if shared > _static_bytes(device):
        return f"{shared} bytes of shared memory"
    if threads is not None and own // 4 * threads > device.limits.get("registers", REGISTERS):
        return f"arrays of {own} bytes in each of {threads} threads"
    return None


def _crowded(read: CudaLaunches, names: Mapping[str, int], device: Device) -> str | None:
    """`__launch_bounds__` of more threads than a multiprocessor holds."""
    most = device.limits.get("max_threads", RESIDENT_THREADS)
    for match in _BOUNDS.finditer(read.text):
        threads, blocks = (computed(one, names) for one in match.groups())
        if threads is not None and blocks is not None and threads * blocks > most:
            return f"{blocks} blocks of {threads} threads at once"
    return None


def _static_bytes(device: Device) -> int:
    if device.kind == "nvidia":
        return STATIC_SHARED_BYTES
    return device.limits.get("max_shared_bytes_per_block", SHARED_BYTES)


def _arrays(text: str, names: Mapping[str, int]) -> tuple[int, int]:
    """Bytes of a kernel's arrays in shared memory, and of those in each thread."""
    shared = own = 0
    for match in _ARRAY.finditer(text):
        sides = [computed(side, names) for side in re.findall(r"\[([^\]\[]+)\]", match.group(3))]
        size = _BYTES.get(match.group(2), 1)
        for side in sides:
            size *= side or 0
        if match.group(1):
            shared += size
        elif match.group(2) in _BYTES:
            own += size
    return shared, own


def _constants(text: str) -> dict[str, int]:
    """Names of a file that are given one value."""
    written: dict[str, set[str]] = {}
    for match in _GIVEN.finditer(text):
        name, value = match.group(1) or match.group(3), match.group(2) or match.group(4)
        written.setdefault(name, set()).add(value.strip())
    names: dict[str, int] = {}
    for _ in range(_PASSES):
        for name, values in written.items():
            value = computed(next(iter(values)), names) if len(values) == 1 else None
            if value is not None:
                names[name] = value
    return names


def _of_triton(tree: ast.Module, launch: TritonLaunch, device: Device) -> str | None:
    names = {**_assigned(tree.body), **_assigned(ast.walk(launch.scope))}
    passed = {**launch.kernel.defaults, **launch.arguments}
    given = {name: value_of(value, names) for name, value in passed.items()}
    names |= {name: value for name, value in given.items() if value is not None}
    warps, stages = names.get("num_warps", 4), names.get("num_stages", 3)
    if launch.kernel.autotune is not None:
        return None
    threads = warps * device.limits.get("warp_size", 32)
    tiles = _tiles(launch.kernel.node, names)
    largest = max(map(math.prod, tiles), default=None)
    if largest is not None and largest > MOST_OF_A_THREAD * threads:
        return f"{largest} values in {threads} threads"
    if largest is not None and largest < threads and warps > 4 and all(map(all, tiles)):
        return f"{threads} threads for {largest} values"
    needed = _pipelined_bytes(launch.kernel.node, tiles, stages)
    if needed > device.limits.get("max_shared_bytes_per_block", SHARED_BYTES):
        return f"at least {needed} bytes of shared memory"
    return None


def _assigned(nodes: Iterable[ast.AST]) -> dict[str, int]:
    names: dict[str, int] = {}
    for node in nodes:
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            pairs = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(target.elts, node.value.elts, strict=False))
            for one, value in pairs:
                number = value_of(value, names)
                if isinstance(one, ast.Name) and number is not None:
                    names[one.id] = number
    return names


def _tiles(kernel: ast.FunctionDef, names: Mapping[str, int]) -> list[tuple[int, ...]]:
    """Shapes that a kernel makes; 0 for a side that isn't known."""
    shapes: list[tuple[int, ...]] = []
    for call in ast.walk(kernel):
        if not isinstance(call, ast.Call):
            continue
        made = last_name(call.func)
        if made == "arange" and len(call.args) == 2:
            shapes.append((value_of(call.args[1], names) or 0,))
        elif (
            made in ("zeros", "full")
            and call.args
            and isinstance(call.args[0], (ast.Tuple, ast.List))
        ):
            shapes.append(tuple(value_of(side, names) or 0 for side in call.args[0].elts))
    return shapes


def _pipelined_bytes(kernel: ast.FunctionDef, tiles: list[tuple[int, ...]], stages: int) -> int:
    """Least shared memory for the operands of `tl.dot` in a loop: two bytes a value, one where
    anything of eight bits is named, and one buffer fewer than stages."""
    text = ast.unparse(kernel)
    sums = [tile for tile in tiles if len(tile) == 2 and all(tile)]
    sides = {tile[0] for tile in tiles if len(tile) == 1 and tile[0]}
    if "dot(" not in text or not sums or not sides:
        return 0
    rows, columns = min(sums, key=math.prod)
    depth = min(sides - {rows, columns} or sides)
    size = 1 if re.search(r"float8|fp8|int8", text) else 2
    return (rows + columns) * depth * size * max(1, stages - 1)
