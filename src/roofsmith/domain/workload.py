"""Workloads and the classes they fall into."""

from __future__ import annotations

from pydantic import ConfigDict, Field, field_validator, model_validator

from roofsmith.domain.values import Value

AS_DRAWN = "as drawn by setup"
"""Inputs that come from the reference's own `setup`, and aren't changed."""


class Workload(Value):
    """One concrete set of dimensions that the kernel is judged on."""

    dims: dict[str, int] = Field(default_factory=dict)
    """Dimension name to size, in the order given; names match the integer arguments of `solve`."""
    tags: dict[str, str] = Field(default_factory=dict)
    """What else tells a row of a benchmark apart, such as dtype=fp8; only of command targets."""
    config_class: str | None = Field(default=None, alias="class", serialization_alias="class")
    """The declared config class; None lets roofsmith derive one."""

    model_config = ConfigDict(populate_by_name=True, serialize_by_alias=True)

    @field_validator("dims")
    @classmethod
    def _positive(cls, dims: dict[str, int]) -> dict[str, int]:
        for name, size in dims.items():
            if not name.isidentifier():
                raise ValueError(f"dimension name {name!r} is not an identifier")
            if size <= 0:
                raise ValueError(f"dimension {name}={size} must be at least 1")
        return dims

    @model_validator(mode="after")
    def _something(self) -> Workload:
        if not self.dims and not self.tags:
            raise ValueError("a workload needs at least one dimension, such as N=4096")
        return self

    @property
    def label(self) -> str:
        """`N=4096,D=4096`: how the workload is named in every table and on the command line."""
        return ",".join(
            f"{name}={value}" for name, value in (*self.dims.items(), *self.tags.items())
        )


class ConfigClass(Value):
    """Workloads that take the same path and behave alike; decisions are made per class."""

    name: str
    workloads: tuple[str, ...] = Field(min_length=1)
    """Labels of the member workloads."""
    reason: str
    """Why these belong together: declared, or what was found in the data."""
