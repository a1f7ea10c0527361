"""Repositories that use Git LFS, and other filters: with and without the programs they ask for."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest
from repository_bench import KERNEL, git, make_repository, needs_git, run, without_ceilings

from roofsmith.domain.target import Target
from roofsmith.errors import TargetError
from roofsmith.repository.checkouts import GitCheckouts, require_clean
from roofsmith.store.large_files import pointed_to
from roofsmith.targets.edited import edited_candidate
from roofsmith.targets.file import load_target

pytestmark = needs_git

CONTENT = b"\0weights\xff" * 500
DIGEST = hashlib.sha256(CONTENT).hexdigest()
POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{DIGEST}\nsize {len(CONTENT)}\n"
ATTRIBUTES = "*.bin filter=lfs diff=lfs merge=lfs -text\n"
MISSING = "no-such-git-lfs"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """As git-lfs leaves one where it isn't installed: pointers in the working tree."""
    folder = make_repository(tmp_path / "my repo")
    (folder / ".gitattributes").write_text(ATTRIBUTES)
    (folder / "data" / "w.bin").write_text(POINTER)
    (folder / "data" / "pointer.txt").write_text(POINTER)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "weights")
    return folder


def store(repository: Path) -> Path:
    """Where git-lfs keeps the content."""
    path = repository / ".git" / "lfs" / "objects" / DIGEST[:2] / DIGEST[2:4] / DIGEST
    path.parent.mkdir(parents=True)
    path.write_bytes(CONTENT)
    return path


def checked_out(repository: Path, place: Path) -> Path:
    folder, _ = checkouts(load_target(repository), place).make(load_target(repository).baseline)
    return folder


def checkouts(target: Target, place: Path) -> GitCheckouts:
    assert target.command is not None
    return GitCheckouts(target.command, place)


def ask_for_git_lfs(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Configure the filter as `git lfs install` does, for a program that is gone."""
    config = repository.parent / "gitconfig"
    config.write_text(
        f'[filter "lfs"]\n\tclean = {MISSING} clean -- %f\n\tsmudge = {MISSING} smudge -- %f\n'
        f"\tprocess = {MISSING} filter-process\n\trequired = true\n"
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))


@pytest.mark.parametrize("asked", [False, True])
def test_content_comes_from_the_repositorys_store(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: bool
) -> None:
    store(repository)
    if asked:
        ask_for_git_lfs(repository, monkeypatch)
    folder = checked_out(repository, tmp_path / "out")
    assert (folder / "data" / "w.bin").read_bytes() == CONTENT
    assert (folder / "data" / "pointer.txt").read_text() == POINTER, "no filter is asked for"
    assert (repository / "data" / "w.bin").read_text() == POINTER


def test_content_comes_from_the_working_tree(repository: Path, tmp_path: Path) -> None:
    (repository / "data" / "w.bin").write_bytes(CONTENT)
    folder = checked_out(repository, tmp_path / "out")
    assert (folder / "data" / "w.bin").read_bytes() == CONTENT


def test_what_the_repository_lacks_stays_a_pointer(repository: Path, tmp_path: Path) -> None:
    store(repository).write_bytes(CONTENT[:-1])
    folder = checked_out(repository, tmp_path / "out")
    assert (folder / "data" / "w.bin").read_text() == POINTER


def test_content_is_frozen_and_each_checkout_has_its_own(repository: Path, tmp_path: Path) -> None:
    kept, target = store(repository), load_target(repository)
    made = checkouts(target, tmp_path / "out")
    folder, _ = made.make(target.baseline)
    assert made.changed(target.baseline.id) == ()
    (folder / "data" / "w.bin").write_bytes(b"better weights")
    assert made.changed(target.baseline.id) == ("data/w.bin",)
    assert kept.read_bytes() == CONTENT


def test_a_campaign_sees_the_content(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_ceilings(monkeypatch, tmp_path / "cache")
    (repository / "test.sh").write_text(
        f'#!/bin/sh\n[ "$(sha256sum < data/w.bin)" = "{DIGEST}  -" ] || ! echo no weights\n'
    )
    git(repository, "commit", "--quiet", "--all", "--message", "needs its weights")
    code, out, err = run("check", repository)
    assert (code, "no weights" in out + err) == (1, True)
    store(repository)
    assert run("check", repository)[0] == 0


def test_pointers_of_a_submodule_are_filled_from_there(repository: Path, tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    shutil.move(repository, inner)
    outer = make_repository(tmp_path / "outer")
    git(outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "lib")
    git(outer, "commit", "--quiet", "--message", "a submodule")
    objects = outer / ".git" / "modules" / "lib" / "lfs" / "objects" / DIGEST[:2] / DIGEST[2:4]
    objects.mkdir(parents=True)
    (objects / DIGEST).write_bytes(CONTENT)
    require_clean(checkouts(load_target(outer), tmp_path / "x").repository)
    folder = checked_out(outer, tmp_path / "out")
    assert (folder / "lib" / "data" / "w.bin").read_bytes() == CONTENT


def test_content_in_a_copy_of_the_repository_is_no_change(repository: Path, tmp_path: Path) -> None:
    target = load_target(repository)
    spec = target.command.model_copy(update={"commit": checkouts(target, tmp_path / "x").commit})
    copy = tmp_path / "copy"
    shutil.copytree(repository, copy, ignore=shutil.ignore_patterns(".git"))
    (copy / "data" / "w.bin").write_bytes(CONTENT)
    assert edited_candidate(copy, spec, target.baseline) == target.baseline
    (repository / "data" / "w.bin").write_bytes(CONTENT)
    alone = edited_candidate(repository / "data" / "w.bin", spec, target.baseline)
    assert alone == target.baseline
    (copy / "data" / "w.bin").write_text("other weights\n")
    changed = edited_candidate(copy, spec, target.baseline)
    assert [source.path for source in changed.sources] == [KERNEL, "data/w.bin"]


def ask_for_crypt(repository: Path, monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    """A filter as git-crypt's: git has the file reversed, the working tree as it is."""
    config = repository.parent / "gitconfig"
    config.write_text(
        f'[filter "crypt"]\n\tsmudge = {program}\n\tclean = {program}\n\trequired = true\n'
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))


@pytest.fixture
def encrypted(repository: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    ask_for_crypt(repository, monkeypatch, "rev")
    (repository / ".gitattributes").write_text(f"{ATTRIBUTES}data/readme filter=crypt\n")
    (repository / "data" / "readme").write_text("secret\n")
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "--message", "secrets")
    return repository


@pytest.mark.parametrize("program", ["rev", "no-such-crypt"])
def test_what_another_filter_makes_comes_from_the_working_tree(
    encrypted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    ask_for_crypt(encrypted, monkeypatch, program)
    assert git(encrypted, "cat-file", "blob", "HEAD:data/readme") == "terces\n"
    folder = checked_out(encrypted, tmp_path / "out")
    assert (folder / "data" / "readme").read_text() == "secret\n"


def test_a_filter_without_its_program_is_named_where_nobody_can_do_without(
    encrypted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = checkouts(load_target(encrypted), tmp_path / "x").repository
    (encrypted / "data" / "readme").write_text("secret\n")  # git has to look at it again
    require_clean(known)
    ask_for_crypt(encrypted, monkeypatch, "no-such-crypt")
    (encrypted / "data" / "readme").write_text("secret\n")
    with pytest.raises(TargetError, match=r"whether data/readme in .* was changed") as caught:
        require_clean(known)
    assert "'crypt'" in caught.value.message
    assert "no-such-crypt" in caught.value.message


@pytest.mark.parametrize("held", [POINTER.encode(), CONTENT])
def test_a_campaign_runs_where_git_demands_git_lfs(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: bytes
) -> None:
    """As in a container: each command that looks at a file again would run the program."""
    without_ceilings(monkeypatch, tmp_path / "cache")
    before = git(repository, "status", "--short")
    ask_for_git_lfs(repository, monkeypatch)
    (repository / "data" / "w.bin").write_bytes(held)
    code, out, err = run(
        "optimize", repository, "--proposer", "none", "--output", tmp_path / "campaign"
    )
    assert code == 0, err
    assert MISSING not in out + err, out
    assert git(repository, "branch", "--list", "optimize/*").split()[-1] == "optimize/campaign"
    assert (repository / "data" / "w.bin").read_bytes() == held
    monkeypatch.delenv("GIT_CONFIG_GLOBAL")
    if held == POINTER.encode():
        assert git(repository, "status", "--short") == before
    (repository / "data" / "w.bin").write_bytes(b"other weights")
    ask_for_git_lfs(repository, monkeypatch)
    code, _, err = run("check", repository)
    assert (code, "not committed: data/w.bin" in " ".join(err.split())) == (2, True)


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (POINTER.encode(), DIGEST),
        (POINTER.replace("oid", "ext-0-x sha256:00\noid").encode(), DIGEST),
        (POINTER.encode() + b"\0" * 1024, None),
        (b"version https://git-lfs.github.com/spec/v1\n", None),
        (CONTENT, None),
        (b"", None),
    ],
)
def test_a_pointer_is_known_by_its_form(data: bytes, found: str | None) -> None:
    assert pointed_to(data) == found
