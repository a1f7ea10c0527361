"""What benchmarks print is a table in many ways, and each is read alike by `init` and in a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from repository_bench import KERNEL, make_repository, needs_git, run

from roofsmith.domain.command import CommandSection
from roofsmith.repository.column_guess import rows_of
from roofsmith.repository.dialects import matched
from roofsmith.repository.printed_table import csv_of_file, csv_within, tables_within
from roofsmith.repository.rows import BadRowsError

GOOGLE = """\
2026-11-26T10:00:00+00:00
Run on (8 X 2400 MHz CPU s)
Load Average: 1.0, 2.0, 3.0
name,iterations,real_time,cpu_time,time_unit
"x/64",5600,12.3,12.1,ns
"x/128",2600,24.3,24.1,ns
"""
DOCUMENT = """\
Running.
{
  "context": {"caches": [{"level": 1}], "cpus": 8},
  "benchmarks": [
    {"name": "x/64", "stats": {"mean": 1.2e+01, "all": [1, 2]}, "ok": true},
    {"name": "x/128", "stats": {"mean": 24.3, "all": [1, 2]}, "ok": true}
  ]
}
"""
MARKDOWN = "Results:\n\n| N | Time (ms) |\n|---:|:---|\n| 64 | 1.5 |\n| 128 | 2.5 |\n\nbye, all\n"
BLANKS = "took 3 seconds\n   N  time (ms)\n ----  ------\n  64   1.5\n 128   2.5\n"


@pytest.mark.parametrize(
    ("printed", "columns", "last"),
    [
        ("N;ms\n64;1.5\n128;2.5\n", ("N", "ms"), ("128", "2.5")),
        ("N\tms\n64\t1.5\n128\t2.5\n", ("N", "ms"), ("128", "2.5")),
        (MARKDOWN, ("N", "Time (ms)"), ("128", "2.5")),
        ("+---+----+\n| N | ms |\n+---+----+\n| 8 | 1  |\n+---+----+\n", ("N", "ms"), ("8", "1")),
        (BLANKS, ("N", "time (ms)"), ("128", "2.5")),
        ("N ms\n64 1.5\n128 2.5\n", ("N", "ms"), ("128", "2.5")),
        (GOOGLE, ("name", "real_time"), ("x/128", "24.3")),
        (DOCUMENT, ("name", "stats.mean", "ok"), ("x/128", "24.3", "true")),
        ('{"N": 64, "ms": 1.5}\n{"N": 128, "ms": null}\n', ("N", "ms"), ("128", "")),
        ("x N=64 time=1.5ms\nx N=128 time=2.5ms\n", ("N", "time (ms)"), ("128", "2.5")),
        ("N: 64\ntime: 1.5 ms\n\nN: 128\ntime: 2.5 ms\n", ("N", "time (ms)"), ("128", "2.5")),
        ("---\nMETRIC us=3\nerr: 0\nachieved tok/s: 9.5\n", ("us", "achieved tok/s"), ("3", "9.5")),
        ("0.0123\n", ("value",), ("0.0123",)),
        ("\x1b[32mN,ms\x1b[0m\r\n[ 5%]\r[50%]\r64,1.5\r\n128,2.5\r\n", ("N", "ms"), ("128", "2.5")),
    ],
)  # fmt: skip
def test_a_table_is_found_in_whatever_is_printed(
    printed: str, columns: tuple[str, ...], last: tuple[str, ...]
) -> None:
    for table in (next(tables_within(printed)), csv_within(printed, columns[:1], columns)):
        row = rows_of(table)[-1]
        assert tuple(row[column] for column in columns) == last


@pytest.mark.rule("whole-table")
@pytest.mark.parametrize(
    "printed",
    [
        "N,us\n1,3\n\nN;us\n1;2\n",
        'N,us\n1,3\n\n{"N": 1, "us": 2}\n',
        "N,us\n1,3\n\nN: 1\nus: 2\n",
        "N us\n1 3\n\nN us\n1 2\n",
        '{"N": 1, "us": 2}\n{"N": 2, "us": 2, "why": "slow"}\n',
    ],
)
def test_of_two_tables_none_counts_in_whatever_way_they_are_printed(printed: str) -> None:
    with pytest.raises(BadRowsError, match="2 tables"):
        csv_within(printed, ("N",), ("us",))


def test_a_row_that_a_table_lost_is_named_between_other_marks_too() -> None:
    for printed in ("N;us\n1;3\n\n2;FAIL\n", "N us\n1 3\n\n2 FAIL\n", "N,us\n1,3\n\n2,FAIL\rok\n"):
        with pytest.raises(BadRowsError, match="looks like a row"):
            csv_within(printed, ("N",), ("us",))


@pytest.mark.parametrize("printed", ["N,time_ms\n64,1,25\n128,2,50\n"])
def test_decimal_commas_are_named(printed: str) -> None:
    for read in (lambda: next(tables_within(printed)), lambda: csv_within(printed, ("N",))):
        with pytest.raises(BadRowsError, match="LC_NUMERIC"):
            read()


def test_a_file_is_read_like_what_is_printed() -> None:
    assert rows_of(csv_of_file(GOOGLE, ("name",)))[-1]["real_time"] == "24.3"
    quoted = 'N,note\n1,"two\nlines"\n'
    assert csv_of_file(quoted, ("N",)) == quoted
    assert csv_of_file("nothing\n", ("N",)) == "nothing\n"


def test_a_pattern_finds_rows_where_there_is_no_table() -> None:
    text = "size 64 took 1.5 ms\nsize 128 took 2.5 ms\n"
    assert rows_of(matched(r"size (?P<N>\d+) took (?P<ms>[\d.]+)", text))[1] == {
        "N": "128",
        "ms": "2.5",
    }
    assert rows_of(matched(r"128 took ([\d.]+)", text)) == [{"value": "2.5"}]
    assert matched("nothing", text) == ""
    said: dict[str, Any] = {"editable": ["a.c"], "benchmark": "b", "unit": "ms"}
    section = CommandSection.model_validate(said | {"metric": {"pattern": "x"}})
    assert (section.metric, section.pattern, section.rows) == ("value", "x", ())
    with pytest.raises(ValueError, match="pattern: REGEX"):
        CommandSection.model_validate(said | {"metric": {"regex": "x"}})


def initialized(folder: Path, printed: str, *options: str) -> tuple[int, dict[str, str], str]:
    """What `init` makes of a benchmark that prints this: exit code, lines of the target, output."""
    script = f"cat <<'E'\n{printed}E\n"
    repository = make_repository(folder / "repo", bench_sh=script)
    code, out, err = run(
        "init", "--repo", repository, "--force", "--editable", KERNEL,
        "--benchmark", "sh bench.sh", *options,
    )  # fmt: skip
    lines = (repository / "target.yaml").read_text().splitlines()
    said = [line.split("#")[0].strip().partition(": ") for line in lines]
    return code, {key: value.strip(' "') for key, _, value in said}, " ".join((out + err).split())


@needs_git
@pytest.mark.parametrize(
    ("printed", "options", "expected"),
    [
        ("N,time/ms\n64,1.5\n128,2.5\n", (), {"metric": "[time/ms]", "direction": "lower"}),
        ("N,time [ms]\n64,1.5\n", ("--metric", "time [ms]"), {"metric": "`time [ms]`"}),
        ("METRIC total_us=123.4\nMETRIC err=0\n", (), {"metric": "total_us", "rows": "[]"}),
        ("N,us\n64,1.5\n", ("--threads", "1"), {"metric": "us", "threads": "1"}),
        ("0.0123\n", ("--metric", "value", "--unit", "s"), {"rows": "[]", "direction": "lower"}),
        ("took 3 ms\n", ("--pattern", "took (.*) ms", "--metric", "value", "--unit", "ms"),
         {"pattern": "took (.*) ms"}),
    ],
)  # fmt: skip
def test_init_reads_what_is_printed(
    tmp_path: Path, printed: str, options: tuple[str, ...], expected: dict[str, str]
) -> None:
    code, said, told = initialized(tmp_path, printed, *options)
    assert code == 0, told
    assert expected.items() <= said.items()


@needs_git
@pytest.mark.parametrize(
    ("printed", "options", "said"),
    [
        ("N;time_ms\n64;1,25\n128;2,50\n", (), "LC_NUMERIC"),
        ("N,us\n64,1\n128,2\naverage,1.5\n", (), "average,1.5"),
        ("N,time [ms]\n64,1.5\n", ("--metric", "time [ms] / N"), "backticks"),
    ],
)
def test_init_names_what_it_cannot_use(
    tmp_path: Path, printed: str, options: tuple[str, ...], said: str
) -> None:
    code, _, told = initialized(tmp_path, printed, *options)
    assert code == 2
    assert said in told


@needs_git
def test_init_names_an_error_that_is_small(tmp_path: Path) -> None:
    code, said, told = initialized(tmp_path, "N,err,us\n1,1e-6,3\n2,2e-6,4\n")
    assert code == 0
    assert "gate" not in said
    assert "err is at most 2e-06" in told


@needs_git
def test_init_reads_stderr_where_stdout_has_no_table(tmp_path: Path) -> None:
    script = "echo hello\necho 'achieved tok/s: 110.25' >&2\n"
    repository = make_repository(tmp_path / "repo", bench_sh=script)
    code, _, err = run(
        "init", "--repo", repository, "--force", "--editable", KERNEL, "--benchmark", "sh bench.sh"
    )
    assert code == 0, err
    assert 'metric: "[achieved tok/s]"' in (repository / "target.yaml").read_text()
