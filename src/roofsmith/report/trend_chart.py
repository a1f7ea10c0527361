"""The trend: speedup over the baseline, round by round, on a logarithmic axis. Pure.

The line is the kernel that holds, its band the total's interval; a mark's whisker is the round's
own interval over the kernel that it was compared with.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from markupsafe import Markup

from roofsmith.analysis import figures as fmt
from roofsmith.report import svg
from roofsmith.report.summary import Ratio, Summary, SummaryStep
from roofsmith.report.templating import TIMES

_LONGEST_WHISKER = 2.0
_MARGIN_FACTOR = 1.18
"""Room beyond the outermost value, as a factor."""


@dataclass(frozen=True, slots=True)
class _Frame:
    """The plot's box and its axes."""

    width: float
    height: float
    left: float
    right: float
    top: float
    bottom: float
    y: svg.LogScale
    rounds: int

    def x(self, number: int) -> float:
        """The middle of a round's column."""
        return self.left + self.column * (number - 0.5)

    @property
    def column(self) -> float:
        """Pixels per round."""
        return (self.right - self.left) / max(1, self.rounds)


def trend_chart(summary: Summary, *, narrow: bool) -> Markup | None:
    """Every round's kernel over the baseline: kept, rejected and failed; None before round 1."""
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
        *(_mark(frame, step) for step in summary.steps),
        *_labels(frame, summary),
        title="Speedup over the baseline, round by round",
        description=_description(summary),
        cls="chart trend",
    )


def _frame(summary: Summary, levels: list[Ratio], *, narrow: bool) -> _Frame:
    width, height = (344.0, 300.0) if narrow else (960.0, 380.0)
    ends = [end for level in (*levels, *summary.held) for end in _whisker(level)]
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
        rounds=len(summary.steps),
    )


def _whisker(level: Ratio) -> tuple[float, float]:
    """The interval's ends, cut where too few pairs leave it open and it would fill the chart."""
    low, high = level.ci
    return max(low, level.value / _LONGEST_WHISKER), min(high, level.value * _LONGEST_WHISKER)


def _axes(frame: _Frame, summary: Summary) -> Iterator[Markup]:
    for value in frame.y.ticks(7):
        y = frame.y(value)
        yield svg.line(frame.left, y, frame.right, y, "grid")
        yield svg.text(frame.left - 8, y + 4, f"{value:g}{TIMES}", cls="tick end")
    every = max(1, round(26 / frame.column))
    for step in summary.steps:
        if (step.number - 1) % every == 0:
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
    goal = limit * summary.goal_fraction
    if frame.y.low < goal and summary.goal_fraction < 1:
        goal_y = frame.y(goal)
        yield svg.line(frame.left, goal_y, frame.right, goal_y, "goal")
        if goal_y - y > 9:
            label = f"goal: {fmt.percent(summary.goal_fraction)} of it"
            yield svg.text(frame.left + 6, goal_y + 14, label, cls="note")


def _band(frame: _Frame, summary: Summary) -> Markup:
    """Between the ends of the total's interval, under the staircase."""
    upper: list[tuple[float, float]] = []
    lower: list[tuple[float, float]] = []
    before = Ratio(1.0, (1.0, 1.0))
    for step, held in zip(summary.steps, summary.held, strict=True):
        x, half = frame.x(step.number), frame.column / 2
        for total, start, end in ((before, x - half, x), (held, x, x + half)):
            low, high = (frame.y.clamp(value) for value in _whisker(total))
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


def _mark(frame: _Frame, step: SummaryStep) -> Markup:
    x = frame.x(step.number)
    title = f"Round {step.number}, {step.status}"
    if step.ratio is not None:
        title += f", {fmt.ratio(step.ratio.value, step.ratio.ci)} over the incumbent"
    title += f": {fmt.one_line(step.title)}"
    if step.level is None:
        return svg.group(*_cross(x, frame.bottom + 13), title=title, cls="mark failed")
    y, size = frame.y(step.level.value), min(5.0, max(2.5, frame.column / 4))
    low, high = (frame.y(end) for end in _whisker(step.level))
    parts = [svg.line(x, low, x, high, "whisker")]
    if abs(low - high) > 2 * size + 2:
        parts += [svg.line(x - 3, end, x + 3, end, "whisker") for end in (low, high)]
    parts.append(svg.element("circle", cx=x, cy=y, r=size, cls="dot"))
    return svg.group(*parts, title=title, cls=f"mark {step.mark}")


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
        highest = _whisker(step.level or value)[1]
        y = max(frame.top, frame.y(highest) - 11)
        anchor = "end" if x > frame.right - 24 else "mid"
        label = fmt.speedup(step.total_speedup, TIMES)
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
    return "; ".join(parts)
