"""Evaluates candidates on this machine. A candidate's failure is data."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from roofsmith.domain.campaign import Campaign, Event
from roofsmith.domain.comparison import Judgement, Screening
from roofsmith.domain.diagnosis import Disassembly
from roofsmith.domain.inspection import Inspection
from roofsmith.domain.kernel import Built, Candidate, Language, Signature
from roofsmith.domain.outcome import BuildFailed, Cheated, Outcome, Passed, Unfit, Unstable
from roofsmith.domain.profile import Profile
from roofsmith.domain.target import Target
from roofsmith.domain.transfer import Trace
from roofsmith.domain.workload import Workload
from roofsmith.domain.yardstick import PyTorchBaseline, PyTorchBaselineResult
from roofsmith.errors import DeviceFailedError, MachineError, NoIdleGpuError, RoofsmithError
from roofsmith.evaluator.guard import Guard
from roofsmith.ports import (
    Disassembler,
    Evaluation,
    Inspector,
    Judge,
    Measured,
    Observer,
    Profiler,
    Scope,
    Toolchain,
    Tracer,
)
from roofsmith.result_files import leave
from roofsmith.scratch import filed_log


class CodeRule(Protocol):
    """Decides whose code a candidate may run, where a target demands its own."""

    def before_build(self, candidate: Candidate) -> Cheated | None:
        """What sources and flags leave to a library; None: nothing that shows there."""
        ...

    def after_build(self, built: Built) -> Cheated | None:
        """What the build takes from libraries; None: nothing that counts."""
        ...


def build_all(
    candidates: Sequence[Candidate], toolchain: Toolchain, rule: CodeRule | None
) -> tuple[Built | Unfit, ...]:
    """Compile side by side what a rule has nothing against; outcomes in order.

    Args:
        candidates: what to build.
        toolchain: compiles.
        rule: whose code they may run; None: anybody's.
    """
    if rule is None:
        return toolchain.build_all(candidates)
    refused = [rule.before_build(candidate) for candidate in candidates]
    wanted = [one for one, no in zip(candidates, refused, strict=True) if no is None]
    made = iter(toolchain.build_all(wanted) if wanted else ())
    return tuple(_allowed(next(made), rule) if no is None else no for no in refused)


def build(candidate: Candidate, toolchain: Toolchain, rule: CodeRule | None) -> Built | Unfit:
    """Compile one candidate, as `build_all` does several."""
    if rule is None:
        return toolchain.build(candidate)
    return rule.before_build(candidate) or _allowed(toolchain.build(candidate), rule)


def _allowed(built: Built | Unfit, rule: CodeRule) -> Built | Unfit:
    if not isinstance(built, Built):
        return built
    return rule.after_build(built) or built


@dataclass(frozen=True, slots=True)
class LocalEvaluator:
    """Port `Evaluator`: this machine's tools for one target, one use of the device at a time."""

    target: Target
    observer: Observer
    toolchain: Toolchain
    judge: Judge
    profiler: Profiler
    judge_on: Callable[[tuple[Workload, ...]], Judge] | None = None
    """Like `judge`, of other workloads; None: nothing is held out."""
    yardstick_judge: Judge | None = None
    """Patient with kernels that compile for minutes in every process. None: `judge`."""
    inspector: Inspector | None = None
    """None where nothing can be seen."""
    repeater: Inspector | None = None
    """Sees whether a kernel repeats itself, without any sanitizer. None: `inspector`."""
    tracer: Tracer | None = None
    """Runs steps of training with a candidate; None where none knows how."""
    disassembler: Disassembler | None = None
    """None where nobody can show a kernel's instructions."""
    code_rule: CodeRule | None = None
    """Rejects what libraries do for a candidate; None: they may."""
    guard: Guard = field(default_factory=Guard)
    """Around every use of the device."""
    prepare: Callable[[Sequence[Workload]], None] = lambda _: None
    """Has the reference work ahead for the next judgement, and for a winner on other workloads."""
    kernel: Callable[[], AbstractContextManager[None]] = nullcontext
    """The stopwatch that counts the time inside as kernel time."""
    logs: Path | None = None
    """Takes what kernels printed that died; None: it stays in the temporary folder for a week."""
    left: Path | None = None
    """Takes logs of builds and of kernels that died, in a folder for each candidate."""
    code_of: Callable[[Built], str | None] = lambda _: None
    """Hash of what a build runs; None where builds of several settings are never alike."""
    screened: dict[tuple[object, ...], tuple[set[str], Screening]] = field(
        default_factory=dict, repr=False
    )
    """Candidates that passed a look beside an incumbent, by what they run."""
    announced: set[str] = field(default_factory=set, repr=False)
    """Candidates whose build the observer has heard of; later ones come from a cache."""

    def evaluate(
        self, candidate: Candidate, incumbent: Candidate | None, scope: Scope
    ) -> Evaluation:
        """Build a candidate, then see what the scope asks for, in the order of its fields.

        A GPU that fails the reference is given one more chance: its driver may have reset it. The
        reference's process was ended with the failure, and starts anew when it is asked.
        """
        with self.kernel():
            try:
                return self._evaluated(candidate, incumbent, scope)
            except DeviceFailedError as error:
                self.observer.stage("once more", f"the GPU failed: {error.message}")
                return self._evaluated(candidate, incumbent, scope)

    def side_by_side(self, language: Language) -> int:
        return self.toolchain.side_by_side(language)

    def build_all(self, candidates: Sequence[Candidate]) -> tuple[Unfit | None, ...]:
        """Build several side by side; nothing is measured meanwhile."""
        paths = dict.fromkeys(candidate.kernel.path for candidate in candidates)
        several = f" ({len(candidates)} side by side)" if len(candidates) > 1 else ""
        self.observer.stage("build", f"{', '.join(paths)}{several}")
        self.announced.update(candidate.id for candidate in candidates)
        with self.kernel():
            made = build_all(candidates, self.toolchain, self.code_rule)
        return tuple(None if isinstance(one, Built) else one for one in made)

    def screen(self, candidate: Candidate, incumbent: Candidate) -> Screening:
        """A first look at what runs as another candidate does is that one's look."""
        with self.kernel():
            built = self._build(candidate)
            if not isinstance(built, Built):
                return Screening(outcome=built, speedup=None)
            holder = self._rebuild(incumbent)
            if changed := changed_signature(built.signature, holder.signature):
                return Screening(outcome=changed, speedup=None)
            code = self.code_of(built)
            key = (holder.candidate_id, code, *sorted(built.environment.items()))
            ids, known = self.screened.get(key, (set[str](), None))
            if known is not None and candidate.id not in ids:
                ids.add(candidate.id)
                return known
            screening = self.guard.screened(lambda: self.judge.screen(built, holder))
            if code is not None and screening.outcome == Passed():
                self.screened[key] = ({*ids, candidate.id}, screening)
            return screening.model_copy(update={"outcome": self._filed(screening.outcome, built)})

    def _evaluated(
        self, candidate: Candidate, incumbent: Candidate | None, scope: Scope
    ) -> Evaluation:
        built = self._rebuild(candidate) if scope.built_before else self._build(candidate)
        if built.log is not None:
            leave(self.left, candidate.id, "build.log", built.log)
        if not isinstance(built, Built):
            return Evaluation.unbuilt(built)
        judgement = self._compare(built, incumbent, scope) if incumbent is not None else None
        measured = self._measure(built, scope) if scope.alone else None
        yardsticks = self._measure_yardsticks(built, scope)
        profile = self._profile(built, scope.profile) if scope.profile else None
        return Evaluation(
            signature=built.signature,
            notes=built.notes,
            judgement=judgement,
            measured=measured,
            yardsticks=yardsticks,
            profile=profile,
            disassembly=self._disassemble(built, scope.disassemble) if scope.disassemble else None,
            inspection=self._inspect(built, scope) if scope.inspect else None,
            trace=self._trace(built, scope, scope.trace) if scope.trace else None,
            resources=self.toolchain.resources(built),  # Triton's are known once it was called
        )

    def _build(self, candidate: Candidate) -> Built | Unfit:
        """Compile what the target's rule of custom code allows, and say so the first time."""
        if candidate.id not in self.announced:
            self.announced.add(candidate.id)
            self.observer.stage("build", candidate.kernel.path)
        return build(candidate, self.toolchain, self.code_rule)

    def _rebuild(self, incumbent: Candidate) -> Built:
        """The incumbent from the toolchain's cache, which has to know what is still in use."""
        built = self.toolchain.build(incumbent)
        if isinstance(built, Built):
            return built
        raise MachineError(
            f"the incumbent {incumbent.id} was built before and doesn't build now: {built.detail}",
            log=built.log,
            hint="see whether the compiler changed (`roofsmith doctor`), then resume",
        )

    def _compare(self, built: Built, incumbent: Candidate, scope: Scope) -> Judgement:
        holder = self._rebuild(incumbent)
        if changed := changed_signature(built.signature, holder.signature):
            return Judgement(outcome=changed, verdict="rejected", wall_s=0.0)
        on = scope if scope.classes or scope.glance else None
        judge, observer = self._judge(scope)
        found = self.guard.compared(lambda: judge.compare(built, holder, observer, on))
        found = found.model_copy(update={"outcome": self._filed(found.outcome, built)})
        if not isinstance(found.outcome, Passed) or scope.quick:
            return found
        if (failure := self._wrong_unscored(built, scope)) is None:
            return found
        return found.model_copy(update={"outcome": failure, "verdict": "rejected"})

    def _measure(self, built: Built, scope: Scope) -> Measured:
        judge, observer = self._judge(scope)
        timed = scope.alone == "time"
        found = self.guard.measured(
            lambda: judge.measure(built, observer, timed=timed), timed=timed
        )
        if not isinstance(found.outcome, Passed):
            return replace(found, outcome=self._filed(found.outcome, built))
        return replace(found, outcome=self._wrong_unscored(built, scope) or found.outcome)

    def _wrong_unscored(self, built: Built, scope: Scope) -> Outcome | None:
        """What is wrong on the workloads that are checked alone; None: nothing, or there are none.

        Where others are held out, it was or will be seen elsewhere.
        """
        unscored = self.target.unscored
        if not unscored or scope.held_out:
            return None
        assert self.judge_on is not None, "a target with such has a reference"
        judge = self.judge_on(unscored)
        found = self.guard.measured(
            lambda: judge.measure(built, self.observer, timed=False), timed=False
        )
        return None if isinstance(found.outcome, Passed) else self._filed(found.outcome, built)

    def _filed(self, outcome: Outcome, built: Built) -> Outcome:
        """The same, with what the kernel printed where it stays."""
        if isinstance(outcome, Passed) or outcome.log is None:
            return outcome
        leave(self.left, built.candidate_id, "candidate.log", outcome.log)
        if self.logs is None:
            return outcome
        return outcome.model_copy(update={"log": filed_log(outcome.log, self.logs)})

    def _judge(self, scope: Scope) -> tuple[Judge, Observer]:
        """Of the target's workloads; or of held-out ones, whose names nobody hears."""
        if not scope.held_out:
            return self.judge, self.observer
        assert self.judge_on is not None, "there is nothing held out"
        return self.judge_on(scope.held_out), Unheard()

    def _measure_yardsticks(self, built: Built, scope: Scope) -> tuple[PyTorchBaselineResult, ...]:
        judge, on = self.yardstick_judge or self.judge, scope if scope.classes else None
        return measure_yardsticks(
            scope.yardsticks, self.toolchain, self.observer,
            lambda one: self.guard.compared(lambda: judge.compare(one, built, self.observer, on)),
        )  # fmt: skip

    def _profile(self, built: Built, workload: Workload) -> Profile:
        """Counters, and what the compiler gave each kernel; of Triton that is known by now."""
        self.observer.stage("profile", workload.label)
        profile = self.guard.profiled(lambda: self.profiler.profile(built, workload))
        notes = (*profile.notes, *built.notes)
        update = {"resources": self.toolchain.resources(built), "notes": notes}
        return profile.model_copy(update=update)

    def _disassemble(self, built: Built, profile: Profile) -> Disassembly:
        if self.disassembler is None:
            return Disassembly(tool=None, missing=("nobody disassembles kernels of this language",))
        self.observer.stage("disassemble", profile.workload)
        workload = self.target.workload(profile.workload)
        return self.disassembler(built, workload, profile)

    def _inspect(self, built: Built, scope: Scope) -> Inspection | None:
        inspector = self.inspector if scope.sanitize else self.repeater or self.inspector
        if inspector is None or scope.inspect is None:
            return None
        self.observer.stage("inspect", scope.inspect.label)
        with self.guard.passed():
            return inspector(built, scope.inspect)

    def _trace(self, built: Built, scope: Scope, workload: Workload) -> Trace | str:
        if self.tracer is None:
            return "nothing here runs steps with a kernel of this kind"
        self.observer.stage("trace", workload.label)
        with self.guard.passed():
            return self.tracer(built, workload, scope.kept_values)


class Unheard:
    """Port `Observer`: tells nobody."""

    def stage(self, name: str, detail: str = "") -> None:
        """Nothing."""

    def progress(self, fraction: float, detail: str = "") -> None:
        """Nothing."""

    def event(self, event: Event, campaign: Campaign) -> None:
        """Nothing."""


def changed_signature(candidate: Signature, incumbent: Signature) -> BuildFailed | None:
    """The failed build that a candidate with other parameters amounts to; None if they agree."""
    if _shape(candidate) == _shape(incumbent):
        return None
    return BuildFailed(
        reason="signature_changed",
        detail=f"solve takes ({_spell(candidate)}), but the campaign calls ({_spell(incumbent)})",
    )


def _shape(signature: Signature) -> tuple[tuple[bool, str], ...]:
    """What must not change: arrays, numbers and their types in order. Names may, and so may
    `const`: the call is the same, and what is written where is seen in the arrays."""
    return tuple((p.role == "size", p.dtype) for p in signature.parameters)


def _spell(signature: Signature) -> str:
    return ", ".join(
        f"{'number' if p.role == 'size' else 'array'} {p.dtype} {p.name}"
        for p in signature.parameters
    )


def measure_yardsticks(
    yardsticks: Iterable[PyTorchBaseline],
    toolchain: Toolchain,
    observer: Observer,
    compare: Callable[[Built], Judgement],
) -> tuple[PyTorchBaselineResult, ...]:
    """Judge every yardstick as a candidate; whatever goes wrong with one is its result.

    Args:
        yardsticks: to judge.
        toolchain: builds them.
        observer: hears which is next.
        compare: judges a build against the kernel that yardsticks are measured beside.

    Raises:
        NoIdleGpuError: there is no GPU to measure on.
    """
    results = []
    for yardstick in yardsticks:
        observer.stage("yardstick", yardstick.name)
        results.append(
            PyTorchBaselineResult(
                name=yardstick.name,
                calls=yardstick.calls,
                candidate_id=yardstick.candidate.id,
                judgement=_judged(yardstick, toolchain, compare),
            )
        )
    return tuple(results)


def _judged(
    yardstick: PyTorchBaseline, toolchain: Toolchain, compare: Callable[[Built], Judgement]
) -> Judgement:
    begin = time.monotonic()
    try:
        built = toolchain.build(yardstick.candidate)
        if isinstance(built, BuildFailed):
            return Judgement(outcome=built, verdict="rejected", wall_s=time.monotonic() - begin)
        return compare(built)
    except NoIdleGpuError:
        raise
    except RoofsmithError as error:
        failure = Unstable(reason="not_judged", detail=error.message, log=error.log)
        return Judgement(outcome=failure, verdict="rejected", wall_s=time.monotonic() - begin)
