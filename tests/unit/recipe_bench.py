"""Builds card contexts from plain kernels, compiles candidates and runs them here."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import uuid
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from recipe_kernels import Kernel

from roofsmith.domain.device import Cache, Device
from roofsmith.domain.kernel import Candidate, Parameter, Signature, SourceFile
from roofsmith.domain.profile import Bottleneck, BottleneckKind, Profile
from roofsmith.proposers.cards import CardContext
from roofsmith.proposers.source import Source

DEVICE = Device(
    kind="cpu",
    name="test machine",
    cores=2,
    isa=("avx2", "fma"),
    vector_bytes=32,
    caches=(
        Cache(level=1, kind="data", size_bytes=32 << 10, shared_by=1),
        Cache(level=3, kind="unified", size_bytes=8 << 20, shared_by=2),
    ),
    memory_bytes=8 << 30,
)
_NUMPY = {"float": "float32", "double": "float64", "int": "int32"}

_LOADED: dict[str, ctypes.CDLL] = {}

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")


def signature_of(kernel: Kernel) -> Signature:
    solve = Source(kernel.text, kernel.language).function("solve")
    assert solve is not None
    parameters = []
    for parameter in solve.parameters:
        words = parameter.type_text.replace("*", " ").split()
        dtype = next(_NUMPY[word] for word in words if word in _NUMPY)
        role = "size"
        if parameter.pointer:
            role = "input" if parameter.const else "output"
        parameters.append(Parameter(name=parameter.name, role=role, dtype=dtype))
    return Signature(parameters=tuple(parameters))


def context_of(
    kernel: Kernel,
    candidate: Candidate | None = None,
    *,
    kind: BottleneckKind = "unknown",
    fraction: float | None = None,
    threads: int = 2,
) -> CardContext:
    if candidate is None:
        name = f"kernel.{kernel.language}"
        source = SourceFile(path=name, text=kernel.text)
        candidate = Candidate(language=kernel.language, sources=(source,))
    return CardContext(
        candidate=candidate,
        signature=signature_of(kernel),
        device=DEVICE,
        threads=threads,
        family=kernel.family,
        dims=(kernel.dims,),
        bounds=(),
        descriptions={},
        profile=Profile(tool="none", workload="w"),
        bottleneck=Bottleneck(
            kind=kind, confidence=0.6, evidence=("ipc: 0.4",), roofline_fraction=fraction
        ),
        times_s={},
    )


def compile_candidate(candidate: Candidate, folder: Path) -> ctypes.CDLL:
    """Compile with the candidate's own flags; any message of the compiler fails the test."""
    if candidate.id in _LOADED:
        return _LOADED[candidate.id]
    stem = folder / uuid.uuid4().hex
    source = stem.with_suffix(f".{candidate.language}")
    source.write_text(candidate.kernel.text)
    library = stem.with_suffix(".so")
    compiler = "gcc" if candidate.language == "c" else "g++"
    flags = [flag if flag != "-O3" else "-O2" for flag in candidate.build.flags]
    command = [compiler, *flags, "-shared", "-fPIC", str(source), "-o", str(library)]
    done = subprocess.run(
        [*command, *candidate.build.link], capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr}\n{candidate.kernel.text}"
    _LOADED[candidate.id] = ctypes.CDLL(str(library))
    return _LOADED[candidate.id]


def run(kernel: Kernel, candidate: Candidate, library: ctypes.CDLL, dims: dict[str, int]) -> dict[
    str, NDArray[np.generic]
]:  # fmt: skip
    """Outputs of one call on inputs that depend on the dimensions alone."""
    rng = np.random.default_rng(7)
    outputs, passed, alive = {}, [], []
    sizes = {**dims, "one": 1, "K": 32, "eight": 8}
    for parameter in signature_of(kernel).parameters:
        if parameter.role == "size":
            passed.append(ctypes.c_int(dims[parameter.name]))
            continue
        length = int(np.prod([sizes[name] for name in kernel.shapes[parameter.name]]))
        values = rng.uniform(kernel.low, 2, length).astype(parameter.dtype)
        if parameter.role == "output":
            values = np.full(length, kernel.held, dtype=parameter.dtype)
            outputs[parameter.name] = values
        alive.append(values)
        passed.append(ctypes.c_void_p(values.ctypes.data))
    library.solve(*passed)
    return outputs


def assert_same(
    expected: dict[str, NDArray[np.generic]], actual: dict[str, NDArray[np.generic]], text: str
) -> None:
    for name, values in expected.items():
        tolerance = 2e-5 if values.dtype == np.float32 else 1e-12
        scale = float(np.max(np.abs(values))) or 1.0
        difference = float(np.max(np.abs(values - actual[name])))
        assert difference <= tolerance * scale, f"{name} is off by {difference}\n{text}"
