"""Builds a command target's candidates: a checkout each, and the repository's own build command."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from roofsmith.domain.command import CommandSpec
from roofsmith.domain.kernel import Built, Candidate, KernelResources, Language, Signature
from roofsmith.domain.outcome import BuildFailed
from roofsmith.domain.values import content_id
from roofsmith.errors import StorageError
from roofsmith.repository.checkouts import GitCheckouts
from roofsmith.shell import run_shell

LOG = "build.log"
_SIGNATURE = Signature(entry="benchmark", parameters=())


class CommandToolchain:
    """Port `Toolchain` of one command target.

    A candidate that changes a frozen file is checked out, but nothing of it is run: the judge says
    what it is.

    Args:
        spec: the target's.
        checkouts: where candidates are put.
        logs: a folder in it for each candidate.
        repository: builds the same candidates in the whole repository, where these checkouts are
            a workspace; None: they are the whole repository.
    """

    def __init__(
        self,
        spec: CommandSpec,
        checkouts: GitCheckouts,
        logs: Path,
        repository: CommandToolchain | None = None,
    ) -> None:
        self._spec = spec
        self._repository = repository
        self._seen: dict[str, Candidate] = {}
        self._checkouts = checkouts
        self._logs = logs
        self._outcomes: dict[tuple[str, int], Built | BuildFailed] = {}

    def signature(self, candidate: Candidate) -> Signature:  # noqa: ARG002 - the port's
        """A repository has no `solve`: its benchmark is the entry, without parameters."""
        return _SIGNATURE

    def build(self, candidate: Candidate) -> Built | BuildFailed:
        """Check a candidate out and run the build command; what was built is built once."""
        self._seen[candidate.id] = candidate
        folder, times = self._checkouts.make(candidate)
        known = self._outcomes.get((candidate.id, times))
        if known is not None:
            if isinstance(known, BuildFailed):
                return known
            return known.model_copy(update={"build_time_s": 0.0, "cached": True})
        self._outcomes[candidate.id, times] = outcome = self._outcome(candidate, folder)
        return outcome

    def build_all(self, candidates: Sequence[Candidate]) -> tuple[Built | BuildFailed, ...]:
        return tuple(self.build(candidate) for candidate in candidates)

    def side_by_side(self, language: Language) -> int:  # noqa: ARG002 - the port's
        """One: a build command may use all processors by itself, and few checkouts are kept."""
        return 1

    def _outcome(self, candidate: Candidate, folder: Path) -> Built | BuildFailed:
        log = self._logs / candidate.id / LOG
        begin = time.monotonic()
        if not self._checkouts.changed(candidate.id):
            failure = self._run(folder, log)
            if failure is not None:
                return failure
        return Built(
            candidate_id=candidate.id,
            language="command",
            library=folder,
            library_sha256=content_id(candidate),
            signature=_SIGNATURE,
            environment=self._spec.environment,
            command=self._spec.build or "",
            log=log,
            build_time_s=time.monotonic() - begin,
        )

    def in_repository(self, built: Built) -> Built | BuildFailed:
        """A build of the same candidate in the whole repository; itself where it is one."""
        if self._repository is None:
            return built
        return self._repository.build(self._seen[built.candidate_id])

    def resources(self, built: Built) -> tuple[KernelResources, ...]:  # noqa: ARG002 - the port's
        return ()

    def _run(self, folder: Path, log: Path) -> BuildFailed | None:
        if self._spec.build is None:
            self._said_nothing(log)
            return None
        ran = run_shell(
            self._spec.build, directory=folder, environment=self._spec.environment,
            deadline_s=self._spec.build_deadline_s, log=log,
        )  # fmt: skip
        if ran.passed:
            return None
        reason = "build_deadline" if ran.stopped else "build_command_failed"
        return BuildFailed(reason=reason, detail=ran.told(), log=log)

    def _said_nothing(self, log: Path) -> None:
        try:
            log.parent.mkdir(parents=True, exist_ok=True)
            log.write_text("there is no build command\n")
        except OSError as error:
            raise StorageError(f"can't write {log}: {error.strerror}") from error
