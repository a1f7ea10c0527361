"""The plot of claimed against true totals."""

from __future__ import annotations

from collections.abc import Sequence

from roofsmith.report.svg import LogScale, document, element, line, text

WIDTH, HEIGHT, MARGIN = 640.0, 420.0, 56.0
BAND = 1.01
"""The promise: within 1% of the truth."""
RANGE = (0.98, 1.02)
STYLE = """
.paper { fill: #ffffff }
text { font: 12px system-ui, sans-serif; fill: #333 }
.axis { stroke: #999 } .exact { stroke: #333 } .band { fill: #2a78b71f }
.point { fill: #2a78b7; fill-opacity: 0.35 } .beyond { fill: #b3261e }
@media (prefers-color-scheme: dark) {
  .paper { fill: #16181c } text { fill: #c9ced6 } .axis { stroke: #667 } .exact { stroke: #c9ced6 }
  .point { fill: #6cb4ee } .beyond { fill: #ff8a80 } .band { fill: #6cb4ee2a }
}
"""


def claims_against_truth(points: Sequence[tuple[float, float]]) -> str:
    """An SVG: true total on one axis, claimed over true on the other.

    Args:
        points: (true, claimed) speedup over the baseline of each campaign that kept something.
    """
    shares = [(true, claimed / true) for true, claimed in points]
    largest = max(true for true, _ in points)
    across = LogScale(1.0, max(largest * 1.05, 1.5), MARGIN, WIDTH - 16)
    up = LogScale(*RANGE, HEIGHT - MARGIN, 24)
    band = element(
        "rect", x=across.start, y=up(BAND), width=across.end - across.start,
        height=up(1 / BAND) - up(BAND), cls="band",
    )  # fmt: skip
    inside = [(true, share) for true, share in shares if RANGE[0] <= share <= RANGE[1]]
    beyond = [(true, share) for true, share in shares if not RANGE[0] <= share <= RANGE[1]]
    marks = [element("circle", cx=across(t), cy=up(s), r=2, cls="point") for t, s in inside]
    for true, share in beyond:
        x, y, down = across(true), up.clamp(share), 8 if share < 1 else -8
        triangle = f"{x - 5:.1f},{y - down:.1f} {x + 5:.1f},{y - down:.1f} {x:.1f},{y:.1f}"
        label = text(x, y - 2 * down, f"{share - 1:+.1%}", text_anchor="middle")
        marks += [element("polygon", points=triangle, cls="beyond"), label]
    bottom = up.start
    scale = [
        *(text(across(t), bottom + 18, f"{t:g}x", text_anchor="middle") for t in across.ticks()),
        *(
            text(across.start - 6, up(t) + 4, f"{t - 1:+.1%}", text_anchor="end")
            for t in (0.98, 0.99, 1.0, 1.01, 1.02)
        ),
        text(
            (across.start + across.end) / 2, HEIGHT - 14, "true total speedup",
            text_anchor="middle",
        ),
        text(
            across.start, 14,
            "claimed over true total; each point a campaign; band: within 1%; red: beyond the axis",
        ),
    ]  # fmt: skip
    axes = [
        line(across.start, bottom, across.end, bottom, "axis"),
        line(across.start, bottom, across.start, up.end, "axis"),
        line(across.start, up(1.0), across.end, up(1.0), "exact"),
    ]
    title = "Claimed against true totals of simulated campaigns"
    return document(WIDTH, HEIGHT, STYLE, band, *axes, *marks, *scale, title=title)
