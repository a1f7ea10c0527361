"""What a repository's own profiler says: one run's file, whatever else a candidate writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from roofsmith.domain.command import CommandSpec, ProfileCommand
from roofsmith.domain.kernel import Built, Signature
from roofsmith.domain.workload import Workload
from roofsmith.repository.profiler import CommandProfiler

TABLE = "Kernel_Name,Start_Timestamp,End_Timestamp\\npa_main,0,{}\\n"


def profiled(folder: Path, command: str, steps: int | None = None) -> tuple[CommandProfiler, Built]:
    """A profiler that runs a command in a checkout."""
    checkout = folder / "checkout"
    checkout.mkdir()
    spec = CommandSpec(
        repo="/r", editable=("a.c",), benchmark="b", metric="us", unit="us", rows=("n",),
        profile=ProfileCommand(command=command, results="*.csv", steps=steps),
    )  # fmt: skip
    built = Built(
        candidate_id="0" * 12, language="command", library=checkout, library_sha256="",
        signature=Signature(parameters=()), environment={}, command="", log=folder / "build.log",
        build_time_s=0,
    )  # fmt: skip
    return CommandProfiler(spec, folder / "logs"), built


def writes(name: str, end_ns: int) -> str:
    """A command that writes a table of one launch."""
    return f"printf '{TABLE.format(end_ns)}' > {name}"


def test_the_file_of_one_run_is_read(tmp_path: Path) -> None:
    profiler, built = profiled(tmp_path, writes("a.csv", 2000))
    (built.library / "old.csv").write_text("of an earlier run")
    assert profiler.kernel_time(built) == pytest.approx(2e-6)


def test_equal_files_are_one(tmp_path: Path) -> None:
    profiler, built = profiled(tmp_path, f"{writes('a.csv', 2000)}; cp a.csv b.csv; mkdir -p c.csv")
    assert profiler.kernel_time(built) == pytest.approx(2e-6)
    assert profiler.kernel_time(built) == pytest.approx(2e-6)  # the folder is still there


@pytest.mark.parametrize(
    ("steps", "time_s", "what"),
    [(None, 2e-6, "mean kernel time over"), (4, 0.5e-6, "kernel time per step over")],
)
def test_the_profile_says_what_its_time_is_of(
    tmp_path: Path, steps: int | None, time_s: float, what: str
) -> None:
    profiler, built = profiled(tmp_path, writes("a.csv", 2000), steps)
    found = profiler.profile(built, Workload(dims={"n": 1}, config_class="all"))
    assert found.counters[0].value == pytest.approx(time_s)
    assert what in found.notes[0]


@pytest.mark.parametrize("last", ["a", "b"])
def test_whoever_writes_last_does_not_choose(tmp_path: Path, last: str) -> None:
    first = "ab".replace(last, "")
    command = f"{writes(f'{first}.csv', 2000)}; sleep 0.02; {writes(f'{last}.csv', 1000)}"
    profiler, built = profiled(tmp_path, command)
    said = profiler.kernel_time(built)
    assert isinstance(said, str)
    assert "2 different files" in said
    assert {"a.csv", "b.csv"} <= set(said.replace(",", " ").replace(";", " ").split())
    assert "`profile.results`" in said
    profile = profiler.profile(built, Workload(dims={"n": 1}, config_class="all"))
    assert (profile.tool, profile.counters) == ("none", ())
    assert "2 different files" in profile.notes[0]
