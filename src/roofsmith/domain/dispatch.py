"""Which of two kernels runs on which dimensions."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from roofsmith.domain.values import Value


class Threshold(Value):
    """One dimension, or the product of two, against a bound."""

    kind: Literal["threshold"] = "threshold"
    dims: tuple[str, ...] = Field(min_length=1, max_length=2)
    side: Literal["at_least", "at_most"]
    bound: int

    @property
    def text(self) -> str:
        """`N*D >= 1048576`."""
        sign = ">=" if self.side == "at_least" else "<="
        return f"{'*'.join(self.dims)} {sign} {self.bound}"


class Listed(Value):
    """Exactly these dimensions, where no threshold tells them apart from the others."""

    kind: Literal["listed"] = "listed"
    points: tuple[dict[str, int], ...] = Field(min_length=1)

    @property
    def text(self) -> str:
        """`N=64,D=8192 or N=128,D=8192`."""
        return " or ".join(
            ",".join(f"{name}={size}" for name, size in point.items()) for point in self.points
        )


Rule = Annotated[Threshold | Listed, Field(discriminator="kind")]


class Dispatch(Value):
    """Two kernels in one, and the rule that chooses between them from the dimensions."""

    splits: int = Field(ge=2)
    """The round whose kernel is the new one; the old one was the incumbent then."""
    rule: Rule
    """Where the new kernel runs."""
    within: dict[str, tuple[int, int]]
    """Least and largest size of every dimension that a kernel can see, over the target's workloads:
    whatever lies outside runs the old kernel."""
    new: tuple[str, ...] = Field(min_length=1)
    """Config classes that run the new kernel."""
    old: tuple[str, ...]
    """Config classes that go on with the old one."""

    @property
    def sentence(self) -> str:
        """Which dimensions run which kernel, for people."""
        return f"round {self.splits}'s where {self.rule.text}, else the one before it"
