"""Triton and PyTorch candidates: Python modules, checked and kept, compiled when they run."""

from __future__ import annotations

import ast
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

from roofsmith.domain.dialects import DIALECTS
from roofsmith.domain.kernel import (
    BuildSpec,
    Built,
    Candidate,
    KernelResources,
    Language,
    Signature,
)
from roofsmith.domain.outcome import BuildFailed
from roofsmith.domain.values import canonical_json, content_id
from roofsmith.domain.yardstick import ENTRY
from roofsmith.errors import SignatureError
from roofsmith.toolchains.builder import FORMAT, unfit
from roofsmith.toolchains.cache import LOG, SOURCES, BuildCache, BuildRecord, storage_errors
from roofsmith.toolchains.flags import environment_refusal
from roofsmith.toolchains.triton_cache import cubin_resources, triton_resources

_READ_ONLY = 0o444
_UNNAMED = Candidate.model_fields["entry"].default
"""The entry of a candidate whose user named none."""


class ModuleToolchain:
    """Checks `.py` candidates without running them, and copies them into the cache, read-only.

    Arguments go to the entry by name, so its signature has no parameters here.

    Args:
        cache_dir: folder of finished builds, as for every other toolchain.
        compiled_dir: where workers keep what is compiled when it runs, in a folder per candidate.
            None: nothing is known of that.
        arch: of the device that candidates run on, such as sm_90; None: any.

    Raises:
        StorageError: `cache_dir` can't be made.
    """

    def __init__(
        self, cache_dir: Path, compiled_dir: Path | None = None, arch: str | None = None
    ) -> None:
        self._cache = BuildCache(cache_dir.expanduser().absolute())
        self._compiled_dir = compiled_dir
        self._arch = arch

    def signature(self, candidate: Candidate) -> Signature:
        """Find the entry: the one that is named, `run_kernel`, or `solve`.

        Raises:
            SignatureError: there is none that could be called with arguments by name.
        """
        try:
            tree, _ = _parse(candidate.kernel.path, candidate.kernel.text)
        except _UnreadableError as error:
            raise SignatureError(
                str(error), hint=f"`python -m py_compile {candidate.kernel.path}` shows the place"
            ) from error
        _check_entry(candidate, tree)
        return Signature(entry=module_entry(candidate), parameters=())

    def build(self, candidate: Candidate) -> Built | BuildFailed:
        refused = refused_flag(candidate.build) or unfit(candidate)
        if refused is not None:
            return BuildFailed(reason=refused[0], detail=refused[1])
        key = content_id(canonical_json(_content(candidate)))[:32]
        folder, record = self._cache.current(key)
        if record is not None:
            return self._outcome(candidate, record, folder, cached=True)
        return self._keep(candidate, key)

    def build_all(self, candidates: Sequence[Candidate]) -> tuple[Built | BuildFailed, ...]:
        return tuple(self.build(candidate) for candidate in candidates)

    def side_by_side(self, language: Language) -> int:  # noqa: ARG002 - the port's
        """One: it is done in milliseconds, by this process's own Python."""
        return 1

    def resources(self, built: Built) -> tuple[KernelResources, ...]:
        """Of the kernels that ran so far, as far as they were kept: those that Triton compiled,
        also for torch.compile, Helion and Gluon, and those of CuTe DSL.

        Read from the cache that is the candidate's alone, so they are no other's.
        """
        if self._compiled_dir is None:
            return ()
        own = self._compiled_dir / built.candidate_id
        return (*triton_resources(own / "triton", self._arch), *cubin_resources(own, self._arch))

    def _keep(self, candidate: Candidate, key: str) -> Built | BuildFailed:
        start = time.monotonic()
        failure, noted = _checked(candidate)
        with self._cache.workspace() as workspace, storage_errors(workspace):
            files = {}
            for source in candidate.sources:
                path = workspace / SOURCES / source.path
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(source.text.encode())
                path.chmod(_READ_ONLY)
                files[f"{SOURCES}/{source.path}"] = content_id(source.text)
            said = [failure.detail] if failure is not None else []
            (workspace / LOG).write_text("".join(f"{line}\n" for line in (*noted, *said)))
            if failure is not None:  # another Python may read it
                log = self._cache.keep_log(workspace, key)
                return failure.model_copy(update={"log": log})
            record = BuildRecord(
                files=files,
                command=f"python -m py_compile {candidate.kernel.path}",
                warnings=noted,
                build_time_s=time.monotonic() - start,
            )
            folder, record = self._cache.publish(workspace, key, record)
        return self._outcome(candidate, record, folder, cached=False)

    def _outcome(
        self, candidate: Candidate, record: BuildRecord, folder: Path, *, cached: bool
    ) -> Built:
        module = folder / SOURCES / candidate.kernel.path
        return Built(
            candidate_id=candidate.id,
            language=candidate.language,
            library=module,
            library_sha256=record.files[f"{SOURCES}/{candidate.kernel.path}"],
            signature=Signature(entry=module_entry(candidate), parameters=()),
            environment={**self._caches(candidate), **candidate.build.environment},
            command=f"cp {candidate.kernel.path} {module}",
            log=folder / LOG,
            warnings=record.warnings,
            build_time_s=record.build_time_s,
            cached=cached,
            names_streams=candidate.names_streams,
            names_tuning=candidate.names_tuning,
            names_extensions=candidate.names_extensions,
        )

    def _caches(self, candidate: Candidate) -> dict[str, str]:
        """Variables that keep what a dialect compiles in the candidate's own folder, which its
        workers may write to; the default is a folder of the user's."""
        dialect = DIALECTS.get(candidate.language)
        if dialect is None or self._compiled_dir is None:
            return {}
        own = self._compiled_dir / candidate.id
        return {name: str(own / folder) for name, folder in dialect.caches.items()}


class _UnreadableError(Exception):
    """A module that Python can't compile; the message says where."""


def _content(candidate: Candidate) -> dict[str, object]:
    return {
        "format": FORMAT,
        "language": candidate.language,
        "sources": [[source.path, source.text] for source in candidate.sources],
        **({"entry": candidate.entry} if candidate.entry != _UNNAMED else {}),
    }


def refused_flag(build: BuildSpec) -> tuple[str, str] | None:
    """Why a module can't be had with a build spec: no compiler would see its flags."""
    flags = [*build.flags, *build.link]
    if flags:
        return "flag_not_allowed", (
            f"flags {' '.join(flags)}: Python modules are not compiled "
            "with flags; options of a Triton kernel (num_warps, num_stages) belong in its launch"
        )
    return environment_refusal(build)


def _checked(candidate: Candidate) -> tuple[BuildFailed | None, tuple[str, ...]]:
    """What is wrong with a module, and what Python warns of."""
    noted: list[str] = []
    for source in candidate.sources:
        if not source.path.endswith(".py") and source is not candidate.kernel:
            continue
        try:
            tree, said = _parse(source.path, source.text)
        except _UnreadableError as error:
            return BuildFailed(reason="compile_error", detail=str(error)), tuple(noted)
        noted += said
        if source is candidate.kernel:
            try:
                _check_entry(candidate, tree)
            except SignatureError as error:
                return BuildFailed(reason="no_entry", detail=f"{error.message}; {error.hint}"), ()
    return None, tuple(noted)


def _parse(path: str, text: str) -> tuple[ast.Module, list[str]]:
    """The module's syntax tree, and Python's warnings; nothing of it is run.

    Raises:
        _UnreadableError: it isn't Python.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            tree = ast.parse(text, path)
            compile(text, path, "exec", dont_inherit=True)
        except SyntaxError as error:
            place = f"{path}:{error.lineno or 1}"
            quoted = f"\n    {error.text.strip()}" if error.text else ""
            raise _UnreadableError(f"{place}: error: {error.msg}{quoted}") from error
        except (ValueError, RecursionError, MemoryError, OverflowError) as error:
            raise _UnreadableError(f"{path}:1: error: Python can't compile it: {error}") from error
    said = [f"{path}:{w.lineno}: {w.message}" for w in caught if w.filename == path]
    return tree, list(dict.fromkeys(said))


def module_entry(candidate: Candidate) -> str:
    """The function that is called: the one that is named, else `run_kernel`, else `solve`; what
    isn't defined yet is called `run_kernel`."""
    try:
        names = dict(_module_names(ast.parse(candidate.kernel.text).body))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ENTRY
    wanted = [] if candidate.entry == _UNNAMED else [candidate.entry]
    return next((one for one in (*wanted, ENTRY, _UNNAMED) if one in names), ENTRY)


def _check_entry(candidate: Candidate, tree: ast.Module) -> None:
    path, entry = candidate.kernel.path, module_entry(candidate)
    hint = f"define `def {ENTRY}(...)` in {path}: it takes the inputs by name and fills the outputs"
    names = list(_module_names(tree.body))
    node = dict(names).get(entry)
    if node is None:
        functions = (ast.FunctionDef, ast.AsyncFunctionDef)
        found = [f"{name} ({path}:{n.lineno})" for name, n in names if isinstance(n, functions)]
        raise SignatureError(
            f"{path}: no function named {entry}; functions found: {', '.join(found) or 'none'}",
            hint=f"{hint}, also where another one returns them; or name it: `--entry NAME`",
        )
    place = f"{path}:{node.lineno}"
    if isinstance(node, ast.AsyncFunctionDef | ast.ClassDef):
        raise SignatureError(f"{place}: {entry} must be a plain function", hint=hint)
    if isinstance(node, ast.FunctionDef):
        positional = [argument.arg for argument in node.args.posonlyargs]
        if positional:
            raise SignatureError(
                f"{place}: {entry} takes {', '.join(positional)} by position only; arguments are "
                "given by name",
                hint=hint,
            )


def _module_names(body: list[ast.stmt]) -> Iterator[tuple[str, ast.stmt]]:
    """Names that a module's statements bind, those in `if`, `try` and `with` too."""
    for node in body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name, node
            case ast.Assign():
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        yield target.id, node
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr()):
                yield name, node
            case ast.Import() | ast.ImportFrom():
                for alias in node.names:
                    yield alias.asname or alias.name, node
            case ast.If():
                yield from _module_names([*node.body, *node.orelse])
            case ast.With():
                yield from _module_names(node.body)
            case ast.Try():
                handlers = [inner for handler in node.handlers for inner in handler.body]
                yield from _module_names([*node.body, *handlers, *node.orelse, *node.finalbody])
            case _:
                pass
