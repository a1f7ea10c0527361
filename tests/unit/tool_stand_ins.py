"""Programs that stand in for a vendor's profiler: they run the worker and leave recorded files."""

from __future__ import annotations

import json
import os
import shlex
import stat
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from roofsmith.domain.description import WorkloadDescription
from roofsmith.domain.kernel import Built, Language, Parameter, Signature
from roofsmith.domain.values import content_id
from roofsmith.domain.workload import Workload
from roofsmith.errors import BadReferenceError

BARE = Signature(parameters=())
GOLDEN = Path(__file__).parent.parent / "golden" / "gpu"

PROGRAM = """import json, os, subprocess, sys, time
from pathlib import Path
words = sys.argv[1:]
at = words.index("--") if "--" in words else next(
    i - 1 for i, word in enumerate(words) if not word.startswith("--"))
options, worker = words[: at + 1], words[at + 1 :]
with Path({calls!r}).open("a") as calls:
    calls.write(json.dumps(options) + "\\n")
def run():
    return subprocess.run(worker).returncode
{body}
"""


def stand_in(folder: Path, name: str, body: str) -> str:
    """A program of that name; `options`, `worker` and `run()` are there for `body`."""
    program, script = folder / name, folder / f"{name}.py"
    script.write_text(PROGRAM.format(calls=str(folder / "calls"), body=body))
    # Through a shell: the interpreter's path may hold a space, which a "#!" line can't.
    words = shlex.join([sys.executable, str(script)])
    program.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return str(program)


def seen(folder: Path) -> list[list[str]]:
    """The options of every start of the stand-in."""
    return [json.loads(line) for line in (folder / "calls").read_text().splitlines()]


class OneArray:
    """An oracle with an output of four floats and its length."""

    def describe(self, workload: Workload) -> WorkloadDescription:
        raise BadReferenceError("not needed by profilers")

    def inputs(self, workload: Workload, seed: int) -> dict[str, NDArray[np.generic] | int]:
        return {"y": np.zeros(4, np.float32), "n": 4}


def built_file(
    library: Path, language: Language = "cuda", candidate_id: str = "c", signature: Signature = BARE
) -> Built:
    """What a build leaves of a file that is there, or that nobody will look at."""
    return Built(
        candidate_id=candidate_id, language=language, library=library, signature=signature,
        library_sha256=content_id(library.read_bytes()) if library.is_file() else "0",
        environment={}, command="", log=library.with_name("log"), build_time_s=0.0,
    )  # fmt: skip


def small_library(folder: Path) -> Built:
    """A library with a `solve` that any worker can call."""
    source, library = folder / "solve.c", folder / "solve.so"
    source.write_text("void solve(float *y, int n) { (void)n; y[0] = 1; }\n")
    if os.system(f"gcc -shared -fPIC -o {shlex.quote(str(library))} {shlex.quote(str(source))}"):
        pytest.skip("gcc is not installed")
    y = Parameter(name="y", role="output", dtype="float32")
    return built_file(library, signature=Signature(parameters=(y,)))
