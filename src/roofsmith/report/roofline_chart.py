"""The roofline of one workload, with the accepted kernels' way up to it. Pure.

Axes are FLOP per byte and FLOP/s, both logarithmic. A workload's intensity is that of its least
traffic, the same for every kernel: kernels move up, and the roof above them is their floor time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from roofsmith.report import format as fmt
from roofsmith.report import svg
from roofsmith.report.arithmetic import limiter_words
from roofsmith.report.summary import RooflinePoint, WorkloadRow

_LABEL_GAP = 14.0
_MOST_SPREAD = 8
"""More labels than this would run into the roofs if all were drawn."""


@dataclass(frozen=True, slots=True)
class _Span:
    """Axes that all of a campaign's panels share, so that they can be compared."""

    low_intensity: float
    high_intensity: float
    low_rate: float
    high_rate: float


@dataclass(frozen=True, slots=True)
class _Roof:
    """One workload's two ceilings; all known."""

    intensity: float
    ridge: float
    bandwidth: float
    peak: float

    def at(self, intensity: float) -> float:
        """The most FLOP/s at an intensity."""
        return min(self.peak, self.bandwidth * intensity)


def roofline_charts(
    rows: Sequence[WorkloadRow], *, wide: bool
) -> list[tuple[WorkloadRow, Markup | None]]:
    """One panel per workload; None where the roofline is UNKNOWN.

    Args:
        rows: in the order they are shown.
        wide: whether one panel has the whole width of a page.
    """
    roofs = [_roof(row) for row in rows]
    known = [(row, roof) for row, roof in zip(rows, roofs, strict=True) if roof is not None]
    if not known:
        return [(row, None) for row in rows]
    span = _span(known)
    return [
        (row, _panel(row, roof, span, wide=wide) if roof is not None else None)
        for row, roof in zip(rows, roofs, strict=True)
    ]


def _roof(row: WorkloadRow) -> _Roof | None:
    bound = row.bound
    if bound.intensity is None or not bound.bandwidth.value or not bound.peak.value:
        return None
    return _Roof(
        intensity=bound.intensity,
        ridge=bound.peak.value / bound.bandwidth.value,
        bandwidth=bound.bandwidth.value,
        peak=bound.peak.value,
    )


def _span(known: Sequence[tuple[WorkloadRow, _Roof]]) -> _Span:
    roofs = [roof for _, roof in known]
    lows = [min(roof.intensity, roof.ridge) for roof in roofs]
    highs = [max(roof.intensity, roof.ridge) for roof in roofs]
    low_intensity, high_intensity = min(lows) / 4, max(highs) * 6
    rates = [p.rate_flop_per_s for row, _ in known for p in row.path if p.rate_flop_per_s]
    roof_lows = [roof.at(low_intensity) for roof in roofs]
    return _Span(
        low_intensity=low_intensity,
        high_intensity=high_intensity,
        low_rate=min([*rates, *roof_lows]) / 1.8,
        high_rate=max([*rates, *(roof.peak for roof in roofs)]) * 2.2,
    )


def _panel(row: WorkloadRow, roof: _Roof, span: _Span, *, wide: bool) -> Markup:
    width, height = (760.0, 420.0) if wide else (344.0, 320.0)
    left, right, top, bottom = 64.0, width - 12, 12.0, height - 44
    x = svg.LogScale(span.low_intensity, span.high_intensity, left, right)
    y = svg.LogScale(span.low_rate, span.high_rate, bottom, top)
    return svg.figure(
        width,
        height,
        *_grid(x, y, most_x=8 if wide else 5),
        svg.text((left + right) / 2, height - 4, "FLOP per byte", cls="axis mid"),
        *_roofs(roof, x, y),
        *_path(row, roof, x, y),
        title=f"Roofline of {row.label}",
        description=_description(row),
        cls="chart roofline",
    )


def _grid(x: svg.LogScale, y: svg.LogScale, *, most_x: int) -> Iterator[Markup]:
    for value in y.ticks(7):
        yield svg.line(x.start, y(value), x.end, y(value), "grid")
        label = fmt.quantity(value, "FLOP/s").replace(".00 ", " ").replace(".0 ", " ")
        yield svg.text(x.start - 6, y(value) + 4, label.replace("FLOP/s", ""), cls="tick end")
    for value in x.ticks(most_x):
        yield svg.line(x(value), y.start, x(value), y.end, "grid")
        yield svg.text(x(value), y.start + 17, f"{value:g}", cls="tick mid")
    yield svg.text(x.start - 6, y.end + 1, "FLOP/s", cls="axis end")


def _roofs(roof: _Roof, x: svg.LogScale, y: svg.LogScale) -> Iterator[Markup]:
    start = (x.start, y.clamp(roof.at(x.low)))
    ridge = (x(roof.ridge), y(roof.peak))
    yield svg.polyline([start, ridge], "roof memory-roof")
    yield svg.line(*ridge, x.end, y(roof.peak), "roof compute-roof")
    peak = fmt.quantity(roof.peak, "FLOP/s")
    yield svg.text(x.end, y(roof.peak) - 7, peak, cls="note end compute-text")
    # On the longer part of the slope, so that the path doesn't run through it.
    place = x.inverse(_middle_of_longer(x.start, x(roof.intensity), x(roof.ridge)))
    px, py = x(place), y.clamp(roof.at(place))
    angle = math.degrees(math.atan2(y.pixels_per_e, x.pixels_per_e))
    yield svg.text(
        px,
        py - 7,
        fmt.quantity(roof.bandwidth, "byte/s"),
        cls="note mid memory-text",
        transform=f"rotate({angle:.1f} {px:.1f} {py:.1f})",
    )


def _middle_of_longer(start: float, cut: float, end: float) -> float:
    """The middle of the longer of two pieces that `cut` leaves of [start, end]."""
    if not start < cut < end:
        return (start + end) / 2
    return (start + cut) / 2 if cut - start > end - cut else (cut + end) / 2


def _path(row: WorkloadRow, roof: _Roof, x: svg.LogScale, y: svg.LogScale) -> Iterator[Markup]:
    points = [(p, y.clamp(p.rate_flop_per_s)) for p in row.path if p.rate_flop_per_s]
    px, ceiling = x(roof.intensity), y(roof.at(roof.intensity))
    if not points:
        return
    yield svg.line(px, points[-1][1], px, ceiling, "gap")
    yield svg.line(px - 7, ceiling, px + 7, ceiling, "ceiling")
    yield svg.polyline([(px, py) for _, py in points], "path")
    to_left = px > (x.start + x.end) / 2
    places = _label_places([py + 4 for _, py in points], y.end + 10, y.start - 2)
    for index, (point, py) in enumerate(points):
        kind = "final" if index == len(points) - 1 else "baseline" if index == 0 else "kept"
        dot = svg.element("circle", cx=px, cy=py, r=5.0 if kind == "final" else 4.0, cls="dot")
        label: list[Markup] = []
        if index in places:
            label_x, label_y = px - 12 if to_left else px + 12, places[index]
            anchor = "value end" if to_left else "value"
            label = [
                *_leader(px, py, label_x, label_y - 4),
                svg.text(label_x, label_y, _label(point), cls=anchor),
            ]
        yield svg.group(dot, *label, title=_title(point), cls=f"mark {kind}")


def _label_places(wanted: list[float], low: float, high: float) -> dict[int, float]:
    """Where labels go, by point: all of them if they are few, else those that have room."""
    if len(wanted) <= _MOST_SPREAD:
        return dict(enumerate(svg.spread(wanted, _LABEL_GAP, low, high)))
    last = len(wanted) - 1
    placed: dict[int, float] = {}
    for index in (last, 0, *range(last - 1, 0, -1)):
        if all(abs(wanted[index] - other) >= _LABEL_GAP for other in placed.values()):
            placed[index] = wanted[index]
    return placed


def _leader(px: float, py: float, label_x: float, label_y: float) -> list[Markup]:
    """A line to a label that had to move away from its point."""
    if abs(label_y - py) < 4:
        return []
    inward = 3 if label_x < px else -3
    return [svg.line(px, py, label_x + inward, label_y, "leader")]


def _label(point: RooflinePoint) -> str:
    if point.fraction is None:
        return str(point.number)
    return f"{point.number} · {fmt.percent(point.fraction)}"


def _title(point: RooflinePoint) -> str:
    return (
        f"Round {point.number}: {fmt.time(point.time_s)}, "
        f"{fmt.quantity(point.rate_flop_per_s, 'FLOP/s')}, "
        f"{fmt.percent(point.fraction)} of the roofline"
    )


def _description(row: WorkloadRow) -> str:
    way = " to ".join(fmt.percent(p.fraction) for p in (row.path[:1] + row.path[1:][-1:]))
    return (
        f"{limiter_words(row.bound)}, {fmt.intensity(row.bound.intensity)}; "
        f"from {way or fmt.UNKNOWN} of the roofline"
    )
