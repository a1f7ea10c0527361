"""Fakes of the store's ports, and what every ledger, lineage and campaign directory must do.

The suites are plain classes: subclass one in a test module (its name starting with `Test`) and
define the pytest fixtures that its docstring lists.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from roofsmith.analysis.append_only import appended
from roofsmith.domain.campaign import Event, Resumed, Stopped
from roofsmith.domain.device import Device, Environment
from roofsmith.domain.kernel import BuildSpec, Candidate, SourceFile
from roofsmith.domain.memory import flag_by_hand
from roofsmith.domain.tip import Tip
from roofsmith.domain.values import content_id
from roofsmith.errors import StorageError
from roofsmith.ports import CampaignFiles, Ledger, Lineage, TipShelf


class MemoryLedger:
    """A ledger in a list; give the same list to two of them to play a restart."""

    def __init__(self, records: list[Event] | None = None) -> None:
        self.records: list[Event] = [] if records is None else records

    def events(self) -> list[Event]:
        """Every record, in order."""
        return list(self.records)

    def append(self, event: Event) -> None:
        """Keep one record."""
        self.records.append(event)


@dataclass(frozen=True, slots=True)
class MemoryCommit:
    """One accepted candidate."""

    hash: str
    candidate: Candidate
    message: str


@dataclass
class MemoryLineage:
    """A chain of commits in a list, and a worktree in a dictionary."""

    branch: str | None = "optimize/memory"
    commits: list[MemoryCommit] = field(default_factory=list)
    worktree: dict[str, str] = field(default_factory=dict)

    def commit(self, candidate: Candidate, message: str) -> str:
        """Add a candidate to the chain, unless it is its head already."""
        if not self.commits or self.commits[-1].candidate != candidate:
            parent = self.commits[-1].hash if self.commits else ""
            digest = content_id(f"{parent} {candidate.id} {message}")[:40]
            self.commits.append(MemoryCommit(digest, candidate, message))
        self._check_out(candidate)
        return self.commits[-1].hash

    def restore(self, candidate: Candidate) -> None:
        """Go back to the candidate's newest commit, or just hold its files."""
        for index in reversed(range(len(self.commits))):
            if self.commits[index].candidate == candidate:
                del self.commits[index + 1 :]
                break
        self._check_out(candidate)

    def _check_out(self, candidate: Candidate) -> None:
        self.worktree = {source.path: source.text for source in candidate.sources}


class MemoryFiles:
    """A campaign directory in a dictionary, with the rules of the real one."""

    def __init__(self, directory: Path = Path("/memory/campaign")) -> None:
        self._directory = directory
        self.files: MutableMapping[str, str] = {}
        self.writes: list[str] = []
        """Every path that was written because its text was new, in order."""

    @property
    def directory(self) -> Path:
        """Where the files would be."""
        return self._directory

    def write(self, files: Mapping[str, str]) -> None:
        """Keep the files; all of them or, if one breaks a rule, none."""
        for path in files:
            pure = PurePosixPath(path)
            if pure.is_absolute() or ".." in pure.parts or not pure.parts:
                raise StorageError(f"{path!r} would lie outside {self._directory}")
        new = {path: self._appended(path, text) for path, text in files.items()}
        self.writes += [path for path, text in new.items() if self.files.get(path) != text]
        self.files.update(new)

    def _appended(self, path: str, text: str) -> str:
        old = self.files.get(path)
        if old is None or not path.startswith("logs/"):
            return text
        return appended(text.encode(), old.encode()).decode()

    def flags_by_hand(self) -> Mapping[int, bool]:
        """By what the notes say."""
        flags = {
            int(match[1]) + 1: flag_by_hand(text.encode())
            for path, text in self.files.items()
            if (match := re.fullmatch(r"memory/v(\d+)\.json", path))
        }
        return {number: flag for number, flag in flags.items() if flag is not None}


class MemoryTips:
    """A shelf of tips in a list."""

    def __init__(self, tips: Sequence[Tip] = ()) -> None:
        self.tips = list(tips)

    def read(self) -> tuple[Tip, ...]:
        """Every tip, oldest first."""
        return tuple(self.tips)

    def add(self, tips: Sequence[Tip]) -> int:
        """Keep those whose lesson is new."""
        before = len(self.tips)
        for tip in tips:
            if tip.lesson not in {known.lesson for known in self.tips}:
                self.tips.append(tip)
        return len(self.tips) - before


class TipsConformance:
    """What every shelf of tips must do.

    Fixture: `open_shelf`, a function that opens the same shelf anew on each call; it is empty at
    first.
    """

    def test_a_new_shelf_is_empty(self, open_shelf: Callable[[], TipShelf]) -> None:
        """Looking makes nothing."""
        assert open_shelf().read() == ()

    def test_tips_come_back_in_order(self, open_shelf: Callable[[], TipShelf]) -> None:
        """For whoever opens it next."""
        first, second = example_tip("a1"), example_tip("b2")
        assert open_shelf().add([first]) == 1
        assert open_shelf().add([second]) == 1
        assert open_shelf().read() == (first, second)

    def test_a_lesson_is_told_once(self, open_shelf: Callable[[], TipShelf]) -> None:
        """Whoever teaches it again, in the same breath or years later."""
        first, again = example_tip("a1"), example_tip("a1", origin="another campaign, round 9")
        assert open_shelf().add([first, again, example_tip("b2")]) == 2
        assert open_shelf().add([again]) == 0
        assert open_shelf().read() == (first, example_tip("b2"))


class LedgerConformance:
    """What every ledger must do.

    Fixtures: `open_ledger`, a function that opens the same ledger anew on each call; it is empty
    at first.
    """

    def test_a_new_ledger_is_empty(self, open_ledger: Callable[[], Ledger]) -> None:
        """No record before the first append."""
        assert open_ledger().events() == []

    def test_events_come_back_equal_and_in_order(self, open_ledger: Callable[[], Ledger]) -> None:
        """What was appended is what is read, also by the one that wrote it."""
        ledger = open_ledger()
        for event in example_events():
            ledger.append(event)
        assert ledger.events() == example_events()

    def test_another_opening_sees_every_event(self, open_ledger: Callable[[], Ledger]) -> None:
        """A restart loses nothing, and goes on at the end."""
        first, second = example_events()
        open_ledger().append(first)
        reopened = open_ledger()
        assert reopened.events() == [first]
        reopened.append(second)
        assert open_ledger().events() == [first, second]

    def test_the_returned_list_is_the_callers(self, open_ledger: Callable[[], Ledger]) -> None:
        """Changing it doesn't change the ledger."""
        ledger = open_ledger()
        ledger.append(example_events()[0])
        ledger.events().clear()
        assert ledger.events() == example_events()[:1]

    def test_equal_events_are_two_records(self, open_ledger: Callable[[], Ledger]) -> None:
        """A ledger records what happened, also when it happened twice."""
        ledger = open_ledger()
        event = example_events()[0]
        ledger.append(event)
        ledger.append(event)
        assert ledger.events() == [event, event]


class LineageConformance:
    """What every lineage must do, one without git excepted.

    Fixtures: `lineage`, a new one that was opened for `example_candidate("naive")`; `held`, a
    function that returns the candidate's files as its worktree holds them, by the candidate's own
    paths.
    """

    def test_the_branch_is_its_own(self, lineage: Lineage) -> None:
        """Branches are named after the campaign, under `optimize/`."""
        assert lineage.branch is not None
        assert lineage.branch.startswith("optimize/")

    def test_a_commit_checks_the_candidate_out(
        self, lineage: Lineage, held: Callable[[], Mapping[str, str]]
    ) -> None:
        """The worktree holds what was committed last."""
        faster = example_candidate("faster")
        assert lineage.commit(faster, "Round 2: faster")
        assert held() == _texts(faster)

    def test_committing_the_head_returns_the_head(self, lineage: Lineage) -> None:
        """A resume may commit what was committed before the crash."""
        faster = example_candidate("faster")
        first = lineage.commit(faster, "Round 2: faster")
        assert lineage.commit(faster, "Round 2: faster") == first

    def test_other_flags_are_another_commit(self, lineage: Lineage) -> None:
        """A candidate is its sources and its build."""
        faster = example_candidate("faster")
        first = lineage.commit(faster, "Round 2: faster")
        flagged = faster.with_build(BuildSpec(flags=("-O2",)))
        assert lineage.commit(flagged, "Round 3: other flags") not in (first, None)

    def test_restore_rolls_back(
        self, lineage: Lineage, held: Callable[[], Mapping[str, str]]
    ) -> None:
        """Also over files that the later candidate added."""
        naive, faster = example_candidate("naive"), example_candidate("faster")
        kept = lineage.commit(faster, "Round 2: faster")
        helper = SourceFile(path="helper.h", text="#pragma once\n")
        split = faster.model_copy(update={"sources": (*faster.sources, helper)})
        lineage.commit(split, "Round 3: split")
        assert held() == _texts(split)
        lineage.restore(faster)
        assert held() == _texts(faster)
        assert lineage.commit(faster, "Round 2: faster") == kept
        lineage.restore(naive)
        assert held() == _texts(naive)

    def test_restore_of_something_never_committed(
        self, lineage: Lineage, held: Callable[[], Mapping[str, str]]
    ) -> None:
        """The worktree holds it all the same."""
        lineage.commit(example_candidate("faster"), "Round 2: faster")
        unknown = example_candidate("unknown")
        lineage.restore(unknown)
        assert held() == _texts(unknown)


class FilesConformance:
    """What every campaign directory must do.

    Fixtures: `files`, an empty one; `content`, a function that returns all its rendered files.
    """

    def test_files_are_written_with_their_folders(
        self, files: CampaignFiles, content: Callable[[], Mapping[str, str]]
    ) -> None:
        """Any depth, any text, and a second write replaces the first."""
        files.write({"README.md": "# one\n", "rounds/round-2/summary.md": "größer → “besser”\n"})
        files.write({"README.md": "# two\n"})
        assert content()["README.md"] == "# two\n"
        assert content()["rounds/round-2/summary.md"] == "größer → “besser”\n"

    def test_nothing_is_written_outside(
        self, files: CampaignFiles, content: Callable[[], Mapping[str, str]]
    ) -> None:
        """A path that leaves the directory is refused, and the whole write with it."""
        for path in ("../escaped.md", "/tmp/escaped.md", "rounds/../../escaped.md", ""):
            assert _refuses(files, {"beside.md": "x", path: "x"}), path
        assert content() == {}

    def test_logs_only_grow(
        self, files: CampaignFiles, content: Callable[[], Mapping[str, str]]
    ) -> None:
        """A log's new text starts with the old one; what contradicts it is a correction."""
        files.write({"logs/optimize.md": "round 1\n"})
        files.write({"logs/optimize.md": "round 1\nround 2\n"})
        assert content() == {"logs/optimize.md": "round 1\nround 2\n"}
        files.write({"logs/optimize.md": "round I\n"})
        once = content()["logs/optimize.md"]
        files.write({"logs/optimize.md": "round I\nround II\n"})
        twice = content()["logs/optimize.md"]
        assert once.startswith("round 1\nround 2\n")
        assert once.endswith("\nround I\n")
        assert "Correction" in once
        assert twice == once + "round II\n"


def example_candidate(marker: str) -> Candidate:
    """A small C kernel whose text differs by `marker`."""
    text = f"/* {marker} */\nvoid solve(const float* x, float* y, int N) {{}}\n"
    return Candidate(language="c", sources=(SourceFile(path="kernel.c", text=text),))


def example_events() -> list[Event]:
    """Two short records, with text that isn't ASCII and floats that need every digit."""
    device = Device(kind="cpu", name="Prüfling “A”", cores=2)
    environment = Environment(device=device, system="Linux", tools={"gcc": "12"}, packages={})
    return [
        Stopped(code="interrupted", detail="Ctrl-C\n→ paused", wall_s=0.1 + 0.2, at="2025-01-01"),
        Resumed(environment=environment, note="", at="2025-01-02"),
    ]


def example_tip(lesson: str, origin: str = "softmax_20260412, round 4") -> Tip:
    """A tip with text that isn't ASCII."""
    return Tip(
        lesson=lesson,
        context="softmax in c on “Prüfling”",
        signal="1.84x [1.80, 1.88], measured twice; ipc 1.1 -> 2.4",
        takeaway=f"Try early: {lesson}",
        applicability="kernels held back by compute",
        origin=origin,
        at="2026-04-12 10:05",
    )


def _texts(candidate: Candidate) -> dict[str, str]:
    return {source.path: source.text for source in candidate.sources}


def _refuses(files: CampaignFiles, content: Mapping[str, str]) -> bool:
    try:
        files.write(content)
    except StorageError:
        return True
    return False
