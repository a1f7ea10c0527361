"""What candidates of a repository try while its own commands run them: a real git and shell."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import command_bench
import pytest
from command_bench import Bench
from repository_bench import FASTER, KERNEL, ROWS, TARGET, needs_git
from waiting import wait_until

from roofsmith import shell
from roofsmith.domain.comparison import Judgement
from roofsmith.domain.outcome import Cheated, Crashed, Incorrect, Passed
from roofsmith.judge.sandbox.enclosure import state_of
from roofsmith.testing.observer import SilentObserver

pytestmark = [needs_git, pytest.mark.slow]

HOOK = "src/hook.rows"
"""Candidate code: run in the benchmark's own shell, before it measures and after."""
BENCH = """\
mkdir -p out
if [ -f src/hook.rows ]; then . ./src/hook.rows; else after() { :; }; fi
{
    echo "block_size,mtp,head_size,us_flydsl_ps,err_flydsl_ps"
    while read -r b m h us err; do echo "$b,$m,$h,$us,$err"; done < src/pa.rows
} > "out/pa_$$.csv"
after
"""


def opened(folder: Path, **files: str) -> AbstractContextManager[Bench]:
    return command_bench.opened(folder, **{"bench_sh": BENCH, **files})


def verdict(bench: Bench, hook: str, rows: str = FASTER) -> Judgement:
    """Of a candidate with code of its own."""
    return bench.verdict(rows, src__hook_rows=f"after() {{ :; }}\n{hook}\n")


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with opened(tmp_path_factory.mktemp("bench")) as found:
        yield found


@pytest.mark.rule("commands-keep-incumbent")
def test_a_daemon_is_ended_and_named(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shell, "LEAVING_S", 0.0)  # as if looking had taken all of it
    pid = tmp_path / "pid"
    daemon = f"setsid sh -c 'sleep 600 & echo $! > {pid}; wait' > /dev/null 2>&1 &"
    ready = f"while ! grep -qs sleep /proc/$(cat {pid})/comm; do sleep 0.01; done"
    found = verdict(bench, f"{daemon}\n{ready}")
    assert isinstance(found.outcome, Cheated)
    assert found.outcome.reason == "leftover_process"
    assert "2 running" in found.outcome.detail
    wait_until(lambda: state_of(int(pid.read_text())) in "ZX")


def test_what_ends_by_itself_right_after_is_no_daemon(bench: Bench) -> None:
    assert isinstance(verdict(bench, "setsid sleep 0.05 &").outcome, Passed)


@pytest.mark.rule("commands-keep-incumbent")
@pytest.mark.parametrize(
    "deed",
    [
        "echo slow >> $there/bench.sh",
        "echo '16 1 64 400.0 0' > $there/src/pa.rows; touch -r bench.sh $there/src/pa.rows",
        "rm -f $there/built",
        "echo x > $there/GNUmakefile",
    ],
    ids=["frozen", "editable", "gone", "new"],
)
def test_who_changes_the_incumbents_checkout_is_caught(bench: Bench, deed: str) -> None:
    hook = f'for there in ../*; do [ "$there" -ef . ] || {{ {deed}; }}; done'
    found = verdict(bench, hook)
    assert isinstance(found.outcome, Cheated)
    assert found.outcome.reason == "other_checkout_changed"
    again = bench.incumbent().library  # the next one is judged against what the incumbent is
    assert (again / "built").exists()
    assert not (again / "GNUmakefile").exists()
    assert (again / KERNEL).read_text() == ROWS


@pytest.mark.rule("commands-keep-candidate", "frozen-files")
@pytest.mark.parametrize("path", ["test.sh", HOOK], ids=["frozen", "its own"])
def test_what_is_measured_is_what_is_kept(bench: Bench, path: str) -> None:
    found = verdict(bench, f"after() {{ echo '# more' >> {path}; }}")
    assert isinstance(found.outcome, Cheated)
    assert found.outcome.reason == "frozen_file_changed"
    assert f"{path} changed" in found.outcome.detail


def test_a_checkout_that_failed_is_made_anew(bench: Bench) -> None:
    incumbent = bench.incumbent()
    (incumbent.library / "src" / "pa.rows").unlink()
    found = bench.judge.compare(bench.candidate(), incumbent, SilentObserver())
    assert found.outcome.kind == "unstable"
    assert (bench.incumbent().library / KERNEL).exists()


def test_what_only_the_candidates_runs_leave_is_told(bench: Bench) -> None:
    found = verdict(bench, "echo 1 > GNUmakefile; echo 2 > answers.bin; echo 3 > out/log_$$.csv")
    assert isinstance(found.outcome, Crashed)  # two results: see below
    found = verdict(bench, "echo 1 > GNUmakefile; echo 2 > answers.bin")
    assert any("left GNUmakefile, answers.bin;" in note for note in found.notes)
    assert not any("left" in note for note in verdict(bench, "").notes)


@pytest.mark.rule("one-table")
def test_two_different_results_are_none(bench: Bench) -> None:
    forged = "after() { sed 's/,[0-9.]*,0$/,1.0,0/' out/pa_*.csv > out/zz.csv; }"
    found = verdict(bench, forged)
    assert isinstance(found.outcome, Crashed)
    assert "2 different files out/*.csv" in found.outcome.detail
    same = verdict(bench, "after() { cp out/pa_*.csv out/latest.csv; }")
    assert isinstance(same.outcome, Passed)


@pytest.mark.rule("one-table")
def test_two_tables_on_stdout_are_none(tmp_path: Path) -> None:
    prints = BENCH.replace('} > "out/pa_$$.csv"', "}").replace("mkdir -p out\n", "")
    target = TARGET.replace("  results: out/*.csv\n", "")
    with opened(tmp_path, bench_sh=prints, target_yaml=target) as bench:
        header = "block_size,mtp,head_size,us_flydsl_ps,err_flydsl_ps"
        table = "\\n".join((header, *(line.replace(" ", ",") for line in ROWS.splitlines())))
        found = verdict(bench, f"printf '{table}\\n\\n'")
        assert isinstance(found.outcome, Crashed)
        assert "2 tables" in found.outcome.detail
        assert verdict(bench, "echo starting").verdict == "faster"


def test_a_part_of_a_metric_is_never_negative(tmp_path: Path) -> None:
    target = TARGET.replace("metric: us_flydsl_ps", "metric: us_flydsl_ps + err_flydsl_ps")
    target = target.replace("gate: err_flydsl_ps == 0", "gate: err_flydsl_ps < 1")
    with opened(tmp_path, target_yaml=target) as bench:
        found = verdict(bench, "", ROWS.replace("40.0 0", "40.0 -39"))
        assert isinstance(found.outcome, Incorrect)
        assert "err_flydsl_ps is -39" in found.outcome.detail


def test_a_gain_that_no_clock_but_its_own_sees_is_told(bench: Bench) -> None:
    found = verdict(bench, "sleep 0.05")  # the rows are read from a file: it runs longer
    assert found.verdict == "faster"
    assert any("nothing of the gain is seen by it" in note for note in found.notes)


def test_a_run_that_is_shorter_is_seen(tmp_path: Path) -> None:
    slow = BENCH.replace("mkdir -p out\n", "mkdir -p out\n[ -f src/hook.rows ] || sleep 0.5\n")
    with opened(tmp_path, bench_sh=slow) as bench:
        assert not any("nothing of the gain" in note for note in verdict(bench, "").notes)


def test_what_lies_in_a_carried_folder_is_the_users(tmp_path: Path) -> None:
    mine = tmp_path / "repository" / "out" / "mine.csv"
    mine.parent.mkdir(parents=True)
    mine.write_text("measured for days\n")
    with opened(tmp_path, target_yaml=TARGET + "  carry: [out]\n") as bench:
        assert isinstance(bench.judge.measure(bench.incumbent(), SilentObserver()).outcome, Passed)
    assert mine.read_text() == "measured for days\n"
