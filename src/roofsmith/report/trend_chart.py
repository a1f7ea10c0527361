"""The trend: speedup over the baseline, round by round, on a logarithmic axis. Pure.

The line is the kernel that holds, its band the total's interval; what was tried hangs from it by a
thin line. A mark's whisker is the round's own interval over the kernel that it was compared with,
with an arrow where it goes on beyond the plot.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from markupsafe import Markup

from roofsmith.analysis import figures as fmt
from roofsmith.report import svg
from roofsmith.report.summary import Ratio, Summary, SummaryStep
from roofsmith.report.templating import TIMES

_ROOM = 2.0
"""How far from its value an end is given room: an open one would leave none for the values."""
_TITLE = {False: 64, True: 24}
"""Characters of a hypothesis that a mark says, by whether the chart is narrow."""
_MARGIN_FACTOR = 1.18
"""Room beyond the outermost value, as a factor."""


@dataclass(frozen=True, slots=True)
class _Frame:
    width: float
    height: float
    left: float
    right: float
    top: float
    bottom: float
    y: svg.LogScale
    columns: Mapping[int, int]
    """By the number of the round."""

    def x(self, number: int) -> float:
        """The middle of a round's column."""
        return self.left + self.column * (self.columns[number] + 0.5)

    @property
    def column(self) -> float:
        """Pixels per round."""
        return (self.right - self.left) / max(1, len(self.columns))


def trend_chart(summary: Summary, *, narrow: bool, link: str = "") -> Markup | None:
    """Every round's kernel over the baseline: kept, rejected and failed; None before round 1.

    `link`: what a round's number is put behind to make an address; empty: marks lead nowhere.
    """
    levels = [step.level for step in summary.steps if step.level is not None]
    if not levels:
        return None
    frame = _frame(summary, levels, narrow=narrow)
    return svg.figure(
        frame.width,
        frame.height,
        *_axes(frame, summary),
        *_limits(frame, summary),
        _band(frame, summary),
        _staircase(frame, summary),
        *(
            _mark(frame, step, held.value, link, _TITLE[narrow])
            for step, held in zip(summary.steps, summary.held, strict=True)
        ),
        *_labels(frame, summary),
        title="Speedup over the baseline, round by round",
        description=_description(summary),
        cls="chart trend",
        role="group" if link else "img",
    )


def _frame(summary: Summary, levels: list[Ratio], *, narrow: bool) -> _Frame:
    width, height = (344.0, 300.0) if narrow else (960.0, 380.0)
    ends = [end for level in (*levels, *summary.held) for end in _near(level)]
    high = max(ends)
    if summary.limit_speedup is not None:
        high = max(high, summary.limit_speedup)
    low = min(ends) / _MARGIN_FACTOR
    high *= _MARGIN_FACTOR
    if high / low < 2:
        low, high = low / 1.3, high * 1.3
    top, bottom = 14.0, height - (54.0 if narrow else 58.0)
    return _Frame(
        width=width,
        height=height,
        left=40.0 if narrow else 52.0,
        right=width - (10.0 if narrow else 20.0),
        top=top,
        bottom=bottom,
        y=svg.LogScale(low, high, bottom, top),
        columns={step.number: index for index, step in enumerate(summary.steps)},
    )


def _near(level: Ratio) -> tuple[float, float]:
    low, high = level.ci
    return max(low, level.value / _ROOM), min(high, level.value * _ROOM)


def _axes(frame: _Frame, summary: Summary) -> Iterator[Markup]:
    for value in frame.y.ticks(7):
        y = frame.y(value)
        yield svg.line(frame.left, y, frame.right, y, "grid")
        yield svg.text(frame.left - 8, y + 4, f"{value:g}{TIMES}", cls="tick end")
    label = 10.0 + 8 * len(str(summary.steps[-1].number))
    every = max(1, math.ceil(label / frame.column))
    for index, step in enumerate(summary.steps):
        if index % every == 0:
            x = frame.x(step.number)
            yield svg.text(x, frame.bottom + 34, str(step.number), cls="tick mid")
    middle = (frame.left + frame.right) / 2
    yield svg.text(middle, frame.height - 3, "round", cls="axis mid")
    # Rounds that were never measured have their marks in a strip below the scale.
    yield svg.line(frame.left, frame.bottom, frame.right, frame.bottom, "rule")


def _limits(frame: _Frame, summary: Summary) -> Iterator[Markup]:
    limit = summary.limit_speedup
    if limit is None:
        return
    y = frame.y(limit)
    yield svg.line(frame.left, y, frame.right, y, "limit")
    label = f"hardware limit {fmt.speedup(limit, TIMES)}"
    yield svg.text(frame.left + 6, y - 6, label, cls="note limit-text")
    share = summary.goal_fraction or 1.0
    goal = limit * share
    if frame.y.low < goal and share < 1:
        goal_y = frame.y(goal)
        yield svg.line(frame.left, goal_y, frame.right, goal_y, "goal")
        if goal_y - y > 9:
            label = f"goal: {fmt.percent(share)} of it"
            yield svg.text(frame.left + 6, goal_y + 14, label, cls="note")


def _band(frame: _Frame, summary: Summary) -> Markup:
    """Between the ends of the total's interval, under the staircase."""
    upper: list[tuple[float, float]] = []
    lower: list[tuple[float, float]] = []
    before = Ratio(1.0, (1.0, 1.0))
    for step, held in zip(summary.steps, summary.held, strict=True):
        x, half = frame.x(step.number), frame.column / 2
        for total, start, end in ((before, x - half, x), (held, x, x + half)):
            low, high = (frame.y.clamp(value) for value in total.ci)
            upper += [(start, high), (end, high)]
            lower += [(start, low), (end, low)]
        before = held
    return svg.polygon([*upper, *reversed(lower)], "band")


def _staircase(frame: _Frame, summary: Summary) -> Markup:
    """The kernel that holds: rises in the column of a round that was kept."""
    points, total = [], 1.0
    for step in summary.steps:
        x, half = frame.x(step.number), frame.column / 2
        points += [(x - half, frame.y.clamp(total)), (x, frame.y.clamp(total))]
        total = step.total_speedup
        points += [(x, frame.y.clamp(total)), (x + half, frame.y.clamp(total))]
    return svg.polyline(points, "holder")


def _mark(frame: _Frame, step: SummaryStep, held: float, link: str, most: int) -> Markup:
    x, trunk = frame.x(step.number), frame.y.clamp(held)
    to = f"{link}{step.number}" if link and step.mark != "baseline" else None
    title = f"Round {step.number}, {step.status}"
    if step.ratio is not None:
        title += f", {fmt.ratio(step.ratio.value, step.ratio.ci)} over the incumbent"
    if step.level is not None and step.level != step.ratio and step.mark != "baseline":
        title += f", {fmt.ratio(step.level.value, step.level.ci)} over the baseline"
    title += f": {fmt.one_line(step.title, most)}"
    if step.level is None:
        parts = [svg.line(x, trunk, x, frame.bottom + 8, "branch"), *_cross(x, frame.bottom + 13)]
        return svg.group(*parts, title=title, cls="mark failed", link=to)
    y, size = frame.y(step.level.value), min(5.0, max(2.5, frame.column / 4))
    low, high = (frame.y.clamp(end) for end in step.level.ci)
    parts = [svg.line(x, trunk, x, y, "branch"), svg.line(x, low, x, high, "whisker")]
    if abs(low - high) > 2 * size + 2:
        lower, upper = step.level.ci
        parts += [_end(frame, x, lower, 1), _end(frame, x, upper, -1)]
    parts.append(svg.element("circle", cx=x, cy=y, r=size, cls="dot"))
    return svg.group(*parts, title=title, cls=f"mark {step.mark}", link=to)


def _end(frame: _Frame, x: float, value: float, outwards: int) -> Markup:
    """An interval's: a bar, or an arrow at the plot's edge where it lies beyond."""
    y = frame.y.clamp(value)
    if frame.y.low <= value <= frame.y.high:
        return svg.line(x - 3, y, x + 3, y, "whisker")
    back = y - 6 * outwards
    return svg.polyline([(x - 4, back), (x, y), (x + 4, back)], "whisker beyond")


def _cross(x: float, y: float) -> list[Markup]:
    arm = 4.0
    return [
        svg.line(x - arm, y - arm, x + arm, y + arm, "stroke"),
        svg.line(x - arm, y + arm, x + arm, y - arm, "stroke"),
    ]


def _labels(frame: _Frame, summary: Summary) -> Iterator[Markup]:
    """The totals of kept rounds, above their marks, as many as fit."""
    needed = 40.0
    after = frame.left - needed
    kept = summary.kept
    for step in reversed(kept):
        # The last one always gets its label; earlier ones where they don't run into it.
        x = frame.x(step.number)
        if step is not kept[-1] and abs(after - x) < needed:
            continue
        after = x
        value = Ratio(step.total_speedup, (step.total_speedup, step.total_speedup))
        highest = frame.y.clamp((step.level or value).ci[1])
        label = fmt.speedup(step.total_speedup, TIMES)
        if highest - 11 < frame.top:  # no room above its whisker
            beside = frame.y.clamp(step.total_speedup) - 8
            yield svg.text(x - 9, beside, label, cls="value end")
            continue
        y = highest - 11
        anchor = "end" if x > frame.right - 24 else "mid"
        yield svg.text(x, y, label, cls=f"value {anchor}")


def _description(summary: Summary) -> str:
    totals = summary.totals
    parts = [
        f"{fmt.plural(totals.kept, 'change')} kept, {totals.rejected} measured and rolled back, "
        f"{totals.failed} failed"
    ]
    if summary.speedup is not None:
        parts.append(f"now at {fmt.ratio(summary.speedup.value, summary.speedup.ci)}")
    if summary.limit_speedup is not None:
        parts.append(f"the hardware limit is {fmt.speedup(summary.limit_speedup)}")
    beyond = [
        f"of round {step.number} {fmt.ratio(step.level.value, step.level.ci)}"
        for step in summary.steps
        if step.level is not None and step.level.ci != _near(step.level)
    ]
    if beyond:
        parts.append(f"wide intervals: {', '.join(beyond)}")
    return "; ".join(parts)
