"""Which part implements which port: the only place that knows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from pathlib import Path

import psutil

from roofsmith.analysis.experiments import backend_of
from roofsmith.analysis.sizes import smallest
from roofsmith.api.agents import Workplace, agent_proposer
from roofsmith.api.attainable import with_attainable
from roofsmith.api.clocks import no_clocks
from roofsmith.api.computing import reading
from roofsmith.api.first_try import reference_s
from roofsmith.api.hardware import (
    Ahead,
    booted_reference,
    fork_server_for,
    leased_machine,
    locked_clocks,
    on_gpu_alone,
    oracle_for,
    require_fresh_inputs,
    scored,
    working_ahead,
)
from roofsmith.api.head_start import NOTHING_BEGUN, HeadStart
from roofsmith.api.held_out import HeldOutFiles, HeldOutWorkloads
from roofsmith.api.own_draws import draw_notes
from roofsmith.api.places import Place
from roofsmith.api.preferences import default_proposers, own_prices
from roofsmith.api.references import found_for
from roofsmith.api.remembering import Remembering, remembering
from roofsmith.api.repositories import noticing_gpu_use, open_target_repository, without_family
from roofsmith.config import Settings
from roofsmith.domain.campaign import Round
from roofsmith.domain.computed import Computed
from roofsmith.domain.device import Device, Environment
from roofsmith.domain.facts import FactSheet
from roofsmith.domain.finding import OddSizes
from roofsmith.domain.kernel import MODULE_LANGUAGES, Built, Candidate, Language, Signature
from roofsmith.domain.knowledge import KnownDirection, library_arch
from roofsmith.domain.outcome import Outcome, Passed
from roofsmith.domain.target import HOST_LANGUAGES, StopPolicy, Target, device_language
from roofsmith.domain.transfer import Trace
from roofsmith.domain.workload import Workload
from roofsmith.domain.yardstick import PyTorchBaseline, pytorch_yardsticks
from roofsmith.engine.meter import Meter
from roofsmith.engine.odd_sizes import limits
from roofsmith.engine.parts import CheckCitations, KeepEvidence, Parts, nothing_learned
from roofsmith.engine.survey import Survey, survey
from roofsmith.errors import BaselineError, TargetError, UsageError
from roofsmith.evaluator.local import LocalEvaluator
from roofsmith.freed_memory import keep_freed_memory
from roofsmith.judge.gpu.oracle import GpuOracle
from roofsmith.judge.host.oracle import ReferenceOracle
from roofsmith.knowledge.library import Library
from roofsmith.ports import (
    Brief,
    Evaluation,
    Formatter,
    HeldOutSource,
    Judge,
    Merger,
    Observer,
    Oracle,
    Proposer,
    Scope,
    Screen,
)
from roofsmith.proposers.agent.proposer import AgentProposer
from roofsmith.proposers.inductor import InductorProposer
from roofsmith.proposers.model.endpoint import PREFIX, Endpoint
from roofsmith.proposers.model.proposer import ModelOptions, ModelProposer, model_proposer
from roofsmith.proposers.portfolio import Portfolio
from roofsmith.proposers.recipe_proposer import RecipeProposer
from roofsmith.proposers.replay import ReplayProposer, read_proposals
from roofsmith.proposers.sweep import SweepProposer
from roofsmith.report.campaign_files import render_campaign, render_plan
from roofsmith.repository.judging.oracle import RowOracle
from roofsmith.scratch import filing_logs
from roofsmith.store.campaign_dir import CampaignDirectory
from roofsmith.store.evidence import EvidenceFiles
from roofsmith.store.ledger import JsonlLedger
from roofsmith.store.lineage import GitLineage, NoLineage
from roofsmith.store.lineage_setup import open_lineage
from roofsmith.toolchains.custom_code import CustomCode
from roofsmith.toolchains.elf import loaded
from roofsmith.toolchains.formatting import SourceFormatter
from roofsmith.toolchains.inductor import compiled_reference
from roofsmith.toolchains.merging.merger import merge_sources

AUTO = "auto"
"""In a list of proposers: those that are asked where none is named."""


@dataclass(frozen=True, slots=True)
class OpenTarget:
    """A target surveyed and held open on this machine, with its evaluator."""

    target: Target
    machine: Place
    observer: Observer
    oracle: ReferenceOracle | GpuOracle | RowOracle
    survey: Survey
    meter: Meter
    evaluator: LocalEvaluator
    merger: Merger
    formatter: Formatter | None = None
    remembering: Remembering | None = None
    read_directions: Callable[[], tuple[KnownDirection, ...]] = tuple
    held_out: HeldOutSource | None = None

    @property
    def yardsticks(self) -> tuple[PyTorchBaseline, ...]:
        """What kernels are held against; none for a repository's."""
        return () if self.target.command is not None else pytorch_yardsticks(self.target)

    @property
    def smallest(self) -> Workload:
        """The workload that slow tools look at."""
        return smallest(self.target, self.survey.bounds)

    def with_attainable(self, settings: Settings) -> OpenTarget:
        """The same, with what memory gives each workload under the judge's conditions; of a GPU
        and of a repository nobody measures that."""
        if not isinstance(self.oracle, ReferenceOracle):
            return self
        with self.meter.kernel():
            known = with_attainable(self.survey, self.machine, settings.ceilings_dir, self.observer)
        return replace(self, survey=known)

    def heard_by(self, observer: Observer) -> OpenTarget:
        """The same, with another observer to hear of what is evaluated from here on."""
        evaluator = replace(self.evaluator, observer=observer)
        return replace(self, observer=observer, evaluator=evaluator)

    def evaluator_for(self, *, custom_only: bool) -> LocalEvaluator:
        """The evaluator for candidates that have to do their own work, or for anybody's."""
        return replace(self.evaluator, code_rule=CustomCode() if custom_only else None)

    def draw_notes(self) -> tuple[str, ...]:
        """What the reference's own draws show; nothing of a repository, which has none.

        Raises:
            BadReferenceError: they leave nothing to compare.
        """
        if isinstance(self.oracle, RowOracle):
            return ()
        self.observer.stage("check", "reference")
        return draw_notes(self.target, self.oracle)

    def size_notes(self, outcome: Outcome, candidate: Candidate | None = None) -> tuple[str, ...]:
        """What sizes a kernel needs, by default the target's own; nothing of one that failed."""
        if isinstance(self.oracle, RowOracle) or not isinstance(outcome, Passed):
            return ()
        baseline = self.target.baseline
        found = limits(
            candidate or baseline, self.target.workloads, self.evaluator_for(custom_only=False),
            None if candidate is None else baseline,
        )  # fmt: skip
        return (str(OddSizes(only_where=found)),) if found else ()

    def evaluate_baseline(self, scope: Scope) -> Evaluation:
        """See what a scope asks for of the target's own kernel, whosever code it runs.

        Raises:
            BaselineError: it doesn't build.
        """
        found = self.evaluator_for(custom_only=False).evaluate(self.target.baseline, None, scope)
        if found.failure is None:
            return found
        raise BaselineError(
            f"{self.target.kernel.path} doesn't build: {found.failure.detail}",
            log=found.failure.log,
            hint="fix it, or give the right --flags",
        )

    def try_transfer(self) -> None:
        """Run steps with a repository's kernel as it is, by the file that says how to call it.

        Raises:
            TargetError: that can't be, or is wrong already in the first step.
        """
        command = self.target.command
        if command is None or command.transfer is None:
            return
        seen = self.evaluate_baseline(Scope(trace=self.smallest)).trace
        if isinstance(seen, Trace) and (seen.failure is None or seen.steps > 0):
            return
        why = getattr(seen.failure, "detail", "") if isinstance(seen, Trace) else seen
        raise TargetError(
            f"command.transfer: no step could be run with {command.transfer} and the kernel as it"
            f" is: {why}",
            hint="it has setup, reference and run_kernel, which get torch tensors; without"
            " command.transfer, candidates with hints aren't kept (docs/overfitting.md)",
        )

    def evidence(self, directory: Path) -> KeepEvidence | None:
        """What keeps in a campaign's directory what its rounds leave; not of other campaigns."""
        left, begun_s = self.evaluator.left, psutil.Process().create_time() - 1
        if left is None:
            return None
        return EvidenceFiles(directory, left, self.target.keep.profiles, begun_s).gather

    def parts(
        self,
        proposer: Proposer,
        files: CampaignDirectory,
        lineage: LateLineage,
        check_citations: CheckCitations,
    ) -> Parts:
        """What the engine runs on."""
        machine, kept, ledger = self.machine, self.remembering, JsonlLedger(files.ledger_path)
        return Parts(
            target=self.target, clock=machine.clock, observer=self.observer,
            devices=machine.devices, survey=lambda: self.survey, meter=self.meter,
            evaluator=replace(self.evaluator, logs=files.directory / "logs"),
            proposer=proposer, ledger=ledger,
            lineage=lineage, files=files, render=render_campaign,
            render_plan=render_plan, check_citations=check_citations,
            yardsticks=self.yardsticks, formatter=self.formatter, merger=self.merger,
            gpu=machine.gate.uuid if machine.gate else None, held_out=self.held_out,
            read_tips=partial(kept.tips, self.target, self.survey.environment.device)
            if kept else tuple,
            read_references=partial(found_for, self.target),
            recommended=kept.recommended if kept else nothing_learned,
            remember=partial(kept.leave, ledger) if kept else None,
            read_directions=self.read_directions, evidence=self.evidence(files.directory),
        )  # fmt: skip


class LateLineage:
    """Opens the lineage when it is first needed: a kernel that fails leaves no branch behind."""

    def __init__(self, directory: Path, campaign: str, target: Target, kernel: Path | None) -> None:
        self._arguments = (directory, campaign, target.baseline, kernel, target.branch)

    @cached_property
    def _lineage(self) -> GitLineage | NoLineage:
        return open_lineage(*self._arguments)

    @property
    def branch(self) -> str | None:
        """The branch of the campaign; None without git."""
        return self._lineage.branch

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know about where the commits are."""
        return self._lineage.notes

    def commit(self, candidate: Candidate, message: str) -> str | None:
        """Commit a candidate on top of the chain."""
        return self._lineage.commit(candidate, message)

    def restore(self, candidate: Candidate) -> None:
        """Make the worktree hold exactly this candidate."""
        self._lineage.restore(candidate)


@dataclass(frozen=True, slots=True)
class RecordedFacts:
    """Port `SpecSource`: what a campaign began with. Measured again, its floors would move."""

    sheet: FactSheet

    def facts(
        self,
        environment: Environment,  # noqa: ARG002 - the port's
        threads: int,  # noqa: ARG002
        observer: Observer,  # noqa: ARG002
    ) -> FactSheet:
        """The sheet of its first record."""
        return self.sheet


def _surveyed(
    target: Target, machine: Place, oracle: Oracle, observer: Observer, meter: Meter,
    facts: FactSheet | None,
    read: Callable[[Target, Signature], Computed | None] = lambda _target, _signature: None,
) -> Survey:  # fmt: skip
    """The survey, with the reference timed; of a campaign that began with `facts`, by these, with
    today's when somebody asks: they may have to be measured."""
    specs = machine.specs if facts is None else RecordedFacts(facts)
    known = survey(target, machine.devices, specs, machine.toolchain, oracle, observer, meter, read)
    if facts is None:
        return replace(known, reference_s=reference_s(oracle, target))

    def read_today() -> FactSheet:
        if isinstance(oracle, ReferenceOracle):
            oracle.rest()
        return machine.specs.facts(known.environment, known.threads, observer)

    return replace(known, read_today=read_today)


class NoProposer:
    """Has no ideas: changes come from outside, through `tell`."""

    name = "none"

    def ask(self, brief: Brief, screen: Screen) -> None:
        """Nothing."""

    def tell(self, round: Round) -> None:
        """Nothing to remember."""


_SEPARATOR = re.compile(
    r",(?=\s*(?:auto|recipes|inductor|sweep|none)\s*(?:,|$)|\s*(?:replay|agent|model):)"
)
"""Between proposers where one is a command line, which may have commas of its own."""


def spelled(names: str, settings: Settings, language: Language | None = None) -> str:
    """A list of proposers without `auto` in it; whoever is named twice is asked once.

    For kernels in a `language` whose references are PyTorch, `auto` includes `inductor`.

    Raises:
        UsageError: what was agreed to names no model.
    """
    listed = (
        _split(default_proposers(settings, language)) if name == AUTO else (name,)
        for name in _split(names)
    )
    return ",".join(dict.fromkeys(chain.from_iterable(listed)))


def model_options(
    base_url: str | None, settings: Settings, observer: Observer | None = None
) -> ModelOptions:
    """What holds for the models of a campaign.

    Raises:
        UsageError: the user's prices can't be read.
    """
    return ModelOptions(
        base_url,
        settings.model_deadline_s,
        observer,
        prices=own_prices(settings.config_dir),
        longest=settings.model_tokens,
    )


def models_of(names: str, models: ModelOptions) -> tuple[ModelProposer, ...]:
    """The language models among proposers.

    Raises:
        UsageError: one can't be asked.
    """
    return tuple(model_proposer(n, models) for n in _split(names) if n.startswith(PREFIX))


def require_prices(names: str, models: ModelOptions, stop: StopPolicy) -> None:
    """Where money is limited, somebody has to know what models charge.

    Raises:
        UsageError: nobody does, of one of them.
    """
    if stop.max_cost_usd is None:
        return
    for model in models_of(names, models):
        if model.price is None:
            raise UsageError(
                f"what {model.name} charges isn't known, so --max-cost can't limit it",
                hint="give its price (docs/models.md), or limit it by --max-tokens",
            )


def _split(names: str) -> list[str]:
    listed = _SEPARATOR.split(names) if "agent:" in names else names.split(",")
    return [name.strip() for name in listed]


def make_proposer(
    names: str, models: ModelOptions | None = None, place: Workplace | None = None
) -> Proposer:
    """`recipes`, `inductor`, `sweep`, `replay:FILE`, `model:NAME`, `agent:NAME`, a list or `none`.

    Args:
        names: whom to ask, with commas between.
        models: what holds for language models.
        place: the campaign that agents work for.

    Raises:
        UsageError: a name that nobody answers to, a file that can't be replayed, a model that
            can't be asked, or an agent that isn't installed.
    """
    models = models or ModelOptions()
    asked = _split(names)
    if models.base_url is not None:
        _require_one_model(asked)
    if names == "none":
        return NoProposer()
    proposers = [_proposer(name, models, place) for name in asked]
    if len(proposers) == 1:
        return proposers[0]
    costly = [p for p in proposers if isinstance(p, _COSTLY)]
    _require_own_names(costly)
    return Portfolio(proposers, costly)


_MOST_DIRECTIONS = 200
"""Of the library, that a campaign's first record holds."""
_COSTLY = (ModelProposer, AgentProposer)


def _require_own_names(proposers: Sequence[Proposer]) -> None:
    called = Counter(proposer.name for proposer in proposers)
    if twice := next((name for name, count in called.items() if count > 1), None):
        raise UsageError(
            f"two proposers are called {twice}, and records couldn't tell whose idea was whose",
            hint="an agent's command is called after its program: give each a script of its own",
        )


def _require_one_model(names: Sequence[str]) -> None:
    found = [name for name in names if name.startswith(PREFIX)]
    if len(found) != 1:
        what = "none is asked for" if not found else f"{len(found)} are asked for"
        raise UsageError(
            f"--base-url is where the model is, and {what}",
            hint="--proposer model:NAME; of several, each has its own behind it: model:NAME@URL",
        )


def _proposer(name: str, models: ModelOptions, place: Workplace | None) -> Proposer:
    kind, _, argument = name.partition(":")
    match kind:
        case "recipes" if not argument:
            return RecipeProposer()
        case "sweep" if not argument:
            return SweepProposer()
        case "inductor" if not argument:
            return InductorProposer(compiled_reference)
        case "replay" if argument:
            return ReplayProposer(read_proposals(Path(argument)))
        case "model" if argument:
            return model_proposer(name, models)
        case "agent" if argument:
            return agent_proposer(argument, place)
        case _:
            raise UsageError(
                f"no proposer is called {name!r}",
                hint="known: auto, recipes, inductor, sweep, model:NAME, agent:NAME, agent:COMMAND,"
                " replay:FILE, a list such as recipes,sweep, and none",
            )


def proposers_of(names: Sequence[str], base_url: str | None = None) -> str:
    """How a campaign's proposers are asked for again.

    A campaign may come from somebody else: a key goes to an address in it only where that is named.

    Args:
        names: as the campaign recorded them.
        base_url: of a model's endpoint, where one is named.

    Raises:
        UsageError: they can't be: the file that they replayed, or the command line of an agent that
            isn't known by name, isn't recorded, or a model's address has to be named again.
    """
    for name in names:
        recorded = Endpoint.parse(name).base_url if name.startswith(PREFIX) else None
        if recorded is not None and base_url is None:
            raise UsageError(
                f"this campaign asked a model at {recorded}, and has to be told to do so again",
                hint=f"--base-url {recorded}, or another --proposer",
            )
    if command := next((name for name in names if name.startswith("agent:(")), None):
        raise UsageError(
            f"this campaign asked a command line, {command}, and has to be told which",
            hint="--proposer 'agent:COMMAND', or another proposer",
        )
    if "replay" in names:
        raise UsageError(
            "this campaign replays a file, and has to be told which",
            hint="--proposer replay:FILE, or another proposer",
        )
    return ",".join(names)


@contextmanager
def open_target(
    target: Target,
    settings: Settings,
    observer: Observer,
    product: str | None = None,
    facts: FactSheet | None = None,
    builds: Sequence[Candidate] = (),
    begun: HeadStart = NOTHING_BEGUN,
    computed: Computed | None = None,
    *,
    reads: bool = False,
) -> Iterator[OpenTarget]:
    """Survey the target on this machine, and start what needs a process.

    Args:
        target: what kernels are held against.
        settings: where caches are.
        observer: hears what happens.
        product: the only GPU that will do, where the target runs on one.
        facts: what is known of it already; None: its ceilings are measured.
        builds: what will be judged first: for a GPU it is compiled while an idle one is looked for,
            and the reference is asked.
        begun: what goes on already.
        computed: what a campaign knows already that the reference computes.
        reads: whether the reference is asked for that, which takes seconds.

    Raises:
        NoIdleGpuError: there is no idle GPU for it.
        SignatureError: the kernel has no readable `solve`.
        BadReferenceError: the reference doesn't fit it.
        TargetError: a workload can't fit in memory, or inputs are the same for every seed.
    """
    keep_freed_memory()  # outputs are compared with the truth all the time
    settings = settings.reading(target.gpu_wiki)
    with (
        filing_logs(settings.logs_dir),
        booted_reference(target, begun.reference) as booted,
        fork_server_for(target.language, begun.fork_server) as fork_server,
        working_ahead(target, settings, builds) as ahead,
        on_gpu_alone(target.kernel.path, target.language, target.reference),
        leased_machine(
            settings, device_language(target), observer, product, begun.looked
        ) as leased,
    ):
        meter = Meter(leased.clock)  # from here on: a wait for the GPU is nobody's overhead
        if target.command is not None:
            with _open_repository(target, leased, settings, observer, meter, facts) as opened:
                yield opened
            return
        machine = locked_clocks(ahead.known_to(leased), settings)
        with (
            oracle_for(target, machine, booted) as oracle,
            reading(target, oracle.signature, computed, reads=reads) as read,
        ):
            with meter.kernel(), _building(machine, builds, ahead):
                target = scored(target, oracle)
                observer.stage("reference", "on other inputs")
                require_fresh_inputs(oracle)
                machine.let_go()  # not while compilers are waited for
            known = _surveyed(target, machine, oracle, observer, meter, facts, read)
            with (
                machine.bench(target, oracle, known.environment, fork_server) as bench,
                machine.yardstick_bench(target, oracle, known.environment, fork_server) as slow,
            ):
                inspector, repeater = machine.inspectors(oracle, target.language, fork_server)
                profiler = machine.profiler(oracle, known, settings.left_dir)

                def judge_on(workloads: tuple[Workload, ...]) -> Judge:
                    return machine.judge_elsewhere(target, bench, known, workloads)

                judge = machine.judge(target, bench, known)
                evaluator = LocalEvaluator(
                    target, observer, machine.toolchain, judge, profiler,
                    judge_on=judge_on,
                    yardstick_judge=None if slow is None else machine.judge(
                        target, slow, known, confirms=False
                    ),
                    inspector=inspector,
                    repeater=repeater,
                    tracer=machine.tracer(target, oracle, known, fork_server),
                    disassembler=machine.disassembler(profiler),
                    code_rule=CustomCode() if target.custom_only else None,
                    guard=machine.guard,
                    prepare=judge.prepare,
                    kernel=meter.kernel,
                    logs=settings.logs_dir,
                    left=settings.left_dir,
                    code_of=_code_of,
                )  # fmt: skip
                yield OpenTarget(
                    target, machine, observer, oracle, known, meter, evaluator, merge_sources,
                    SourceFormatter(target.format).format if target.format else None,
                    remembering(settings, observer),
                    partial(_directions, settings, known.environment.device, target),
                    HeldOutWorkloads(
                        target, known.descriptions, HeldOutFiles(settings.held_out_dir)
                    ),
                )  # fmt: skip


def _code_of(built: Built) -> str | None:
    """Hash of what a compiled kernel runs; a module's is compiled where it is called."""
    if built.language in MODULE_LANGUAGES:
        return None
    try:
        return loaded(built.library.read_bytes())
    except (OSError, ValueError):
        return None


@contextmanager
def _building(machine: Place, builds: Sequence[Candidate], ahead: Ahead) -> Iterator[None]:
    """Compile for a GPU beside the block; failures are told by whoever needs what was built."""
    if machine.gpu is None or not builds:
        yield
        return

    def build() -> None:
        ahead.built()
        machine.toolchain.build_all(builds)

    with ThreadPoolExecutor(1) as beside:
        left = beside.submit(build)
        yield
        left.result()


@contextmanager
def _open_repository(
    target: Target,
    leased: Place,
    settings: Settings,
    observer: Observer,
    meter: Meter,
    facts: FactSheet | None,
) -> Iterator[OpenTarget]:
    """Open a command target, whose repository's own commands build and measure."""
    machine = locked_clocks(leased, settings)
    with open_target_repository(target, settings) as repository:
        machine = replace(machine, toolchain=repository.toolchain)
        with meter.kernel(), noticing_gpu_use(repository.spec):
            target, share = repository.surveyed(target, observer, machine.gate)
        bounded = target if repository.spec.gives_times else without_family(target)
        known = _surveyed(bounded, machine, repository.oracle, observer, meter, facts)
        known = replace(known, editable=share)
        machine.let_go()
        evaluator = LocalEvaluator(
            target, observer, machine.toolchain, repository.judge(target, known),
            repository.profiler,
            tracer=machine.tracer(target, repository.oracle, known),
            code_rule=CustomCode() if target.custom_only else None,
            guard=machine.guard,
            kernel=meter.kernel,
            logs=settings.logs_dir,
            left=settings.left_dir,
        )  # fmt: skip
        opened = OpenTarget(
            target, machine, observer, repository.oracle, known, meter, evaluator,
            repository.merger, repository.formatter(target), remembering(settings, observer),
            partial(_directions, settings, known.environment.device, target),
        )  # fmt: skip
        if not repository.spec.frozen:
            opened.try_transfer()
        yield opened


def _directions(settings: Settings, device: Device, target: Target) -> tuple[KnownDirection, ...]:
    """What the library says of a target on a device; what is wrong with a page is no concern of a
    campaign: `roofsmith knowledge list` tells."""
    language: str | None = backend_of(target, target.baseline)
    is_wrapper = device.kind != "cpu" and language in HOST_LANGUAGES
    if is_wrapper or language in ("command", "python"):
        language = None
    library = Library.load(settings.knowledge_dir)
    routed = library.route(target.family, library_arch(device), language)
    return tuple(way for page in routed for way in page.directions)[:_MOST_DIRECTIONS]


def try_clocks(languages: Collection[Language], settings: Settings, observer: Observer) -> None:
    """Lock the clocks for an instant, where that is asked for: a refusal comes before any work.

    Raises:
        NoIdleGpuError: there is no idle GPU.
        UsageError: all of the languages run on the host's processors.
        MachineError: the clocks can't be locked.
    """
    if not settings.lock_clocks:
        return
    on_gpu = [language for language in languages if language not in HOST_LANGUAGES]
    if not on_gpu:
        raise no_clocks()
    with leased_machine(settings, on_gpu[0], observer) as leased:
        locked_clocks(leased, settings)
