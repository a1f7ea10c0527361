"""The few calls of a GPU's driver that workers and the reference need. Standard library only.

CUDA's driver API (libcuda) or HIP (libamdhip64), through ctypes: memory that processes share,
events, and a wait that holds a stream until the host lets go (the plug). A kernel's own runtime
library works in the same context, whichever version it was linked with.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from ctypes import byref, c_char, c_float, c_int, c_size_t, c_uint, c_uint8, c_uint32, c_void_p
from typing import Any, Literal

from roofsmith.judge.gpu.launch_gate import DONE, RELEASED, SIZE_BYTES, Latch

Api = Literal["cuda", "hip"]

NOT_READY = {"cuda": 600, "hip": 600}
"""CUDA_ERROR_NOT_READY, hipErrorNotReady."""
_WAIT_GEQ = 0
_HOST_MAPPED = 0x02
_IPC_LAZY_PEER = 0x01

_LIBRARIES = {"cuda": ("libcuda.so.1", "libcuda.so"), "hip": ("libamdhip64.so", "libamdhip64.so.6")}
_NAMES = {
    "cuda": {
        "init": "cuInit", "alloc": "cuMemAlloc_v2", "free": "cuMemFree_v2",
        "to_device": "cuMemcpyHtoD_v2", "to_host": "cuMemcpyDtoH_v2",
        "fill": "cuMemsetD8_v2", "wait": "cuCtxSynchronize",
        "ipc_give": "cuIpcGetMemHandle", "ipc_take": "cuIpcOpenMemHandle_v2",
        "event_new": "cuEventCreate", "event_record": "cuEventRecord",
        "event_query": "cuEventQuery", "event_wait": "cuEventSynchronize",
        "event_elapsed": "cuEventElapsedTime",
        "host_alloc": "cuMemHostAlloc", "host_register": "cuMemHostRegister_v2",
        "host_pointer": "cuMemHostGetDevicePointer_v2", "hold": "cuStreamWaitValue32_v2",
        "tell": "cuStreamWriteValue32_v2", "profile": "cuProfilerStart",
        "profile_end": "cuProfilerStop",
    },
    "hip": {
        "init": "hipInit", "alloc": "hipMalloc", "free": "hipFree",
        "to_device": "hipMemcpyHtoD", "to_host": "hipMemcpyDtoH",
        "fill": "hipMemsetD8", "wait": "hipDeviceSynchronize",
        "ipc_give": "hipIpcGetMemHandle", "ipc_take": "hipIpcOpenMemHandle",
        "event_new": "hipEventCreateWithFlags", "event_record": "hipEventRecord",
        "event_query": "hipEventQuery", "event_wait": "hipEventSynchronize",
        "event_elapsed": "hipEventElapsedTime",
        "host_alloc": "hipHostMalloc", "host_register": "hipHostRegister",
        "host_pointer": "hipHostGetDevicePointer", "hold": "hipStreamWaitValue32",
        "tell": "hipStreamWriteValue32", "profile": "hipProfilerStart",
        "profile_end": "hipProfilerStop",
    },
}  # fmt: skip


class DeviceError(Exception):
    """A call of the driver failed; the message names call and error."""

    def __init__(self, call: str, code: int, name: str) -> None:
        super().__init__(f"{call}: {name} ({code})")
        self.call = call
        self.code = code
        self.name = name
        self.refused: str | None = None
        """Error that the runtime had returned to the candidate before."""


class _Handle(ctypes.Structure):
    _fields_ = (("reserved", c_char * 64),)


class Driver:
    """One device, in this process."""

    def __init__(self, api: Api = "cuda") -> None:
        """Open the first visible device and make its primary context current.

        Raises:
            DeviceError: there is no driver, no device, or it refuses.
        """
        self.api: Api = api
        self._library = _load(api)
        self._calls = {name: getattr(self._library, symbol) for name, symbol in _NAMES[api].items()}
        self._do("init", c_uint(0))
        self._make_current()

    def _make_current(self) -> None:
        if self.api == "hip":
            self._raise("hipSetDevice", self._library.hipSetDevice(c_int(0)))
            return
        device, context = c_int(), c_void_p()
        library = self._library
        self._raise("cuDeviceGet", library.cuDeviceGet(byref(device), c_int(0)))
        retained = library.cuDevicePrimaryCtxRetain(byref(context), device)
        self._raise("cuDevicePrimaryCtxRetain", retained)
        self._raise("cuCtxSetCurrent", library.cuCtxSetCurrent(context))

    def alloc(self, size: int) -> int:
        """Device memory of `size` bytes; its address."""
        pointer = c_void_p()
        self._do("alloc", byref(pointer), c_size_t(size))
        return int(pointer.value or 0)

    def free(self, address: int) -> None:
        """Give memory back."""
        self._do("free", c_void_p(address))

    def write(self, address: int, host: int, size: int) -> None:
        self._do("to_device", c_void_p(address), c_void_p(host), c_size_t(size))

    def read(self, host: int, address: int, size: int) -> None:
        """Copy from the device to this process's memory at `host`."""
        self._do("to_host", c_void_p(host), c_void_p(address), c_size_t(size))

    def fill(self, address: int, byte: int, size: int) -> None:
        """Set device memory to one byte."""
        self._do("fill", c_void_p(address), c_uint8(byte), c_size_t(size))

    def wait(self) -> None:
        """Wait for all work; errors of earlier launches surface here."""
        self._do("wait")

    def give(self, address: int) -> bytes:
        """A handle by which another process can map an allocation."""
        handle = _Handle()
        self._do("ipc_give", byref(handle), c_void_p(address))
        return ctypes.string_at(byref(handle), 64)

    def take(self, handle: bytes) -> int:
        """Map an allocation of another process; its address here."""
        given = _Handle.from_buffer_copy(handle)
        pointer = c_void_p()
        self._do("ipc_take", byref(pointer), given, c_uint(_IPC_LAZY_PEER))
        return int(pointer.value or 0)

    def event(self) -> c_void_p:
        made = c_void_p()
        self._do("event_new", byref(made), c_uint(0))
        return made

    def record(self, event: c_void_p) -> None:
        """Record an event on the default stream."""
        self._do("event_record", event, c_void_p(None))

    def is_done(self, event: c_void_p) -> bool:
        """Whether an event has passed."""
        code = self._calls["event_query"](event)
        if code == NOT_READY[self.api]:
            return False
        self._raise("event_query", code)
        return True

    def wait_for(self, event: c_void_p) -> None:
        """Wait until an event has passed; errors of earlier launches surface here."""
        self._do("event_wait", event)

    def elapsed_s(self, begin: c_void_p, end: c_void_p) -> float:
        """Seconds between two events that have passed."""
        milliseconds = c_float()
        self._do("event_elapsed", byref(milliseconds), begin, end)
        return milliseconds.value * 1e-3

    @contextlib.contextmanager
    def profiled(self) -> Iterator[None]:
        """Have a profiler that waits for it look at what happens in the block."""
        self._do("profile")
        try:
            yield
        finally:
            self.wait()
            self._do("profile_end")

    def plug(self, latch: Latch | None = None) -> Plug:
        """A plug for the default stream; others can let it go if the driver takes their latch."""
        return Plug(self, latch)

    def call(self, symbol: str, *arguments: Any) -> None:
        """Any other function of the driver's library that returns an error code.

        Raises:
            DeviceError: it isn't zero.
        """
        self._raise(symbol, getattr(self._library, symbol)(*arguments))

    def _do(self, name: str, *arguments: Any) -> None:
        self._raise(_NAMES[self.api][name], self._calls[name](*arguments))

    def _raise(self, call: str, code: int) -> None:
        if code != 0:
            raise DeviceError(call, code, self.name_of(code))

    def name_of(self, code: int) -> str:
        """The driver's name for an error."""
        if self.api == "hip":
            function = self._library.hipGetErrorName
            function.restype = ctypes.c_char_p
            return (function(c_int(code)) or b"unknown error").decode()
        text = ctypes.c_char_p()
        self._library.cuGetErrorName(c_int(code), byref(text))
        return (text.value or b"unknown error").decode()


class Plug:
    """Holds the default stream back, for instance until all of a segment's launches are queued."""

    def __init__(self, driver: Driver, latch: Latch | None = None) -> None:
        """Nothing is held back yet.

        Args:
            driver: of the device.
            latch: a page that other processes map; None, or one that the driver refuses: a page
                that only this one maps.

        Raises:
            DeviceError: the driver has no memory that the device can reach.
        """
        self._driver = driver
        self._turn = 0
        self.is_shared = latch is not None and self._takes(latch)
        """Whether the device works with that latch itself."""
        self._latch = latch if latch is not None and self.is_shared else self._own()
        device = c_void_p()
        driver._do("host_pointer", byref(device), c_void_p(self._latch.address), c_uint(0))
        self._device = int(device.value or 0)

    def _takes(self, latch: Latch) -> bool:
        size, flags = c_size_t(SIZE_BYTES), c_uint(_HOST_MAPPED)
        try:
            self._driver._do("host_register", c_void_p(latch.address), size, flags)
        except DeviceError:
            return False
        return True

    def _own(self) -> Latch:
        host, size = c_void_p(), c_size_t(SIZE_BYTES)
        self._driver._do("host_alloc", byref(host), size, c_uint(_HOST_MAPPED))
        ctypes.memset(host, 0, SIZE_BYTES)
        return Latch(int(host.value or 0))

    def hold(self, turn: int) -> None:
        """From here on the stream waits, until this turn is let go."""
        self._turn = turn
        mask = (c_uint32(0xFFFFFFFF),) if self._driver.api == "hip" else ()
        word = c_void_p(self._device + RELEASED)
        self._driver._do("hold", c_void_p(None), word, c_uint32(turn), c_uint(_WAIT_GEQ), *mask)

    def tell(self) -> None:
        word = c_void_p(self._device + DONE)
        self._driver._do("tell", c_void_p(None), word, c_uint32(self._turn), c_uint(0))

    def release(self) -> None:
        """Let the stream go; harmless when it isn't held."""
        self._latch.release(self._turn)

    def is_done(self, patience_s: float) -> bool:
        """Whether the stream says before long that it is done."""
        return self._latch.is_done(self._turn, patience_s)


def _load(api: Api) -> ctypes.CDLL:
    for name in _LIBRARIES[api]:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise DeviceError("dlopen", -1, f"{_LIBRARIES[api][0]} is not installed")
