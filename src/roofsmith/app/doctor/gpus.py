"""Which languages a machine's GPUs are for, and what is said of any GPU."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import get_args

from roofsmith.analysis.idle import busy_reasons, lasting_reasons, remedy, settings_that_help
from roofsmith.app.doctor.asking import Answer
from roofsmith.app.doctor.sources import Ours
from roofsmith.devices.amd import AmdSource
from roofsmith.devices.choice import source_for
from roofsmith.devices.plugged import ELSEWHERE, NAMES, Vendor, Vendors
from roofsmith.domain.examination import Check, Level
from roofsmith.domain.fleet import GatePolicy, GpuStatus
from roofsmith.domain.kernel import MODULE_LANGUAGES, Language
from roofsmith.engine.waiting import name_of
from roofsmith.errors import RoofsmithError

GPU: tuple[Language, ...] = ("cuda", "hip", *MODULE_LANGUAGES)

VENDORS: tuple[Vendor, ...] = get_args(Vendor)
LIBRARIES: Mapping[Vendor, str] = {"nvidia": "NVML", "amd": "AMD's management library"}


def vendor_of_modules(root: Path) -> Vendor:
    """On whose GPU Triton and PyTorch kernels run here."""
    return "amd" if isinstance(source_for("triton", root), AmdSource) else "nvidia"


def languages_on(vendor: Vendor, modules: Vendor) -> tuple[Language, ...]:
    """Languages that need a GPU of this vendor here."""
    own: Language = "cuda" if vendor == "nvidia" else "hip"
    return (own, *MODULE_LANGUAGES) if modules == vendor else (own,)


def languages_here(found: Vendors, modules: Vendor) -> frozenset[Language]:
    """Languages whose kind of GPU is here; Triton and PyTorch take the vendor `modules`."""
    return frozenset(name for vendor in found.present for name in languages_on(vendor, modules))


def no_gpu(wanted: Sequence[Vendor], languages: tuple[Language, ...]) -> Check:
    """No GPU that would do, and no driver of one, is here."""
    names = " or ".join(NAMES[vendor] for vendor in wanted)
    return Check(
        area="GPU", name="GPU", level="missing", languages=languages, required=True,
        lack="no GPU", detail=f"no {names} GPU on the PCI bus, and no driver of one", fix=ELSEWHERE,
    )  # fmt: skip


def none_of(vendor: Vendor, languages: tuple[Language, ...]) -> Check:
    """Only the other vendor's GPU is here."""
    name = NAMES[vendor]
    return Check(
        area="GPU", name=f"{name} GPU", level="missing", languages=languages, required=True,
        detail=f"no {name} GPU on the PCI bus", lack=f"no {name} GPU",
        fix=f"use a machine with a GPU of {name}",
    )  # fmt: skip


def locking(lockable: Answer[None] | None) -> str:
    """Whether clocks can be locked: no problem where they can't, since nobody has asked for it."""
    if lockable is None:
        return ""
    try:
        lockable.get()
    except RoofsmithError as error:
        return f"; can't be locked: {error.message}"
    return "; can be locked (--lock-clocks)"


def in_use(
    fleet: Answer[tuple[GpuStatus, ...]],
    uuid: str | None,
    ours: Ours,
    policy: GatePolicy,
    languages: tuple[Language, ...],
) -> Check:
    """Whether a GPU is idle, by the rules of the gate, which takes the idlest of them.

    It is missing where commands wouldn't wait, but refuse; what just takes longer than doctor has
    patience is not known.

    Args:
        fleet: all GPUs now.
        uuid: of the first GPU.
        ours: which processes don't count.
        policy: the gate's.
        languages: that run there.
    """

    def check(level: Level, detail: str, fix: str | None = None, lack: str | None = None) -> Check:
        return Check(
            area="GPU", name="in use", level=level, detail=detail, fix=fix, lack=lack,
            languages=languages, required=lack is not None,
        )  # fmt: skip

    unseen = "GPU's use not known"
    try:
        gpus = fleet.get()
    except RoofsmithError as error:
        detail = f"not known: {error.message}"
        if not fleet.has_come:  # drivers that aren't kept loaded take a second or two per GPU
            return check("limited", detail, error.hint)
        return check("missing", detail, error.hint, unseen)
    first = _named(gpus, uuid)
    if first is None:
        fix = "does nvidia-smi work?"
        return check("missing", "not known: the driver lists no GPU", fix, unseen)
    own = ours({process.pid for gpu in gpus for process in gpu.processes})
    one_look = policy.model_copy(update={"samples": 1})
    lasting = {name_of(gpu): lasting_reasons((gpu,), one_look, own) for gpu in gpus}
    if all(lasting.values()):
        said = {"; ".join(reasons): None for reasons in lasting.values()}
        if len(said) > 1:
            said = {f"{gpu}: {'; '.join(reasons)}": None for gpu, reasons in lasting.items()}
        detail = f"no GPU can pass the gate: {'. '.join(said)}"
        return check("missing", detail, remedy(lasting), "no GPU passes the gate")
    busy = {gpu.uuid: busy_reasons((gpu,), one_look, own) for gpu in gpus}
    reasons = "; ".join(busy[first.uuid])
    idle = [gpu.index for gpu in gpus if not busy[gpu.uuid]]
    if len(gpus) > 1 and idle:
        numbers = ", ".join(map(str, idle))
        aside = f"; GPU {first.index}: {reasons}" if reasons else ""
        return check("ok", f"{len(idle)} of {len(gpus)} GPUs are idle ({numbers}){aside}")
    if reasons:
        settings = settings_that_help(lasting)
        waits = f"{settings}; or wait until another" if settings else "wait until it"
        fix = f"{waits} is idle: commands look again every ten minutes, for an hour"
        return check("limited", reasons, fix)
    return check("ok", "idle: nobody else works on it")


def status_of(fleet: Answer[tuple[GpuStatus, ...]], uuid: str | None) -> GpuStatus | None:
    """What is said of a GPU, or of the first one where none is called so; None: nothing."""
    try:
        return _named(fleet.get(), uuid)
    except RoofsmithError:
        return None


def _named(gpus: Sequence[GpuStatus], uuid: str | None) -> GpuStatus | None:
    """The GPU, its first MIG instance, or the first GPU where names don't fit."""
    called = [gpu for gpu in gpus if uuid and uuid.lower() in (gpu.uuid.lower(), _parent(gpu))]
    return next(iter((*called, *gpus)), None)


def _parent(gpu: GpuStatus) -> str:
    return (gpu.parent_uuid or "").lower()


def release_of(text: str | None) -> tuple[int, int] | None:
    """`13.0` or `6.4.43482-0f2d60242` as major and minor."""
    match = re.match(r"(\d+)\.(\d+)", text or "")
    return (int(match[1]), int(match[2])) if match else None
