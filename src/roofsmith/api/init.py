"""Writes a target file, after making sure that its parts fit each other."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from roofsmith.analysis.cost import cost, unsaid_operations
from roofsmith.api.computing import computed
from roofsmith.api.first_try import (
    FIRST_CALL_S,
    LONGEST_CALL_S,
    call_s,
    cure,
    first_failure,
    is_slow,
    slowness,
    unfused,
)
from roofsmith.api.hardware import (
    booted_reference,
    fork_server_for,
    leased_machine,
    on_gpu_alone,
    oracle_for,
    require_fresh_inputs,
    scored,
)
from roofsmith.api.observing import REFERENCE, needs_setup, with_written_setup
from roofsmith.api.own_draws import draw_notes, seed_notes
from roofsmith.api.places import Place
from roofsmith.api.subjects import candidate_from, target_text
from roofsmith.config import Settings
from roofsmith.domain.kernel import Built, Candidate
from roofsmith.domain.options import Subject
from roofsmith.domain.outcome import BuildFailed, Failure
from roofsmith.domain.returning import USUAL, told_of
from roofsmith.domain.target import HOST_LANGUAGES, Target
from roofsmith.errors import BadReferenceError, BaselineError, TargetError, UsageError
from roofsmith.judge.gpu.oracle import GpuOracle
from roofsmith.judge.host.oracle import DEADLINE_S, ReferenceOracle
from roofsmith.ports import Observer
from roofsmith.scratch import filing_logs
from roofsmith.store.files import write_file
from roofsmith.store.sources import read_text
from roofsmith.targets.file import load_text
from roofsmith.targets.init import write_target
from roofsmith.targets.place import FILE_NAME


@dataclass(frozen=True, slots=True)
class Written:
    """A target file that was written, or the reference that it needs first."""

    path: Path
    notes: tuple[str, ...]
    """What its reference's own draws show, and its time."""
    wrong: tuple[str, ...]
    """Why the kernel wasn't seen to be right on every workload, and what to do about it."""
    is_unfinished: bool = False
    """Whether it is a reference, of which what it computes has yet to be written."""


def initialize(
    subject: Subject,
    name: str | None,
    includes: tuple[Path, ...],
    settings: Settings,
    observer: Observer,
    *,
    force: bool = False,
    guesses: bool = True,
) -> Written:
    """Write `target.yaml` beside the kernel, also of one that is wrong: that can be changed.

    A reference of a C or C++ kernel without `setup` gets one; one that isn't there is begun.

    Args:
        subject: the kernel, with its reference and workloads.
        name: of the target; by default the kernel's.
        includes: files that it needs to build, besides those beside it that it includes.
        settings: where caches are.
        observer: hears what happens.
        force: replace a target that is there.
        guesses: whether names may say the operator family.

    Raises:
        UsageError: there is no such family.
        TargetError: a file or workload can't be used, inputs are the same for every seed, or there
            is a target already.
        BaselineError: the kernel doesn't build.
        SignatureError: the kernel has no readable entry.
        BadReferenceError: the reference doesn't fit it.
    """
    text = read_text(subject.path, "kernel")
    has_entry = subject.entry or any(f"def {name}(" in text for name in USUAL)
    if subject.path.suffix == ".py" and "nn.Module" in text and not has_entry:
        raise UsageError(
            f"{subject.path} holds a PyTorch module and no kernel",
            hint=f"roofsmith init --from-pytorch {shlex.quote(str(subject.path))} --framework c"
            " makes a target of it, with a kernel and a reference",
        )
    if not subject.workloads:
        raise TargetError(
            "a target needs at least one workload", hint="--workload N=4096,D=4096; repeat for more"
        )
    path = subject.path.parent / FILE_NAME
    if path.exists() and not force:
        raise TargetError(f"{path} exists already", hint="--force replaces it")
    language = candidate_from(subject.path, subject.flags, subject.entry).language
    sized: tuple[str, ...] = ()
    given, before, written = subject.reference or subject.path.parent / REFERENCE, "", ""
    if language in HOST_LANGUAGES and needs_setup(subject):
        before = read_text(given, "reference") if given.is_file() else ""
        with leased_machine(settings, language, observer) as machine:
            found = with_written_setup(subject, machine, observer)
        subject, sized = found.subject, (found.note,) if found.note else ()
        if found.is_unfinished and subject.reference is not None:
            return Written(subject.reference, sized, (), is_unfinished=True)
        written = read_text(given, "reference") if before else ""
    if subject.reference is None:
        raise UsageError(
            "--ref is missing", hint=f"{subject.path} is held against a reference: --ref REF.py, "
            "with setup(**dims, seed) and reference(**inputs)",
        )  # fmt: skip
    with _put_back(given, before, written, sized):
        text = target_text(subject, name=name, includes=includes, guesses=guesses)
        target = load_text(text, path).target
        with (
            filing_logs(settings.logs_dir),
            booted_reference(target) as booted,
            on_gpu_alone(str(subject.path), target.language, target.reference),
            leased_machine(settings, target.language, observer) as machine,
            oracle_for(target, machine, booted) as oracle,
        ):
            times = _reference_times(target, oracle, observer)
            target = scored(target, oracle)
            built = _built(target, machine, observer)
            notes = tuple(slowness(*one) for one in times.items() if is_slow(one[1]))
            if _counts_bytes_only(target, built, oracle, observer):
                notes += (unsaid_operations(target),)
            if max(times.values(), default=0.0) > LONGEST_CALL_S:
                wrong: tuple[str, ...] = ("the kernel wasn't tried: the reference takes too long",)
            else:
                observer.stage("reference", f"on other inputs, for {DEADLINE_S:.0f} s at most")
                require_fresh_inputs(oracle)
                notes += (*draw_notes(target, oracle), *seed_notes(target, oracle))
                wrong = tuple(_wrong(target, built, machine, oracle, observer))
        told = told_of(target.kernel.text)
        return Written(write_target(path, text, force=force), (*told, *sized, *notes), wrong)


@contextmanager
def _put_back(reference: Path, before: str, written: str, sized: tuple[str, ...]) -> Iterator[None]:
    """What fails leaves a reference as it was. Of one that fails itself, the sizes that nobody has
    looked at yet come first, and stay, so that they can be looked at."""
    try:
        yield
    except BadReferenceError as error:
        if sized:
            error.hint = "; ".join(sized)
        raise
    except BaseException:
        if before != written and read_text(reference, "reference") == written:
            write_file(reference, before.encode())
        raise


def _counts_bytes_only(
    target: Target, built: Built, oracle: ReferenceOracle | GpuOracle, observer: Observer
) -> bool:
    """Whether nobody says how much there is to compute: family, `flops`, or the reference read."""
    costs = [cost(w, oracle.describe(w), target.family) for w in target.workloads]
    if all(found.flops is not None for found in costs):
        return False
    observer.stage("reference", "what it computes")
    read = computed(target, built.signature)
    return read is None or any(w.label not in read.flops for w in target.workloads)


def _reference_times(
    target: Target, oracle: ReferenceOracle | GpuOracle, observer: Observer
) -> dict[str, float]:
    """Seconds of a call by workload, once it is described; none of a reference on a GPU."""
    times = {}
    for workload in target.workloads:
        observer.stage("reference", f"on {workload.label}, for {DEADLINE_S:.0f} s at most")
        oracle.describe(workload)
        if isinstance(oracle, ReferenceOracle):
            times[workload.label] = call_s(oracle, workload)
    return times


def _built(target: Target, machine: Place, observer: Observer) -> Built:
    observer.stage("build", target.kernel.path)
    built = machine.toolchain.build(target.baseline)
    if isinstance(built, BuildFailed):
        raise BaselineError(
            f"{target.kernel.path} doesn't build: {built.detail}",
            log=built.log,
            hint="nothing was written; fix it, and run this again",
        )
    return built


def _wrong(
    target: Target,
    built: Built,
    machine: Place,
    oracle: ReferenceOracle | GpuOracle,
    observer: Observer,
) -> Iterator[str]:
    environment = machine.devices.environment()
    with (
        fork_server_for(target.language) as fork_server,
        machine.bench(target, oracle, environment, fork_server) as bench,
    ):
        deadline_s = FIRST_CALL_S if machine.gpu is None else bench.first_deadline_s

        def failure_of(made: Built) -> Failure | None:
            return first_failure(bench, target.workloads, made, deadline_s, observer)

        def is_right(candidate: Candidate) -> bool:
            made = machine.toolchain.build(candidate)
            return isinstance(made, Built) and failure_of(made) is None

        if (failure := failure_of(built)) is None:
            return
        arrays = oracle.describe(target.workloads[0]).arrays
        yield f"{failure.kind.replace('_', ' ')} ({failure.reason}): {failure.detail}"
        yield cure(failure, unfused(target.baseline, failure, arrays), is_right)
