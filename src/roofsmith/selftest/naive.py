"""A deliberately naive evaluator: what many do, and what every attack of the corpus deceives.

Started as a process: `python -m roofsmith.selftest.naive REQUEST.json`. It loads the candidate into
itself, draws inputs from one fixed seed, has the reference compute the expected outputs in the very
buffers that the candidate then gets, compares once, and takes the mean of some calls on those same
buffers with its own clock. The other kernel is timed likewise, afterwards. The verdict is the last
line that it prints. Nothing in roofsmith decides by it.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

SEED = 42
WARM_CALLS = 3
TIMED_CALLS = 50
TOLERANCE = 1e-2
"""Absolute and relative: what public benchmarks of generated kernels allow in float32."""


def main() -> None:
    """Judge as the request says, and print what came of it."""
    request = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    reference = _module(request["reference"])
    given = reference.setup(**request["dims"], seed=SEED)
    inputs, outputs = given["inputs"], given["outputs"]
    expected = _expected(reference, inputs, outputs)
    candidate = _kernel(request["candidate"], inputs)
    candidate()
    correct = all(_close(inputs[name], expected[name]) for name in outputs)
    candidate_s = _mean_s(candidate, request["on_device"])
    base_s = _mean_s(_kernel(request["base"], inputs), request["on_device"])
    verdict = {"correct": correct, "candidate_s": candidate_s, "base_s": base_s}
    print(json.dumps(verdict), flush=True)


def _expected(reference: ModuleType, inputs: dict[str, Any], outputs: list[str]) -> dict[str, Any]:
    """Copies of the right outputs, which stay behind in the buffers that they were computed in."""
    arrays = {name: value for name, value in inputs.items() if not isinstance(value, int)}
    before = {name: _copy(value) for name, value in arrays.items()}
    reference.reference(**inputs)
    expected = {name: _copy(inputs[name]) for name in outputs}
    if set(outputs) == set(arrays):  # in place: the kernel needs what the reference overwrote
        for name, value in arrays.items():
            value[...] = before[name]
    return expected


def _close(out: Any, expected: Any) -> bool:
    if isinstance(out, np.ndarray):
        return bool(np.allclose(out, expected, rtol=TOLERANCE, atol=TOLERANCE))
    import torch

    return bool(torch.allclose(out, expected, rtol=TOLERANCE, atol=TOLERANCE))


def _mean_s(call: Callable[[], object], on_device: bool) -> float:
    for _ in range(WARM_CALLS):
        call()
    if on_device:
        return _mean_of_events_s(call)
    begin = time.perf_counter()
    for _ in range(TIMED_CALLS):
        call()
    return (time.perf_counter() - begin) / TIMED_CALLS


def _mean_of_events_s(call: Callable[[], object]) -> float:
    import torch

    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    begin.record()
    for _ in range(TIMED_CALLS):
        call()
    end.record()
    torch.cuda.synchronize()
    return float(begin.elapsed_time(end)) * 1e-3 / TIMED_CALLS


def _kernel(path: str, inputs: dict[str, Any]) -> Callable[[], object]:
    if path.endswith(".py"):
        run = _module(path).run_kernel
        return lambda: run(**inputs)
    solve = ctypes.CDLL(path).solve
    solve.restype = None
    arguments = [_argument(value) for value in inputs.values()]
    return lambda: solve(*arguments)


def _argument(value: Any) -> Any:
    if isinstance(value, int):
        return ctypes.c_int(value)
    address = value.ctypes.data if isinstance(value, np.ndarray) else value.data_ptr()
    return ctypes.c_void_p(address)


def _copy(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value.clone()


def _module(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(Path(path).name.partition(".")[0], path)
    assert spec is not None  # it ends in .py
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main()
