"""A whole machine in memory for campaigns to run on, and to be killed on.

`FakeWorld` outlives the engines that run in it, as disks outlive processes: kill one at any of its
side effects with `die_at`, then start another on the same world.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from roofsmith.domain.campaign import Campaign, Event, Round
from roofsmith.domain.device import Environment
from roofsmith.domain.ending import Wishes
from roofsmith.domain.facts import BandwidthCeiling, Citation, ComputeCeiling, Fact, FactSheet
from roofsmith.domain.held_out import HeldOut
from roofsmith.domain.kernel import Candidate, SourceFile
from roofsmith.domain.outcome import BuildFailed
from roofsmith.domain.proposal import Hypothesis, Proposal
from roofsmith.domain.refusal import BadAnswer, Refusal
from roofsmith.domain.target import Target
from roofsmith.domain.workload import ConfigClass, Workload
from roofsmith.domain.yardstick import PyTorchBaseline
from roofsmith.engine.meter import Meter
from roofsmith.engine.parts import Parts, Render
from roofsmith.engine.survey import survey
from roofsmith.evaluator.guard import Guard
from roofsmith.evaluator.local import LocalEvaluator
from roofsmith.ports import (
    Brief,
    DeviceSource,
    Disassembler,
    Formatter,
    HeldOutSource,
    Inspector,
    Judge,
    Merger,
    Oracle,
    Profiler,
    Proposer,
    Rendered,
    Screen,
    Toolchain,
    Tracer,
)
from roofsmith.testing.clock import FakeClock
from roofsmith.testing.judge import FakeJudge, FakeKernels, FakeOracle
from roofsmith.testing.machine import FakeDeviceSource, FakeSpecSource, fake_environment
from roofsmith.testing.observer import RecordingObserver
from roofsmith.testing.profiler import FakeProfiler
from roofsmith.testing.store import MemoryFiles, MemoryLedger, MemoryLineage
from roofsmith.testing.toolchain import SCALE, FakeToolchain

ELEMENTS = 500_000
"""Of each of the two float32 arrays that a workload of `fake_target` moves."""
MOVED_BYTES = 2.0 * 4 * ELEMENTS


class Killed(BaseException):
    """The process died here: nothing may catch this."""


@dataclass
class SideEffects:
    """Counts everything that outlives a process, and dies at one of them if asked to."""

    die_at: int | None = None
    count: int = 0
    names: list[str] = field(default_factory=list)

    def step(self, name: str) -> None:
        """One moment at which a kill would leave a different disk behind.

        Raises:
            Killed: it is the chosen one.
        """
        self.names.append(name)
        if self.count == self.die_at:
            raise Killed(name)
        self.count += 1


@dataclass
class FakeWorld:
    """Disk, git, machine and kernels of one campaign."""

    target: Target
    kernels: FakeKernels
    ideas: Sequence[object]
    """Proposals; or what a proposer shouldn't answer: bad answers, garbage, exceptions to raise."""
    effects: SideEffects = field(default_factory=SideEffects)
    clock: FakeClock = field(default_factory=lambda: FakeClock(step_s=0.01))
    observer: RecordingObserver = field(default_factory=RecordingObserver)
    records: list[Event] = field(default_factory=list)
    lineage: MemoryLineage = field(default_factory=MemoryLineage)
    files: MemoryFiles = field(default_factory=MemoryFiles)
    environment: Environment = field(default_factory=fake_environment)
    floor_time_s: float | None = 1e-4
    inspector: Inspector | None = None
    profiler: Profiler = field(default_factory=lambda: FakeProfiler({"instructions": 1e6}))
    tracer: Tracer | None = None
    merger: Merger | None = None
    formatter: Formatter | None = None
    interrupt_at: int | None = None
    """Ask at which Ctrl-C is pressed, from 0."""
    yardsticks: tuple[PyTorchBaseline, ...] = ()
    render: Render | None = None
    """None: `fake_render`."""
    disassembler: Disassembler | None = None
    toolchain: Toolchain | None = None
    """None: a fake one, which refuses what `kernels` says doesn't build."""
    judge: Judge | None = None
    """None: `fake_judge`."""
    devices: DeviceSource | None = None
    """None: finds `environment`."""
    oracle: Oracle = field(default_factory=FakeOracle)
    proposer: Proposer | None = None
    """None: proposes `ideas`."""
    guard: Guard = field(default_factory=Guard)
    held_out: HeldOutSource | None = None
    """None: proposers are shown everything."""

    def parts(self) -> Parts:
        """What an engine runs on; a new set for every process."""
        meter = Meter(self.clock)
        devices = self.devices or FakeDeviceSource(self.environment)
        specs = FakeSpecSource(self._sheet)
        evaluator = self.evaluator(meter)
        return Parts(
            target=self.target,
            clock=self.clock,
            observer=self.observer,
            devices=devices,
            survey=lambda: survey(
                self.target, devices, specs, evaluator.toolchain, self.oracle, self.observer, meter
            ),
            meter=meter,
            evaluator=evaluator,
            proposer=self.proposer or ProposerScript(self.ideas, self.interrupt_at),
            ledger=_DyingLedger(MemoryLedger(self.records), self.effects),
            lineage=_DyingLineage(self.lineage, self.effects),
            files=_DyingFiles(self.files, self.effects),
            render=self.render or fake_render,
            yardsticks=self.yardsticks,
            merger=self.merger,
            formatter=self.formatter,
            gpu=self.guard.gate.uuid if self.guard.gate else None,
            held_out=self.held_out,
        )

    def evaluator(self, meter: Meter | None = None) -> LocalEvaluator:
        """The real one, over the tools of this world."""
        return LocalEvaluator(
            self.target,
            self.observer,
            self.toolchain or FakeToolchain(rule=self._refuses),
            self.judge or self.fake_judge(),
            self.profiler,
            judge_on=self._judge_on,
            inspector=self.inspector,
            tracer=self.tracer,
            disassembler=self.disassembler,
            guard=self.guard,
            kernel=(meter or Meter(self.clock)).kernel,
        )

    def fake_judge(self) -> FakeJudge:
        """Judges by what `kernels` says."""
        classes = _declared_classes(self.target)
        return FakeJudge(self.target, self.kernels, classes, self._floors(self._sheet))

    def _judge_on(self, workloads: tuple[Workload, ...]) -> Judge:
        held = HeldOut(salt="", workloads=workloads)
        target = self.target.model_copy(update={"workloads": workloads})
        return FakeJudge(target, self.kernels, held.classes, {})

    @property
    def _sheet(self) -> FactSheet:
        return fake_sheet(self.environment.device.id, self.floor_time_s)

    def _refuses(self, candidate: Candidate) -> BuildFailed | None:
        outcome = self.kernels.outcome(candidate.id)
        return outcome if isinstance(outcome, BuildFailed) else None

    def _floors(self, sheet: FactSheet) -> dict[str, float | None]:
        value = sheet.bandwidth[0].fact.value if sheet.bandwidth else None
        moved = {w.label: MOVED_BYTES * w.dims["n"] / ELEMENTS for w in self.target.workloads}
        return {at: None if value is None else size / value for at, size in moved.items()}


@dataclass
class _DyingLedger:
    inner: MemoryLedger
    effects: SideEffects

    def events(self) -> list[Event]:
        return self.inner.events()

    def append(self, event: Event) -> None:
        self.effects.step(f"before appending {event.kind}")
        self.inner.append(event)
        self.effects.step(f"after appending {event.kind}")


@dataclass
class _DyingLineage:
    inner: MemoryLineage
    effects: SideEffects

    @property
    def branch(self) -> str | None:
        return self.inner.branch

    def commit(self, candidate: Candidate, message: str) -> str | None:
        digest = self.inner.commit(candidate, message)
        self.effects.step("after commit")
        return digest

    def restore(self, candidate: Candidate) -> None:
        self.inner.restore(candidate)
        self.effects.step("after restore")


@dataclass
class _DyingFiles:
    inner: MemoryFiles
    effects: SideEffects

    def write(self, files: Mapping[str, str]) -> None:
        for path, text in files.items():
            self.inner.write({path: text})
            self.effects.step(f"after writing {path}")

    def flags_by_hand(self) -> Mapping[int, bool]:
        return self.inner.flags_by_hand()

    def asked(self) -> Wishes:
        return self.inner.asked()


class ProposerScript:
    """Proposes the given ideas in order; goes on where the ledger's rounds end."""

    def __init__(self, ideas: Sequence[object], interrupt_at: int | None = None) -> None:
        """Ctrl-C is pressed at ask number `interrupt_at`, counted from 0."""
        self._ideas = ideas
        self._interrupt_at = interrupt_at
        self._asked = 0
        self.told: list[Round] = []

    @property
    def name(self) -> str:
        return "scripted"

    def ask(self, brief: Brief, screen: Screen) -> Proposal | BadAnswer | None:  # noqa: ARG002
        """The idea after as many as were judged; a repair only where it is one.

        Dispatches of diverged rounds and what it judges again are the engine's own.
        """
        if self._asked == self._interrupt_at:
            raise KeyboardInterrupt
        self._asked += 1
        made = brief.campaign.proposed
        judged = sum(
            isinstance(past, Refusal) or (past.splits is None and not past.hypothesis.again)
            for past in made
        )
        idea = self._ideas[judged] if judged < len(self._ideas) else None
        if isinstance(idea, Exception):
            raise idea
        if not isinstance(idea, Proposal):  # garbage is passed on as it is
            return cast(Proposal | BadAnswer | None, idea)
        return None if brief.repair and idea and not idea.repair else idea

    def tell(self, round: Round) -> None:
        self.told.append(round)


def _declared_classes(target: Target) -> tuple[ConfigClass, ...]:
    members: dict[str, list[str]] = {}
    for workload in target.workloads:
        members.setdefault(workload.config_class or "all", []).append(workload.label)
    return tuple(
        ConfigClass(name=name, workloads=tuple(labels), reason="declared in the target")
        for name, labels in members.items()
    )


def fake_render(campaign: Campaign) -> Rendered:
    """One file per round and an index, so that tests see which were written."""
    rounds = {f"rounds/round-{r.round}/summary.md": r.decision.rule for r in campaign.rounds}
    index = f"{campaign.started.campaign}: {len(campaign.rounds)} rounds"
    return Rendered({**rounds, "README.md": index})


def fake_sheet(device_id: str, floor_time_s: float | None) -> FactSheet:
    """Ceilings that bound every workload of `fake_target` by the given time; None: UNKNOWN."""
    if floor_time_s is None:
        return FactSheet(device_id=device_id)
    cited = Citation(path="fake-ceilings.json")
    bandwidth = Fact(
        metric="copy bandwidth", value=MOVED_BYTES / floor_time_s, unit="byte/s", citation=cited
    )
    peak = Fact(metric="float32 peak", value=1e15, unit="FLOP/s", citation=cited)
    return FactSheet(
        device_id=device_id,
        bandwidth=(
            BandwidthCeiling(pattern="copy", threads=2, working_set_bytes=1, fact=bandwidth),
        ),
        compute=(ComputeCeiling(dtype="float32", threads=2, fact=peak),),
    )


def fake_target(**changes: object) -> Target:
    """Two workloads of a kernel that does nothing, in a campaign that may go on for long."""
    values: dict[str, object] = {
        "name": "fake",
        "language": "c",
        "kernel": SourceFile(path="kernel.c", text=SCALE),
        "reference": SourceFile(path="reference.py", text="def reference(x, y, n): y[:] = 2 * x\n"),
        "workloads": tuple(
            Workload(dims={"n": ELEMENTS, "variant": variant}, config_class="all")
            for variant in (1, 2)
        ),
    }
    return Target.model_validate(values | changes)


def fake_repair(idea: Proposal, attempt: int) -> Proposal:
    """Another candidate of the same idea."""
    text = f"/* {attempt} */\n{idea.candidate.kernel.text}"
    return idea.model_copy(
        update={"candidate": idea.candidate.with_kernel_text(text), "repair": True}
    )


def fake_idea(target: Target, name: str) -> Proposal:
    """A change that nobody knows the effect of: its text differs by its name."""
    candidate = target.baseline.with_kernel_text(f"/* {name} */\n{SCALE}")
    hypothesis = Hypothesis(statement=name, rationale="a test asks for it", tactic=f"test:{name}")
    return Proposal(hypothesis=hypothesis, candidate=candidate)
