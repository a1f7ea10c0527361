"""The bundled GPU examples, as far as a machine without a GPU can see."""

from __future__ import annotations

import importlib.util
import inspect
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from cuda_kernels import H100, needs_nvcc

from roofsmith.domain.kernel import Built, default_build
from roofsmith.domain.target import Target
from roofsmith.targets.file import load_target
from roofsmith.toolchains import Toolchains

EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL = {
    "cuda/softmax": {"N": 5, "D": 37},
    "cuda/sgemm": {"M": 9, "N": 17, "K": 33},
    "cuda/attention": {"N": 12, "d": 24, "h": 3},
    "triton/softmax": {"N": 5, "D": 37},
    "triton/matmul": {"M": 9, "N": 17, "K": 33},
}
CUDA = [name for name in SMALL if name.startswith("cuda/")]
TRITON = [name for name in SMALL if name.startswith("triton/")]


def target(name: str) -> Target:
    return load_target(EXAMPLES / name)


def module(name: str, file: str) -> ModuleType:
    """A file of an example, imported. Needs torch, and triton for its kernels."""
    pytest.importorskip("torch", reason="PyTorch is not installed")
    if name in TRITON and file == "kernel.py":
        pytest.importorskip("triton", reason="Triton is not installed")
    spec = importlib.util.spec_from_file_location("example", EXAMPLES / name / file)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def made(name: str, seed: int = 3) -> tuple[ModuleType, dict[str, Any]]:
    """The reference, and what the example's `setup` gives for small dimensions."""
    holder = module(name, "kernel.py" if name in TRITON else "reference.py")
    return module(name, "reference.py"), holder.setup(**SMALL[name], seed=seed)


@pytest.mark.parametrize("name", SMALL)
def test_targets_name_their_language_and_dimensions(name: str) -> None:
    loaded = target(name)
    assert loaded.name == name.replace("/", "-")
    assert loaded.language == name.partition("/")[0]
    assert loaded.build == default_build(loaded.language)
    for workload in loaded.workloads:
        assert list(workload.dims) == list(SMALL[name])


@pytest.mark.parametrize("name", SMALL)
def test_the_toolchain_reads_them(name: str, tmp_path: Path) -> None:
    signature = Toolchains(tmp_path).signature(target(name).baseline)
    assert signature.entry == ("run_kernel" if name in TRITON else "solve")


@needs_nvcc
@pytest.mark.parametrize("name", CUDA)
@pytest.mark.slow
def test_they_compile(name: str, tmp_path: Path) -> None:
    result = Toolchains(tmp_path, H100).build(target(name).baseline)
    assert isinstance(result, Built), result
    assert result.warnings == ()
    (kernel,) = result.resources
    assert kernel.spill_store_bytes == 0


@pytest.mark.parametrize("name", TRITON)
def test_the_modules_are_kept(name: str, tmp_path: Path) -> None:
    result = Toolchains(tmp_path).build(target(name).baseline)
    assert isinstance(result, Built), result
    assert result.library.read_text() == target(name).kernel.text


@pytest.mark.parametrize("name", CUDA)
def test_setup_gives_the_arguments_in_the_order_of_solve(name: str, tmp_path: Path) -> None:
    signature = Toolchains(tmp_path).signature(target(name).baseline)
    _, given = made(name)
    assert list(given["inputs"]) == [p.name for p in signature.parameters]
    assert given["outputs"] == [p.name for p in signature.parameters if p.role == "output"]


@pytest.mark.parametrize("name", TRITON)
def test_setup_gives_what_run_kernel_takes(name: str) -> None:
    kernel = module(name, "kernel.py")
    given = kernel.setup(**SMALL[name], seed=0)
    assert list(given["inputs"]) == list(inspect.signature(kernel.run_kernel).parameters)


@pytest.mark.parametrize("name", SMALL)
def test_the_reference_computes_in_every_precision(name: str) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    reference, given = made(name)
    exact = {
        key: value.to(torch.float64) if isinstance(value, torch.Tensor) else value
        for key, value in given["inputs"].items()
    }
    reference.reference(**exact)
    reference.reference(**given["inputs"])
    for output in given["outputs"]:
        assert torch.isfinite(exact[output]).all()
        torch.testing.assert_close(
            given["inputs"][output].to(torch.float64), exact[output], rtol=2e-3, atol=2e-3
        )


@pytest.mark.parametrize("name", SMALL)
def test_declared_bytes_are_those_of_the_arrays(name: str) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    reference, given = made(name)
    arrays = [v for v in given["inputs"].values() if isinstance(v, torch.Tensor)]
    assert reference.bytes(**SMALL[name]) == sum(a.numel() * a.element_size() for a in arrays)
    assert reference.flops(**SMALL[name]) > 0


@pytest.mark.parametrize("name", SMALL)
def test_seeds_change_inputs_and_repeat(name: str) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    first, again, other = (
        next(v for v in made(name, seed)[1]["inputs"].values() if isinstance(v, torch.Tensor))
        for seed in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
