"""Checks of an AMD GPU: device, driver, compiler and profiler."""

from __future__ import annotations

from collections.abc import Iterator

from roofsmith.app.doctor.asking import Answer
from roofsmith.app.doctor.gpus import in_use, locking, status_of
from roofsmith.app.doctor.sources import Ours, Sources
from roofsmith.devices import probes
from roofsmith.devices.amd import first_visible
from roofsmith.devices.amd_agents import Agent, parse_rocminfo
from roofsmith.devices.plugged import Vendors
from roofsmith.domain.examination import Check
from roofsmith.domain.fleet import GatePolicy, GpuStatus
from roofsmith.domain.kernel import Language
from roofsmith.errors import RoofsmithError
from roofsmith.report import format as fmt
from roofsmith.toolchains.compilers import Compiler


def agent(rocminfo: Answer[str]) -> Agent | None:
    """The GPU that kernels would run on; None where ROCm doesn't answer or shows none."""
    try:
        shown = parse_rocminfo(rocminfo.get())
    except RoofsmithError:
        return None
    index = first_visible()
    return None if index is None or index >= len(shown) else shown[index]


def device_checks(
    sources: Sources, rocminfo: Answer[str], found: Vendors, languages: tuple[Language, ...]
) -> Iterator[Check]:
    """Whether a GPU answers, and which driver and ROCm run it."""
    shown = agent(rocminfo)
    if shown is None:
        yield _no_device(rocminfo, found, languages)
        return
    parts = [shown.name, shown.arch, f"{shown.compute_units} compute units"]
    if shown.memory_bytes is not None:
        parts.append(fmt.size(shown.memory_bytes))
    detail = ", ".join(parts)
    more = len(parse_rocminfo(rocminfo.get()))
    if more > 1:
        detail += f"; one of {more}, HIP_VISIBLE_DEVICES chooses another"
    yield Check(
        area="GPU", name="AMD GPU", level="ok", detail=detail, languages=languages, required=True
    )
    driver = (probes.text(sources.root / "sys/module/amdgpu/version") or "").strip()
    rocm = (probes.text(sources.root / "opt/rocm/.info/version") or "").strip()
    yield Check(
        area="GPU", name="driver", level="ok", languages=languages,
        detail=f"amdgpu {driver or 'of the kernel'}, ROCm {rocm or 'version not known'}",
    )  # fmt: skip


def state_checks(
    shown: Agent,
    fleet: Answer[tuple[GpuStatus, ...]],
    lockable: Answer[None] | None,
    ours: Ours,
    policy: GatePolicy,
    languages: tuple[Language, ...],
) -> Iterator[Check]:
    """Clocks, heat and other users.

    Args:
        shown: the GPU.
        fleet: AMD's GPUs now.
        lockable: whether the clocks can be locked; raises why not.
        ours: which processes don't count.
        policy: the gate's.
        languages: that run on the GPU.
    """
    clock = shown.max_clock_hz
    text = "maximum not known" if clock is None else f"up to {clock / 1e6:.0f} MHz"
    yield Check(
        area="GPU", name="clocks", level="ok", detail=text + locking(lockable), languages=languages
    )
    status = status_of(fleet, shown.uuid)
    if status is not None and status.temperature_c is not None:
        yield Check(
            area="GPU", name="heat", level="ok", detail=f"{status.temperature_c:.0f} °C",
            languages=languages,
        )  # fmt: skip
    yield in_use(fleet, shown.uuid, ours, policy, languages)


def _no_device(rocminfo: Answer[str], found: Vendors, languages: tuple[Language, ...]) -> Check:
    lack, fix = "no AMD GPU", None
    try:
        rocminfo.get()
        detail, fix = (
            "rocminfo lists no GPU",
            "look at ROCR_VISIBLE_DEVICES and HIP_VISIBLE_DEVICES",
        )
    except RoofsmithError as error:
        detail, fix = error.message, error.hint
    if "amd" not in found.loaded:
        detail = "there is one, but /dev/kfd is missing: no compute driver"
        fix = (
            "docker run --device /dev/kfd --device /dev/dri --group-add video --group-add render"
            if found.in_container
            else "sudo apt-get install amdgpu-dkms rocm (AMD's archive), then reboot"
        )
        lack = "no AMD driver"
    return Check(
        area="GPU", name="AMD GPU", level="missing", detail=detail, fix=fix, lack=lack,
        languages=languages, required=True,
    )  # fmt: skip


def hipcc_checks(hipcc: Answer[Compiler]) -> Iterator[Check]:
    """The compiler of HIP kernels."""
    try:
        compiler = hipcc.get()
    except RoofsmithError as error:
        yield Check(
            area="compilers", name="hipcc", level="missing", detail=error.message, fix=error.hint,
            languages=("hip",), required=True,
        )  # fmt: skip
        return
    yield Check(
        area="compilers", name="hipcc", level="ok", detail=f"{compiler.version}, {compiler.path}",
        languages=("hip",), required=True,
    )  # fmt: skip


def profiler_checks(
    sources: Sources, version: Answer[str | None], languages: tuple[Language, ...]
) -> Iterator[Check]:
    """rocprofv3; AMD's driver lets every user of the GPU count."""
    program = sources.rocprof()
    detail = version.value(program)
    yield Check(
        area="profilers", name="rocprofv3", languages=languages,
        level="limited" if program is None else "ok",
        detail=detail or "not installed: no hardware counters, torch.profiler's times alone",
        fix=None if program else "sudo apt-get install rocprofiler-sdk (AMD's archive)",
    )  # fmt: skip
