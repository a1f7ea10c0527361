"""What a repository's own commands say of a candidate, and of a repository that is no baseline."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from command_bench import Bench, opened, unsurveyed
from repository_bench import BENCHMARK, FASTER, KERNEL, ROWS, TARGET, needs_git

from roofsmith.domain.outcome import BuildFailed, Outcome
from roofsmith.errors import BaselineError, TargetError
from roofsmith.testing.observer import SilentObserver

pytestmark = [needs_git, pytest.mark.slow]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with opened(tmp_path_factory.mktemp("bench")) as found:
        yield found


def named(outcome: Outcome) -> tuple[str, str | None]:
    """Its kind and its reason."""
    return outcome.kind, getattr(outcome, "reason", None)


def test_who_noticed_that_the_editable_files_were_broken_is_recorded(bench: Bench) -> None:
    assert bench.target.command is not None
    assert bench.target.command.noticed_by == "benchmark"


@pytest.mark.rule("columns")
def test_a_row_that_fails_the_gate_is_incorrect(bench: Bench) -> None:
    outcome = bench.verdict(FASTER.replace("45.0 0", "45.0 0.5")).outcome
    assert named(outcome) == ("incorrect", "gate_failed")
    assert "mtp=2" in outcome.detail
    assert "err_flydsl_ps is 0.5" in outcome.detail


def test_a_test_that_fails_is_incorrect(bench: Bench) -> None:
    outcome = bench.verdict(FASTER + "broken 1 1 1 0\n").outcome
    assert named(outcome) == ("incorrect", "test_failed")


@pytest.mark.rule("same-rows")
@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("\n".join(ROWS.splitlines()[:3]) + "\n", "3 rows instead of 4"),
        (ROWS + "2048 1 64 1.0 0\n", "5 rows instead of 4"),
        (ROWS.replace("1024 1 128", "1024 1 64").replace("1024 1 64 30", "32 1 64 30"), ""),
    ],
    ids=["fewer", "more", "others"],
)
def test_other_rows_than_the_baselines_are_cheating(bench: Bench, rows: str, said: str) -> None:
    outcome = bench.verdict(rows).outcome
    assert named(outcome) == ("cheated", "rows_changed")
    assert said in outcome.detail


def test_what_the_commands_rewrite_themselves_is_no_cheating(tmp_path: Path) -> None:
    with opened(tmp_path, bench_sh=BENCHMARK + "echo again >> data/readme\n") as bench:
        assert bench.target.command is not None
        assert bench.target.command.volatile == ("data/readme",)
        assert bench.verdict().verdict == "faster"


BROKEN = (
    ("build_sh", "exit 1", "build_failed", "build_command_failed"),
    ("build_sh", "sleep 600", "build_failed", "build_deadline"),
    ("test_sh", "sleep 600", "timed_out", "test_deadline"),
    ("bench_sh", "exit 3", "crashed", "benchmark_failed"),
    ("bench_sh", "sleep 600", "timed_out", "benchmark_deadline"),
)


def test_a_command_that_fails_or_hangs_on_a_candidate_has_a_name(tmp_path: Path) -> None:
    files = {"build_sh": "", "test_sh": "", "bench_sh": BENCHMARK}
    for number, (script, fails, *_) in enumerate(BROKEN):
        files[script] = f"if grep -q 4{number}.5 src/pa.rows; then {fails}; fi\n{files[script]}"
    limits = "".join(f"  {name}_deadline_s: 1.5\n" for name in ("build", "test", "benchmark"))
    with opened(tmp_path, **files, target_yaml=TARGET + limits) as bench:
        for number, (_, _, *expected) in enumerate(BROKEN):
            rows = ROWS.replace("40.0", f"4{number}.5")
            built = bench.candidate(rows)
            failed = built if isinstance(built, BuildFailed) else bench.verdict(rows).outcome
            assert named(failed) == tuple(expected)
        assert bench.verdict().verdict == "faster"


@pytest.mark.rule("results-by-pattern", "build-every-change")
def test_every_change_is_built_and_without_metrics_an_attempt_has_failed(tmp_path: Path) -> None:
    script = BENCHMARK.replace("src/pa.rows", "built").replace(
        "mkdir", "grep . built || exit 0\nmkdir"
    )
    with opened(tmp_path, bench_sh=script, build_sh="cp src/pa.rows built\n") as bench:
        empty = bench.verdict("\n").outcome  # the benchmark succeeds, and writes nothing
        assert named(empty) == ("crashed", "bad_results")
        assert bench.verdict().verdict == "faster"  # what is measured is what was built


COUNTING = f"""\
echo N,iterations,us
while read -r b m h us err; do echo $us,$err,$us; done < {KERNEL}
"""
"""Rows that are told apart by how often the benchmark repeats, too."""
COUNTED = TARGET.split("  results")[0] + "  metric: us\n  unit: us\n  rows: [N, iterations]\n"


def test_who_makes_a_benchmark_repeat_more_often_is_no_cheat(tmp_path: Path) -> None:
    with opened(tmp_path, bench_sh=COUNTING, target_yaml=COUNTED) as bench:
        found = bench.verdict(ROWS.replace(" 0\n", " 7\n"))
    assert named(found.outcome) == ("unstable", "wrong_key")


# -- what is said of a repository that can't be the baseline ----------------------------------


def refused(folder: Path, **files: str) -> TargetError | BaselineError:
    """Why a repository is no baseline."""
    with (
        pytest.raises((TargetError, BaselineError)) as caught,
        unsurveyed(folder, **files) as (target, parts),
    ):
        parts.surveyed(target, SilentObserver())
    assert isinstance(caught.value, TargetError | BaselineError)
    return caught.value


@pytest.mark.rule("results-by-pattern")
@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"bench_sh": "echo hello\n"}, "wrote no file out/*.csv; there is no CSV at all"),
        ({"bench_sh": BENCHMARK.replace("out", "o")}, "there are o/pa_"),
        ({"bench_sh": BENCHMARK.replace("err_flydsl_ps", "err")}, "no column 'err_flydsl_ps'"),
        ({"bench_sh": BENCHMARK + "exit 3\n"}, "`sh bench.sh` exited with 3"),
        ({"bench_sh": "kill -SEGV $$\n"}, "was killed by SIGSEGV"),
        ({"test_sh": "echo wrong at 7; exit 1\n"}, "wrong at 7"),
        ({"build_sh": "echo no compiler >&2; exit 1\n"}, "no compiler"),
        ({"src__pa_rows": ROWS.replace("40.0 0", "40.0 1")}, "1 of 4 rows fail"),
        ({"src__pa_rows": ROWS + ROWS}, "name more columns under `rows`"),
        ({"bench_sh": "sleep 60\n", "target_yaml": TARGET + "  benchmark_deadline_s: 0.2\n"},
         "ran past its deadline of 0.2 s"),
    ],
    ids=["no CSV", "elsewhere", "column", "exit", "signal", "test", "build", "gate", "twice",
         "deadline"],
)  # fmt: skip
def test_a_repository_that_fails_is_explained(
    tmp_path: Path, files: dict[str, str], said: str
) -> None:
    error = refused(tmp_path, **files)
    assert said in str(error)
    assert error.log is not None


INSTALLED = """\
#!/bin/sh
# Measures a copy that was installed once, whatever lies in the checkout.
echo "block_size,mtp,head_size,us_flydsl_ps,err_flydsl_ps"
echo "16,1,64,40.0,0"
"""


def test_a_benchmark_that_measures_what_is_installed_is_no_baseline(tmp_path: Path) -> None:
    text = TARGET.replace("  results: out/*.csv\n", "").replace("  test: sh test.sh\n", "")
    error = refused(tmp_path, target_yaml=text, bench_sh=INSTALLED)
    assert "with src/pa.rows broken, `sh bench.sh` gives the same rows" in error.message
    assert "PYTHONPATH=src" in str(error)


def test_no_campaign_begins_with_a_row_that_sums_up_the_others(tmp_path: Path) -> None:
    target = COUNTED.replace(", iterations", "")
    prints = r"printf 'N,us\n1,2\n2,3\naverage,2.5\n'" + "\n"
    error = refused(tmp_path, bench_sh=prints, target_yaml=target)
    assert isinstance(error, TargetError)
    assert "average,2.5" in error.message
