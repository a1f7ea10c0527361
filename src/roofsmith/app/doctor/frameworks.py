"""Checks of Python: packages, and whether PyTorch and Triton were built for this machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from roofsmith.app.doctor.asking import Answer
from roofsmith.app.doctor.gpus import GPU, release_of
from roofsmith.devices.frameworks import TorchBuild
from roofsmith.domain.device import Environment
from roofsmith.domain.examination import Check, Level
from roofsmith.domain.kernel import Language
from roofsmith.errors import RoofsmithError

Sees = Answer[Mapping[str, Any] | None]
"""What PyTorch and Triton see; None: not within the deadline."""

_SELECTOR = "https://pytorch.org/get-started"
"""Where PyTorch names the command that installs a build of one's choice."""


def package_checks(environment: Environment) -> Iterator[Check]:
    """Python and the packages that can change a result."""
    packages = (f"{name} {version}" for name, version in environment.packages.items())
    python = environment.tools.get("python", "Python")
    yield Check(area="Python", name="packages", level="ok", detail=", ".join((python, *packages)))


def torch_check(
    build: TorchBuild | None,
    sees: Sees | None,
    vendor: str,
    driver: tuple[int, int] | None,
    arch: str | None,
    languages: tuple[Language, ...] = GPU,
) -> Check:
    """PyTorch, in which references of GPU kernels are written.

    Args:
        build: the installed one.
        sees: None: there is no GPU to be seen.
        vendor: of the GPU that it has to see.
        driver: the newest CUDA release that NVIDIA's driver runs.
        arch: of the GPU, sm_90 or gfx942.
        languages: that need it on this vendor's GPU.
    """

    def check(level: Level, detail: str, fix: str | None = None, lack: str | None = None) -> Check:
        return Check(
            area="Python", name="PyTorch", level=level, detail=detail, fix=fix, lack=lack,
            languages=languages, required=True,
        )  # fmt: skip

    install = _install(vendor, driver)
    if build is None:
        detail = "torch is not installed; references of GPU kernels are written in it"
        return check("missing", detail, install, "no torch")
    wanted, made_for = ("ROCm", build.hip) if vendor == "amd" else ("CUDA", build.cuda)
    if made_for is None:
        return check(
            "missing", f"{build.version} is built without {wanted}", install,
            f"torch without {wanted}",
        )  # fmt: skip
    text = f"{build.version}, built for {wanted} {made_for}"
    release = release_of(made_for)
    # Within a major release, newer builds run on older drivers (CUDA Compatibility).
    if driver is not None and release is not None and release[0] > driver[0]:
        return check(
            "missing", f"{text}, but the driver runs CUDA up to {driver[0]}.{driver[1]}",
            f"update the driver, or {install}", "torch newer than the driver",
        )  # fmt: skip
    if sees is None:
        return check("ok", text)
    try:
        said = sees.get()
    except RoofsmithError as error:
        return check("missing", f"{text}: {error.message}", error.hint, "torch is broken")
    if said is None:
        return check("ok", f"{text}; slow to import here: not asked whether it sees the GPU")
    if said["torch"] is not None:
        return check(
            "missing", f"{text}, doesn't see the GPU: {said['torch']}",
            "python -c 'import torch; torch.zeros(1).cuda()' says why", "torch sees no GPU",
        )  # fmt: skip
    if arch is not None and not _runs_on(arch, said["arch_list"]):
        return check(
            "missing", f"{text}, sees the GPU, but has no code for {arch}",
            f"a newer build: {install}", f"torch without {arch}",
        )  # fmt: skip
    return check("ok", f"{text}, sees the GPU")


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


def _install(vendor: str, driver: tuple[int, int] | None) -> str:
    # Any minor release of the driver's major one runs (CUDA minor version compatibility).
    cuda = "CUDA" if driver is None else f"CUDA {driver[0]}"
    platform = "ROCm" if vendor == "amd" else cuda
    return f"install a PyTorch built for {platform}: {_SELECTOR} names the command"


def triton_check(version: str | None, headers: Path | None, sees: Sees | None) -> Check:
    """Triton, which compiles its launchers with a C compiler and Python's headers."""

    def check(level: Level, detail: str, fix: str | None = None, lack: str | None = None) -> Check:
        return Check(
            area="Python", name="Triton", level=level, detail=detail, fix=fix, lack=lack,
            languages=("triton",), required=True,
        )  # fmt: skip

    if version is None:
        return check("missing", "not installed", "pip install triton", "no triton")
    if headers is None:
        return check(
            "missing", f"{version}: Python.h is missing, its launchers can't be compiled",
            "sudo apt-get install python3-dev", "no Python.h",
        )  # fmt: skip
    if sees is None:
        return check("ok", version)
    try:
        said = sees.get()
    except RoofsmithError:
        return check("ok", version)  # PyTorch's line says it
    wrong = said and said.get("triton")
    if wrong:
        return check(
            "missing", f"{version}: {wrong}", "pip install the Triton that came with this torch",
            "triton sees no GPU",
        )  # fmt: skip
    sees_gpu = said is not None and not said["torch"] and "triton" in said
    return check("ok", f"{version}, sees the GPU" if sees_gpu else version)
