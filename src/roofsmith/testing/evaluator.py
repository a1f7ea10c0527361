"""The suite that every evaluator passes; the fake one is `FakeWorld.evaluator`, over fake tools."""

from __future__ import annotations

import pickle
from dataclasses import fields

from roofsmith.domain.kernel import Candidate
from roofsmith.domain.outcome import BuildFailed, Passed
from roofsmith.domain.target import Target
from roofsmith.domain.workload import ConfigClass, Workload
from roofsmith.ports import Evaluation, Evaluator, Measured, Scope, required
from roofsmith.testing.toolchain import SCALE


class EvaluatorConformance:
    """What the engine relies on. Subclass it with a pytest fixture named `evaluator`.

    The evaluator is of a target whose kernel is `SCALE`, and has neither inspector nor code rule.
    Override `target` for another one of that kind.
    """

    def target(self) -> Target:
        raise NotImplementedError

    def candidate(self, note: str = "another") -> Candidate:
        return self.target().baseline.with_kernel_text(f"/* {note} */\n{SCALE}")

    def broken(self) -> Candidate:
        """A kernel that has no entry."""
        return self.target().baseline.with_kernel_text("int helper(int n) { return n; }\n")

    def renamed(self) -> Candidate:
        """A kernel that takes its size in another type."""
        text = SCALE.replace("int n)", "long n)")
        return self.target().baseline.with_kernel_text(text)

    @property
    def _workload(self) -> Workload:
        return self.target().workloads[0]

    def test_an_empty_scope_builds_and_looks_at_nothing(self, evaluator: Evaluator) -> None:
        """What the build says is all there is."""
        found = evaluator.evaluate(self.candidate(), None, Scope())
        assert found.signature is not None
        known = Evaluation(signature=found.signature, notes=found.notes, resources=found.resources)
        assert found == known

    def test_it_checks_and_times_a_kernel_alone(self, evaluator: Evaluator) -> None:
        """Times come only where they are asked for, one of each workload."""
        checked, timed = (
            required(evaluator.evaluate(self.candidate(), None, scope).measured)
            for scope in (Scope(alone="check"), Scope(alone="time"))
        )
        assert (checked.outcome, checked.timings) == (Passed(), ())
        labels = {workload.label for workload in self.target().workloads}
        assert {timing.workload for timing in timed.timings} == labels

    def test_beside_an_incumbent_a_candidate_is_judged(self, evaluator: Evaluator) -> None:
        """On the classes of the scope, and on nothing else."""
        one = ConfigClass(name="one", workloads=(self._workload.label,), reason="a test")
        scope = Scope((one,), quick=True)
        found = evaluator.evaluate(self.candidate(), self.target().baseline, scope)
        judgement = required(found.judgement)
        assert judgement.outcome == Passed()
        assert {sample.workload for sample in judgement.samples} == {self._workload.label}
        assert found.measured is None

    def test_what_does_not_build_is_data(self, evaluator: Evaluator) -> None:
        """Judged, measured and screened as that."""
        baseline = self.target().baseline
        found = evaluator.evaluate(self.broken(), baseline, Scope(alone="check"))
        assert found.failure is not None
        assert found.failure.reason == "no_entry"
        assert required(found.judgement).outcome == found.failure
        assert required(found.judgement).verdict == "rejected"
        assert found.measured == Measured(outcome=found.failure, timings=(), errors=())
        assert evaluator.screen(self.broken(), baseline).outcome == found.failure

    def test_other_parameters_are_a_failed_build(self, evaluator: Evaluator) -> None:
        """Nobody calls what can't be called as the incumbent is."""
        baseline = self.target().baseline
        found = evaluator.evaluate(self.renamed(), baseline, Scope())
        seen = evaluator.screen(self.renamed(), baseline)
        for outcome in (required(found.judgement).outcome, seen.outcome):
            assert isinstance(outcome, BuildFailed)
            assert outcome.reason == "signature_changed"

    def test_it_profiles_on_the_workload_that_was_asked_for(self, evaluator: Evaluator) -> None:
        """A tool that is missing is a note in the profile."""
        found = evaluator.evaluate(self.candidate(), None, Scope(profile=self._workload))
        assert required(found.profile).workload == self._workload.label
        assert (found.judgement, found.measured) == (None, None)

    def test_what_nobody_can_see_is_said(self, evaluator: Evaluator) -> None:
        """Without an inspector there is no inspection."""
        found = evaluator.evaluate(self.candidate(), None, Scope(inspect=self._workload))
        assert found.inspection is None

    def test_several_are_built_in_their_order(self, evaluator: Evaluator) -> None:
        """Each says for itself why it doesn't count."""
        assert evaluator.side_by_side(self.target().language) >= 1
        wanted = (self.candidate("first"), self.broken(), self.candidate("third"))
        assert [no is None for no in evaluator.build_all(wanted)] == [True, False, True]

    def test_a_look_ranks(self, evaluator: Evaluator) -> None:
        """It gives a ratio of a candidate that passes."""
        found = evaluator.screen(self.candidate(), self.target().baseline)
        assert found.outcome == Passed()
        assert found.speedup is not None
        assert found.speedup > 0

    def test_all_that_comes_out_can_travel(self, evaluator: Evaluator) -> None:
        """Another process may have measured it."""
        scope = Scope(alone="time", profile=self._workload)
        found = evaluator.evaluate(self.candidate(), self.target().baseline, scope)
        again = pickle.loads(pickle.dumps((scope, found)))
        assert again == (scope, found)
        assert {field.name for field in fields(found) if getattr(found, field.name)} >= {
            "signature", "judgement", "measured", "profile"
        }  # fmt: skip
