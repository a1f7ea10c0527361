"""`roofsmith explain`: what a target's reference computes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from roofsmith.api.subjects import target_of
from roofsmith.computation.bounds import needed_sizes
from roofsmith.computation.counts import WorkCounts, counted
from roofsmith.computation.documents import as_document
from roofsmith.computation.kinds import kind
from roofsmith.computation.read import Computation, read_reference
from roofsmith.computation.shortening import short_lines
from roofsmith.computation.text import lines
from roofsmith.config import Settings
from roofsmith.domain.options import Subject
from roofsmith.domain.target import Target
from roofsmith.errors import UsageError
from roofsmith.toolchains.dispatch import Toolchains


@dataclass(frozen=True)
class Explained:
    """A target and its computation."""

    target: Target
    computation: Computation

    @property
    def lines(self) -> list[str]:
        """For people."""
        graph = self.computation.graph
        if graph is None:
            return [f"the reference can't be read: {self.computation.refusal}"]
        work, numbers = counted(graph), self.computation.numbers
        told = [f"kind: {kind(graph)}", *(f"note: {note}" for note in graph.notes)]
        if needed := needed_sizes(graph):
            told.append(f"holds for {', '.join(needed)}: below, a view is out of bounds")
        if limits := self.computation.limits:
            told.append(f"holds for {', '.join(limits)}: elsewhere, it computes something else")
        told.append(f"operations: {work.flops}" + _mix(work))
        told.append(f"bytes: {work.read_bytes} read, {work.written_bytes} written")
        if work.swept_bytes.terms:
            told.append(f"sweeps pass over {work.swept_bytes} bytes")
        for one in self.target.workloads:
            flops, read, written = (size.at({**numbers, **one.dims}) for size in _sizes(work))
            told.append(f"{one.label}: {flops:.4g} operations, {read + written:.4g} bytes")
        return [*told, "", *short_lines(graph)]

    @property
    def document(self) -> dict[str, Any]:
        """For programs."""
        graph = self.computation.graph
        if graph is None:
            return {"target": self.target.name, "refusal": self.computation.refusal}
        work, numbers = counted(graph), self.computation.numbers
        workloads = [
            dict(zip(("flops", "read_bytes", "written_bytes"),
                     (size.at({**numbers, **one.dims}) for size in _sizes(work)), strict=True))
            | {"workload": one.label}
            for one in self.target.workloads
        ]  # fmt: skip
        return {
            "target": self.target.name,
            "refusal": None,
            "kind": kind(graph),
            "certain": self.computation.is_certain,
            "notes": list(graph.notes),
            "limits": list(self.computation.limits),
            "text": lines(graph),
            "flops": str(work.flops),
            "operations": {name: str(size) for name, size in work.operations.items()},
            "read_bytes": str(work.read_bytes),
            "written_bytes": str(work.written_bytes),
            "workloads": workloads,
            "graph": as_document(graph),
        }


def explain(subject: Subject, settings: Settings) -> Explained:
    """Read what a target's reference computes.

    Raises:
        UsageError: it is a repository, which has none.
    """
    target = target_of(subject)
    if target.command is not None:
        raise UsageError(
            f"explain is for kernels; {target.name} is a repository, which has no reference",
            hint="name a target with a reference",
        )
    signature = Toolchains(settings.builds_dir).signature(target.baseline)
    return Explained(target, read_reference(target, signature.parameters))


def _sizes(work: WorkCounts) -> tuple[Any, Any, Any]:
    return work.flops, work.read_bytes, work.written_bytes


def _mix(work: WorkCounts) -> str:
    parts = [f"{name} {size}" for name, size in work.operations.items()]
    return f" ({', '.join(parts)})" if len(parts) > 1 else ""
