"""Checks of PyTorch and Triton: whether they were built for this machine, and see its GPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from roofsmith.api.doctor.gpus import languages_on, release_of
from roofsmith.api.doctor.nvidia import arch_of, cuda_release
from roofsmith.api.doctor.snapshot import Reply, Snapshot, Topic
from roofsmith.domain.dialects import DIALECTS
from roofsmith.domain.examination import Check
from roofsmith.domain.kernel import Language
from roofsmith.errors import RoofsmithError
from roofsmith.machine.plugged import Vendor

Sees = Reply[Mapping[str, Any] | None]
_SELECTOR = "https://pytorch.org/get-started"
"""Where PyTorch names the command that installs a build of one's choice."""


def frameworks(s: Snapshot, vendor: Vendor, asked: Language | None = None) -> Iterator[Check]:
    """PyTorch, in which references of GPU kernels are written, and Triton.

    Args:
        s: the machine.
        vendor: of the GPU that they have to see.
        asked: the language of the target that it is about.
    """
    languages = languages_on(vendor, s.modules)
    arch = arch_of(s.said) if vendor == "nvidia" else getattr(s.agent, "arch", None)
    sees = s.torch_sees if vendor == s.modules and arch is not None else None
    yield _torch(s, Topic("Python", "PyTorch", languages, True), vendor, sees, arch)
    if "triton" in languages and asked not in ("cutedsl", "flydsl", "tilelang"):
        yield _triton(s, sees)
    if nsight := s.nsight_python:
        yield Topic("Python", "nsight-python", languages).found(nsight, version=nsight)
    yield from _dialects(s, languages, asked)


def _dialects(
    s: Snapshot, languages: tuple[Language, ...], asked: Language | None
) -> Iterator[Check]:
    """Those that are there, and the one that a target is in."""
    for language in (one for one in languages if one in DIALECTS):
        dialect, version = DIALECTS[language], s.dialects.get(language)
        package = dialect.packages[0]
        topic = Topic("Python", dialect.label, (language,), True)
        if version is not None:
            yield topic.found(f"{package} {version}", version=version)
        elif asked == language:
            detail = f"{package} is not installed"
            yield topic.missing(detail, f"pip install {package}", f"no {dialect.label}")


def _torch(s: Snapshot, torch: Topic, vendor: Vendor, sees: Sees | None, arch: str | None) -> Check:
    build = s.torch_build
    # The newest CUDA release that NVIDIA's driver runs.
    driver = None if vendor == "amd" or arch is None else cuda_release(s.said)
    install = _install(vendor, driver)
    if build is None:
        detail = "torch is not installed; references of GPU kernels are written in it"
        return torch.missing(detail, install, "no torch")
    wanted, made_for = ("ROCm", build.hip) if vendor == "amd" else ("CUDA", build.cuda)
    if made_for is None:
        detail = f"{build.version} is built without {wanted}"
        return torch.missing(detail, install, f"torch without {wanted}")
    text, release = f"{build.version}, built for {wanted} {made_for}", release_of(made_for)
    # Within a major release, newer builds run on older drivers (CUDA Compatibility).
    if driver is not None and release is not None and release[0] > driver[0]:
        detail = f"{text}, but the driver runs CUDA up to {driver[0]}.{driver[1]}"
        fix = f"update the driver, or {install}"
        return torch.missing(detail, fix, "torch newer than the driver")
    found = torch.found(text, version=build.version)
    return found if sees is None or found.below else _seeing(torch, text, sees, arch, install)


def _seeing(torch: Topic, text: str, sees: Sees, arch: str | None, install: str) -> Check:
    try:
        said = sees.get()
    except RoofsmithError as error:
        return torch.missing(f"{text}: {error.message}", error.hint, "torch is broken")
    if said is None:
        return torch.found(f"{text}; slow to import here: not asked whether it sees the GPU")
    if said["torch"] is not None:
        detail = f"{text}, doesn't see the GPU: {said['torch']}"
        by_hand = "python -c 'import torch; torch.zeros(1).cuda()' says why"
        return torch.missing(detail, by_hand, "torch sees no GPU")
    if arch is not None and not _runs_on(arch, said["arch_list"]):
        detail = f"{text}, sees the GPU, but has no code for {arch}"
        return torch.missing(detail, f"a newer build: {install}", f"torch without {arch}")
    return torch.found(f"{text}, sees the GPU")


def _runs_on(arch: str, built_for: list[str]) -> bool:
    """Whether code for one of the listed architectures runs: same major and no newer, or as PTX."""
    if not built_for or arch in built_for or not arch.startswith("sm_"):
        return not built_for or arch in built_for or arch.startswith("gfx")
    number = int(arch.removeprefix("sm_"))
    for name in built_for:
        kind, _, digits = name.partition("_")
        if not digits.isdecimal():
            continue
        same_major = int(digits) // 10 == number // 10 or kind == "compute"
        if same_major and int(digits) <= number:
            return True
    return False


def _install(vendor: Vendor, driver: tuple[int, int] | None) -> str:
    # Any minor release of the driver's major one runs (CUDA minor version compatibility).
    cuda = "CUDA" if driver is None else f"CUDA {driver[0]}"
    platform = "ROCm" if vendor == "amd" else cuda
    return f"install a PyTorch built for {platform}: {_SELECTOR} names the command"


def _triton(s: Snapshot, sees: Sees | None) -> Check:
    """Triton compiles its launchers with a C compiler and Python's headers."""
    triton, version = Topic("Python", "Triton", ("triton", "helion", "gluon"), True), s.triton
    if version is None:
        return triton.missing("not installed", "pip install triton", "no triton")
    if s.python_headers is None:
        detail = f"{version}: Python.h is missing, its launchers can't be compiled"
        return triton.missing(detail, "sudo apt-get install python3-dev", "no Python.h")
    if (found := triton.found(version, version=version)).below:
        return found
    # An error stands in PyTorch's line.
    if sees is None or (said := sees.value(None)) is None:
        return triton.found(version)
    if wrong := said.get("triton"):
        fix = "pip install the Triton that came with this torch"
        return triton.missing(f"{version}: {wrong}", fix, "triton sees no GPU")
    sees_gpu = not said["torch"] and "triton" in said
    return triton.found(f"{version}, sees the GPU" if sees_gpu else version)
