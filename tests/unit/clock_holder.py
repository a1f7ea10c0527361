"""Locks a simulated GPU's clocks in a process of its own, says so, and waits to be ended."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from simulated_drivers import UUID, SimulatedNvml

from roofsmith.cli.signals import end_like_ctrl_c
from roofsmith.machine.clocks import held_clocks
from roofsmith.machine.clocks_nvidia import NvmlClocks


def main(folder: Path, how: str) -> None:
    end_like_ctrl_c()
    driver = NvmlClocks(SimulatedNvml(folder / "driver.json"), may_administer=lambda: True)
    with held_clocks(
        driver, UUID, folder / "clocks",
        strangers=lambda _: (), tell=lambda message: print(message, file=sys.stderr, flush=True),
    ):  # fmt: skip
        print("locked", flush=True)
        if how == "raise":
            raise RuntimeError("the run failed")
        if how == "exit":
            sys.exit(7)
        if how == "wait":
            time.sleep(120)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
