"""Times every setting of the kernels in `search_spaces.py` once: the tables of `search.py`.

    python benchmarks/search_record.py --limit-s 110 --out rows.jsonl

Workers compile side by side; one at a time uses the GPU. A row is written as it comes, and the
same command goes on with those that its file lacks.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import multiprocessing as mp
import queue
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from roofsmith.proposers.tunables import apply
from search_spaces import SPACES, Settings, Space

REPEAT_MS = 40


def measured(space: Space, settings: Settings, held: dict[str, Any], lock: Any) -> dict[str, Any]:
    """A row: seconds to compile, and of a call, or why there are none."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    if space.file not in held:
        with lock:
            given = space.arrays(torch, device, 1 if device == "cuda" else 64)
            held[space.file] = given, space.expected(torch, given).float()
    given, expected = held[space.file]
    begin = time.perf_counter()
    kernel = loaded(apply(space.candidate, settings).kernel.text)
    with compiling():
        space.call(kernel, given)
    compile_s = time.perf_counter() - begin
    with lock:
        begin = time.perf_counter()
        given["y"].zero_()
        space.call(kernel, given)
        off = (given["y"].float() - expected).abs().max() / expected.abs().max()
        if not float(off) <= space.tolerance:
            return {"failed": f"wrong by {float(off):.2g}"}
        time_s = timed(lambda: space.call(kernel, given), device)
        return {"compile_s": compile_s, "time_s": time_s, "look_s": time.perf_counter() - begin}


def timed(call: Any, device: str) -> float:
    """Median seconds of a call whose inputs aren't in the L2 cache."""
    if device == "cpu":
        begin = time.perf_counter()
        call()
        return time.perf_counter() - begin
    from triton.testing import do_bench

    return float(do_bench(call, warmup=10, rep=REPEAT_MS, return_mode="median")) / 1e3


@contextmanager
def compiling() -> Iterator[None]:
    """Launches are left out; what they would compile is compiled."""
    from triton.runtime.jit import JITFunction

    run = JITFunction.run
    JITFunction.run = lambda self, *args, grid, warmup, **more: run(  # noqa: ARG005
        self, *args, grid=grid, warmup=True, **more
    )
    try:
        yield
    finally:
        JITFunction.run = run


def loaded(text: str) -> ModuleType:
    """The module of a source, which Triton reads from its file."""
    path = Path(tempfile.mkdtemp()) / "kernel.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(f"kernel_{path.parent.name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def work(tasks: Any, rows: Any, lock: Any) -> None:
    """A worker: the next settings, until there are none."""
    held: dict[str, Any] = {}
    last = ""
    while (task := tasks.get()) is not None:
        name, settings = task
        if name != last:
            held.clear()
            last = name
        try:
            row = measured(SPACES[name], settings, held, lock)
        except Exception as error:  # noqa: BLE001 - what can't be launched is a row as well
            row = {"failed": f"{type(error).__name__}: {error}"[:200]}
        rows.put({"space": name, "settings": settings, "on": where(), **row})


def where() -> str:
    """Device and versions."""
    import torch
    import triton

    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "interpreter"
    return f"{device}, PyTorch {torch.__version__}, Triton {triton.__version__}"


def main() -> None:
    """Record what the file lacks until time is over."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--out", type=Path, required=True)
    options.add_argument("--known", type=Path, nargs="*", default=[])
    options.add_argument("--limit-s", type=float, default=110.0)
    options.add_argument("--workers", type=int, default=14)
    options.add_argument("--most", type=int, help="rows of a space, to rehearse")
    given = options.parse_args()
    until = time.monotonic() + given.limit_s
    known = set()
    for path in (given.out, *given.known):
        lines = path.read_text().splitlines() if path.exists() else []
        known |= {_key(row["space"], row["settings"]) for row in map(json.loads, lines)}
    context = mp.get_context("spawn")
    tasks, rows, lock = context.Queue(), context.Queue(), context.Lock()
    due = 0
    for name, space in SPACES.items():
        for settings in list(space.points)[: given.most]:
            if _key(name, settings) not in known:
                tasks.put((name, dict(settings)))
                due += 1
    workers = [
        context.Process(target=work, args=(tasks, rows, lock), daemon=True)
        for _ in range(given.workers)
    ]
    for worker in workers:
        tasks.put(None)
        worker.start()
    with given.out.open("a") as out:
        while due and (left_s := until - time.monotonic()) > 0:
            try:
                row = rows.get(timeout=left_s)
            except queue.Empty:
                break
            due -= 1
            out.write(json.dumps(row) + "\n")
            out.flush()
    print(f"{due} rows are missing", flush=True)
    for worker in workers:
        worker.terminate()


def _key(name: str, settings: Settings) -> str:
    return json.dumps([name, dict(sorted(settings.items()))])


if __name__ == "__main__":
    main()
