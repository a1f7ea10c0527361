"""Times contenders on one workload in one process, in random turns; `gpu.py` starts it.

Reads a `Lineup` (JSON) on stdin and prints a line of JSON: `Timed`. Each call is timed by two
events around it, after the L2 was written over and while the device waits for as long as the host
needs to queue the call, so that launches aren't in the time.
"""

from __future__ import annotations

import ctypes
import importlib.util
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from gpu_lineup import Contender, Lineup, Timed

FLUSHED_BYTES = 512 * 2**20
"""Written before every call: several times any L2, 0.2 ms at 3 TB/s. Chosen."""
HELD_CYCLES = 4_000_000
"""For which the device waits: 2 ms at 2 GHz. A module of Triton that makes descriptors, or one that
torch.compile made, takes the host up to 0.3 ms to queue."""
TURNS = 60
TURNS_S = 6.0
"""Whichever comes first, but five turns at least."""
WARM_CALLS = 3
WAITS = Path(__file__).parents[1] / "src/roofsmith/toolchains/defer_waits.h"

Call = Callable[[], object]
Inputs = Mapping[str, Any]


def main() -> None:
    """Time what stdin names."""
    lineup = Lineup.model_validate_json(sys.stdin.read())
    print(timed(lineup).model_dump_json())


def timed(lineup: Lineup) -> Timed:
    """All contenders of a lineup."""
    reference = module(lineup.reference)
    setup = getattr(reference, "setup", None) or module(lineup.kernels["naive"]).setup
    given = setup(**lineup.dims, seed=1)
    inputs, outputs = given["inputs"], given["outputs"]
    expected = exact(reference.reference, inputs, outputs)
    calls, found = {}, {}
    for name, make in makers(reference, lineup, inputs).items():
        try:
            call = make()
            for name_ in outputs:
                inputs[name_].zero_()
            made = call()
            torch.cuda.synchronize()
            if isinstance(made, torch.Tensor):  # a library that writes nowhere else
                inputs[outputs[0]].copy_(made.reshape(inputs[outputs[0]].shape))
            found[name] = Contender(name=name, error=error_of(inputs, expected))
            for _ in range(WARM_CALLS):
                call()
            torch.cuda.synchronize()
            calls[name] = call
        except Exception as error:  # noqa: BLE001 - a contender's failure is a result
            found[name] = Contender(name=name, failed=f"{type(error).__name__}: {error}"[:400])
    for name, times in in_turns(calls).items():
        update = {"times_us": tuple(times), "median_us": median(times)}
        found[name] = found[name].model_copy(update=update)
    return Timed(
        dims=lineup.dims,
        bytes=reference.bytes(**lineup.dims),
        flops=reference.flops(**lineup.dims),
        copy_bytes_per_s=copy_rate(),
        flops_per_s=product_rates(),
        contenders=tuple(found.values()),
    )


def makers(reference: Any, lineup: Lineup, inputs: Inputs) -> dict[str, Callable[[], Call]]:
    """How each contender is made ready, by name."""
    made: dict[str, Callable[[], Call]] = {
        name: partial(kernel, path, inputs, lineup.flags.get(name, ()))
        for name, path in lineup.kernels.items()
    }
    made["eager"] = lambda: lambda: reference.reference(**inputs)
    if lineup.compiles:
        made["compile"] = lambda: compiled(reference.reference, inputs)
    if lineup.library is not None:
        made |= LIBRARIES[lineup.library](inputs)
    tf32 = {"cublas": False, "cublas-tf32": True}
    return {name: with_tf32(make, tf32.get(name, lineup.tf32)) for name, make in made.items()}


def with_tf32(make: Callable[[], Call], allowed: bool) -> Callable[[], Call]:
    """A contender whose calls may use TF32, or may not."""

    def ready() -> Call:
        torch.backends.cuda.matmul.allow_tf32 = allowed
        call = make()

        def run() -> object:
            torch.backends.cuda.matmul.allow_tf32 = allowed
            return call()

        return run

    return ready


def module(path: Path) -> Any:
    """A Python file, imported."""
    spec = importlib.util.spec_from_file_location(f"{path.parent.name}_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def kernel(path: Path, inputs: Inputs, flags: tuple[str, ...]) -> Call:
    """A kernel file's call."""
    if path.suffix == ".py":
        run = module(path).run_kernel
        return lambda: run(**inputs)
    library = Path(tempfile.mkdtemp()) / "kernel.so"
    major, minor = torch.cuda.get_device_capability()
    own = f"{major}{minor}a" if major >= 9 else f"{major}{minor}"  # as a campaign builds
    arch = f"-gencode=arch=compute_{own},code=sm_{own}"
    command = ["nvcc", *flags, arch, "-shared", "-Xcompiler", "-fPIC", "-cudart=shared"]
    subprocess.run([*command, "-include", str(WAITS), "-o", str(library), str(path)], check=True)
    ctypes.CDLL("libcuda.so.1", mode=ctypes.RTLD_GLOBAL)  # whose TMA descriptors a kernel may use
    loaded = ctypes.CDLL(str(library))
    ctypes.c_int.in_dll(loaded, "roofsmith_defer_waits").value = 1
    solve = loaded.solve
    arguments = [
        ctypes.c_void_p(value.data_ptr()) if isinstance(value, torch.Tensor) else value
        for value in inputs.values()
    ]
    return lambda: solve(*arguments)


def compiled(reference: Callable[..., None], inputs: Inputs) -> Call:
    """By TorchInductor, which tries every template it has; the first call takes long."""
    run = torch.compile(reference, mode="max-autotune-no-cudagraphs", dynamic=False)
    return lambda: run(**inputs)


def exact(reference: Callable[..., None], inputs: Inputs, outputs: list[str]) -> dict[str, Any]:
    """What is right: in float64 if that fits, else as the reference makes it."""
    torch.backends.cuda.matmul.allow_tf32 = False
    wide = {
        name: value.double() if isinstance(value, torch.Tensor) and value.is_floating_point()
        else value
        for name, value in inputs.items()
    }  # fmt: skip
    try:
        reference(**wide)
        return {name: wide[name].float() for name in outputs}
    except Exception:  # noqa: BLE001 - not every operator has it
        reference(**inputs)
        return {name: inputs[name].float().clone() for name in outputs}


def error_of(inputs: Inputs, expected: Mapping[str, Any]) -> float:
    """The largest over all outputs."""
    return max(
        float((inputs[name].float() - right).abs().max() / right.abs().max().clamp_min(1e-30))
        for name, right in expected.items()
    )


def in_turns(calls: Mapping[str, Call]) -> dict[str, list[float]]:
    """Microseconds of every call."""
    flushed = torch.empty(FLUSHED_BYTES, dtype=torch.uint8, device="cuda")
    times: dict[str, list[float]] = {name: [] for name in calls}
    order, begin = list(calls), time.monotonic()
    for turn in range(TURNS):
        if turn >= 5 and time.monotonic() - begin > TURNS_S:
            break
        random.shuffle(order)
        for name in order:
            times[name].append(event_us(calls[name], flushed))
    return times


def event_us(call: Call, flushed: torch.Tensor | None = None) -> float:
    """Microseconds of one call on the device."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    if flushed is not None:
        flushed.zero_()
    torch.cuda._sleep(HELD_CYCLES)
    begin.record()
    call()
    end.record()
    end.synchronize()
    return round(1e3 * float(begin.elapsed_time(end)), 2)


def copy_rate() -> float:
    """Bytes per second, the best of ten."""
    source = torch.empty(2**30, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return 2 * 2**30 / (1e-6 * min(event_us(lambda: target.copy_(source)) for _ in range(10)))


def product_rates() -> dict[str, float]:
    """Multiply-adds count two; the best of five."""
    rates = {}
    for name, dtype in (
        ("float32", torch.float32), ("tf32", torch.float32), ("bfloat16", torch.bfloat16),
    ):  # fmt: skip
        side = 4096 if name == "float32" else 8192
        torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
        a, b = (torch.randn(side, side, dtype=dtype, device="cuda") for _ in range(2))
        fastest = min(event_us(partial(torch.mm, a, b)) for _ in range(5))
        rates[name] = 2 * side**3 / (1e-6 * fastest)
    return rates


def products(inputs: Inputs) -> dict[str, Callable[[], Call]]:
    """cuBLAS through torch.mm."""
    a, b, c = (inputs[name] for name in "ABC")
    made: dict[str, Callable[[], Call]] = {"cublas": lambda: lambda: torch.mm(a, b, out=c)}
    if a.dtype == torch.float32:
        made["cublas-tf32"] = made["cublas"]
    return made


def grouped_products(inputs: Inputs) -> dict[str, Callable[[], Call]]:
    """PyTorch's one launch for all groups; it wants where each ends."""
    x, w, offsets = (inputs[name] for name in ("x", "w", "offsets"))
    ends = offsets[1:].clone()
    return {"grouped-mm": lambda: lambda: torch._grouped_mm(x, w, offs=ends)}


def attentions(inputs: Inputs) -> dict[str, Callable[[], Call]]:
    """Each backend of SDPA."""
    attend = torch.nn.functional.scaled_dot_product_attention
    if "h" in inputs:
        n, d, h = (inputs[name] for name in ("N", "d", "h"))
        q, k, v = (inputs[name].view(1, n, h, d // h).transpose(1, 2) for name in "QKV")
        causal = False
    else:
        q, k, v, causal = *(inputs[name] for name in "QKV"), True

    def by(backend: SDPBackend) -> Call:
        def run() -> object:
            with sdpa_kernel(backend):
                made = attend(q, k, v, is_causal=causal)
            return made if causal else made.transpose(1, 2)

        return run

    backends = ("FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION", "MATH")
    return {
        f"sdpa-{name.split('_')[0].lower()}": partial(by, getattr(SDPBackend, name))
        for name in backends
    }


LIBRARIES: Mapping[str, Callable[[Inputs], dict[str, Callable[[], Call]]]] = {
    "gemm": products,
    "grouped gemm": grouped_products,
    "attention": attentions,
}

if __name__ == "__main__":
    main()
