"""The roofline as text, for a terminal: both axes logarithmic, lines in braille dots. Pure.

Every workload is a letter, on the roof that it stands under; the legend says the rest. Roofs that
several workloads share are drawn once. Without colour, the ceilings that floor and goal stand on
are solid and the others dotted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from string import ascii_letters

from roofsmith.domain.bound import Bound, CeilingPair
from roofsmith.report import format as fmt

Line = list[tuple[str, str]]
"""Pieces of text, each with a style of rich; an empty style is plain."""

_LABEL_WIDTH = 9
_LEAST_WIDTH, _MOST_WIDTH = 40, 110
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Bits of a braille character, by row and column of its dots."""
_BRAILLE = 0x2800


@dataclass(frozen=True, slots=True)
class _Axes:
    """Decimal logarithms of FLOP per byte and FLOP/s to dots, from the upper left corner."""

    low_x: float
    high_x: float
    low_y: float
    high_y: float
    columns: int
    rows: int

    def x(self, intensity: float) -> int:
        share = (math.log10(intensity) - self.low_x) / (self.high_x - self.low_x)
        return round(share * (2 * self.columns - 1))

    def y(self, rate: float) -> int:
        share = (math.log10(rate) - self.low_y) / (self.high_y - self.low_y)
        return round((1 - share) * (4 * self.rows - 1))

    def intensity(self, dot: int) -> float:
        share = dot / (2 * self.columns - 1)
        return float(10 ** (self.low_x + share * (self.high_x - self.low_x)))


@dataclass
class _Canvas:
    """Cells of dots, with letters on top."""

    axes: _Axes
    dots: dict[tuple[int, int], int] = field(default_factory=dict)
    styles: dict[tuple[int, int], str] = field(default_factory=dict)
    marks: dict[tuple[int, int], str] = field(default_factory=dict)

    def dot(self, x: int, y: int, style: str) -> None:
        """One dot, if it is inside."""
        if 0 <= x < 2 * self.axes.columns and 0 <= y < 4 * self.axes.rows:
            cell = (x // 2, y // 4)
            self.dots[cell] = self.dots.get(cell, 0) | _DOTS[y % 4][x % 2]
            self.styles.setdefault(cell, style)

    def row(self, row: int) -> Line:
        """One line of cells."""
        pieces: Line = []
        for column in range(self.axes.columns):
            cell = (column, row)
            if cell in self.marks:
                pieces.append((self.marks[cell], "bold"))
            elif cell in self.dots:
                pieces.append((chr(_BRAILLE + self.dots[cell]), self.styles[cell]))
            else:
                pieces.append((" ", ""))
        return pieces


def roofline_plot(bounds: Sequence[Bound], width: int = 80, rows: int = 15) -> list[Line]:
    """A drawing of all workloads' rooflines; empty where no roof is known.

    Args:
        bounds: one per workload.
        width: columns of the terminal.
        rows: lines of the drawing, without axis and legend.
    """
    drawn = [(letter, b) for letter, b in zip(_letters(), bounds, strict=False) if _is_drawn(b)]
    if not drawn:
        return []
    columns = min(max(width, _LEAST_WIDTH), _MOST_WIDTH) - _LABEL_WIDTH - 2
    axes = _axes([bound for _, bound in drawn], columns, rows)
    canvas = _Canvas(axes)
    for bound in (bound for _, bound in drawn):
        _draw_roof(canvas, CeilingPair(bandwidth=bound.bandwidth, peak=bound.peak), every=1)
    for bound in (bound for _, bound in drawn):
        for pair in (bound.measured, bound.datasheet):
            if pair is not None:
                _draw_roof(canvas, pair, every=6)
    for letter, bound in drawn:
        _mark(canvas, letter, bound)
    lines: list[Line] = [[(f"{'FLOP/s':>{_LABEL_WIDTH}}", "dim")]]
    lines += [[(_rate_label(axes, row), "dim"), *canvas.row(row)] for row in range(rows)]
    return [*lines, *_foot(axes)]


def plot_legend(bounds: Sequence[Bound]) -> list[str]:
    """What each letter of the drawing stands for, and what couldn't be drawn."""
    lines = []
    for letter, bound in zip(_letters(), bounds, strict=False):
        if _is_drawn(bound):
            reached = f"a kernel reaches at most {fmt.quantity(_attainable(bound), 'FLOP/s')}"
            intensity = fmt.intensity(bound.intensity)
            lines.append(f"{letter}  {bound.workload}  {intensity}, {reached}")
        elif bound.cost.flops == 0:
            lines.append(f"-  {bound.workload}  computes nothing: only bytes count")
        else:
            # The whole reason stands where the bound is worked out.
            why = (bound.reason or "UNKNOWN").partition(";")[0]
            lines.append(f"-  {bound.workload}  not drawn: {why}")
    return lines


def plain_drawing(bounds: Sequence[Bound], width: int = 80) -> list[str]:
    """Drawing and legend without colour; empty where no roof is known."""
    lines = ["".join(text for text, _ in line).rstrip() for line in roofline_plot(bounds, width)]
    legend = plot_legend(bounds) if lines else []
    return [*lines, *(f"{'':{_LABEL_WIDTH + 2}}{entry}" for entry in legend)]


def _letters() -> Iterator[str]:
    yield from ascii_letters
    while True:
        yield "*"


def _is_drawn(bound: Bound) -> bool:
    return bool(bound.intensity and bound.bandwidth.value and bound.peak.value)


def _attainable(bound: Bound) -> float:
    """FLOP/s at the floor time."""
    return min(bound.peak.value or 0.0, (bound.bandwidth.value or 0.0) * (bound.intensity or 0.0))


def _axes(bounds: Sequence[Bound], columns: int, rows: int) -> _Axes:
    """Room for every workload and every ridge, in whole decades upwards."""
    intensities = [b.intensity for b in bounds if b.intensity]
    ridges = [b.ridge for b in bounds if b.ridge]
    low_x = math.log10(min(intensities + ridges)) - 0.6
    high_x = math.log10(max(intensities + ridges)) + 0.8
    pairs = [pair for b in bounds for pair in (b.measured, b.datasheet) if pair]
    peaks = [fact.value for fact in (*(b.peak for b in bounds), *(p.peak for p in pairs))]
    rates = [_attainable(b) for b in bounds]
    slowest = min((b.bandwidth.value or math.inf) for b in bounds) * 10**low_x
    return _Axes(
        low_x=low_x,
        high_x=high_x,
        low_y=math.log10(min([slowest, *rates])) - 0.05,
        high_y=math.log10(max(peak for peak in peaks if peak)) + 0.2,
        columns=columns,
        rows=rows,
    )


def _draw_roof(canvas: _Canvas, pair: CeilingPair, every: int) -> None:
    """Both ceilings, joined at the ridge; a dot in `every` columns."""
    if not pair.bandwidth.value or not pair.peak.value:
        return
    axes = canvas.axes
    previous = None
    for x in range(2 * axes.columns):
        memory = pair.bandwidth.value * axes.intensity(x)
        y = axes.y(min(memory, pair.peak.value))
        style = "cyan" if memory < pair.peak.value else "magenta"
        if x % every == 0:
            for step in range(y, (previous if previous is not None and every == 1 else y + 1)):
                canvas.dot(x, step, style)
            canvas.dot(x, y, style)
        previous = y


def _mark(canvas: _Canvas, letter: str, bound: Bound) -> None:
    """A letter on the roof, beside others that are there already."""
    assert bound.intensity is not None  # only such bounds are drawn
    axes = canvas.axes
    column, row = axes.x(bound.intensity) // 2, axes.y(_attainable(bound)) // 4
    while (column, row) in canvas.marks and column + 1 < axes.columns:
        column += 1
    canvas.marks[column, row] = letter


def _ticks(low: float, high: float) -> list[float]:
    """Powers of ten between two logarithms; 2 and 5 of them too where those are too few."""
    for mantissas, least in (((1,), 2), ((1, 2, 5), 0)):
        found = [
            mantissa * 10.0**power
            for power in range(math.floor(low), math.floor(high) + 1)
            for mantissa in mantissas
            if low <= math.log10(mantissa * 10.0**power) <= high
        ]
        if len(found) >= least:
            return found
    return []


def _rate_label(axes: _Axes, row: int) -> str:
    """`1 T` beside the row that a tick lies in."""
    for rate in _ticks(axes.low_y, axes.high_y):
        if axes.y(rate) // 4 == row:
            return f"{_short(rate):>{_LABEL_WIDTH}} ┤"
    return f"{'':>{_LABEL_WIDTH}} │"


def _foot(axes: _Axes) -> list[Line]:
    """The axis of intensities, its ticks, and what it is."""
    rule, labels = ["─"] * axes.columns, ""
    for intensity in _ticks(axes.low_x, axes.high_x):
        column = axes.x(intensity) // 2
        text = f"{intensity:g}"
        start = max(column - len(text) // 2, 0)
        if start + len(text) <= axes.columns and (start > len(labels) or not labels):
            rule[column] = "┬"
            labels = f"{labels:<{start}}{text}"
    margin = " " * (_LABEL_WIDTH + 1)
    return [
        [(f"{margin}└{''.join(rule)}", "dim")],
        [(f"{margin} {labels}", "dim")],
        [(f"{margin} {'FLOP per byte':^{axes.columns}}".rstrip(), "dim")],
    ]


def _short(value: float) -> str:
    """`10 G`, as on an axis."""
    return fmt.quantity(value, "").strip().replace(".00", "").replace(".0", "")
