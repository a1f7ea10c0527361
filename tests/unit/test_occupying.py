"""A kernel that fills a device: over a driver that takes notes, and through the real assembler."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path
from typing import Any, cast

import pytest

from roofsmith.judge.gpu.busy_kernel import PTX, THREADS, Occupant
from roofsmith.judge.gpu.driver import DeviceError

MULTIPROCESSORS, THREADS_EACH = 16, 39
"""As `enum CUdevice_attribute` of the driver's API numbers them."""


class Driver:
    """Answers for a device of some size; keeps what was launched."""

    def __init__(self, multiprocessors: int, threads_each: int) -> None:
        self.attributes = {MULTIPROCESSORS: multiprocessors, THREADS_EACH: threads_each}
        self.calls: list[str] = []
        self.launched: tuple[int, ...] = ()
        self.nanoseconds = 0
        self.stream_flags = 0
        self.refuses = ""

    def call(self, symbol: str, *arguments: Any) -> None:
        self.calls.append(symbol)
        if symbol == self.refuses:
            raise DeviceError(symbol, 218, "CUDA_ERROR_INVALID_PTX")
        if symbol == "cuDeviceGetAttribute":
            arguments[0]._obj.value = self.attributes[arguments[1].value]
        elif symbol == "cuStreamCreate":
            self.stream_flags = arguments[1].value
        elif symbol == "cuLaunchKernel":
            self.launched = tuple(size.value for size in arguments[1:7])
            parameter = ctypes.cast(arguments[9][0], ctypes.POINTER(ctypes.c_uint64))
            self.nanoseconds = parameter.contents.value


@pytest.mark.parametrize(
    ("multiprocessors", "threads_each", "blocks"),
    [(132, 2048, 528), (40, 1024, 80), (128, 1536, 384)],
    ids=["H100", "T4", "RTX 4090"],
)
def test_every_multiprocessor_is_full_of_threads(
    multiprocessors: int, threads_each: int, blocks: int
) -> None:
    driver = Driver(multiprocessors, threads_each)
    occupant = Occupant(cast(Any, driver))
    occupant.take(0.05)
    assert driver.launched == (blocks, 1, 1, THREADS, 1, 1)
    assert blocks * THREADS == multiprocessors * threads_each
    assert driver.nanoseconds == 50_000_000
    assert driver.stream_flags == 1  # non-blocking: the default stream doesn't wait for it


def test_it_is_loaded_once_and_launched_as_often_as_it_is_asked_to() -> None:
    driver = Driver(132, 2048)
    occupant = Occupant(cast(Any, driver))
    driver.calls.clear()
    for _ in range(2):
        occupant.take(0.05)
    assert driver.calls == ["cuLaunchKernel"] * 2


def test_a_driver_that_cannot_compile_it_says_so() -> None:
    driver = Driver(132, 2048)
    driver.refuses = "cuModuleLoadData"
    with pytest.raises(DeviceError, match="INVALID_PTX"):
        Occupant(cast(Any, driver))


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="needs ptxas")
@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
def test_the_real_assembler_takes_it(arch: str, tmp_path: Path) -> None:
    source, binary = tmp_path / "occupy.ptx", tmp_path / "occupy.cubin"
    source.write_bytes(PTX)
    command = ["ptxas", f"-arch={arch}", str(source), "-o", str(binary)]
    subprocess.run(command, check=True)
    assert b"occupy" in binary.read_bytes()
