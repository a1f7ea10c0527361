"""Checks of an AMD GPU: device, driver, compiler and profiler."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from roofsmith.app.doctor.asking import Answer
from roofsmith.app.doctor.gpus import Vendors
from roofsmith.app.doctor.sources import Sources
from roofsmith.devices import probes
from roofsmith.devices.amd_agents import Agent, parse_rocminfo
from roofsmith.domain.examination import Check
from roofsmith.domain.kernel import Language
from roofsmith.errors import RoofsmithError
from roofsmith.report import format as fmt
from roofsmith.toolchains.compilers import Compiler


def agents(rocminfo: Answer[str]) -> tuple[Agent, ...]:
    """The GPUs that ROCm shows; empty where it doesn't answer."""
    try:
        return parse_rocminfo(rocminfo.get())
    except RoofsmithError:
        return ()


def device_checks(
    sources: Sources, rocminfo: Answer[str], found: Vendors, languages: tuple[Language, ...]
) -> Iterator[Check]:
    """Whether a GPU answers, and which driver and ROCm run it."""
    shown = agents(rocminfo)
    if not shown:
        yield _no_device(rocminfo, found, languages)
        return
    first = shown[0]
    parts = [first.name, first.arch, f"{first.compute_units} compute units"]
    if first.memory_bytes is not None:
        parts.append(fmt.size(first.memory_bytes))
    detail = ", ".join(parts)
    if len(shown) > 1:
        detail += f"; the first of {len(shown)}, HIP_VISIBLE_DEVICES chooses another"
    yield Check(
        area="GPU", name="AMD GPU", level="ok", detail=detail, languages=languages, required=True
    )
    driver = (probes.text(sources.root / "sys/module/amdgpu/version") or "").strip()
    rocm = (probes.text(sources.root / "opt/rocm/.info/version") or "").strip()
    yield Check(
        area="GPU", name="driver", level="ok", languages=languages,
        detail=f"amdgpu {driver or 'of the kernel'}, ROCm {rocm or 'version not known'}",
    )  # fmt: skip


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
    sources: Sources, tools: Mapping[str, str], languages: tuple[Language, ...]
) -> Iterator[Check]:
    """rocprofv3; AMD's driver lets every user of the GPU count."""
    program = sources.rocprof()
    detail = tools.get("rocprofv3", program)
    yield Check(
        area="profilers", name="rocprofv3", languages=languages,
        level="limited" if program is None else "ok",
        detail=detail or "not installed: no hardware counters, torch.profiler's times alone",
        fix=None if program else "sudo apt-get install rocprofiler-sdk (AMD's archive)",
    )  # fmt: skip
