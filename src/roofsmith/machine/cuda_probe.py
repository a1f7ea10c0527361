"""Asks the CUDA driver what the first visible device is; prints one JSON object.

Run as a program, in a process of its own: once a process has called cuInit, its forks can't use the
GPU any more. Standard library only. Creates no context, so it takes no memory of the device.
"""

from __future__ import annotations

import ctypes
import json
from ctypes import byref, c_char, c_char_p, c_int, c_size_t

ATTRIBUTES = {
    "warp_size": 10,
    "multiprocessors": 16,
    "memory_bus_bits": 37,
    "l2_bytes": 38,
    "max_threads": 39,
    "major": 75,
    "minor": 76,
    "shared_bytes": 81,
    "registers": 82,
    "max_shared_bytes_per_block": 97,
    "max_blocks": 106,
    "reserved_shared_bytes": 111,
}
"""CUdevice_attribute of cuda.h, by our names."""


class CallFailedError(Exception):
    def __init__(self, call: str, code: int, name: str) -> None:
        super().__init__(f"{call}: {name} ({code})")
        self.code = code


def main() -> None:
    """Print the device, or what went wrong."""
    print(json.dumps(answer()))


def answer() -> dict[str, object]:
    """`{"error", "code"}` or the first device's name, uuid, memory_bytes, driver_api, limits."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return {"error": f"libcuda.so.1 can't be loaded: {error}", "code": None}
    try:
        return _device(cuda)
    except CallFailedError as error:
        return {"error": str(error), "code": error.code}


def _device(cuda: ctypes.CDLL) -> dict[str, object]:
    version, count, device = c_int(), c_int(), c_int()
    name, memory = ctypes.create_string_buffer(256), c_size_t()
    _do(cuda, "cuDriverGetVersion", byref(version))
    _do(cuda, "cuInit", 0)
    _do(cuda, "cuDeviceGetCount", byref(count))
    _do(cuda, "cuDeviceGet", byref(device), 0)
    _do(cuda, "cuDeviceGetName", name, 256, device)
    _do(cuda, "cuDeviceTotalMem_v2", byref(memory), device)
    uuid = (c_char * 16)()
    _do(cuda, "cuDeviceGetUuid", byref(uuid), device)
    attributes = {}
    for key, number in ATTRIBUTES.items():
        value = c_int()
        _do(cuda, "cuDeviceGetAttribute", byref(value), number, device)
        attributes[key] = value.value
    return {
        "name": name.value.decode("utf-8", "replace"),
        "uuid": _text(bytes(uuid)),
        "memory_bytes": memory.value,
        "driver_api": version.value,
        "devices": count.value,
        "attributes": attributes,
    }


def _do(cuda: ctypes.CDLL, call: str, *arguments: object) -> None:
    code = getattr(cuda, call)(*arguments)
    if code:
        name = c_char_p()
        cuda.cuGetErrorName(code, byref(name))
        raise CallFailedError(call, code, (name.value or b"unknown error").decode())


def _text(uuid: bytes) -> str:
    digits = uuid.hex()
    parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
    return "GPU-" + "-".join(parts)


if __name__ == "__main__":
    main()
