"""Port `Tracer`: steps of training, as one operator sees them."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median

from roofsmith.analysis.group_names import SIZES
from roofsmith.domain.description import WorkloadDescription
from roofsmith.domain.kernel import MODULE_LANGUAGES, Built, Signature
from roofsmith.domain.outcome import Failure, Incorrect
from roofsmith.domain.target import HOST_LANGUAGES, Target
from roofsmith.domain.transfer import CacheHits, KeptValue, Trace
from roofsmith.domain.workload import Workload
from roofsmith.errors import BadReferenceError, TargetError
from roofsmith.judge.gpu.driver import Api
from roofsmith.judge.gpu.forking import ForkServer
from roofsmith.judge.host.arena import Arena
from roofsmith.judge.host.array_messages import as_json
from roofsmith.judge.host.oracle import ReferenceProcess
from roofsmith.judge.sandbox.isolation import Isolation
from roofsmith.overfitting.hints import weights_of
from roofsmith.overfitting.hints.tokens import is_weight_name
from roofsmith.overfitting.trace.device import DeviceRunner
from roofsmith.overfitting.trace.processes import (
    LentReference,
    LibraryRunner,
    ModuleProcess,
    ModuleRunner,
    Runner,
    StepSeen,
    StepsReference,
    exchange,
)
from roofsmith.ports import KernelDiedError

FEWEST_STEPS = 2
"""Of a kernel that keeps nothing, as far as its source shows, and has no groups: one before its
weights change, and one after."""
STEPS = 4
"""Of any other: the second half has rows dealt unevenly, where there are groups."""
TIMED_STEPS = 8
"""Where it is counted how often what is kept is found; what a step gains from it is the median of
their times."""
CALLS = 2
"""Of a step: a forward and a backward pass, which use the same weights."""


DEVICE_LIBRARIES = ("cuda", "hip")
"""Languages whose kernels are libraries that are given device pointers."""


class StepTracer:
    """Runs steps in a worker process of their own, and looks at every output."""

    def __init__(
        self,
        target: Target,
        signature: Signature,
        *,
        threads: int,
        device: str = "cpu",
        api: Api | None = None,
        cache_dir: Path | None = None,
        isolation: Isolation | None = None,
        root: Path | None = None,
        oracle: ReferenceProcess | None = None,
        fork_server: ForkServer | None = None,
    ) -> None:
        """Nothing starts yet.

        Args:
            target: has the reference.
            signature: of its kernel.
            threads: that kernels may use on the host.
            device: of modules, and of the reference of all that runs on a GPU: `cpu` or `cuda`.
            api: of the GPU's driver; None: there is none, and libraries for it can't be run.
            cache_dir: of what modules compile.
            isolation: the walls around kernels; None: all that the host grants.
            root: folder that a module may import from, and whose files are watched; None: the
                module is a file of its own.
            oracle: holds the reference in a process of its own already, on the host or on that
                device; None: one is started for the steps.
            fork_server: makes processes of modules; None: each imports PyTorch.
        """
        self._fork_server = fork_server
        self._oracle = oracle
        self._root = root
        self._target = target
        self._signature = signature
        self._threads = threads
        self._device = device
        self._api: Api | None = api
        self._cache_dir = cache_dir
        self._isolation = isolation

    def trace(
        self, built: Built, workload: Workload, kept_values: Sequence[KeptValue]
    ) -> Trace | str:
        """Some steps, every output compared with the reference; why not, where that can't be."""
        if built.language in DEVICE_LIBRARIES and self._api is None:
            return f"steps with {built.language} are run on a GPU, and there is none"
        path = self._target.kernel.path
        sites = [value for value in kept_values if self._root is not None or value.path == path]
        try:
            with self._loading(built, sites) as module, self._reference(built) as reference:
                described = reference.described(workload)
                arena = exchange(described)
                try:
                    reference.ask("map", {"arrays": as_json(arena.layout.arrays)}, (arena.fd,))
                    log = _Log(workload, self._weights(described), sites if module else [])
                    steps = _steps_for(described, kept_values, log)
                    return self._run(built, module, described, reference, arena, log, steps)
                finally:
                    arena.close()
        except (BadReferenceError, TargetError) as error:
            return f"the reference can't be asked: {error.message}"

    def _reference(self, built: Built) -> StepsReference | LentReference:
        if self._oracle is not None:
            return LentReference(self._oracle)
        device = None if built.language in HOST_LANGUAGES else self._device
        return StepsReference(self._target, self._signature, device)

    def _run(
        self, built: Built, module: Future[ModuleProcess] | None, described: WorkloadDescription,
        reference: StepsReference | LentReference, arena: Arena, log: _Log, steps: int,
    ) -> Trace:  # fmt: skip
        try:
            runner = self._runner(built, module, described)
        except KernelDiedError as died:
            return log.trace(died.outcome)
        try:
            for step in range(steps):
                for call in range(CALLS):
                    told = {
                        "dims": log.workload.dims, "seed": secrets.randbits(31),
                        "keep": log.weights if call else (), "skew": step >= steps // 2,
                    }  # fmt: skip
                    log.skewed = reference.ask("draw", told)["skewed"] or log.skewed
                    log.add(call, runner.call(arena, log.weights, changed=call == 0))
                    if wrong := reference.ask("check", {})["wrong"]:
                        return log.trace(_incorrect(wrong, step, call, log))
                log.steps += 1
            return log.trace()
        except KernelDiedError as died:
            return log.trace(died.outcome)
        finally:
            runner.close()

    def _runner(
        self, built: Built, module: Future[ModuleProcess] | None, described: WorkloadDescription
    ) -> Runner:
        if module is not None:
            return ModuleRunner(module.result(), described)
        if built.language in DEVICE_LIBRARIES and self._api is not None:
            return DeviceRunner(
                built, described, api=self._api, cache_dir=self._cache_dir,
                isolation=self._isolation,
            )  # fmt: skip
        return LibraryRunner(built, described, self._threads, self._isolation)

    @contextmanager
    def _loading(
        self, built: Built, sites: Sequence[KeptValue]
    ) -> Iterator[Future[ModuleProcess] | None]:
        """A module's process, which imports PyTorch beside the reference's; None of a library."""
        if built.language not in MODULE_LANGUAGES:
            yield None
            return
        with ThreadPoolExecutor(1) as beside:
            loading = beside.submit(self._loaded, built, sites)
            try:
                yield loading
            finally:
                with suppress(KernelDiedError):
                    loading.result().close()

    def _loaded(self, built: Built, sites: Sequence[KeptValue]) -> ModuleProcess:
        process = ModuleProcess(
            built, threads=self._threads, device=self._device, sites=sites,
            cache_dir=self._cache_dir, isolation=self._isolation, root=self._root,
            fork_server=self._fork_server,
        )  # fmt: skip
        try:
            process.wait_until_loaded()
        except BaseException:
            process.close()
            raise
        return process

    def _weights(self, described: WorkloadDescription) -> tuple[str, ...]:
        """Inputs that the reference's `setup` says are weights, or that are named so."""
        known = weights_of(self._target.baseline, self._target.reference)
        inputs = [a for a in described.arrays if a.role == "input" and "int" not in a.dtype]
        return tuple(a.name for a in inputs if a.name in known or is_weight_name(a.name))


def _steps_for(described: WorkloadDescription, kept_values: Sequence[KeptValue], log: _Log) -> int:
    """As many as there is something to see in."""
    if log.sites:
        return TIMED_STEPS
    has_groups = any(SIZES.fullmatch(array.name) for array in described.arrays)
    return STEPS if kept_values or has_groups else FEWEST_STEPS


class _Log:
    def __init__(
        self, workload: Workload, weights: tuple[str, ...], sites: Sequence[KeptValue]
    ) -> None:
        self.workload = workload
        self.weights = weights
        self.sites = sites
        self.steps = 0
        self.skewed = ""
        self._times_s: list[list[float]] = [[] for _ in range(CALLS)]
        self._lookups = [0] * len(sites)
        self._hits = [0] * len(sites)

    def add(self, call: int, seen: StepSeen) -> None:
        """One more call; the first step's times are of kernels that are compiled meanwhile."""
        if self.steps:
            self._times_s[call].append(seen.time_s)
        for number, (looked_up, stored) in seen.sites.items():
            if number < len(self.sites):
                self._lookups[number] += looked_up or stored
                self._hits[number] += looked_up and not stored

    def trace(self, failure: Failure | None = None) -> Trace:
        fresh, kept = (median(times) if times else None for times in self._times_s)
        return Trace(
            workload=self.workload.label,
            steps=self.steps,
            weights=self.weights,
            skewed=self.skewed,
            caches=tuple(
                CacheHits(name=s.name, path=s.path, line=s.line, lookups=looked, hits=hits)
                for s, looked, hits in zip(self.sites, self._lookups, self._hits, strict=True)
            ),
            failure=failure,
            fresh_time_s=fresh,
            kept_time_s=kept,
        )


def _incorrect(wrong: dict[str, object], step: int, call: int, log: _Log) -> Incorrect:
    what = f"{log.workload.label}: {wrong['output']} is wrong in call {call + 1} of step {step + 1}"
    if wrong["earlier"]:
        return Incorrect(
            reason="memoised_result", detail=f"{what}: it is the right result of an earlier call"
        )
    changed = "new activations" if call or not log.weights else "weights that changed in place"
    dealt = f", and rows dealt as {log.skewed}" if log.skewed else ""
    return Incorrect(reason="wrong_output", detail=f"{what}, after {changed}{dealt}")
