"""A reference's process without the device that it is for: what it needs is seen on the processor.

Tensors are made without numbers first, which costs nothing however large they are. Where they turn
out small, or the reference has to see numbers, it runs on real ones.
"""

from __future__ import annotations

import os
import resource
from math import prod
from pathlib import Path
from typing import Any, Final

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode

from roofsmith.domain.kernel import Signature
from roofsmith.job_limits import granted
from roofsmith.judge.gpu.reference import GpuReference
from roofsmith.judge.gpu.reference_process import GpuServer
from roofsmith.judge.host.oracle import MEMORY_SHARE
from roofsmith.judge.host.reference_process import serve
from roofsmith.judge.user_module import load_baseline, load_module

SMALL_ELEMENTS: Final = 1 << 24
"""Of all arrays together: up to here a run on the processor takes a second or two."""
SMALL_FLOPS: Final = 1e10


class ShapesServer(GpuServer):
    """Answers the parent's messages about one reference, on no device."""

    def load(self, message: dict[str, Any]) -> dict[str, Any]:
        self.path = message["path"]
        torch.Generator = HostGenerator  # user code may ask for one on a GPU
        memory_bytes = int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * MEMORY_SHARE)
        memory_bytes = granted(resource.RLIMIT_AS, memory_bytes)
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
        module = load_module(Path(message["path"]), message["extensions"])
        draws_itself = message["kernel"] is None or callable(getattr(module, "setup", None))
        folders = (message["kernel_extensions"], message["extensions"])
        baseline = None if draws_itself else load_baseline(Path(message["kernel"]), *folders)
        signature = Signature.model_validate(message["signature"])
        self._reference = GpuReference(
            module, baseline, signature, message["ptr_size"], tf32=message["tf32"], device="cpu"
        )
        return {"memory_bytes": 1 << 62}  # nothing is judged: workloads needn't fit anywhere

    def describe(self, message: dict[str, Any]) -> dict[str, Any]:
        dims = message["dims"]
        with OnHost():
            try:
                with FakeTensorMode():
                    found = self.reference.describe(dims)
            except Exception:  # noqa: BLE001  user code that looks at numbers
                return self.reference.describe(dims)
            return self.reference.describe(dims) if _is_small(found) else found


class OnHost(TorchFunctionMode):  # type: ignore[misc]
    """Takes every GPU that user code names for the processor."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func is torch.Tensor.cuda:
            return args[0]
        named = {name: _host(value) for name, value in (kwargs or {}).items()}
        return func(*map(_host, args), **named)


class HostGenerator(torch.Generator):  # type: ignore[misc]
    """A generator of the processor, whichever device is named."""

    def __new__(cls, device: Any = None) -> Any:  # noqa: ARG004 - torch's
        return super().__new__(cls, "cpu")


def _host(value: Any) -> Any:
    is_device = isinstance(value, str | torch.device)
    return torch.device("cpu") if is_device and str(value).startswith("cuda") else value


def _is_small(found: dict[str, Any]) -> bool:
    flops = found["counted"]["flops"] or found["flops"] or 0.0
    elements = sum(prod(array["shape"]) for array in found["arrays"])
    return elements <= SMALL_ELEMENTS and flops <= SMALL_FLOPS


def main() -> None:
    serve(ShapesServer())


if __name__ == "__main__":
    main()
