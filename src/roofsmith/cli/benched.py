"""What `roofsmith bench` prints: times, rates against the ceilings, and the yardsticks."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from roofsmith.app import Benched
from roofsmith.cli import documents, show
from roofsmith.cli.output import print_json, print_lines, print_table
from roofsmith.report import format as fmt
from roofsmith.report.json_summary import yardstick_document
from roofsmith.report.rates import Rates, rates
from roofsmith.report.summary import YardstickRow
from roofsmith.report.yardsticks import yardstick_rows


def benched(found: Benched, *, as_json: bool) -> None:
    """How fast, how near the ceilings, and how much faster than PyTorch."""
    if as_json:
        print_json(benched_document(found))
        return
    show.measured(found.measured, as_json=False)
    if found.measured.timings:
        print_lines([""])
        print_table(
            ("workload", "moved", "of the bandwidth", "computed", "of the peak"),
            [_rates_row(label, reached) for label, reached in _rates(found).items()],
        )
    if found.yardsticks:
        print_lines(["", "against PyTorch, which runs the reference in turns with the kernel:"])
        print_table(
            ("yardstick", "workload", "its time", "the kernel's", "the kernel is faster by"),
            [_yardstick_row(row) for row in yardstick_rows(found.yardsticks)],
        )


def benched_document(found: Benched) -> dict[str, Any]:
    """The same as JSON: what `check` prints, rates with every timing, and the yardsticks."""
    document = documents.measured_document(found.measured)
    timings = zip(document["timings"], _rates(found).values(), strict=True)
    return {
        **document,
        "timings": [{**timing, **asdict(reached)} for timing, reached in timings],
        "yardsticks": [yardstick_document(row) for row in yardstick_rows(found.yardsticks)],
    }


def _rates(found: Benched) -> dict[str, Rates]:
    """By workload label, in the order of the timings."""
    bounds = {bound.workload: bound for bound in found.bounds}
    return {t.workload: rates(bounds[t.workload], t.time_s) for t in found.measured.timings}


def _rates_row(label: str, reached: Rates) -> tuple[str, ...]:
    return (
        label,
        fmt.quantity(reached.rate_byte_per_s, "byte/s"),
        fmt.percent(reached.bandwidth_fraction),
        fmt.quantity(reached.rate_flop_per_s, "FLOP/s"),
        fmt.percent(reached.peak_fraction),
    )


def _yardstick_row(row: YardstickRow) -> tuple[str, ...]:
    if row.speedup is None:
        return row.name, "-", "-", "-", row.failure or fmt.UNKNOWN
    times = (
        "-" if time_s is None else fmt.time(time_s) for time_s in (row.time_s, row.kernel_time_s)
    )
    ratio = fmt.ratio(row.speedup.value, row.speedup.ci)
    return row.name, row.workload or "all of them", *times, ratio
