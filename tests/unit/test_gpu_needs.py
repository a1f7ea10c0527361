"""A reference of a kernel on a GPU, on a machine where PyTorch is missing or doesn't work."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from roofsmith.domain.kernel import Signature, SourceFile
from roofsmith.domain.target import Target
from roofsmith.domain.workload import Workload
from roofsmith.errors import BadReferenceError, ToolMissingError
from roofsmith.judge.gpu.oracle import GpuOracle

WORKLOAD = Workload(dims={"n": 8})


def oracle() -> GpuOracle:
    target = Target(
        name="sample",
        language="cuda",
        kernel=SourceFile(path="kernel.cu", text="// never built\n"),
        reference=SourceFile(path="numbers/reference.py", text="def reference(**given): ...\n"),
        workloads=(WORKLOAD,),
    )
    return GpuOracle(target, Signature(parameters=()))


def test_a_missing_torch_is_told_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with oracle() as made:
        with pytest.raises(ToolMissingError, match="PyTorch is not installed") as caught:
            made.start()
        assert not made.is_alive
    assert "numbers/reference.py has to compute with it" in caught.value.message
    assert f"{sys.executable} -m pip install torch" in str(caught.value)


def test_a_torch_that_ends_the_process_is_called_by_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one does that was built for another driver or processor."""
    (tmp_path / "torch.py").write_text("import os\nos._exit(7)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with oracle() as made, pytest.raises(BadReferenceError, match="exit code 7") as caught:
        made.describe(WORKLOAD)
    assert "python -c 'import torch; torch.zeros(1).cuda()'" in str(caught.value)
    assert "python -c 'import reference'" in str(caught.value)
