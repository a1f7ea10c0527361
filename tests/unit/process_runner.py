"""A runner with one worker process per session, as small as it gets: for kernels that tests trust.

The worker speaks a line of JSON per request; arrays travel through .npy files.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from roofsmith.domain.kernel import Built
from roofsmith.domain.outcome import Crashed
from roofsmith.ports import Arguments, KernelDiedError

WORKER = """
import ctypes, json, sys, time
plan = json.loads(sys.stdin.readline())
solve = ctypes.CDLL(plan["library"]).solve
arrays, passed = [], []
for kind, value in plan["arguments"]:
    if kind == "int":
        passed.append(ctypes.c_int(value))
    else:
        data = open(value, "rb").read()
        arrays.append(ctypes.create_string_buffer(data, len(data)))
        passed.append(arrays[-1])
print(json.dumps("ready"), flush=True)
for line in sys.stdin:
    seconds = []
    for _ in range(json.loads(line)):
        begin = time.perf_counter()
        solve(*passed)
        seconds.append(time.perf_counter() - begin)
    print(json.dumps(seconds), flush=True)
"""


class ProcessSession:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._to: IO[str] = process.stdin
        self._from: IO[str] = process.stdout

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, request: object) -> object:
        try:
            self._to.write(json.dumps(request) + "\n")
            self._to.flush()
        except BrokenPipeError as error:
            raise KernelDiedError(Crashed(reason="exit", detail="worker is gone")) from error
        answer = self._from.readline()
        if not answer:
            raise KernelDiedError(Crashed(reason="exit", detail="worker ended"))
        return json.loads(answer)

    def call(self, times: int) -> tuple[float, ...]:
        answer = self.ask(times)
        assert isinstance(answer, list)
        return tuple(answer)

    def outputs(self) -> dict[str, NDArray[np.generic]]:
        return {}


class ProcessRunner:
    @contextmanager
    def open(
        self,
        built: Built,
        arguments: Arguments,
        *,
        threads: int,
        call_deadline_s: float = 60.0,
        launcher: Sequence[str] = (),
    ) -> Iterator[ProcessSession]:
        with tempfile.TemporaryDirectory() as name:
            plan = []
            for key, value in arguments.items():
                if isinstance(value, np.ndarray):
                    path = Path(name) / key
                    path.write_bytes(value.tobytes())
                    plan.append(("array", str(path)))
                else:
                    plan.append(("int", int(value)))
            process = subprocess.Popen(
                [*launcher, os.path.realpath(sys.executable), "-I", "-S", "-c", WORKER],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "OMP_NUM_THREADS": str(threads), **built.environment},
            )
            session = ProcessSession(process)
            try:
                session.ask({"library": str(built.library), "arguments": plan})
                yield session
            finally:
                assert process.stdin is not None
                process.stdin.close()
                process.wait(timeout=600)
                assert process.stdout is not None
                process.stdout.close()
