"""NVIDIA's GPUs as `nvidia-smi` prints them: for where NVML's binding fails."""

from __future__ import annotations

import csv
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from roofsmith.devices.fleet_processes import merged, seen
from roofsmith.devices.fleet_tools import (
    DEADLINE_S,
    ask,
    celsius,
    memory,
    no_gpu,
    nvidia_uuid,
    share,
    size_bytes,
    words,
)
from roofsmith.devices.nvml import throttle_reasons
from roofsmith.domain.fleet import GpuProcess, GpuStatus

GPU_FIELDS = (
    "index,uuid,name,utilization.gpu,memory.used,memory.total,temperature.gpu,"
    "clocks_throttle_reasons.active,compute_mode,mig.mode.current"
)
"""clocks_throttle_reasons is the older name, which newer drivers take but may not print."""
PROCESS_FIELDS = "gpu_uuid,pid,process_name,used_gpu_memory"

_REASONS = {
    "sw_power_cap": "sw_power_cap",
    "hw_slowdown": "hw_slowdown",
    "hw_thermal_slowdown": "hw_thermal_slowdown",
    "hw_power_brake_slowdown": "hw_power_brake",
    "sync_boost": "sync_boost",
    "sw_thermal_slowdown": "sw_thermal_slowdown",
    "display_clocks_setting": "display_clocks",
}
"""Names in the XML, behind `clocks_event_reason_` or `clocks_throttle_reason_`, and ours."""
_LISTED_GPU = re.compile(r"GPU (\d+): .*\(UUID: (GPU-[^)\s]+)\)")
_LISTED_INSTANCE = re.compile(r"\s+MIG (.+?)\s+Device\s+(\d+): \(UUID: (MIG-[^)]+)\)")


@dataclass(frozen=True, slots=True)
class Instance:
    """A MIG instance in `nvidia-smi -L`, the one place where its UUID is sure to be printed."""

    uuid: str
    profile: str


@dataclass(frozen=True, slots=True)
class NvidiaSmiFleet:
    """Port `FleetSource` over nvidia-smi: its XML, else its CSV."""

    program: str = "nvidia-smi"
    clock: Callable[[], float] = time.monotonic
    deadline_s: float = DEADLINE_S

    def gpus(self) -> tuple[GpuStatus, ...]:
        """Every GPU that nvidia-smi shows, and the instances of those in MIG mode.

        Raises:
            MachineError: it isn't there, fails, doesn't answer in time, or says nothing readable.
        """
        xml = self._ask("-q", "-x")
        # A program that hung once is not asked again: nobody waits for two deadlines.
        found = parse_xml(xml, self.clock(), self._instances) if xml is not None else ()
        if not found and xml is not None:
            table = self._ask(f"--query-gpu={GPU_FIELDS}", "--format=csv")
            busy = self._ask(f"--query-compute-apps={PROCESS_FIELDS}", "--format=csv")
            found = parse_csv(table or "", busy, self.clock(), self._instances)
        if not found:
            raise no_gpu(self.program, xml, "nvidia-smi must work: is the driver loaded?")
        return found

    def _ask(self, *arguments: str) -> str | None:
        return ask([self.program, *arguments], self.deadline_s)

    def _instances(self) -> Mapping[tuple[str, int], Instance]:
        return parse_list(self._ask("-L") or "")


Instances = Callable[[], Mapping[tuple[str, int], Instance]]
"""MIG instances by the GPU's UUID and their number on it; asked for only where there are any."""


def parse_list(text: str) -> dict[tuple[str, int], Instance]:
    """The MIG instances of `nvidia-smi -L`."""
    found: dict[tuple[str, int], Instance] = {}
    parent = None
    for line in text.splitlines():
        if whole := _LISTED_GPU.match(line):
            parent = whole[2]
        elif parent and (instance := _LISTED_INSTANCE.match(line)):
            found[parent, int(instance[2])] = Instance(instance[3].strip(), instance[1])
    return found


def parse_xml(text: str, at_s: float, instances: Instances = dict) -> tuple[GpuStatus, ...]:
    """Every GPU of `nvidia-smi -q -x`; empty if it isn't that."""
    try:
        # Not from a stranger: the driver's own tool on this machine wrote it.
        root = ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError):
        return ()
    listed: Mapping[tuple[str, int], Instance] | None = None
    found: list[GpuStatus] = []
    for index, gpu in enumerate(root.findall("gpu")):
        uuid = nvidia_uuid(gpu.findtext("uuid"))
        if uuid is None:
            continue
        reading = _Reading(gpu, uuid, index, at_s)
        if not reading.sliced:
            found.append(reading.whole())
            continue
        listed = instances() if listed is None else listed
        found.extend(reading.slices(listed))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Reading:
    """One GPU's element."""

    gpu: ElementTree.Element
    uuid: str
    index: int
    at_s: float

    @property
    def sliced(self) -> bool:
        return (words(self.gpu.findtext("mig_mode/current_mig")) or "").lower() == "enabled"

    def whole(self) -> GpuStatus:
        return self._status(self.gpu, self.uuid, self.name, _processes(self.gpu)).model_copy(
            update={"utilisation": share(self.gpu.findtext("utilization/gpu_util"))}
        )

    @property
    def name(self) -> str:
        return words(self.gpu.findtext("product_name")) or "NVIDIA GPU"

    def slices(self, listed: Mapping[tuple[str, int], Instance]) -> Iterator[GpuStatus]:
        for element in self.gpu.findall("mig_devices/mig_device"):
            number = words(element.findtext("index")) or ""
            known = listed.get((self.uuid, int(number))) if number.isdecimal() else None
            uuid = nvidia_uuid(element.findtext("uuid")) or (known.uuid if known else None)
            if uuid is None:
                continue
            name = f"{self.name} MIG {known.profile}" if known else f"{self.name} MIG"
            processes = _processes(self.gpu, element)
            status = self._status(element, uuid, name, processes)
            yield status.model_copy(update={"parent_uuid": self.uuid})

    def _status(
        self,
        element: ElementTree.Element,
        uuid: str,
        name: str,
        processes: tuple[GpuProcess, ...] | None,
    ) -> GpuStatus:
        """Memory is the element's own; heat and clocks are those of the whole GPU."""
        reasons = _reasons(self.gpu)
        return GpuStatus(
            uuid=uuid,
            index=self.index,
            name=name,
            kind="nvidia",
            **memory(
                size_bytes(element.findtext("fb_memory_usage/used")),
                size_bytes(element.findtext("fb_memory_usage/total")),
            ),
            temperature_c=celsius(self.gpu.findtext("temperature/gpu_temp")),
            throttle_reasons=reasons or (),
            processes=processes or (),
            compute_mode=words(self.gpu.findtext("compute_mode")),
            unread=(
                *(("processes",) if processes is None else ()),
                *(("throttle_reasons",) if reasons is None else ()),
            ),
            at_s=self.at_s,
        )


def _processes(
    gpu: ElementTree.Element, instance: ElementTree.Element | None = None
) -> tuple[GpuProcess, ...] | None:
    """Of a GPU, or of an instance and of nobody knows which one; None if they can't be listed."""
    listed = gpu.find("processes")
    if listed is None or (listed.text or "").strip():
        return None
    found = []
    for process in listed:
        pid = words(process.findtext("pid")) or ""
        if process.tag != "process_info" or not pid.isdecimal():
            return None
        if instance is None or _runs_on(process, instance):
            found.append(
                seen(
                    int(pid),
                    name=words(process.findtext("process_name")),
                    memory_bytes=size_bytes(process.findtext("used_memory")),
                    drawing=words(process.findtext("type")) == "G",
                )
            )
    return merged(found)


def _runs_on(process: ElementTree.Element, instance: ElementTree.Element) -> bool:
    for key in ("gpu_instance_id", "compute_instance_id"):
        theirs, its = words(process.findtext(key)), words(instance.findtext(key))
        if theirs is not None and its is not None and theirs != its:
            return False
    return True


def _reasons(gpu: ElementTree.Element) -> tuple[str, ...] | None:
    """Why clocks are held down; None if any of the reasons that block can't be read."""
    found = []
    for printed, ours in _REASONS.items():
        said = next(
            (
                words(gpu.findtext(f"clocks_{word}_reasons/clocks_{word}_reason_{printed}"))
                for word in ("event", "throttle")
                if gpu.find(f"clocks_{word}_reasons") is not None
            ),
            None,
        )
        if said is None or said.lower() not in ("active", "not active"):
            return None
        if said.lower() == "active":
            found.append(ours)
    return tuple(sorted(found))


def parse_csv(
    table: str, busy: str | None, at_s: float, instances: Instances = dict
) -> tuple[GpuStatus, ...]:
    """Every GPU of `--query-gpu=... --format=csv`, whichever fields were asked for.

    Args:
        table: what that printed.
        busy: what `--query-compute-apps=...` printed; None if it failed.
        at_s: when.
        instances: where the UUIDs of MIG instances are; of such, CSV tells nothing else.
    """
    gpus = list(_rows(table))
    processes = _by_gpu(busy, {words(row.get("uuid")) for row in gpus})
    found: list[GpuStatus] = []
    for place, row in enumerate(gpus):
        uuid = nvidia_uuid(row.get("uuid"))
        if uuid is None:
            continue
        status = _from_row(
            row, uuid, place, None if processes is None else processes.get(uuid, ()), at_s
        )
        if (words(row.get("mig.mode.current")) or "").lower() != "enabled":
            found.append(status)
            continue
        found.extend(
            GpuStatus(
                uuid=instance.uuid,
                index=status.index,
                name=f"{status.name} MIG {instance.profile}",
                kind="nvidia",
                parent_uuid=uuid,
                unread=("processes", "throttle_reasons"),
                at_s=at_s,
            )
            for (parent, _), instance in sorted(instances().items())
            if parent == uuid
        )
    return tuple(found)


def _from_row(
    row: Mapping[str, str],
    uuid: str,
    place: int,
    processes: Sequence[GpuProcess] | None,
    at_s: float,
) -> GpuStatus:
    index = words(row.get("index")) or ""
    bits = row.get("clocks_throttle_reasons.active") or row.get("clocks_event_reasons.active") or ""
    known = re.fullmatch(r"0x[0-9a-fA-F]{1,16}", bits.strip())
    return GpuStatus(
        uuid=uuid,
        index=int(index) if index.isdecimal() else place,
        name=words(row.get("name")) or "NVIDIA GPU",
        kind="nvidia",
        utilisation=share(row.get("utilization.gpu")),
        **memory(size_bytes(row.get("memory.used")), size_bytes(row.get("memory.total"))),
        temperature_c=celsius(row.get("temperature.gpu")),
        throttle_reasons=throttle_reasons(int(bits, 16)) if known else (),
        processes=merged(processes or ()),
        compute_mode=words(row.get("compute_mode")),
        unread=(
            *(("processes",) if processes is None else ()),
            *(() if known else ("throttle_reasons",)),
        ),
        at_s=at_s,
    )


def _by_gpu(busy: str | None, uuids: Collection[str | None]) -> dict[str, list[GpuProcess]] | None:
    """Processes by their GPU's UUID; None if a line can't be read, or is of no GPU in the table."""
    rows = list(_rows(busy or ""))
    lines = [line for line in (busy or "").splitlines() if line.strip()]
    if busy is None or not lines or len(rows) != len(lines) - 1:
        return None
    found: dict[str, list[GpuProcess]] = {}
    for row in rows:
        uuid, pid = words(row.get("gpu_uuid")), words(row.get("pid")) or ""
        if uuid is None or not (uuid in uuids or uuid.startswith("MIG-")) or not pid.isdecimal():
            return None
        process = seen(
            int(pid),
            name=words(row.get("process_name")),
            memory_bytes=size_bytes(row.get("used_gpu_memory")),
        )
        found.setdefault(uuid, []).append(process)
    return found


def _rows(text: str) -> Iterable[dict[str, str]]:
    """By column, without the columns' units; lines that don't fit the header are left out."""
    rows = csv.reader(text.splitlines(), skipinitialspace=True)
    try:
        header = [title.partition(" [")[0].strip() for title in next(rows, [])]
        whole = [row for row in rows if len(row) == len(header)]
    except csv.Error:
        return []
    return [dict(zip(header, row, strict=True)) for row in whole]
