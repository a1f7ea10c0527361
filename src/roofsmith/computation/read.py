"""What a target's reference computes, read in a process of its own."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import roofsmith
from roofsmith.computation.documents import from_document, from_sizes
from roofsmith.computation.graph import Graph
from roofsmith.computation.sizes import Size
from roofsmith.domain.kernel import MODULE_LANGUAGES, Parameter, Signature
from roofsmith.domain.target import Target
from roofsmith.domain.values import content_id
from roofsmith.job_limits import memory_share
from roofsmith.scratch import scratch_directory
from roofsmith.shell import run_shell, tail

DEADLINE_S = 120.0
"""For all readings of one reference; importing PyTorch takes seconds of it. Chosen."""
MEMORY_SHARE = 0.5
"""Of the machine's memory that a reader may address. Chosen."""
MOST_BYTES = 64 * 1024**2
"""Of an answer: a graph of a hundred thousand nodes. Chosen."""

_MOST = 16
"""Readings that a process remembers. Chosen."""
_known: dict[tuple[str, str], Computation] = {}


@dataclass(frozen=True)
class Computation:
    """What a reference computes, or why nobody can say."""

    graph: Graph | None
    refusal: str = ""
    """With the reference's line, where there is one; empty with a graph."""
    numbers: Mapping[str, int] = field(default_factory=dict)
    """Whole numbers beside dims that sizes are made of, the same for every workload."""
    sizes: Mapping[str, Size] = field(default_factory=dict)
    """What other whole numbers are that the reference is given, in dims: `rows` is R."""

    limits: tuple[str, ...] = ()
    """At which sizes alone it holds, such as `N <= 50` or `N % 2 == 0`, where that is known."""

    @property
    def is_certain(self) -> bool:
        """Whether kernels may be written of it: nothing about it is doubtful."""
        return self.graph is not None and not self.graph.notes

    def dims_by(self, names: Collection[str]) -> dict[str, Size] | None:
        """Dims that go by another name, or are to be had, among the numbers of that name.

        Where `rows` is R and `cells` is R*C, R is `rows` and C is `cells / rows`. None: a number
        has the name of a dim that it is not, and that isn't to be had.
        """
        known = {name: self.sizes[name] for name in names if name in self.sizes}
        given = {f"{name} given": Size.of(name) for name in known}  # it may be another dim's name
        found: dict[str, Size] = {}
        dims = {dim for size in known.values() for dim in size.dims}
        waiting = {dim for dim in dims if known.get(dim, Size()) != Size.of(dim)}
        waiting -= {dim for dim in waiting if dim in names and dim not in known}
        for _ in range(len(waiting)):
            for name, size in known.items():
                made = size.made_of(found)
                left = waiting & made.dims - found.keys()
                if len(left) != 1:
                    continue
                if (solved := made.solved(dim := left.pop(), f"{name} given")) is not None:
                    found[dim] = solved
        for name, size in known.items():
            if size != Size.of(name) and name not in found and self._needs(name):
                return None
        return {dim: size.made_of(given) for dim, size in found.items()}

    def _needs(self, dim: str) -> bool:
        graph = self.graph
        return graph is not None and graph.made_of({dim: Size.of(f"{dim} otherwise")}) != graph


def computation_of(target: Target, signature: Signature) -> Computation:
    """What a target's reference computes: read once in a process's life."""
    key = content_id(target), content_id(signature)
    if key not in _known:
        while len(_known) >= _MOST:
            del _known[next(iter(_known))]
        _known[key] = read_reference(target, signature.parameters)
    return _known[key]


def read_reference(target: Target, parameters: Sequence[Parameter] = ()) -> Computation:
    """What a target's reference computes, with sizes in the target's dims.

    Args:
        parameters: of the kernel; of use where neither reference nor kernel has a `setup`.
    """
    folder = scratch_directory("reader")
    try:
        return _read(target, parameters, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _read(target: Target, parameters: Sequence[Parameter], folder: Path) -> Computation:
    reference, kernel = Path(target.truth.path).name, None
    for source in (target.truth, *target.reference_files):
        (folder / Path(source.path).name).write_text(source.text, encoding="utf-8")
    if target.language in MODULE_LANGUAGES or target.kernel.path.endswith(".py"):
        kernel = f"kernel_{Path(target.kernel.path).name}"
        (folder / kernel).write_text(target.kernel.text, encoding="utf-8")
    ask = {
        "reference": reference,
        "kernel": kernel,
        "workloads": [one.dims for one in target.workloads],
        "parameters": [one.model_dump(mode="json") for one in parameters],
        "ptr_size": target.ptr_size,
        "memory_bytes": memory_share(MEMORY_SHARE),
    }
    (folder / "ask.json").write_text(json.dumps(ask), encoding="utf-8")
    module = "roofsmith.computation.reading.worker"
    ran = run_shell(
        shlex.join([sys.executable, "-P", "-m", module, str(folder)]),
        directory=folder,
        environment={
            "PYTHONPATH": str(Path(roofsmith.__file__).parent.parent),
            "OMP_NUM_THREADS": "2",  # what is read is small, and its seconds of a processor count
        },
        deadline_s=DEADLINE_S,
        log=folder / "log",
    )
    answer = folder / "answer.json"
    if not ran.passed or not answer.is_file() or answer.stat().st_size > MOST_BYTES:
        said = tail(ran.log, 1)
        return Computation(None, f"the reader {ran.ending}" + "".join(f": {one}" for one in said))
    try:
        document = json.loads(answer.read_text(encoding="utf-8"))
        if isinstance(document, dict) and isinstance(document.get("refusal"), str):
            return Computation(None, document["refusal"])
        numbers = {str(name): int(value) for name, value in document["numbers"].items()}
        sizes = from_sizes(document["sizes"])
        limits = tuple(map(str, document["limits"]))
        graph = from_document(document["graph"])
        return Computation(graph, numbers=numbers, sizes=sizes, limits=limits)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return Computation(None, "the reader's answer is no graph")
