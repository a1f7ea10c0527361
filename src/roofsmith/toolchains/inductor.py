"""What TorchInductor makes of a target's reference, from a process of its own."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from pathlib import Path

from pydantic import ValidationError

from roofsmith.domain.compiled_reference import CompiledReference
from roofsmith.domain.target import Target
from roofsmith.scratch import scratch_directory, written
from roofsmith.shell import run_shell, tail

DEADLINE_S = 300.0
"""For all workloads. Tuning a product takes half a minute, anything else a few seconds."""


def compiled_reference(target: Target) -> CompiledReference | str:
    """Compile the reference on this machine's GPU, for the shapes of each workload.

    The file is the user's own, and runs as it does where it says what is right.

    Returns:
        What came of it, or why nothing did.

    Raises:
        StorageError: the temporary folder can't be written.
    """
    folder = scratch_directory("inductor")
    try:
        return _compiled_in(folder, target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _compiled_in(folder: Path, target: Target) -> CompiledReference | str:
    sources = (target.truth, *target.reference_files, target.kernel, *target.includes)
    for source in sources:
        path = folder / "sources" / source.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source.text)
    order, answer, log = folder / "order.json", folder / "answer.json", folder / "log"
    order.write_text(
        json.dumps({
            "reference": str(folder / "sources" / target.truth.path),
            "kernel": str(folder / "sources" / target.kernel.path),
            "tf32": target.tf32,
            "device": "cuda",
            "workloads": {workload.label: workload.dims for workload in target.workloads},
        })
    )  # fmt: skip
    words = [sys.executable, "-m", f"{__package__}.inductor_worker", str(order), str(answer)]
    caches = {"TORCHINDUCTOR_CACHE_DIR": "made", "TRITON_CACHE_DIR": "triton"}
    ran = run_shell(
        shlex.join(words),
        directory=folder / "sources",
        environment={name: str(folder / kept) for name, kept in caches.items()},
        deadline_s=DEADLINE_S,
        log=log,
    )
    if not ran.passed:
        said = "; ".join(tail(log)[-2:])
        return f"the process that compiles the reference {ran.ending}: {said}"
    try:
        document = json.loads(written(answer))
        if "error" in document:
            return f"TorchInductor can't compile the reference: {document['error']}"
        return CompiledReference.model_validate(document)
    except (ValueError, ValidationError) as error:
        return f"the process that compiles the reference gave no answer: {error}"
