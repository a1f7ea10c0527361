"""What a real driver says about locking clocks. Nothing is ever locked here: GPUs may be shared."""

from __future__ import annotations

import pytest
from gpu_bench import environment_or_skip

from roofsmith.api.clocks import ClockedGpu, clocked
from roofsmith.errors import MachineError
from roofsmith.machine.nvidia import NvidiaSource

pytestmark = pytest.mark.device


def test_whether_clocks_can_be_locked_is_told_without_touching_them() -> None:
    environment_or_skip()
    gpu = clocked(NvidiaSource())
    assert gpu is not None
    before = gpu.driver.settings(gpu.uuid)
    assert before.application_sm_hz is None or before.application_sm_hz > 1e8
    refusal = _refusal(gpu)
    print("clocks could be locked here" if refusal is None else refusal)
    assert refusal is None or refusal.hint
    assert gpu.driver.settings(gpu.uuid) == before
    print("others on it:", gpu.strangers(gpu.uuid))


def _refusal(gpu: ClockedGpu) -> MachineError | None:
    try:
        gpu.driver.require_lockable(gpu.uuid)
    except MachineError as error:
        return error
    return None
