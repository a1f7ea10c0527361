"""What a sweep looked at: one mark per screened point on a line of speedups. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from markupsafe import Markup

from roofsmith.domain.proposal import ScreenedPoint
from roofsmith.report import format as fmt
from roofsmith.report import svg
from roofsmith.report.templating import TIMES

_WIDTH, _LEFT, _RIGHT = 344.0, 14.0, 330.0
_ROW, _RADIUS = 9.0, 4.0


def strip_chart(points: Sequence[ScreenedPoint], proposed_id: str) -> Markup | None:
    """Screened ratios, stacked where they would overlap; None if nothing was measured."""
    measured = [(point, point.speedup) for point in points if point.speedup is not None]
    if not measured:
        return None
    ratios = [ratio for _, ratio in measured]
    low, high = min([*ratios, 1.0]) / 1.03, max([*ratios, 1.0]) * 1.03
    x = svg.LogScale(low, high, _LEFT, _RIGHT)
    rows = _rows([x(ratio) for ratio in ratios])
    height = 44 + _ROW * (max(rows) + 1)
    base = height - 26
    return svg.figure(
        _WIDTH,
        height,
        *_axis(x, base),
        *(
            _dot(point, x(ratio), base - 8 - _ROW * row, proposed_id)
            for (point, ratio), row in zip(measured, rows, strict=True)
        ),
        title="Screened points",
        description=_description(points, ratios),
        cls="chart strip",
    )


def _rows(places: Sequence[float]) -> list[int]:
    """For each mark the lowest row on which it touches no earlier one."""
    taken: list[list[float]] = []
    rows = []
    for place in places:
        free = (
            row
            for row, others in enumerate(taken)
            if all(abs(place - other) >= 2 * _RADIUS for other in others)
        )
        row = next(free, len(taken))
        if row == len(taken):
            taken.append([])
        taken[row].append(place)
        rows.append(row)
    return rows


def _axis(x: svg.LogScale, base: float) -> Iterator[Markup]:
    yield svg.line(x.start, base, x.end, base, "rule")
    if x.low < 1 < x.high:
        yield svg.line(x(1.0), 8, x(1.0), base, "goal")
    for value in x.ticks(5):
        yield svg.line(x(value), base, x(value), base + 4, "rule")
        yield svg.text(x(value), base + 17, f"{value:g}{TIMES}", cls="tick mid")


def _dot(point: ScreenedPoint, px: float, py: float, proposed_id: str) -> Markup:
    proposed = point.candidate_id == proposed_id
    title = f"{fmt.one_line(point.label)}: {fmt.speedup(point.speedup)}"
    return svg.group(
        svg.element("circle", cx=px, cy=py, r=_RADIUS, cls="dot"),
        title=f"{title}, proposed" if proposed else title,
        cls="mark kept" if proposed else "mark point",
    )


def _description(points: Sequence[ScreenedPoint], ratios: Sequence[float]) -> str:
    failed = len(points) - len(ratios)
    return (
        f"{fmt.plural(len(points), 'point')} from {fmt.speedup(min(ratios))} to "
        f"{fmt.speedup(max(ratios))} over the incumbent, {failed} failed"
    )
