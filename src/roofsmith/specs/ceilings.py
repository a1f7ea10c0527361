"""Ceilings of this machine, measured by small compiled kernels and kept."""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final, Protocol

from roofsmith.analysis.residency import capacity_bytes, data_caches
from roofsmith.domain.device import Device, Environment
from roofsmith.domain.facts import FactSheet
from roofsmith.domain.kernel import Built, Candidate
from roofsmith.domain.outcome import BuildFailed
from roofsmith.domain.values import canonical_json, content_id
from roofsmith.errors import RoofsmithError
from roofsmith.ports import (
    Arguments,
    Clock,
    Gate,
    KernelDiedError,
    KernelRunner,
    KernelSession,
    Observer,
    Toolchain,
)
from roofsmith.specs.benches import BandwidthBench, FmaBench, Sample
from roofsmith.specs.sheet import (
    CeilingMeasurement,
    Key,
    MeasurementFile,
    fact_sheet,
    newer_of,
    parse,
    render,
    unknown_sheet,
)

MIB = 1 << 20
FALLBACK_BYTES = (16 << 10, 256 << 10, 8 * MIB, 256 * MIB)
"""Where no cache sizes are known: sizes that sit inside common L1, L2 and L3, and in memory."""

SMALLEST_BYTES = 8 << 10
"""Three arrays of this, on one thread, still run for dozens of vectors each."""

MEMORY_SHARE = 8
"""At most this fraction of memory is taken, whatever the caches."""


def working_sets(device: Device, threads: int) -> tuple[int, ...]:
    """Working sets of all `threads` processors together, in bytes, ascending.

    Inside each cache (half of it) and just outside (twice it), since between a level's own speed
    and the next one's the bandwidth changes most; for the last level its full size, and eight times
    it, where little is left in the cache from the pass before.
    """
    caches = [capacity_bytes(cache, threads) for cache in data_caches(device)]
    if not caches:
        return FALLBACK_BYTES
    sizes = {size // 2 for size in caches} | {2 * size for size in caches[:-1]}
    sizes |= {caches[-1], 8 * caches[-1]}
    limit = device.memory_bytes // MEMORY_SHARE if device.memory_bytes else 8 * caches[-1]
    return tuple(sorted(size for size in sizes if SMALLEST_BYTES * threads <= size <= limit))


REPEATABILITY = 0.02
"""The best two rounds of a ceiling must agree within this."""
MIN_ROUNDS = 4
MAX_ROUNDS = 10
BUDGET_S = 4.0
"""No new round starts after this long; builds and worker starts come on top, about a second."""
LOOKED_AT_FOR_S = 600.0
"""Kept ceilings are looked at again after this long."""
LOOKS = 2
"""Rounds of such a look, on all threads alone: a second or two with the workers' start."""
LEAST_OF_KEPT = 0.85
"""Share of a kept ceiling, or its inverse, that makes it another machine: clocks of one shared host
were seen to move by a quarter within an hour, and its measurements repeat within 2%."""
CALL_DEADLINE_S = 30.0
"""For one round of one kernel, which takes a fifth of a second on two cores."""


class _UnmeasurableError(Exception):
    """The ceilings can't be measured here; the message says why."""


class CeilingBench(Protocol):
    @property
    def threads(self) -> int: ...

    @property
    def candidate(self) -> Candidate: ...

    def arguments(self) -> Arguments: ...

    def round(self, session: KernelSession) -> list[Sample]:
        """One call, and the rates that it found."""
        ...


@dataclass(frozen=True, slots=True)
class Kit:
    """What is measured of one kind of device, and which tools the figures depend on."""

    benches: Callable[[Device, int], Sequence[CeilingBench]]
    keys: Callable[[Device, int], Sequence[Key]]
    """Every ceiling that is looked for: those that are UNKNOWN where nothing can be measured."""
    tools: tuple[str, ...]
    """Of the environment: another version means another measurement."""
    whole_device: bool = False

    def compiler(self, tools: Mapping[str, str]) -> str:
        """Version line of the first tool that is there."""
        return next((tools[tool] for tool in self.tools if tool in tools), "unknown")

    def on(self, threads: int) -> str:
        """What runs the kernels, for people."""
        return "the whole GPU" if self.whole_device else f"{threads} thread{'s' * (threads > 1)}"


def _cpu_benches(device: Device, threads: int) -> list[FmaBench | BandwidthBench]:
    benches: list[FmaBench | BandwidthBench] = []
    for count in sorted({1, threads}):
        benches.append(FmaBench("float32", count))
        benches.append(FmaBench("float64", count))
        benches.append(BandwidthBench(count, working_sets(device, count)))
    return benches


def _cpu_keys(device: Device, threads: int) -> list[Key]:
    counts = sorted({1, threads})
    sizes = working_sets(device, threads)
    patterns = ("read", "copy", "triad")
    bandwidth = [("bandwidth", p, n, size) for n in counts for size in sizes for p in patterns]
    return [*bandwidth, *(("fma", t, n, 0) for n in counts for t in ("float32", "float64"))]


CPU_KIT: Final = Kit(_cpu_benches, _cpu_keys, tools=("gcc", "clang"))


@dataclass(frozen=True, slots=True)
class MeasuredCeilings:
    """Bandwidth and arithmetic ceilings: measured once per machine, compiler and thread count.

    A ceiling is the best of several rounds, and rounds go on until the best two agree within
    `REPEATABILITY`, `MAX_ROUNDS` were made or `BUDGET_S` is used up; what did not agree is said in
    the sheet's `other` facts. All kernels take turns, so that a disturbance hits no ceiling alone.
    """

    runner: KernelRunner
    toolchain: Toolchain
    cache_dir: Path
    clock: Clock
    kit: Kit = CPU_KIT
    gate: Gate | None = None
    """In front of the GPU, where that is what is measured."""
    conditions: Callable[[], Mapping[str, str]] = dict
    """What else the figures depend on, such as microcode and governor: others mean another
    measurement."""

    def facts(self, environment: Environment, threads: int, observer: Observer) -> FactSheet:
        """The kept ceilings for 1 and for `threads` processors, else freshly measured ones.

        Kept ones are looked at for a second or two, and measured again where the machine does less
        than `LEAST_OF_KEPT` of them, or as much more. Without a compiler or a worker the ceilings
        are UNKNOWN, with the reason. A file that was damaged is measured again.
        """
        kept = self._kept(environment, threads)
        if kept is not None and self._is_fresh(environment, threads):
            return self._sheet(environment, threads, kept)
        with self._alone():
            kept = self._kept(environment, threads)  # another process may have measured meanwhile
            if kept is None:
                return self._measure(environment, threads, observer, ())
            if self._is_fresh(environment, threads) or not self._moved(
                environment, threads, kept, observer
            ):
                return self._sheet(environment, threads, kept)
            return self._measure(environment, threads, observer, kept)

    def _is_fresh(self, environment: Environment, threads: int) -> bool:
        """Whether the kept figures were measured or looked at a moment ago; a GPU's always hold."""
        if self.kit.whole_device:
            return True
        try:
            age_s = time.time() - self.path(environment, threads).stat().st_mtime
        except OSError:
            return False
        return 0 <= age_s <= LOOKED_AT_FOR_S

    def _moved(
        self,
        environment: Environment,
        threads: int,
        kept: tuple[CeilingMeasurement, ...],
        observer: Observer,
    ) -> bool:
        """Look whether the machine does what it did; nothing is known where that can't be."""
        observer.stage("ceilings", "checking whether the kept ones still hold")
        benches = self.kit.benches(environment.device, threads)
        try:
            seen = self._seen([b for b in benches if b.threads == threads], LOOKS)
        except _UnmeasurableError:
            return False
        with suppress(OSError):
            os.utime(self.path(environment, threads))
        shares = seen.shares_of({measurement.key: measurement.rate for measurement in kept})
        return any(not LEAST_OF_KEPT <= share <= 1 / LEAST_OF_KEPT for share in shares)

    def _seen(self, benches: Sequence[CeilingBench], times: int) -> _Rounds:
        rounds = _Rounds()
        with self._opened(benches) as sessions:
            for _ in range(times):
                for bench, session in sessions:
                    rounds.add(bench.round(session))
        return rounds

    def measure_again(
        self, environment: Environment, threads: int, observer: Observer
    ) -> FactSheet:
        """Measure now, and keep per ceiling the new figure, and the old one beside it if higher.

        What was reached once can be reached, so a time has to be below that floor to be impossible.
        """
        with self._alone():
            kept = self._kept(environment, threads)
            return self._measure(environment, threads, observer, kept or ())

    def path(self, environment: Environment, threads: int) -> Path:
        """The file that keeps the ceilings of this machine, compiler and thread count."""
        benches = self.kit.benches(environment.device, threads)
        parts = {
            "device": environment.device.id,
            "compilers": [environment.tools.get(tool) for tool in self.kit.tools],
            "threads": threads,
            "kernels": sorted(bench.candidate.id for bench in benches),
        }
        if conditions := dict(self.conditions()):
            parts["conditions"] = conditions
        return self.cache_dir / f"ceilings-{content_id(canonical_json(parts))[:16]}.json"

    def _kept(
        self, environment: Environment, threads: int
    ) -> tuple[CeilingMeasurement, ...] | None:
        try:
            text = self.path(environment, threads).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return None
        file = parse(text)
        return file.measurements if file is not None else None

    def _sheet(
        self, environment: Environment, threads: int, measurements: tuple[CeilingMeasurement, ...]
    ) -> FactSheet:
        path = self.path(environment, threads)
        return fact_sheet(environment.device, measurements, path, REPEATABILITY)

    def _measure(
        self,
        environment: Environment,
        threads: int,
        observer: Observer,
        known: tuple[CeilingMeasurement, ...],
    ) -> FactSheet:
        device = environment.device
        try:
            measured = self._undisturbed(lambda: self._run(device, threads, observer))
        except _UnmeasurableError as reason:
            if known:
                return self._sheet(environment, threads, known)
            return unknown_sheet(device, self.kit.keys(device, threads), str(reason))
        best = newer_of(known, measured, REPEATABILITY)
        path = self.path(environment, threads)
        file = MeasurementFile(
            device=device.name, compiler=self.kit.compiler(environment.tools), measurements=best
        )
        try:
            _write_atomically(path, render(file))
        except OSError as error:
            place = f"measured now, not kept: {path} can't be written ({error.strerror})"
            return fact_sheet(device, best, place, REPEATABILITY)
        return self._sheet(environment, threads, best)

    def _undisturbed(
        self, measure: Callable[[], tuple[CeilingMeasurement, ...]]
    ) -> tuple[CeilingMeasurement, ...]:
        """Ceilings that were measured beside others would be too low, and kept for good."""
        if self.gate is None:
            return measure()
        seen = self.gate.watch(measure)
        if seen.void:
            raise _UnmeasurableError(f"disturbed in every try, last by: {seen.disturbances[-1]}")
        return seen.result

    def _run(
        self, device: Device, threads: int, observer: Observer
    ) -> tuple[CeilingMeasurement, ...]:
        observer.stage("ceilings", f"measuring bandwidth and peak on {self.kit.on(threads)}")
        benches = self.kit.benches(device, threads)
        with self._opened(benches) as sessions:
            rounds = self._rounds(sessions, observer)
        return rounds.measurements(self.clock.now().strftime("%Y-%m-%d %H:%M"))

    @contextmanager
    def _opened(
        self, benches: Sequence[CeilingBench]
    ) -> Iterator[list[tuple[CeilingBench, KernelSession]]]:
        """All kernels at once; whatever goes wrong with one makes ceilings unmeasurable."""
        with ExitStack() as stack:
            try:
                built = self.toolchain.build_all([bench.candidate for bench in benches])
                yield [
                    (bench, stack.enter_context(self._session(bench, made)))
                    for bench, made in zip(benches, built, strict=True)
                ]
            except KernelDiedError as died:
                raise _UnmeasurableError(f"a ceiling kernel failed: {died}") from died
            except RoofsmithError as error:
                raise _UnmeasurableError(error.message) from error

    @contextmanager
    def _session(self, bench: CeilingBench, built: Built | BuildFailed) -> Iterator[KernelSession]:
        if not isinstance(built, Built):
            raise _UnmeasurableError(f"a ceiling kernel doesn't build: {built.detail}")
        with self.runner.open(
            built, bench.arguments(), threads=bench.threads, call_deadline_s=CALL_DEADLINE_S
        ) as session:
            yield session

    def _rounds(
        self, sessions: list[tuple[CeilingBench, KernelSession]], observer: Observer
    ) -> _Rounds:
        rounds = _Rounds()
        begin = self.clock.monotonic()
        for done in range(MAX_ROUNDS):
            late = self.clock.monotonic() - begin > BUDGET_S
            if done >= MIN_ROUNDS and (late or rounds.agree()):
                break
            for bench, session in sessions:
                rounds.add(bench.round(session))
            observer.progress((done + 1) / MAX_ROUNDS, f"round {done + 1}")
        observer.progress(1.0)
        return rounds

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One process measures at a time: two would halve each other's ceilings."""
        try:
            self.cache_dir.mkdir(parents=True, exist_ok=True)
            lock = os.open(self.cache_dir / "ceilings.lock", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError:
            yield  # nowhere to keep a lock: measuring still works
            return
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)


@dataclass(slots=True)
class _Rounds:
    rates: dict[Key, list[tuple[float, str]]] = field(default_factory=lambda: defaultdict(list))

    def add(self, samples: list[Sample]) -> None:
        for key, rate, variant in samples:
            self.rates[key].append((rate, variant))

    def shares_of(self, kept: Mapping[Key, float]) -> list[float]:
        """Of the kept rates: the median of each kind, since single ones are disturbed at times."""
        shares: dict[str, list[float]] = defaultdict(list)
        for key, rates in self.rates.items():
            if key in kept:
                shares[key[0]].append(max(rates)[0] / kept[key])
        return [median(of_kind) for of_kind in shares.values()]

    def agree(self) -> bool:
        return all(_spread(rates) <= REPEATABILITY for rates in self.rates.values())

    def measurements(self, date: str) -> tuple[CeilingMeasurement, ...]:
        """The best of each ceiling; one that could not be measured at all is an error.

        Raises:
            _UnmeasurableError: a kernel could not get its memory or threads.
        """
        found = []
        for (kind, subject, threads, size), rates in sorted(self.rates.items()):
            rate, variant = max(rates)
            if rate <= 0:
                raise _UnmeasurableError(
                    f"{subject} with {threads} threads: no memory or no threads to measure with"
                )
            found.append(
                CeilingMeasurement.model_validate(
                    {
                        "kind": kind,
                        "subject": subject,
                        "threads": threads,
                        "working_set_bytes": size,
                        "rate": rate,
                        "variant": variant,
                        "spread": _spread(rates),
                        "rounds": len(rates),
                        "date": date,
                    }
                )
            )
        return tuple(found)


def _spread(rates: list[tuple[float, str]]) -> float:
    """How far the second-best round is below the best, as a share of it."""
    best = sorted((rate for rate, _ in rates), reverse=True)
    if len(best) < 2 or best[0] <= 0:
        return 1.0
    return max(1 - best[1] / best[0], 0.0)


def _write_atomically(path: Path, text: str) -> None:
    """Whole or not at all, whoever reads or writes at the same time."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".ceilings-")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
