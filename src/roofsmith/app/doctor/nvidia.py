"""Checks of an NVIDIA GPU: device, driver, how it is set up, compilers and profilers for it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from roofsmith.app.doctor.asking import Answer
from roofsmith.app.doctor.gpus import locking
from roofsmith.app.doctor.sources import Sources
from roofsmith.devices import permissions
from roofsmith.devices.nvidia import hint_for
from roofsmith.devices.nvidia_smi import GpuSettings
from roofsmith.devices.plugged import Vendors
from roofsmith.domain.examination import Check, Level
from roofsmith.domain.kernel import Language
from roofsmith.errors import MachineError, RoofsmithError
from roofsmith.report import format as fmt
from roofsmith.toolchains.cuda_toolkit import Toolkit, architecture_for

Said = Mapping[str, Any]
"""What the CUDA driver answered."""

LEAST_MARGIN_C = 10.0
"""Under load an idle GPU gains 20 to 40 °C: one that is this close to its limit without load
will slow down."""
ONE_PROCESS = ("Exclusive_Process", "Exclusive_Thread")
EXCLUSIVE = (*ONE_PROCESS, "Prohibited")
"""Compute modes that let at most one process on the GPU; the judge needs three."""
ALLOW_COUNTERS = (
    "echo options nvidia NVreg_RestrictProfilingToAdminUsers=0 | sudo tee"
    " /etc/modprobe.d/nvidia-profiling.conf, update-initramfs -u, reboot; a container:"
    " --cap-add SYS_ADMIN"
)
_BUILD = re.compile(r" \((build \d+|public-release)\)")
"""What NVIDIA's tools print behind their release."""


def device_checks(said: Said, found: Vendors, languages: tuple[Language, ...]) -> Iterator[Check]:
    """Whether a GPU answers, and which driver runs it."""
    if "error" in said:
        yield _no_device(said, found, languages)
        return
    attributes = said["attributes"]
    detail = (
        f"{said['name']}, sm_{attributes['major']}{attributes['minor']}, "
        f"{attributes['multiprocessors']} SMs, {fmt.size(said['memory_bytes'])}"
    )
    if said["devices"] > 1:
        detail += f"; the first of {said['devices']}, CUDA_VISIBLE_DEVICES chooses another"
    yield Check(
        area="GPU", name="NVIDIA GPU", level="ok", detail=detail, languages=languages, required=True
    )


def _no_device(said: Said, found: Vendors, languages: tuple[Language, ...]) -> Check:
    code = said.get("code")
    detail, lack = f"it doesn't answer: {said['error']}", "GPU doesn't answer"
    fix = said.get("fix") or hint_for(code)
    if code is None and "nvidia" not in found.loaded:
        lack = "no NVIDIA driver"
        if found.in_container:
            detail = "there is one, but this container doesn't show it"
            fix = "docker run --gpus all (NVIDIA's container toolkit must be on the host)"
        else:
            detail = "there is one, but no NVIDIA driver is loaded"
            if found.nouveau:
                detail = "there is one, but the driver nouveau has it, which can't compute"
            fix = "sudo apt-get install nvidia-driver (Ubuntu: sudo ubuntu-drivers install), reboot"
    elif code is None:
        detail = f"its driver is loaded, but {said['error']}"
        fix = (
            "docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=all"
            if found.in_container
            else "sudo apt-get install libcuda1 (Ubuntu: libnvidia-compute-<driver's version>)"
        )
    elif code == 100:
        lack = "no GPU"
    return Check(
        area="GPU", name="NVIDIA GPU", level="missing", detail=detail, fix=fix, lack=lack,
        languages=languages, required=True,
    )  # fmt: skip


def setting_checks(
    said: Said,
    told: Answer[GpuSettings | None],
    lockable: Answer[None] | None,
    languages: tuple[Language, ...],
) -> Iterator[Check]:
    """Driver, clocks, power, heat and modes.

    Args:
        said: by the CUDA driver, with a device.
        told: by NVML or nvidia-smi; None: neither answers.
        lockable: whether the clocks can be locked; raises why not.
        languages: that run on the GPU.
    """

    def check(name: str, level: Level, detail: str, fix: str | None = None) -> Check:
        return Check(
            area="GPU", name=name, level=level, detail=detail, fix=fix, languages=languages
        )

    api = cuda_release(said)
    runs = f"runs CUDA up to {api[0]}.{api[1]}"
    why: str = "neither NVML nor nvidia-smi answers"
    fix: str | None = "run nvidia-smi by hand; in a container add -e NVIDIA_DRIVER_CAPABILITIES=all"
    try:
        settings = told.get()
    except RoofsmithError as error:
        settings, why, fix = None, error.message, error.hint
    if settings is None:
        yield check("driver", "ok", runs)
        yield check("clocks", "limited", f"not known: {why}", fix)
        return
    yield check("driver", "ok", f"{settings.driver or 'version not known'}, {runs}")
    yield check("clocks", *_clocks(settings, lockable))
    yield check("power", *_power(settings))
    yield check("heat", *_heat(settings))
    yield check("modes", "ok", _modes(settings))
    target = f"sudo nvidia-smi -i {settings.uuid}"
    if settings.mig:
        yield check(
            "MIG", "limited", "on: kernels get a slice, whose neighbours share L2 and memory",
            f"{target} -mig 0 (ends what runs there), or accept times that vary",
        )  # fmt: skip
    if settings.persistence is False:
        yield check(
            "persistence", "limited", "off: the driver is loaded anew by each first call",
            f"{target} -pm 1",
        )  # fmt: skip
    if settings.compute_mode in ONE_PROCESS and languages == ("command",):
        yield check(
            "compute mode", "limited",
            f"{settings.compute_mode}: a command that needs several processes on the GPU fails",
            f"{target} -c DEFAULT",
        )  # fmt: skip
    elif settings.compute_mode in EXCLUSIVE:
        yield Check(
            area="GPU", name="compute mode", level="missing", languages=languages, required=True,
            detail=f"{settings.compute_mode}: the judge needs several processes on the GPU",
            fix=f"{target} -c DEFAULT", lack=f"GPU is {settings.compute_mode}",
        )  # fmt: skip


def _clocks(settings: GpuSettings, lockable: Answer[None] | None) -> tuple[Level, str, str | None]:
    highest, asked = settings.max_sm_clock_hz, settings.application_clock_hz
    now = "" if settings.sm_clock_hz is None else f"{settings.sm_clock_hz / 1e6:.0f} of "
    text = "maximum not known" if highest is None else f"SM {now}{highest / 1e6:.0f} MHz"
    if settings.max_memory_clock_hz is not None:
        text += f", memory up to {settings.max_memory_clock_hz / 1e6:.0f} MHz"
    if highest is not None and asked is not None and asked < highest:
        fix = f"sudo nvidia-smi -i {settings.uuid} -rac"
        return "limited", f"{text}; application clock set to {asked / 1e6:.0f} MHz", fix
    return "ok", text + locking(lockable), None


def _power(settings: GpuSettings) -> tuple[Level, str, str | None]:
    limit, usual, draw = (
        settings.power_limit_w,
        settings.default_power_limit_w,
        settings.power_draw_w,
    )
    if limit is None:
        return "ok", "limit not known", None
    text = f"limit {limit:.0f} W" if draw is None else f"{draw:.0f} of {limit:.0f} W"
    if usual is not None and limit < usual:
        fix = f"sudo nvidia-smi -i {settings.uuid} -pl {usual:.0f}"
        return "limited", f"{text}: the limit is below the default of {usual:.0f} W", fix
    return "ok", text, None


def _heat(settings: GpuSettings) -> tuple[Level, str, str | None]:
    heat, margin = settings.temperature_c, settings.thermal_margin_c
    if heat is None:
        return "ok", "temperature not known", None
    text = f"{heat:.0f} °C"
    if margin is None:
        return "ok", text, None
    text += f", {margin:.0f} °C below where it slows down"
    if margin < LEAST_MARGIN_C:
        return "limited", text, "let it cool down; see to fans and air flow if it was idle"
    return "ok", text, None


def _modes(settings: GpuSettings) -> str:
    """Those that are as they should be; the others have checks of their own."""
    switches = {
        "ECC": settings.ecc,
        "MIG": None if settings.mig else settings.mig,
        "persistence": settings.persistence or None,
    }
    words = [f"{name} {'on' if on else 'off'}" for name, on in switches.items() if on is not None]
    if settings.compute_mode is not None and settings.compute_mode not in EXCLUSIVE:
        words.append(f"compute mode {settings.compute_mode}")
    return ", ".join(words) or "not known"


def toolkit_checks(toolkit: Answer[Toolkit], said: Said, arch: str | None) -> Iterator[Check]:
    """nvcc, and whether what it builds runs here.

    Args:
        toolkit: the one that kernels would be built with.
        said: by the CUDA driver.
        arch: of the GPU; None without.
    """
    level: Level = "ok"
    fix = lack = None
    try:
        kit = toolkit.get()
        detail = f"CUDA {kit.version}, {kit.compiler.path}"
        if arch is not None:
            built = architecture_for(kit, arch)
            detail += f", builds for {built.name}"
            if built.note is not None:
                level, detail, fix = "limited", built.note, "install a newer CUDA toolkit"
        if kit.runtime is None:
            detail += "; static runtime only"
    except RoofsmithError as error:
        level, detail, fix = "missing", error.message, error.hint
        lack = "no nvcc"
    else:
        driver = cuda_release(said) if "error" not in said else None
        if driver is not None and driver[0] < kit.release[0]:
            level, lack = "missing", "driver too old for nvcc"
            detail = f"CUDA {kit.version} is newer than the driver, which runs {driver[0]}.x"
            fix = f"update the driver, or set CUDA_HOME to a CUDA {driver[0]}.x toolkit"
    yield Check(
        area="compilers", name="nvcc", level=level, detail=detail, fix=fix, lack=lack,
        languages=("cuda",), required=True,
    )  # fmt: skip


def profiler_checks(
    sources: Sources, ncu: Answer[str | None], versions: Mapping[str, Answer[str | None]],
    driver: str | None, release: tuple[int, int] | None, languages: tuple[Language, ...],
) -> Iterator[Check]:  # fmt: skip
    """ncu, whether it may count, and compute-sanitizer.

    Args:
        sources: tells what is permitted.
        ncu: where it is; None: nowhere.
        versions: lines by tool; None: it isn't installed.
        driver: its release.
        release: of CUDA, whose packages fit.
        languages: whose kernels ncu profiles.
    """

    def package(name: str) -> str:
        major, minor = release or ("MAJOR", "MINOR")
        return f"{name}-{major}-{minor}"

    lack = "not installed"
    fix: str | None = f"sudo apt-get install {package('cuda-nsight-compute')} (NVIDIA's archive)"
    try:
        program = ncu.get()
    except MachineError as error:
        program, lack, fix = None, error.message, error.hint
    if program is None:
        yield Check(
            area="profilers", name="ncu", level="limited", languages=languages,
            detail=f"{lack}: no hardware counters, torch.profiler's times alone", fix=fix,
        )  # fmt: skip
    else:
        version = versions["ncu"].value(program) or program
        yield _ncu(sources, version, driver, languages)
    lack = "compute-sanitizer is not installed"
    fix = f"sudo apt-get install {package('cuda-sanitizer')} (NVIDIA's)"
    try:
        sanitizer = versions["compute-sanitizer"].get()
    except MachineError as error:
        sanitizer, lack, fix = None, error.message, error.hint
    yield Check(
        area="profilers", name="sanitizer", languages=("cuda",),
        level="limited" if sanitizer is None else "ok",
        detail=_release(sanitizer) if sanitizer else f"{lack}: winners aren't run under it",
        fix=None if sanitizer else fix,
    )  # fmt: skip


def _ncu(
    sources: Sources, version: str, driver: str | None, languages: tuple[Language, ...]
) -> Check:
    permitted = permissions.gpu_counters_permitted(sources.root, driver)
    says = {
        True: "counters permitted",
        False: "counters forbidden (ERR_NVGPUCTRPERM)",
        None: "whether counters are permitted is not known: /proc/driver/nvidia/params is missing",
    }
    return Check(
        area="profilers", name="ncu", languages=languages,
        level="limited" if permitted is False else "ok",
        detail=f"{_release(version)}; {says[permitted]}",
        fix=ALLOW_COUNTERS if permitted is False else None,
    )  # fmt: skip


def _release(version_line: str) -> str:
    """`2025.3.1.0` of `Version 2025.3.1.0 (build 36398880) (public-release)`."""
    return _BUILD.sub("", version_line.removeprefix("Version "))


def cuda_release(said: Said) -> tuple[int, int]:
    """The newest CUDA that the driver runs: 13000 is 13.0."""
    number = int(said["driver_api"])
    return number // 1000, number % 1000 // 10


def arch_of(said: Said) -> str | None:
    """Such as sm_90; None without a device."""
    if "error" in said:
        return None
    return f"sm_{said['attributes']['major']}{said['attributes']['minor']}"
