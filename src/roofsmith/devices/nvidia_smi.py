"""What NVIDIA's driver says of a GPU, read from `nvidia-smi`: for where NVML's binding fails."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from xml.etree import ElementTree

from roofsmith.devices.fleet_tools import DEADLINE_S, ask

QUERY = (
    "name,uuid,driver_version,compute_cap,memory.total,clocks.max.sm,clocks.max.memory,"
    "clocks.applications.graphics,power.limit,ecc.mode.current,mig.mode.current,"
    "persistence_mode,compute_mode"
)
"""Fields asked for in CSV, where there is no XML."""

_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_SCALES = {"MiB": 2**20, "MHz": 1e6, "W": 1.0, "%": 0.01, "C": 1.0}


@dataclass(frozen=True, slots=True)
class GpuSettings:
    """How a GPU is set up; what the driver doesn't tell is None."""

    uuid: str
    name: str
    driver: str | None = None
    cuda: str | None = None
    """Newest CUDA version that the driver runs."""
    arch: str | None = None
    memory_bytes: int | None = None
    max_sm_clock_hz: float | None = None
    max_memory_clock_hz: float | None = None
    sm_clock_hz: float | None = None
    """At the moment of asking, as power draw and temperatures are."""
    application_clock_hz: float | None = None
    """What the SM clock is set to under load; equal to the maximum unless somebody lowered it."""
    power_limit_w: float | None = None
    default_power_limit_w: float | None = None
    power_draw_w: float | None = None
    temperature_c: float | None = None
    thermal_margin_c: float | None = None
    """How much hotter it may get before it slows down."""
    ecc: bool | None = None
    mig: bool | None = None
    persistence: bool | None = None
    compute_mode: str | None = None


def parse_xml(text: str) -> tuple[GpuSettings, ...]:
    """Every GPU of `nvidia-smi -q -x`; empty if it isn't that."""
    try:
        # Not from a stranger: the driver's own tool on this machine wrote it.
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError:
        return ()
    return tuple(_gpu(root, gpu) for gpu in root.iter("gpu"))


def _gpu(root: ElementTree.Element, gpu: ElementTree.Element) -> GpuSettings:
    def says(path: str) -> str | None:
        return _known(gpu.findtext(path))

    return GpuSettings(
        uuid=says("uuid") or "",
        name=says("product_name") or "",
        driver=_known(root.findtext("driver_version")),
        cuda=_known(root.findtext("cuda_version")),
        memory_bytes=_whole(says("fb_memory_usage/total")),
        max_sm_clock_hz=quantity(says("max_clocks/sm_clock")),
        max_memory_clock_hz=quantity(says("max_clocks/mem_clock")),
        sm_clock_hz=quantity(says("clocks/sm_clock")),
        application_clock_hz=quantity(says("applications_clocks/graphics_clock")),
        power_limit_w=quantity(says("gpu_power_readings/current_power_limit")),
        default_power_limit_w=quantity(says("gpu_power_readings/default_power_limit")),
        power_draw_w=quantity(says("gpu_power_readings/average_power_draw")),
        temperature_c=quantity(says("temperature/gpu_temp")),
        thermal_margin_c=quantity(says("temperature/gpu_temp_tlimit")),
        ecc=_switch(says("ecc_mode/current_ecc")),
        mig=_switch(says("mig_mode/current_mig")),
        persistence=_switch(says("persistence_mode")),
        compute_mode=says("compute_mode"),
    )


def parse_csv(text: str) -> tuple[GpuSettings, ...]:
    """Every GPU of `nvidia-smi --query-gpu=... --format=csv`, whichever fields were asked for."""
    rows = csv.reader(text.splitlines(), skipinitialspace=True)
    header = [_field(title) for title in next(rows, [])]
    if "name" not in header:
        return ()
    whole = (row for row in rows if len(row) == len(header))
    return tuple(_from_row(dict(zip(header, map(_known, row), strict=True))) for row in whole)


def _from_row(row: dict[str, str | None]) -> GpuSettings:
    capability = row.get("compute_cap")
    return GpuSettings(
        uuid=row.get("uuid") or "",
        name=row.get("name") or "",
        driver=row.get("driver_version"),
        arch=f"sm_{capability.replace('.', '')}" if capability else None,
        memory_bytes=_whole(row.get("memory.total")),
        max_sm_clock_hz=quantity(row.get("clocks.max.sm")),
        max_memory_clock_hz=quantity(row.get("clocks.max.memory")),
        application_clock_hz=quantity(row.get("clocks.applications.graphics")),
        power_limit_w=quantity(row.get("power.limit")),
        ecc=_switch(row.get("ecc.mode.current")),
        mig=_switch(row.get("mig.mode.current")),
        persistence=_switch(row.get("persistence_mode")),
        compute_mode=row.get("compute_mode"),
    )


def ask_nvidia_smi(uuid: str, deadline_s: float = DEADLINE_S) -> GpuSettings | None:
    """One GPU from nvidia-smi's XML, else from its CSV; None if neither is to be had."""
    xml = ask(["nvidia-smi", "-q", "-x"], deadline_s)
    if xml is None:  # one that hung would hang again
        return None
    table = ["nvidia-smi", f"--query-gpu={QUERY}", "--format=csv"]
    gpus = parse_xml(xml) or parse_csv(ask(table, deadline_s) or "")
    return next((gpu for gpu in gpus if gpu.uuid.lower() == uuid.lower()), None)


def quantity(text: str | None) -> float | None:
    """`1980 MHz` in Hz, `81559 MiB` in byte, `700.00 W` in W; None if it is no such thing."""
    number, _, unit = (text or "").strip().partition(" ")
    if not _NUMBER.fullmatch(number) or unit not in _SCALES:
        return None
    return float(number) * _SCALES[unit]


def _whole(text: str | None) -> int | None:
    value = quantity(text)
    return None if value is None else int(value)


def _field(title: str) -> str:
    """`memory.total [MiB]` without its unit."""
    return title.partition(" [")[0].strip()


def _switch(text: str | None) -> bool | None:
    return {"enabled": True, "disabled": False}.get((text or "").lower())


def _known(text: str | None) -> str | None:
    text = (text or "").strip()
    return None if text.lower() in ("", "n/a", "[n/a]", "[not supported]", "none") else text
