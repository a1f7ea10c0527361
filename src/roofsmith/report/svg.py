"""Small SVG, written by hand: elements, log scales and their ticks. Pure.

Colours and fonts come from the page's style sheet by class, so one drawing serves light, dark and
print. Every text and attribute is escaped here, and only here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from markupsafe import Markup, escape

from roofsmith.analysis.figures import visible

Attribute = str | float | None


def element(tag: str, *children: Markup, **attributes: Attribute) -> Markup:
    """One element. `cls` is the class; `_` in a name stands for `-`; None leaves it out."""
    written = Markup("").join(
        Markup(' {}="{}"').format(Markup(_attribute_name(name)), _number(value))
        for name, value in attributes.items()
        if value is not None
    )
    if not children:
        return Markup("<{}{}/>").format(Markup(tag), written)
    body = Markup("").join(children)
    return Markup("<{0}{1}>{2}</{0}>").format(Markup(tag), written, body)


def text(x: float, y: float, content: str, **attributes: Attribute) -> Markup:
    """A text, anchored at (x, y)."""
    return element("text", escape(visible(content)), x=x, y=y, **attributes)


def line(x1: float, y1: float, x2: float, y2: float, cls: str) -> Markup:
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, cls=cls)


def polyline(points: Iterable[tuple[float, float]], cls: str) -> Markup:
    """An open path through points."""
    return element("polyline", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in points), cls=cls)


def polygon(points: Iterable[tuple[float, float]], cls: str) -> Markup:
    return element("polygon", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in points), cls=cls)


def group(
    *children: Markup, title: str | None = None, cls: str | None = None, link: str | None = None
) -> Markup:
    """Elements that belong together; `title` is what a pointer or a screen reader finds there."""
    head = (element("title", escape(visible(title))),) if title is not None else ()
    return element("g" if link is None else "a", *head, *children, cls=cls, href=link)


def figure(
    width: float,
    height: float,
    *children: Markup,
    title: str,
    description: str,
    cls: str | None = None,
    at: tuple[float, float] | None = None,
    role: str = "img",
) -> Markup:
    """A whole drawing that scales to its box; announced as an image with a name.

    `at`: its place inside another drawing, where it keeps its size; `role`: a `group` where links
    stand in it.
    """
    place: dict[str, Attribute] = {}
    if at is not None:
        place = {"x": at[0], "y": at[1], "width": width, "height": height}
    return element(
        "svg",
        element("title", escape(visible(title))),
        element("desc", escape(visible(description))),
        *children,
        viewBox=f"0 0 {width:g} {height:g}",
        role=role,
        aria_label=visible(f"{title}. {description}"),
        cls=cls,
        **place,
    )


def document(width: float, height: float, style: str, *children: Markup, title: str) -> str:
    """A file of its own, with its style sheet and a background."""
    drawing = element(
        "svg",
        element("title", escape(visible(title))),
        element("style", Markup(style)),
        element("rect", width=width, height=height, cls="paper"),
        *children,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width:g} {height:g}",
        width=width,
        height=height,
        role="img",
        cls="chart",
    )
    return f"{drawing}\n"


def _attribute_name(name: str) -> str:
    return "class" if name == "cls" else name.replace("_", "-")


def _number(value: Attribute) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float | int) else str(value)


@dataclass(frozen=True, slots=True)
class LogScale:
    """A logarithmic axis: values in [low, high] to pixels in [start, end]."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        span = math.log(self.high) - math.log(self.low)
        share = (math.log(value) - math.log(self.low)) / span
        return self.start + share * (self.end - self.start)

    def clamp(self, value: float) -> float:
        """Where a value lies, kept inside the axis."""
        return self(min(self.high, max(self.low, value)))

    def inverse(self, pixel: float) -> float:
        share = (pixel - self.start) / (self.end - self.start)
        return math.exp(math.log(self.low) + share * (math.log(self.high) - math.log(self.low)))

    @property
    def pixels_per_e(self) -> float:
        """Pixels per factor e: equal on both axes where a diagonal is at 45 degrees."""
        return (self.end - self.start) / (math.log(self.high) - math.log(self.low))

    def ticks(self, most: int = 8) -> list[float]:
        """Round values inside the axis: the finest of the usual series that isn't too many.

        An axis over less than a factor of two is as good as linear, and so are its ticks.
        """
        if self.high < 2 * self.low:
            return self._even(most)
        for mantissas in ((1, 1.5, 2, 3, 4, 5, 6, 8), (1, 2, 3, 5), (1, 2, 5), (1, 3), (1,)):
            ticks = self._at(mantissas)
            if len(ticks) <= most:
                return ticks
        decades = self._at((1,))
        return decades[:: math.ceil(len(decades) / most)]

    def _even(self, most: int) -> list[float]:
        coarse = (self.high - self.low) / most
        power = 10.0 ** math.floor(math.log10(coarse))
        step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= coarse)
        first, last = math.ceil(self.low / step), math.floor(self.high / step)
        return [index * step for index in range(first, last + 1)]

    def _at(self, mantissas: Iterable[float]) -> list[float]:
        decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        values = sorted(mantissa * 10.0**decade for decade in decades for mantissa in mantissas)
        slack = 1e-9
        return [v for v in values if self.low * (1 - slack) <= v <= self.high * (1 + slack)]


def spread(wanted: list[float], gap: float, low: float, high: float) -> list[float]:
    """Positions near the wanted ones, at least `gap` apart and inside [low, high] if they fit.

    For labels on one vertical line: pushes downwards in order, then back up from the end.
    """
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    placed: dict[int, float] = {}
    edge = -math.inf
    for index in order:
        edge = max(wanted[index], edge + gap, low)
        placed[index] = edge
    edge = high + gap
    for index in reversed(order):
        edge = min(placed[index], edge - gap)
        placed[index] = edge
    return [placed[index] for index in range(len(wanted))]
