"""What a kernel's instructions, registers and banks should come to, and what they are. Pure.

The targets are `isa_targets.yaml`: by what bounds the kernel, what it computes and where it runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal

from pydantic import Field

from roofsmith.analysis import figures as fmt
from roofsmith.analysis.compiled import compiled_readings
from roofsmith.analysis.occupancy import compute_unit, multiprocessor
from roofsmith.domain.campaign import Baseline, Campaign, Round, Started
from roofsmith.domain.values import Value
from roofsmith.yaml_document import shipped_table

_UNITS: Final = 8
"""Registers of a thread come in multiples of it: REGISTER_UNIT of a warp's lanes; vgpr_unit."""


class IsaReading(Value):
    """One way to read a value; `isa_targets.yaml` says what the fields mean."""

    counter: str | None = None
    plus: str | None = None
    count: str | None = None
    of: str | None = None

    def read(self, counters: Mapping[str, float], names: Mapping[str, int]) -> float | None:
        """The value; None where this says nothing of it."""
        if self.count is None:
            value = counters.get(self.counter or "")
            return None if value is None else value + counters.get(self.plus or "", 0.0)
        counted = _matching(self.count, names)
        total = _matching(self.of, names) if self.of is not None else 1
        return counted / total if names and total else None


class IsaTarget(Value):
    """One row of `isa_targets.yaml`."""

    name: str
    where: tuple[str, ...] = Field(min_length=1)
    unless: tuple[str, ...] = ()
    bound: tuple[Literal["memory", "compute", "unknown"], ...] = ()
    product: bool = False
    readings: tuple[IsaReading, ...] = Field(min_length=1)
    at_least: float | None = None
    at_most: float | Literal["registers_at_half"] | None = None
    source: str

    def is_for(self, started: Started) -> bool:
        """Whether it is one of a campaign's: by its device, its rooflines, and what it computes."""
        device = started.environment.device
        kinds = (*device.isa, device.arch or "")
        return (
            any(re.fullmatch(one, kind) for one in self.where for kind in kinds)
            and not any(re.fullmatch(one, kind) for one in self.unless for kind in kinds)
            and (not self.bound or any(b.limiter in self.bound for b in started.bounds))
            and (not self.product or any(b.cost.matrix_product for b in started.bounds))
        )


class _Table(Value):
    sources: dict[str, str]
    targets: tuple[IsaTarget, ...]


@dataclass(frozen=True, slots=True)
class IsaProgress:
    """A target, and how far a campaign's kernel is; what nobody could read is None, never 0."""

    name: str
    target: str
    """`at least 50%`, `at most 64`."""
    baseline: float | None
    now: float | None
    """Of the kernel that holds."""
    met: bool | None
    source: str
    missing: str = ""
    """Why `now` isn't known."""
    is_share: bool = False

    def shown(self, value: float | None) -> str:
        if value is None:
            return fmt.UNKNOWN
        return fmt.percent(value) if self.is_share else f"{value:g}"

    @property
    def current(self) -> str:
        """`now`; or UNKNOWN, with the reason."""
        return self.shown(self.now) + (f" ({self.missing})" if self.missing else "")


@cache
def isa_table() -> _Table:
    return _Table.model_validate(shipped_table(__package__, "isa_targets.yaml"))


def isa_progress(campaign: Campaign, number: int | None = None) -> tuple[IsaProgress, ...]:
    """The targets of a campaign, at its baseline and after a round, by default the last one."""
    if campaign.baseline is None:
        return ()
    kept = [r for r in campaign.kept if number is None or r.round <= number]
    holder = kept[-1] if kept else campaign.baseline
    return tuple(_progress(campaign, holder))


def _progress(campaign: Campaign, holder: Round | Baseline) -> Iterator[IsaProgress]:
    started, first = campaign.started, campaign.baseline
    for target in isa_table().targets:
        bound = target.at_most if target.at_least is None else target.at_least
        if isinstance(bound, str):
            bound = registers_at_half(started.environment.device.arch or "")
        if bound is None or not target.is_for(started):
            continue
        sense, now = ("at most", "at least")[target.at_least is not None], _read(target, holder)
        is_share = 0 < bound < 1
        met = None if now is None else (now >= bound if sense == "at least" else now <= bound)
        yield IsaProgress(
            name=target.name,
            target=f"{sense} {fmt.percent(bound) if is_share else f'{bound:g}'}",
            baseline=None if first is None else _read(target, first),
            now=now,
            met=met,
            source=isa_table().sources[target.source],
            missing=_missing(target, holder) if now is None else "",
            is_share=is_share,
        )


def registers_at_half(arch: str) -> int | None:
    """The most registers of a thread with which half of the warps fit; None: no rules for it."""
    if (sm := multiprocessor(arch)) is not None:
        return sm.registers // (sm.max_threads // 2) // _UNITS * _UNITS
    cu = compute_unit(arch)
    return None if cu is None else cu.vgprs // (cu.waves_per_simd // 2) // _UNITS * _UNITS


def _read(target: IsaTarget, record: Round | Baseline) -> float | None:
    profile, found = record.profile, record.disassembly
    counters = {} if profile is None else compiled_readings(profile)
    counters |= {} if profile is None else {c.name: c.value for c in profile.counters}
    names = {} if found is None else found.mnemonics
    values = (one.read(counters, names) for one in target.readings)
    return next((value for value in values if value is not None), None)


def _missing(target: IsaTarget, record: Round | Baseline) -> str:
    found = record.disassembly
    if all(one.count is None for one in target.readings):
        counters = " or ".join(one.counter for one in target.readings if one.counter)
        tool = "nobody profiled it" if record.profile is None else f"tool {record.profile.tool}"
        return f"no {counters} was counted; {tool}"
    if found is None or not found.mnemonics:
        return "; ".join(found.missing if found else ()) or "it was never disassembled"
    return "its listing has none of the instructions that this is a share of"


def _matching(pattern: str, names: Mapping[str, int]) -> int:
    return sum(count for name, count in names.items() if re.match(pattern, name))
