"""Checks of any vendor's GPU: whether one is here, whether it is idle, which clocks are held."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import get_args

from pydantic import ValidationError

from roofsmith.api.doctor.snapshot import GPU, Inquiry, Snapshot, Topic
from roofsmith.domain.clocks import ClockClaim
from roofsmith.domain.dialects import DIALECTS
from roofsmith.domain.examination import Check
from roofsmith.domain.fleet import GpuStatus
from roofsmith.domain.kernel import MODULE_LANGUAGES, Language
from roofsmith.errors import RoofsmithError
from roofsmith.machine.amd import AmdSource
from roofsmith.machine.choice import source_for
from roofsmith.machine.clocks import boot_id, is_alive, recorded
from roofsmith.machine.clocks_nvidia import NvmlClocks
from roofsmith.machine.idle import busy_reasons, lasting_reasons, remedy, settings_that_help
from roofsmith.machine.plugged import ELSEWHERE, NAMES, Vendor
from roofsmith.machine.waiting import name_of

_UNSEEN = "GPU's use not known"


def vendor_of_modules(root: Path) -> Vendor:
    """On whose GPU Triton and PyTorch kernels run here."""
    return "amd" if isinstance(source_for("triton", root), AmdSource) else "nvidia"


def languages_on(vendor: Vendor, modules: Vendor) -> tuple[Language, ...]:
    """Languages that need a GPU of this vendor here."""
    own: Language = "cuda" if vendor == "nvidia" else "hip"
    if modules != vendor:
        alone = tuple(one for one in MODULE_LANGUAGES if _vendor_of(one) == vendor)
        return (own, *alone)
    return (own, *(one for one in MODULE_LANGUAGES if _vendor_of(one) in (None, vendor)))


def _vendor_of(language: Language) -> Vendor | None:
    dialect = DIALECTS.get(language)
    return None if dialect is None else dialect.vendor


def wanted(s: Snapshot, q: Inquiry) -> list[Vendor]:
    """Vendors on whose GPU what is asked about may run."""
    return [v for v in get_args(Vendor) if q.about(languages_on(v, s.modules))]


def present(s: Snapshot) -> frozenset[Vendor]:
    """Vendors of which there is a GPU, or a driver that answers."""
    answers = "error" not in s.said or s.said.get("code") is not None
    return s.plugged.present | ({"nvidia"} if answers else set())


def none_at_all(s: Snapshot, q: Inquiry) -> Iterator[Check]:
    """No GPU that would do, and no driver of one, is here."""
    if (asked := wanted(s, q)) and not present(s) & set(asked):
        names = " or ".join(NAMES[vendor] for vendor in asked)
        detail = f"no {names} GPU on the PCI bus, and no driver of one"
        yield Topic("GPU", "GPU", q.on(GPU)).missing(detail, ELSEWHERE, "no GPU")


def none_of(s: Snapshot, q: Inquiry, vendor: Vendor) -> Check:
    """Only the other vendor's GPU is here."""
    name = f"{NAMES[vendor]} GPU"
    topic, detail = Topic("GPU", name, q.on(languages_on(vendor, s.modules))), "on the PCI bus"
    fix = f"use a machine with a GPU of {NAMES[vendor]}"
    return topic.missing(f"no {name} {detail}", fix, f"no {name}")


def locking(s: Snapshot) -> str:
    """Whether clocks can be locked: no problem where they can't, since nobody has asked for it."""
    try:
        s.lockable.get()
    except RoofsmithError as error:
        return f"; can't be locked: {error.message}"
    return "; can be locked (--lock-clocks)"


def in_use(s: Snapshot, vendor: Vendor, uuid: str | None, languages: tuple[Language, ...]) -> Check:
    """Whether a GPU is idle, by the rules of the gate, which takes the idlest of them.

    It is missing where commands wouldn't wait, but refuse; what just takes longer than doctor has
    patience is not known.
    """
    topic = Topic("GPU", "in use", languages)
    try:
        gpus = s.fleet[vendor].get()
    except RoofsmithError as error:
        detail = f"not known: {error.message}"
        if s.fleet[vendor].has_come:
            return topic.missing(detail, error.hint, _UNSEEN)
        return topic.limited(detail, error.hint)  # a driver that is loaded first takes seconds
    first = named(gpus, uuid)
    if first is None:
        detail = "not known: the driver lists no GPU"
        return topic.missing(detail, "does nvidia-smi work?", _UNSEEN)
    return _idle(s, topic, gpus, first)


def _idle(s: Snapshot, topic: Topic, gpus: Sequence[GpuStatus], first: GpuStatus) -> Check:
    own = s.ours({process.pid for gpu in gpus for process in gpu.processes})
    one_look = s.settings.gate.model_copy(update={"samples": 1})
    lasting = {name_of(gpu): lasting_reasons((gpu,), one_look, own) for gpu in gpus}
    if all(lasting.values()):
        said = {"; ".join(reasons): None for reasons in lasting.values()}
        if len(said) > 1:
            said = {f"{gpu}: {'; '.join(reasons)}": None for gpu, reasons in lasting.items()}
        detail = f"no GPU can pass the gate: {'. '.join(said)}"
        return topic.missing(detail, remedy(lasting), "no GPU passes the gate")
    busy = {gpu.uuid: busy_reasons((gpu,), one_look, own) for gpu in gpus}
    reasons = "; ".join(busy[first.uuid])
    idle = [gpu.index for gpu in gpus if not busy[gpu.uuid]]
    if len(gpus) > 1 and idle:
        numbers = ", ".join(map(str, idle))
        aside = f"; GPU {first.index}: {reasons}" if reasons else ""
        return topic.found(f"{len(idle)} of {len(gpus)} GPUs are idle ({numbers}){aside}")
    if not reasons:
        return topic.found("idle: nobody else works on it")
    settings = settings_that_help(lasting)
    waits = f"{settings}; or wait until another" if settings else "wait until it"
    fix = f"{waits} is idle: commands look again every ten minutes, for an hour"
    return topic.limited(reasons, fix)


def named(gpus: Sequence[GpuStatus], uuid: str | None) -> GpuStatus | None:
    """The GPU, its first MIG instance, or the first GPU where names don't fit."""
    name = (uuid or "").lower()
    called = [g for g in gpus if name and name in (g.uuid.lower(), (g.parent_uuid or "").lower())]
    return next(iter((*called, *gpus)), None)


def release_of(text: str | None) -> tuple[int, int] | None:
    """`13.0` or `6.4.43482-0f2d60242` as major and minor."""
    match = re.match(r"(\d+)\.(\d+)", text or "")
    return (int(match[1]), int(match[2])) if match else None


def locked_clocks(s: Snapshot, q: Inquiry) -> Iterator[Check]:
    """Clocks that another run holds, or that one which was killed left locked."""
    if not q.about(GPU):
        return
    topic = Topic("GPU", "locked clocks")
    for path in recorded(s.settings.clocks_dir):
        try:
            claim = ClockClaim.model_validate_json(path.read_bytes())
        except (OSError, ValidationError):
            yield topic.limited(
                f"{path} says that a run held clocks, but can't be read",
                f"sudo nvidia-smi -rgc, then rm {path}",
            )
            continue
        held = f"of {claim.uuid}, by "
        if claim.owner.boot_id != boot_id():
            continue
        if not is_alive(claim.owner):
            yield topic.limited(
                f"{held}a run that was killed ({claim.owner.sentence})",
                f"{NvmlClocks().by_hand(claim.uuid)} (the next run on any GPU does it too)",
            )
        elif claim.owner.pid != os.getpid():
            yield topic.limited(held + claim.owner.sentence, "wait until it is over")
