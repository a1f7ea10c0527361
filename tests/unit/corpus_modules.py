"""Runs modules of the corpus on the CPU, each in a fork: attacks patch what they are loaded into.

Started as a program: `corpus_modules.py import|run REFERENCE MODULE ...`, with a task and a
reference per module. Prints a line of JSON per module: what went wrong, or null.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import warnings
from pathlib import Path
from types import ModuleType

import torch

if importlib.util.find_spec("triton") is not None:
    import triton.language  # noqa: F401  here once, instead of in every fork

DIMS = {
    "softmax": {"N": 5, "D": 257},
    "gemm": {"M": 33, "N": 65, "K": 48},
    "reduction": {"N": 7, "D": 1500},
    "argmax": {"N": 7, "D": 1500},
    "elementwise": {"N": 5003},
    "inplace": {"N": 5003},
    "histogram": {"N": 4099, "B": 19},
    "gemm_bf16": {"M": 33, "N": 65, "K": 144},
    "attention_fp16": {"S": 70, "D": 64},
}


def load(path: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def problem_of(task: str, reference: Path, module: Path) -> str | None:
    """What is wrong with a module, in words."""
    run = load(module, "candidate").run_kernel
    if task == "import":
        return None if callable(run) else "run_kernel can't be called"
    given = load(reference, "reference")
    inputs, outputs = (
        given.setup(**DIMS[reference.name.partition(".")[0]], seed=3)[key]
        for key in ("inputs", "outputs")
    )
    expected = {k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in inputs.items()}
    given.reference(**expected)
    for name in outputs:
        if reference.name != "inplace.device.py":
            inputs[name].fill_(torch.nan if inputs[name].is_floating_point() else -1)
    for _ in range(2 if reference.name != "inplace.device.py" else 1):
        run(**inputs)
    for name in outputs:
        near = 1e-5 if inputs[name].dtype.itemsize > 2 else 2 * torch.finfo(inputs[name].dtype).eps
        scale = 1.0 if near == 1e-5 else float(expected[name].abs().max())
        if not torch.allclose(inputs[name], expected[name], rtol=near, atol=near * scale):
            return f"{name} is wrong"
    return None


def in_a_fork(task: str, reference: Path, module: Path) -> str | None:
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            found = problem_of(task, reference, module)
        except Exception as error:  # noqa: BLE001  a module may raise anything
            found = f"{type(error).__name__}: {error}"
        os.write(write, json.dumps(found).encode()[:4000])
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as channel:
        text = channel.read()
    os.waitpid(pid, 0)
    return json.loads(text) if text else "it ended without an answer"


def main() -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    words = sys.argv[1:]
    for task, reference, module in zip(words[::3], words[1::3], words[2::3], strict=True):
        print(json.dumps(in_a_fork(task, Path(reference), Path(module))), flush=True)


if __name__ == "__main__":
    main()
