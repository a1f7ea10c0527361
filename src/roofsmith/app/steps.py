"""One step alone, without a campaign."""

from __future__ import annotations

import shlex
from dataclasses import replace

from roofsmith.analysis.bottleneck import classify as classified
from roofsmith.analysis.scan import remarks_on
from roofsmith.app.subjects import Subject, target_of
from roofsmith.app.wiring import Workshop, workshop
from roofsmith.config import Settings
from roofsmith.domain.kernel import Built
from roofsmith.domain.outcome import BuildFailed, Passed
from roofsmith.domain.profile import Bottleneck, Profile
from roofsmith.engine.workbench import with_resources
from roofsmith.errors import BaselineError, UsageError
from roofsmith.ports import Measured, Observer


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
        built = shop.build(target.baseline)
        if isinstance(built, BuildFailed):
            return Measured(outcome=built, timings=(), errors=())
        return _inspected(shop, built, _checks(shop, built, observer))


def _inspected(shop: Workshop, built: Built, measured: Measured) -> Measured:
    """What was measured, and what sanitizers say of the same kernel on the smallest workload."""
    inspection = shop.inspect(built) if isinstance(measured.outcome, Passed) else None
    if inspection is None:
        return measured
    outcome = inspection.failure or measured.outcome
    return replace(measured, outcome=outcome, inspection=inspection)


def profile(subject: Subject, settings: Settings, observer: Observer) -> tuple[Profile, ...]:
    """Counters of a kernel on every workload.

    Raises:
        BaselineError: it doesn't build.
    """
    with workshop(target_of(subject), settings, observer) as shop:
        return _profiles(shop, shop.built_baseline())


def classify(
    subject: Subject, settings: Settings, observer: Observer
) -> tuple[tuple[str, Bottleneck], ...]:
    """What limits a kernel, by workload label.

    Raises:
        BaselineError: it doesn't build, or isn't correct.
    """
    with workshop(target_of(subject), settings, observer) as shop:
        built = shop.built_baseline()
        measured = shop.judge.measure(built, observer)
        if not measured.timings:
            raise BaselineError(
                f"{subject.path} can't be timed: {measured.outcome.detail}",
                hint=f"roofsmith check {shlex.quote(str(subject.path))}",
            )
        times = {timing.workload: timing.time_s for timing in measured.timings}
        bounds = {bound.workload: bound for bound in shop.survey.bounds}
        return tuple(
            (seen.workload, classified(bounds[label], times[label], seen))
            for label, seen in zip(bounds, _profiles(shop, built), strict=True)
        )


def _checked(subject: Subject, settings: Settings, observer: Observer) -> Measured:
    with workshop(target_of(subject), settings, observer) as shop:
        built = shop.build(shop.target.baseline)
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
