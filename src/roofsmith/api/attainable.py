"""What memory gives under the judge's conditions: a copy of each workload's bytes, timed as
candidates are. No bound: a time below it is possible, and a ceiling proves what isn't."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import replace
from importlib import resources
from pathlib import Path
from statistics import fmean, median
from typing import Final

from pydantic import ValidationError

from roofsmith.api.places import Place
from roofsmith.domain.bound import Bound
from roofsmith.domain.facts import Citation, Fact
from roofsmith.domain.kernel import BuildSpec, Built, Candidate, SourceFile
from roofsmith.domain.target import Target
from roofsmith.domain.values import canonical_json, content_id
from roofsmith.domain.workload import Workload
from roofsmith.engine.survey import Survey
from roofsmith.errors import MachineError, RoofsmithError
from roofsmith.judge.host.lineup import HostBench
from roofsmith.judge.host.oracle import ReferenceOracle
from roofsmith.judge.timing.bench import SideDiedError
from roofsmith.ports import Observer
from roofsmith.specs.ceilings import LOOKED_AT_FOR_S

METRIC: Final = "attainable bandwidth"
UNIT: Final = "byte/s"
ELEMENT_BYTES = 4
LARGEST_BYTES = 256 << 20
"""Of a copy; larger workloads are given the rate of this one, far beyond every cache."""
TURNS = 5
"""Of all kernels per workload, of whose times the median counts, as it does of a candidate's."""
WORKLOAD_S = 1.0
"""No further turn starts after this long, once one wasn't disturbed."""
ALIKE = 0.1
"""Footprints beyond every cache that differ by less of themselves have one figure. Chosen: far
beyond the last one, a copy of twice the bytes takes twice as long."""
DISTURBED_S = 3.0
"""Nor any at all, after this long."""
LONGEST_S = 15.0
"""No further workload is begun after this long: nobody measured those that are left."""
CALL_DEADLINE_S = 10.0

REFERENCE: Final = """
import numpy as np


def setup(reads, writes, seed=0):
    x = np.full(reads, seed, np.int32)
    y, rest = np.zeros(writes, np.int32), np.zeros(1, np.int32)
    inputs = {"x": x, "y": y, "rest": rest, "reads": reads, "writes": writes}
    return {"inputs": inputs, "outputs": ["y", "rest"]}


def reference(x, y, rest, reads, writes):
    both = min(reads, writes)
    y[:both] = x[:both]
    y[both:] = x[0]
    rest[0] = np.bitwise_xor.reduce(x[both:])
"""


def with_attainable(known: Survey, machine: Place, cache_dir: Path, observer: Observer) -> Survey:
    """The survey, with the attainable bandwidth of every workload that no cache holds.

    Figures are kept for ten minutes in `cache_dir`. What can't be measured is UNKNOWN, with the
    reason.
    """
    begin = time.monotonic()
    probe = CopyProbe(known, machine, cache_dir)
    found: list[tuple[Workload, Fact]] = []
    bounds = []
    cache = known.environment.device.last_level_cache_bytes
    for bound in known.bounds:
        size, fact = footprint(bound, larger_than=cache or 0), None
        if size is not None:
            fact = next((seen for one, seen in found if _are_alike(one, size)), None)
        if size is not None and fact is None and time.monotonic() - begin < LONGEST_S:
            observer.stage("attainable", f"copying the bytes of {bound.workload}")
            fact = probe.fact(size)
            found.append((size, fact))
        bounds.append(bound.model_copy(update={"attainable": fact}))
    return replace(known, bounds=tuple(bounds))


def _are_alike(one: Workload, other: Workload) -> bool:
    return all(abs(other.dims[name] - size) <= ALIKE * size for name, size in one.dims.items())


def footprint(bound: Bound, larger_than: int = 0) -> Workload | None:
    """Elements that a copy of a workload's bytes reads and writes.

    None: they are UNKNOWN, or no more than `larger_than` bytes. What a cache holds isn't bound by
    memory, and takes as long as a call does.
    """
    read, written = bound.cost.read_bytes, bound.cost.written_bytes
    if bound.floor_time_s is None or read is None or written is None:
        return None
    if read + written <= larger_than:
        return None
    share = min(1.0, LARGEST_BYTES / max(read + written, 1.0))
    sizes = (max(1, round(share * size / ELEMENT_BYTES)) for size in (read, written))
    return Workload(dims=dict(zip(("reads", "writes"), sizes, strict=True)))


def copy_kernels(threads: int) -> tuple[Candidate, ...]:
    """Copies on one thread and on all, with plain stores and with such as pass the caches."""
    text = (resources.files("roofsmith.specs") / "kernels" / "attainable.c").read_text("utf-8")
    source = SourceFile(path="attainable.c", text=text)
    alone = ("-O3", "-march=native")
    shared = (*alone, "-fopenmp", f"-DTHREADS={threads}") if threads > 1 else alone
    ways = dict.fromkeys((alone, shared, (*shared, "-DSTREAMING")))
    link = ("-fopenmp",) * (threads > 1)
    return tuple(
        Candidate(language="c", sources=(source,), build=BuildSpec(flags=flags, link=link))
        for flags in ways
    )


class CopyProbe:
    """Copies, timed in the judge's workers with its staging, one figure per footprint."""

    def __init__(self, known: Survey, machine: Place, cache_dir: Path) -> None:
        self._known, self._machine, self._cache_dir = known, machine, cache_dir
        self._kernels = copy_kernels(known.threads)

    def fact(self, size: Workload) -> Fact:
        """byte/s of the fastest copy: kept, or measured now."""
        path = self._path(size)
        if (kept := _kept(path)) is not None:
            return kept
        try:
            time_s = min(self._times(size))
        except SideDiedError as died:
            return _unknown(f"a copy failed: {died.outcome.detail}")
        except RoofsmithError as error:
            return _unknown(error.message)
        date = self._machine.clock.now().strftime("%Y-%m-%d %H:%M")
        cited = Citation(path=str(path), command="roofsmith optimize", date=date)
        rate = ELEMENT_BYTES * sum(size.dims.values()) / time_s
        fact = Fact(metric=METRIC, value=rate, unit=UNIT, citation=cited)
        _keep(path, fact)
        return fact

    def _times(self, size: Workload) -> list[float]:
        """Median of each kernel; seconds per call.

        Raises:
            MachineError: one doesn't build, or every turn was disturbed.
        """
        target = Target(
            name="attainable", language="c", kernel=self._kernels[0].kernel,
            reference=SourceFile(path="attainable.py", text=REFERENCE), workloads=(size,),
            build=self._kernels[0].build,
        )  # fmt: skip
        signature = self._machine.toolchain.signature(target.baseline)
        cache_bytes = self._known.environment.device.last_level_cache_bytes
        with closing(ReferenceOracle(target, signature)) as oracle:
            oracle.start()
            bench = HostBench(
                oracle, target.tolerance, self._known.threads, cache_bytes, self._machine.isolation
            )
            made = self._machine.toolchain.build_all(self._kernels)
            for built in made:
                if not isinstance(built, Built):
                    raise MachineError(f"a copy doesn't build: {built.detail}", log=built.log)
            seen = times_by_turns(bench, [one for one in made if isinstance(one, Built)], size)
            if not seen:
                raise MachineError("a copy was disturbed by other processes in every turn")
            return [median(times) for times in zip(*seen, strict=True)]

    def _path(self, size: Workload) -> Path:
        environment = self._known.environment
        parts = {
            "device": environment.device.id,
            "compilers": [environment.tools.get(tool) for tool in ("gcc", "clang")],
            "conditions": dict(getattr(self._machine.specs.measured, "conditions", dict)()),
            "kernels": [kernel.id for kernel in self._kernels],
            "isolation": self._machine.isolation.label,
            **size.dims,
        }
        return self._cache_dir / f"attainable-{content_id(canonical_json(parts))[:16]}.json"


def times_by_turns(
    bench: HostBench, kernels: Sequence[Built], workload: Workload
) -> list[tuple[float, ...]]:
    """Times of kernels as the judge takes them, without its checks: of each turn that nobody
    disturbed, seconds per call of each.

    Raises:
        SideDiedError: one crashed.
    """
    order = range(len(kernels))
    with bench.lineup(kernels) as lineup:
        with bench.inputs(workload, bench.examination.slots) as inputs:
            first = lineup.station(inputs, bench.examination).turn(order, CALL_DEADLINE_S)
        plan = bench.plan(workload, max(fmean(one.times_s) for one in first.segments))
        times: list[tuple[float, ...]] = []
        begin = time.monotonic()
        with bench.inputs(workload, plan.slots) as inputs:
            station = lineup.station(inputs, plan)
            while len(times) < TURNS and (not times or time.monotonic() - begin < WORKLOAD_S):
                turn = station.turn(order, CALL_DEADLINE_S)
                if turn.void is None and not any(s.disturbed_s() for s in turn.segments):
                    times.append(tuple(fmean(one.times_s) for one in turn.segments))
                if time.monotonic() - begin > DISTURBED_S:
                    break
    return times


def _unknown(reason: str) -> Fact:
    return Fact(metric=METRIC, value=None, unit=UNIT, reason=reason)


def _kept(path: Path) -> Fact | None:
    """What was measured a moment ago; clocks of a shared host move by a quarter within an hour."""
    try:
        if not 0 <= time.time() - path.stat().st_mtime <= LOOKED_AT_FOR_S:
            return None
        return Fact.model_validate_json(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ValidationError):
        return None


def _keep(path: Path, fact: Fact) -> None:
    with suppress(OSError):  # measured again next time
        path.parent.mkdir(parents=True, exist_ok=True)
        written = path.with_suffix(f".{os.getpid()}")
        written.write_text(fact.model_dump_json() + "\n", encoding="utf-8")
        written.replace(path)
