"""Fakes of the store's ports, and what every ledger, lineage and campaign directory must do.

The suites are plain classes: subclass one in a test module (its name starting with `Test`) and
define the pytest fixtures that its docstring lists.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field

from roofsmith.domain.campaign import Event, Resumed, Stopped
from roofsmith.domain.device import Device, Environment
from roofsmith.domain.ending import Wishes
from roofsmith.domain.kernel import BuildSpec, Candidate, SourceFile
from roofsmith.domain.tip import Tip
from roofsmith.domain.values import content_id
from roofsmith.ports import Ledger, Lineage
from roofsmith.store.memory import beside_readers, flags


class MemoryLedger:
    """A ledger in a list; give the same list to two of them to play a restart."""

    def __init__(self, records: list[Event] | None = None) -> None:
        self.records: list[Event] = [] if records is None else records

    def events(self) -> list[Event]:
        return list(self.records)

    def append(self, event: Event) -> None:
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
    """A campaign directory in a dictionary."""

    def __init__(self) -> None:
        self.files: MutableMapping[str, str] = {}
        self.wishes: list[Wishes] = []
        """What is asked from round to round, in order."""

    def write(self, files: Mapping[str, str]) -> None:
        for path, text in files.items():
            found = self.files[path].encode() if path in self.files else None
            self.files[path] = beside_readers(path, text.encode(), found).decode()

    def flags_by_hand(self) -> Mapping[int, bool]:
        return flags({path: text.encode() for path, text in self.files.items()})

    def asked(self) -> Wishes:
        return self.wishes.pop(0) if self.wishes else Wishes()


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
