"""What `roofsmith bench` prints: times, rates against the ceilings, and the yardsticks."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict
from typing import Any

from roofsmith.app import Benched, documents
from roofsmith.cli import show
from roofsmith.cli.output import print_json, print_lines, print_table
from roofsmith.domain.profile import Profile
from roofsmith.report import format as fmt
from roofsmith.report.counters import speed_of_light
from roofsmith.report.json_summary import yardstick_document
from roofsmith.report.rates import Rates, ceilings_used, has_datasheet, rates
from roofsmith.report.summary import YardstickRow
from roofsmith.report.yardsticks import yardstick_rows

CITED = ("of the datasheet's bandwidth", "of the datasheet's peak")
"""Columns that only a product with a page in the wiki has."""
RATES = (
    "workload", "moved", "of the measured bandwidth", CITED[0], "computed", "of the measured peak",
    CITED[1],
)  # fmt: skip


def benched(found: Benched, *, as_json: bool) -> None:
    """How fast, how near the ceilings, and how much faster than PyTorch."""
    if as_json:
        print_json(benched_document(found))
        return
    show.measured(found.measured, as_json=False, measure=found.measure)
    if found.measured.timings:
        print_lines([""])
        cited = has_datasheet(found.bounds)
        print_table(
            RATES if cited else tuple(name for name in RATES if name not in CITED),
            [_rates_row(label, reached, cited=cited) for label, reached in _rates(found).items()],
        )
        print_lines(f"ceiling: {fact}" for fact in ceilings_used(found.bounds))
    if found.profile is not None:
        _print_profile(found.profile, found.measured.notes)
    if found.yardsticks:
        print_lines(["", "against PyTorch, which runs the reference in turns with the kernel:"])
        print_table(
            ("yardstick", "workload", "its time", "the kernel's", "the kernel is faster by"),
            [_yardstick_row(row) for row in yardstick_rows(found.yardsticks)],
        )


def benched_document(found: Benched) -> dict[str, Any]:
    """The same as JSON: what `check` prints, rates with every timing, and the yardsticks."""
    document = documents.measured_document(found.measured, found.measure)
    timings = zip(document["timings"], _rates(found).values(), strict=True)
    return {
        **document,
        "timings": [{**timing, **asdict(reached)} for timing, reached in timings],
        "ceilings": [fact.model_dump(mode="json") for fact in ceilings_used(found.bounds)],
        "profile": found.profile.model_dump(mode="json") if found.profile else None,
        "yardsticks": [yardstick_document(row) for row in yardstick_rows(found.yardsticks)],
    }


def _rates(found: Benched) -> dict[str, Rates]:
    """By workload label, in the order of the timings."""
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


def _print_profile(profile: Profile, said: Collection[str]) -> None:
    """Occupancy and speed of light, or why there are none; of the notes, those not yet said."""
    rows = speed_of_light(profile)
    if rows:
        of = f" of {profile.kernel}" if profile.kernel else ""
        print_lines(["", f"what {profile.tool} saw{of} on {profile.workload}:"])
        print_table(
            ("counter", "value"),
            [(row.name, fmt.counter(row.after, row.unit, row.name)) for row in rows],
        )
    else:
        print_lines(["", f"nobody saw occupancy or speed of light on {profile.workload}"])
    print_lines(f"note: {note}" for note in profile.notes if note not in said)


def _yardstick_row(row: YardstickRow) -> tuple[str, ...]:
    if row.speedup is None:
        return row.name, "-", "-", "-", row.failure or fmt.UNKNOWN
    times = (
        "-" if time_s is None else fmt.time(time_s) for time_s in (row.time_s, row.kernel_time_s)
    )
    ratio = fmt.ratio(row.speedup.value, row.speedup.ci)
    return row.name, row.workload or "all of them", *times, ratio
