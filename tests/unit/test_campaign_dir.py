"""The campaign directory: one holder at a time, whole files, nothing outside, logs that grow."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from campaign_builder import softmax_campaign

from roofsmith.domain.ending import Wishes
from roofsmith.errors import CampaignBusyError, StorageError, UsageError
from roofsmith.report.campaign_files import render_campaign
from roofsmith.store import campaign_dir, files
from roofsmith.store.campaign_dir import ASKED, CampaignDirectory, ask, asked
from roofsmith.store.ledger import JsonlLedger
from roofsmith.testing.store import example_events


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "runs" / "a \"quoted\" 'campaign' größer"


@pytest.fixture
def campaign(root: Path) -> Iterator[CampaignDirectory]:
    with CampaignDirectory.create(root) as directory:
        yield directory


def content(root: Path) -> dict[str, str]:
    return {
        path.relative_to(root).as_posix(): path.read_text()
        for path in root.rglob("*")
        if path.is_file() and path.name not in (".lock", ".gitignore")
    }


def test_files_are_written_with_their_folders(campaign: CampaignDirectory, root: Path) -> None:
    campaign.write({"README.md": "# one\n", "rounds/round-2/summary.md": "größer → “besser”\n"})
    campaign.write({"README.md": "# two\n"})
    assert content(root) == {
        "README.md": "# two\n", "rounds/round-2/summary.md": "größer → “besser”\n",
    }  # fmt: skip


@pytest.mark.parametrize("path", ["../escaped.md", "/tmp/x.md", "rounds/../../x.md", ""])
def test_nothing_is_written_outside(campaign: CampaignDirectory, root: Path, path: str) -> None:
    with pytest.raises(StorageError):
        campaign.write({"beside.md": "x", path: "x"})
    assert content(root) == {}


def test_logs_only_grow(campaign: CampaignDirectory, root: Path) -> None:
    campaign.write({"logs/optimize.md": "round 1\n"})
    campaign.write({"logs/optimize.md": "round 1\nround 2\n"})
    assert content(root) == {"logs/optimize.md": "round 1\nround 2\n"}
    campaign.write({"logs/optimize.md": "round I\n"})
    once = content(root)["logs/optimize.md"]
    assert once.startswith("round 1\nround 2\n")
    assert "Correction" in once
    assert once.endswith("\nround I\n")


def start_records(root: Path) -> None:
    (root / "ledger.jsonl").write_text("a record\n")


HOLDS = """
import os, sys
from pathlib import Path
from roofsmith.store.campaign_dir import CampaignDirectory
held = CampaignDirectory.create(Path(sys.argv[1]), command="roofsmith optimize x.yaml")
"""


def test_a_second_holder_is_told_who_the_first_is(root: Path) -> None:
    code = HOLDS + "print(flush=True); sys.stdin.read()\n"
    with subprocess.Popen(
        [sys.executable, "-c", code, os.fspath(root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        process.stdout.readline()
        with pytest.raises(CampaignBusyError) as busy:
            CampaignDirectory.create(root)
        assert f"process {process.pid} on " in busy.value.message
        assert "roofsmith optimize x.yaml" in busy.value.message
        process.send_signal(signal.SIGKILL)
        process.wait()
    CampaignDirectory.create(root).close()  # the kernel let go of the dead process's lock


def test_a_dead_holder_s_lock_is_waited_for_while_a_child_has_it(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `subprocess` leaves it: to a child that isn't yet the program that is being started."""
    code = HOLDS + "if os.fork() == 0: sys.stdin.read()\nos._exit(0)\n"
    with subprocess.Popen(
        [sys.executable, "-c", code, os.fspath(root)], stdin=subprocess.PIPE
    ) as process:
        process.wait()
        with monkeypatch.context() as patch:
            patch.setattr(campaign_dir, "INHERITED_S", 0.0)
            with pytest.raises(CampaignBusyError, match=r"roofsmith optimize x\.yaml"):
                CampaignDirectory.create(root)
        ended = threading.Timer(0.2, process.stdin.close)
        ended.start()
        CampaignDirectory.create(root).close()
        ended.join()


def test_one_process_cannot_hold_it_twice(root: Path) -> None:
    first = CampaignDirectory.create(root)
    start_records(root)
    with pytest.raises(CampaignBusyError, match=f"process {os.getpid()} "):
        CampaignDirectory.open(root)
    first.close()
    first.close()
    CampaignDirectory.open(root).close()


def test_create_refuses_a_campaign_and_open_takes_it(root: Path) -> None:
    CampaignDirectory.create(root).close()
    start_records(root)
    with pytest.raises(UsageError, match="already holds a campaign") as error:
        CampaignDirectory.create(root)
    assert "roofsmith resume " in (error.value.hint or "")
    with CampaignDirectory.open(root) as campaign:
        assert campaign.ledger_path.read_text() == "a record\n"


def test_create_takes_over_what_was_abandoned_before_its_first_record(root: Path) -> None:
    with CampaignDirectory.create(root) as campaign:
        campaign.write({"README.md": "x"})
    with pytest.raises(UsageError, match="no record in ledger"):
        CampaignDirectory.open(root)
    CampaignDirectory.create(root).close()


def test_create_refuses_somebody_elses_directory(root: Path) -> None:
    root.mkdir(parents=True)
    (root / "thesis.tex").write_text("x")
    (root / ".lock").write_text("another program's")
    with pytest.raises(UsageError, match="isn't empty and holds no campaign"):
        CampaignDirectory.create(root)
    assert (root / ".lock").read_text() == "another program's"


@pytest.mark.parametrize("there", ["nothing", "file", "empty"])
def test_open_needs_a_campaign(root: Path, there: str) -> None:
    root.parent.mkdir()
    if there == "file":
        root.touch()
    elif there == "empty":
        root.mkdir()
    with pytest.raises(UsageError, match=r"holds no campaign|is not a directory"):
        CampaignDirectory.open(root)


def test_a_file_in_the_way(root: Path) -> None:
    root.parent.write_text("x")
    with pytest.raises(StorageError, match=r"can't make the campaign directory .*campaign"):
        CampaignDirectory.create(root)


def test_unchanged_files_are_left_alone(campaign: CampaignDirectory) -> None:
    campaign.write({"README.md": "same", "b.md": "old"})
    before = (campaign.directory / "README.md").stat()
    campaign.write({"README.md": "same", "b.md": "new"})
    assert (campaign.directory / "README.md").stat().st_ino == before.st_ino
    assert (campaign.directory / "b.md").read_text() == "new"


@pytest.mark.parametrize("path", ["ledger.jsonl", "ledger.head", ".lock", "repo/x", "worktree/x"])
def test_records_are_not_overwritten(campaign: CampaignDirectory, path: str) -> None:
    with pytest.raises(StorageError, match="belongs to the campaign's records"):
        campaign.write({path: "x"})


def test_links_do_not_lead_out(campaign: CampaignDirectory, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (campaign.directory / "rounds").symlink_to(outside)
    with pytest.raises(StorageError, match="would lie outside"):
        campaign.write({"rounds/summary.md": "x"})
    (outside / "precious").write_text("keep")
    (campaign.directory / "plan.md").symlink_to(outside / "precious")
    campaign.write({"plan.md": "mine"})
    assert (outside / "precious").read_text() == "keep"
    assert sorted(p.name for p in outside.iterdir()) == ["precious"]


def test_text_that_is_not_unicode_is_escaped(campaign: CampaignDirectory) -> None:
    campaign.write({"build.md": b"caf\xe9".decode("utf-8", "surrogateescape")})
    assert (campaign.directory / "build.md").read_text() == "caf\\udce9"


def test_a_full_disk_names_the_file_and_keeps_the_old_one(campaign: CampaignDirectory) -> None:
    campaign.write({"report.html": "old"})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(StorageError, match=r"can't write .*report.html: ") as error:
            campaign.write({"report.html": "x" * 5000})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert error.value.hint
    assert (campaign.directory / "report.html").read_text() == "old"
    assert not list(campaign.directory.glob(".*.tmp"))


def test_a_folder_in_the_place_of_a_file(campaign: CampaignDirectory) -> None:
    (campaign.directory / "README.md").mkdir()
    with pytest.raises(StorageError, match=r"README\.md: Is a directory"):
        campaign.write({"README.md": "x"})


def test_git_ignores_the_checkouts_but_not_the_records(campaign: CampaignDirectory) -> None:
    subprocess.run(["git", "init", "-q", campaign.directory.parent], check=True)
    for path in ("repo/a", "worktree/a", "ledger.jsonl"):
        (campaign.directory / path).parent.mkdir(exist_ok=True)
        (campaign.directory / path).write_text("x")
    listed = subprocess.run(
        ["git", "-C", campaign.directory, "ls-files", "--others", "--exclude-standard"],
        check=True, capture_output=True, text=True,
    ).stdout.split()  # fmt: skip
    assert listed == [".gitignore", "ledger.jsonl"]


NOTE = json.loads(render_campaign(softmax_campaign()).files["memory/v1.json"]) | {"rule": "größer"}


def note(**changes: object) -> str:
    return json.dumps(NOTE | changes, indent=2, ensure_ascii=False) + "\n"


def test_a_masked_note_stays_masked(tmp_path: Path) -> None:
    with CampaignDirectory.create(tmp_path / "c") as files:
        files.write({"memory/v1.json": note()})
        path = files.directory / "memory/v1.json"
        path.write_text(note(masked=True))
        files.write({"memory/v1.json": note()})
        assert path.read_text() == note(masked=True)
        files.write({"memory/v1.json": note(git_commit_hash="abc")})
        assert path.read_text() == note(git_commit_hash="abc", masked=True)


def test_a_flag_by_hand_is_found_until_the_ledger_has_it(tmp_path: Path) -> None:
    with CampaignDirectory.create(tmp_path / "c") as files:
        path = files.directory / "memory/v1.json"
        files.write({"memory/v1.json": note()})
        assert files.flags_by_hand() == {}
        path.write_text(note(masked=True))
        assert files.flags_by_hand() == {2: True}
        recorded = note(masked=True, masked_because="the flag in memory/v1.json")
        files.write({"memory/v1.json": recorded})
        assert path.read_text() == recorded
        assert files.flags_by_hand() == {}


def test_a_mask_may_be_taken_away_by_hand(tmp_path: Path) -> None:
    with CampaignDirectory.create(tmp_path / "c") as files:
        path = files.directory / "memory/v1.json"
        recorded = note(masked=True, masked_because="partial restart")
        files.write({"memory/v1.json": recorded})
        path.write_text(recorded.replace('"masked": true', '"masked": false'))
        assert files.flags_by_hand() == {2: False}
        files.write({"memory/v1.json": recorded})
        assert json.loads(path.read_text())["masked"] is False
        files.write({"memory/v1.json": note()})
        assert path.read_text() == note()


def test_what_a_crash_left_is_nobody_s_hand(tmp_path: Path) -> None:
    """The ledger unmasked a round, and the process died before the note was rendered."""
    with CampaignDirectory.create(tmp_path / "c") as files:
        stale = note(masked=True, masked_because="partial restart")
        files.write({"memory/v1.json": stale})
        assert files.flags_by_hand() == {}
        files.write({"memory/v1.json": note()})
        assert (files.directory / "memory/v1.json").read_text() == note()


def test_masking_may_change_the_spelling_of_a_note(tmp_path: Path) -> None:
    with CampaignDirectory.create(tmp_path / "c") as files:
        path = files.directory / "memory/v1.json"
        files.write({"memory/v1.json": note()})
        compact = json.dumps(NOTE | {"masked": True})
        path.write_text(compact)
        files.write({"memory/v1.json": note()})
        assert path.read_text() == compact


@pytest.mark.parametrize("edited", ['{"masked": 1}', "{}", "[true]", "not JSON", note(rule="x")])
def test_any_other_edit_of_a_note_is_undone(tmp_path: Path, edited: str) -> None:
    with CampaignDirectory.create(tmp_path / "c") as files:
        files.write({"memory/v1.json": note()})
        (files.directory / "memory/v1.json").write_text(edited)
        files.write({"memory/v1.json": note()})
        assert (files.directory / "memory/v1.json").read_text() == note()


def test_only_notes_have_a_mask(tmp_path: Path) -> None:
    with CampaignDirectory.create(tmp_path / "c") as files:
        for name in ("memory/summary.json", "plans/v1.json"):
            files.write({name: note()})
            (files.directory / name).write_text(note(masked=True))
            files.write({name: note()})
            assert (files.directory / name).read_text() == note()


def test_a_campaign_that_died_in_its_first_record_can_be_begun_again(root: Path) -> None:
    CampaignDirectory.create(root).close()
    (root / "ledger.jsonl").write_text('{"seq":1,"previous":"000')
    with pytest.raises(UsageError, match="holds no campaign"):
        CampaignDirectory.open(root)
    with CampaignDirectory.create(root) as files:
        ledger = JsonlLedger(files.ledger_path)
        ledger.append(example_events()[0])
        assert ledger.events() == example_events()[:1]
        assert (root / "ledger.jsonl.torn-1").read_text() == '{"seq":1,"previous":"000'


def test_a_file_in_the_place_of_the_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(StorageError) as error:
        CampaignDirectory.create(tmp_path / "taken")
    assert "file of that name" in (error.value.hint or "")


def test_what_is_asked_of_a_campaign_is_told_once_and_only_to_the_process_it_was_meant_for(
    root: Path,
) -> None:
    with CampaignDirectory.create(root) as files:
        start_records(root)
        assert files.asked() == Wishes()
        ask(root, Wishes(stop=True))
        assert asked(root).stop
        assert files.asked().stop
        (root / ASKED).write_text("anything")
        assert files.asked() == Wishes()
        ask(root, Wishes(stop=True))
        with CampaignDirectory.beside(root):
            assert asked(root).stop
    with CampaignDirectory.open(root) as files:
        assert files.asked() == Wishes()


def test_two_threads_may_ask_at_once(
    campaign: CampaignDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As two clicks on a page do: neither takes the other's half-written file."""
    failed: list[StorageError] = []
    both, write_all = threading.Barrier(2, timeout=20), files.write_all

    def slow(descriptor: int, data: bytes) -> None:
        write_all(descriptor, data)
        both.wait()

    def click() -> None:
        try:
            ask(campaign.directory, Wishes(stop=True))
        except StorageError as error:
            failed.append(error)

    monkeypatch.setattr(files, "write_all", slow)
    clicks = [threading.Thread(target=click) for _ in range(2)]
    for one in clicks:
        one.start()
    for one in clicks:
        one.join()
    assert not failed
    assert campaign.asked() == Wishes(stop=True)
