"""The kernels with a known bottleneck compile, and spill registers only where they should."""

from __future__ import annotations

from pathlib import Path

import pytest
from cuda_kernels import needs_nvcc

from kinds import another
from roofsmith.domain.device import Device
from roofsmith.domain.kernel import Built, Candidate, SourceFile
from roofsmith.toolchains.cuda import CudaToolchain

FOLDER = Path(__file__).parent.parent / "device" / "bottlenecks"
KERNELS = sorted(path.stem for path in FOLDER.glob("*.cu"))
H100 = Device(kind="nvidia", name="NVIDIA H100 80GB HBM3", cores=132, arch="sm_90")

pytestmark = [needs_nvcc, pytest.mark.slow]


def test_there_are_eight() -> None:
    assert len(KERNELS) == 8


@pytest.mark.parametrize("name", [k if k == "register_spills" else another(k) for k in KERNELS])
def test_it_compiles(name: str, tmp_path: Path) -> None:
    source = SourceFile(path=f"{name}.cu", text=(FOLDER / f"{name}.cu").read_text())
    toolchain = CudaToolchain(tmp_path, H100)
    built = toolchain.build(Candidate(language="cuda", sources=(source,)))
    assert isinstance(built, Built), built.detail
    assert [p.name for p in built.signature.parameters] == ["x", "y", "N"]
    spills = sum(kernel.spill_store_bytes or 0 for kernel in built.resources)
    assert (spills > 0) == (name == "register_spills")
