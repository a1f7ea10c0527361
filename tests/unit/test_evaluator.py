"""Evaluators: the one over fake tools, and the real one with gcc and the real judge."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from roofsmith.domain.kernel import Candidate, Signature, SourceFile
from roofsmith.domain.outcome import BuildFailed, Cheated, Passed
from roofsmith.domain.target import KeepPolicy, Target
from roofsmith.domain.workload import Workload
from roofsmith.engine.meter import Meter
from roofsmith.errors import MachineError
from roofsmith.evaluator.local import LocalEvaluator
from roofsmith.judge.host.lineup import HostBench
from roofsmith.judge.host.oracle import ReferenceOracle
from roofsmith.judge.host.runner import WorkerRunner
from roofsmith.judge.parent import ProcessJudge
from roofsmith.ports import Scope, required
from roofsmith.profilers.cpu import CpuProfiler
from roofsmith.profilers.watching import Watcher
from roofsmith.testing.engine import FakeWorld, _declared_classes, fake_target
from roofsmith.testing.evaluator import EvaluatorConformance
from roofsmith.testing.inspector import FakeInspector
from roofsmith.testing.judge import FakeKernels
from roofsmith.testing.observer import SilentObserver
from roofsmith.testing.toolchain import SCALE, FakeToolchain
from roofsmith.testing.tracer import FakeTracer
from roofsmith.toolchains.c import CToolchain

REFERENCE = """\
import numpy as np


def setup(n, seed=0):
    x = np.random.default_rng(seed).standard_normal(n, dtype=np.float32)
    return {"inputs": {"x": x, "y": np.zeros(n, np.float32), "n": n}, "outputs": ["y"]}


def reference(x, y, n):
    y[:] = 2 * x
"""
REAL = Target(
    name="scale",
    language="c",
    kernel=SourceFile(path="kernel.c", text=SCALE),
    reference=SourceFile(path="reference.py", text=REFERENCE),
    workloads=tuple(Workload(dims={"n": n}, config_class="all") for n in (4096, 8192)),
    keep=KeepPolicy(judge_budget_s=0.3),
    threads=1,
)


def world(**more: object) -> FakeWorld:
    return FakeWorld(fake_target(), FakeKernels(), (), **more)  # type: ignore[arg-type]


class Reads(FakeToolchain):
    """Sees that a size is of another type."""

    def signature(self, candidate: Candidate) -> Signature:
        found = super().signature(candidate)
        *arrays, size = found.parameters
        dtype = "int64" if "long n" in candidate.kernel.text else "int32"
        size = size.model_copy(update={"dtype": dtype})
        return found.model_copy(update={"parameters": (*arrays, size)})


class TestFake(EvaluatorConformance):
    @pytest.fixture
    def evaluator(self) -> LocalEvaluator:
        return world(toolchain=Reads()).evaluator()

    def target(self) -> Target:
        return fake_target()


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalEvaluator]:
    toolchain, classes = CToolchain(tmp_path_factory.mktemp("builds")), _declared_classes(REAL)
    with ReferenceOracle(REAL, toolchain.signature(REAL.baseline)) as oracle:
        judge = ProcessJudge(REAL, HostBench(oracle, REAL.tolerance, 1), classes, ())
        profiler = CpuProfiler(Watcher(WorkerRunner(), oracle, 1))
        yield LocalEvaluator(REAL, SilentObserver(), toolchain, judge, profiler)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
@pytest.mark.timing
class TestLocal(EvaluatorConformance):
    @pytest.fixture
    def evaluator(self, local: LocalEvaluator) -> LocalEvaluator:
        return local

    def target(self) -> Target:
        return REAL


# -- what only the local one promises -------------------------------------------------------------


class NoRules:
    """Refuses every candidate for what its source says."""

    def before_build(self, candidate: Candidate) -> Cheated:
        return Cheated(reason="library_call", detail=candidate.id)

    def after_build(self, built: object) -> None:
        raise AssertionError("it was refused before")


def test_whose_code_an_incumbent_runs_was_looked_at_when_it_was_kept() -> None:
    here = world()
    evaluator, baseline = replace(here.evaluator(), code_rule=NoRules()), here.target.baseline
    refused = evaluator.evaluate(baseline, None, Scope(alone="check"))
    assert isinstance(refused.failure, Cheated)
    held = evaluator.evaluate(baseline, None, Scope(alone="check", built_before=True))
    assert required(held.measured).outcome == Passed()


def test_an_incumbent_that_does_not_build_any_more_is_our_failure() -> None:
    here = world()
    candidate = here.target.baseline.with_kernel_text(f"/* new */\n{SCALE}")
    gone = BuildFailed(reason="compile_error", detail="no such header")
    here.kernels.add(here.target.baseline, outcome=gone)
    evaluator = here.evaluator()
    for evaluate in (
        lambda: evaluator.evaluate(candidate, here.target.baseline, Scope()),
        lambda: evaluator.evaluate(here.target.baseline, None, Scope(built_before=True)),
        lambda: evaluator.screen(candidate, here.target.baseline),
    ):
        with pytest.raises(MachineError, match="was built before and doesn't build now"):
            evaluate()


def test_what_runs_as_another_candidate_does_is_timed_when_it_is_looked_at_again() -> None:
    here = world()
    baseline = here.target.baseline
    first, second = (baseline.with_kernel_text(f"/* {n} */\n{SCALE}") for n in range(2))
    for one, time_s in ((baseline, 4e-3), (first, 2e-3), (second, 1e-3)):
        here.kernels.add(one, time_s=time_s)
    for alike, expected in ((True, [2, 2, 4, 2]), (False, [2, 4, 4, 2])):
        code = "same" if alike else None
        evaluator = replace(here.evaluator(), code_of=lambda _, code=code: code)
        seen = [evaluator.screen(one, baseline).speedup for one in (first, second, second, first)]
        assert seen == [pytest.approx(one) for one in expected]


def test_only_what_is_asked_for_is_looked_at() -> None:
    here = world(inspector=FakeInspector(), tracer=FakeTracer())
    workload, baseline = here.target.workloads[0], here.target.baseline
    inspected = here.evaluator().evaluate(baseline, None, Scope(inspect=workload))
    assert inspected.inspection is not None
    assert inspected.trace is None
    traced = here.evaluator().evaluate(baseline, None, Scope(trace=workload))
    assert traced.inspection is None
    assert traced.trace is not None
    assert [name for name in here.observer.stages if name != "build"] == ["inspect", "trace"]


def test_a_build_is_announced_once() -> None:
    here = world()
    evaluator = here.evaluator()
    for scope in (Scope(), Scope(profile=here.target.workloads[0])):
        evaluator.evaluate(here.target.baseline, None, scope)
    assert here.observer.stages == ["build", "profile"]


@pytest.mark.parametrize("call", [
    lambda one, candidate: one.evaluate(candidate, None, Scope(alone="check")),
    lambda one, candidate: one.screen(candidate, candidate),
    lambda one, candidate: one.build_all([candidate]),
])  # fmt: skip
def test_every_call_counts_as_kernel_time(call: Callable[..., object]) -> None:
    here = world()
    meter = Meter(here.clock)
    call(here.evaluator(meter), here.target.baseline)
    assert meter.lap().kernel_s > 0


def test_without_tools_it_says_so() -> None:
    here = world()
    profile = here.profiler.profile(None, here.target.workloads[0])  # type: ignore[arg-type]
    scope = Scope(trace=here.target.workloads[0], disassemble=profile)
    found = here.evaluator().evaluate(here.target.baseline, None, scope)
    assert found.trace == "nothing here runs steps with a kernel of this kind"
    assert required(found.disassembly).missing == ("nobody disassembles kernels of this language",)
