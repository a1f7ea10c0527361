"""Counters of two kernels side by side. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from roofsmith.domain.profile import Profile


@dataclass(frozen=True, slots=True)
class CounterRow:
    """One counter; what a tool didn't give is None."""

    name: str
    unit: str
    before: float | None
    after: float | None


def counter_rows(before: Profile | None, after: Profile | None) -> tuple[CounterRow, ...]:
    """Every counter that either profile has, in the candidate's order first."""
    profiles = [profile for profile in (after, before) if profile is not None]
    units = {c.name: c.unit for profile in reversed(profiles) for c in profile.counters}
    names = dict.fromkeys(counter.name for profile in profiles for counter in profile.counters)
    return tuple(
        CounterRow(
            name=name,
            unit=units[name],
            before=before.get(name) if before is not None else None,
            after=after.get(name) if after is not None else None,
        )
        for name in names
    )
