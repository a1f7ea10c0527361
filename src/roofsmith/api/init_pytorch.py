"""Makes a target of a user's PyTorch file: a folder with reference, kernel, test and target."""

from __future__ import annotations

import ast
import json
import shlex
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from roofsmith.api.explaining import Explained
from roofsmith.api.init import initialize
from roofsmith.api.subjects import target_text
from roofsmith.computation.graph import Graph
from roofsmith.computation.read import read_reference
from roofsmith.config import Settings
from roofsmith.domain.modes import FirstLanguage
from roofsmith.domain.options import Subject
from roofsmith.domain.target import HOST_LANGUAGES, Target, plain_name
from roofsmith.domain.workload import Workload
from roofsmith.errors import MachineError, TargetError, UsageError
from roofsmith.judge.host.free_memory import COPIES
from roofsmith.judge.sandbox.isolation import isolate
from roofsmith.ports import Observer
from roofsmith.store.files import storage_errors, write_file
from roofsmith.store.sources import imported_files, read_text, source_file
from roofsmith.store.workload_text import parse_workload
from roofsmith.targets.file import load_text
from roofsmith.targets.init import write_target
from roofsmith.targets.place import FILE_NAME
from roofsmith.targets.pytorch.backends import (
    BACKENDS,
    Backend,
    NoKernel,
    RenderedKernel,
    family_read,
)
from roofsmith.targets.pytorch.kernel_test import kernel_test
from roofsmith.targets.pytorch.program import PyTorchProgram, PyTorchRequest
from roofsmith.targets.pytorch.reading import read
from roofsmith.targets.pytorch.text import analysis_text, reference_text, torch_kernel

HOST_FLOP, HOST_BYTES = 1e9, 2**27
"""Of a call of a plain kernel on one processor: a second, or less. Chosen."""
DEVICE_FLOP, DEVICE_BYTES = 1e13, 2**33
"""The same on a GPU, and of its memory."""


@dataclass(frozen=True, slots=True)
class PyTorchFile:
    """What somebody says of a PyTorch file."""

    path: Path
    name: str | None
    """The function or module in it; None: the only one, or `Model`."""
    language: FirstLanguage
    output: Path | None = None
    """The folder; None: `<file>-<language>` here."""
    workloads: tuple[str, ...] = ()
    target_name: str | None = None
    threads: int | None = None
    """Processors that kernels may use; None: all."""
    shown: str | None = None
    """What messages call it; None: its path."""
    atol: float | None = None
    """Of the problem set that it is from: what it allows where a result is zero."""
    weights: tuple[float, ...] = ()
    """Of each that `get_workloads` lists: how much it counts."""

    @property
    def target(self) -> str:
        """The target's name."""
        return self.target_name or plain_name(f"{self.path.stem}-{self.language}")

    @property
    def directory(self) -> Path:
        """Where the target goes."""
        return self.output or Path(plain_name(f"{self.path.stem}-{self.language}"))


@dataclass(frozen=True, slots=True)
class ImportedModel:
    """A target that was made of a PyTorch file."""

    directory: Path
    files: tuple[str, ...]
    notes: tuple[str, ...]
    wrong: tuple[str, ...]
    """Why the kernel wasn't seen to be right on every workload, and what to do about it."""
    is_tried: bool
    """Whether it was tried at all: a GPU's kernels need one."""


def pytorch_file(text: str) -> tuple[Path, str | None]:
    """`model.py:Net` as a file and a name in it."""
    file, colon, name = text.rpartition(":")
    if colon and name.isidentifier():
        return Path(file), name
    return Path(text), None


def initialize_pytorch(
    wanted: PyTorchFile, settings: Settings, observer: Observer, *, force: bool = False
) -> ImportedModel:
    """Write a folder with a target whose kernel is right, of a function or module in PyTorch.

    Args:
        wanted: the file, and what becomes of it.
        settings: where caches are, and the walls around the file's process.
        observer: hears what happens.
        force: write into a folder that holds something.

    Raises:
        UsageError: nobody writes kernels in that language.
        TargetError: the file can't be used, or the folder holds something.
        ToolMissingError: PyTorch isn't installed.
        StorageError: the folder can't be written.
        BaselineError: the kernel doesn't build.
    """
    backend = BACKENDS.get(wanted.language)
    if backend is None:
        raise UsageError(
            f"--framework {wanted.language}: nobody here writes kernels in it",
            hint=f"one of {', '.join(BACKENDS)}",
        )
    source = _checked(wanted.path)
    with _folder(wanted.directory, force=force) as folder:
        observer.stage("read", wanted.shown or str(wanted.path))
        program = read(_request(wanted), isolate(settings.isolation))
        model = f"{program.module}.py"
        files = {model: source}
        for beside in imported_files(wanted.path, source):
            files[beside.name] = read_text(beside, "import", may_be_empty=True)
        own = tuple(folder / name for name in files)
        files["reference.py"] = reference_text(program, wanted.language, model)
        observer.stage("read", "what it computes")
        target = _unwritten(wanted, program, backend.file, files)
        found = Explained(target, read_reference(target))
        kernel = _kernel(wanted, program, backend, found)
        test = kernel_test(program, wanted.language, backend.file, kernel.flags)
        files |= {
            backend.file: kernel.text,
            "test_kernel.py": test,
            "analysis.md": analysis_text(program, wanted.path.name, found.lines),
        }
        for name, text in files.items():
            write_file(folder / name, text.encode("utf-8"))
        graph, path = found.computation.graph, folder / backend.file
        return _tried(wanted, program, kernel, graph, path, own, settings, observer)


def _weights(
    given: tuple[float, ...], program: PyTorchProgram, labels: tuple[str, ...]
) -> dict[str, float]:
    """How much workloads count, by label, where they don't count alike."""
    found = {
        label: sum(given[number] for number in numbers)
        for label, numbers in zip(labels, program.listed, strict=False)
        if given
    }
    return found if len({*found.values()}) > 1 and any(found.values()) else {}


def _unwritten(
    wanted: PyTorchFile, program: PyTorchProgram, kernel: str, files: Mapping[str, str]
) -> Target:
    reference, *beside = (
        source_file(name, files[name])
        for name in ("reference.py", *(name for name in files if name != "reference.py"))
    )
    return Target(
        name=wanted.target, language=wanted.language, kernel=source_file(kernel, " "),
        reference=reference, reference_files=tuple(beside),
        workloads=tuple(Workload(dims=dims) for dims in program.workloads),
    )  # fmt: skip


def _kernel(
    wanted: PyTorchFile, program: PyTorchProgram, backend: Backend, found: Explained
) -> RenderedKernel:
    """The first kernel.

    Raises:
        TargetError: none can be written.
    """
    if backend.render is None:
        return RenderedKernel(torch_kernel(program, f"{program.module}.py"))
    graph = found.computation.graph
    try:
        if graph is None:
            raise NoKernel(found.computation.refusal)
        if graph.notes:
            raise NoKernel(graph.notes[0])
        return backend.render(graph, program)
    except NoKernel as why:
        raise TargetError(
            f"{wanted.path}: no kernel in {wanted.language} can be written of it: {why}",
            hint="--framework torch begins with the function itself, or leave that part out",
        ) from why


def _checked(path: Path) -> str:
    """The file's text.

    Raises:
        TargetError: it isn't there, or isn't Python.
    """
    text = read_text(path, "PyTorch file")
    if path.suffix != ".py":
        raise TargetError(
            f"{path} is no .py file", hint="a Python file that defines a function or an nn.Module"
        )
    try:
        ast.parse(text)
    except (SyntaxError, ValueError) as error:
        line = f":{error.lineno}" if isinstance(error, SyntaxError) else ""
        why = error.msg if isinstance(error, SyntaxError) else str(error)
        raise TargetError(f"{path}{line}: {why}", hint="it has to run by itself first") from error
    except (RecursionError, MemoryError) as error:
        raise TargetError(
            f"{path} is nested too deeply for Python", hint="it has to run by itself first"
        ) from error
    return text


def _request(wanted: PyTorchFile) -> PyTorchRequest:
    on_host = wanted.language in HOST_LANGUAGES
    return PyTorchRequest(
        path=str(wanted.path.absolute()),
        shown=wanted.shown or str(wanted.path),
        atol=wanted.atol,
        name=wanted.name,
        language=wanted.language,
        workloads=tuple(parse_workload(text).dims for text in wanted.workloads),
        most_flop=HOST_FLOP if on_host else DEVICE_FLOP,
        most_bytes=HOST_BYTES if on_host else DEVICE_BYTES,
        free_bytes=psutil.virtual_memory().available // COPIES,
    )


@contextmanager
def _folder(folder: Path, *, force: bool) -> Iterator[Path]:
    """A new folder, which is gone again if what is written into it fails.

    Raises:
        TargetError: it holds something already.
        StorageError: it can't be made.
    """
    was_there = folder.exists()
    with storage_errors("make", folder):
        if was_there and (not folder.is_dir() or any(folder.iterdir())) and not force:
            raise TargetError(
                f"{folder} exists already", hint="--output OTHER, or --force to replace its files"
            )
        folder.mkdir(parents=True, exist_ok=True)
    try:
        yield folder
    except BaseException:
        if not was_there:
            shutil.rmtree(folder, ignore_errors=True)
        raise


def _tried(
    wanted: PyTorchFile,
    program: PyTorchProgram,
    made: RenderedKernel,
    graph: Graph | None,
    kernel: Path,
    own: tuple[Path, ...],
    settings: Settings,
    observer: Observer,
) -> ImportedModel:
    folder = kernel.parent
    labels = tuple(",".join(f"{k}={v}" for k, v in d.items()) for d in program.workloads)
    flags = shlex.join(made.flags) or None
    reference = folder / "reference.py"
    family = None if graph is None else family_read(graph)
    subject = Subject(
        kernel, reference=reference, workloads=labels, flags=flags, family=family,
        threads=wanted.threads,
    )  # fmt: skip
    guesses = graph is None
    includes = own if kernel.suffix == ".py" else ()
    notes, wrong, is_tried = program.notes, tuple[str, ...](), True
    try:
        written = initialize(
            subject, wanted.target, includes, settings, observer, force=True, guesses=guesses
        )
        notes, wrong = (*notes, *written.notes), written.wrong
    except MachineError as error:
        if wanted.language in HOST_LANGUAGES:
            raise
        text = target_text(subject, name=wanted.target, includes=includes, guesses=guesses)
        write_target(folder / FILE_NAME, text, force=True)
        notes, is_tried = (*notes, f"the kernel wasn't tried: {error.message}"), False
    if weighs := _weights(wanted.weights, program, labels):
        target = folder / FILE_NAME
        text = f"{read_text(target, 'target')}\nweights: {json.dumps(weighs)}\n"
        load_text(text, target)
        write_target(target, text, force=True)
    files = tuple(sorted(one.name for one in folder.iterdir() if one.is_file()))
    return ImportedModel(folder, files, notes, wrong, is_tried)
