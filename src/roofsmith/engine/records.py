"""Composes the events of a campaign from what was found. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from roofsmith.analysis.fractions import fraction_of_candidate, held_fraction
from roofsmith.analysis.kernel_times import overall_gain
from roofsmith.analysis.representatives import representatives
from roofsmith.analysis.rulebook import RULES
from roofsmith.analysis.strata import found_classes
from roofsmith.domain.campaign import Baseline, Campaign, Decision, Kept, Resumed, Started
from roofsmith.domain.comparison import Judgement, Timing
from roofsmith.domain.device import Environment
from roofsmith.domain.diagnosis import Disassembly
from roofsmith.domain.facts import Fact, FactSheet, shown
from roofsmith.domain.inspection import Inspection
from roofsmith.domain.outcome import Failure, Outcome, Passed, Unstable
from roofsmith.domain.profile import Bottleneck, Profile
from roofsmith.domain.standing import limits_in_force
from roofsmith.domain.target import StopPolicy, Target
from roofsmith.domain.workload import ConfigClass
from roofsmith.engine.meter import Lap
from roofsmith.engine.stopping import Stop
from roofsmith.errors import (
    BaselineError,
    MachineError,
    NoIdleGpuError,
    RoofsmithError,
    TargetError,
)
from roofsmith.ports import Measured

MOVED: Final = math.log(1 / 0.85)
"""Of a ceiling, as a logarithm: what moved further is said when a campaign goes on."""


def baseline_classes(started: Started, timings: Sequence[Timing]) -> tuple[ConfigClass, ...]:
    return found_classes(started.target.workloads, started.classes, timings)


def baseline_record(
    started: Started,
    measured: Measured,
    profile: Profile,
    bottleneck: Bottleneck,
    disassembly: Disassembly,
    *,
    lap: Lap,
    measured_s: float,
    at: str,
    held_out: str | None = None,
) -> Baseline:
    """Round 1, and the config classes that its times show."""
    target = started.target
    classes = baseline_classes(started, measured.timings)
    return Baseline(
        candidate=target.baseline,
        outcome=measured.outcome,
        timings=classed(measured.timings, classes),
        errors=measured.errors,
        metrics=measured.metrics,
        classes=classes,
        representative=representatives(target, classes, measured.timings, started.unevenness),
        profile=profile,
        bottleneck=bottleneck,
        held_out=held_out,
        disassembly=disassembly,
        wall_s=lap.wall_s,
        kernel_s=lap.kernel_s,
        measured_s=measured_s,
        at=at,
    )


def inspected(judgement: Judgement, inspection: Inspection | None) -> Judgement:
    """The judgement, rejected for what sanitizers found; its samples stay."""
    failure = inspection.failure if inspection is not None else None
    if failure is None:
        return judgement
    return judgement.model_copy(update={"outcome": failure, "verdict": "rejected"})


def classed(timings: Sequence[Timing], classes: Sequence[ConfigClass]) -> tuple[Timing, ...]:
    """The timings under the classes that hold now."""
    names = {label: found.name for found in classes for label in found.workloads}
    return tuple(
        timing.model_copy(update={"config_class": names[timing.workload]}) for timing in timings
    )


def standing_after(
    campaign: Campaign, judgement: Judgement, decision: Decision
) -> tuple[float | None, float]:
    """Roofline fraction and total speedup of the kernel that holds after a decision.

    A kept round multiplies the total by its proven ratio, that of the target's own profiler where
    there is one; any other leaves both as they were. The fraction is always of judged times: a
    profiler's one number is of no workload that a roofline could be of. A tie proves no ratio, so
    what is kept for being simpler leaves the total.
    """
    comparison = judgement.comparison
    if not isinstance(decision, Kept) or comparison is None:
        return held_fraction(campaign), campaign.total_speedup
    gain = 1.0 if decision.simpler else overall_gain(judgement, campaign.rules)
    total = campaign.total_speedup * gain
    return fraction_of_candidate(comparison), total


def with_final_outcome(stop: Stop, outcome: Outcome) -> Stop:
    """The stop, and how the final measurement went if it didn't go well."""
    if isinstance(outcome, Passed):
        return stop
    kind = outcome.kind.replace("_", " ")
    trouble = f"the final kernel, measured once more, was {kind}: {outcome.detail}"
    return replace(stop, detail=f"{stop.detail}; {trouble}")


def resumed_record(
    campaign: Campaign,
    environment: Environment,
    limits: StopPolicy,
    *,
    at: str,
    gpu: str | None = None,
    held_out: str | None = None,
    today: FactSheet | None = None,
) -> Resumed:
    """That the campaign goes on, and what changed in between: software, GPU, ceilings, limits."""
    started, before = campaign.started, limits_in_force(campaign)
    same = environment.fingerprint == started.environment.fingerprint
    note = "same environment" if same else _what_changed(started.environment, environment)
    if gpu is not None and started.gpu not in (None, gpu):
        note += f"; on another {environment.device.name}: {gpu}; it began on {started.gpu}"
    note += "".join(f"; {one}" for one in _moved_ceilings(started.facts, today or started.facts))
    if campaign.planned is not None:
        note += f"; round {campaign.planned.round} was planned and lost, and is judged again"
    for name, limit in limits:
        if limit != (old := getattr(before, name)):
            note += f"; {name} is {limit} from here on, in place of {old}"
    return Resumed(
        environment=environment, note=note, at=at, gpu=gpu, limits=limits, rules=RULES,
        held_out=held_out,
    )  # fmt: skip


def _moved_ceilings(then: FactSheet, now: FactSheet) -> Iterator[str]:
    """Of each kind of ceiling the one that moved furthest, beyond what shared hosts' clocks do."""
    kinds = (
        ([c.fact for c in then.compute], [c.fact for c in now.compute]),
        ([c.fact for c in then.bandwidth], [c.fact for c in now.bandwidth]),
    )
    for old, new in kinds:
        known = {fact.metric: fact.value for fact in old if fact.value}
        both = [(f, known[f.metric]) for f in new if f.value and f.metric in known]
        furthest = max(both, key=lambda pair: abs(_log_ratio(*pair)), default=None)
        if furthest is not None and abs(_log_ratio(*furthest)) > MOVED:
            fact, value = furthest
            yield (
                f"{fact.metric} is {shown(fact.value or 0.0, fact.unit)} today, and was"
                f" {shown(value, fact.unit)} when the campaign began: its bounds stay, and"
                " shares of the roofline are of those"
            )


def _log_ratio(fact: Fact, before: float) -> float:
    return math.log((fact.value or before) / before)


def require_same_device(started: Started, environment: Environment) -> None:
    """Refuse to go on elsewhere: bounds and proven ratios hold for one device.

    Raises:
        MachineError: the device differs from the one that the campaign began on.
    """
    then, now = started.environment.device.identity, environment.device.identity
    if then == now:
        return
    fields = [name for name in type(then).model_fields if getattr(then, name) != getattr(now, name)]
    raise MachineError(
        f"campaign {started.campaign} began on {then.name} ({then.cores} {then.core}s); this"
        f" machine differs in {', '.join(fields)}",
        hint="resume where it began, or start a new campaign here with `roofsmith optimize`",
    )


def held_profile(campaign: Campaign) -> tuple[Profile, Bottleneck]:
    """What the profiler saw of the incumbent."""
    for round_ in reversed(campaign.kept):
        if round_.profile is not None and round_.bottleneck is not None:
            return round_.profile, round_.bottleneck
    assert campaign.baseline is not None, "only called after the baseline"
    return campaign.baseline.profile, campaign.baseline.bottleneck


def baseline_error(failure: Failure, target: Target) -> RoofsmithError:
    """The user's own kernel failed, or nobody let it be measured: say how."""
    if failure.reason == "interference":
        return NoIdleGpuError(
            f"the kernel can't be measured: {failure.detail}",
            hint="again when the GPU is left alone, or with another one in CUDA_VISIBLE_DEVICES",
        )
    if failure.reason == "wrong_key":
        return wrong_key(failure)
    if failure.exit_code == MachineError.exit_code:
        return MachineError(f"the kernel can't be measured: {failure.detail}", log=failure.log)
    kind = failure.kind.replace("_", " ")
    hint = "make it build and agree with the reference; `roofsmith kernel check` tries that alone"
    if target.command is not None:  # there is no reference
        hint = "make its own build, test and gate pass (`roofsmith kernel check TARGET`)"
    if failure.reason == "library_call":
        hint = "begin with a kernel that does its own work, or leave out `custom_only`"
    if failure.reason == "input_altered":
        hint = (
            "list what the kernel may change in setup: among `outputs` where it is a result, as "
            "`scratch` where nobody reads it afterwards and the kernel reads none of it first"
        )
    if isinstance(failure, Unstable):  # nothing is known against the kernel
        hint = "begin again when nothing else runs here, or on fewer processors (--threads)"
    return BaselineError(
        f"the kernel can't be the baseline: {kind} ({failure.reason})\n{failure.detail}",
        log=failure.log,
        hint=hint,
    )


def wrong_key(failure: Failure) -> TargetError:
    """Two runs of the unchanged repository have other rows: say of which column."""
    return TargetError(
        f"command.rows: {failure.detail}",
        hint="name columns that are the same in every run of the unchanged repository",
        log=failure.log,
    )


def _what_changed(then: Environment, now: Environment) -> str:
    changes = [
        f"{name}: {old.get(name, 'missing')} -> {new.get(name, 'missing')}"
        for old, new in ((then.tools, now.tools), (then.packages, now.packages))
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    ]
    if then.system != now.system:
        changes.insert(0, f"system: {then.system} -> {now.system}")
    return "environment changed: " + ("; ".join(changes) or "notes only")
