"""The roofline of one workload, with the accepted kernels' way up to it. Pure.

Axes are FLOP per byte and FLOP/s, both logarithmic. A workload's intensity is that of its least
traffic, the same for every kernel: kernels move up, and the roof above them is their floor time.
Floor and goal stand on the solid roof; ceilings of the other kind, where they differ, are dashed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from markupsafe import Markup

from roofsmith.analysis import figures as fmt
from roofsmith.domain.bound import Bound
from roofsmith.domain.facts import Fact
from roofsmith.report import svg
from roofsmith.report.arithmetic import limiter_words
from roofsmith.report.summary import RooflinePoint, WorkloadRow
from roofsmith.report.templating import html_environment

_Known: TypeAlias = "tuple[Bound, _Roof, Sequence[RooflinePoint]]"

_LABEL_GAP = 14.0
_GUTTER, _HEADING, _CAPTION = 16.0, 40.0, 56.0
_CAPTION_LINES = (14.0, 31.0)
"""Pixels from the top of a caption to its two lines; the panel begins below them."""
_CAPTION_CHARACTERS = {False: 42, True: 96}
"""Characters that fit over a panel, by whether it is wide: bold ones take up to 8 pixels."""
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
    bandwidth: float
    peak: float

    @property
    def ridge(self) -> float:
        """FLOP per byte at which the two meet."""
        return self.peak / self.bandwidth

    def at(self, intensity: float) -> float:
        """The most FLOP/s at an intensity."""
        return min(self.peak, self.bandwidth * intensity)


def roofline_charts(rows: Sequence[WorkloadRow], *, wide: bool) -> list[tuple[WorkloadRow, Markup]]:
    """One panel per workload; none where the roofline is UNKNOWN."""
    drawn = [(row, roof) for row in rows if (roof := _roof(row.bound)) is not None]
    known = [(row.bound, roof, row.path) for row, roof in drawn]
    return [
        (row, _panel(row.bound, roof, row.path, _span(known), wide=wide)) for row, roof in drawn
    ]


def roofline_svg(bounds: Sequence[Bound], device: str) -> str:
    """A drawing of its own: a panel per workload, two in a row, light and dark.

    Args:
        bounds: in the order they are shown; what can't be drawn is a line that says why.
        device: in the title.
    """
    roofs = [(bound, _roof(bound)) for bound in bounds]
    known: list[_Known] = [(bound, roof, ()) for bound, roof in roofs if roof is not None]
    wide = len(known) == 1
    width, height = _size(wide=wide)
    columns = min(len(known), 2) or 1
    total = columns * (width + _GUTTER) + _GUTTER
    pieces: list[Markup] = [svg.text(_GUTTER, 26, f"Roofline on {device}", cls="heading")]
    top = _HEADING
    for index, (bound, roof, path) in enumerate(known):
        left = _GUTTER + (index % columns) * (width + _GUTTER)
        top = _HEADING + (index // columns) * (height + _CAPTION)
        panel = _panel(
            bound, roof, path, _span(known), wide=wide, at=(left, top + _CAPTION - _GUTTER)
        )
        floor = f"{limiter_words(bound)}, floor {fmt.time(bound.floor_time_s)}"
        first, second = (top + line for line in _CAPTION_LINES)
        label = fmt.one_line(bound.workload, _CAPTION_CHARACTERS[wide])
        pieces += [svg.text(left, first, label, cls="value"), svg.text(left, second, floor), panel]
    bottom = top + (height + _CAPTION if known else 0.0)
    for bound, none in roofs:
        if none is None:
            reason = fmt.one_line(bound.reason or bound.cost.reason or fmt.UNKNOWN, 110)
            bottom += 20
            pieces.append(svg.text(_GUTTER, bottom, f"{bound.workload}: not drawn: {reason}"))
    style = html_environment().get_template("chart.svg.css").render()
    return svg.document(total, bottom + _GUTTER, style, *pieces, title=f"Roofline on {device}")


def _size(*, wide: bool) -> tuple[float, float]:
    return (760.0, 420.0) if wide else (344.0, 320.0)


def _roof(bound: Bound) -> _Roof | None:
    return _roof_under(bound.intensity, bound.bandwidth, bound.peak)


def _roof_under(intensity: float | None, bandwidth: Fact, peak: Fact) -> _Roof | None:
    if not intensity or not bandwidth.value or not peak.value:
        return None
    return _Roof(intensity=intensity, bandwidth=bandwidth.value, peak=peak.value)


def _other_roofs(bound: Bound, roof: _Roof) -> list[_Roof]:
    """Those of the other kind of ceilings, where they differ."""
    pairs = [pair for pair in (bound.measured, bound.datasheet) if pair is not None]
    others = [_roof_under(bound.intensity, pair.bandwidth, pair.peak) for pair in pairs]
    return [other for other in others if other is not None and other != roof]


def _span(known: Sequence[_Known]) -> _Span:
    roofs = [one for bound, roof, _ in known for one in (roof, *_other_roofs(bound, roof))]
    lows = [min(roof.intensity, roof.ridge) for roof in roofs]
    highs = [max(roof.intensity, roof.ridge) for roof in roofs]
    low_intensity, high_intensity = min(lows) / 4, max(highs) * 6
    rates = [p.rate_flop_per_s for _, _, path in known for p in path if p.rate_flop_per_s]
    roof_lows = [roof.at(low_intensity) for roof in roofs]
    return _Span(
        low_intensity=low_intensity,
        high_intensity=high_intensity,
        low_rate=min([*rates, *roof_lows]) / 1.8,
        high_rate=max([*rates, *(roof.peak for roof in roofs)]) * 2.2,
    )


def _panel(
    bound: Bound,
    roof: _Roof,
    path: Sequence[RooflinePoint],
    span: _Span,
    *,
    wide: bool,
    at: tuple[float, float] | None = None,
) -> Markup:
    width, height = _size(wide=wide)
    left, right, top, bottom = 64.0, width - 12, 12.0, height - 44
    x = svg.LogScale(span.low_intensity, span.high_intensity, left, right)
    y = svg.LogScale(span.low_rate, span.high_rate, bottom, top)
    others = [_outline(other, x, y) for other in _other_roofs(bound, roof)]
    return svg.figure(
        width,
        height,
        *_grid(x, y, most_x=8 if wide else 5),
        svg.text((left + right) / 2, height - 4, "FLOP per byte", cls="axis mid"),
        *others,
        *_roofs(roof, x, y),
        *_path(path, roof, x, y),
        title=f"Roofline of {bound.workload}",
        description=_description(bound, path),
        cls="chart roofline",
        at=at,
    )


def _outline(roof: _Roof, x: svg.LogScale, y: svg.LogScale) -> Markup:
    start = (x.start, y.clamp(roof.at(x.low)))
    return svg.polyline([start, (x(roof.ridge), y(roof.peak)), (x.end, y(roof.peak))], "roof other")


def _grid(x: svg.LogScale, y: svg.LogScale, *, most_x: int) -> Iterator[Markup]:
    for value in y.ticks(7):
        yield svg.line(x.start, y(value), x.end, y(value), "grid")
        label = fmt.quantity(value, "FLOP/s").replace(".00 ", " ").replace(".0 ", " ")
        if y(value) - y.end >= _LABEL_GAP:  # or it would stand on the axis's own name
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


def _path(
    path: Sequence[RooflinePoint], roof: _Roof, x: svg.LogScale, y: svg.LogScale
) -> Iterator[Markup]:
    points = [(p, y.clamp(p.rate_flop_per_s)) for p in path if p.rate_flop_per_s]
    px, ceiling = x(roof.intensity), y(roof.at(roof.intensity))
    yield svg.line(px, points[-1][1] if points else y.start, px, ceiling, "gap")
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


def _description(bound: Bound, path: Sequence[RooflinePoint]) -> str:
    ends = [*path[:1], *path[1:][-1:]]
    way = " to ".join(fmt.percent(p.fraction) for p in ends)
    reached = f"; from {way} of the roofline" if way else ""
    return f"{limiter_words(bound)}, {fmt.intensity(bound.intensity)}{reached}"
