"""Workloads and the classes they fall into."""

from __future__ import annotations

from pydantic import ConfigDict, Field, field_validator

from roofsmith.domain.values import Value


class Workload(Value):
    """One concrete set of dimensions that the kernel is judged on."""

    dims: dict[str, int] = Field(min_length=1)
    """Dimension name to size, in the order given; names match the integer arguments of `solve`."""
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

    @property
    def label(self) -> str:
        """`N=4096,D=4096`: how the workload is named in every table and on the command line."""
        return ",".join(f"{name}={size}" for name, size in self.dims.items())


class ConfigClass(Value):
    """Workloads that take the same path and behave alike; decisions are made per class."""

    name: str
    workloads: tuple[str, ...] = Field(min_length=1)
    """Labels of the member workloads."""
    reason: str
    """Why these belong together: declared, or what was found in the data."""
