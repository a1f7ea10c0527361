"""What is measured of a kernel: its time, or the metric that a repository's benchmark prints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Measure:
    """How a recorded value is to be read.

    Records hold what is compared, of which less is better, under the names of times: seconds, or
    else a metric as it is, or its inverse where more is better (`repository/rows.py`).
    """

    name: str
    """Of the metric; of a time `time`."""
    unit: str
    """Of the metric; empty if it has none."""
    is_time: bool
    """Whether records are seconds."""
    is_inverse: bool = False
    """Whether records are the metric's inverse."""

    @property
    def title(self) -> str:
        """Of a section: `Times`, or the metric's name."""
        return "Times" if self.is_time else self.name

    @property
    def plural(self) -> str:
        """Of several values: `times`, or the metric's name."""
        return "times" if self.is_time else self.name

    @property
    def suffix(self) -> str:
        """Of a column that holds it and is named after something else: `, tokens_per_s`."""
        return "" if self.is_time else f", {self.name}"

    @property
    def ratio(self) -> str:
        """What a ratio is of, which is above 1 when the candidate is better."""
        first, second = (
            ("candidate", "incumbent") if self.is_inverse else ("incumbent", "candidate")
        )
        return f"{first} {self.name} over {second} {self.name}"

    def value(self, recorded: float) -> float:
        """In the measure's unit; seconds of a time."""
        if not self.is_inverse:
            return recorded
        return 1 / recorded if recorded else float("inf")

    def interval(self, recorded: tuple[float, float]) -> tuple[float, float]:
        """The same of an interval's ends, the lower one first."""
        low, high = (self.value(end) for end in recorded)
        return (high, low) if self.is_inverse else (low, high)

    def change(self, speedup: float) -> float:
        """What a ratio over the incumbent does to the value: 0.05 is 5% more of it."""
        return speedup - 1 if self.is_inverse else 1 / speedup - 1


TIME: Final = Measure(name="time", unit="s", is_time=True)
"""Of every kernel, and of a benchmark whose metric says how long a row takes."""
