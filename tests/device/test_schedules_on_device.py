"""CUDA kernels that are written from graphs compute, on a GPU, what the graphs mean.

pytest -m device tests/device/test_schedules_on_device.py -s
prints what share of a copy's rate some of them reach at sizes that fill the device.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gpu_bench import environment_or_skip

from roofsmith.computation.evaluate import evaluate, sizes
from roofsmith.computation.graph import Graph
from roofsmith.cuda_programs import find_program
from roofsmith.proposers.schedules.cuda.module import cuda_kernel
from roofsmith.proposers.schedules.wanted import Wanted

sys.path[:0] = [str(Path(__file__).parents[1] / "unit"), str(Path(__file__).parents[2])]
from test_schedules import GUARD, signature_of  # noqa: E402
from test_schedules_cuda import EVERY, RUNS, inputs_of, kernel_of  # noqa: E402

pytestmark = pytest.mark.device
torch = pytest.importorskip("torch")
KINDS = {"int32": ctypes.c_int, "float32": ctypes.c_float, "float64": ctypes.c_double}
LARGE: Mapping[str, Mapping[str, int]] = {
    "softmax": {"N": 16384, "D": 4096}, "layer_norm": {"N": 16384, "D": 1000},
    "gelu_chain": {"N": 8192, "D": 8192}, "transposed_sum": {"N": 8192, "D": 8192},
    "softmax_of_columns": {"N": 512, "D": 65536}, "concat_of_three": {"N": 8192, "D": 2048},
    "running_sums": {"N": 4096, "D": 8192}, "half_precision_sum": {"N": 16384, "D": 4096},
    "long_sums": {"N": 2, "D": 1 << 25}, "histogram": {"D": 1 << 27},
    "embedding": {"N": 65536, "D": 1024}, "statistics_of_channels": {"B": 64, "C": 64, "D": 12544},
}  # fmt: skip


def built(texts: Mapping[str, str], folder: Path) -> ctypes.CDLL:
    """All files in one library, each entry with its file's name behind it."""
    parts = [
        f"namespace n{at} {{\n{re.sub('#include.*', '', text)}\n}}".replace(
            "void solve(", f"void solve_{name}("
        )
        for at, (name, text) in enumerate(texts.items())
    ]
    includes = dict.fromkeys(re.findall("#include.*", "".join(texts.values())))
    source, library = folder / "all.cu", folder / "all.so"
    source.write_text("\n".join([*includes, *parts]))
    nvcc = find_program("nvcc")
    if nvcc is None:
        pytest.skip("nvcc is not installed")
    command = [str(nvcc), "-arch=native", "-O3", "-shared", "-Xcompiler", "-fPIC", str(source)]
    subprocess.run([*command, "-o", str(library)], check=True)
    return ctypes.CDLL(str(library))


def placed(
    graph: Graph, given: Mapping[str, Any], dims: Mapping[str, int]
) -> tuple[list[Any], dict[str, Any]]:
    """Arguments on the device, and whole arrays with guards by name."""
    arguments: list[Any] = []
    memory: dict[str, Any] = {}
    for p in signature_of(graph).parameters:
        if p.role == "size":
            value = dims[p.name] if p.name in dims else given[p.name].item()
            arguments.append(KINDS[p.dtype](value))
            continue
        if p.name in given:
            flat = torch.from_numpy(np.ascontiguousarray(given[p.name]).ravel())
        else:
            count = int(np.prod(sizes(graph[graph.outputs[p.name]].shape, dims)))
            flat = torch.full((count,), 77, dtype=getattr(torch, p.dtype))
        edge = torch.full((GUARD,), 99, dtype=flat.dtype)
        memory[p.name] = torch.cat([edge, flat, edge]).cuda()
        at = memory[p.name].data_ptr() + GUARD * flat.element_size()
        arguments.append(ctypes.c_void_p(at))
    return arguments, memory


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    environment_or_skip()
    texts = {name: kernel_of(EVERY[name]()).text for name in RUNS}
    return built(texts, tmp_path_factory.mktemp("cuda"))


@pytest.mark.parametrize("name", RUNS)
def test_computes_what_the_graph_means(name: str, library: ctypes.CDLL) -> None:
    case = EVERY[name]()
    for dims in case.dims:
        given = inputs_of(case, dims)
        wanted = evaluate(case.graph, given, dims)
        arguments, memory = placed(case.graph, given, dims)
        library[f"solve_{name}"](*arguments)
        torch.cuda.synchronize()
        for output, right in wanted.items():
            got = memory[output][GUARD:-GUARD].double().cpu().numpy().reshape(right.shape)
            scale = max(1.0, float(np.abs(right).max(initial=0.0)))
            np.testing.assert_allclose(
                got, right.astype(np.float64), rtol=5 * case.tolerance,
                atol=5 * case.tolerance * scale, err_msg=f"{output} at {dims}",
            )  # fmt: skip
        for array, whole in memory.items():
            edges = torch.cat([whole[:GUARD], whole[-GUARD:]])
            assert bool((edges == torch.full_like(edges, 99)).all()), array


def seconds(call: Callable[[], object]) -> float:
    """The least of some calls."""
    best = float("inf")
    for _ in range(20):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call()
        end.record()
        torch.cuda.synchronize()
        best = min(best, begin.elapsed_time(end) / 1e3)
    return best


def test_rates_are_printed(tmp_path: Path) -> None:
    environment_or_skip()
    cores = torch.cuda.get_device_properties(0).multi_processor_count
    cases = {name: EVERY[name]() for name in LARGE}
    texts = {
        name: cuda_kernel(
            case.graph, signature_of(case.graph), Wanted(dims=(LARGE[name],), cores=cores)
        ).text
        for name, case in cases.items()
    }
    library = built(texts, tmp_path)
    source = torch.empty(1 << 28, device="cuda")
    target = torch.empty_like(source)
    copied = 2 * source.nbytes / seconds(lambda: target.copy_(source))
    print(f"\ncopy: {copied / 1e12:.2f} TB/s")
    for name, case in cases.items():
        arguments, memory = placed(case.graph, inputs_of(case, LARGE[name]), LARGE[name])
        bound = sum(one.nbytes for one in memory.values()) / copied
        took = seconds(lambda name=name, given=arguments: library[f"solve_{name}"](*given))
        print(f"{name}: {took * 1e6:.0f} us, {bound / took:.2f} of a copy's rate")
        assert took > 0
