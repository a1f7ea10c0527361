"""Times good kernels for one folder of `unseen/` in a process of its own; `unseen.py` starts it.

Prints a line of JSON: `Library`. A way whose results aren't near the reference's has no time.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch

from gpu_side_by_side import in_turns, module
from roofsmith.targets.file import load_target
from unseen_record import Library, Way

TURNS, TURNS_S = 60, 4.0
"""Whichever comes first, but five turns at least. Chosen."""
NEAR = {torch.float16: 2e-2, torch.float32: 1e-3, torch.float64: 1e-9}
"""Largest difference over the largest value; tells the same work from other work. Chosen."""
NEAR_SHARE = 1e-3
"""Of integers that may differ; ties. Chosen."""

Call = Callable[[], object]


def main() -> None:
    """Time the folder that the command line names."""
    folder = Path(sys.argv[1])
    target = load_target(folder)
    torch.set_num_threads(target.threads or torch.get_num_threads())
    ways = [
        way
        for workload in target.workloads
        for way in timed(folder, workload.label, dict(workload.dims))
    ]
    threads = torch.get_num_threads()
    found = Library(ways=tuple(ways), torch_version=torch.__version__, threads=threads)
    print(found.model_dump_json())


def timed(folder: Path, workload: str, dims: Mapping[str, int]) -> list[Way]:
    """Every way, and each that isn't `EAGER_ONLY` compiled, too, in turns on the same inputs."""
    reference, library = (module(folder / name) for name in ("reference.py", "library.py"))
    given = reference.setup(**dims, seed=1)
    reference.reference(**given["inputs"])
    inputs = {name: tensor(value) for name, value in given["inputs"].items()}
    expected = [inputs[name].clone() for name in given["outputs"]]
    calls, found = {}, []
    for name, way in contenders(library):
        try:
            call = partial(way, **inputs)
            for _ in range(3):
                made = call()
            calls[name] = call
            compare(made if isinstance(made, tuple) else (made,), expected)
        except Exception as error:  # noqa: BLE001 - a way's failure is a result
            calls.pop(name, None)
            why = f"{type(error).__name__}: {error}"[:300]
            found.append(Way(workload=workload, name=name, failed=why))
    on_gpu = expected[0].is_cuda
    for name, seconds in (gpu_times(calls) if on_gpu else cpu_times(calls)).items():
        found.append(Way(workload=workload, name=name, time_s=median(seconds)))
    return found


def contenders(library: Any) -> list[tuple[str, Callable[..., object]]]:
    """By name, eager ones first."""
    torch._dynamo.reset()
    eager = [(way.__name__, way) for way in library.WAYS]
    alone = getattr(library, "EAGER_ONLY", ())
    compiled = [
        (f"{name}, compiled", torch.compile(way, dynamic=False))
        for name, way in eager
        if name not in alone
    ]
    return eager + compiled


def tensor(value: Any) -> Any:
    """An array as the tensor that shares its memory; anything else as it is."""
    if torch.is_tensor(value):
        return value
    return torch.from_numpy(value) if hasattr(value, "__array__") and value.ndim else value


def compare(made: tuple[Any, ...], expected: list[Any]) -> None:
    """ValueError where a result isn't near the reference's."""
    for mine, right in zip(made, expected, strict=True):
        if right.is_floating_point():
            off = float((mine.double() - right.double()).abs().max() / right.double().abs().max())
            is_near = off <= NEAR[right.dtype]
        else:
            off = float((mine != right).double().mean())
            is_near = off <= NEAR_SHARE
        if not is_near:
            raise ValueError(f"off by {off:.1e}")


def cpu_times(calls: Mapping[str, Call]) -> dict[str, list[float]]:
    """Seconds of every call, in a new random order each turn."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    order, begin = list(calls), time.monotonic()
    for turn in range(TURNS):
        if turn >= 5 and time.monotonic() - begin > TURNS_S:
            break
        random.shuffle(order)
        for name in order:
            start = time.perf_counter()
            calls[name]()
            times[name].append(time.perf_counter() - start)
    return times


def gpu_times(calls: Mapping[str, Call]) -> dict[str, list[float]]:
    """Seconds of every call on the device, the L2 written over before each."""
    return {name: [1e-6 * one for one in found] for name, found in in_turns(calls).items()}


if __name__ == "__main__":
    main()
