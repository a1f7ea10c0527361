"""A benchmark's CSV: workloads, gate, metrics, and what is said of one that can't be used."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from roofsmith.domain.command import CommandSpec, ProfileCommand, matches
from roofsmith.judge.correctness.dependence import unread_inputs
from roofsmith.judge.correctness.distributions import INDEX, INDICES, transform
from roofsmith.judge.correctness.indices import free_indices
from roofsmith.judge.correctness.tolerated import Tolerated
from roofsmith.judge.host.arithmetic import HostArithmetic
from roofsmith.repository.column_guess import (
    guess_gate,
    guess_keys,
    guess_metric,
    nearly_gate,
    result_columns,
    rows_of,
    tells_apart,
)
from roofsmith.repository.column_names import meaning_of
from roofsmith.repository.expressions import ExpressionError
from roofsmith.repository.printed_table import csv_within, tables_within
from roofsmith.repository.rows import (
    BadRowsError,
    Reader,
    Reading,
    changed_keys,
    changed_rows,
    failing,
    mean_kernel_time,
    summary_within,
)

PAGED = """\
block_size,mtp,head_size,batch,us_asm_fp8,us_flydsl_ps,err_flydsl_ps
16,0,64,8,150.1,142.8,0.0
1024,1,128,8,99.0,118.4,0
"""
GEMM = """\
M,N,K,Check,Forward TFLOPS,fwd_ms,bwd_ms
128,64,32,PASS,500,1,2
256,64,32,PASS,600,2,3
"""


def spec(**changes: Any) -> CommandSpec:
    paged: dict[str, Any] = {
        "repo": "/r", "editable": ("a.c",), "benchmark": "b", "metric": "us_flydsl_ps",
        "unit": "us", "gate": "err_flydsl_ps == 0", "rows": ("batch",),
        "classes": ("block_size", "mtp", "head_size"),
    }  # fmt: skip
    return CommandSpec.model_validate(paged | changes)


UNITS = {
    "cell": ("avg (ms)", "ms", "avg (us)", "12.4", 12.4e-6),
    "name": ("time_ms", "ms", "time_ns", "12400", 12.4e-6),
    "first": ("us_kernel", "us", "ms_kernel", "0.5", 0.5e-3),
    "brackets": ("[Time [s]]", "s", "Time [ms]", "3", 3e-3),
    "rate": ("rate (GB/s)", "GB/s", "rate (TB/s)", "1.5", 1 / 1500),
    "items": ("speed (kitems/s)", "kitems/s", "speed (Mitems/s)", "2", 1 / 2000),
}


@pytest.mark.parametrize("kind", UNITS)
def test_a_column_whose_unit_changes_with_its_size_is_converted(kind: str) -> None:
    column, unit, other, cell, cost = UNITS[kind]
    metric = column if column.startswith("[") or column.isidentifier() else f"[{column}]"
    if "[" in column[1:]:
        metric = f"`{column.strip('[]')}]`"
    way = "higher" if "/" in unit else "lower"
    one = spec(metric=metric, unit=unit, gate=None, rows=("case",), classes=(), direction=way)
    [reading] = Reader.of(one).read(f"case,{other}\na,{cell}\n")
    assert reading.cost == pytest.approx(cost)


def test_a_printed_winner_in_another_unit_is_read_in_the_baselines() -> None:
    one = spec(metric="[avg (ms)]", unit="ms", gate=None, rows=("case",), classes=())
    printed = "| case | avg | min |\n|---|---|---|\n" + "".join(
        f"| sum/{n} | 12.40 us | 9.80 us |\n" for n in (1000, 30000)
    )
    found = csv_within(printed, one.keys, Reader.of(one).columns)
    assert [r.cost for r in Reader.of(one).read(found)] == pytest.approx([12.4e-6] * 2)


def test_a_column_whose_unit_is_of_another_kind_is_told() -> None:
    one = spec(metric="[avg (ms)]", unit="ms", gate=None, rows=("case",), classes=())
    with pytest.raises(BadRowsError, match="can't be converted"):
        Reader.of(one).read("case,avg (items/s)\na,12\n")


def test_google_benchmarks_unit_is_a_column_of_its_own() -> None:
    one = spec(metric="real_time", unit="ns", gate=None, rows=("name",), classes=())
    [reading] = Reader.of(one).read("name,real_time,time_unit\na,12,us\n")
    assert reading.cost == pytest.approx(12e-6)


def gemm(**changes: Any) -> CommandSpec:
    return spec(
        gate="Check == PASS", rows=("M", "N", "K"), classes=(), metric="step",
        direction="higher", unit="TFLOP/s",
        metrics={"step": "6*M*N*K/((fwd_ms+bwd_ms)*1e-3)/1e12", "forward": "Forward TFLOPS"},
        **changes,
    )  # fmt: skip


def read(text: str, of: CommandSpec) -> tuple[Reading, ...]:
    return Reader.of(of).read(text)


def test_rows_become_workloads_and_classes() -> None:
    first, second = read(PAGED, spec())
    # mtp is 0 in one row, which is no size, so it is a tag in all of them
    assert first.label == "block_size=16,head_size=64,batch=8,mtp=0"
    assert first.workload.dims == {"block_size": 16, "head_size": 64, "batch": 8}
    assert second.workload.tags == {"mtp": "1"}
    assert second.workload.config_class == "block_size=1024, mtp=1, head_size=128"
    assert (first.cost, second.cost) == (142.8 * 1e-6, 118.4 * 1e-6)


@pytest.mark.rule("derived-metrics")
def test_a_derived_metric_decides_and_others_are_shown() -> None:
    first, _ = read(GEMM, gemm())
    step = 6 * 128 * 64 * 32 / (3 * 1e-3) / 1e12
    assert first.metrics == {"step": pytest.approx(step), "forward": 500.0}
    assert first.cost == pytest.approx(1 / step)


def test_a_rate_with_the_rows_work_is_a_time() -> None:
    of = gemm(flops="6*M*N*K")
    assert of.gives_times
    first, _ = read(GEMM, of)
    assert first.cost == pytest.approx(3e-3)


@pytest.mark.rule("failed-rows")
def test_a_failing_row_scores_nothing() -> None:
    readings = read(PAGED.replace("118.4,0", "1.0,0.25"), spec())
    assert (readings[0].fault, readings[1].cost) == (None, math.inf)
    assert failing(readings) == (
        "1 of 2 rows fail: block_size=1024,head_size=128,batch=8,mtp=1:"
        " err_flydsl_ps is 0.25 (the gate: err_flydsl_ps == 0)"
    )


def test_a_failing_row_needs_no_metric() -> None:
    readings = read(GEMM.replace("256,64,32,PASS,600,2,3", "256,64,32,FAIL,,,"), gemm())
    assert failing(readings) is not None


@pytest.mark.parametrize("metric", ["0", "-3", "inf", "nan"])
def test_a_metric_that_is_no_positive_number_fails(metric: str) -> None:
    assert failing(read(PAGED.replace("118.4", metric), spec())) is not None


def test_a_size_of_thousands_of_digits_is_a_name() -> None:
    long = "1" * 5000  # more than int() takes
    readings = read(PAGED.replace("1024,", f"{long},"), spec())
    assert readings[1].workload.tags["block_size"] == long


def test_other_rows_are_named() -> None:
    labels = [reading.label for reading in read(PAGED, spec())]
    fewer = read("\n".join(PAGED.splitlines()[:2]), spec())
    assert changed_rows(labels, read(PAGED, spec())) is None
    said = changed_rows(labels, fewer) or ""
    assert "1 rows instead of 2" in said
    assert "missing" in said


@pytest.mark.parametrize(
    ("text", "changes", "said"),
    [
        ("", {}, "it is empty"),
        ("a,b\n", {}, "only a header: a, b"),
        (PAGED.replace("head_size", "headsize"), {}, "no column 'head_size', which rows and"),
        (PAGED.replace("head_size", "headsize"), {}, "did you mean 'headsize'?"),
        (PAGED, {"metric": "us_flydsl"}, "no column 'us_flydsl', which the metric 'us_flydsl'"),
        (PAGED, {"gate": "Check == PASS"}, "no column 'Check', which the gate needs"),
        (PAGED, {"classes": ("batch",)}, "two rows are batch=8"),
        (PAGED.replace("142.8", "fast"), {}, "line 2: 'fast' in column 'us_flydsl_ps' is not a"),
        (PAGED + "1,2\n", {}, "line 4 has 2 fields; the header has 7"),
        (PAGED.replace("us_asm_fp8", "mtp"), {}, "column 'mtp' is there twice"),
        (PAGED.replace("142.8", '"142,8"'), {}, "LC_NUMERIC"),
        (PAGED, {"rows": (), "classes": ()}, "2 rows, and `rows` names no column"),
    ],
)
def test_what_is_wrong_with_a_csv_is_said(text: str, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(BadRowsError) as error:
        read(text, spec(**changes))
    assert said in str(error.value)


def test_metrics_that_need_themselves_are_refused() -> None:
    with pytest.raises(ExpressionError, match=r"metrics\.a: it needs itself"):
        Reader.of(spec(metrics={"a": "2 * b", "b": "a + 1"}))
    # but a metric may be made of the column of its own name
    Reader.of(spec(metrics={"us_flydsl_ps": "us_flydsl_ps * 2"}))


def test_the_csv_is_found_in_what_a_benchmark_prints() -> None:
    printed = f"warming up, please wait\n{PAGED}\ndone in 3 s, bye\n"
    assert csv_within(printed, ("block_size", "mtp")) == PAGED.strip()
    with pytest.raises(BadRowsError, match="no line with the columns nothing"):
        csv_within(printed, ("nothing",))


@pytest.mark.rule("whole-table")
@pytest.mark.parametrize(
    "after",
    [
        "",
        "\n",
        "\nDone, in 3 s\n",
        "all 3 rows right, largest error 0, bye\n",
        "\n3 of 3, all right\n",
        "\n17.5\n",
        "\nsize,GB/s\n128,900\n256,950\n",
        "\nkernel,calls,us\n1,2,3\n",
        "Warning: slow\n",
    ],
)
def test_what_follows_a_table_is_no_row_of_it(after: str) -> None:
    table = "n,us\n1,3\n2,4\n4,5"
    assert csv_within(f"{table}\n{after}", ("n",), ("us",)) == table


@pytest.mark.parametrize(
    "after", ["Done\n", "\nDone, in 3 s\n", "\nn,calls\na,5\n", "\nkernel,calls,us\na,1,2\n"]
)
def test_what_follows_a_table_whose_keys_are_words_is_no_row_of_it(after: str) -> None:
    table = "n,us\na,3\nb,4"
    assert csv_within(f"{table}\n{after}", ("n",), ("us",)) == table


@pytest.mark.rule("whole-table")
@pytest.mark.parametrize(
    ("printed", "line"),
    [
        ("n,us\n1,3\n2\n3,4\n", 3),
        ("n,us\n1,3\n\n2,4\n", 4),
        ("n,us\n1,3\nslow, again, and again\n2,4\n", 4),
        ("n,us\n1,3\n\n\n2,FAIL\n", 5),
        ("n,us\na,3\nb,4\n\nc,FAIL\n", 5),
        ("n,us\na,3\nb,4\na,FAIL,off by 3\nc,1\n", 5),
        ("n,us,err\n1,3,0\n2,FAIL\n", 3),
        ("n,us,err\na,3,0\na,FAIL\n", 3),
        ("n,us\n\n1,3\n", 3),
        ("n,us\n1,3\nWarning, again and again, so\n2,4\n", 4),
    ],
)
def test_a_row_that_a_table_lost_is_named(printed: str, line: int) -> None:
    with pytest.raises(BadRowsError) as error:
        csv_within(printed, ("n",), ("us",))
    assert f"line {line} of what it printed looks like a row" in str(error.value)


def test_commas_in_quotes_separate_nothing() -> None:
    table = 'n,us\na,3\nb,4\n"c,1",5\nd,6'
    assert csv_within(table, ("n",), ("us",)) == table
    assert next(tables_within(f"hello, there, you\n{table}\n")) == table
    quoted = f'"n","us"{table[4:]}'
    assert csv_within(f"x\n{quoted}\n\nbye", ("n",), ("us",)) == quoted
    of = spec(rows=("n",), classes=(), metric="us", gate=None)
    assert [r.workload.tags["n"] for r in read(quoted, of)] == ["a", "b", "c,1", "d"]


def test_the_mean_kernel_time_is_over_the_launches_that_count() -> None:
    of = spec(profile=ProfileCommand(command="p", results="*.csv", kernel="^pa_"))
    trace = (
        "Kernel_Name,Start_Timestamp,End_Timestamp\n"
        "pa_main,1000,3000\nfill,0,999999\npa_reduce,5000,5500\n"
    )
    time_s, kernels = mean_kernel_time(trace, of)
    assert time_s == pytest.approx(1250e-9)
    assert kernels == ("pa_main", "pa_reduce")
    with pytest.raises(BadRowsError, match="no kernel whose name matches"):
        mean_kernel_time(trace.replace("pa_", "xx_"), of)


@pytest.mark.parametrize(
    ("rows", "per_launch_ns", "per_step_ns"),
    [
        ("main,0,50\nreduce,60,110\nmain,200,250\nreduce,260,310\n", 50, 100),
        ("fused,0,80\nfused,200,280\n", 80, 80),
        ("tile,0,20\ntile,30,50\ntile,60,80\n" * 2, 20, 60),
    ],
    ids=["two kernels a step", "fused", "three launches a step"],
)
def test_a_step_takes_as_long_as_all_of_its_launches(
    rows: str, per_launch_ns: float, per_step_ns: float
) -> None:
    trace = f"Kernel_Name,Start_Timestamp,End_Timestamp\n{rows}"
    for steps, expected_ns in ((None, per_launch_ns), (2, per_step_ns)):
        of = spec(profile=ProfileCommand(command="p", results="*.csv", steps=steps))
        assert mean_kernel_time(trace, of)[0] == pytest.approx(expected_ns * 1e-9)


@pytest.mark.parametrize(
    ("path", "glob", "expected"),
    [
        ("src/a.c", "src/*.c", True),
        ("src/x/a.c", "src/*.c", False),
        ("src/x/a.c", "src/**/*.c", True),
        ("src/a.c", "src/**/*.c", True),
        ("src/a.cc", "src/*.c", False),
        ("src/a+b.c", "src/a+b.c", True),
        ("bench/bench.c", "**", True),
    ],
)
def test_globs(path: str, glob: str, expected: bool) -> None:
    assert matches(path, glob) is expected


def test_columns_are_guessed_from_two_runs() -> None:
    rows = rows_of(PAGED)
    again = rows_of(PAGED.replace("142.8", "143.0").replace("150.1", "150.7"))
    metric = guess_metric(rows)
    assert (metric.column, metric.direction, metric.unit) == ("us_flydsl_ps", "lower", "us")
    assert guess_gate(rows) == "err_flydsl_ps == 0"
    taken = ("us_flydsl_ps", "err_flydsl_ps")
    assert guess_keys(rows, again, taken) == ("block_size", "mtp", "head_size", "batch")


@pytest.mark.parametrize(
    ("metric", "results"),
    [
        ("6*M*N*K/((fwd_ms + bwd_ms)*1e-3)/1e12", ("fwd_ms", "bwd_ms", "err")),
        ("fwd_ms", ("fwd_ms", "err")),
        ("[fwd_ms]", ("fwd_ms", "err")),
        ("steps", ("steps", "err")),
        ("no such column", ("err",)),
    ],
)
def test_sizes_in_a_formula_are_no_results(metric: str, results: tuple[str, ...]) -> None:
    """Nor is a column whose letter is in another one's name."""
    rows = rows_of("M,N,K,s,steps,fwd_ms,bwd_ms,err\n1,2,3,4,5,0.5,1.5,0\n2,2,3,4,5,0.7,1.7,0\n")
    assert result_columns(rows, metric, "err == 0") == results


def test_a_check_column_and_a_rate_are_guessed() -> None:
    rows = rows_of("M,Check,Forward TFLOPS\n1,PASS,3.5\n2,PASS,4\n")
    assert guess_gate(rows) == "Check == PASS"
    metric = guess_metric(rows)
    assert (metric.column, metric.direction) == ("Forward TFLOPS", "higher")
    assert guess_metric(rows_of("a,b\n1,2\n")) is None


@pytest.mark.parametrize(
    ("metric", "meaning"),
    [
        ("us", ("lower", "us")),
        ("us_flydsl_ps", ("lower", "us")),
        ("Latency", ("lower", "")),
        ("us_per_call", ("lower", "us")),
        ("Forward TFLOPS", ("higher", "TFLOPS")),
        ("[Forward TFLOPS]", ("higher", "TFLOPS")),
        ("[GB/s]", ("higher", "GB/s")),
        ("[tokens/s]", ("higher", "")),
        ("tokens_per_s", ("higher", "")),
        ("[tokens/sec]", ("higher", "")),
        ("throughput", ("higher", "")),
        ("throughput_us", None),
        ("time_ms", ("lower", "ms")),
        ("latency_us", ("lower", "us")),
        ("duration_ns", ("lower", "ns")),
        ("[GPU Time (sec)]", ("lower", "s")),
        ("[time (µs)]", ("lower", "us")),
        ("`time [ms]`", ("lower", "ms")),
        ("[time/ms]", ("lower", "ms")),
        ("[t/ms]", ("lower", "ms")),
        ("[latency/us]", ("lower", "us")),
        ("[time/s]", ("lower", "s")),
        ("[ms/iter]", ("lower", "ms")),
        ("TimeUs", ("lower", "us")),
        ("elapsed", ("lower", "")),
        ("cycles", ("lower", "")),
        ("[Bandwidth (GB/s)]", ("higher", "GB/s")),
        ("[Gb/s]", ("higher", "")),
        ("[flops/time]", ("higher", "")),
        ("[ms/s]", None),
        ("score", None),
        ("us/2", None),
        ("fwd_ms + bwd_ms", None),
    ],
)
def test_a_metrics_name_says_which_way_it_is_better(
    metric: str, meaning: tuple[str, str] | None
) -> None:
    found = meaning_of(metric)
    assert (found and (found.direction, found.unit)) == meaning


def test_a_rate_per_second_is_no_time() -> None:
    rows = rows_of("M,GB/s,us\n1,5,3\n2,4,3\n")
    time, rate = guess_metric(rows), guess_metric(rows, "higher")
    assert (time.column, time.others) == ("us", ())
    assert (rate.column, rate.direction, rate.unit) == ("GB/s", "higher", "GB/s")


def test_a_metric_without_a_column_is_refused() -> None:
    for metrics in ({}, {"step": "2*3"}):
        with pytest.raises(ExpressionError, match=r"metric: '.*' names no column"):
            Reader.of(spec(metric=next(iter(metrics), "1"), metrics=metrics))
    Reader.of(spec(metric="step", metrics={"step": "2*whole", "whole": "us_asm_fp8"}))


def test_a_trace_of_rocprofv3_is_read_as_it_is() -> None:
    golden = Path(__file__).parents[1] / "golden" / "gpu" / "rocprofv3_kernel_trace_mi300x.csv"
    of = spec(profile=ProfileCommand(command="p", results="*.csv"))
    time_s, kernels = mean_kernel_time(golden.read_text(), of)
    assert 1e-7 < time_s < 1
    assert kernels


def test_other_times_are_named_beside_the_guess() -> None:
    metric = guess_metric(rows_of("M,fwd_ms,bwd_ms\n1,2,3\n"))
    assert (metric.column, metric.others) == ("bwd_ms", ("fwd_ms",))


def test_columns_tell_rows_apart_or_not() -> None:
    rows = rows_of("M,N,us\n1,1,2\n1,2,2\n")
    assert tells_apart(rows, ("M", "N"))
    assert not tells_apart(rows, ("M",))
    assert not tells_apart(rows, ())


@pytest.mark.parametrize(
    ("header", "column", "others"),
    [
        ("N,mean_ms,std_ms", "mean_ms", ("std_ms",)),
        ("N,avg_ns,stddev_ns,avg_ts,stddev_ts", "avg_ns", ("stddev_ns",)),
        ("N,p50_us,p99_us,max_us", "p50_us", ("p99_us", "max_us")),
        ("command,mean,stddev,median,user,min,max", "median", ("mean",)),
        ("N,real_time,cpu_time", "real_time", ("cpu_time",)),
        ("N,ref_ms,new_ms,compile_ms", "new_ms", ("ref_ms", "compile_ms")),
        ("N,min_ms", "min_ms", ()),
    ],
)
def test_a_spread_or_an_extreme_is_the_metric_only_where_nothing_else_is(
    header: str, column: str, others: tuple[str, ...]
) -> None:
    ones = ",".join("1.5" for _ in header.split(","))
    metric = guess_metric(rows_of(f"{header}\n{ones}\n"))
    assert metric is not None
    assert (metric.column, metric.others) == (column, others)


def test_units_may_stand_in_another_column() -> None:
    google = "name,iterations,real_time,time_unit\na,5,3.5,ns\nb,9,4.5,ns\n"
    assert guess_metric(rows_of(google)).unit == "ns"
    assert guess_metric(rows_of(google.replace("4.5,ns", "4.5,us"))).unit == ""
    hyperfine = "command,mean,stddev,median,min,max\na,1,2,3,4,5\n"
    assert guess_metric(rows_of(hyperfine)).unit == "s"


@pytest.mark.parametrize(
    ("first", "second", "keys"),
    [
        # in any order
        ("N,t,us\n1,a,3\n2,a,4\n1,b,5\n", "N,t,us\n1,b,5\n1,a,4\n2,a,3\n", ("N", "t")),
        # a count of repetitions, also where it is the same in both
        ("name,iterations,us\na,8,3\nb,4,4\n", "name,iterations,us\na,8,3\nb,4,4\n", ("name",)),
        # nor what is the same everywhere, or measured, unless nothing else tells rows apart
        ("sha,N,gain\nx,1,1.5\nx,2,1.7\n", "sha,N,gain\nx,1,1.5\nx,2,1.7\n", ("N",)),
        ("density,us\n0.5,3\n0.9,4\n", "density,us\n0.9,3\n0.5,4\n", ("density",)),
        ("iters,us\n10,3\n20,4\n", "iters,us\n20,3\n10,4\n", ("iters",)),
        # two that hold the same, but not together
        ("N,x,us\n1,7,3\n2,8,4\n", "N,x,us\n1,8,3\n2,7,4\n", ("N",)),
        ("max_seqlen,us\n64,3\n128,4\n", "max_seqlen,us\n64,3\n128,4\n", ("max_seqlen",)),
    ],
)
def test_keys_pair_the_rows_of_two_runs(first: str, second: str, keys: tuple[str, ...]) -> None:
    assert guess_keys(rows_of(first), rows_of(second), ()) == keys


@pytest.mark.parametrize(
    ("csv", "is_named"),
    [
        ("N,us\n64,1\n128,2\naverage,1.5\n", True),
        ("N,us\nconv,1\npool,2\nGeomean,1.4\n", True),
        ("N,us\nx_mean,1\nx_median,1\nx_stddev,0.1\n", True),
        ("N,us\nx,1\nx,2\nx_mean,1\nx_median,1\nx_stddev,0.1\nx_cv,0.1\n", True),
        ("N,us\nsum,1\nmax,2\nmean,3\n", False),
        ("N,us\nx_mean,1\nx_stddev,1\n", False),
    ],
)
def test_a_row_that_sums_up_others_is_named(csv: str, is_named: bool) -> None:
    assert (summary_within(rows_of(csv), ("N",)) is not None) is is_named


def test_a_small_error_is_named_and_no_gate() -> None:
    rows = rows_of("N,max error [ulp],us\n1,1e-6,3\n2,3e-6,4\n")
    assert guess_gate(rows) is None
    assert nearly_gate(rows) == ("max error [ulp]", 3e-6)
    assert nearly_gate(rows_of("N,err,us\n1,0.5,3\n")) is None


@pytest.mark.parametrize("changed", ["name,iterations\na,8\nb,2\n", "name,iterations\nb,4\na,16\n"])
def test_keys_that_changed_are_told_from_rows_that_did(changed: str) -> None:
    of = spec(rows=("name", "iterations"), classes=(), metric="iterations", gate=None)
    expected = [one.workload for one in read("name,iterations\na,8\nb,4\n", of)]
    assert changed_keys(expected, read(changed, of)) == ("iterations",)
    fewer = read("name,iterations\na,8\n", of)
    assert changed_keys(expected, fewer) == ("iterations", "name")


ON = HostArithmetic()
ROWS, PLACES = 50, 400


def found(make: Callable[[np.random.Generator], dict[str, Any]]) -> tuple[str, ...]:
    drawn = [make(np.random.default_rng(seed)) for seed in (1, 2, 3)]
    for one in drawn:
        one["table"] = np.zeros((ROWS, 3), np.float32)
    return free_indices(drawn, {"out"}, ON)


def ids(rng: np.random.Generator) -> np.ndarray:
    return rng.integers(0, ROWS, PLACES).astype(np.int32)


def test_places_of_another_array_are_free() -> None:
    assert found(lambda rng: {"ids": ids(rng)}) == ("ids",)
    assert found(lambda rng: {"ids": ids(rng).reshape(100, 4)}) == ("ids",)


@pytest.mark.parametrize(
    "make",
    [
        lambda rng: {"x": rng.integers(0, 10**6, PLACES)},  # beyond every array
        lambda rng: {"x": np.sort(ids(rng))},
        lambda rng: {"x": rng.permutation(ROWS).astype(np.int32)},
        lambda rng: {"x": np.array([rng.choice(ROWS, 4, replace=False) for _ in range(100)])},
        lambda rng: {"x": rng.permutation(np.repeat(np.arange(ROWS), 8))},  # dealt out evenly
        lambda rng: {"x": ids(np.random.default_rng(0))},
        lambda rng: {"x": ids(rng).astype(np.uint8)},
        lambda rng: {"out": ids(rng)},
    ],
)
def test_what_is_promised_stays(make: Callable[[np.random.Generator], dict[str, Any]]) -> None:
    assert found(make) == ()


@pytest.mark.parametrize(
    "other",
    [
        lambda x, rng: np.cumsum(np.bincount(x, minlength=ROWS)),
        lambda x, rng: np.bincount(x, minlength=ROWS),
        lambda x, rng: np.argsort(x, kind="stable"),
        lambda x, rng: np.minimum(x + rng.integers(0, 9, PLACES), ROWS - 1),  # begin and end
    ],
)
def test_what_another_input_follows_from_stays(
    other: Callable[[np.ndarray, np.random.Generator], np.ndarray],
) -> None:
    def make(rng: np.random.Generator) -> dict[str, Any]:
        x = ids(rng)
        return {"x": x, "other": other(x, rng).astype(np.int32)}

    assert "x" not in found(make)


def test_columns_in_order_within_rows_stay_and_others_are_free() -> None:
    def rows(rng: np.random.Generator, *, ordered: bool) -> dict[str, Any]:
        ends = np.sort(rng.integers(0, PLACES, ROWS)).astype(np.int32)
        parts = np.split(ids(rng), ends)
        return {"ends": ends, "x": np.concatenate([np.sort(p) if ordered else p for p in parts])}

    assert found(lambda rng: rows(rng, ordered=True)) == ()
    assert found(lambda rng: rows(rng, ordered=False)) == ("x",)


@pytest.mark.parametrize("name", INDICES)
def test_indices_are_made_of_those_that_were_drawn(name: str) -> None:
    drawn = {"ids": ids(np.random.default_rng(1)).reshape(100, 4), "g": np.ones(3, np.float32)}
    made = transform(name, drawn, {"ids": INDEX, "g": 0}, 7, ON)
    assert made["g"] is drawn["g"]
    assert (made["ids"].shape, made["ids"].dtype) == ((100, 4), np.int32)
    assert set(made["ids"].flat) <= set(drawn["ids"].flat)
    most = np.bincount(made["ids"].reshape(-1)).max()
    assert most > 3 * np.bincount(drawn["ids"].reshape(-1)).max() or name == "indices in order"


class Sum:
    """Of one of its two inputs."""

    def expect(self, values: dict[str, Any], outputs: set[str], *, exact: bool) -> dict[str, Any]:
        return {"y": np.array([values["a"].sum()])}


def test_an_input_that_does_not_matter_is_said() -> None:
    drawn = [({"a": np.full(3, s), "b": np.full(3, s)}, {"y"}) for s in (1.0, 2.0)]
    unread = unread_inputs(Sum(), drawn, ON)  # type: ignore[arg-type]
    (said,) = Tolerated(unread=tuple(unread)).cautions()
    assert said.startswith("input 'b' doesn't matter")
