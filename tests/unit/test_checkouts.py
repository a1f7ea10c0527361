"""Checkouts of a repository: of one commit, apart from the user's, with frozen files watched."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from repository_bench import (
    KERNEL,
    ROWS,
    TARGET,
    git,
    make_repository,
    needs_git,
    run,
    without_ceilings,
)

from roofsmith.domain.command import CommandSpec, ProfileCommand
from roofsmith.domain.kernel import Candidate, SourceFile
from roofsmith.domain.target import Target
from roofsmith.errors import StorageError, TargetError
from roofsmith.repository.checkouts import (
    KEPT,
    GitCheckouts,
    editable_sources,
    open_repository,
    require_clean,
)
from roofsmith.store.git import Git
from roofsmith.targets.edited import edited_candidate
from roofsmith.targets.file import load_target

pytestmark = needs_git


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "my repo")


@pytest.fixture
def target(repository: Path) -> Target:
    return load_target(repository)


@pytest.fixture
def checkouts(target: Target, tmp_path: Path) -> GitCheckouts:
    return GitCheckouts(spec_of(target), tmp_path / "check outs")


def spec_of(target: Target) -> CommandSpec:
    assert target.command is not None
    return target.command


def with_files(target: Target, **texts: str) -> Candidate:
    named = {name.replace("__", "/").replace("_", "."): text for name, text in texts.items()}
    before = target.baseline
    sources = {source.path: source.text for source in before.sources} | named
    return before.model_copy(
        update={"sources": tuple(SourceFile(path=p, text=t) for p, t in sources.items())}
    )


def test_a_checkout_is_the_commit_with_the_candidates_files(
    repository: Path, target: Target, checkouts: GitCheckouts
) -> None:
    (repository / "data" / "readme").write_text("not committed\n")
    folder, times = checkouts.make(with_files(target, src__pa_rows="1 1 1 1 0\n"))
    assert times == 1
    assert (folder / KERNEL).read_text() == "1 1 1 1 0\n"
    assert (folder / "data" / "readme").read_text() == "frozen\n"
    assert (repository / KERNEL).read_text() == ROWS
    assert checkouts.make(with_files(target, src__pa_rows="1 1 1 1 0\n")) == (folder, 1)


def test_what_happens_in_a_checkout_stays_there(
    repository: Path, target: Target, checkouts: GitCheckouts
) -> None:
    folder, _ = checkouts.make(target.baseline)
    git(folder, "checkout", "--quiet", "-b", "mine")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", "mine")
    assert "mine" not in git(repository, "log", "--all", "--format=%s%n%D")


def test_a_changed_frozen_file_is_named(target: Target, checkouts: GitCheckouts) -> None:
    folder, _ = checkouts.make(target.baseline)
    assert checkouts.changed(target.baseline.id) == ()
    (folder / "out").mkdir()
    (folder / "out" / "new.csv").write_text("untracked\n")
    assert checkouts.changed(target.baseline.id) == ()
    (folder / "bench.sh").chmod(0o755)
    (folder / "data" / "readme").unlink()
    assert checkouts.changed(target.baseline.id) == ("bench.sh", "data/readme")


def test_a_source_that_a_run_rewrites_is_named(
    repository: Path, target: Target, tmp_path: Path
) -> None:
    checkouts = GitCheckouts(spec_of(target), tmp_path / "some")
    folder, _ = checkouts.make(target.baseline)
    (folder / KERNEL).write_text("what is measured\n")
    assert checkouts.changed(target.baseline.id) == (KERNEL,)
    checkouts.adopt(spec_of(target).model_copy(update={"volatile": (KERNEL,)}))
    assert checkouts.changed(target.baseline.id) == ()  # the baseline's commands do so, too


def test_links_are_not_editable_but_what_they_lead_to(repository: Path, tmp_path: Path) -> None:
    (repository / "src" / "link.rows").symlink_to("../data/readme")
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "--message", "a link")
    target = load_target(repository)
    assert [source.path for source in target.baseline.sources] == [KERNEL]
    checkouts = GitCheckouts(spec_of(target), tmp_path / "some")
    folder, _ = checkouts.make(target.baseline)
    assert edited_candidate(folder, spec_of(target), target.baseline) == target.baseline
    with pytest.raises(StorageError, match="is a link in the repository"):
        checkouts.make(with_files(target, src__link_rows="through it\n"))
    (repository / KERNEL).unlink()
    git(repository, "commit", "--quiet", "--all", "--message", "links alone")
    with pytest.raises(TargetError, match=r"nothing but links: src/link\.rows leads to"):
        load_target(repository)


def test_a_source_that_may_not_be_edited_is_named(target: Target, checkouts: GitCheckouts) -> None:
    added = with_files(target, sitecustomize_py="import os\n")
    checkouts.make(added)
    assert checkouts.changed(added.id) == ("sitecustomize.py",)
    same = with_files(target, data__readme="frozen\n")
    checkouts.make(same)
    assert checkouts.changed(same.id) == ()


def test_gits_own_folder_is_nobodys_to_edit(target: Target, tmp_path: Path) -> None:
    spec = spec_of(target).model_copy(update={"editable": ("**",)})
    checkouts = GitCheckouts(spec, tmp_path / "some")
    hook = with_files(target, **{".git__hooks__post-checkout": "#!/bin/sh\n"})
    checkouts.make(hook)
    assert checkouts.changed(hook.id) == (".git/hooks/post-checkout",)


def test_the_hash_of_what_is_frozen_knows_paths_and_content(
    repository: Path, target: Target, tmp_path: Path
) -> None:
    def frozen(spec: CommandSpec, name: str) -> str:
        checkouts = GitCheckouts(spec, tmp_path / name)
        checkouts.make(target.baseline)
        return checkouts.frozen_hash()

    before = frozen(spec_of(target), "a")
    (repository / KERNEL).write_text("1 1 1 1 0\n")
    git(repository, "commit", "--quiet", "--all", "--message", "editable")
    assert frozen(spec_of(load_target(repository)), "b") == before
    (repository / "data" / "readme").write_text("thawed\n")
    git(repository, "commit", "--quiet", "--all", "--message", "frozen")
    assert frozen(spec_of(load_target(repository)), "c") != before


def test_old_checkouts_go(target: Target, checkouts: GitCheckouts) -> None:
    folders = [
        checkouts.make(with_files(target, src__pa_rows=f"{n} 1 1 1 0\n"))[0]
        for n in range(1, KEPT + 3)
    ]
    assert [folder.exists() for folder in folders] == [False, False] + [True] * KEPT
    assert checkouts.make(with_files(target, src__pa_rows="1 1 1 1 0\n"))[1] == 2


def test_submodules_are_checked_out_and_frozen(repository: Path, tmp_path: Path) -> None:
    library = make_repository(tmp_path / "library")
    git(repository, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add",
        str(library), "third/library")  # fmt: skip
    git(repository, "commit", "--quiet", "--all", "--message", "library")
    target = load_target(repository)
    checkouts = GitCheckouts(spec_of(target), tmp_path / "out")
    folder, _ = checkouts.make(target.baseline)
    assert (folder / "third/library/data/readme").read_text() == "frozen\n"
    (folder / "third/library/data/readme").write_text("mine\n")
    assert checkouts.changed(target.baseline.id) == ("third/library/data/readme",)


def test_a_submodule_that_is_not_there_is_not_there_either(
    repository: Path, tmp_path: Path
) -> None:
    inner = make_repository(tmp_path / "inner")
    git(repository, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add",
        str(inner), "lib")  # fmt: skip
    git(repository, "commit", "--quiet", "--message", "with a submodule")
    git(repository, "submodule", "--quiet", "deinit", "lib")
    target = load_target(repository)
    folder, _ = GitCheckouts(spec_of(target), tmp_path / "out").make(target.baseline)
    assert list((folder / "lib").iterdir()) == []
    assert (folder / KERNEL).read_text() == ROWS


def test_files_of_a_submodule_are_a_target_of_their_own(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_ceilings(monkeypatch, tmp_path / "cache")
    inner = make_repository(tmp_path / "inner")
    git(repository, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add",
        str(inner), "lib")  # fmt: skip
    (repository / "bench.sh").write_text("sh lib/bench.sh && mv out/*.csv .\n")
    git(repository, "commit", "--quiet", "--all", "--message", "with a submodule")
    init = ("init", "--repo", repository, "--force", "--benchmark", "sh bench.sh")
    code, _, err = run(*init, "--editable", "src/*.rows", "--editable", f"lib/{KERNEL}")
    assert (code, "lies in the submodule lib, a repository of its own" in err) == (2, True)
    assert f"--editable {KERNEL}" in err
    git(repository, "submodule", "--quiet", "deinit", "lib")
    before = git(repository, "status", "--short")
    code, _, err = run(*init, "--editable", f"lib/{KERNEL}")
    assert (code, "which isn't checked out" in err) == (2, True)
    code, _, err = run(*init, "--editable", "src/*.rows")
    assert (code, "submodule update --init lib" in err) == (2, True), "the benchmark needs it"
    assert git(repository, "status", "--short") == before


def test_a_checkout_is_as_sparse_as_the_repository(repository: Path, tmp_path: Path) -> None:
    git(repository, "config", "uploadpack.allowFilter", "true")
    source, clone = repository.as_uri(), tmp_path / "partial"
    git(tmp_path, "clone", "-q", "--filter=blob:none", "--sparse", source, clone.name)
    git(clone, "sparse-checkout", "set", "src")
    target = load_target(clone)
    checkouts = GitCheckouts(spec_of(target), tmp_path / "out")
    folder, _ = checkouts.make(target.baseline)
    assert sorted(path.name for path in folder.iterdir() if path.is_dir()) == [".git", "src"]
    assert checkouts.changed(target.baseline.id) == ()
    git(clone, "config", "--worktree", "core.sparseCheckout", "false")
    with pytest.raises(StorageError, match=r"lacks .* data/readme"):
        GitCheckouts(spec_of(target), tmp_path / "whole").make(target.baseline)
    shallow = ("--depth=1", "--filter=blob:none", "--sparse")
    git(tmp_path, "clone", "-q", *shallow, source, "shallow")
    git(tmp_path / "shallow", "sparse-checkout", "set", "src")
    target = load_target(tmp_path / "shallow")
    with pytest.raises(StorageError) as error:
        GitCheckouts(spec_of(target), tmp_path / "other").make(target.baseline)
    assert "--unshallow" in (error.value.hint or "")


def test_a_repository_of_somebody_else_has_a_cure(repository: Path, tmp_path: Path) -> None:
    theirs = Git(repository, identity={"GIT_TEST_ASSUME_DIFFERENT_OWNER": "1"})
    with pytest.raises(StorageError) as error:
        theirs.run("status")
    assert f"safe.directory '{repository}'" in (error.value.hint or "")
    git(tmp_path, "clone", "--quiet", "--bare", str(repository), "bare")
    with pytest.raises(TargetError, match="bare"):
        open_repository(tmp_path / "bare")


def test_what_git_ignores_may_be_carried(repository: Path, tmp_path: Path) -> None:
    (repository / ".gitignore").write_text("out/\nbuilt\nweights/\n")
    git(repository, "commit", "--quiet", "--all", "--message", "ignore")
    (repository / "weights").mkdir()
    (repository / "weights" / "w").write_text("1\n")
    (repository / "target.yaml").write_text(TARGET + "  carry: weights\n")
    target = load_target(repository)
    folder, _ = GitCheckouts(spec_of(target), tmp_path / "out").make(target.baseline)
    assert (folder / "weights" / "w").read_text() == "1\n"


def test_a_folder_of_a_repository_may_be_the_target(tmp_path: Path) -> None:
    inner = make_repository(tmp_path / "top")
    (inner / "ops").mkdir()
    for name in ("src", "bench.sh", "test.sh", "build.sh", "target.yaml"):
        git(inner, "mv", name, f"ops/{name}")
    git(inner, "commit", "--quiet", "--message", "moved")
    target = load_target(inner / "ops")
    assert target.kernel.path == KERNEL
    checkouts = GitCheckouts(spec_of(target), tmp_path / "out")
    folder, _ = checkouts.make(with_files(target, src__pa_rows="1 1 1 1 0\n"))
    assert (folder / KERNEL).read_text() == "1 1 1 1 0\n"
    assert checkouts.changed(with_files(target, src__pa_rows="1 1 1 1 0\n").id) == ()
    (folder.parent / "data" / "readme").write_text("frozen, too\n")
    assert checkouts.changed(with_files(target, src__pa_rows="1 1 1 1 0\n").id) == ("data/readme",)


def test_a_dirty_repository_is_refused(repository: Path) -> None:
    (repository / "new").write_text("untracked files don't matter\n")
    require_clean(open_repository(repository))
    (repository / "bench.sh").write_text("true\n")
    git(repository, "mv", "test.sh", "check it.sh")
    with pytest.raises(TargetError, match=r"not committed: .*bench\.sh") as error:
        require_clean(open_repository(repository))
    assert "check it.sh" in error.value.message
    assert "git commit" in (error.value.hint or "")


def test_no_repository_and_no_commit_are_said(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="not in a git repository"):
        open_repository(tmp_path)
    git(tmp_path, "init", "--quiet")
    with pytest.raises(TargetError, match="has no commit yet"):
        open_repository(tmp_path)
    with pytest.raises(TargetError, match="is not a folder"):
        open_repository(tmp_path / "nothing")


def test_patterns_without_files_are_refused(repository: Path) -> None:
    section = spec_of(load_target(repository)).model_copy(update={"editable": ("src/*.cu",)})
    with pytest.raises(TargetError, match=r"matches editable: src/\*\.cu") as error:
        editable_sources(open_repository(repository), section)
    assert KERNEL in (error.value.hint or "")


@pytest.mark.rule("deciders-not-editable")
@pytest.mark.parametrize(
    ("key", "command", "named"),
    [
        ("benchmark", "python3 b.py --csv", "b.py"),
        ("benchmark", "cd tools && python3 ./measure.py", "tools/measure.py"),
        ("benchmark", "python3 -m tools.measure", "tools/measure.py"),
        ("benchmark", "OUT=x python3 link.py", "tools/measure.py"),
        ("test", "pytest 'tools/measure.py::test_all'", "tools/measure.py"),
        ("build", "make -C tools all", "tools/Makefile"),
        ("dispatch", "python3 $PWD/../../x; python3 b.py", "b.py"),
        ("profile.command", "rocprofv3 -- python3 b.py", "b.py"),
    ],
)
def test_a_file_that_a_command_names_isnt_editable(
    tmp_path: Path, key: str, command: str, named: str
) -> None:
    there = make_repository(
        tmp_path / "other", b_py="", kernel_py="", tools__measure_py="", tools__Makefile="all:\n"
    )
    (there / "link.py").symlink_to("tools/measure.py")
    git(there, "add", "--all")
    git(there, "commit", "--quiet", "--message", "a link")
    changes = {"editable": ("**/*.py", "tools/*"), key: command}
    if key == "profile.command":
        changes["profile"] = ProfileCommand(command=command, results="x.csv")
    section = spec_of(load_target(there)).model_copy(update=changes)
    with pytest.raises(TargetError, match=f"matches {named}, which command.{key} names") as error:
        editable_sources(open_repository(there), section)
    meant = section.model_copy(update={"editable": ("kernel.py", named)})
    if key == "build":
        assert f"where {named} is part of the kernel, name it" in (error.value.hint or "")
        assert named in {s.path for s in editable_sources(open_repository(there), meant)}
    else:  # nor letter by letter
        assert f"leave {named} frozen" in (error.value.hint or "")
        with pytest.raises(TargetError, match=f"'{named}' matches {named}, which command.{key}"):
            editable_sources(open_repository(there), meant)
    frozen = section.model_copy(update={"editable": ("kernel.py",)})
    assert len(editable_sources(open_repository(there), frozen)) == 1


@pytest.mark.rule("deciders-not-editable")
@pytest.mark.parametrize(
    ("benchmark", "runs"),
    [
        ("./bench out.csv", "bench"),
        ("make bench && bin/bench > out.csv", "bin/bench"),
        ("./pa out.csv", None),
        ("sh run.sh bench", None),
    ],
)
def test_the_source_of_what_the_benchmark_runs_isnt_editable(
    tmp_path: Path, benchmark: str, runs: str | None
) -> None:
    there = make_repository(tmp_path / "other", src__kernel_c="", bench_c="")
    changes = {
        "editable": ("src/kernel.c", "bench.c"), "benchmark": benchmark,
        "build": "cc src/kernel.c bench.c -o bench",
    }  # fmt: skip
    section = spec_of(load_target(there)).model_copy(update=changes)
    if runs is None:
        assert len(editable_sources(open_repository(there), section)) == 2
        return
    said = f"'bench.c' matches bench.c, of which command.build makes {runs}, which command.bench"
    with pytest.raises(TargetError, match=said):
        editable_sources(open_repository(there), section)


def test_a_commit_that_is_gone_is_said(target: Target, tmp_path: Path) -> None:
    lost = spec_of(target).model_copy(update={"commit": "1" * 40})
    with pytest.raises(StorageError, match="no commit 111111111111 to check out"):
        GitCheckouts(lost, tmp_path / "out").make(target.baseline)


# -- what somebody edited elsewhere -----------------------------------------------------------


def test_an_edited_file_is_found_by_its_name(target: Target, tmp_path: Path) -> None:
    (tmp_path / "pa.rows").write_text("1 1 1 1 0\n")
    made = edited_candidate(tmp_path / "pa.rows", spec_of(target), target.baseline)
    assert made == with_files(target, src__pa_rows="1 1 1 1 0\n")
    (tmp_path / "other.txt").write_text("?\n")
    with pytest.raises(TargetError, match=r"is none of the editable files: src/pa\.rows"):
        edited_candidate(tmp_path / "other.txt", spec_of(target), target.baseline)


def test_a_copy_of_the_repository_will_do(repository: Path, target: Target, tmp_path: Path) -> None:
    copy = tmp_path / "copy of it"
    git(tmp_path, "clone", "--quiet", str(repository), str(copy))
    (copy / "out").mkdir()
    (copy / "out" / "pa_1.csv").write_text("ignored by git\n")
    assert edited_candidate(copy, spec_of(target), target.baseline) == target.baseline
    (copy / KERNEL).write_text("1 1 1 1 0\n")
    (copy / "src" / "more.rows").write_text("a new file\n")
    made = edited_candidate(copy, spec_of(target), target.baseline)
    assert made == with_files(target, src__pa_rows="1 1 1 1 0\n", src__more_rows="a new file\n")
    (copy / "bench.sh").write_text("true\n")
    made = edited_candidate(copy, spec_of(target), target.baseline)
    assert made.sources[-2].path == "bench.sh"  # frozen: the judge will say so
    (copy / "strange.py").write_text("1\n")
    with pytest.raises(TargetError, match=r"neither in the repository nor editable: strange\.py"):
        edited_candidate(copy, spec_of(target), target.baseline)


def test_what_lies_untracked_in_the_repository_is_no_change(
    repository: Path, target: Target, tmp_path: Path
) -> None:
    (repository / "target.yaml").write_text("name: edited, which a campaign allows\n")
    (repository / "notes").write_text("of nobody's\n")
    (repository / "campaigns" / "pa-1").mkdir(parents=True)
    (repository / "campaigns" / "pa-1" / "ledger.jsonl").write_text("{}\n")
    copy = tmp_path / "copy of it"
    shutil.copytree(repository, copy)
    (repository / "campaigns" / "pa-1" / "ledger.jsonl").write_text("{}\n{}\n")
    assert edited_candidate(copy, spec_of(target), target.baseline) == target.baseline


def test_links_and_submodules_in_a_copy_are_as_committed(tmp_path: Path) -> None:
    inner = make_repository(tmp_path / "inner")
    repository = make_repository(tmp_path / "outer")
    git(repository, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner), "lib")
    (repository / "bench link").symlink_to("bench.sh")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "a submodule and a link")
    target = load_target(repository)
    copy = tmp_path / "copy"
    shutil.copytree(repository, copy, symlinks=True)
    assert edited_candidate(copy, spec_of(target), target.baseline) == target.baseline
    (copy / "lib" / "bench.sh").write_text("true\n")
    made = edited_candidate(copy, spec_of(target), target.baseline)
    assert made.sources[-1].path == "lib/bench.sh"


def test_a_file_of_another_checkout_inside_the_repository_is_the_file_there(
    repository: Path, target: Target
) -> None:
    """As a campaign's worktree, which lies below the folder where `optimize` ran."""
    worktree = repository / "campaigns" / "pa-1" / "worktree"
    git(repository, "worktree", "add", "-q", str(worktree))
    (worktree / KERNEL).write_text("1 1 1 1 0\n")
    expected = with_files(target, src__pa_rows="1 1 1 1 0\n")
    assert edited_candidate(worktree / KERNEL, spec_of(target), target.baseline) == expected
    assert edited_candidate(worktree, spec_of(target), target.baseline) == expected
    (worktree / "bench.sh").write_text("true\n")
    made = edited_candidate(worktree / "bench.sh", spec_of(target), target.baseline)
    assert made.sources[-1].path == "bench.sh"


def test_a_frozen_files_name_is_never_the_only_editable_one(
    repository: Path, target: Target, tmp_path: Path
) -> None:
    (repository / "src" / "frozen.rows").write_text("1 1 1 1 0\n")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "another")
    spec = spec_of(target).model_copy(
        update={"editable": (KERNEL,), "commit": git(repository, "rev-parse", "HEAD").strip()}
    )
    (tmp_path / "frozen.rows").write_text("2 1 1 1 0\n")
    with pytest.raises(TargetError, match="is none of the editable files"):
        edited_candidate(tmp_path / "frozen.rows", spec, target.baseline)
    (tmp_path / "mine.rows").write_text("2 1 1 1 0\n")
    made = edited_candidate(tmp_path / "mine.rows", spec, target.baseline)
    assert made == with_files(target, src__pa_rows="2 1 1 1 0\n")
