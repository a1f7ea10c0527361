"""A repository's own command merges two versions of its files: a real one, in a real checkout."""

from __future__ import annotations

from pathlib import Path

import pytest
from repository_bench import git, needs_git

from roofsmith.domain.command import CommandSpec
from roofsmith.domain.dispatch import Dispatch, Threshold
from roofsmith.domain.kernel import BuildSpec, Candidate, Signature, SourceFile
from roofsmith.ports import DimensionSource, Unmergeable
from roofsmith.repository.checkouts import GitCheckouts
from roofsmith.repository.merge_hook import HookMerger

pytestmark = [needs_git, pytest.mark.slow]

DISPATCH = Dispatch(
    splits=4,
    rule=Threshold(dims=("block_size",), side="at_least", bound=512),
    within={"block_size": (16, 1024), "mtp": (1, 1)},
    new=("large",),
    old=("small",),
)
DIMS = {"block_size": DimensionSource("block_size"), "mtp": DimensionSource("mtp")}
MERGE = """\
set -e
test "$(cat frozen.txt)" = frozen
rule=$(python3 -c 'import json, os; print(json.load(open(os.environ["ROOFSMITH_DISPATCH"]))["c"])')
{ echo "if ($rule) {"; cat "$ROOFSMITH_NEW/src/k.c"; echo "} else {"
  cat "$ROOFSMITH_OLD/src/k.c"; echo "}"; } > "$ROOFSMITH_MERGED/src/k.c"
cp "$ROOFSMITH_NEW/src/k.c" "$ROOFSMITH_MERGED/src/new.c"
"""


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "a repository"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "k.c").write_text("old();\n")
    (folder / "frozen.txt").write_text("frozen\n")
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "start")
    return folder


def candidate(text: str) -> Candidate:
    return Candidate(
        language="command",
        sources=(SourceFile(path="src/k.c", text=text),),
        build=BuildSpec(flags=(), link=()),
    )


def merge(repo: Path, tmp_path: Path, command: str | None) -> Candidate | Unmergeable:
    spec = CommandSpec(
        repo=str(repo), commit=git(repo, "rev-parse", "HEAD").strip(), editable=("src/*.c",),
        benchmark="true", metric="us", rows=("block_size", "mtp"), dispatch=command,
    )  # fmt: skip
    merger = HookMerger(spec, GitCheckouts(spec, tmp_path / "checkouts"), tmp_path / "logs")
    signature = Signature(entry="benchmark", parameters=())
    return merger.merge(candidate("old();\n"), candidate("new();\n"), DISPATCH, DIMS, signature)


def test_the_command_gets_both_versions_and_the_rule(repo: Path, tmp_path: Path) -> None:
    made = merge(repo, tmp_path, MERGE)
    assert isinstance(made, Candidate), made
    assert {source.path: source.text for source in made.sources} == {
        "src/k.c": "if ((long long)block_size >= 512LL && block_size >= 16 && block_size <= 1024"
        " && mtp == 1) {\nnew();\n} else {\nold();\n}\n",
        "src/new.c": "new();\n",
    }


def test_a_command_that_merges_in_place_spoils_no_checkout(repo: Path, tmp_path: Path) -> None:
    merge(repo, tmp_path, 'cp "$ROOFSMITH_NEW/src/k.c" src/k.c; cp src/k.c "$ROOFSMITH_MERGED/src"')
    assert not (tmp_path / "checkouts" / candidate("old();\n").id).exists()
    merge(repo, tmp_path, MERGE)
    assert (tmp_path / "checkouts" / candidate("old();\n").id).exists()


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (None, "no command.dispatch"),
        ("echo no idea how; exit 3", "no idea how"),
        ("true", "left the files as they were"),
        ('echo x > "$ROOFSMITH_MERGED/frozen.txt"', "frozen.txt, which isn't editable"),
        ('rm "$ROOFSMITH_MERGED/src/k.c"', "removed src/k.c"),
        ('printf "\\377" > "$ROOFSMITH_MERGED/src/k.c"', "no text"),
    ],
)
def test_what_gives_no_candidate_says_why(
    repo: Path, tmp_path: Path, command: str | None, why: str
) -> None:
    made = merge(repo, tmp_path, command)
    assert isinstance(made, Unmergeable)
    assert why in made.reason
