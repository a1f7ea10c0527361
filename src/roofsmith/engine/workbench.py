"""Builds, judges and profiles candidates for one campaign. A candidate's failure is data."""

from __future__ import annotations

from collections.abc import Sequence

from roofsmith.domain.comparison import Judgement, Screening
from roofsmith.domain.diagnosis import Disassembly
from roofsmith.domain.inspection import Inspection
from roofsmith.domain.kernel import Built, Candidate, Language, Signature
from roofsmith.domain.outcome import BuildFailed, Unfit
from roofsmith.domain.profile import Profile
from roofsmith.domain.transfer import KeptValue, Trace
from roofsmith.domain.workload import Workload
from roofsmith.domain.yardstick import YardstickResult
from roofsmith.engine.building import build, build_all
from roofsmith.engine.meter import Meter
from roofsmith.engine.yardsticks import measure_yardsticks
from roofsmith.errors import MachineError
from roofsmith.ports import Measured, Parts, Scope, Toolchain


class Workbench:
    """The tools, with account kept of the time that kernels take."""

    def __init__(self, parts: Parts, meter: Meter) -> None:
        self._parts = parts
        self._meter = meter

    def build(self, candidate: Candidate) -> Built | Unfit:
        """Compile what the target's rule of custom code allows, and say so."""
        self._parts.observer.stage("build", candidate.kernel.path)
        with self._meter.kernel():
            return build(candidate, self._parts.toolchain, self._parts.code_rule)

    def build_all(self, candidates: Sequence[Candidate]) -> tuple[Built | Unfit, ...]:
        """The same side by side; outcomes in order."""
        paths = dict.fromkeys(candidate.kernel.path for candidate in candidates)
        several = f" ({len(candidates)} side by side)" if len(candidates) > 1 else ""
        self._parts.observer.stage("build", f"{', '.join(paths)}{several}")
        with self._meter.kernel():
            return build_all(candidates, self._parts.toolchain, self._parts.code_rule)

    def side_by_side(self, language: Language) -> int:
        """How many candidates are built at the same time."""
        return self._parts.toolchain.side_by_side(language)

    def rebuild(self, candidate: Candidate) -> Built:
        """The build of what was built before, from the toolchain's cache.

        The toolchain is asked every time, so that it knows what is still in use.

        Raises:
            MachineError: it doesn't build any more: the machine changed under the campaign.
        """
        with self._meter.kernel():
            built = self._parts.toolchain.build(candidate)
        if isinstance(built, Built):
            return built
        raise MachineError(
            f"the incumbent {candidate.id} was built before and doesn't build now: {built.detail}",
            log=built.log,
            hint="see whether the compiler changed (`roofsmith doctor`), then resume",
        )

    def measure(self, built: Built) -> Measured:
        """Check a kernel and time it on its own."""
        with self._meter.kernel():
            return self._parts.judge.measure(built, self._parts.observer)

    def judge(self, built: Built | Unfit, incumbent: Candidate, scope: Scope) -> Judgement:
        """Check and time a candidate against the incumbent."""
        if not isinstance(built, Built):
            return Judgement(outcome=built, verdict="rejected", wall_s=0.0)
        holder = self.rebuild(incumbent)
        if changed := changed_signature(built.signature, holder.signature):
            return Judgement(outcome=changed, verdict="rejected", wall_s=0.0)
        with self._meter.kernel():
            return self._parts.judge.compare(built, holder, self._parts.observer, scope)

    def measure_yardsticks(self, kernel: Built, scope: Scope) -> tuple[YardstickResult, ...]:
        """Judge every yardstick against a kernel."""
        parts = self._parts
        judge = parts.yardstick_judge or parts.judge
        with self._meter.kernel():
            return measure_yardsticks(
                parts.yardsticks, kernel, parts.toolchain, judge, parts.observer, scope
            )

    def profile(self, built: Built, workload: Workload) -> Profile:
        """Counters of a kernel on one workload, and what the compiler gave it."""
        self._parts.observer.stage("profile", workload.label)
        with self._meter.kernel():
            profile = self._parts.profiler.profile(built, workload)
        return with_resources(profile, built, self._parts.toolchain)

    def disassemble(self, built: Built, workload: Workload, profile: Profile) -> Disassembly:
        """The instructions of a kernel's hot loops; where nobody can tell, that is the answer."""
        if self._parts.disassembler is None:
            return Disassembly(tool=None, missing=("nobody disassembles kernels of this language",))
        self._parts.observer.stage("disassemble", workload.label)
        with self._meter.kernel():
            return self._parts.disassembler.disassemble(built, workload, profile)

    def inspect(self, built: Built, workload: Workload) -> Inspection | None:
        """What sanitizers find in one call of a kernel; None where there is no inspector."""
        if self._parts.inspector is None:
            return None
        self._parts.observer.stage("inspect", workload.label)
        with self._meter.kernel():
            return self._parts.inspector.inspect(built, workload)

    def trace(
        self, built: Built, workload: Workload, kept_values: Sequence[KeptValue]
    ) -> Trace | str:
        """Some steps of training with a kernel; why not, where nobody can run them."""
        if self._parts.tracer is None:
            return "nothing here runs steps with a kernel of this kind"
        self._parts.observer.stage("trace", workload.label)
        with self._meter.kernel():
            return self._parts.tracer.trace(built, workload, kept_values)

    def screen(self, built: Built | Unfit, incumbent: Candidate, label: str) -> Screening:
        """A cheap look at a candidate beside the incumbent."""
        self._parts.observer.stage("screen", label)
        if not isinstance(built, Built):
            return Screening(outcome=built, speedup=None)
        holder = self.rebuild(incumbent)
        if changed := changed_signature(built.signature, holder.signature):
            return Screening(outcome=changed, speedup=None)
        with self._meter.kernel():
            return self._parts.judge.screen(built, holder)


def with_resources(profile: Profile, built: Built, toolchain: Toolchain) -> Profile:
    """The profile, with what the compiler gave each kernel; of Triton that is known by now."""
    notes = (*profile.notes, *built.notes)
    return profile.model_copy(update={"resources": toolchain.resources(built), "notes": notes})


def changed_signature(candidate: Signature, incumbent: Signature) -> BuildFailed | None:
    """The failed build that a candidate with other parameters amounts to; None if they agree."""
    if _shape(candidate) == _shape(incumbent):
        return None
    return BuildFailed(
        reason="signature_changed",
        detail=f"solve takes ({_spell(candidate)}), but the campaign calls ({_spell(incumbent)})",
    )


def _shape(signature: Signature) -> tuple[tuple[bool, str], ...]:
    """What must not change: arrays, sizes and their types in order. Names may, and so may `const`:
    the call is the same, and what is written where is seen in the arrays."""
    return tuple((p.role == "size", p.dtype) for p in signature.parameters)


def _spell(signature: Signature) -> str:
    return ", ".join(
        f"{'size' if p.role == 'size' else 'array'} {p.dtype} {p.name}"
        for p in signature.parameters
    )
