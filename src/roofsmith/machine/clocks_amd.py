"""Capping an AMD GPU's clock through rocm-smi's performance determinism.

It sets a soft maximum of the graphics clock, so that devices and runs differ less; the clock may
still fall under light load, and memory clocks are left alone. The share of the maximum is data,
`clocks_amd.yaml`. Built against AMD's documentation (AMD SMI, "Performance levels and performance
determinism"; rocm_smi.py's own code) and never run on a real GPU.

rocm-smi reports a failed reset with exit status 0, and calls sudo by itself; so every change is
read back, and nothing is called without root.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from roofsmith.domain.clocks import ClockSettings, LockedClocks
from roofsmith.errors import MachineError
from roofsmith.machine.rocm_smi import cards, rocm_smi
from roofsmith.yaml_document import shipped_table

_WHOLE: Final = ("spx", "n/a", "")
"""Compute partitions that are the whole GPU."""


@functools.cache
def sustained_share() -> float:
    """Of the maximum clock."""
    sustained = shipped_table(__package__, "clocks_amd.yaml")["sustained"]
    return float(sustained["clock_hz"]) / float(sustained["of_hz"])


@dataclass(frozen=True, slots=True)
class RocmSmiClocks:
    """A `ClockDriver` over `rocm-smi`."""

    max_clock_hz: float | None
    """Of the GPU; None where it isn't known."""
    ask: Callable[..., str] = rocm_smi
    is_root: Callable[[], bool] = lambda: os.geteuid() == 0

    def require_lockable(self, uuid: str) -> None:
        """That the GPU is whole, nobody has chosen its performance level, its maximum clock is
        known, and this process may."""
        index, level = self._level(uuid)
        if self._partition(index).lower() not in _WHOLE:
            raise MachineError(
                f"{uuid} is partitioned: others share its clocks", hint="run without --lock-clocks"
            )
        if level != "auto":
            raise MachineError(
                f"the performance level of {uuid} is {level} already: somebody has chosen it",
                hint=f"run without --lock-clocks; or undo that first: {self.by_hand(uuid)}",
            )
        if self.max_clock_hz is None:
            raise MachineError(
                f"rocminfo doesn't tell the maximum clock of {uuid}",
                hint="run without --lock-clocks",
            )
        if not self.is_root():
            raise MachineError(
                f"only root may change the clocks of {uuid}", hint="sudo -E roofsmith …"
            )

    def settings(self, uuid: str) -> ClockSettings:
        return ClockSettings(performance_level=self._level(uuid)[1])

    def lock(self, uuid: str) -> LockedClocks:
        assert self.max_clock_hz is not None, "required by require_lockable"
        share = sustained_share()
        megahertz = int(self.max_clock_hz * share / 1e6)
        index, before = self._level(uuid)
        self.ask("-d", str(index), "--setperfdeterminism", str(megahertz))
        level = self._level(uuid)[1]
        if "determinism" not in level:
            if level != before:
                self.restore(uuid, ClockSettings(performance_level=before))
            raise MachineError(
                f"rocm-smi did not cap the clocks of {uuid}: its performance level is {level}",
                hint="MI300 and later may not support it (AMD's documentation says so);"
                " run without --lock-clocks",
            )
        rule = f"share of {share:.3f} of its maximum, as a cap (performance determinism)"
        return LockedClocks(rule=rule, sm_hz=megahertz * 1e6)

    def restore(self, uuid: str, before: ClockSettings) -> None:  # noqa: ARG002
        """Back to the level auto: nothing is ever locked over another one."""
        if not self.is_root():
            raise MachineError(f"only root may change the clocks of {uuid}")
        index, _ = self._level(uuid)
        self.ask("-d", str(index), "--resetperfdeterminism")
        level = self._level(uuid)[1]
        if level != "auto":
            raise MachineError(f"the performance level of {uuid} is {level} still")

    def by_hand(self, uuid: str) -> str:
        return f"sudo rocm-smi -d N --resetperfdeterminism (N: `rocm-smi --showuniqueid`, {uuid})"

    def _level(self, uuid: str) -> tuple[int, str]:
        """rocm-smi's number of the GPU, and its performance level."""
        found = cards(self.ask("--showuniqueid", "--showperflevel", "--json"))
        for index, card in found.items():
            if _number(card.get("Unique ID")) == _number(uuid.removeprefix("GPU-")) is not None:
                return index, str(card.get("Performance Level", "unknown")).lower()
        raise MachineError(
            f"rocm-smi doesn't know {uuid}", hint="compare with `rocm-smi --showuniqueid`"
        )

    def _partition(self, index: int) -> str:
        try:
            found = cards(self.ask("--showcomputepartition", "--json"))
        except MachineError:  # older than partitions
            return ""
        return str(found.get(index, {}).get("Compute Partition", ""))


def _number(text: Any) -> int | None:
    try:
        return int(str(text), 16)
    except ValueError:
        return None
