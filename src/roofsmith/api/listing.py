"""The instructions of one kernel, as its compiler made them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from roofsmith.analysis import figures as fmt
from roofsmith.api.code_files import code_files, code_of
from roofsmith.api.first_runs import gate_for
from roofsmith.api.hardware import machine_of
from roofsmith.api.places import Place
from roofsmith.api.repositories import open_target_repository, pass_through
from roofsmith.api.subjects import candidate_from, require_allowed, target_of
from roofsmith.api.wiring import open_target
from roofsmith.config import Settings
from roofsmith.domain.device import Device
from roofsmith.domain.kernel import MODULE_LANGUAGES, Built, Candidate, Language
from roofsmith.domain.modes import CodeKind
from roofsmith.domain.options import Subject
from roofsmith.domain.outcome import BuildFailed
from roofsmith.domain.target import HOST_LANGUAGES
from roofsmith.errors import BaselineError, MachineError, ToolMissingError, UsageError
from roofsmith.ports import Observer, Scope, required
from roofsmith.profilers.disassembly import disassemble
from roofsmith.store.sources import LANGUAGES
from roofsmith.toolchains.cuda import CudaReadingToolchain
from roofsmith.toolchains.cuda_toolkit import is_architecture
from roofsmith.toolchains.disassembly import kept_kinds, listing
from roofsmith.toolchains.hip import ARCHITECTURE, HipToolchain

_KEEPING: Final = {
    "TRITON_CACHE_DIR": "{folder}/triton",
    "CUTE_DSL_KEEP": "ptx,cubin", "CUTE_DSL_DUMP_DIR": "{folder}",
    "FLYDSL_DUMP_IR": "1", "FLYDSL_DUMP_DIR": "{folder}", "FLYDSL_RUNTIME_ENABLE_CACHE": "0",
}  # fmt: skip
"""What has a compiler at run time leave its code; sources of the latter two: the library's pages
`backend/cutedsl` and `backend/flydsl`."""


@dataclass(frozen=True, slots=True)
class ListedKernel:
    """A kernel's code, to be read."""

    candidate_id: str
    language: Language
    kind: CodeKind
    text: str
    notes: tuple[str, ...] = ()
    """What the compiler can't do for the device."""

    @property
    def visible(self) -> str:
        """The text without what a terminal would obey."""
        return fmt.visible(self.text)


def listed(
    subject: Subject,
    kind: CodeKind | None,
    settings: Settings,
    observer: Observer,
    *,
    arch: str | None = None,
) -> ListedKernel:
    """Build a kernel and list its code; run it first where it is compiled when it runs.

    Args:
        subject: the kernel; without reference and workloads where building it is enough.
        kind: of code; None: what the device runs.
        settings: where caches are.
        observer: hears what happens.
        arch: that a CUDA or HIP kernel is built for; None: this machine's GPU's.

    Raises:
        UsageError: there is no such code of this kernel, or no such architecture.
        ToolMissingError: the program that prints it isn't installed.
        SignatureError: it has no readable `solve`.
        BaselineError: it doesn't build, or left nothing behind.
    """
    candidate = _candidate(subject)
    if candidate.language == "command":
        return _of_repository(subject, kind, settings, observer)
    if arch is not None:
        _require_architecture(arch, candidate)
    if candidate.language in MODULE_LANGUAGES:
        return _of_module(subject, kind, settings, observer)
    chosen = kind or _default(candidate.language)
    if candidate.language in (*HOST_LANGUAGES, "hip") and chosen != "asm":
        raise UsageError(
            f"{chosen} is code of NVIDIA's GPUs; {subject.path} is {candidate.language}",
            hint="--kind asm",
        )
    if arch is None:
        toolchain = _machine(settings, candidate.language).toolchain
    elif candidate.language == "hip":  # building asks for no more of a device
        card = Device(kind="amd", name=arch, cores=1, arch=arch)
        toolchain = HipToolchain(settings.builds_dir, card)
    else:
        toolchain = CudaReadingToolchain(settings.builds_dir, arch)
    observer.stage("build", candidate.kernel.path)
    toolchain.signature(candidate)
    built = toolchain.build(candidate)
    if isinstance(built, BuildFailed):
        raise _unbuilt(subject, built)
    text = (
        _assembly(built)
        if candidate.language in HOST_LANGUAGES
        else listing(built, chosen, settings.compiled_dir)
    )
    return ListedKernel(built.candidate_id, built.language, chosen, text, built.notes)


def _require_architecture(arch: str, candidate: Candidate) -> None:
    if candidate.language not in ("cuda", "hip"):
        raise UsageError(
            f"--arch is for CUDA and HIP kernels; {candidate.kernel.path} is {candidate.language}",
            hint="leave it out: the code is of this machine's own",
        )
    if candidate.language == "hip" and ARCHITECTURE.fullmatch(arch) is None:
        raise UsageError(
            f"--arch {arch}: no architecture of AMD's is written like that", hint="--arch gfx942"
        )
    if candidate.language == "cuda" and not is_architecture(arch):
        raise UsageError(
            f"--arch {arch}: no architecture of NVIDIA's is written like that",
            hint="--arch sm_90; `nvcc --list-gpu-code` shows those that nvcc builds for",
        )


def _machine(settings: Settings, language: Language) -> Place:
    """This machine's parts; where it has no GPU, a CUDA kernel can be read without."""
    try:
        return machine_of(replace(settings, lock_clocks=False), language)
    except MachineError as error:
        if language not in ("cuda", "hip"):
            raise
        otherwise = f"; else {error.hint}" if error.hint else ""
        like = "sm_90" if language == "cuda" else "gfx942"
        raise MachineError(
            error.message, hint=f"--arch {like}, or another: that needs no GPU{otherwise}"
        ) from error


def _candidate(subject: Subject) -> Candidate:
    """The kernel; nothing but its file is needed to build one."""
    if subject.path.suffix in LANGUAGES and subject.reference is None:
        candidate = candidate_from(subject.path, subject.flags, subject.entry)
        require_allowed(candidate)
        return candidate
    return target_of(subject).baseline


def _of_repository(
    subject: Subject, kind: CodeKind | None, settings: Settings, observer: Observer
) -> ListedKernel:
    """Of what a repository's build makes; where that is no code, of what its benchmark compiles."""
    target = target_of(subject)
    with (
        gate_for(target, settings, observer) as gate,
        open_target_repository(target, settings) as parts,
    ):
        observer.stage("build", parts.spec.build or "nothing to build")
        built = parts.toolchain.build(target.baseline)
        if isinstance(built, BuildFailed):
            raise _unbuilt(subject, built)
        files = code_files(built.library)
        if not files:
            pass_through(gate)
            observer.stage("check", parts.spec.benchmark)
            folder = parts.root / "compiled"
            folder.mkdir()
            kept = {name: said.format(folder=folder) for name, said in _KEEPING.items()}
            environment = {**built.environment, **kept}
            ran, _ = parts.runs.written(built.model_copy(update={"environment": environment}))
            if not ran.passed:
                raise BaselineError(ran.told(), log=ran.log)
            files = (*code_files(folder), *code_files(built.library))
        chosen, texts = code_of(files, kind)
        if not texts:
            raise UsageError(
                f"neither build nor benchmark of {subject.path} left code to list",
                hint="have one of them keep what it compiles in the repository's folder",
            )
        within = (built.library, parts.root)
        named = (f"// {_relative(path, within)}\n{text}" for path, text in texts.items())
        return ListedKernel(built.candidate_id, built.language, chosen, "\n".join(named))


def _relative(path: Path, folders: Sequence[Path]) -> Path:
    return next((path.relative_to(one) for one in folders if path.is_relative_to(one)), path)


def _of_module(
    subject: Subject, kind: CodeKind | None, settings: Settings, observer: Observer
) -> ListedKernel:
    """Of a module, which Triton compiles while it is checked: for these workloads."""
    target = target_of(subject)
    with open_target(target, settings, observer) as opened:
        outcome = required(opened.evaluate_baseline(Scope(alone="check")).measured).outcome
        compiled_dir = opened.machine.compiled_dir
        built = opened.machine.toolchain.build(target.baseline)
        if isinstance(built, BuildFailed):
            raise _unbuilt(subject, built)
        kinds = kept_kinds(built.candidate_id, compiled_dir)
        if not kinds and outcome.kind != "passed":
            raise BaselineError(
                f"{subject.path} left no code behind: {outcome.detail}",
                hint="`roofsmith kernel check` says more",
            )
        chosen = kind or ("asm" if kinds == ("asm",) else "sass")
        text = listing(built, chosen, compiled_dir)
        return ListedKernel(built.candidate_id, built.language, chosen, text)


def _default(language: Language) -> CodeKind:
    return "sass" if language == "cuda" else "asm"


def _assembly(built: Built) -> str:
    text = disassemble(built.library)
    if text is None:
        raise ToolMissingError(
            f"objdump is not installed, or failed on {built.library}",
            hint="install it: `apt-get install binutils`",
        )
    return text


def _unbuilt(subject: Subject, failed: BuildFailed) -> BaselineError:
    return BaselineError(
        f"{subject.path} doesn't build: {failed.detail}",
        log=failed.log,
        hint="fix it, or give the right --flags",
    )
