"""Config classes: workloads that behave alike, so that decisions aren't made on one average."""

from __future__ import annotations

from collections.abc import Sequence

from roofsmith.analysis.residency import MEMORY, capacity_bytes, data_caches
from roofsmith.domain.bound import Bound
from roofsmith.domain.device import Device
from roofsmith.domain.workload import ConfigClass, Workload


def config_classes(
    workloads: Sequence[Workload], bounds: Sequence[Bound], device: Device
) -> tuple[ConfigClass, ...]:
    """Every workload in exactly one class, in the order in which classes first appear.

    A declared class wins. The others are grouped by what limits them and by the level of the
    memory hierarchy that holds their data, as in `memory roof, in L2`.

    Args:
        workloads: of the target.
        bounds: the roofline of each, found by label; a workload without one is `unclassified`.
        device: its cache sizes go into the reason.
    """
    by_label = {bound.workload: bound for bound in bounds}
    members: dict[str, list[str]] = {}
    reasons: dict[str, str] = {}
    for workload in workloads:
        name, reason = _name_and_reason(workload, by_label.get(workload.label), device)
        members.setdefault(name, []).append(workload.label)
        reasons.setdefault(name, reason)
    return tuple(
        ConfigClass(name=name, workloads=tuple(labels), reason=reasons[name])
        for name, labels in members.items()
    )


def _name_and_reason(workload: Workload, bound: Bound | None, device: Device) -> tuple[str, str]:
    if workload.config_class is not None:
        return workload.config_class, "declared in the target"
    if bound is None:
        return "unclassified", "no roofline was computed"
    limit, why = f"{bound.limiter} roof", f"the roofline's limiter is {bound.limiter}"
    if bound.limiter == "unknown":
        limit, why = "unknown limit", "the roofline is UNKNOWN"
    if bound.place is not None:
        return f"{limit}, in {bound.place}", f"{why}; {_place(bound, device)}"
    name = "unclassified" if bound.limiter == "unknown" else limit
    return name, f"{why}; how much data there is isn't known"


def _place(bound: Bound, device: Device) -> str:
    """Where the data lives, with the size that decides it; the same for a whole class."""
    caches = data_caches(device)
    if bound.working_set == MEMORY:
        if not caches:
            return "cache sizes are not known"
        last = caches[-1]
        return f"the data doesn't fit L{last.level} ({last.size_bytes} byte)"
    cache = next((c for c in caches if f"L{c.level}" == bound.working_set), None)
    size = f" ({capacity_bytes(cache, 1)} byte each)" if cache else ""
    return f"the data fits {bound.working_set}{size}"
