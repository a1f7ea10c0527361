"""Clocks of a GPU that a run holds still, and what is remembered to let go of them again."""

from __future__ import annotations

from roofsmith.domain.values import Value


class ClockSettings(Value):
    """What was set before a run locked anything; what the driver doesn't tell is None."""

    application_sm_hz: float | None = None
    """NVIDIA's application clock of the SMs."""
    application_memory_hz: float | None = None


class LockedClocks(Value):
    """What a GPU's clocks are held at."""

    rule: str
    """Which frequency was asked for, such as `base clock`."""
    sm_hz: float | None = None
    """As the driver gave it right after; None where it doesn't tell."""
    memory_hz: float | None = None
    """None: memory clocks are left to the driver."""

    @property
    def sentence(self) -> str:
        """For an environment's notes."""
        sm = "" if self.sm_hz is None else f", {self.sm_hz / 1e6:.0f} MHz when locked"
        memory = (
            "memory clock left to the driver"
            if self.memory_hz is None
            else f"memory clock locked at {self.memory_hz / 1e6:.0f} MHz"
        )
        return f"SM clock locked at its {self.rule}{sm}; {memory}"


class ClockOwner(Value):
    """The process that holds a GPU's clocks: a number alone may be another process tomorrow."""

    pid: int
    started_ticks: int
    """Since boot, as /proc/PID/stat counts."""
    pid_namespace: int
    """Inode of the namespace that the number counts in; 0 where there is none."""
    boot_id: str
    """Changes with every boot, after which no clock is locked any more."""
    command: str
    at: str
    """UTC, `YYYY-MM-DD HH:MM:SS`."""

    @property
    def sentence(self) -> str:
        """For people who wait for it."""
        return f"pid {self.pid}: {self.command}, since {self.at} UTC"


class ClockClaim(Value):
    """The record that is on disk for as long as a GPU's clocks may be locked."""

    uuid: str
    before: ClockSettings
    owner: ClockOwner
