"""Every port on one page: what the engine needs of the world, and what each part promises.

Fakes live in `roofsmith.testing`; conformance suites there run over fakes and real parts alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Generic, Literal, Protocol, TypeAlias, TypeVar

from roofsmith.domain.comparison import Judgement
from roofsmith.domain.ending import Wishes

if TYPE_CHECKING:  # NumPy and the nouns take a tenth of a second each, which not all commands have
    import numpy as np
    from numpy.typing import NDArray

    from roofsmith.domain.bound import Bound
    from roofsmith.domain.calibration import Calibration
    from roofsmith.domain.campaign import Campaign, Event, Round
    from roofsmith.domain.command import MetricReading
    from roofsmith.domain.comparison import ErrorReport, Screening, Timing
    from roofsmith.domain.description import Scalar, WorkloadDescription
    from roofsmith.domain.device import Device, Environment
    from roofsmith.domain.diagnosis import Diagnosis, Disassembly
    from roofsmith.domain.dispatch import Dispatch
    from roofsmith.domain.facts import FactSheet
    from roofsmith.domain.formatting import Formatting
    from roofsmith.domain.held_out import HeldOut
    from roofsmith.domain.inspection import Inspection
    from roofsmith.domain.kernel import Built, Candidate, KernelResources, Language, Signature
    from roofsmith.domain.outcome import BuildFailed, Failure, Outcome, Unfit
    from roofsmith.domain.profile import Bottleneck, Profile
    from roofsmith.domain.proposal import Proposal, RepairTask
    from roofsmith.domain.refusal import BadAnswer
    from roofsmith.domain.transfer import KeptValue, Trace
    from roofsmith.domain.workload import ConfigClass, Workload
    from roofsmith.domain.yardstick import PyTorchBaseline, PyTorchBaselineResult

Result = TypeVar("Result")
Arguments: TypeAlias = "Mapping[str, NDArray[np.generic] | Scalar]"
"""What a kernel is called with: parameter name to array (declared dtype) or scalar."""


class Clock(Protocol):
    """Time, so that tests can own it."""

    def now(self) -> datetime:
        """The date and time in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds since some fixed point; never goes back."""
        ...

    def sleep(self, seconds: float) -> None:
        """Let this much time pass."""
        ...


class Observer(Protocol):
    """Hears what happens while it happens; must not raise and must be quick."""

    def stage(self, name: str, detail: str = "") -> None:
        """A stage begins: environment, facts, roofline, build, check, time, profile, report, ..."""
        ...

    def progress(self, fraction: float, detail: str = "") -> None:
        """How much of the current stage is done, 0 to 1."""
        ...

    def event(self, event: Event, campaign: Campaign) -> None:
        """A record was written to the ledger; `campaign` is the state after it."""
        ...


class DeviceSource(Protocol):
    """Finds out what this machine is."""

    def environment(self) -> Environment:
        """Identify device, system and tools; no measurement, well under a second."""
        ...

    def device(self) -> Device:
        """The device alone, without looking for tools."""
        ...


@dataclass(frozen=True, slots=True)
class Watched(Generic[Result]):
    """What was measured on a GPU that somebody kept an eye on."""

    result: Result
    """Of the last try."""
    disturbances: tuple[str, ...] = ()
    """Why tries were made again, for people."""
    void: bool = False
    """The last try was disturbed as well, and there is none left."""
    notes: tuple[str, ...] = ()
    """What reports say of it, for people."""


class Gate(Protocol):
    """What stands in front of this command's GPU, which it leases for each of its turns."""

    @property
    def uuid(self) -> str:
        """Of the GPU."""
        ...

    def pass_through(self) -> None:
        """Wait until nobody else is on the GPU, in our turn.

        Raises:
            NoIdleGpuError: somebody stayed for too long, or the GPU is gone.
        """
        ...

    def passed(self) -> AbstractContextManager[None]:
        """Take a turn, as long as the block lasts, and pass through first.

        Raises:
            NoIdleGpuError: as the others, or our turn didn't come.
        """
        ...

    def watch(
        self, measure: Callable[[], Result], stands: Callable[[Result], bool] = ...
    ) -> Watched[Result]:
        """Take a turn: pass through, measure, and look again; what was disturbed is measured again.

        Args:
            measure: what uses the GPU.
            stands: whether a result counts although it was disturbed; by default none does.

        Raises:
            NoIdleGpuError: somebody stayed for too long, or the GPU is gone. Whatever `measure`
                raises on a GPU that is gone comes as this.
        """
        ...


class SpecSource(Protocol):
    """Cited limits of a device."""

    def facts(self, environment: Environment, threads: int, observer: Observer) -> FactSheet:
        """Ceilings for `threads` processors, measured once per fingerprint and kept.

        What can't be known is UNKNOWN in the sheet, with the reason; never an exception.
        """
        ...


class Toolchain(Protocol):
    """Turns candidates into shared libraries."""

    def signature(self, candidate: Candidate) -> Signature:
        """Read `solve`'s parameters from the source.

        Raises:
            SignatureError: no such function, or a parameter outside the contract; names file:line.
        """
        ...

    def build(self, candidate: Candidate) -> Built | BuildFailed:
        """Compile under a deadline and a memory limit; the same content is built once.

        Raises:
            ToolMissingError: the compiler isn't installed.
            StorageError: the cache can't be written.
        """
        ...

    def build_all(self, candidates: Sequence[Candidate]) -> tuple[Built | BuildFailed, ...]:
        """The same for several, side by side; their outcomes, in order.

        Whether this returns, raises or is interrupted: no compiler runs afterwards.

        Raises:
            ToolMissingError: as above.
            StorageError: as above.
        """
        ...

    def side_by_side(self, language: Language) -> int:
        """How many candidates of a language `build_all` builds at the same time; at least 1."""
        ...

    def resources(self, built: Built) -> tuple[KernelResources, ...]:
        """What the compiler gave each GPU kernel of a build; of Triton, once the build was called.

        Empty where nothing is known: on a host's processors, and before the first call.
        """
        ...


@dataclass(frozen=True, slots=True)
class Formatted:
    """A candidate as it is to be judged, and what formatting did to it."""

    candidate: Candidate
    formatting: Formatting


Formatter: TypeAlias = "Callable[[Candidate, Candidate], Formatted]"
"""The first candidate with the files formatted that differ from the second one's, the incumbent's.

A tool that is missing, fails or changes nothing is a note; the candidate stays then. Raises a
StorageError where files can't be written.
"""


class Oracle(Protocol):
    """The reference, running in a process of its own, under deadlines."""

    def describe(self, workload: Workload) -> WorkloadDescription:
        """Shapes, types and declared cost.

        Raises:
            BadReferenceError: the reference raises, hangs, or doesn't fit the kernel's signature.
            TargetError: the workload can't fit in this machine's memory.
        """
        ...

    def inputs(self, workload: Workload, seed: int) -> Arguments:
        """Fresh arguments for `solve`, in its order and declared types; outputs are allocated.

        Raises:
            BadReferenceError: as above.
        """
        ...


class KernelSession(Protocol):
    """A worker process that holds one kernel and one set of arguments."""

    @property
    def pid(self) -> int:
        """Process id of the worker, for profilers that attach."""
        ...

    def call(self, times: int) -> tuple[float, ...]:
        """Call `solve` `times` times; the worker's own clock, seconds per call.

        Raises:
            KernelDiedError: the worker crashed or ran past the deadline.
        """
        ...

    def outputs(self) -> dict[str, NDArray[np.generic]]:
        """Copies of every output array after the last call."""
        ...


class KernelDiedError(Exception):
    """A kernel session ended before it answered; `outcome` says how."""

    def __init__(self, outcome: Failure) -> None:
        super().__init__(outcome.detail)
        self.outcome = outcome


class KernelRunner(Protocol):
    """Runs a built kernel in a worker process: for profilers and for measuring ceilings."""

    def open(
        self,
        built: Built,
        arguments: Arguments,
        *,
        threads: int,
        call_deadline_s: float = 60.0,
        launcher: Sequence[str] = (),
    ) -> AbstractContextManager[KernelSession]:
        """Start a worker (under `launcher`, such as valgrind, if given) and stage the arguments.

        Raises:
            KernelDiedError: the worker could not load the library.
        """
        ...


@dataclass(frozen=True, slots=True)
class Measured:
    """One kernel on its own: is it right, and how long does it take."""

    outcome: Outcome
    timings: tuple[Timing, ...]
    errors: tuple[ErrorReport, ...]
    inspection: Inspection | None = None
    """By sanitizers, where that was asked for."""
    resources: tuple[KernelResources, ...] = ()
    """What the compiler gave each GPU kernel."""
    notes: tuple[str, ...] = ()
    """What the kernel's source shows, and what it was measured under."""
    metrics: tuple[MetricReading, ...] = ()
    """Of a command target: everything that its benchmark reports."""
    isolation: str | None = None
    """What kept the kernel apart, as in `Judgement`; None: nothing of it ran."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What a candidate is evaluated on, and what for. A judge looks at `classes`, `earlier`,
    `quick`, `glance`, `proves_ties` and `left_s` alone.

    Beside an incumbent a candidate is judged, whatever else is asked for.
    """

    classes: tuple[ConfigClass, ...] = ()
    """To judge on: a partition of the workloads. Empty: those that are known before a baseline."""
    earlier: tuple[Judgement, ...] = ()
    """Tries of the same candidate beside the same incumbent, oldest first, whose pairs count as
    well where they are the same judge's."""
    quick: bool = False
    """Whether one measurement is enough: it may reject a candidate, and never keeps one."""
    glance: bool = False
    """Whether one draw and a few pairs are enough, of as many workloads as a few seconds allow: it
    decides nothing. Quick as well."""
    proves_ties: bool = False
    """Whether a tie counts as well as a gain: who has none is measured on until that is clear."""
    left_s: float | None = None
    """Seconds that a campaign's budget leaves for pairs; None: nobody counts them. What isn't
    decided by then stays undecided."""
    alone: Literal["check", "time"] | None = None
    """Check the candidate on its own, and time it as well; None: neither."""
    yardsticks: tuple[PyTorchBaseline, ...] = ()
    """To judge as candidates, with this one as the incumbent."""
    profile: Workload | None = None
    """To profile on."""
    disassemble: Profile | None = None
    """The profile whose kernels' instructions are looked at, on its workload."""
    inspect: Workload | None = None
    """To call the kernel on under every sanitizer, and see whether it repeats itself."""
    sanitize: bool = True
    """Of an inspection: False: only whether the kernel repeats itself."""
    trace: Workload | None = None
    """Whose shapes steps of training are run with."""
    kept_values: tuple[KeptValue, ...] = ()
    """Of the candidate's source, whose hits a trace counts."""
    held_out: tuple[Workload, ...] = ()
    """Workloads that no proposer is shown, each with its class: in place of the target's own, to
    check on alone, or to judge on. Nobody hears the progress."""
    built_before: bool = False
    """Whether the candidate was an incumbent: that it doesn't build any more is our own failure,
    and whose code it runs was looked at when it was kept."""


class Judge(Protocol):
    """Decides, in a process that never loads candidate code. Bound to one target.

    Any outcome but `passed` is returned, never raised; what is raised is our own failure.
    """

    def measure(self, candidate: Built, observer: Observer, *, timed: bool = True) -> Measured:
        """Check every workload; unless `timed` is False, time each one on its own as well."""
        ...

    def screen(self, candidate: Built, incumbent: Built) -> Screening:
        """Check once and time a few pairs: enough to rank, never enough to keep."""
        ...

    def compare(
        self, candidate: Built, incumbent: Built, observer: Observer, scope: Scope | None = None
    ) -> Judgement:
        """The whole judgement: check, paired timing until decided, winner measured again.

        Args:
            candidate: what may replace the incumbent.
            incumbent: built before.
            observer: hears how far it is.
            scope: None: the classes that are known before a baseline.
        """
        ...


class Profiler(Protocol):
    """Sees why a kernel takes the time it takes."""

    def profile(self, built: Built, workload: Workload) -> Profile:
        """Counters of one kernel on one workload, from the best tool this machine allows.

        A tool that fails is a note in the profile, never an exception.
        """
        ...


Inspector: TypeAlias = "Callable[[Built, Workload], Inspection]"
"""Watches a kernel for what correct outputs don't show: one call under every sanitizer, and whether
the kernel repeats itself. A tool that is missing, fails or hangs is `unavailable` in the
inspection, never an exception.
"""


Tracer: TypeAlias = "Callable[[Built, Workload, Sequence[KeptValue]], Trace | str]"
"""Runs some steps as training does: new activations, weights that change in place, every output
compared with the reference; why not, where that can't be.

Of the candidate, a workload that gives the shapes, and what the source keeps, whose hits are
counted.
"""


Disassembler: TypeAlias = "Callable[[Built, Workload, Profile], Disassembly]"
"""The hot loops of a kernel, as its compiler made them; never an exception.

Of the kernel, a workload that it is watched on, where watching shows what is hot, and its profile
on that workload: on a GPU it names the kernel to look at. What can't be had is said in the answer.
"""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What an evaluation found: the parts that its scope asked for, and nothing else."""

    failure: Unfit | None = None
    """Why the candidate doesn't count as built; then nothing else of it is known."""
    signature: Signature | None = None
    notes: tuple[str, ...] = ()
    """What the build says."""
    resources: tuple[KernelResources, ...] = ()
    """What the compiler gave each GPU kernel."""
    judgement: Judgement | None = None
    """Beside the incumbent, where there is one."""
    measured: Measured | None = None
    yardsticks: tuple[PyTorchBaselineResult, ...] = ()
    profile: Profile | None = None
    disassembly: Disassembly | None = None
    inspection: Inspection | None = None
    """None also where nothing can be seen."""
    trace: Trace | str | None = None
    """Or why no step could be run."""

    @staticmethod
    def unbuilt(failure: Unfit) -> Evaluation:
        """Of a candidate that doesn't build, or may not: judged and measured as that."""
        return Evaluation(
            failure=failure,
            judgement=Judgement(outcome=failure, verdict="rejected", wall_s=0.0),
            measured=Measured(outcome=failure, timings=(), errors=()),
        )


Part = TypeVar("Part")


def required(part: Part | None) -> Part:
    """A part of an evaluation that its scope asked for."""
    assert part is not None, "its scope asked for it"
    return part


class Evaluator(Protocol):
    """Evaluates candidates of one target in one place. No path crosses it: values in, data out.

    A candidate's failure is data; what is raised is our own. Every call counts as kernel time.
    """

    def evaluate(
        self, candidate: Candidate, incumbent: Candidate | None, scope: Scope
    ) -> Evaluation:
        """Build a candidate, then see what the scope asks for, and nothing else.

        Args:
            candidate: built once; later from a cache.
            incumbent: what it is judged against, if it builds; None: it isn't judged.
            scope: what to see.

        Raises:
            DeviceFailedError: the device failed the reference, twice in a row.
            NoIdleGpuError: others stayed on the GPU for too long, or it is gone.
            MachineError: what was built before doesn't build any more.
        """
        ...

    def prepare(self, elsewhere: Sequence[Workload]) -> None:
        """Work ahead for the next judgement, beside whoever thinks or builds; returns at once.

        Args:
            elsewhere: workloads beside the target's own on which a winner will be checked.
        """
        ...

    def side_by_side(self, language: Language) -> int:
        """How many candidates of a language `build_all` builds at the same time; at least 1."""
        ...

    def build_all(self, candidates: Sequence[Candidate]) -> tuple[Unfit | None, ...]:
        """Build several side by side; why each doesn't count as built, in order; None: it does.

        Nothing is measured meanwhile.
        """
        ...

    def screen(self, candidate: Candidate, incumbent: Candidate) -> Screening:
        """Check a candidate once and time a few pairs: enough to rank, never enough to keep.

        Raises:
            NoIdleGpuError: as above.
            MachineError: as above.
        """
        ...


@dataclass(frozen=True, slots=True)
class Brief:
    """All that a proposer may know when it is asked."""

    campaign: Campaign
    incumbent: Candidate
    signature: Signature
    device: Device
    threads: int
    bounds: tuple[Bound, ...]
    classes: tuple[ConfigClass, ...]
    descriptions: Mapping[str, WorkloadDescription]
    """By workload label."""
    profile: Profile
    """Of the incumbent."""
    bottleneck: Bottleneck
    """Of the incumbent."""
    repair: RepairTask | None = None
    """An idea to repair: the answer has `repair` set, or is None and the idea is dropped."""
    diagnosis: Diagnosis | None = None
    """After rollbacks in a row: what was tried, and what was looked at again."""
    calibration: tuple[Calibration, ...] = ()
    """How each tactic's predictions came out so far."""

    @property
    def masked(self) -> frozenset[int]:
        """Rounds that somebody masked: neither planning nor deduplication looks at them."""
        return self.campaign.masked

    @property
    def remembered(self) -> tuple[Round, ...]:
        """The rounds that a proposer may learn from: those that aren't masked."""
        return self.campaign.remembered


class Screen(Protocol):
    """Looks at candidates cheaply; given to proposers by the engine."""

    @property
    def side_by_side(self) -> int:
        """How many candidates `prepare` builds at the same time; at least 1."""
        ...

    def prepare(self, candidates: Sequence[Candidate]) -> None:
        """Build candidates side by side; those that fail keep that for their look.

        Nothing is measured meanwhile, and nothing is built while a look measures.
        """
        ...

    def with_evidence(self, brief: Brief) -> Brief:
        """The brief for whoever reads what profiler and listing show of the last round and of the
        incumbent: they are made for that, once."""
        ...

    def __call__(self, candidate: Candidate) -> Screening:
        """Check a candidate and time a few pairs; one that wasn't prepared is built first."""
        ...


class Proposer(Protocol):
    """Thinks of the next change.

    What was tried is in `brief.remembered`, what was refused in `brief.campaign.refusals`; a
    proposer that starts anew after a crash goes on from there, so it keeps no state that the
    ledger doesn't hold.
    """

    @property
    def name(self) -> str:
        """Such as `recipes` or `sweep`."""
        ...

    def ask(self, brief: Brief, screen: Screen) -> Proposal | BadAnswer | None:
        """The next proposal; None when it has no more ideas for this incumbent.

        A proposer that got no usable answer (from a model, an agent, a file) says so by a
        `BadAnswer`. An exception counts as one, but for those that the machine is to blame for.
        """
        ...

    def tell(self, round: Round) -> None:
        """The round that its last proposal became."""
        ...


@dataclass(frozen=True, slots=True)
class DimensionSource:
    """Where a kernel sees a dimension when it is called."""

    argument: str
    """Name of a number, or of an array, in the target's own signature."""
    axis: int | None = None
    """Of the array; None: the argument is the number itself."""


@dataclass(frozen=True, slots=True)
class Unmergeable:
    """Two kernels that can't be made into one, and why."""

    reason: str


Merger: TypeAlias = (
    "Callable[[Candidate, Candidate, Dispatch, Mapping[str, DimensionSource], Signature],"
    " Candidate | Unmergeable]"
)
"""Makes one kernel of two: the new one where a dispatch says so, the old one everywhere else.

Of the incumbent, what diverged from it, the dispatch, the sights of every dimension that it looks
at, and the target's signature; positions in that count, since candidates may rename parameters.
Pure, or a hook.
"""


class Ledger(Protocol):
    """The truth: an append-only, hash-chained file of events, held by one process at a time."""

    def events(self) -> list[Event]:
        """Every record, in order.

        Raises:
            LedgerError: a record was edited, dropped or reordered; names the line.
        """
        ...

    def append(self, event: Event) -> None:
        """Write one record durably (fsync) before returning.

        Raises:
            StorageError: the disk is full or read-only.
        """
        ...


class Lineage(Protocol):
    """Accepted candidates as git commits on a branch and in a worktree of their own."""

    @property
    def branch(self) -> str | None:
        """`optimize/<campaign>`; None where there is no git."""
        ...

    def commit(self, candidate: Candidate, message: str) -> str | None:
        """Commit a candidate on top of the chain; its hash, or None where there is no git.

        Committing what is already the head returns the head.

        Raises:
            StorageError: git refuses.
        """
        ...

    def restore(self, candidate: Candidate) -> None:
        """Make the worktree hold exactly this candidate: a roll back, or a repair after a crash."""
        ...


class CampaignFiles(Protocol):
    """The campaign directory."""

    def write(self, files: Mapping[str, str]) -> None:
        """Write rendered files (relative path to text), each atomically; unchanged ones are left.

        Raises:
            StorageError: the disk is full or read-only.
        """
        ...

    def flags_by_hand(self) -> Mapping[int, bool]:
        """Masks that somebody set or took away in a memory note, by round.

        Raises:
            StorageError: a note can't be read.
        """
        ...

    def asked(self) -> Wishes:
        """What somebody asked of the campaign since the last call."""
        ...


class HeldOutSource(Protocol):
    """Workloads that no proposer is shown: draws them, and keeps them outside of the campaign."""

    def draw(self, classes: Sequence[ConfigClass]) -> tuple[Workload, ...]:
        """Some near those of each class, whose name they have; none may exist."""
        ...

    def keep(self, held: HeldOut) -> None:
        """Keep a draw under its digest.

        Raises:
            StorageError: it can't be written.
        """
        ...

    def find(self, digest: str) -> HeldOut | None:
        """The draw of a digest; None where it isn't any more."""
        ...


@dataclass(frozen=True, slots=True)
class RenderFailure:
    """A file that could not be rendered: a fault of roofsmith's own, which loses no record."""

    what: str
    """The file, or the folder of a round's files."""
    error: Exception


@dataclass(frozen=True, slots=True)
class Rendered:
    """What a campaign directory holds beside its ledger."""

    files: Mapping[str, str]
    """Relative path to text."""
    failures: tuple[RenderFailure, ...] = ()
