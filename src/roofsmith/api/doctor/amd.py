"""Checks of an AMD GPU: device, driver, compiler and profiler."""

from __future__ import annotations

from collections.abc import Iterator

from roofsmith.analysis import figures as fmt
from roofsmith.api.doctor.gpus import in_use, languages_on, named
from roofsmith.api.doctor.snapshot import Inquiry, Snapshot, Topic
from roofsmith.domain.examination import Check
from roofsmith.errors import RoofsmithError
from roofsmith.machine import probes


def device(s: Snapshot, q: Inquiry) -> Iterator[Check]:
    """Whether a GPU answers, which driver and ROCm run it; clocks, heat and other users."""
    languages = q.on(languages_on("amd", s.modules))
    gpu = Topic("GPU", "AMD GPU", languages, True)
    shown = s.agent
    if shown is None:
        yield _no_device(s, gpu)
        return
    parts = [shown.name, shown.arch, f"{shown.compute_units} compute units"]
    if shown.memory_bytes is not None:
        parts.append(fmt.size(shown.memory_bytes))
    detail, count = ", ".join(parts), len(s.agents.get())
    if count > 1:
        detail += f"; one of {count}, HIP_VISIBLE_DEVICES chooses another"
    yield gpu.found(detail)
    driver = (probes.text(s.root / "sys/module/amdgpu/version") or "").strip()
    rocm = (probes.text(s.root / "opt/rocm/.info/version") or "").strip()
    yield Topic("GPU", "driver", languages).found(f"amdgpu {driver or 'of the kernel'}")
    yield Topic("GPU", "ROCm", languages).found(rocm or "version not known", version=rocm or None)
    clock = shown.max_clock_hz
    text = "maximum not known" if clock is None else f"up to {clock / 1e6:.0f} MHz"
    yield Topic("GPU", "clocks", languages).found(text)
    status = named(s.fleet["amd"].value(()), shown.uuid)
    if status is not None and status.temperature_c is not None:
        yield Topic("GPU", "heat", languages).found(f"{status.temperature_c:.0f} °C")
    yield in_use(s, "amd", shown.uuid, languages)


def _no_device(s: Snapshot, gpu: Topic) -> Check:
    if "amd" not in s.plugged.loaded:
        fix = (
            "docker run --device /dev/kfd --device /dev/dri --group-add video --group-add render"
            if s.plugged.in_container
            else "sudo apt-get install amdgpu-dkms rocm (AMD's archive), then reboot"
        )
        missing = "there is one, but /dev/kfd is missing: no compute driver"
        return gpu.missing(missing, fix, "no AMD driver")
    try:
        s.agents.get()
    except RoofsmithError as error:
        return gpu.missing(error.message, error.hint, "no AMD GPU")
    look = "look at ROCR_VISIBLE_DEVICES and HIP_VISIBLE_DEVICES"
    return gpu.missing("rocminfo lists no GPU", look, "no AMD GPU")


def hipcc(s: Snapshot, _q: Inquiry) -> Iterator[Check]:
    """The compiler of HIP kernels."""
    topic = Topic("compilers", "hipcc", ("hip",), True)
    try:
        compiler = s.hipcc.get()
        yield topic.found(f"{compiler.version}, {compiler.path}")
    except RoofsmithError as error:
        yield topic.missing(error.message, error.hint)


def profilers(s: Snapshot, _q: Inquiry) -> Iterator[Check]:
    """rocprofv3; AMD's driver lets every user of the GPU count."""
    program = s.rocprof.value(None)
    detail = s.tools["rocprofv3"].value(program)
    yield Topic("profilers", "rocprofv3", languages_on("amd", s.modules)).found(
        detail or "not installed: no hardware counters, torch.profiler's times alone",
        None if program else "sudo apt-get install rocprofiler-sdk (AMD's archive)",
    )
