"""What `roofsmith kernel bench` prints: times, rates against the ceilings, and the yardsticks."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from roofsmith.analysis import figures as fmt
from roofsmith.api.views.blocks import Blocks, Table
from roofsmith.api.views.results import measured
from roofsmith.domain.profile import Profile
from roofsmith.report.counters import speed_of_light
from roofsmith.report.rates import Rates, ceilings_used, has_datasheet, rates
from roofsmith.report.standings import yardstick_rows
from roofsmith.report.summary import YardstickRow

if TYPE_CHECKING:
    from roofsmith.api.benching import Benched

CITED = ("of the datasheet's bandwidth", "of the datasheet's peak")
"""Columns that only a product with a page in the wiki has."""
RATES = (
    "workload", "moved", "of the measured bandwidth", CITED[0], "computed", "of the measured peak",
    CITED[1],
)  # fmt: skip


def benched(found: Benched) -> Blocks:
    """How fast, how near the ceilings, and how much faster than PyTorch."""
    bytes_only = any(bound.bytes_only for bound in found.bounds)
    yield from measured(found.measured, found.measure, bytes_only=bytes_only)
    if found.measured.timings:
        yield ""
        cited = has_datasheet(found.bounds)
        yield Table(
            RATES if cited else tuple(name for name in RATES if name not in CITED),
            [_rates_row(label, reached, cited=cited) for label, reached in _rates(found).items()],
        )
        yield from (f"ceiling: {fact}" for fact in ceilings_used(found.bounds))
    if found.profile is not None:
        yield from _profile(found.profile, found.measured.notes)
    if found.yardsticks:
        yield from ["", "against PyTorch, which runs the reference in turns with the kernel:"]
        yield Table(
            ("yardstick", "workload", "its time", "the kernel's", "the kernel is faster by"),
            [_yardstick_row(row) for row in yardstick_rows(found.yardsticks)],
        )


def _rates(found: Benched) -> dict[str, Rates]:
    bounds = {bound.workload: bound for bound in found.bounds}
    return {t.workload: rates(bounds[t.workload], t.time_s) for t in found.measured.timings}


def _rates_row(label: str, reached: Rates, *, cited: bool) -> tuple[str, ...]:
    bandwidth, peak = (
        (reached.bandwidth_fraction, reached.datasheet_bandwidth_fraction),
        (reached.peak_fraction, reached.datasheet_peak_fraction),
    )
    kinds = 2 if cited else 1
    return (
        label,
        fmt.quantity(reached.rate_byte_per_s, "byte/s"),
        *map(fmt.percent, bandwidth[:kinds]),
        fmt.quantity(reached.rate_flop_per_s, "FLOP/s"),
        *map(fmt.percent, peak[:kinds]),
    )


def _profile(profile: Profile, said: Collection[str]) -> Blocks:
    """Occupancy and speed of light, or why there are none; of the notes, those not yet said."""
    rows = speed_of_light(profile)
    if rows:
        of = f" of {profile.kernel}" if profile.kernel else ""
        yield from ["", f"what {profile.tool} saw{of} on {profile.workload}:"]
        yield Table(
            ("counter", "value"),
            [(row.name, fmt.counter(row.after, row.unit, row.name)) for row in rows],
        )
    else:
        yield from ["", f"nobody saw occupancy or speed of light on {profile.workload}"]
    yield from (f"note: {note}" for note in profile.notes if note not in said)


def _yardstick_row(row: YardstickRow) -> tuple[str, ...]:
    if row.speedup is None:
        return row.name, "-", "-", "-", row.failure or fmt.UNKNOWN
    times = (
        "-" if time_s is None else fmt.time(time_s) for time_s in (row.time_s, row.kernel_time_s)
    )
    ratio = fmt.ratio(row.speedup.value, row.speedup.ci)
    return row.name, row.workload or "all of them", *times, ratio
