"""A reference of a kernel on a GPU, on a machine where PyTorch is missing or doesn't work."""

from __future__ import annotations

import importlib.util
import os
import sys
from contextlib import closing
from pathlib import Path

import pytest

from roofsmith.domain.kernel import Signature, SourceFile
from roofsmith.domain.target import Target
from roofsmith.domain.workload import Workload
from roofsmith.errors import BadReferenceError, ToolMissingError
from roofsmith.judge.gpu.oracle import GpuOracle
from roofsmith.judge.host.oracle import BootedProcess

WORKLOAD = Workload(dims={"n": 8})


def oracle(booted: BootedProcess | None = None) -> GpuOracle:
    target = Target(
        name="sample",
        language="cuda",
        kernel=SourceFile(path="kernel.cu", text="// never built\n"),
        reference=SourceFile(path="numbers/reference.py", text="def reference(**given): ...\n"),
        workloads=(WORKLOAD,),
    )
    return GpuOracle(target, Signature(parameters=()), booted)


def test_a_missing_torch_is_told_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with oracle() as made:
        with pytest.raises(ToolMissingError, match="PyTorch is not installed") as caught:
            made.start()
        assert not made.is_alive
    assert "numbers/reference.py" in caught.value.message
    assert f"{sys.executable} -m pip install torch" in str(caught.value)


def test_a_torch_that_ends_the_process_is_called_by_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one does that was built for another driver or processor."""
    (tmp_path / "torch.py").write_text("import os\nos._exit(7)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with oracle() as made, pytest.raises(BadReferenceError, match="exit code 7") as caught:
        made.describe(WORKLOAD)
    with closing(BootedProcess(GpuOracle.module)) as booted:
        assert booted.process.wait(60) == 7
        with oracle(booted) as made, pytest.raises(BadReferenceError, match="exit code 7"):
            made.describe(WORKLOAD)
    assert "python -c 'import torch; torch.zeros(1).cuda()'" in str(caught.value)
    assert "python -c 'import reference'" in str(caught.value)


@pytest.mark.slow
def test_a_process_that_was_booted_before_is_taken_and_ended() -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    with closing(BootedProcess(GpuOracle.module)) as booted:
        no_gpu_or_no_setup = pytest.raises((ToolMissingError, BadReferenceError), match="reference")
        with oracle(booted) as made, no_gpu_or_no_setup:
            made.describe(WORKLOAD)
        assert booted.process.returncode is not None
        with oracle(booted) as other:
            assert not other.is_alive, "nobody asked it"


def test_which_gpu_was_chosen_is_known_before_torch_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process may be older than the choice."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    from roofsmith.judge.gpu.reference_process import GpuServer
    from roofsmith.judge.user_module import Complaint

    seen = []
    monkeypatch.setattr(
        torch.cuda, "is_available", lambda: seen.append(os.environ["CUDA_VISIBLE_DEVICES"])
    )
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    chosen = {"CUDA_VISIBLE_DEVICES": "GPU-chosen-later"}
    with pytest.raises(Complaint, match="sees no GPU"):
        GpuServer().load({"path": "reference.py", "environment": chosen})
    assert seen == ["GPU-chosen-later"]
