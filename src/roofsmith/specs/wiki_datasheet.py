"""A page as the datasheet of one device."""

from __future__ import annotations

from typing import Final

from roofsmith.domain.device import Device
from roofsmith.domain.facts import ArithmeticType, ComputeCeiling, Datasheet, Fact
from roofsmith.specs.wiki_page import NOT_FOUND, Page, WikiEntry

TYPES: Final[dict[str, ArithmeticType]] = {
    "fp64": "float64", "fp32": "float32", "tf32": "tfloat32", "fp16": "float16",
    "bf16": "bfloat16", "fp8": "float8", "int8": "int8", "int32": "int32",
}  # fmt: skip
"""What pages call an arithmetic type; those that no ceiling is kept for are other facts."""

MEMORY_TOLERANCE = 0.15
"""By how much a device's memory may differ from its product's: vendors count in 10^9 or 2^30 bytes
(7%), and error correction and the driver take up to 7% more. Products of one name differ by 17%."""

_NO_LIMITS = ("identity", "measured")
_BANDWIDTH = "memory.bandwidth_byte_per_s"


def datasheet_of(page: Page) -> Datasheet:
    """Every number of a page that is a property of the device.

    Rates and bandwidth of the package stand in `other` where the page has those of the dies that
    software sees as devices.
    """
    die = "per_gcd." if any(".per_gcd." in metric for metric in page.entries) else ""
    bandwidth = page.entries.get(_BANDWIDTH.replace(".", f".{die}", 1))
    ceilings = {
        entry.metric: ceiling
        for entry in page.entries.values()
        if (ceiling := _ceiling(entry, f"peak_rates.{die}")) is not None
    }
    used = {*ceilings, bandwidth.metric if bandwidth else _BANDWIDTH}
    return Datasheet(
        page=page.id,
        product=page.product,
        arch=page.arch,
        bandwidth=bandwidth.fact() if bandwidth else missing(_BANDWIDTH, "byte/s", page.lacking),
        compute=tuple(ceilings.values()),
        other=tuple(entry.fact() for entry in page.entries.values() if _is_limit(entry, used)),
    )


def missing(metric: str, unit: str, reason: str = NOT_FOUND) -> Fact:
    return Fact(metric=metric, value=None, unit=unit, reason=reason)


def unlike(page: Page, device: Device) -> str | None:
    """Why a device can't be a page's product, though its driver uses the name; None if it can.

    A slice of a GPU (MIG, a partition of an MI300X) and cut-down relatives keep the name, and have
    other limits.
    """
    for metric in ("execution.sm_count", "execution.cu_per_gcd", "execution.cu_count"):
        count = page.number(metric)
        if count is not None:
            if device.cores != count:
                return f"it has {device.cores} multiprocessors, {page.product} has {count:g}"
            break
    sizes = [
        size
        for where in ("memory.per_gcd.", "memory.")
        for metric in ("size_reported_bytes", "size_bytes")
        if (size := page.number(where + metric)) is not None
    ]
    if sizes and device.memory_bytes and abs(device.memory_bytes / sizes[0] - 1) > MEMORY_TOLERANCE:
        return (
            f"it has {device.memory_bytes / 1e9:.0f} GB of memory,"
            f" {page.product} has {sizes[0] / 1e9:.0f} GB"
        )
    return None


def _ceiling(entry: WikiEntry, below: str) -> ComputeCeiling | None:
    path, _, kind = entry.metric.removeprefix(below).rpartition(".")
    if not entry.metric.startswith(below) or kind not in TYPES:
        return None
    if path not in ("tensor.dense", "matrix.dense", "vector.dense"):
        return None
    operation = "fma" if path == "vector.dense" else "mma"
    return ComputeCeiling(operation=operation, dtype=TYPES[kind], threads=1, fact=entry.fact())


def _is_limit(entry: WikiEntry, used: set[str]) -> bool:
    section = entry.metric.partition(".")[0]
    return entry.number is not None and section not in _NO_LIMITS and entry.metric not in used
