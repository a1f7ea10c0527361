"""Accepted rounds as commits: on a branch and in a worktree of their own, with a real git."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from roofsmith.domain.kernel import BuildSpec, Candidate, Language, SourceFile, default_build
from roofsmith.errors import StorageError
from roofsmith.judge.sandbox.enclosure import state_of
from roofsmith.ports import Lineage
from roofsmith.store import git as git_module
from roofsmith.store import lineage_place
from roofsmith.store.git import Git, scrubbed_environment
from roofsmith.store.lineage import GitLineage, NoLineage, commit_message
from roofsmith.store.lineage_setup import open_lineage
from roofsmith.testing.store import LineageConformance, MemoryLineage, example_candidate

NAIVE, FASTER = example_candidate("naive"), example_candidate("faster")

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git isn't installed")


@pytest.fixture(autouse=True)
def _own_git_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the machine's git set-up takes part; there is no user name."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    for name in (
        "GIT_AUTHOR_NAME",
        "GIT_AUTHOR_EMAIL",
        "GIT_COMMITTER_NAME",
        "GIT_COMMITTER_EMAIL",
    ):
        monkeypatch.delenv(name, raising=False)


def git(directory: Path, *arguments: str | Path) -> str:
    """The user's own git, with the user's settings."""
    environment = {k: v for k, v in os.environ.items() if k not in ("GIT_DIR", "GIT_INDEX_FILE")}
    return subprocess.run(
        ["git", "-C", directory, "-c", "user.name=Ada", "-c", "user.email=ada@host",
         "-c", "protocol.file.allow=always", *arguments],
        check=True, capture_output=True, text=True, env=environment,
    ).stdout.strip()  # fmt: skip


def snapshot(repository: Path) -> dict[str, str]:
    """All of a user's checkout that must not change."""
    files = {
        path.relative_to(repository).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in repository.rglob("*")
        if path.is_file() and ".git" not in path.parts and "campaign" not in path.parts
    }
    index = repository / git(repository, "rev-parse", "--git-path", "index")
    return files | {
        "index": hashlib.sha256(index.read_bytes()).hexdigest(),
        "HEAD": git(repository, "rev-parse", "HEAD"),
        "branch": git(repository, "rev-parse", "--abbrev-ref", "HEAD"),
        "stash": git(repository, "stash", "list"),
        "config": git(repository, "config", "--local", "--list"),
    }


def text_of(candidate: Candidate) -> str:
    return candidate.kernel.text


def log(lineage: GitLineage, form: str = "%s") -> list[str]:
    return git(lineage.worktree, "log", f"--format={form}", lineage.branch).splitlines()


@pytest.fixture
def campaign(tmp_path: Path) -> Path:
    directory = tmp_path / "runs" / "a \"quoted\" 'campaign' größer"
    directory.mkdir(parents=True)
    return directory


@pytest.fixture
def user(tmp_path: Path) -> Path:
    """A user's repository with a kernel in a folder, on a path that needs quoting."""
    repository = tmp_path / 'the user\'s "répo"'
    folder = repository / "src" / "my kernels"
    folder.mkdir(parents=True)
    git(tmp_path, "init", "-q", "-b", "main", repository)
    (folder / "kernel.c").write_text(text_of(NAIVE))
    (repository / "README").write_text("hello\n")
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "start")
    return repository


@pytest.fixture
def kernel(user: Path) -> Path:
    return user / "src" / "my kernels" / "kernel.c"


def opened(campaign: Path, kernel: Path | None = None, baseline: Candidate = NAIVE) -> GitLineage:
    lineage = open_lineage(campaign, "softmax", baseline, kernel)
    assert isinstance(lineage, GitLineage), lineage.notes
    return lineage


class TestMemoryLineage(LineageConformance):
    @pytest.fixture
    def lineage(self) -> Lineage:
        lineage = MemoryLineage()
        lineage.commit(NAIVE, "Round 1")
        return lineage

    @pytest.fixture
    def held(self, lineage: MemoryLineage) -> Callable[[], Mapping[str, str]]:
        return lambda: lineage.worktree


class TestOwnRepository(LineageConformance):
    @pytest.fixture
    def lineage(self, campaign: Path) -> Lineage:
        return opened(campaign)

    @pytest.fixture
    def held(self, campaign: Path) -> Callable[[], Mapping[str, str]]:
        return lambda: files_below(campaign / "repo")


class TestUsersRepository(LineageConformance):
    @pytest.fixture
    def lineage(self, campaign: Path, kernel: Path) -> Lineage:
        return opened(campaign, kernel)

    @pytest.fixture
    def held(self, campaign: Path) -> Callable[[], Mapping[str, str]]:
        return lambda: files_below(campaign / "worktree" / "src" / "my kernels")


def files_below(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in folder.rglob("*")
        if path.is_file() and ".git" not in path.relative_to(folder).parts
    }


@pytest.mark.rule("own-worktree")
def test_the_users_checkout_is_never_touched(user: Path, kernel: Path) -> None:
    """Dirty, staged, stashed and untracked things all stay, with the campaign right in it."""
    (user / "README").write_text("stashed\n")
    git(user, "stash")
    (user / "README").write_text("staged\n")
    git(user, "add", "README")
    (user / "README").write_text("dirty\n")
    (user / "notes").write_text("untracked\n")
    campaign = user / "campaign"
    campaign.mkdir()
    before = snapshot(user)

    lineage = opened(campaign, kernel)
    lineage.commit(FASTER, "Round 2: faster")
    lineage.restore(NAIVE)
    shutil.rmtree(lineage.worktree)
    lineage = opened(campaign)
    lineage.commit(FASTER, "Round 2: faster")

    assert lineage.notes == ()
    assert snapshot(user) == before
    assert (lineage.worktree / "README").read_text() == "hello\n"
    assert log(lineage) == ["Round 2: faster", "start"]


def test_a_lost_git_file_never_resets_the_users_checkout(user: Path, kernel: Path) -> None:
    """Without its .git file the worktree is a plain folder inside the user's dirty checkout."""
    campaign = user / "campaign"
    campaign.mkdir()
    lineage = opened(campaign, kernel)
    (user / "README").write_text("precious work\n")
    (user / "notes").write_text("untracked\n")
    before = snapshot(user)
    (lineage.worktree / ".git").unlink()
    with pytest.raises(StorageError, match="not a git repository"):
        lineage.commit(FASTER, "Round 2")
    with pytest.raises(StorageError, match="not a git repository"):
        lineage.restore(FASTER)
    assert snapshot(user) == before
    opened(campaign).commit(FASTER, "Round 2")
    assert snapshot(user) == before


def test_commits_say_how_to_build(campaign: Path, kernel: Path) -> None:
    lineage = opened(campaign, kernel)
    build = BuildSpec(
        compiler="gcc", flags=("-O3", "-DNAME='a b'"), environment={"OMP_NUM_THREADS": "2"}
    )
    lineage.commit(FASTER.with_build(build), "Round 3: threads\n\nTwice as fast.")
    message = git(lineage.worktree, "log", "-1", "--format=%B", lineage.branch)
    assert message.splitlines()[:3] == ["Round 3: threads", "", "Twice as fast."]
    trailers = git(lineage.worktree, "log", "-1", "--format=%(trailers:unfold)", lineage.branch)
    assert "Round: 3" in trailers
    assert f"Candidate: {FASTER.with_build(build).id}" in trailers
    line = next(line for line in trailers.splitlines() if line.startswith("Build: "))
    assert line.startswith("Build: OMP_NUM_THREADS=2 gcc -O3 ")
    assert line.endswith(" -lm")


@pytest.mark.parametrize(
    ("language", "line"),
    [
        ("c", "cc -O3 -march=native -lm"),
        ("cpp", "c++ -O3 -march=native -lm"),
        ("cuda", "nvcc -O3 -lineinfo"),
        ("hip", "hipcc -O3"),
        ("triton", "compiled when it runs"),
    ],
)
def test_each_language_is_built_by_its_own_compiler(language: Language, line: str) -> None:
    assert default_build(language).command_line(language) == line


@pytest.mark.rule("commit-message")
def test_messages_keep_to_their_lines() -> None:
    odd = FASTER.with_build(BuildSpec(flags=("-DX=1\nRound: 7",)))
    lines = commit_message(odd, "").splitlines()
    assert [line.split(":")[0] for line in lines] == ["Build", "Candidate"]
    assert commit_message(FASTER, "Round 3: x\n\nRound: 3").count("Round: 3") == 1


def test_a_kernel_that_differs_from_head_is_committed_first(
    user: Path, kernel: Path, campaign: Path
) -> None:
    kernel.write_text(text_of(FASTER))
    head = git(user, "rev-parse", "HEAD")
    lineage = opened(campaign, kernel, FASTER)
    assert log(lineage) == ["Round 1: the kernel as it is judged", "start"]
    assert lineage.base == head
    assert lineage.commit(FASTER, "Round 1: baseline") == lineage.head()
    assert git(user, "rev-parse", "HEAD") == head


def test_a_kernel_as_in_head_needs_no_commit(user: Path, kernel: Path, campaign: Path) -> None:
    lineage = opened(campaign, kernel)
    assert lineage.commit(NAIVE, "Round 1: baseline") == git(user, "rev-parse", "HEAD")
    assert log(lineage) == ["start"]


@pytest.mark.rule("kept-or-rolled-back")
def test_restore_drops_what_a_crash_left(campaign: Path, kernel: Path) -> None:
    """A commit that never reached the ledger, edited files, new files: all gone."""
    lineage = opened(campaign, kernel)
    kept = lineage.commit(FASTER, "Round 2: faster")
    lineage.commit(example_candidate("orphan"), "Round 3: orphan")
    (lineage.worktree / "README").unlink()
    (lineage.worktree / "junk").mkdir()
    (lineage.worktree / "junk" / "a.o").write_text("x")
    lineage.restore(FASTER)
    assert lineage.head() == kept
    assert git(lineage.worktree, "status", "--porcelain") == ""
    assert not (lineage.worktree / "junk").exists()
    lineage.restore(NAIVE)
    assert lineage.head() == lineage.base


def test_a_branch_in_the_way_gives_a_number(
    user: Path, kernel: Path, tmp_path: Path, campaign: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    assert opened(other, kernel).branch == "optimize/softmax"
    assert opened(campaign, kernel).branch == "optimize/softmax-2"
    assert opened(campaign).branch == "optimize/softmax-2"


@pytest.mark.rule("own-worktree")
def test_a_branch_may_be_named_and_is_numbered_where_it_is_taken(
    user: Path, kernel: Path, tmp_path: Path, campaign: Path
) -> None:
    git(user, "branch", "work/faster")
    lineage = open_lineage(campaign, "softmax", NAIVE, kernel, "work/faster")
    assert lineage.branch == "work/faster-2"
    assert open_lineage(campaign, "softmax", NAIVE, None, "work/faster").branch == "work/faster-2"
    own = tmp_path / "own"
    own.mkdir()
    assert open_lineage(own, "softmax", NAIVE, None, "work/faster").branch == "work/faster"


def test_a_branch_called_optimize_leaves_no_room(user: Path, kernel: Path, campaign: Path) -> None:
    git(user, "branch", "optimize")
    lineage = opened(campaign, kernel)
    assert lineage.branch == "optimize-softmax"
    assert lineage.commit(FASTER, "Round 2")


def test_odd_campaign_names_become_branches(campaign: Path, kernel: Path) -> None:
    lineage = open_lineage(campaign, "über ..soft~max:^ [1].lock", NAIVE, kernel)
    assert lineage.branch == "optimize/über--soft-max-1-"
    git(kernel.parent, "rev-parse", f"refs/heads/{lineage.branch}")


@pytest.mark.parametrize("lost", ["nothing", "worktree", "git file", "branch", "detached"])
def test_it_is_found_again(user: Path, kernel: Path, campaign: Path, lost: str) -> None:
    first = opened(campaign, kernel)
    kept = first.commit(FASTER, "Round 2: faster")
    if lost in ("worktree", "branch"):
        shutil.rmtree(first.worktree)
    if lost == "git file":
        (first.worktree / ".git").unlink()
    if lost == "branch":
        git(user, "worktree", "prune")
        git(user, "branch", "-D", first.branch)
    if lost == "detached":
        git(first.worktree, "checkout", "-q", "--detach", "HEAD~1")
    again = opened(campaign)
    assert (again.branch, again.base, again.notes) == (first.branch, first.base, ())
    again.restore(FASTER)
    assert (again.worktree / "src/my kernels/kernel.c").read_text() == text_of(FASTER)
    if lost == "branch":
        assert again.head() == again.base
    else:
        assert again.commit(FASTER, "Round 2: faster") == kept
    assert git(again.worktree, "rev-parse", "--abbrev-ref", "HEAD") == first.branch


def test_a_moved_campaign_is_found_again(user: Path, kernel: Path, campaign: Path) -> None:
    kept = opened(campaign, kernel).commit(FASTER, "Round 2: faster")
    moved = campaign.rename(campaign.with_name("moved"))
    again = opened(moved)
    assert again.commit(FASTER, "Round 2: faster") == kept
    git(user, "worktree", "prune")
    assert str(moved / "worktree") in git(user, "worktree", "list")


@pytest.mark.parametrize("kept_where", [None, "/gone/repo/.git"])
def test_a_moved_campaign_takes_its_own_repository_along(
    tmp_path: Path, campaign: Path, monkeypatch: pytest.MonkeyPatch, kept_where: str | None
) -> None:
    (tmp_path / "kernel.c").write_text(text_of(NAIVE))
    kept = opened(campaign, tmp_path / "kernel.c").commit(FASTER, "Round 2: faster")
    moved = campaign.rename(campaign.with_name("moved"))
    record = json.loads((moved / "lineage.json").read_text())
    assert record["repository"] == "repo/.git"
    if kept_where is not None:  # as it was once written down
        (moved / "lineage.json").write_text(json.dumps(record | {"repository": kept_where}))
    monkeypatch.chdir(moved.parent)
    place = lineage_place.remembered(Path("moved"))
    assert place.ask("rev-parse", place.ref) == kept
    again = opened(moved)
    assert (again.worktree, again.notes) == (moved / "repo", ())
    assert again.commit(FASTER, "Round 2: faster") == kept


def test_a_branch_in_use_elsewhere_is_left_alone(user: Path, kernel: Path, campaign: Path) -> None:
    first = opened(campaign, kernel)
    kept = first.commit(FASTER, "Round 2: faster")
    shutil.rmtree(first.worktree)
    git(user, "worktree", "prune")
    git(user, "checkout", "-q", first.branch)
    before = snapshot(user)
    again = opened(campaign)
    assert again.branch == "optimize/softmax-2"
    assert again.head() == kept
    again.commit(example_candidate("third"), "Round 3")
    assert snapshot(user) == before


def test_locks_of_a_crashed_git_are_removed(
    user: Path, kernel: Path, campaign: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lineage_place, "STALE_LOCK_S", 0.0)
    opened(campaign, kernel)
    for lock in ("worktrees/worktree/index.lock", "refs/heads/optimize/softmax.lock"):
        (user / ".git" / lock).touch()
    assert opened(campaign).commit(FASTER, "Round 2")


def test_a_users_repository_that_is_gone(user: Path, kernel: Path, campaign: Path) -> None:
    opened(campaign, kernel).commit(FASTER, "Round 2")
    shutil.rmtree(user)
    again = opened(campaign)
    assert again.worktree == campaign / "repo"
    assert "commits go to" in again.notes[0]
    assert again.commit(FASTER, "Round 2")
    assert opened(campaign).notes == ()


def test_an_own_repository_that_is_gone_starts_anew(campaign: Path) -> None:
    opened(campaign).commit(FASTER, "Round 2")
    shutil.rmtree(campaign / "repo")
    again = opened(campaign)
    assert "was gone; it starts anew" in again.notes[0]
    assert log(again) == ["Round 1: the kernel as it is judged"]


def test_an_abandoned_start_with_another_kernel(user: Path, kernel: Path, campaign: Path) -> None:
    opened(campaign, kernel)
    other = kernel.with_name("other.c")
    other.write_text("void solve(void) {}\n")
    source = SourceFile(path="other.c", text=other.read_text())
    lineage = opened(campaign, other, Candidate(language="c", sources=(source,)))
    assert lineage.branch == "optimize/softmax-2"
    assert log(lineage)[0] == "Round 1: the kernel as it is judged"


def test_a_kernel_in_no_repository(tmp_path: Path, campaign: Path) -> None:
    (tmp_path / "kernel.c").write_text(text_of(NAIVE))
    lineage = opened(campaign, tmp_path / "kernel.c")
    assert (lineage.worktree, lineage.branch) == (campaign / "repo", "optimize/softmax")
    assert lineage.notes == ()
    assert log(lineage) == ["Round 1: the kernel as it is judged"]


def test_an_ignored_kernel_is_not_the_repositorys(user: Path, campaign: Path) -> None:
    """Such as a bundled example in a virtual environment inside somebody's project."""
    (user / ".gitignore").write_text(".venv/\n")
    (user / ".venv").mkdir()
    (user / ".venv" / "kernel.c").write_text(text_of(NAIVE))
    lineage = opened(campaign, user / ".venv" / "kernel.c")
    assert lineage.worktree == campaign / "repo"
    assert git(user, "branch", "--list", "optimize/*") == ""


def test_a_repository_without_commits(tmp_path: Path, campaign: Path) -> None:
    git(tmp_path, "init", "-q", tmp_path / "empty")
    (tmp_path / "empty" / "kernel.c").write_text(text_of(NAIVE))
    lineage = opened(campaign, tmp_path / "empty" / "kernel.c")
    assert lineage.worktree == campaign / "repo"
    assert "has no commit yet" in lineage.notes[0]


def test_a_repository_that_takes_no_worktree(user: Path, kernel: Path, campaign: Path) -> None:
    """As a read-only one; a file in the way refuses root as well."""
    (user / ".git" / "worktrees").write_text("in the way")
    before = snapshot(user)
    lineage = opened(campaign, kernel)
    assert lineage.worktree == campaign / "repo"
    assert "worktree add" in lineage.notes[0]
    assert "exit 128" in lineage.notes[0]
    assert git(user, "branch", "--list", "optimize/*") == ""
    assert snapshot(user) == before
    assert opened(campaign).branch == "optimize/softmax"


def test_a_kernel_reaching_out_of_its_repository(user: Path, kernel: Path, campaign: Path) -> None:
    deep = SourceFile(path=f"{user.name}/src/my kernels/kernel.c", text=text_of(NAIVE))
    lineage = opened(campaign, kernel, Candidate(language="c", sources=(deep,)))
    assert lineage.worktree == campaign / "repo"


def test_includes_beside_the_kernel(user: Path, kernel: Path, campaign: Path) -> None:
    """The candidate's folder is the common folder of its files: here the repository's src."""
    sources = (
        SourceFile(path="my kernels/kernel.c", text=text_of(NAIVE)),
        SourceFile(path="include/config.h", text="#define BLOCK 4\n"),
    )
    lineage = opened(campaign, kernel, Candidate(language="c", sources=sources))
    assert lineage.prefix == "src"
    assert git(lineage.worktree, "diff", "--name-only", "HEAD~1") == "src/include/config.h"


def test_no_git(campaign: Path, kernel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(campaign))
    lineage = open_lineage(campaign, "softmax", NAIVE, kernel)
    assert isinstance(lineage, NoLineage)
    assert lineage.branch is None
    assert lineage.commit(NAIVE, "x") is None  # type: ignore[func-returns-value]
    lineage.restore(NAIVE)
    assert "git isn't installed" in lineage.notes[0]


def test_a_git_that_fails_leaves_no_lineage(
    campaign: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_git(campaign, "echo 'fatal: broken' >&2; exit 3")
    monkeypatch.setenv("PATH", f"{campaign}:{os.environ['PATH']}")
    lineage = open_lineage(campaign, "softmax", NAIVE)
    assert isinstance(lineage, NoLineage)
    assert "exit 3): fatal: broken" in lineage.notes[0]


def test_a_git_that_hangs_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    child, deadline_s = tmp_path / "child", 0.25
    fake_git(tmp_path, "(trap '' TERM; exec sleep 600) & echo $! > child; wait")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(git_module, "_GRACE_S", 0.2)
    while not (child.exists() and child.read_text()):  # on a busy machine a shell may take so long
        deadline_s *= 2
        with pytest.raises(StorageError, match=rf"git status in .* answer within {deadline_s:g} s"):
            Git(tmp_path).run("status", deadline_s=deadline_s)
    assert state_of(int(child.read_text())) in "ZX"


def fake_git(directory: Path, script: str) -> None:
    (directory / "git").write_text(f"#!/bin/sh\n{script}\n")
    (directory / "git").chmod(0o755)


def test_nothing_of_the_users_git_takes_part(
    user: Path, kernel: Path, campaign: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hooks, signing, templates, autocrlf, a pager, and the variables that a hook runs with."""
    for hook in ("pre-commit", "commit-msg", "post-checkout", "reference-transaction"):
        path = user / ".git" / "hooks" / hook
        path.write_text(f"#!/bin/sh\ntouch '{tmp_path}/ran-{hook}'\nexit 1\n")
        path.chmod(0o755)
    (tmp_path / "template").write_text("template text\n")
    (tmp_path / "gitconfig").write_text(
        "[commit]\n gpgSign = true\n"
        f" template = {tmp_path}/template\n"
        "[gpg]\n program = false\n[core]\n autocrlf = true\n safecrlf = true\n"
        "[log]\n showSignature = true\n[submodule]\n recurse = true\n"
        "[user]\n name = Grace\n email = grace@host\n"
    )
    before = snapshot(user)
    elsewhere = tmp_path / "elsewhere"
    git(tmp_path, "init", "-q", elsewhere)
    monkeypatch.setenv("GIT_DIR", str(elsewhere / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(elsewhere))
    monkeypatch.setenv("GIT_INDEX_FILE", str(elsewhere / "index"))
    lineage = opened(campaign, kernel)
    dos = FASTER.with_kernel_text("int a;\r\nint b;\n")
    commit = lineage.commit(dos, "Round 2: dos")
    monkeypatch.delenv("GIT_WORK_TREE")
    assert lineage.worktree == campaign / "worktree"
    assert (lineage.worktree / "src/my kernels/kernel.c").read_bytes() == b"int a;\r\nint b;\n"
    assert git(user, "cat-file", "-s", f"{commit}:src/my kernels/kernel.c") == "15"
    assert git(user, "log", "-1", "--no-show-signature", "--format=%an %ce", commit) == (
        "Grace grace@host"
    )
    assert not list(tmp_path.glob("ran-*"))
    assert snapshot(user) == before


def test_a_user_without_a_name(campaign: Path, kernel: Path) -> None:
    lineage = opened(campaign, kernel)
    lineage.commit(FASTER, "Round 2")
    assert log(lineage, "%an <%ae> %cn")[0] == "roofsmith <roofsmith@localhost> roofsmith"


def test_attributes_do_not_change_bytes(user: Path, kernel: Path, campaign: Path) -> None:
    (user / ".gitattributes").write_text("*.c text eol=crlf\n")
    git(user, "add", ".gitattributes")
    git(user, "commit", "-q", "-m", "attributes")
    lineage = opened(campaign, kernel)
    lineage.commit(FASTER, "Round 2")
    path = lineage.worktree / "src/my kernels/kernel.c"
    assert path.read_bytes() == text_of(FASTER).encode()


def test_a_submodule(user: Path, tmp_path: Path, campaign: Path) -> None:
    project = tmp_path / "project"
    git(tmp_path, "init", "-q", "-b", "main", project)
    git(project, "submodule", "--quiet", "add", user, "lib")
    git(project, "commit", "-q", "-m", "with lib")
    before = snapshot(project)
    lineage = opened(campaign, project / "lib" / "src" / "my kernels" / "kernel.c")
    lineage.commit(FASTER, "Round 2: faster")
    assert lineage.notes == ()
    assert log(lineage) == ["Round 2: faster", "start"]
    assert snapshot(project) == before

    (project / "kernel.c").write_text(text_of(NAIVE))
    other = tmp_path / "second"
    other.mkdir()
    above = opened(other, project / "kernel.c")
    above.commit(FASTER, "Round 2: faster")
    assert above.notes == ()
    assert git(above.worktree, "ls-tree", "--name-only", "HEAD", "lib") == "lib"


def test_a_sparse_checkout(user: Path, kernel: Path, campaign: Path) -> None:
    (user / "docs").mkdir()
    (user / "docs" / "page").write_text("x")
    git(user, "add", ".")
    git(user, "commit", "-q", "-m", "docs")
    git(user, "sparse-checkout", "set", "docs")
    kernel.parent.mkdir(parents=True, exist_ok=True)
    kernel.write_text(text_of(NAIVE))
    before = snapshot(user)
    lineage = opened(campaign, kernel)
    lineage.commit(FASTER, "Round 2: faster")
    assert lineage.notes == ()
    assert (lineage.worktree / "src/my kernels/kernel.c").read_text() == text_of(FASTER)
    assert git(user, "show", f"{lineage.branch}:docs/page") == "x"
    assert snapshot(user) == before


def test_a_linked_worktree_of_a_bare_repository(user: Path, tmp_path: Path, campaign: Path) -> None:
    bare = tmp_path / "bare.git"
    git(tmp_path, "clone", "-q", "--bare", user, bare)
    linked = tmp_path / "linked"
    git(bare, "worktree", "add", "-q", "-b", "work", linked)
    before = snapshot(linked)
    lineage = opened(campaign, linked / "src" / "my kernels" / "kernel.c")
    kept = lineage.commit(FASTER, "Round 2: faster")
    assert lineage.notes == ()
    assert snapshot(linked) == before
    shutil.rmtree(linked)
    assert opened(campaign).commit(FASTER, "Round 2: faster") == kept


def test_a_folder_that_became_a_link(user: Path, kernel: Path, campaign: Path) -> None:
    """Files are never written through a link that leads out of the worktree."""
    lineage = opened(campaign, kernel)
    shutil.rmtree(lineage.worktree / "src")
    (lineage.worktree / "src").symlink_to(user / "src")
    before = snapshot(user)
    lineage.commit(FASTER, "Round 2: faster")
    assert snapshot(user) == before
    assert (lineage.worktree / "src/my kernels/kernel.c").read_text() == text_of(FASTER)


def test_only_the_users_own_variables_reach_git() -> None:
    kept = scrubbed_environment(
        {"GIT_DIR": "x", "GIT_AUTHOR_DATE": "x", "GIT_AUTHOR_NAME": "Ada", "PATH": "/bin"}
    )
    assert "GIT_DIR" not in kept
    assert "GIT_AUTHOR_DATE" not in kept
    assert (kept["GIT_AUTHOR_NAME"], kept["PATH"]) == ("Ada", "/bin")
