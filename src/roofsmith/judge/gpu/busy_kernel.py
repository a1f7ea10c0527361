"""A kernel that takes all of a device for a while and does nothing. Standard library only.

Beside it no other kernel of the process starts, but its events pass. So whoever says of calls that
they are done, and has nobody wait for the stream that they run on, says so before they begin.
"""

from __future__ import annotations

import ctypes
from ctypes import byref, c_char_p, c_int, c_uint, c_uint64, c_void_p

from roofsmith.judge.gpu.driver import Driver

THREADS = 512
"""Of a block: divides what a multiprocessor of every architecture holds, 1024, 1536 or 2048 (CUDA
C++ Programming Guide, technical specifications per compute capability). Full of threads, it takes
no other block."""
_NON_BLOCKING = 0x1
"""A stream that the default one doesn't wait for."""
_MULTIPROCESSORS, _THREADS_EACH = 16, 39
"""CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, ..._MAX_THREADS_PER_MULTIPROCESSOR."""

PTX = b"""
.version 6.3
.target sm_70
.address_size 64
.visible .entry occupy(.param .u64 nanoseconds)
{
    .reg .pred %waits;
    .reg .u64 %length, %begin, %past;
    ld.param.u64 %length, [nanoseconds];
    mov.u64 %begin, %globaltimer;
again:
    mov.u64 %past, %globaltimer;
    sub.u64 %past, %past, %begin;
    setp.lt.u64 %waits, %past, %length;
    @%waits bra again;
    ret;
}
"""
"""For every architecture since Volta, compiled by the driver. `globaltimer` counts nanoseconds (PTX
ISA, special registers)."""


class Occupant:
    """Takes the first visible CUDA device whenever it is asked to."""

    def __init__(self, driver: Driver) -> None:
        """Load the kernel into the current context.

        Raises:
            DeviceError: the driver can't compile or load it.
        """
        self._driver = driver
        module, self._kernel, self._stream = c_void_p(), c_void_p(), c_void_p()
        driver.call("cuModuleLoadData", byref(module), c_char_p(PTX))
        driver.call("cuModuleGetFunction", byref(self._kernel), module, c_char_p(b"occupy"))
        driver.call("cuStreamCreate", byref(self._stream), c_uint(_NON_BLOCKING))
        each, count = (self._attribute(which) for which in (_THREADS_EACH, _MULTIPROCESSORS))
        self._blocks = count * (each // THREADS)

    def _attribute(self, which: int) -> int:
        found = c_int()
        self._driver.call("cuDeviceGetAttribute", byref(found), c_int(which), c_int(0))
        return found.value

    def take(self, seconds: float) -> None:
        """Take the device from about now on; comes back at once.

        Raises:
            DeviceError: the launch is refused.
        """
        length = c_uint64(round(seconds * 1e9))
        parameters = (c_void_p * 1)(ctypes.addressof(length))
        one = c_uint(1)
        self._driver.call(
            "cuLaunchKernel", self._kernel, c_uint(self._blocks), one, one, c_uint(THREADS), one,
            one, c_uint(0), self._stream, parameters, c_void_p(None),
        )  # fmt: skip
