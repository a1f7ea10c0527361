"""The plot of docs/results.md: what each contender makes of the floor, a row per workload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from roofsmith.report.svg import LogScale, document, element, line, text

_WIDTH, _ROW, _LABELS, _TOP = 860.0, 24.0, 290.0, 58.0
_LEAST = 0.003
"""Share of the floor at the left edge; what is slower stands there."""
_STYLE = """
.paper { fill: #ffffff }
text { font: 12px system-ui, sans-serif; fill: #333 }
.grid { stroke: #ddd } .floor { stroke: #333 } .gain { stroke: #2a78b7; stroke-width: 2 }
.naive { fill: #ffffff; stroke: #2a78b7; stroke-width: 2 } .optimized { fill: #2a78b7 }
.eager { fill: #999 } .compile { fill: #c77700 } .library { fill: #3a8a3a }
@media (prefers-color-scheme: dark) {
  .paper { fill: #16181c } text { fill: #c9ced6 } .grid { stroke: #333a44 }
  .floor { stroke: #c9ced6 } .gain { stroke: #6cb4ee } .naive { fill: #16181c; stroke: #6cb4ee }
  .optimized { fill: #6cb4ee } .compile { fill: #ffb74d } .library { fill: #81c784 }
}
"""
_NAMES = {
    "naive": "naive", "optimized": "roofsmith", "eager": "eager", "compile": "torch.compile",
    "library": "vendor's library",
}  # fmt: skip


def shares_of_the_floor(rows: Sequence[tuple[str, Mapping[str, float]]], device: str) -> str:
    """An SVG.

    Args:
        rows: a workload's label, and the floor over each contender's time: naive, optimized,
            eager, compile, library; whoever didn't run is absent.
        device: that they ran on.
    """
    height = _TOP + _ROW * len(rows) + 34
    most = max(share for _, shares in rows for share in shares.values())
    across = LogScale(_LEAST, max(1.5, 1.1 * most), _LABELS, _WIDTH - 16)
    bottom = height - 30
    ticks = (0.01, 0.03, 0.1, 0.3, 1.0)
    drawn = [
        *(line(across(at), _TOP - 8, across(at), bottom, _axis(at)) for at in ticks),
        *(text(across(at), height - 12, f"{at:.0%}", text_anchor="middle") for at in ticks),
    ]
    for number, name in enumerate(_NAMES):
        x = _LABELS + 104 * number
        drawn += [_mark(name, x, 34), text(x + 10, 38, _NAMES[name])]
    for number, (label, shares) in enumerate(rows):
        y = _TOP + _ROW * (number + 0.5)
        drawn.append(text(_LABELS - 12, y + 4, label, text_anchor="end"))
        if {"naive", "optimized"} <= shares.keys():
            ends = (across.clamp(shares[name]) for name in ("naive", "optimized"))
            drawn.append(line(next(ends), y, next(ends), y, "gain"))
        order = ("eager", "compile", "library", "naive", "optimized")
        drawn += [_mark(name, across.clamp(shares[name]), y) for name in order if name in shares]
    title = f"Share of the floor's rate on {device}: right is faster, 100% is the floor"
    return document(_WIDTH, height, _STYLE, text(16, 16, title), *drawn, title=title)


def _axis(at: float) -> str:
    return "floor" if at == 1.0 else "grid"


def _mark(name: str, x: float, y: float) -> Markup:
    if name in ("naive", "optimized"):
        return element("circle", cx=x, cy=y, r=5, cls=name)
    return element("rect", x=x - 1.5, y=y - 7, width=3, height=14, cls=name)
