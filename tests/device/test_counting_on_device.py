"""References counted where they run: `pytest -m device -rs tests/device`. Needs PyTorch."""

from __future__ import annotations

import sys
from concurrent.futures import Executor
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))
from operator_table import TABLE, Operator  # noqa: E402

from roofsmith.domain.bound import OperationCount  # noqa: E402
from roofsmith.judge.gpu.counting import counted  # noqa: E402

pytestmark = pytest.mark.device

INDICES_BYTES = 64
"""Small arrays that Python looks at are read by an operator here, and out of sight on a CPU."""


def seen_on_gpu(name: str) -> tuple[OperationCount, int] | None:
    """What counting an operator's reference sees, and the bytes of its output; None: no GPU.

    Runs in a process of its own.
    """
    if not torch.cuda.is_available():
        return None
    (operator,) = (one for one in TABLE if one.name == name)
    with torch.device("cuda"):
        tensors = {name: tensor.cuda() for name, tensor in operator.tensors().items()}
        inputs = {name: t for name, t in tensors.items() if name != "y" or len(tensors) == 1}
        seen = counted(lambda: operator.reference(**tensors), inputs)
    return seen, tensors["y"].numel() * tensors["y"].element_size()


@pytest.mark.parametrize("operator", TABLE, ids=lambda operator: operator.name)
def test_a_gpus_operators_are_counted_like_a_cpus(
    operator: Operator, own_process: Executor
) -> None:
    found = own_process.submit(seen_on_gpu, operator.name).result()
    if found is None:
        pytest.skip("torch sees no GPU")
    seen, written = found
    print(operator.name, seen)
    assert seen.read_bytes is not None, seen.reason
    assert 0 <= seen.read_bytes + written - operator.moved <= INDICES_BYTES
    if not operator.counted:
        assert seen.flops is None
        return
    assert seen.flops is not None
    assert set(seen.by_dtype) == {operator.dtype}
    masked = "causal" in operator.name  # dense where PyTorch takes attention apart
    assert seen.flops == operator.flops or (masked and seen.flops >= (operator.flops or 0))
