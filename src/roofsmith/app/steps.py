"""One step alone, without a campaign."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pydantic import ValidationError

from roofsmith.analysis.bottleneck import classify as classified
from roofsmith.analysis.scan import library_calls, remarks_on, with_remarks
from roofsmith.analysis.sizes import smallest
from roofsmith.app.canary import canary_builds, require_compiled
from roofsmith.app.clocks import clock_notes
from roofsmith.app.subjects import Subject, candidate_from, target_of
from roofsmith.app.wiring import Workshop, workshop
from roofsmith.config import Settings
from roofsmith.domain.comparison import Judgement
from roofsmith.domain.inspection import Inspection
from roofsmith.domain.kernel import Built, Candidate, Language
from roofsmith.domain.outcome import BuildFailed, Cheated, Passed
from roofsmith.domain.profile import Bottleneck, Profile
from roofsmith.domain.target import KeepPolicy, default_keep
from roofsmith.engine import records
from roofsmith.engine.workbench import changed_signature, with_resources
from roofsmith.errors import BaselineError, UsageError
from roofsmith.ports import Measured, Observer


def judge(
    candidate: Path,
    flags: str | None,
    against: Subject,
    budget_s: float | None,
    settings: Settings,
    observer: Observer,
    *,
    custom_only: bool = False,
    sanitize: bool = False,
    canary: bool = False,
) -> Judgement:
    """Build both kernels; check and time the candidate against the other.

    Args:
        candidate: kernel file.
        flags: of the candidate; None: the default ones.
        against: the incumbent, with reference and workloads.
        budget_s: for the measurements; None: the default policy's.
        settings: where caches are.
        observer: hears what happens.
        custom_only: reject a candidate whose source leaves the work to a library.
        sanitize: have every CUDA candidate that passes run under compute-sanitizer, not only one
            that is faster.
        canary: compile both anew, with a random word that whatever is run must hold.

    Raises:
        UsageError: a file or option is wrong, or the incumbent doesn't build.
    """
    challenger = candidate_from(candidate, flags)
    if canary:
        require_compiled(challenger.language)
    if custom_only and (found := library_calls(challenger)):
        used = Cheated(reason="library_call", detail="; ".join(r.text for r in found))
        return Judgement(outcome=used, verdict="rejected", wall_s=0.0)
    target = target_of(against, _policy(challenger.language, budget_s))
    with workshop(target, settings, observer) as shop:
        if not canary:
            return _judged(shop, challenger, sanitize=sanitize)
        with canary_builds(shop.machine, settings) as builds:
            machine = replace(shop.machine, toolchain=builds.toolchain)
            judgement = _judged(replace(shop, machine=machine), challenger, sanitize=sanitize)
            proof = builds.notes({"candidate": challenger, "incumbent": target.baseline})
            return judgement.model_copy(update={"notes": (*judgement.notes, *proof)})


def _judged(shop: Workshop, challenger: Candidate, *, sanitize: bool) -> Judgement:
    incumbent = _built_incumbent(shop)
    built = _build(shop, challenger)
    if isinstance(built, BuildFailed):
        return Judgement(outcome=built, verdict="rejected", wall_s=0.0)
    if changed := changed_signature(built.signature, incumbent.signature):
        return Judgement(outcome=changed, verdict="rejected", wall_s=0.0)
    judgement = shop.judge.compare(built, incumbent, shop.observer)
    if judgement.verdict == "faster" or (sanitize and isinstance(judgement.outcome, Passed)):
        judgement = records.inspected(judgement, _inspection(shop, built))
    notes = (*judgement.notes, *clock_notes(shop.machine))
    return with_remarks(judgement.model_copy(update={"notes": notes}), challenger)


def check(
    subject: Subject, settings: Settings, observer: Observer, *, sanitize: bool = False
) -> Measured:
    """Build a kernel and check its outputs.

    Args:
        subject: the kernel.
        settings: where caches are.
        observer: hears what happens.
        sanitize: have one that passes run under compute-sanitizer as well.

    Raises:
        UsageError: no sanitizer knows the kernel's language.
    """
    if not sanitize:
        return _checked(subject, settings, observer)
    target = target_of(subject)
    if target.language != "cuda":
        raise UsageError(
            f"--sanitize is for CUDA kernels; {target.kernel.path} is {target.language}",
            hint="for C and C++: build with -fsanitize=address,undefined and run your own tests",
        )
    with workshop(target, settings, observer) as shop:
        built = _build(shop, target.baseline)
        if isinstance(built, BuildFailed):
            return Measured(outcome=built, timings=(), errors=())
        return _inspected(shop, built, _checks(shop, built, observer))


def _inspected(shop: Workshop, built: Built, measured: Measured) -> Measured:
    """What was measured, and what sanitizers say of the same kernel on the smallest workload."""
    inspection = _inspection(shop, built) if isinstance(measured.outcome, Passed) else None
    if inspection is None:
        return measured
    outcome = inspection.failure or measured.outcome
    return replace(measured, outcome=outcome, inspection=inspection)


def _inspection(shop: Workshop, built: Built) -> Inspection | None:
    """What sanitizers say on the smallest workload; None where none knows the kernel's language."""
    if shop.inspector is None:
        return None
    workload = smallest(shop.target, shop.survey.bounds)
    shop.observer.stage("inspect", workload.label)
    return shop.inspector.inspect(built, workload)


def profile(subject: Subject, settings: Settings, observer: Observer) -> tuple[Profile, ...]:
    """Counters of a kernel on every workload.

    Raises:
        BaselineError: it doesn't build.
    """
    with workshop(target_of(subject), settings, observer) as shop:
        return _profiles(shop, _built_incumbent(shop))


def classify(
    subject: Subject, settings: Settings, observer: Observer
) -> tuple[tuple[str, Bottleneck], ...]:
    """What limits a kernel, by workload label.

    Raises:
        BaselineError: it doesn't build, or isn't correct.
    """
    with workshop(target_of(subject), settings, observer) as shop:
        built = _built_incumbent(shop)
        measured = shop.judge.measure(built, observer)
        if not measured.timings:
            raise BaselineError(
                f"{subject.path} can't be timed: {measured.outcome.detail}",
                hint=f"roofsmith check {subject.path}",
            )
        times = {timing.workload: timing.time_s for timing in measured.timings}
        bounds = {bound.workload: bound for bound in shop.survey.bounds}
        return tuple(
            (seen.workload, classified(bounds[label], times[label], seen))
            for label, seen in zip(bounds, _profiles(shop, built), strict=True)
        )


def _checked(subject: Subject, settings: Settings, observer: Observer) -> Measured:
    with workshop(target_of(subject), settings, observer) as shop:
        built = _build(shop, shop.target.baseline)
        if isinstance(built, BuildFailed):
            return Measured(outcome=built, timings=(), errors=())
        return _checks(shop, built, observer)


def _checks(shop: Workshop, built: Built, observer: Observer) -> Measured:
    """Whether a kernel is right, and what the compiler gave it."""
    measured = shop.judge.measure(built, observer, timed=False)
    return replace(
        measured,
        resources=shop.machine.toolchain.resources(built),
        notes=(*remarks_on(shop.target.baseline), *shop.oracle.tolerated().notes()),
    )


def _profiles(shop: Workshop, built: Built) -> tuple[Profile, ...]:
    profiles = []
    for workload in shop.target.workloads:
        shop.observer.stage("profile", workload.label)
        profile = shop.profiler.profile(built, workload)
        profiles.append(with_resources(profile, built, shop.machine.toolchain))
    return tuple(profiles)


def _built_incumbent(shop: Workshop) -> Built:
    built = _build(shop, shop.target.baseline)
    if isinstance(built, Built):
        return built
    raise BaselineError(
        f"{shop.target.kernel.path} doesn't build: {built.detail}",
        log=built.log,
        hint="fix it, or give the right --flags",
    )


def _build(shop: Workshop, candidate: Candidate) -> Built | BuildFailed:
    shop.observer.stage("build", candidate.kernel.path)
    return shop.machine.toolchain.build(candidate)


def _policy(language: Language, budget_s: float | None) -> KeepPolicy:
    policy = default_keep(language)
    if budget_s is None:
        return policy
    try:
        return KeepPolicy(noise_band=policy.noise_band, judge_budget_s=budget_s)
    except ValidationError as error:
        raise UsageError(f"--budget {budget_s}: {error.errors()[0]['msg']}") from error
