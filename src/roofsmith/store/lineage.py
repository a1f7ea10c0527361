"""Accepted candidates as commits on a branch of their own, in a worktree of their own.

Commits are made of git's plumbing (hash-object, write-tree, commit-tree): exact bytes whatever
autocrlf, filters, sparse checkouts or ignore rules say, and no hook, template or signature takes
part. A commit's tree is always the base commit's with the candidate's files laid over it, so it
depends on nothing that the worktree happens to hold.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from roofsmith.domain.kernel import Candidate
from roofsmith.errors import StorageError
from roofsmith.store.files import replace, storage_errors
from roofsmith.store.filters import unfiltered
from roofsmith.store.git import CHECKOUT_DEADLINE_S, Git

TRAILER = "Candidate: "
"""In a commit's message, before the candidate's id."""
_ROUND = re.compile(r"\bround[ -]?(\d+)\b", re.IGNORECASE)
_FALLBACK_NAME, _FALLBACK_EMAIL = "roofsmith", "roofsmith@localhost"


@dataclass(frozen=True, slots=True)
class NoLineage:
    """What a campaign does without git: nothing; the ledger holds every candidate anyway."""

    notes: tuple[str, ...] = ()
    """Why."""

    @property
    def branch(self) -> None:
        return

    def commit(self, candidate: Candidate, message: str) -> None:  # noqa: ARG002 - the port's
        return

    def restore(self, candidate: Candidate) -> None:
        """There is no worktree."""


@dataclass(frozen=True, slots=True)
class GitLineage:
    """The chain of accepted candidates in a git worktree that is the campaign's own."""

    worktree: Path
    """The checkout; nothing outside it is ever written to, but the repository's object store."""
    branch: str
    base: str | None
    """The commit that the branch starts from; None in a repository of the campaign's own."""
    prefix: str = ""
    """The folder inside the repository that candidates' paths are relative to."""
    notes: tuple[str, ...] = field(default=())
    """What a user should know about where the commits are."""

    def commit(self, candidate: Candidate, message: str) -> str:
        """Commit a candidate on top of the chain; if it is the head already, the head.

        The build goes into the message as a trailer, and so does the round, if the message names
        it (`Round 3: ...`).
        """
        head = self.head()
        tree = self._tree(candidate)
        if head is None or not self._holds(head, candidate, tree):
            parents = [] if head is None else ["-p", head]
            git = dataclasses.replace(self._git, identity=self._identity())
            text = commit_message(candidate, message).encode("utf-8", "backslashreplace")
            commit = git.run("commit-tree", tree, *parents, stdin=text)
            # Names the old value, so that a branch that moved meanwhile isn't overwritten.
            self._git.run("update-ref", self._ref, commit, head or "")
            head = commit
        self._check_out(head, candidate)
        return head

    def restore(self, candidate: Candidate) -> None:
        """Make branch and worktree end at the candidate's commit.

        A candidate that isn't in the chain is only checked out; the branch stays.

        Raises:
            StorageError: git refuses.
        """
        tree = self._tree(candidate)
        commit = self._find(candidate, tree)
        if commit is not None:
            self._check_out(commit, candidate)
            return
        self._git.run("read-tree", "--reset", "-u", tree, deadline_s=CHECKOUT_DEADLINE_S)
        self._finish(candidate)

    def head(self) -> str | None:
        """The commit that the branch points to; None if it has none yet."""
        return self._git.ask("rev-parse", "--verify", "--quiet", f"{self._ref}^{{commit}}")

    def has_base(self, candidate: Candidate) -> bool:
        """Whether the base commit's tree holds exactly this candidate."""
        return self.base is not None and self._tree_of(self.base) == self._tree(candidate)

    @property
    def _git_dir(self) -> Path:
        return self.worktree / ".git"

    @property
    def _git(self) -> Git:
        return unfiltered(Git(self.worktree, self._git_dir))

    @property
    def _ref(self) -> str:
        return f"refs/heads/{self.branch}"

    def _tree(self, candidate: Candidate) -> str:
        """Lay the candidate over the base in the worktree's own index; the tree's hash."""
        start = ["--empty"] if self.base is None else ["--reset", self.base]
        self._git.run("read-tree", *start)
        entries = b""
        listed = self._git.run("ls-files", "--stage", "-z").split("\0")
        scripts = {entry.partition("\t")[2] for entry in listed if entry.startswith("100755")}
        for source in candidate.sources:
            blob = self._git.run("hash-object", "-w", "--stdin", stdin=source.text.encode())
            path = str(PurePosixPath(self.prefix, source.path))
            mode = "100755" if path in scripts else "100644"
            entries += f"{mode} {blob}\t{path}\0".encode("utf-8", "surrogateescape")
        self._git.run("update-index", "-z", "--index-info", stdin=entries)
        return self._git.run("write-tree")

    def _tree_of(self, commit: str) -> str:
        return self._git.run("rev-parse", f"{commit}^{{tree}}")

    def _holds(self, commit: str, candidate: Candidate, tree: str) -> bool:
        if self._tree_of(commit) != tree:
            return False
        # The base is the user's commit and carries no trailer; equal files are all it can say.
        if commit == self.base:
            return True
        return _names(self._git.run("log", "-1", "--format=%B", commit), candidate)

    def _find(self, candidate: Candidate, tree: str) -> str | None:
        if self.head() is None:
            return None
        chain = self._ref if self.base is None else f"{self.base}..{self._ref}"
        log = self._git.run("log", "--first-parent", "--format=%H%n%B%x00", chain)
        for entry in log.split("\0"):
            commit, _, message = entry.strip().partition("\n")
            if _names(message, candidate):
                return commit
        return self.base if self.base is not None and self._tree_of(self.base) == tree else None

    def _check_out(self, commit: str, candidate: Candidate) -> None:
        self._git.run("reset", "--quiet", "--hard", commit, deadline_s=CHECKOUT_DEADLINE_S)
        self._finish(candidate)

    def _finish(self, candidate: Candidate) -> None:
        """Remove what git doesn't know, and undo what eol filters or sparse rules did."""
        self._git.run("clean", "--quiet", "--force", "-d")
        for source in candidate.sources:
            path = self.worktree / self.prefix / source.path
            if not path.parent.resolve().is_relative_to(self.worktree.resolve()):
                raise StorageError(f"{path} lies behind a link that leaves {self.worktree}")
            data = source.text.encode()
            with storage_errors("write", path):
                if path.is_symlink() or not path.is_file() or path.read_bytes() != data:
                    path.parent.mkdir(parents=True, exist_ok=True)
                    replace(path, data)

    def _identity(self) -> dict[str, str]:
        """Empty if the user has a name and an address; otherwise the project's."""
        if self._git.ask("config", "user.name") and self._git.ask("config", "user.email"):
            return {}
        return {
            f"GIT_{who}_{what}": value
            for who in ("AUTHOR", "COMMITTER")
            for what, value in (("NAME", _FALLBACK_NAME), ("EMAIL", _FALLBACK_EMAIL))
        }


def commit_message(candidate: Candidate, message: str) -> str:
    """The message with its trailers: round (if it names one), build, candidate.

    A repository's build command is the target's, the same for all of its commits.
    """
    text = message.replace("\0", "").strip()
    trailers = [f"{TRAILER}{candidate.id}"]
    if candidate.language != "command":
        trailers.insert(0, f"Build: {candidate.build.command_line(candidate.language)}")
    named = _ROUND.search(text)
    if named and "\nRound: " not in text:
        trailers.insert(0, f"Round: {named[1]}")
    return "\n\n".join(part for part in (text, "\n".join(trailers)) if part) + "\n"


def _names(message: str, candidate: Candidate) -> bool:
    return f"{TRAILER}{candidate.id}" in message.splitlines()
