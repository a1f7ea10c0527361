"""The reference on a GPU, as far as it can be seen without one."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch._subclasses.fake_tensor import FakeTensor  # noqa: E402

from roofsmith.domain.kernel import Signature  # noqa: E402
from roofsmith.judge.gpu.reference import GpuReference  # noqa: E402
from roofsmith.judge.gpu.reference_process import GpuServer  # noqa: E402

Switches = tuple[bool, bool]


@pytest.fixture(autouse=True)
def _full_float32() -> Iterator[None]:
    before = switches()
    yield
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


def switches() -> Switches:
    return torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32


def seen_by_reference(*, tf32: bool, module_wants: bool) -> tuple[Switches, Switches]:
    """What a reference finds switched on: while it makes the truth, and in declared precision."""
    module = ModuleType("reference")
    found: list[tuple[Any, Switches]] = []

    def reference(x: Any, y: Any) -> None:
        found.append((x.dtype, switches()))
        y.copy_(x)

    module.reference = reference  # type: ignore[attr-defined]
    module.setup = lambda **_: {}  # type: ignore[attr-defined]
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = module_wants
    held = GpuReference(module, None, Signature(parameters=()), None, tf32=tf32)
    values = {"x": torch.ones(4), "y": torch.ones(4)}
    for exact in (True, False):
        held.expect(values, {"y"}, exact=exact)
    (truth, in_truth), (declared, in_declared) = found
    assert (truth, declared) == (torch.float64, torch.float32)
    return in_truth, in_declared


@pytest.mark.parametrize("module_wants", [False, True])
def test_only_the_declared_precision_may_be_tf32(module_wants: bool) -> None:
    off, on = (False, False), (True, True)
    assert seen_by_reference(tf32=True, module_wants=module_wants) == (off, on)
    assert seen_by_reference(tf32=False, module_wants=module_wants) == (off, off)


class Full:
    """A reference whose setup finds the device full, unless nothing is really made."""

    def __init__(self, *, looks: bool) -> None:
        self.looks = looks

    def describe(self, dims: dict[str, int]) -> dict[str, object]:
        x = torch.zeros(dims["N"])
        if not isinstance(x, FakeTensor):
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 64 GiB")
        if self.looks:
            x.sum().item()
        return {"shape": list(x.shape)}


def test_arrays_that_do_not_fit_are_described_all_the_same() -> None:
    server = GpuServer()
    server._reference = Full(looks=False)  # type: ignore[assignment]
    assert server.describe({"dims": {"N": 64}}) == {"shape": [64]}
    server._reference = Full(looks=True)  # type: ignore[assignment]
    with pytest.raises(torch.OutOfMemoryError, match="Tried to allocate"):
        server.describe({"dims": {"N": 64}})
