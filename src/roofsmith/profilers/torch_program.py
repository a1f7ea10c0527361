"""A whole program's kernels in a trace of torch.profiler, with the operators that launched them.

A kernel and the operator that launched it have one `External id` (pytorch/kineto,
libkineto/src/output_json.cpp). Where shapes were recorded, what an operator has to move bounds its
time: its inputs, and what it writes where that follows from its name. Pure.
"""

from __future__ import annotations

import math
from collections import Counter as Count
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from roofsmith.profilers.dispatches import Dispatch
from roofsmith.profilers.torch_profiler_trace import devices_of, launch_counters, number

_COPIES = {"gpu_memcpy", "gpu_memset", "memcpy", "memset"}
_OPERATORS = {"cpu_op", "operator"}
_BYTES = {
    "double": 8, "long": 8, "long int": 8, "float": 4, "int": 4, "c10::Half": 2,
    "c10::BFloat16": 2, "short": 2, "bool": 1, "signed char": 1, "unsigned char": 1,
    "c10::Float8_e4m3fn": 1, "c10::Float8_e5m2": 1,
}  # fmt: skip
_MOST_BYTES = 1e15
"""More is no shape that any memory holds."""
_NO_TENSOR = {"", "Scalar", "ScalarList", "Device", "None"}
_LIKE_INPUT = {"_softmax", "_log_softmax", "native_layer_norm", "_fused_rms_norm"}
"""ATen operators whose result has the shape of their first input."""
_TRUTHS = {"eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf", "logical_and", "logical_or",
           "logical_not", "logical_xor"}  # fmt: skip


def read_trace(trace: object) -> tuple[list[Dispatch], set[str]] | None:
    """Every kernel, copy and fill, and names of GPUs; None: it isn't such a trace."""
    events = trace.get("traceEvents") if isinstance(trace, dict) else trace
    if not isinstance(events, list) or not any(_is_event(event) for event in events[:1000]):
        return None
    listed = trace.get("deviceProperties") if isinstance(trace, dict) else None
    devices = devices_of(listed)
    known = [event for event in events if _is_event(event)]
    operators = {
        identity: event
        for event in known
        if _category(event) in _OPERATORS and (identity := _identity(event)) is not None
    }
    ran = [event for event in known if _category(event) in {"kernel", *_COPIES}]
    children = Count(_identity(event) for event in ran)
    found = [
        one for event in ran if (one := _dispatch(event, operators, children, devices)) is not None
    ]
    used = {int(one.device) for one in found if one.device.isdecimal()} & devices.keys()
    return found, {str(devices[place].get("name")) for place in used or devices}


def _dispatch(
    event: Mapping[str, Any],
    operators: Mapping[int, Mapping[str, Any]],
    children: Mapping[int | None, int],
    devices: Mapping[int, Mapping[str, Any]],
) -> Dispatch | None:
    begin, took = number(event.get("ts")), number(event.get("dur"))
    if begin is None or took is None or took < 0:
        return None
    details, identity = _details(event), _identity(event)
    operator = operators.get(identity) if identity is not None else None
    place = number(details.get("device"))
    device = devices.get(int(place or 0), {})
    name = str(event.get("name", ""))
    least = _least_bytes(name, operator) if operator and children[identity] == 1 else None
    return Dispatch(
        name,
        took * 1e-6,
        round(begin * 1e3),
        "" if place is None else str(int(place)),
        is_copy=_category(event) in _COPIES,
        counters=partial(launch_counters, details, device, took * 1e-6),
        operator=str(operator.get("name")) if operator else None,
        source=str(_details(operator).get("kernel_file") or "") or None if operator else None,
        least_bytes=least,
    )


def _least_bytes(kernel: str, operator: Mapping[str, Any]) -> float | None:
    """Of an operator that launched one kernel: what it reads, and what it surely writes."""
    details = _details(operator)
    shapes, types = details.get("Input Dims"), details.get("Input type")
    if not isinstance(shapes, list) or not isinstance(types, list) or len(shapes) != len(types):
        return None
    steps = details.get("Input Strides")
    strides = steps if isinstance(steps, list) and len(steps) == len(shapes) else [()] * len(shapes)
    inputs: list[tuple[list[int], int]] = []
    read = 0
    for shape, kind, step in zip(shapes, map(str, types), strides, strict=True):
        if kind in _NO_TENSOR:
            continue
        if kind not in _BYTES or not _is_shape(shape):
            return None
        once = step if _is_shape(step) and len(step) == len(shape) else [1] * len(shape)
        read += math.prod(n for n, by in zip(shape, once, strict=True) if by) * _BYTES[kind]
        inputs.append((shape, _BYTES[kind]))
    if not inputs:
        return None
    moved = read + _written(kernel, str(operator.get("name", "")), inputs)
    return float(moved) if moved < _MOST_BYTES else None


def _written(kernel: str, operator: str, inputs: Sequence[tuple[list[int], int]]) -> int:
    space, _, plain = operator.rpartition("::")
    if space != "aten" or plain in ("copy_", "fill_", "zero_"):
        return 0  # among the inputs: a kernel's arguments, and what is filled
    shape, width = inputs[0]
    if plain.endswith("_") or plain in _LIKE_INPUT:
        return math.prod(shape) * width
    if "elementwise_kernel" not in kernel:
        return 0
    longest = max(len(some) for some, _ in inputs)
    padded = [[1] * (longest - len(some)) + some for some, _ in inputs]
    elements: int = math.prod(max(sizes) for sizes in zip(*padded, strict=True))
    return elements if plain in _TRUTHS else elements * width


def _is_shape(shape: object) -> bool:
    return isinstance(shape, list) and all(isinstance(n, int) and 0 <= n < 1e15 for n in shape)


def _is_event(event: object) -> bool:
    return isinstance(event, dict) and "ph" in event


def _category(event: Mapping[str, Any]) -> str:
    return str(event.get("cat", "")).lower()


def _details(event: Mapping[str, Any]) -> Mapping[str, Any]:
    details = event.get("args")
    return details if isinstance(details, dict) else {}


def _identity(event: Mapping[str, Any]) -> int | None:
    details = _details(event)
    found = details.get("External id", details.get("external id"))
    return found if isinstance(found, int) else None
