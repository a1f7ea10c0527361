"""One step alone, without a campaign."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from roofsmith.analysis.bottleneck import classify as classified
from roofsmith.analysis.cost import unsaid_operations
from roofsmith.analysis.scan.sources import remarks_on
from roofsmith.api.computing import computed
from roofsmith.api.first_try import fused, unfused
from roofsmith.api.own_draws import beyond_notes
from roofsmith.api.subjects import target_of
from roofsmith.api.system_clock import SystemClock
from roofsmith.api.wiring import OpenTarget, open_target
from roofsmith.config import Settings
from roofsmith.domain.bound import CeilingKind
from roofsmith.domain.inspection import Inspection
from roofsmith.domain.kernel import MODULE_LANGUAGES, Language
from roofsmith.domain.options import Subject
from roofsmith.domain.outcome import Crashed, Incorrect, Outcome, Passed
from roofsmith.domain.profile import Bottleneck, Profile
from roofsmith.domain.target import HOST_LANGUAGES, Goal, Target
from roofsmith.engine.meter import Meter
from roofsmith.engine.survey import Survey, survey
from roofsmith.errors import BaselineError, UsageError
from roofsmith.judge.host.oracle import ReferenceOracle
from roofsmith.ports import Measured, Observer, Scope, required
from roofsmith.report.roofline_chart import roofline_svg
from roofsmith.specs.unplugged import ShapesOracle, Unplugged
from roofsmith.specs.wiki import Wiki
from roofsmith.toolchains.dispatch import Toolchains

_ON_HOST = "build with -fsanitize=address,undefined and run your own tests"
_INSTEAD: Mapping[Language, str] = {
    **dict.fromkeys(
        MODULE_LANGUAGES,
        "--repeats sees whether it is deterministic; what goes out of"
        " bounds, `compute-sanitizer python` around a script of your own that calls it",
    ),
    "hip": "--repeats sees whether it is deterministic; what goes out of bounds, a build of your "
    "own with hipcc -fsanitize=address",
}
"""What to try where compute-sanitizer can't be asked for."""


def check(
    subject: Subject,
    settings: Settings,
    observer: Observer,
    *,
    sanitize: bool = False,
    repeats: bool = False,
) -> Measured:
    """Build a kernel and check its outputs.

    Args:
        subject: the kernel.
        settings: where caches are.
        observer: hears what happens.
        sanitize: have it run under compute-sanitizer as well, also one that is wrong or crashes.
        repeats: have it run twice, to see whether it is deterministic; who asks for sanitizers
            gets that, too.

    Raises:
        UsageError: the kernel's language doesn't go with what is asked for.
    """
    target = target_of(subject)
    if sanitize and target.language != "cuda":
        raise UsageError(
            f"--sanitize is for CUDA kernels; {target.kernel.path} is {target.language}",
            hint=_INSTEAD.get(target.language, _ON_HOST),
        )
    if repeats and (target.language in HOST_LANGUAGES or target.command is not None):
        raise UsageError(
            f"--repeats is for GPU kernels; {target.kernel.path} is {target.language}",
            hint="every check compares what the kernel makes of several inputs with the truth",
        )
    with open_target(target, settings, observer) as opened:
        drawn = opened.draw_notes()
        found = opened.evaluator.evaluate(opened.target.baseline, None, Scope(alone="check"))
        measured = required(found.measured)
        if found.failure is not None:
            return measured
        remarks = (*remarks_on(target.baseline), *opened.size_notes(measured.outcome))
        measured = replace(
            measured,
            resources=found.resources,
            notes=(
                *found.notes,
                *remarks,
                *drawn,
                *(beyond_notes(measured.errors) if isinstance(measured.outcome, Passed) else ()),
                *_where_right(opened, measured.outcome),
                *opened.oracle.tolerated().notes(),
            ),
        )
        if not sanitize and not repeats:
            return measured
        again = Scope(inspect=opened.smallest, sanitize=sanitize)
        evaluate = partial(opened.evaluator.evaluate, opened.target.baseline, None, again)
        return inspected(measured, lambda: evaluate().inspection)


def _where_right(opened: OpenTarget, outcome: Outcome) -> Iterator[str]:
    """That a kernel which is wrong as it is built is right without fused multiply-adds."""
    arrays = [a for found in opened.survey.descriptions.values() for a in found.arrays]
    other = unfused(opened.target.baseline, outcome, arrays)
    if other is not None:
        found = opened.evaluator.evaluate(other, None, Scope(alone="check"))
        if found.failure is None and isinstance(required(found.measured).outcome, Passed):
            yield fused(other)


def inspected(measured: Measured, inspect: Callable[[], Inspection | None]) -> Measured:
    """What was measured, and what an inspector says of the same kernel.

    It is asked of one that is wrong or crashes, too: there it says why, and what that is called
    stays what it was. One that hung would hang again under every tool.
    """
    outcome = measured.outcome
    if not isinstance(outcome, Passed | Incorrect | Crashed) or (found := inspect()) is None:
        return measured
    if isinstance(outcome, Passed) and found.failure is not None:
        outcome = found.failure
    return replace(measured, outcome=outcome, inspection=found)


def profile(subject: Subject, settings: Settings, observer: Observer) -> tuple[Profile, ...]:
    """Counters of a kernel on every workload.

    Raises:
        BaselineError: it doesn't build.
    """
    with open_target(target_of(subject), settings, observer) as opened:
        return _profiles(opened)


def classify(
    subject: Subject, settings: Settings, observer: Observer
) -> tuple[tuple[str, Bottleneck], ...]:
    """What limits a kernel, by workload label.

    Raises:
        BaselineError: it doesn't build, or isn't correct.
    """
    with open_target(target_of(subject), settings, observer, reads=True) as opened:
        measured = required(opened.evaluate_baseline(Scope(alone="time")).measured)
        if not measured.timings:
            raise BaselineError(
                f"{subject.path} can't be timed: {measured.outcome.detail}",
                hint=f"roofsmith kernel check {shlex.quote(str(subject.path))}",
            )
        times = {timing.workload: timing.time_s for timing in measured.timings}
        bounds = {bound.workload: bound for bound in opened.survey.bounds}
        return tuple(
            (seen.workload, _told(classified(bounds[label], times[label], seen), opened))
            for label, seen in zip(bounds, _profiles(opened), strict=True)
        )


def _told(found: Bottleneck, opened: OpenTarget) -> Bottleneck:
    if not any(bound.bytes_only for bound in opened.survey.bounds):
        return found
    evidence = (*found.evidence, unsaid_operations(opened.target))
    return found.model_copy(update={"evidence": evidence})


def _profiles(opened: OpenTarget) -> tuple[Profile, ...]:
    return tuple(
        required(opened.evaluate_baseline(Scope(profile=workload)).profile)
        for workload in opened.target.workloads
    )


@dataclass(frozen=True, slots=True)
class Roofline:
    """The bounds of a target's workloads, and what the target wants of them."""

    survey: Survey
    goal: Goal
    ceilings: CeilingKind
    """That floor and goal are to stand on, where there are any of the kind."""
    unsaid: str = ""
    """What to add where floors count bytes alone."""
    on_paper: Target | None = None
    """The target, where its device isn't plugged in: all figures are cited ones then."""

    @property
    def drawing(self) -> str:
        """The roofline as SVG."""
        return roofline_svg(self.survey.bounds, self.survey.environment.device.name)


def roofline(
    subject: Subject, settings: Settings, observer: Observer, platform: str | None = None
) -> Roofline:
    """Identify the machine, look up its ceilings, and compute every workload's bound.

    Args:
        subject: the kernel.
        settings: where caches are.
        observer: hears what happens.
        platform: a product that needn't be here, in place of this machine: its page has the word.

    Raises:
        UnknownNameError: no page has the platform's name; the hint has similar ones.
        AmbiguousNameError: several products share it.
    """
    target = target_of(subject)
    unsaid = unsaid_operations(target)
    if platform is not None:
        cited = target.model_copy(update={"ceilings": "datasheet"})
        found = survey_on_paper(cited, platform, settings, observer)
        return Roofline(found, target.goal, "datasheet", unsaid, on_paper=cited)
    with open_target(target, settings, observer, reads=True) as opened:
        return Roofline(opened.survey, target.goal, target.ceilings, unsaid)


def survey_on_paper(
    target: Target, platform: str, settings: Settings, observer: Observer
) -> Survey:
    """What is known of a target on a product; nothing is built, measured or leased.

    Raises:
        UnknownNameError: no page has the platform's name; the hint has similar ones.
        AmbiguousNameError: several products share it.
        UsageError: a repository's workloads are known only once it ran.
    """
    named = settings.reading(target.gpu_wiki)
    wiki = Wiki.load(named.own_pages(), named.gpu_wiki)
    page = wiki.page(platform)
    if target.command is not None:
        raise UsageError(
            f"--platform is for kernels; {target.name} is a repository, whose workloads are what"
            " its benchmark prints",
            hint=f"run it where a {page.product} is plugged in, without --platform",
        )
    device = Unplugged(page, wiki.stated(page))
    toolchains = Toolchains(settings.builds_dir)
    signature = toolchains.signature(target.baseline)
    oracle = ReferenceOracle if target.language in HOST_LANGUAGES else ShapesOracle
    with oracle(target, signature) as opened:
        meter = Meter(SystemClock())
        found = survey(target, device, device, toolchains, opened, observer, meter, computed)
    bounds = (bound.model_copy(update={"measured": None}) for bound in found.bounds)
    return replace(found, bounds=tuple(bounds))
