"""What is known to be possible: measured yardsticks, bounds, and where good kernels are. Pure."""

from __future__ import annotations

from functools import cache
from typing import Final, Literal

from roofsmith.domain.campaign import Campaign
from roofsmith.domain.diagnosis import BestKnown, KnownResult, Pointer, WorkloadGap
from roofsmith.domain.outcome import Passed
from roofsmith.domain.references import ReferenceHit
from roofsmith.domain.values import Value
from roofsmith.domain.yardstick import PyTorchBaselineResult, PyTorchBaselines
from roofsmith.yaml_document import shipped_table

ANY: Final = "any"
Side = Literal["host", "nvidia", "amd"]


class _Entry(Value):
    family: str
    name: str
    where: str
    what: str
    sides: tuple[Side, ...] = ("host", "nvidia", "amd")


class _Table(Value):
    pointers: tuple[_Entry, ...]


def best_known(campaign: Campaign) -> BestKnown:
    """The best known implementations of a campaign's operator, and what nobody knows of them."""
    measured = campaign.yardsticks
    beside = measured is not None and measured.incumbent_id == campaign.incumbent.id
    results = results_of(measured) if measured is not None and beside else ()
    return BestKnown(
        results=results,
        gaps=_gaps(campaign),
        pointers=_pointers(campaign),
        missing=_missing(campaign, measured if beside else None),
    )


def results_of(measured: PyTorchBaselines) -> tuple[KnownResult, ...]:
    """What was measured beside a kernel and could be compared, the fastest first."""
    found = (_result(result) for result in measured.results)
    known = [result for result in found if result is not None]
    return tuple(sorted(known, key=lambda result: result.speedup))


def _result(result: PyTorchBaselineResult) -> KnownResult | None:
    """Turned around: the yardstick was judged as the candidate."""
    comparison = result.judgement.comparison
    if comparison is None or not isinstance(result.judgement.outcome, Passed):
        return None
    low, high = comparison.overall.ci
    return KnownResult(
        name=result.name,
        calls=result.calls,
        speedup=1 / comparison.overall.speedup,
        ci=(1 / high, 1 / low),
        slower_on=tuple(
            row.workload for row in comparison.workloads if row.estimate.verdict == "faster"
        ),
    )


def _gaps(campaign: Campaign) -> tuple[WorkloadGap, ...]:
    """Workloads by how much of their time the bound doesn't explain; unknown bounds last."""
    floors = {bound.workload: bound.floor_time_s for bound in campaign.started.bounds}
    gaps = [
        WorkloadGap(workload=label, time_s=time_s, floor_time_s=floors.get(label))
        for label, time_s in campaign.times_s.items()
    ]
    return tuple(sorted(gaps, key=_explained))


def _explained(gap: WorkloadGap) -> float:
    return 2.0 if gap.floor_time_s is None else gap.floor_time_s / gap.time_s


def _pointers(campaign: Campaign) -> tuple[Pointer, ...]:
    side, family = _side(campaign), campaign.started.target.family
    entries = [entry for entry in _table().pointers if side in entry.sides]
    found = [
        Pointer(name=entry.name, where=entry.where, what=entry.what)
        for wanted in (family, ANY)
        for entry in entries
        if entry.family == wanted
    ]
    sheet = campaign.started.facts.datasheet
    if sheet is not None:
        page = Pointer(
            name=f"{sheet.product} in the hardware wiki",
            where=f"roofsmith specs show {sheet.page}",
            what="its limits of occupancy, sizes of caches and rates per data type",
        )
        found.append(page)
    searched = campaign.started.references
    return (*found, *(_hit(one) for one in (() if searched is None else searched.hits)))


def _hit(found: ReferenceHit) -> Pointer:
    what = f"a reference project, {found.language}: {found.text}"
    return Pointer(name=found.symbol or "a reference", where=found.where, what=what)


def _missing(campaign: Campaign, beside: PyTorchBaselines | None) -> tuple[str, ...]:
    target = campaign.started.target
    side = _side(campaign)
    lines = []
    if side == "host":
        lines.append(
            "no library was measured: kernels on the host's processors have no yardsticks; time one"
            " yourself on the same workloads"
        )
    elif beside is None:
        lines.append("no yardstick was measured beside this kernel")
    else:
        failed = [r.name for r in beside.results if _result(r) is None]
        lines += [f"{name} gave no time that could be compared" for name in failed]
    if target.family is None:
        lines.append("the target names no operator family, so no implementation is pointed to")
    elif not any(e.family == target.family and side in e.sides for e in _table().pointers):
        lines.append(f"nothing is written down here for the family {target.family}")
    if campaign.started.facts.datasheet is None:
        lines.append("no page of the hardware wiki is of this device")
    if all(bound.floor_time_s is None for bound in campaign.started.bounds):
        lines.append("every bound is UNKNOWN, so nobody can say how much is left")
    return tuple(lines)


def _side(campaign: Campaign) -> Side:
    device = campaign.started.environment.device
    return "host" if device.kind == "cpu" else device.kind


@cache
def _table() -> _Table:
    return _Table.model_validate(shipped_table(__package__, "best_known.yaml"))
