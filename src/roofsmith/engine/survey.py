"""What is known before the first measurement: machine, ceilings, roofline, config classes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from roofsmith.analysis.cost import cost, working_set_bytes
from roofsmith.analysis.group_names import SIZES
from roofsmith.analysis.own_facts import HOW_TO_GIVE, needed_facts
from roofsmith.analysis.roofline import LARGEST_SLACK, bound
from roofsmith.analysis.skew import unevenness
from roofsmith.analysis.strata import config_classes
from roofsmith.domain.arrays import ArraySpec
from roofsmith.domain.bound import Bound
from roofsmith.domain.command import EditableShare
from roofsmith.domain.computed import Computed
from roofsmith.domain.description import WorkloadDescription
from roofsmith.domain.device import Device, Environment
from roofsmith.domain.facts import FactSheet
from roofsmith.domain.kernel import Signature
from roofsmith.domain.target import Target
from roofsmith.domain.workload import ConfigClass, Workload
from roofsmith.engine.meter import Meter
from roofsmith.errors import UsageError
from roofsmith.ports import DeviceSource, Observer, Oracle, SpecSource, Toolchain
from roofsmith.wording import plural

SEED = 0
"""Of the draw that groups are looked at in."""


NOTHING_READ = Computed()


@dataclass(frozen=True, slots=True)
class Survey:
    """Everything about a target on a machine that no run of its kernel is needed for."""

    environment: Environment
    threads: int
    facts: FactSheet
    signature: Signature
    descriptions: Mapping[str, WorkloadDescription]
    """By workload label."""
    bounds: tuple[Bound, ...]
    classes: tuple[ConfigClass, ...]
    unevenness: Mapping[str, float] = field(default_factory=dict)
    """Of a grouped operator's workloads, by label."""
    computed: Computed | None = None
    """What the reference computes; None: nobody read it."""
    reference_s: float | None = None
    """Of a call of the reference on every workload, all together; None: nobody timed it."""
    editable: EditableShare | None = None
    """Of a repository that was looked at for the first time."""
    read_today: Callable[[], FactSheet | None] = lambda: None
    """What the machine does now, where `facts` are those that a campaign began with."""


def survey(
    target: Target,
    devices: DeviceSource,
    specs: SpecSource,
    toolchain: Toolchain,
    oracle: Oracle,
    observer: Observer,
    meter: Meter,
    read: Callable[[Target, Signature], Computed | None] = lambda _target, _signature: None,
) -> Survey:
    """Identify the machine, look up its ceilings, compute the roofline, form the classes.

    Measuring ceilings counts as kernel time on the meter.

    Args:
        read: says what a target's reference computes; None where it has none.

    Raises:
        SignatureError: the kernel has no readable `solve`.
        BadReferenceError: the reference doesn't fit it.
        TargetError: a workload can't fit in memory.
    """
    observer.stage("environment")
    environment = devices.environment()
    threads = threads_for(target, environment)
    signature = toolchain.signature(target.baseline)
    descriptions = {}
    for workload in target.workloads:
        observer.stage("reference", f"on {workload.label}")
        descriptions[workload.label] = oracle.describe(workload)
    observer.stage("reference", "what it computes")
    computed = read(target, signature)
    known = computed if computed is not None else Computed()
    on_host = environment.device.kind == "cpu"
    whose = plural(threads, "thread") if on_host else environment.device.name
    observer.stage("facts", f"ceilings for {whose}")
    with meter.kernel():
        facts = specs.facts(environment, threads, observer)
    observer.stage("roofline")
    bounds = tuple(
        bound_of(w, descriptions[w.label], target, facts, environment.device, threads, known)
        for w in target.workloads
    )
    for fact in needed_facts(bounds, environment.device):
        if fact.value is None:
            observer.stage("facts", f"{fact}: {HOW_TO_GIVE}")
    return Survey(
        environment=environment,
        threads=threads,
        facts=facts,
        signature=signature,
        descriptions=descriptions,
        bounds=bounds,
        classes=config_classes(target.workloads, bounds, environment.device),
        unevenness=_unevenness(target, descriptions, oracle),
        computed=computed,
    )


def _unevenness(
    target: Target, descriptions: Mapping[str, WorkloadDescription], oracle: Oracle
) -> dict[str, float]:
    """How unevenly the reference deals rows to groups; empty where no input says so.

    Nothing is drawn unless an array is called as sizes or offsets of groups are.
    """
    found: dict[str, float] = {}
    for workload in target.workloads:
        arrays = descriptions[workload.label].arrays
        names = [a.name for a in arrays if _may_hold_sizes(a)]
        if not names:
            continue
        drawn = oracle.inputs(workload, SEED)
        values = {n: a.tolist() for n in names if isinstance(a := drawn[n], np.ndarray)}
        if (ratio := unevenness(values)) is not None:
            found[workload.label] = ratio
    return found


def _may_hold_sizes(array: ArraySpec) -> bool:
    is_whole = array.dtype.lstrip("u").startswith("int")
    return is_whole and len(array.shape) == 1 and SIZES.fullmatch(array.name) is not None


def bound_of(
    workload: Workload,
    description: WorkloadDescription,
    target: Target,
    facts: FactSheet,
    device: Device,
    threads: int,
    known: Computed = NOTHING_READ,
) -> Bound:
    """The roofline of one workload, with what is known of its reference."""
    needed = cost(workload, description, target.family, known.flops.get(workload.label))
    swept = known.swept_bytes.get(workload.label)
    needed = needed.model_copy(update={"swept_bytes": swept})
    today, ever = (
        bound(
            workload,
            needed,
            sheet,
            device,
            threads,
            working_set_bytes=working_set_bytes(description) if description.arrays else None,
            tf32=target.tf32,
            ceilings=target.ceilings,
        )
        for sheet in (facts, facts.at_its_highest)
    )
    return proven_by(today, ever)


def proven_by(today: Bound, ever: Bound) -> Bound:
    """Today's floor, below which a time is impossible only if the highest ceilings say so.

    Args:
        today: under what the machine does now.
        ever: of the same workload, under the highest that it ever did.
    """
    if today == ever or not today.floor_time_s or not ever.floor_time_s:
        return today
    least_s = (1 - ever.slack) * ever.floor_time_s
    slack = min(max(1 - least_s / today.floor_time_s, 0.0), LARGEST_SLACK)
    return today.model_copy(update={"slack": slack, "proof": ever.proof})


def threads_for(target: Target, environment: Environment) -> int:
    """Processors that kernels may use: the target's, else all that this process may use.

    A GPU counts as one: every kernel may use all of it.

    Raises:
        UsageError: the target asks for more than there are.
    """
    if environment.device.kind != "cpu":
        return 1
    return usable_threads(target.threads, environment.device)


def usable_threads(wanted: int | None, processors: Device) -> int:
    """The threads that are wanted, by default one per processor.

    Raises:
        UsageError: there are fewer processors: the threads would wait for each other, and every
            time would be of the scheduler's making.
    """
    if wanted is not None and wanted > processors.cores:
        raise UsageError(
            f"{wanted} threads are asked for, and this process may use "
            f"{processors.cores} of this machine's processors",
            hint=f"--threads {processors.cores}, or `threads: {processors.cores}` in the target",
        )
    return wanted or processors.cores
