"""A process that compiles a reference by TorchInductor, and tells what came of it.

`python -m roofsmith.toolchains.inductor_worker ORDER ANSWER`, both JSON files.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from roofsmith.domain.kernel import Signature
from roofsmith.judge.gpu.reference import GpuReference
from roofsmith.judge.gpu.tensors import set_tf32
from roofsmith.judge.user_module import load_module

_MODES: tuple[dict[str, Any], ...] = (
    {
        "max_autotune": True, "coordinate_descent_tuning": True,
        "max_autotune_gemm_backends": "TRITON", "max_autotune_conv_backends": "TRITON",
    },
    {},
)  # fmt: skip
"""Settings of max-autotune, with products as Triton too, and of the default."""
_THREADS = 8
"""Processes that compile: more were seen to start later than they help."""


def main() -> None:
    """Do as the order says."""
    order = json.loads(Path(sys.argv[1]).read_text())
    try:
        answer = _compiled(order)
    except Exception as error:  # noqa: BLE001  user code and a compiler: either may raise anything
        traceback.print_exc()
        answer = {"error": f"{type(error).__name__}: {error}".splitlines()[0][:300]}
    Path(sys.argv[2]).write_text(json.dumps(answer))


def _compiled(order: dict[str, Any]) -> dict[str, Any]:
    from torch._inductor.runtime import triton_helpers

    module, kernel = load_module(Path(order["reference"])), load_module(Path(order["kernel"]))
    drawn = GpuReference(
        module, kernel, Signature(parameters=()), None, tf32=order["tf32"], device=order["device"]
    )
    sys.modules[module.__name__] = module  # by which torch.compile finds its globals
    set_tf32(order["tf32"])
    workloads = []
    for label, dims in order["workloads"].items():
        values, _ = drawn.inputs(dims, seed=0)
        found = _captured(module.reference, values)
        workloads.append({"label": label, **found})
    helpers = Path(triton_helpers.__file__).read_text()
    return {"workloads": workloads, "helpers": helpers, "version": str(torch.__version__)}


def _captured(reference: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """The code of the first mode that compiles.

    Raises:
        Exception: none does; what the last one said.
    """
    *others, last = _MODES
    for options in others:
        try:
            return _captured_as(reference, values, options)
        except Exception:  # noqa: BLE001  no template fits, say
            traceback.print_exc()
    return _captured_as(reference, values, last)


def _captured_as(
    reference: Any, values: Mapping[str, Any], options: dict[str, Any]
) -> dict[str, Any]:
    from torch._inductor import config
    from torch._inductor.compile_fx import compile_fx, compile_fx_inner
    from torch._inductor.graph import GraphLowering

    torch._dynamo.reset()
    tensors = {name: v for name, v in values.items() if isinstance(v, torch.Tensor)}
    scalars = {name: v for name, v in values.items() if name not in tensors}
    codes: list[str] = []
    arguments: list[str | None] = []

    def filled(*given: torch.Tensor) -> tuple[()]:
        reference(**{**dict(zip(tensors, given, strict=True)), **scalars})
        return ()

    def inner(graph: Any, examples: Any, **settings: Any) -> Any:
        compiled: Any = compile_fx_inner(graph, examples, **settings)

        def call(given: list[Any]) -> Any:
            arguments[:] = [_named(value, tensors) for value in given]
            return compiled(given)

        call._boxed_call = True  # type: ignore[attr-defined]
        return call

    def backend(graph: Any, examples: Any) -> Any:
        return compile_fx(graph, examples, inner_compile=inner)

    settings = {"compile_threads": _THREADS, "fx_graph_cache": False, **options}
    with (
        config.patch(settings),
        mock.patch.object(GraphLowering, "save_output_code", staticmethod(codes.append)),
        torch.no_grad(),
    ):
        compiled = torch.compile(filled, backend=backend, fullgraph=True, dynamic=False)
        compiled(*tensors.values())
        launched = _launched(lambda: compiled(*tensors.values()))
    if len(codes) != 1:
        raise RuntimeError(f"TorchInductor made {len(codes)} graphs of it in place of one")
    return {
        "parameters": list(values),
        "shapes": {name: list(tensor.shape) for name, tensor in tensors.items()},
        "scalars": scalars,
        "arguments": arguments,
        "code": codes[0],
        "kernels": [_tuned(name, tuner) for name, tuner in launched.items()],
    }


def _named(value: Any, tensors: Mapping[str, torch.Tensor]) -> str | None:
    if not isinstance(value, torch.Tensor):
        return None
    return next((n for n, own in tensors.items() if own.data_ptr() == value.data_ptr()), None)


def _launched(call: Callable[[], object]) -> dict[str, Any]:
    """Inductor's own launchers of the kernels that a call runs, by name."""
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    found: dict[str, Any] = {}
    run = CachingAutotuner.run

    def noted(tuner: Any, *args: Any, **settings: Any) -> Any:
        found[tuner.fn.__name__] = tuner
        return run(tuner, *args, **settings)

    with mock.patch.object(CachingAutotuner, "run", noted):
        call()
    return found


def _tuned(name: str, tuner: Any) -> dict[str, Any]:
    from torch._inductor.runtime.triton_heuristics import GridExpr

    chosen = tuner.launchers[0].config
    try:  # in the names of the constants, so that they may change
        grid = GridExpr.from_meta(tuner.inductor_meta, {key: key for key in chosen.kwargs})
    except (AssertionError, TypeError, KeyError):
        grid = GridExpr.from_meta(tuner.inductor_meta, chosen)
    return {
        "name": name,
        "options": dict(chosen.kwargs),
        "num_warps": chosen.num_warps,
        "num_stages": chosen.num_stages,
        "prefix": list(grid.prefix),
        "grid": [str(grid.x_grid), str(grid.y_grid), str(grid.z_grid)],
    }


if __name__ == "__main__":
    main()
