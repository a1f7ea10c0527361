"""What a round's commands and profilers leave is kept, hashed and checked."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from roofsmith.domain.artifact import KeptProfiles
from roofsmith.store import evidence
from roofsmith.store.evidence import EvidenceFiles, changed_artifacts

ID = "0123456789ab"


def left(folder: Path, profiles: KeptProfiles = "kept") -> EvidenceFiles:
    files = {"build.log": "cc", "benchmark.csv": "n,us\n1,2\n", "profile/p/1_kernel_trace.csv": "t"}
    for name, text in files.items():
        path = folder / "left" / ID / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return EvidenceFiles(folder / "campaign", folder / "left", profiles, since_s=0.0)


def test_logs_and_profiles_have_places_of_their_own(tmp_path: Path) -> None:
    found = left(tmp_path).gather(3, ID, kept=True)
    assert [one.path for one in found] == [
        "profiles/round-3/p/1_kernel_trace.csv",
        "rounds/round-3/artifacts/benchmark.csv",
        "rounds/round-3/artifacts/build.log",
    ]
    assert (tmp_path / "campaign" / found[1].path).read_text() == "n,us\n1,2\n"
    assert not [*changed_artifacts(tmp_path / "campaign", found)]


@pytest.mark.parametrize(
    ("profiles", "kept", "stays"),
    [("all", False, True), ("kept", True, True), ("kept", False, False), ("none", True, False)],
)
def test_profiles_stay_as_the_target_says(
    tmp_path: Path, profiles: KeptProfiles, kept: bool, stays: bool
) -> None:
    found = left(tmp_path, profiles).gather(2, ID, kept=kept)
    assert any(one.path.startswith("profiles/") for one in found) == stays
    assert sum("artifacts/" in one.path for one in found) == 2


def test_what_is_older_or_a_link_is_left(tmp_path: Path) -> None:
    source = left(tmp_path)
    folder = tmp_path / "left" / ID
    (folder / "link.log").symlink_to("/etc/hostname")
    os.utime(folder / "build.log", (1, 1))
    found = EvidenceFiles(source.directory, source.left, "none", since_s=2).gather(1, ID, kept=True)
    assert [Path(one.path).name for one in found] == ["benchmark.csv"]


def test_what_no_record_could_name_is_left_out(tmp_path: Path) -> None:
    source, folder = left(tmp_path), tmp_path / "left" / ID
    odd = (b"\xff.log", b"a\nb.log", b"x" * 255, evidence.LEFT_OUT.encode())
    for name in odd:
        Path(os.fsdecode(os.fsencode(folder) + b"/" + name)).write_text("t")
    found = source.gather(1, ID, kept=False)
    told = [one for one in found if one.path.endswith(evidence.LEFT_OUT)]
    assert len(found) == 3
    assert len(told) == 1
    assert all(one.model_dump_json() for one in found)
    said = (tmp_path / "campaign" / told[0].path).read_text()
    assert said.count("\n") == len(odd)
    assert "\\udcff" in said


def test_the_largest_files_are_left_out_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evidence, "MOST_BYTES", 12)
    source = left(tmp_path, "all")
    (tmp_path / "left" / ID / "test.log").write_text("x" * 20)
    found = source.gather(1, ID, kept=True)
    names = [Path(one.path).name for one in found]
    assert names == ["1_kernel_trace.csv", "benchmark.csv", "build.log", "left_out.txt"]
    assert "test.log: 20 bytes" in (tmp_path / "campaign" / found[-1].path).read_text()


def test_a_candidate_that_left_nothing_has_none(tmp_path: Path) -> None:
    assert EvidenceFiles(tmp_path, tmp_path / "left", "all", 0.0).gather(1, ID, kept=True) == ()


def test_edited_and_missing_files_are_found(tmp_path: Path) -> None:
    campaign = tmp_path / "campaign"
    found = left(tmp_path).gather(3, ID, kept=True)
    (campaign / found[0].path).write_text("edited")
    (campaign / found[1].path).unlink()
    (campaign / found[2].path).unlink()
    (campaign / found[2].path).symlink_to(tmp_path / "left" / ID / "build.log")
    faults = dict(changed_artifacts(campaign, found))
    assert [*faults] == [one.path for one in found]
    assert "another hash" in faults[found[0].path]


def test_a_later_look_keeps_profiles_alone(tmp_path: Path) -> None:
    found = left(tmp_path, "all").gather(2, ID, kept=False, logs=False)
    assert [one.path for one in found] == ["profiles/round-2/p/1_kernel_trace.csv"]
