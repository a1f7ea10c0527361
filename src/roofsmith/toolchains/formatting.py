"""Formats what a candidate changed, in a folder of its own: by clang-format, ruff or a command."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath

from roofsmith.domain.formatting import FORMATTED, FormatSpec, Formatting
from roofsmith.domain.kernel import Candidate, SourceFile
from roofsmith.errors import StorageError
from roofsmith.ports import Formatted
from roofsmith.scratch import scratch_directory
from roofsmith.shell import run_shell
from roofsmith.toolchains.cache import write_sources

DEADLINE_S = 120.0
_LOG = ".roofsmith-format.log"


class SourceFormatter:
    """Port `Formatter`. What a candidate took over from the incumbent stays as it is.

    Args:
        spec: the target's.
        checkout: of a command target: makes the folder that its own command runs in. That is used
            for nothing else, because the command may rewrite whatever lies there.
    """

    def __init__(
        self, spec: FormatSpec, checkout: Callable[[Candidate], Path] | None = None
    ) -> None:
        self._spec = spec
        self._checkout = checkout

    def format(self, candidate: Candidate, incumbent: Candidate) -> Formatted:
        """The candidate with its changed files formatted; as it was, with a note, on any failure.

        Raises:
            StorageError: files can't be written.
        """
        wanted = self._wanted(candidate, incumbent)
        if not wanted:
            return self._left(candidate, f"nothing that {self._name} formats was changed")
        command = self._command([source.path for source in wanted])
        if command is None:
            return self._left(candidate, f"{self._name} is not installed")
        if self._checkout is not None and self._spec.tool == "command":
            return self._ran(command, self._checkout(candidate), candidate, wanted)
        folder = scratch_directory("format")
        try:
            self._lay_out(folder, candidate)
            return self._ran(command, folder, candidate, wanted)
        except OSError as error:
            raise StorageError(f"can't lay out {folder}: {error.strerror}") from error
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    @property
    def _name(self) -> str:
        return self._spec.command if self._spec.tool == "command" else self._spec.tool

    def _wanted(self, candidate: Candidate, incumbent: Candidate) -> list[SourceFile]:
        """Files that the candidate changed, and that the tool understands."""
        suffixes = FORMATTED.get(self._spec.tool)
        return [
            source
            for source in candidate.sources
            if source not in incumbent.sources
            and (suffixes is None or PurePosixPath(source.path).suffix.lower() in suffixes)
        ]

    def _command(self, files: Sequence[str]) -> str | None:
        """The shell command; None if its tool isn't there."""
        listed = shlex.join(f"./{name}" for name in files)
        if self._spec.tool == "command":
            return self._spec.command.replace("{files}", listed)
        program = _program(self._spec.tool)
        if program is None:
            return None
        if self._spec.tool == "clang-format":
            style = "file" if self._spec.config is not None else "LLVM"
            return f"{shlex.quote(program)} -i --style={style} {listed}"
        config = self._spec.config
        configured = f"--config {shlex.quote(config.path)}" if config else "--isolated"
        return f"{shlex.quote(program)} format --quiet --no-cache {configured} {listed}"

    def _lay_out(self, folder: Path, candidate: Candidate) -> None:
        config = (self._spec.config,) if self._spec.config is not None else ()
        files = {source.path: source.text for source in (*config, *candidate.sources)}
        write_sources(files, folder)

    def _ran(
        self, command: str, folder: Path, candidate: Candidate, wanted: Sequence[SourceFile]
    ) -> Formatted:
        logs = scratch_directory("formatlog")
        try:
            ran = run_shell(
                command, directory=folder, environment={}, deadline_s=DEADLINE_S, log=logs / _LOG
            )
            if not ran.passed:
                return self._left(candidate, ran.told())
        finally:
            shutil.rmtree(logs, ignore_errors=True)
        try:
            texts = {source.path: (folder / source.path).read_bytes().decode() for source in wanted}
        except (OSError, UnicodeDecodeError) as error:
            return self._left(candidate, f"{self._name} left a file that can't be read: {error}")
        return self._result(candidate, texts)

    def _result(self, candidate: Candidate, texts: Mapping[str, str]) -> Formatted:
        sources = tuple(
            SourceFile(path=source.path, text=texts.get(source.path, source.text))
            for source in candidate.sources
        )
        pairs = zip(candidate.sources, sources, strict=True)
        changed = tuple(new.path for old, new in pairs if old != new)
        if not changed:
            return self._left(candidate, f"{self._name} found nothing to change")
        return Formatted(
            candidate.model_copy(update={"sources": sources}),
            Formatting(tool=self._spec.tool, proposed_id=candidate.id, changed=changed),
        )

    def _left(self, candidate: Candidate, note: str) -> Formatted:
        return Formatted(
            candidate, Formatting(tool=self._spec.tool, proposed_id=candidate.id, note=note)
        )


def _program(tool: str) -> str | None:
    """A tool on PATH, else beside the interpreter, where its wheel puts it."""
    beside = Path(sys.executable).parent / tool
    return shutil.which(tool) or (str(beside) if beside.is_file() else None)
