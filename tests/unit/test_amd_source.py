from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofsmith.errors import MachineError
from roofsmith.machine import gpu_tools
from roofsmith.machine.amd import AmdSource
from roofsmith.machine.amd_agents import parse_node_properties, parse_rocminfo
from roofsmith.machine.nvidia import NvidiaSource
from roofsmith.ports import DeviceSource

GOLDEN = Path(__file__).parent.parent / "golden" / "gpu"

ROCMINFO = """\
ROCk module version 6.10.5 is loaded
=====================
HSA System Attributes
=====================
Runtime Version:         1.14
==========
HSA Agents
==========
*******
Agent 1
*******
  Name:                    AMD EPYC 9654 96-Core Processor
  Node:                    0
  Device Type:             CPU
  Compute Unit:            192
*******
Agent 2
*******
  Name:                    gfx942
  Uuid:                    GPU-0000000000000001
  Marketing Name:          AMD Instinct MI300X
  Node:                    2
  Device Type:             GPU
  Cache Info:
    L1:                      32(0x20) KB
    L2:                      4096(0x1000) KB
    L3:                      262144(0x40000) KB
  Compute Unit:            304
  SIMDs per CU:            4
  Wavefront Size:          64(0x40)
  Workgroup Max Size:      1024(0x400)
  Max Waves Per CU:        32(0x20)
  Pool Info:
    Pool 1
      Segment:                 GLOBAL; FLAGS: COARSE GRAINED
      Size:                    201310208(0xbffc000) KB
      Alloc Granule:           4KB
    Pool 2
      Segment:                 GROUP
      Size:                    64(0x40) KB
  ISA Info:
    ISA 1
      Name:                    amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-
*** Done ***
"""
"""rocminfo's layout, shortened; not recorded on a device of ours."""


def test_all_dies_share_the_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HIP_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    node = tmp_path / "sys/class/kfd/kfd/topology/nodes/2"
    node.mkdir(parents=True)
    (node / "properties").write_text("simd_count 1216\nnum_xcc 8\n")
    device = AmdSource(tmp_path, ask_rocminfo=lambda: ROCMINFO).environment().device
    assert (device.kind, device.arch, device.cores) == ("amd", "gfx942", 304)
    assert [cache.size_bytes for cache in device.caches] == [32 << 20, 256 << 20]
    assert device.memory_bytes == 201310208 << 10


def test_a_hidden_gpu_is_said_to_be_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "3")
    with pytest.raises(MachineError, match="HIP_VISIBLE_DEVICES"):
        AmdSource(ask_rocminfo=lambda: ROCMINFO).environment()


def plug_in(root: Path, vendor: str) -> None:
    """A GPU on the PCI bus."""
    device = root / "sys/bus/pci/devices/0000:01:00.0"
    device.mkdir(parents=True)
    (device / "vendor").write_text(f"{vendor}\n")
    (device / "class").write_text("0x030200\n")


@pytest.mark.skipif(gpu_tools.find("rocminfo") is not None, reason="ROCm is installed here")
def test_without_rocm_the_error_says_what_to_install(tmp_path: Path) -> None:
    plug_in(tmp_path, "0x1002")
    with pytest.raises(MachineError, match="install ROCm"):
        AmdSource(tmp_path).environment()


def no_library() -> dict[str, object]:
    return {"error": "libcuda.so.1 can't be loaded: not found", "code": None}


def no_rocminfo() -> str:
    raise MachineError("rocminfo is not installed", hint="install ROCm")


@pytest.mark.parametrize(
    ("source", "other", "name"),
    [
        (partial(NvidiaSource, ask_cuda=no_library), "0x1002", "NVIDIA"),
        (partial(AmdSource, ask_rocminfo=no_rocminfo), "0x10de", "AMD"),
    ],
)
def test_without_a_gpu_no_driver_is_asked_for(
    tmp_path: Path, source: Callable[[Path], DeviceSource], other: str, name: str
) -> None:
    plug_in(tmp_path, other)
    with pytest.raises(MachineError, match=f"no {name} GPU .* none on the PCI bus") as caught:
        source(tmp_path).device()
    assert "try: use a machine with a GPU; a container needs --gpus all" in str(caught.value)


def test_a_gpu_without_its_driver_asks_for_one(tmp_path: Path) -> None:
    plug_in(tmp_path, "0x10de")
    with pytest.raises(MachineError, match=r"libcuda\.so\.1 can't be loaded") as caught:
        NvidiaSource(tmp_path, ask_cuda=no_library).device()
    assert "install NVIDIA's driver" in str(caught.value)


@given(st.text(max_size=300))
def test_any_other_text_holds_no_agent(text: str) -> None:
    assert parse_rocminfo(text) == ()
    assert all(isinstance(value, int) for value in parse_node_properties(text).values())
