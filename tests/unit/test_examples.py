"""The bundled examples: each kernel computes what its reference says."""

from __future__ import annotations

import ctypes
import runpy
import subprocess
from pathlib import Path

import numpy as np
import pytest
from recipe_bench import needs_gcc

from roofsmith.proposers.source import Source
from roofsmith.targets.file import load_target

EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL = {
    "softmax": {"N": 5, "D": 37},
    "sgemm": {"M": 9, "N": 17, "K": 33},
    "attention": {"N": 12, "d": 24, "h": 3},
}


@needs_gcc
@pytest.mark.parametrize("name", SMALL)
def test_kernel_and_reference_agree(name: str, tmp_path: Path) -> None:
    library = tmp_path / "kernel.so"
    command = ["gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    kernel = EXAMPLES / name / "kernel.c"
    subprocess.run([*command, str(kernel), "-o", str(library), "-lm"], check=True, timeout=600)
    module = runpy.run_path(str(EXAMPLES / name / "reference.py"))
    made = module["setup"](**SMALL[name], seed=3)
    inputs, outputs = made["inputs"], made["outputs"]
    with np.errstate(invalid="ignore"):  # outputs hold whatever lay in memory
        expected = {
            key: value.astype(np.float64) if isinstance(value, np.ndarray) else value
            for key, value in inputs.items()
        }
    module["reference"](**expected)
    passed = [
        ctypes.c_void_p(value.ctypes.data) if isinstance(value, np.ndarray) else ctypes.c_int(value)
        for value in inputs.values()
    ]
    ctypes.CDLL(str(library)).solve(*passed)
    for output in outputs:
        np.testing.assert_allclose(inputs[output], expected[output], rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", SMALL)
def test_setup_gives_the_arguments_in_the_order_of_solve(name: str) -> None:
    solve = Source((EXAMPLES / name / "kernel.c").read_text()).function("solve")
    module = runpy.run_path(str(EXAMPLES / name / "reference.py"))
    made = module["setup"](**SMALL[name], seed=0)
    assert list(made["inputs"]) == [parameter.name for parameter in solve.parameters]
    writable = [p.name for p in solve.parameters if p.pointer and not p.const]
    assert made["outputs"] == writable


@pytest.mark.parametrize("name", SMALL)
def test_seeds_change_inputs_and_repeat(name: str) -> None:
    setup = runpy.run_path(str(EXAMPLES / name / "reference.py"))["setup"]
    first, again, other = (setup(**SMALL[name], seed=seed)["inputs"] for seed in (1, 1, 2))
    array = next(key for key, value in first.items() if isinstance(value, np.ndarray))
    assert np.array_equal(first[array], again[array])
    assert not np.array_equal(first[array], other[array])


@pytest.mark.parametrize("name", SMALL)
def test_declared_bytes_are_those_of_the_arrays(name: str) -> None:
    module = runpy.run_path(str(EXAMPLES / name / "reference.py"))
    inputs = module["setup"](**SMALL[name])["inputs"]
    moved = sum(value.nbytes for value in inputs.values() if isinstance(value, np.ndarray))
    assert module["bytes"](**SMALL[name]) == moved
    assert module["flops"](**SMALL[name]) > 0


@pytest.mark.parametrize("name", SMALL)
def test_targets_name_their_files_and_dimensions(name: str) -> None:
    target = load_target(EXAMPLES / name)
    assert target.name == name
    assert target.kernel.text == (EXAMPLES / name / "kernel.c").read_text()
    for workload in target.workloads:
        assert list(workload.dims) == list(SMALL[name])
