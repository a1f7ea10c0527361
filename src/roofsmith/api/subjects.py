"""What a command is about: a target file, or a kernel with a reference on the command line."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import resources
from pathlib import Path

from pydantic import ValidationError

from roofsmith.analysis.flops import UnknownFamilyError, known_family
from roofsmith.analysis.scan.sources import scan
from roofsmith.api.named import require_fitting
from roofsmith.domain.kernel import BuildSpec, Candidate, Language, default_build, with_openmp
from roofsmith.domain.options import Subject
from roofsmith.domain.remark import Remark
from roofsmith.domain.returning import called_in_place, returning_entry
from roofsmith.domain.target import HOST_LANGUAGES, KeepPolicy, Target, default_keep, plain_name
from roofsmith.domain.workload import Workload
from roofsmith.errors import TargetError, UsageError
from roofsmith.store.files import replace as replace_file
from roofsmith.store.files import storage_errors
from roofsmith.store.sources import (
    LANGUAGES,
    candidate_names,
    imported_files,
    language_of,
    own_files,
    read_text,
    source_file,
)
from roofsmith.store.workload_text import parse_workload
from roofsmith.targets.file import load_target, reference_sources
from roofsmith.targets.init import init_target, write_target
from roofsmith.targets.place import FILE_NAME
from roofsmith.toolchains.dispatch import refusal
from roofsmith.toolchains.signature import entry_in


def checked_family(name: str | None) -> str | None:
    """What `--family` says, whatever the reference declares.

    Raises:
        UsageError: there is no such family.
    """
    if name is None:
        return None
    try:
        return known_family(name)
    except UnknownFamilyError as error:
        raise UsageError(
            f"--family: {error}",
            hint="leave it out where none fits, and give the reference a flops(**dims)",
        ) from error


def target_of(subject: Subject, keep: KeepPolicy | None = None) -> Target:
    """The target that the options describe.

    Args:
        subject: the options.
        keep: replaces the default policy of a target that is made from a kernel.

    Raises:
        UsageError: the options contradict each other, or a file, value or flag is wrong.
    """
    found = _named(subject, keep)
    if subject.gpu_wiki is None:
        return found
    return found.model_copy(update={"gpu_wiki": str(subject.gpu_wiki.absolute())})


def _named(subject: Subject, keep: KeepPolicy | None) -> Target:
    family = checked_family(subject.family)
    if subject.path.suffix in LANGUAGES:
        return _from_kernel(subject, family, keep)
    require_fitting(subject)
    overrides = {
        "threads": subject.threads, "ptr_size": subject.ptr_size, "family": family,
        "entry": subject.entry,
    }  # fmt: skip
    return load_target(subject.path, overrides=overrides)


def _from_kernel(subject: Subject, family: str | None, keep: KeepPolicy | None) -> Target:
    candidate = candidate_from(subject.path, subject.flags, subject.entry, subject.reference)
    if subject.reference is None or not subject.workloads:
        missing = "--ref" if subject.reference is None else "--workload"
        raise UsageError(
            f"{subject.path} is a kernel: {missing} is needed",
            hint=f"{shlex.quote(str(subject.path))} --ref reference.py --workload N=4096,D=4096, "
            "or the name of a target.yaml",
        )
    require_allowed(candidate)
    if subject.timing == "launch" and candidate.language in HOST_LANGUAGES:
        raise UsageError(
            f"--timing launch is for kernels on a GPU; {subject.path} is {candidate.language}, "
            "which is called directly",
            hint="leave it out",
        )
    reference, *beside = reference_sources(subject.reference, but=[subject.path])
    try:
        return Target(
            name=plain_name(subject.path.stem),
            language=candidate.language,
            kernel=candidate.kernel,
            includes=candidate.sources[1:],
            build=candidate.build,
            entry=candidate.entry,
            reference=reference,
            reference_files=tuple(beside),
            workloads=parse_workloads(subject.workloads),
            threads=subject.threads,
            ptr_size=subject.ptr_size,
            family=family,
            timing=subject.timing or "kernel",
            keep=keep or default_keep(candidate.language),
        )
    except ValidationError as error:
        raise TargetError(error.errors()[0]["msg"].removeprefix("Value error, ")) from error


def write_campaign_target(subject: Subject, folder: Path) -> Path:
    """Write the target of a kernel that was named without one, beside copies of its files.

    Raises:
        TargetError: a file can't be used.
        StorageError: the folder can't be written.
    """
    assert subject.reference is not None, "a target was made of it"
    files = [subject.path, *own_files(subject.path)]
    copies = {file: folder / name for file, name in zip(files, candidate_names(files), strict=True)}
    text = read_text(subject.reference, "reference")
    for file in (subject.reference, *imported_files(subject.reference, text)):
        copies.setdefault(file, folder / file.name)
    for source, copy in copies.items():
        with storage_errors("write", copy):
            copy.parent.mkdir(parents=True, exist_ok=True)
            replace_file(copy, source.read_bytes())
    copied = replace(subject, path=copies[subject.path], reference=copies[subject.reference])
    text = target_text(copied, directory=folder)
    return write_target(folder / FILE_NAME, text, force=True)


def target_text(
    subject: Subject,
    *,
    name: str | None = None,
    includes: Sequence[Path] = (),
    directory: Path | None = None,
    guesses: bool = True,
) -> str:
    """The text of the target file of a kernel that was named without one.

    Args:
        subject: the kernel, its reference, and what was said of them.
        name: of the target; by default the kernel's.
        includes: files that it needs to build, besides those beside it that it includes.
        directory: where the file will lie; beside the kernel by default.
        guesses: whether names may say the operator family.

    Raises:
        TargetError: a file can't be used, or the workloads don't go together.
        UsageError: flags can't be used.
    """
    assert subject.reference is not None, "whoever asks has seen to it"
    candidate = candidate_from(subject.path, subject.flags, subject.entry)
    require_allowed(candidate)
    keys = {key: getattr(subject, key) for key in ("threads", "ptr_size", "timing")}
    return init_target(
        subject.path,
        subject.reference,
        parse_workloads(subject.workloads),
        name=name,
        family=checked_family(subject.family),
        entry=candidate.entry,
        build=candidate.build,
        keys={key: value for key, value in keys.items() if value is not None},
        includes=includes,
        directory=directory,
        gpu_wiki=subject.gpu_wiki,
        guesses=guesses,
    )


def parse_workloads(texts: Sequence[str]) -> tuple[Workload, ...]:
    """`N=4096,D=4096`, one text per workload.

    Raises:
        TargetError: a text can't be read, or a dimension isn't a positive integer.
    """
    return tuple(parse_workload(text) for text in texts)


def candidate_from(
    kernel: Path, flags: str | None, entry: str | None = None, reference: Path | None = None
) -> Candidate:
    """One kernel file as a candidate, with the files beside it that it includes.

    Without flags it is built as its language usually is: C with `-O3 -march=native`, and
    `-fopenmp` where the source asks for it; CUDA with `-O3 -lineinfo`. Without an entry it is the
    only function that may be one. With a reference, a module may return its results.

    Raises:
        TargetError: a file can't be read, or the kernel's suffix says no language.
    """
    text = read_text(kernel, "kernel")
    language = language_of(kernel, text)
    includes = own_files(kernel)
    texts = (text, *(read_text(path, "include", may_be_empty=True) for path in includes))
    found = Candidate(
        language=language,
        sources=tuple(map(source_file, candidate_names([kernel, *includes]), texts)),
        build=build_for(language, text, flags),
        entry=entry or entry_in(language, text),
    )
    if reference is None:
        return found
    called = called_in_place(text, language, read_text(reference, "reference"), entry)
    is_ours = returning_entry(called) is not None
    return found.with_kernel_text(called).model_copy(update={"entry": "solve"} if is_ours else {})


def require_allowed(candidate: Candidate) -> None:
    """See that `--flags` may be used, before anything is looked for on the machine.

    Raises:
        UsageError: one may not.
    """
    if refused := refusal(candidate):
        usual = shlex.join(default_build(candidate.language).flags)
        hint = f"leave it out; the usual flags are {usual}" if usual else "leave --flags out"
        if candidate.language == "cuda" and "cutlass" in shlex.join(candidate.build.flags).lower():
            hint += "; CUTLASS is found by CUTLASS_PATH, which names a checkout"
        raise UsageError(f"{candidate.kernel.path}: {refused[1]}", hint=hint)


def build_for(
    language: Language, text: str, flags: str | None, default: BuildSpec | None = None
) -> BuildSpec:
    """The build of a kernel: the flags if given, else the default, with OpenMP where it is used.

    Raises:
        UsageError: the flags' quotes don't close.
    """
    build = default or default_build(language)
    if flags is not None:
        try:
            words = tuple(shlex.split(flags))
        except ValueError as error:
            raise UsageError(f"--flags {flags}: {error}", hint="check its quotes") from error
        return build.model_copy(update={"flags": words})
    return with_openmp(build, language, text)


@contextmanager
def bundled_example(name: str) -> Iterator[Path]:
    """An example that ships with roofsmith: in the package, or in a checkout.

    Args:
        name: of its folder, or of a target file in that, such as `cuda/softmax/naive.yaml`.

    Raises:
        UsageError: this installation has none of that name.
    """
    packaged = resources.files("roofsmith") / "examples" / name
    if packaged.is_dir() or packaged.is_file():
        with resources.as_file(packaged) as folder:
            yield folder
        return
    checkout = Path(__file__).resolve().parents[3] / "examples" / name
    if not checkout.exists():
        raise UsageError(f"this installation of roofsmith lacks the example {name}")
    yield checkout


def remarks(path: Path) -> tuple[Remark, ...]:
    """What a kernel's source does that a judge watches for; nothing is built.

    Raises:
        TargetError: the file can't be read, or its suffix says no language.
    """
    return scan(candidate_from(path, None))
