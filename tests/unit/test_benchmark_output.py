"""What benchmarks print is a table in many ways, and each is read alike by `init` and in a run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from printed_benchmarks import CLOSED, CLOSED_LINES, LINES, OPENED, Printed
from repository_bench import KERNEL, make_repository, needs_git, run

from roofsmith.domain.command import CommandSection, CommandSpec
from roofsmith.repository.cells import is_naming
from roofsmith.repository.column_guess import guess_keys, guess_metric, guess_own_rows, rows_of
from roofsmith.repository.column_names import bracketed
from roofsmith.repository.dialects import matched
from roofsmith.repository.line_patterns import nearest_lines
from roofsmith.repository.printed_table import csv_of_file, csv_within, tables_within
from roofsmith.repository.rows import BadRowsError, Reader, changed_rows

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


PATHS = "N,kernel,us\n64,small<4>,1.5\n128,small<4>,2.5\n4096,split_k,9.5\n"
AITER = """\
[aiter] run_perftest: gemm_a8w8
[aiter] gemm_a8w8 summary (markdown):
| dtype          |   m |    n |    k | kernel_name   |    us |   TFLOPS |   err |
|:---------------|----:|-----:|-----:|:--------------|------:|---------:|------:|
| torch.bfloat16 |   1 | 1280 | 8192 | skinny        |  8.11 |     2.59 |     0 |
| torch.bfloat16 |  32 | 1280 | 8192 | skinny        |  9.02 |    74.41 |     0 |
| torch.bfloat16 | 512 | 1280 | 8192 | tile_256x128  | 21.35 |   502.91 |     0 |
"""
"""In the form of its op_tests: pandas' `to_markdown` behind a line of its logger."""


@needs_git
@pytest.mark.rule("path-makes-classes")
@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        (PATHS, {"path": "kernel", "rows": "[N]", "metric": "us"}),
        (AITER, {"path": "kernel_name", "rows": "[m, n, k]"}),
        (PATHS.replace("split_k", "small<4>"), {"rows": "[N]"}),
        (PATHS.replace("small<4>,2.5", "wide,2.5"), {"rows": "[N, kernel]"}),
        (PATHS.replace("4096", "128"), {"rows": "[N, kernel]"}),
    ],
)
def test_the_column_that_names_the_kernel_makes_the_classes(
    tmp_path: Path, printed: str, expected: dict[str, str]
) -> None:
    code, said, told = initialized(tmp_path, printed)
    assert code == 0, told
    assert {key: said[key] for key in expected} == expected
    assert ("path" in said) is ("path" in expected)


def test_rows_of_a_path_are_a_class_and_may_go_elsewhere() -> None:
    said = {"editable": ["a.c"], "benchmark": "b", "unit": "us", "metric": "us", "rows": ["N"]}
    reader = Reader.of(CommandSpec.model_validate(said | {"path": "kernel"}))
    readings = reader.read(PATHS)
    classes = [one.workload.config_class for one in readings]
    assert classes == ["kernel=small<4>", "kernel=small<4>", "kernel=split_k"]
    elsewhere = reader.read(PATHS.replace("128,small<4>", "128,split_k"))
    assert changed_rows([one.label for one in readings], elsewhere) is None


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


def again(text: str) -> str:
    """What a second run prints: other measurements, the same sizes."""
    return re.sub(r"(\d\.\d)(\d*)(?=[1-9])", lambda found: found[1] + found[2] + "7", text)


@pytest.mark.parametrize("name", [*OPENED, *CLOSED])
def test_a_printed_table_is_read(name: str) -> None:
    printed: Printed = (OPENED | CLOSED)[name]
    found = [rows_of(table) for table in tables_within(printed.text)]
    guesses = [(rows, guess) for rows in found if (guess := guess_metric(rows, None, printed.own))]
    assert guesses, found
    rows, guess = guesses[0]
    assert (guess.column, guess.direction, guess.unit) == (
        printed.metric, printed.direction, printed.unit,
    )  # fmt: skip
    second = next(
        rows
        for rows in (rows_of(table) for table in tables_within(again(printed.text)))
        if guess.column in rows[0]
    )
    assert guess_keys(rows, second, (guess.column,)) == printed.keys
    spec = CommandSpec(
        repo="/r", editable=("a.c",), benchmark="b", metric=bracketed(guess.column),
        direction=guess.direction, rows=printed.keys,
    )  # fmt: skip
    reader = Reader.of(spec)
    readings = reader.read(csv_within(printed.text, spec.keys, reader.columns))
    assert [*readings[0].metrics.values()] == [pytest.approx(printed.first)]
    assert len(readings) == len(rows)


LONG = "impl,n,ms\ntorch,64,1.5\nours,64,1.25\ntorch,128,3.5\nours,128,2.25\n"


@pytest.mark.parametrize(
    ("text", "own", "condition"),
    [
        (LONG, "", "impl == ours"),
        (LONG.replace("ours", "tiled"), "", "impl == tiled"),
        (LONG.replace("impl", "name"), "", "name == ours"),
        (LONG.replace("ours", "flash v2.1"), "", "impl == 'flash v2.1'"),
        (LONG.replace("torch", "v1").replace("ours", "v2"), "", "?"),
        (LONG.replace("torch", "v1").replace("ours", "conv"), "conv", "impl == conv"),
        (LONG + "mine,64,1.0\nmine,128,2.0\n", "", "?"),
        ("impl,ms\nnumpy,3.5\nfused,1.5\n", "", "impl == fused"),
        ("case,n,ms\nBM_memcpy,64,1.5\nBM_scale,64,2.5\n", "", None),
        ("case,n,ms\nmemcpy,64,1.5\ntriad,128,2.5\n", "", None),
        ("op,n,ms\nsoftmax,64,1.5\nnorm,64,2.5\n", "", None),
        ("n,ours_ms,torch_ms\n64,1.5,2.5\n128,1.5,2.5\n", "", None),
    ],
)
def test_rows_of_rivals_are_told_from_the_users_own(
    text: str, own: str, condition: str | None
) -> None:
    """One row per implementation: rivals' don't change, and would hide what does."""
    found = guess_own_rows(rows_of(text), {own} - {""})
    if condition is None or found is None:
        assert found is None
        assert condition is None
    elif condition == "?":
        assert found.own is None
        assert "impl == " in found.condition
    else:
        assert found.condition == condition
        spec = CommandSpec(
            repo="/r", editable=("a.c",), benchmark="b", metric="ms", only=condition,
            rows=("n",) if "n," in text else (),
        )  # fmt: skip
        readings = Reader.of(spec).read(text)
        assert {reading.row[found.column] for reading in readings} == {found.own}


@pytest.mark.parametrize("name", [*LINES, *CLOSED_LINES])
def test_lines_that_are_no_table_get_a_pattern(name: str) -> None:
    text, direction, unit, number = (LINES | CLOSED_LINES)[name]
    assert not [table for table in tables_within(text) if guess_metric(rows_of(table))]
    quoted, pattern = nearest_lines(text)
    assert pattern is not None
    counted = re.sub(r"(?<= )(\d+)(?= )|(?<=\t)(\d+)(?=\t)", "7", text)
    assert len(rows_of(matched(pattern, counted))) == number
    assert quoted[0] in text
    rows = rows_of(matched(pattern, text))
    guess = guess_metric(rows)
    assert guess is not None
    assert (guess.direction, guess.unit, len(rows)) == (direction, unit, number)
    keys = guess_keys(rows, rows, (guess.column,))
    assert len({tuple(row[key] for key in keys) for row in rows}) == number
    assert is_naming([*rows[0]])


def test_a_table_whose_unit_changed_is_the_table_still() -> None:
    """What becomes of the other unit is said of the column, and not that nothing was printed."""
    assert csv_within("time: 12.5 us\n", (), ("time (ms)",)) == "time (us)\n12.5"
