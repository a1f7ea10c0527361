"""A device's ceilings as the datasheet says and as they were measured. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from roofsmith.domain.facts import ArithmeticType, BandwidthCeiling, ComputeCeiling, Fact, FactSheet

_Peak = tuple[Literal["fma", "mma"], ArithmeticType]


@dataclass(frozen=True, slots=True)
class DatasheetCeiling:
    """One ceiling twice; either figure may be None or UNKNOWN."""

    name: str
    datasheet: Fact | None
    measured: Fact | None

    @property
    def ratio(self) -> float | None:
        """Measured over datasheet."""
        if self.datasheet is None or not self.datasheet.value:
            return None
        if self.measured is None or self.measured.value is None:
            return None
        return self.measured.value / self.datasheet.value


def side_by_side(sheet: FactSheet) -> tuple[DatasheetCeiling, ...]:
    """Bandwidth of memory, then every type's peak; of the datasheet's order where it has one.

    Measured on as many processors as were measured, and the bandwidth with the largest arrays.
    """
    datasheet = sheet.datasheet
    pairs = [
        DatasheetCeiling(
            "memory bandwidth",
            datasheet.bandwidth if datasheet else None,
            _of_memory(sheet.bandwidth),
        )
    ]
    printed = _peaks(datasheet.compute) if datasheet else {}
    measured = _peaks(sheet.compute)
    for key in dict.fromkeys((*printed, *measured)):
        operation, dtype = key
        name = f"{dtype} {'matrix' if operation == 'mma' else 'FMA'} peak"
        pairs.append(DatasheetCeiling(name, printed.get(key), measured.get(key)))
    return tuple(pairs)


def _of_memory(ceilings: Iterable[BandwidthCeiling]) -> Fact | None:
    known = [ceiling for ceiling in ceilings if ceiling.fact.value is not None]
    if not known:
        return next((ceiling.fact for ceiling in ceilings), None)
    largest = max(ceiling.working_set_bytes for ceiling in known)
    of_memory = [ceiling for ceiling in known if ceiling.working_set_bytes == largest]
    return max(of_memory, key=lambda ceiling: ceiling.fact.value or 0.0).fact


def _peaks(ceilings: Iterable[ComputeCeiling]) -> dict[_Peak, Fact]:
    """Per operation and type, on the most processors; of several, the highest."""
    ordered = sorted(ceilings, key=lambda ceiling: (ceiling.threads, ceiling.fact.value or 0.0))
    # The order of the first ones, the facts of the last ones.
    first = {(ceiling.operation, ceiling.dtype): ceiling.fact for ceiling in ceilings}
    return first | {(ceiling.operation, ceiling.dtype): ceiling.fact for ceiling in ordered}
