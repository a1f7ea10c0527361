"""What is asked of host and GPUs, and which checks become of the answers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from roofsmith.app.doctor import amd, frameworks, gpus, hosts, left_behind, nvidia
from roofsmith.app.doctor.asking import Answer, Inquiry
from roofsmith.app.doctor.sources import Sources
from roofsmith.config import Settings
from roofsmith.devices.nvidia_smi import GpuSettings
from roofsmith.devices.plugged import NAMES, Vendor, Vendors
from roofsmith.domain.command import CommandSpec
from roofsmith.domain.examination import Check
from roofsmith.domain.fleet import GatePolicy
from roofsmith.domain.kernel import Language
from roofsmith.errors import MachineError


@dataclass(frozen=True, slots=True)
class Question:
    """What the machine is looked at for."""

    name: str | None = None
    """A target's path; None: anything that it could run."""
    language: Language | None = None
    device_language: Language | None = None
    """One whose kernels run where the target's do."""
    compiler: str | None = None
    """That the target insists on."""
    command: CommandSpec | None = None
    """Of a command target."""

    def about(self, languages: tuple[Language, ...]) -> bool:
        """Whether kernels in one of the languages are asked about, or commands that run there."""
        return self.device_language is None or self.device_language in languages

    def on(self, languages: tuple[Language, ...]) -> tuple[Language, ...]:
        """Whom a GPU matters to on which kernels in `languages` run."""
        return languages if self.command is None else ("command",)


class HostLook:
    """What is asked whatever the device."""

    def __init__(self, sources: Sources, inquiry: Inquiry) -> None:
        self._sources = sources
        self.environment = inquiry.ask("the operating system", sources.environment)
        self._compilers = inquiry.ask("the C compiler", sources.compilers)
        self._openmp = inquiry.ask("the C compiler", sources.openmp)
        self._isolation = inquiry.ask("the probe of isolation", sources.isolation)
        self._wiki = inquiry.ask("the wiki", sources.wiki)

    def checks(self, question: Question, settings: Settings) -> Iterator[Check]:
        """Everything but the GPU."""
        environment = self.environment.get()
        yield from hosts.processor_checks(self._sources, environment)
        yield from hosts.compiler_checks(self._compilers, self._openmp, question.compiler)
        yield from frameworks.package_checks(environment)
        yield from hosts.profiler_checks(self._sources, environment)
        yield from hosts.isolation_checks(self._isolation)
        yield from hosts.file_checks(self._sources, settings, environment)
        yield from left_behind.wiki_checks(self._wiki, settings.wiki_dir)


class GpuLook:
    """What is asked where kernels of GPUs may run."""

    def __init__(self, sources: Sources, inquiry: Inquiry, found: Vendors, modules: Vendor) -> None:
        self._sources, self._inquiry = sources, inquiry
        self._found, self._modules = found, modules
        self._told: Answer[GpuSettings | None] | None = None
        self._build = sources.torch_build()
        self._fleet = {
            vendor: inquiry.ask(f"{name}'s driver", partial(sources.fleet, vendor))
            for vendor, name in NAMES.items()
        }
        self._sees = self._ask_torch()
        self._cuda = inquiry.ask("the CUDA driver", sources.cuda)
        self._toolkit = inquiry.ask("nvcc", sources.toolkit)
        self._ncu = inquiry.ask("nvcc, whose toolkit may hold ncu,", sources.ncu)
        self._rocminfo = inquiry.ask("rocminfo", sources.rocminfo)
        self._hipcc = inquiry.ask("hipcc", sources.hipcc)
        self._profilers = {
            name: inquiry.ask(name, partial(sources.tool, name))
            for name in ("ncu", "compute-sanitizer", "rocprofv3")
        }

    def _ask_torch(self) -> frameworks.Sees | None:
        """Ask at once, since it takes longest; only where there may be something to see."""
        build = self._build
        made = build is not None and (build.hip if self._modules == "amd" else build.cuda)
        if not made or self._modules not in self._found.loaded:
            return None
        return self._inquiry.ask("PyTorch", self._sources.torch_sees)

    def checks(self, question: Question, settings: Settings) -> Iterator[Check]:
        """GPUs, and what their kernels are built, run and profiled with."""
        said = _said(self._cuda)
        answers = "error" not in said or said.get("code") is not None
        present = self._found.present | ({"nvidia"} if answers else set())
        wanted = [v for v in gpus.VENDORS if question.about(gpus.languages_on(v, self._modules))]
        none = not present & set(wanted)
        if none:
            yield gpus.no_gpu(wanted, question.on(gpus.GPU))
        for vendor in wanted:
            languages = question.on(gpus.languages_on(vendor, self._modules))
            if vendor in present:
                yield from self._devices(vendor, said, settings.gate, languages)
            elif not none:
                yield gpus.none_of(vendor, languages)
            # What a repository's commands need beside the GPU is theirs.
            if question.command is None and (vendor in present or question.language is not None):
                yield from self._programs(vendor, said)
        yield from left_behind.clock_checks(settings.clocks_dir)

    def _devices(
        self, vendor: Vendor, said: nvidia.Said, policy: GatePolicy,
        languages: tuple[Language, ...],
    ) -> Iterator[Check]:  # fmt: skip
        if vendor == "amd":
            yield from amd.device_checks(self._sources, self._rocminfo, self._found, languages)
            if shown := amd.agent(self._rocminfo):
                lockable = self._locking(vendor, shown.uuid, shown.max_clock_hz)
                ours = self._sources.ours
                yield from amd.state_checks(
                    shown, self._fleet[vendor], lockable, ours, policy, languages
                )
            return
        yield from nvidia.device_checks(said, self._found, languages)
        if "error" not in said:
            uuid = str(said["uuid"])
            lockable = self._locking(vendor, uuid, None)
            told = self._ask_settings(said)
            yield from nvidia.setting_checks(said, told, lockable, languages)
            ours = self._sources.ours
            yield gpus.in_use(self._fleet[vendor], uuid, ours, policy, languages)

    def _programs(self, vendor: Vendor, said: nvidia.Said) -> Iterator[Check]:
        """Compilers, profilers and frameworks: of use only with a GPU, but not found on it."""
        languages = gpus.languages_on(vendor, self._modules)
        if vendor == "amd":
            shown = amd.agent(self._rocminfo)
            arch = None if shown is None else shown.arch
            yield from amd.hipcc_checks(self._hipcc)
            yield from amd.profiler_checks(self._sources, self._profilers["rocprofv3"], languages)
            yield from self._frameworks(vendor, None, arch, languages)
            return
        arch = nvidia.arch_of(said)
        settings = self._settings(said)
        driver = None if settings is None else settings.driver
        release = None if arch is None else nvidia.cuda_release(said)
        yield from nvidia.toolkit_checks(self._toolkit, said, arch)
        toolkit = self._toolkit.value(None)
        named = release or (None if toolkit is None else toolkit.release)
        yield from nvidia.profiler_checks(
            self._sources, self._ncu, self._profilers, driver, named, languages
        )
        yield from self._frameworks(vendor, release, arch, languages)

    def _locking(
        self, vendor: Vendor, uuid: str | None, max_clock_hz: float | None
    ) -> Answer[None] | None:
        if uuid is None:
            return None
        ask = partial(self._sources.lockable, vendor, uuid, max_clock_hz)
        return self._inquiry.ask(gpus.LIBRARIES[vendor], ask)

    def _ask_settings(self, said: nvidia.Said) -> Answer[GpuSettings | None]:
        """How the GPU is set up; asked once."""
        if self._told is None:
            ask = partial(self._sources.gpu_settings, str(said["uuid"]))
            self._told = self._inquiry.ask("NVIDIA's driver", ask)
        return self._told

    def _settings(self, said: nvidia.Said) -> GpuSettings | None:
        """The same, as far as it is known."""
        if "error" in said:
            return None
        try:
            return self._ask_settings(said).get()
        except MachineError:
            return None

    def _frameworks(
        self, vendor: Vendor, release: tuple[int, int] | None, arch: str | None,
        languages: tuple[Language, ...],
    ) -> Iterator[Check]:  # fmt: skip
        sees = self._sees if vendor == self._modules and arch is not None else None
        yield frameworks.torch_check(self._build, sees, vendor, release, arch, languages)
        if "triton" in languages:
            headers = self._sources.python_headers()
            yield frameworks.triton_check(self._sources.triton(), headers, sees)


def _said(cuda: Answer[nvidia.Said]) -> nvidia.Said:
    try:
        return cuda.get()
    except MachineError as error:
        return {"error": error.message, "code": 999, "fix": error.hint}
