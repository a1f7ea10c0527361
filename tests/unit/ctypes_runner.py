"""A runner that calls the kernel in this process: for kernels that the tests trust."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from roofsmith.domain.kernel import Built
from roofsmith.ports import Arguments


class CtypesSession:
    def __init__(self, built: Built, arguments: Arguments) -> None:
        self._solve = ctypes.CDLL(str(built.library)).solve
        self._solve.restype = None
        self._arrays = {n: a.copy() for n, a in arguments.items() if isinstance(a, np.ndarray)}
        self._outputs = {p.name for p in built.signature.parameters if p.role == "output"}
        self._passed = [
            ctypes.c_void_p(self._arrays[name].ctypes.data)
            if name in self._arrays
            else ctypes.c_int(int(arguments[name]))
            for name in arguments
        ]

    @property
    def pid(self) -> int:
        return os.getpid()

    def call(self, times: int) -> tuple[float, ...]:
        seconds = []
        for _ in range(times):
            begin = time.perf_counter()
            self._solve(*self._passed)
            seconds.append(time.perf_counter() - begin)
        return tuple(seconds)

    def outputs(self) -> dict[str, NDArray[np.generic]]:
        return {name: self._arrays[name].copy() for name in self._outputs}


class CtypesRunner:
    @contextmanager
    def open(self, built: Built, arguments: Arguments, **_: object) -> Iterator[CtypesSession]:
        yield CtypesSession(built, arguments)
