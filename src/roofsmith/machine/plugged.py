"""Whose GPUs this machine has, driver or not: by the PCI bus and device nodes alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from roofsmith.errors import NoGpuError
from roofsmith.machine import probes

Vendor = Literal["nvidia", "amd"]

NAMES: Mapping[Vendor, str] = {"nvidia": "NVIDIA", "amd": "AMD"}
ELSEWHERE = (
    "use a machine with a GPU; a container needs --gpus all (AMD: --device /dev/kfd --device"
    " /dev/dri)"
)
"""What to do where there is none."""

_PCI_VENDORS: Mapping[str, Vendor] = {"0x10de": "nvidia", "0x1002": "amd"}
"""Of PCI, as sysfs writes them."""
_GPU_CLASSES = ("0x0300", "0x0302", "0x0380", "0x1200")
"""First digits of the PCI class: VGA, 3D and other display controllers, and accelerators."""
_NODES: Mapping[Vendor, tuple[str, ...]] = {
    "nvidia": ("dev/nvidiactl", "proc/driver/nvidia/version", "dev/dxg"),
    "amd": ("dev/kfd",),
}
"""What a loaded driver shows; /dev/dxg is the GPU of a Windows host (WSL), NVIDIA's as a rule."""
_CONTAINER = (".dockerenv", "run/.containerenv")


@dataclass(frozen=True, slots=True)
class Vendors:
    """Whose GPUs and drivers can be seen without asking a driver."""

    plugged: frozenset[Vendor]
    """Vendors (nvidia, amd) of GPUs on the PCI bus."""
    loaded: frozenset[Vendor]
    """Vendors whose driver shows itself."""
    in_container: bool
    nouveau: bool = False
    """The free driver of NVIDIA's GPUs, which keeps NVIDIA's own away."""

    @property
    def present(self) -> frozenset[Vendor]:
        return self.plugged | self.loaded


def vendors(root: Path) -> Vendors:
    """Look at the PCI bus and the device nodes."""
    plugged: set[Vendor] = set()
    for device in (root / "sys/bus/pci/devices").glob("*"):
        vendor = (probes.text(device / "vendor") or "").strip()
        kind = (probes.text(device / "class") or "").strip()
        if vendor in _PCI_VENDORS and kind.startswith(_GPU_CLASSES):
            plugged.add(_PCI_VENDORS[vendor])
    loaded = {vendor for vendor, nodes in _NODES.items() if any((root / n).exists() for n in nodes)}
    return Vendors(
        plugged=frozenset(plugged),
        loaded=frozenset(loaded),
        in_container=any((root / name).exists() for name in _CONTAINER),
        nouveau=(root / "sys/module/nouveau").exists(),
    )


def require_any(vendor: Vendor, root: Path) -> None:
    """See that a machine whose GPU doesn't answer has one at all: else no driver helps.

    Raises:
        NoGpuError: it has none.
    """
    if vendor not in vendors(root).present:
        raise NoGpuError(
            f"no {NAMES[vendor]} GPU can be used here: there is none on the PCI bus, and no driver"
            " of one",
            hint=f"{ELSEWHERE}; without one: kernels in C and C++, and what a product allows"
            " (`roofsmith kernel roofline TARGET --platform PRODUCT`)",
        )
