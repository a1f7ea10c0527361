"""Checks of an NVIDIA GPU: device, driver, how it is set up, compilers and profilers for it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from roofsmith.analysis import figures as fmt
from roofsmith.api.doctor.gpus import in_use, languages_on, locking
from roofsmith.api.doctor.snapshot import Inquiry, Said, Snapshot, Topic
from roofsmith.domain.examination import Check
from roofsmith.domain.kernel import Language
from roofsmith.errors import MachineError, RoofsmithError
from roofsmith.machine import permissions
from roofsmith.machine.nvidia import hint_for
from roofsmith.machine.nvml import GpuSettings
from roofsmith.toolchains.cuda_toolkit import architecture_for

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


def device(s: Snapshot, q: Inquiry) -> Iterator[Check]:
    """Whether a GPU answers, which driver runs it, how it is set up, and who else uses it."""
    said, languages = s.said, q.on(languages_on("nvidia", s.modules))
    gpu = Topic("GPU", "NVIDIA GPU", languages, True)
    if "error" in said:
        yield _no_device(s, gpu)
        return
    detail = (
        f"{said['name']}, {arch_of(said)}, {said['attributes']['multiprocessors']} SMs, "
        f"{fmt.size(said['memory_bytes'])}"
    )
    if said["devices"] > 1:
        detail += f"; the first of {said['devices']}, CUDA_VISIBLE_DEVICES chooses another"
    attributes = said["attributes"]
    yield gpu.found(detail, version=f"{attributes['major']}.{attributes['minor']}")
    yield from _set_up(s, languages)
    yield in_use(s, "nvidia", str(said["uuid"]), languages)


def _no_device(s: Snapshot, gpu: Topic) -> Check:
    code, in_container = s.said.get("code"), s.plugged.in_container
    if code is not None:
        detail, lack = f"it doesn't answer: {s.said['error']}", "GPU doesn't answer"
        fix = s.said.get("fix") or hint_for(code)
        return gpu.missing(detail, fix, "no GPU" if code == 100 else lack)
    if "nvidia" in s.plugged.loaded:
        fix = "sudo apt-get install libcuda1 (Ubuntu: libnvidia-compute-<driver's version>)"
        if in_container:
            fix = "docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=all"
        detail = f"its driver is loaded, but {s.said['error']}"
        return gpu.missing(detail, fix, "GPU doesn't answer")
    detail = "there is one, but no NVIDIA driver is loaded"
    fix = "sudo apt-get install nvidia-driver (Ubuntu: sudo ubuntu-drivers install), reboot"
    if in_container:
        detail = "there is one, but this container doesn't show it"
        fix = "docker run --gpus all (NVIDIA's container toolkit must be on the host)"
    elif s.plugged.nouveau:
        detail = "there is one, but the driver nouveau has it, which can't compute"
    return gpu.missing(detail, fix, "no NVIDIA driver")


def _set_up(s: Snapshot, languages: tuple[Language, ...]) -> Iterator[Check]:
    def topic(name: str) -> Topic:
        return Topic("GPU", name, languages)

    major, minor = cuda_release(s.said)
    runs = f"runs CUDA up to {major}.{minor}"
    why: str = "NVML doesn't answer"
    fix: str | None = "run nvidia-smi by hand; in a container add -e NVIDIA_DRIVER_CAPABILITIES=all"
    try:
        settings = s.gpu_settings.get()
    except RoofsmithError as error:
        settings, why, fix = None, error.message, error.hint
    if settings is None:
        yield topic("driver").found(runs)
        yield topic("clocks").limited(f"not known: {why}", fix)
        return
    target = f"sudo nvidia-smi -i {settings.uuid}"
    yield topic("driver").found(f"{settings.driver or 'version not known'}, {runs}")
    yield topic("clocks").found(*_clocks(s, settings, target))
    yield topic("power").found(*_power(settings, target))
    yield topic("heat").found(*_heat(settings))
    yield topic("modes").found(_modes(settings))
    if settings.mig:
        yield topic("MIG").limited(
            "on: kernels get a slice, whose neighbours share L2 and memory",
            f"{target} -mig 0 (ends what runs there), or accept times that vary",
        )
    if settings.persistence is False:
        yield topic("persistence").limited(
            "off: the driver is loaded anew by each first call", f"{target} -pm 1"
        )
    mode, default = settings.compute_mode, f"{target} -c DEFAULT"
    if mode in ONE_PROCESS and languages == ("command",):
        yield topic("compute mode").limited(
            f"{mode}: a command that needs several processes on the GPU fails", default
        )
    elif mode in EXCLUSIVE:
        detail = f"{mode}: the judge needs several processes on the GPU"
        yield topic("compute mode").missing(detail, default, f"GPU is {mode}")


def _clocks(s: Snapshot, settings: GpuSettings, target: str) -> tuple[str, str | None]:
    highest, asked = settings.max_sm_clock_hz, settings.application_clock_hz
    now = "" if settings.sm_clock_hz is None else f"{settings.sm_clock_hz / 1e6:.0f} of "
    text = "maximum not known" if highest is None else f"SM {now}{highest / 1e6:.0f} MHz"
    if settings.max_memory_clock_hz is not None:
        text += f", memory up to {settings.max_memory_clock_hz / 1e6:.0f} MHz"
    if highest is not None and asked is not None and asked < highest:
        return f"{text}; application clock set to {asked / 1e6:.0f} MHz", f"{target} -rac"
    return text + locking(s), None


def _power(settings: GpuSettings, target: str) -> tuple[str, str | None]:
    limit, usual = settings.power_limit_w, settings.default_power_limit_w
    if limit is None:
        return "limit not known", None
    draw = settings.power_draw_w
    text = f"limit {limit:.0f} W" if draw is None else f"{draw:.0f} of {limit:.0f} W"
    if usual is None or limit >= usual:
        return text, None
    return f"{text}: the limit is below the default of {usual:.0f} W", f"{target} -pl {usual:.0f}"


def _heat(settings: GpuSettings) -> tuple[str, str | None]:
    heat, margin = settings.temperature_c, settings.thermal_margin_c
    if heat is None:
        return "temperature not known", None
    if margin is None:
        return f"{heat:.0f} °C", None
    text = f"{heat:.0f} °C, {margin:.0f} °C below where it slows down"
    cool = "let it cool down; see to fans and air flow if it was idle"
    return text, cool if margin < LEAST_MARGIN_C else None


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


def toolkit(s: Snapshot, _q: Inquiry) -> Iterator[Check]:
    """nvcc, and whether what it builds runs here."""
    topic = Topic("compilers", "nvcc", ("cuda",), True)
    arch = arch_of(s.said)
    try:
        kit = s.toolkit.get()
        built = None if arch is None else architecture_for(kit, arch)
    except RoofsmithError as error:
        yield topic.missing(error.message, error.hint, "no nvcc")
        return
    driver = None if arch is None else cuda_release(s.said)
    if driver is not None and driver[0] < kit.release[0]:
        yield topic.missing(
            f"CUDA {kit.version} is newer than the driver, which runs {driver[0]}.x",
            f"update the driver, or set CUDA_HOME to a CUDA {driver[0]}.x toolkit",
            "driver too old for nvcc",
        )
        return
    detail = f"CUDA {kit.version}, {kit.compiler.path}"
    detail += "" if built is None else f", builds for {built.name}"
    fix = None
    if built is not None and built.note is not None:
        detail, fix = built.note, "install a newer CUDA toolkit"
    detail += "; static runtime only" if kit.runtime is None else ""
    yield topic.found(detail, fix, version=kit.version)


def profilers(s: Snapshot, _q: Inquiry) -> Iterator[Check]:
    """ncu, whether it may count, and compute-sanitizer."""
    release: tuple[int | str, int | str] = ("MAJOR", "MINOR")
    if "error" not in s.said:
        release = cuda_release(s.said)
    elif (kit := s.toolkit.value(None)) is not None:
        release = kit.release
    version = f"-{release[0]}-{release[1]}"
    ncu = Topic("profilers", "ncu", languages_on("nvidia", s.modules))
    lack = "not installed"
    fix: str | None = f"sudo apt-get install cuda-nsight-compute{version} (NVIDIA's archive)"
    try:
        program = s.ncu.get()
    except MachineError as error:
        program, lack, fix = None, error.message, error.hint
    if program is None:
        yield ncu.limited(f"{lack}: no hardware counters, torch.profiler's times alone", fix)
    else:
        yield _ncu(s, ncu, s.tools["ncu"].value(program) or program)
    yield _sanitizer(s, f"sudo apt-get install cuda-sanitizer{version} (NVIDIA's)")


def _ncu(s: Snapshot, ncu: Topic, version: str) -> Check:
    settings = s.gpu_settings.value(None)
    driver = None if settings is None else settings.driver
    permitted = permissions.gpu_counters_permitted(s.root, driver)
    says = {
        True: "counters permitted",
        False: "counters forbidden (ERR_NVGPUCTRPERM)",
        None: "whether counters are permitted is not known: /proc/driver/nvidia/params is missing",
    }
    fix = ALLOW_COUNTERS if permitted is False else None
    found = _release(version)
    known = found if found[:1].isdecimal() else None
    return ncu.found(f"{found}; {says[permitted]}", fix, version=known)


def _sanitizer(s: Snapshot, install: str) -> Check:
    topic = Topic("profilers", "sanitizer", ("cuda",))
    try:
        version = s.tools["compute-sanitizer"].get()
    except MachineError as error:
        return topic.limited(f"{error.message}: winners aren't run under it", error.hint)
    if version is None:
        lack = "compute-sanitizer is not installed: winners aren't run under it"
        return topic.limited(lack, install)
    return topic.found(_release(version))


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
