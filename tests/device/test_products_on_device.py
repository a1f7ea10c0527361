"""Products and attention of CUDA schedules compute, on a GPU, what graphs mean.

pytest -m device tests/device/test_products_on_device.py -s
prints how long some of them take at large sizes, beside PyTorch's.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gpu_bench import environment_or_skip

from roofsmith.computation.evaluate import evaluate
from roofsmith.cuda_programs import find_program
from roofsmith.proposers.schedules.cuda.module import cuda_kernel
from roofsmith.proposers.schedules.wanted import Wanted
from roofsmith.toolchains.compilers import compiler_environment

sys.path[:0] = [str(Path(__file__).parents[1] / "unit"), str(Path(__file__).parents[2])]
from test_schedules import signature_of  # noqa: E402
from test_schedules_cuda_products import (  # noqa: E402
    DIMS,
    FEWER,
    HEADS,
    RUNS,
    graph_of,
    inputs_of,
    text_of,
)

pytestmark = pytest.mark.device
torch = pytest.importorskip("torch")
LARGE: dict[str, tuple[dict[str, int], Callable[..., Any]]] = {
    "plain_3xtf32": ({"M": 4096, "N": 4096, "K": 4096}, lambda x, w: x @ w),
    "plain_ffma": ({"M": 4096, "N": 4096, "K": 4096}, lambda x, w: x @ w),
    "plain_tf32": ({"M": 4096, "N": 4096, "K": 4096}, lambda x, w: x @ w),
    "halves_mma": ({"M": 8192, "N": 8192, "K": 8192},
                   lambda x, w, bias: torch.nn.functional.silu(x @ w.T + bias)),
    "halves_wgmma": ({"M": 8192, "N": 8192, "K": 8192},
                     lambda x, w, bias: torch.nn.functional.silu(x @ w.T + bias)),
    "halves_in_batches_wgmma": ({"B": 16, "M": 2048, "N": 2048, "K": 2048},
                                lambda x, w, bias: x.transpose(1, 2) @ w + bias),
    "attention": ({"B": 32, "M": 2048, "N": 2048, "K": 64},
                  lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(
                      q, k, v, scale=0.25)),
    "attention_half": ({"B": 64, "M": 4096, "N": 4096, "K": 64},
                       lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(
                           q, k, v, scale=0.25)),
}  # fmt: skip


def built(text: str, folder: Path) -> Any:
    environment_or_skip()
    compiler = find_program("nvcc")
    if compiler is None:
        pytest.skip("nvcc is not installed")
    major, minor = torch.cuda.get_device_capability()
    if major < 9 and "launch_wgmma(kernel_" in text:
        pytest.skip("no warpgroup instructions")
    arch = f"sm_{major}{minor}" + ("a" if major >= 9 else "")
    source, library = folder / "k.cu", folder / "k.so"
    source.write_text(text)
    command = [str(compiler), f"-arch={arch}", "-O3", "-shared", "-Xcompiler", "-fPIC"]
    linked = ["-lcuda"] if "launch_wgmma(" in text else []
    # A machine's NVCC_APPEND_FLAGS may ask for code that no warpgroup instruction is part of.
    subprocess.run(
        [*command, str(source), "-o", str(library), *linked],
        check=True, env=compiler_environment(folder),
    )  # fmt: skip
    return ctypes.CDLL(str(library))


def arguments_of(graph: Any, arrays: dict[str, Any], dims: dict[str, int]) -> list[Any]:
    given: list[Any] = []
    for p in signature_of(graph).parameters:
        if p.role != "size":
            given.append(ctypes.c_void_p(arrays[p.name].data_ptr()))
        elif p.name in dims:
            given.append(ctypes.c_int(dims[p.name]))
        else:
            given.append(ctypes.c_float(arrays[p.name].item()))
    return given


@pytest.mark.parametrize("name", RUNS)
def test_computes_what_the_graph_means(name: str, tmp_path: Path) -> None:
    graph = graph_of(RUNS[name][0])
    library = built(text_of(name), tmp_path)
    loose = {"tf32": 5e-3, "mma": 4e-3, "wgmma": 4e-3, "half_attention": 4e-3}
    tolerance = loose.get(RUNS[name][1], 3e-5)
    for dims in HEADS if "attention" in name else FEWER.get(RUNS[name][0], DIMS):
        given = inputs_of(graph, dims)
        wanted = evaluate(graph, given, dims)
        arrays = {one: torch.from_numpy(np.ascontiguousarray(a)).cuda() for one, a in given.items()}
        for output, right in wanted.items():
            if output not in arrays:
                kind = getattr(torch, str(graph[graph.outputs[output]].dtype))
                arrays[output] = torch.full(right.shape, 77, dtype=kind, device="cuda")
        library.solve(*arguments_of(graph, arrays, dict(dims)))
        torch.cuda.synchronize()
        for output, right in wanted.items():
            got = arrays[output].double().cpu().numpy().reshape(right.shape)
            scale = max(1.0, float(np.abs(right).max(initial=0.0)))
            np.testing.assert_allclose(
                got, right.astype(np.float64), rtol=tolerance, atol=tolerance * scale,
                err_msg=f"{output} of {name} at {dims}",
            )  # fmt: skip


@pytest.mark.timing
@pytest.mark.parametrize("name", LARGE)
def test_speed_is_told(name: str, tmp_path: Path) -> None:
    dims, other = LARGE[name]
    graph = graph_of(RUNS[name][0])
    arch = "sm_90" if name.endswith("wgmma") else "sm_75" if name.endswith("ffma") else None
    wanted = Wanted(dims=(dims,), arch=arch, tf32=name.endswith("_tf32"))
    library = built(cuda_kernel(graph, signature_of(graph), wanted).text, tmp_path)
    arrays: dict[str, Any] = {}
    for node in graph.inputs():
        if node.shape:
            shape = tuple(size.at(dims) for size in node.shape)
            kind = getattr(torch, str(node.dtype))
            arrays[node.name] = torch.randn(shape, device="cuda").to(kind)
    inputs = list(arrays.values())
    expected = other(*inputs)
    arrays["out"] = torch.empty_like(expected)
    arguments = arguments_of(graph, arrays, dims)
    spent = []
    for run in (lambda: library.solve(*arguments), lambda: other(*inputs)):
        for _ in range(3):
            run()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(10):
            run()
        end.record()
        torch.cuda.synchronize()
        spent.append(begin.elapsed_time(end) / 10)
    error = float((arrays["out"].float() - expected.float()).abs().max())
    print(f"\n{name}: {spent[0]:.3f} ms, PyTorch {spent[1]:.3f} ms; apart by {error:.2g}")
