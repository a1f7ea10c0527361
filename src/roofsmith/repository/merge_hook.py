"""A repository's own command makes one version of its files out of two."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

from roofsmith.domain.command import CommandSpec
from roofsmith.domain.dispatch import Dispatch
from roofsmith.domain.kernel import Candidate, Signature, SourceFile
from roofsmith.errors import StorageError
from roofsmith.ports import DimensionSource, Unmergeable
from roofsmith.repository.checkouts import GitCheckouts
from roofsmith.scratch import scratch_directory
from roofsmith.shell import run_shell
from roofsmith.toolchains.cache import write_sources
from roofsmith.toolchains.merging import modules, unit

LOG = "dispatch.log"


class HookMerger:
    """Port `Merger` of one command target.

    The command runs in a checkout of the old version. `$ROOFSMITH_OLD` and `$ROOFSMITH_NEW` hold
    the editable files of both, `$ROOFSMITH_DISPATCH` is a JSON file with the rule, and
    `$ROOFSMITH_MERGED`, a copy of the old files, is what it leaves the result in.

    Args:
        spec: the target's.
        checkouts: where candidates are put.
        logs: a folder in it for each candidate.
    """

    def __init__(self, spec: CommandSpec, checkouts: GitCheckouts, logs: Path) -> None:
        self._spec = spec
        self._checkouts = checkouts
        self._logs = logs

    def merge(
        self,
        old: Candidate,
        new: Candidate,
        dispatch: Dispatch,
        sights: Mapping[str, DimensionSource],
        signature: Signature,  # noqa: ARG002 - a repository's has no parameters
    ) -> Candidate | Unmergeable:
        """What the command makes of both.

        Raises:
            StorageError: the files can't be written.
        """
        command = self._spec.dispatch
        if command is None:
            return Unmergeable("the target names no command.dispatch that could merge two versions")
        scratch = scratch_directory("dispatch")
        try:
            for name, candidate in (("old", old), ("new", new), ("merged", old)):
                files = {source.path: source.text for source in candidate.sources}
                write_sources(files, scratch / name)
            (scratch / "dispatch.json").write_text(_document(dispatch, tuple(sights)))
            folder, _ = self._checkouts.make(old)
            ran = run_shell(
                command,
                directory=folder,
                environment={**self._spec.environment, **_places(scratch)},
                deadline_s=self._spec.build_deadline_s,
                log=self._logs / new.id / LOG,
            )
            if self._checkouts.changed(old.id):  # by a command that merges in place
                self._checkouts.drop(old.id)
            return self._result(old, scratch / "merged") if ran.passed else Unmergeable(ran.told())
        except OSError as error:
            raise StorageError(f"can't lay out {scratch}: {error.strerror}") from error
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def _result(self, old: Candidate, folder: Path) -> Candidate | Unmergeable:
        try:
            texts = {
                path.relative_to(folder).as_posix(): path.read_bytes().decode()
                for path in sorted(folder.rglob("*"))
                if path.is_file()
            }
        except UnicodeDecodeError as error:
            return Unmergeable(f"the dispatch command wrote a file that is no text: {error}")
        frozen = [name for name in texts if not self._spec.is_editable(name)]
        if frozen:
            return Unmergeable(f"the dispatch command wrote {frozen[0]}, which isn't editable")
        held = {source.path: source.text for source in old.sources}
        if missing := held.keys() - texts.keys():
            return Unmergeable(f"the dispatch command removed {min(missing)}")
        if texts == held:
            return Unmergeable("the dispatch command left the files as they were")
        names = (*held, *(name for name in texts if name not in held))
        sources = tuple(SourceFile(path=name, text=texts[name]) for name in names)
        return old.model_copy(update={"sources": sources})


def _places(scratch: Path) -> dict[str, str]:
    return {
        "ROOFSMITH_OLD": str(scratch / "old"),
        "ROOFSMITH_NEW": str(scratch / "new"),
        "ROOFSMITH_MERGED": str(scratch / "merged"),
        "ROOFSMITH_DISPATCH": str(scratch / "dispatch.json"),
    }


def _document(dispatch: Dispatch, dims: tuple[str, ...]) -> str:
    """Where the new version runs: as values, and as a condition in C and in Python."""
    return json.dumps(
        {
            "splits": dispatch.splits,
            "rule": dispatch.rule.model_dump(mode="json"),
            "within": dispatch.within,
            "new": dispatch.new,
            "old": dispatch.old,
            "c": unit.condition(dispatch, {dim: dim for dim in dims}),
            "python": modules.condition(dispatch),
        },
        indent=2,
    )
