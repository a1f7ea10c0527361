"""Raw pairs of a judgement beside the intervals that follow from them, workload by workload. Pure.

A dot is a pair: how much faster the candidate was in it. Those of the first measurement lie above
the interval, those of the confirmation below it, both in the order in which they were made.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from markupsafe import Markup

from roofsmith.analysis import figures as fmt
from roofsmith.analysis.bounds import bounds_of
from roofsmith.domain.comparison import Judgement, PairSample
from roofsmith.domain.dashboard import Figure, PairedRow
from roofsmith.report import svg
from roofsmith.report.templating import TIMES

_MOST = 240
"""Dots of a workload and measurement: of more, every so many-th."""
_ALL = 1_200
"""Dots of a chart, as many of each lane."""
_LANE = 10.0
"""Pixels of the dots above an interval, or below it."""
_FAR = 8.0
"""The axis reaches to 1 unless that makes it so many times longer."""
_TRIMMED = 0.02
"""Share of the dots on either side that the axis needn't reach: they stand at its end."""


def paired_rows(judgement: Judgement) -> tuple[PairedRow, ...]:
    """Every workload's pairs and what they came to; none where nothing was compared."""
    found = judgement.comparison
    if found is None:
        return ()
    return tuple(
        PairedRow(
            workload=one.workload,
            config_class=one.config_class,
            incumbent_s=one.incumbent_time_s,
            candidate_s=one.candidate_time_s,
            ratio=Figure(value=one.estimate.speedup, interval=one.estimate.ci),
            verdict=one.estimate.verdict,
            first=_ratios(judgement.samples, one.workload),
            again=_ratios(judgement.confirmation, one.workload),
            void=sum(
                pair.void is not None and pair.workload == one.workload
                for pair in (*judgement.samples, *judgement.confirmation)
            ),
        )
        for one in found.workloads
    )


def samples_chart(rows: Sequence[PairedRow], noise_band: float, *, narrow: bool) -> Markup:
    """A strip for each workload on one logarithmic axis."""
    width, height = (344.0, 58.0) if narrow else (960.0, 40.0)
    left, right = (10.0, width - 10) if narrow else (250.0, width - 150)
    bottom = height * len(rows) + 6
    x = svg.LogScale(*_ends(rows, noise_band), left, right)
    band = [x.clamp(end) for end in (1 / (1 + noise_band), 1 + noise_band)]  # empty where 1 isn't
    most = max(1, _ALL // (2 * len(rows)))
    strips = [
        _strip(_thinned(row, most), x, height * index + (38 if narrow else 20), narrow=narrow)
        for index, row in enumerate(rows)
    ]
    return svg.figure(
        width,
        bottom + 40,
        svg.element("rect", x=band[0], y=0, width=band[1] - band[0], height=bottom, cls="noise"),
        *_axis(x, bottom, 5 if narrow else 9),
        *strips,
        title="Raw pairs and intervals",
        description=f"{fmt.plural(len(rows), 'workload')}; right of 1 the candidate is faster",
        cls="chart samples",
    )


def _thinned(row: PairedRow, most: int) -> PairedRow:
    first, again = (lane[:: -(-len(lane) // most) or 1] for lane in (row.first, row.again))
    return row.model_copy(update={"first": first, "again": again})


def _ratios(samples: Sequence[PairSample], workload: str) -> tuple[float, ...]:
    pairs = [one for one in samples if one.workload == workload and one.void is None]
    chosen = pairs[:: -(-len(pairs) // _MOST) or 1]
    return tuple(float(f"{math.exp(bounds_of(pair).middle):.5g}") for pair in chosen)


def _ends(rows: Sequence[PairedRow], noise_band: float) -> tuple[float, float]:
    dots = sorted(dot for row in rows for dot in (*row.first, *row.again))
    cut = int(len(dots) * _TRIMMED)
    ends = dots[cut : len(dots) - cut] + [row.ratio.value or 1.0 for row in rows]
    low, high = min(ends), max(ends)
    near, far = min(low, 1 / (1 + noise_band)), max(high, 1 + noise_band)
    if math.log(far / near) < _FAR * max(math.log(high / low), noise_band):
        low, high = near, far
    margin = max((high / low) ** 0.06, 1.002)
    return low / margin, high * margin


def _axis(x: svg.LogScale, bottom: float, most: int) -> Iterator[Markup]:
    for value in x.ticks(most):
        yield svg.line(x(value), 0, x(value), bottom, "grid")
        yield svg.text(x(value), bottom + 16, f"{value:.4g}{TIMES}", cls="tick mid")
    if x.low < 1 < x.high:
        yield svg.line(x(1.0), 0, x(1.0), bottom, "rule")
    middle = (x.start + x.end) / 2
    yield svg.text(middle, bottom + 35, "faster than what it was held against", cls="axis mid")


def _strip(row: PairedRow, x: svg.LogScale, y: float, *, narrow: bool) -> Markup:
    value, (low, high) = row.ratio.value or 1.0, row.ratio.interval or (1.0, 1.0)
    said = f"{fmt.ratio(value, (low, high), TIMES)}"
    dots = (
        _dots(lane, x, top, cls)
        for lane, top, cls in ((row.first, y - _LANE - 3, "first"), (row.again, y + 3, "again"))
    )
    middle = x.clamp(value)
    label = fmt.one_line(row.workload, 38)
    heading = [svg.text(x.start, y - 20, f"{fmt.one_line(row.workload, 24)}  {said}", cls="value")]
    beside = [
        svg.text(x.start - 12, y + 4, label, cls="value end"),
        svg.text(x.end + 12, y + 4, said, cls="note"),
    ]
    return svg.group(
        *dots,
        svg.line(x.clamp(low), y, x.clamp(high), y, "interval"),
        svg.line(middle, y - 5, middle, y + 5, "median"),
        *(heading if narrow else beside),
        title=f"{row.workload}: {said}, {row.verdict}",
        cls=f"pairs {row.verdict}",
    )


def _dots(ratios: Sequence[float], x: svg.LogScale, top: float, cls: str) -> Markup:
    step = _LANE / max(1, len(ratios) - 1)
    places = (f"M{x.clamp(dot):.1f} {top + step * n:.1f}h0" for n, dot in enumerate(ratios))
    return svg.element("path", d="".join(places), cls=f"dots {cls}")
