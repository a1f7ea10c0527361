from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from process_runner import ProcessRunner, ProcessSession
from tool_stand_ins import GOLDEN, OneArray, seen, small_library, stand_in

from roofsmith.domain.kernel import Built
from roofsmith.domain.outcome import Crashed, TimedOut
from roofsmith.domain.profile import Profile
from roofsmith.domain.workload import Workload
from roofsmith.ports import KernelDiedError
from roofsmith.profilers.gpu import GpuProfiler
from roofsmith.profilers.launches import kernel_name, profile_of
from roofsmith.profilers.ncu import COUNTERS_FORBIDDEN, HUNG, NcuProfiler, explain, launcher
from roofsmith.profilers.ncu_output import metrics, number, parse_ncu_csv
from roofsmith.profilers.units import factor
from roofsmith.profilers.vocabulary import vocabulary

RAW = (GOLDEN / "ncu_set_full_page_raw_softmax_h100.csv").read_text()
WORKLOAD = Workload(dims={"N": 4096, "D": 4096})

HEADER = (
    '"ID","Kernel Name","gpu__time_duration.sum","launch__grid_size","lts__t_sector_hit_rate.pct"'
)
UNITS = '"","","us","","%"'


def page(*rows: str) -> str:
    return "\n".join(["==PROF== Connected to process 7", HEADER, UNITS, *rows]) + "\n"


def profiled(text: str) -> Profile:
    return profile_of("ncu", WORKLOAD.label, parse_ncu_csv(text))


def test_every_metric_of_the_vocabulary_is_on_the_recorded_page() -> None:
    (launch,) = parse_ncu_csv(RAW)
    recorded = {counter.name for counter in launch.counters}
    named = {entry.name for entry in vocabulary().entries if entry.ncu}
    assert recorded == named


def test_the_recorded_softmax_on_an_h100() -> None:
    profile = profiled(RAW)
    assert profile.kernel == "softmax_v3"
    expected = {
        "duration_s": 53.344e-6,
        "sm_throughput": 0.4951,
        "memory_throughput": 0.6349,
        "l2_hit_rate": 0.5072,
        "dram_bytes_read": 67_126_272,
        "achieved_occupancy": 0.9114,
        "theoretical_occupancy": 1.0,
        "block_limit_registers": 8,
        "registers_per_thread": 31,
        "shared_bytes_per_block": 17_472,
        "waves_per_sm": 3.88,
        "tail_share": 0.03,
        "eligible_warps_per_scheduler": 3.74,
        "stall_long_scoreboard": 12.72,
        "stall_long_scoreboard_share": 12.72 / 27.42,
        "global_load_efficiency": 1.0,
        "sectors_per_load_request": 16,
        "active_lanes": 1.0,
        "branch_uniformity": 1.0,
        "kernel_time_s": 53.344e-6,
        "kernels_per_call": 1,
        # (1210.39 + 720.85 + 2 * 2694.87) per cycle at 1.5876 GHz
        "fp32_rate_flop_per_s": 11.623e12,
    }
    assert {name: profile.get(name) for name in expected} == pytest.approx(expected, rel=1e-4)
    assert {counter.category for counter in profile.counters} == {
        entry.category for entry in vocabulary().entries
    }
    by_name = {counter.name: counter for counter in profile.counters}
    assert by_name["duration_s"].source == "gpu__time_duration.sum"
    assert by_name["dram_rate_byte_per_s"].unit == "byte/s"


def test_units_follow_the_page() -> None:
    profile = profiled(page('"0","k(int)","1,234.5","2","50"'))
    assert profile.get("duration_s") == pytest.approx(1234.5e-6)
    assert profile.get("grid_size") == 2
    assert profile.get("l2_hit_rate") == 0.5


@pytest.mark.parametrize("printed", ["n/a", "nan", "", "inf", "no data", "(!) nan", "PolicySpread"])
def test_what_is_not_a_number_is_absent(printed: str) -> None:
    profile = profiled(page(f'"0","k","10","2","{printed}"'))
    assert profile.get("l2_hit_rate") is None
    assert profile.get("grid_size") == 2


def test_a_ratio_of_nothing_is_absent() -> None:
    metric = "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio"
    text = f'"ID","Kernel Name","{metric}"\n"","","byte/sector"\n"0","k","0"\n'
    (launch,) = parse_ncu_csv(text)
    assert launch.counters == ()


def test_a_counter_without_a_number_is_named() -> None:
    (launch,) = parse_ncu_csv(page('"0","k","10","2","nan"'))
    assert launch.lacks is not None
    assert "l2_hit_rate" in launch.lacks
    assert "duration" not in launch.lacks


@pytest.mark.rule("longest-kernel-first")
def test_the_kernel_is_the_one_that_takes_most_of_the_time() -> None:
    rows = ['"0","init(int)","3","1",""', '"1","main<4>(float *)","40","8","10"',
            '"2","main<4>(float *)","60","16","20"', '"3","init(int)","7","1",""']  # fmt: skip
    profile = profiled(page(*rows))
    assert profile.kernel == "main<4>"
    assert profile.get("grid_size") == 16
    assert profile.get("kernel_time_s") == pytest.approx(110e-6)
    assert profile.get("kernels_per_call") == 4
    assert profile.get("kernel_time_share") == pytest.approx(100 / 110)
    assert any("main<4> 91%, init 9%" in note for note in profile.notes)


def test_kernels_of_the_judge_are_left_out() -> None:
    profile = profiled(page('"0","roofsmith_spin(int)","900","1",""', '"1","k(int)","9","1",""'))
    assert profile.kernel == "k"
    assert profile.get("kernels_per_call") == 1


def test_lines_of_the_program_between_the_rows_do_no_harm() -> None:
    rows = ["hello, world", '"0","k","10","2","50"', '"half a quote', "\0", '"1","k","20","2","50"']
    assert [launch.time_s for launch in parse_ncu_csv(page(*rows))][:1] == [pytest.approx(10e-6)]


@pytest.mark.parametrize(
    ("printed", "name"),
    [
        ("softmax_v3(float *, float *, int, int)", "softmax_v3"),
        ("void foo<float, 4>(float*)", "foo<float, 4>"),
        ("(anonymous namespace)::k(int)", "(anonymous namespace)::k"),
        ("foo<(int)3>(int (*)(int))", "foo<(int)3>"),
        ("_softmax_kernel_0d1d2de", "_softmax_kernel_0d1d2de"),
        ("add(float*) [clone .kd]", "add"),
        ("add.kd", "add"),
        ("f::operator()(int)", "f::operator()"),
        ("f::operator()", "f::operator()"),
        ("", ""),
    ],
)
def test_names_of_kernels(printed: str, name: str) -> None:
    assert kernel_name(printed) == name


@pytest.mark.parametrize(
    ("unit", "expected"),
    [("ns", 1e-9), ("usecond", 1e-6), ("%", 0.01), ("Ghz", 1e9), ("cycle/nsecond", 1e9),
     ("Gbyte/s", 1e9), ("Kbyte/block", 1e3), ("inst/cycle", 1), ("", 1), ("PolicySpread", 1)],
)  # fmt: skip
def test_units(unit: str, expected: float) -> None:
    assert factor(unit) == pytest.approx(expected)


@given(st.floats(-1e15, 1e15, allow_nan=False))
def test_numbers_with_thousands_separators_survive(value: float) -> None:
    assert number(f"{value:,.2f}") == pytest.approx(value, rel=1e-12, abs=0.006)


@given(st.text(max_size=300))
def test_any_text_is_parsed_without_an_error(text: str) -> None:
    parse_ncu_csv(text)
    parse_ncu_csv(page(text))
    kernel_name(text)
    explain(text)


def test_the_vocabulary_names_each_counter_once() -> None:
    entries = vocabulary().entries
    assert len({entry.name for entry in entries}) == len(entries)
    for entry in entries:
        assert entry.computed or entry.ncu or entry.rocprofv3 or entry.trace, entry.name
        assert entry.meaning.endswith(".")
    known = set(vocabulary().names)
    for rule in vocabulary().derived:
        assert {*rule.sum, *rule.times, *rule.over} <= known, rule.name


# ncu around a worker -----------------------------------------------------------------------------

RUN = "code = run()"
LOG = """
log = Path(next(o for o in options if o.startswith("--log-file=")).partition("=")[2])
"""


@pytest.fixture
def built(tmp_path: Path) -> Built:
    return small_library(tmp_path)


def fake_ncu(folder: Path, body: str) -> str:
    return stand_in(folder, "ncu", LOG + body)


def under(folder: Path, built: Built, body: str) -> Profile:
    program = fake_ncu(folder, body)
    return NcuProfiler(ProcessRunner(), OneArray(), find_ncu=lambda: program).profile(
        built, WORKLOAD
    )


@pytest.mark.rule("profilers")
def test_a_profile_from_a_worker_under_ncu(tmp_path: Path, built: Built) -> None:
    golden = GOLDEN / "ncu_set_full_page_raw_softmax_h100.csv"
    found = under(tmp_path, built, f"{RUN}; log.write_text(Path({str(golden)!r}).read_text())")
    assert (found.tool, found.kernel) == ("ncu", "softmax_v3")
    assert found.workload == WORKLOAD.label
    assert found.get("kernel_time_s") == pytest.approx(53.344e-6)
    (options,) = seen(tmp_path)
    assert {"--csv", "--page=raw", "--print-units=base", "--clock-control=none",
            "--target-processes=all", "--profile-from-start=off"} <= set(options)  # fmt: skip
    assert "--section=Roofsmith" in options


def test_a_worker_without_ranges_is_profiled_from_its_start(tmp_path: Path, built: Built) -> None:
    golden = GOLDEN / "ncu_set_full_page_raw_softmax_h100.csv"
    body = f"""{RUN}
if "--profile-from-start=off" in options:
    log.write_text("==WARNING== No kernels were profiled.\\n")
else:
    log.write_text(Path({str(golden)!r}).read_text())"""
    found = under(tmp_path, built, body)
    assert found.tool == "ncu"
    assert any("the first call" in note for note in found.notes)
    assert len(seen(tmp_path)) == 2


PERMISSION = (
    "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU"
    " Performance Counters on the target device 0. For instructions on enabling permissions and to"
    " get more information see https://developer.nvidia.com/ERR_NVGPUCTRPERM\\n"
)


@pytest.mark.parametrize("after", [RUN, "sys.exit(1)"])
def test_forbidden_counters_say_how_to_allow_them(tmp_path: Path, built: Built, after: str) -> None:
    found = under(tmp_path, built, f'log.write_text("{PERMISSION}"); {after}')
    assert found.tool == "none"
    assert found.counters == ()
    (note,) = found.notes
    assert note == COUNTERS_FORBIDDEN
    assert "NVreg_RestrictProfilingToAdminUsers=0" in note
    assert "CAP_SYS_ADMIN" in note
    assert len(seen(tmp_path)) == 1


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (f"{RUN}; log.write_text('garbage, not a page')", "ncu printed no counters: garbage"),
        (RUN, "ncu printed no counters: it wrote nothing"),
        ("sys.exit(3)", "did not survive ncu"),
        (f"{RUN}; log.write_text('==ERROR== Something new went wrong')", "Something new went"),
        (
            f"{RUN}; log.write_text('==ERROR== Profiling failed because a driver resource was"
            " unavailable. Ensure that no other tool (like DCGM) is concurrently collecting')",
            "dcgmi profile --pause",
        ),
        (f"{RUN}; log.write_text('==WARNING== No kernels were profiled.')", "no kernel launch"),
        (f"{RUN}; log.write_text('==ERROR== InterprocessLockFailed')", "TMPDIR"),
    ],
)
def test_a_failure_of_ncu_is_a_note(tmp_path: Path, built: Built, body: str, said: str) -> None:
    found = under(tmp_path, built, body)
    assert found.tool == "none"
    assert any(said in note for note in found.notes), found.notes


def test_a_missing_ncu_is_a_note(built: Built) -> None:
    found = NcuProfiler(ProcessRunner(), OneArray(), find_ncu=lambda: None).profile(built, WORKLOAD)
    assert found.tool == "none"
    assert "ncu is not installed" in found.notes[0]


class HangingRunner(ProcessRunner):
    def open(self, *_: object, **options: object) -> ProcessSession:  # type: ignore[override]
        limit = options["call_deadline_s"]
        outcome = TimedOut(reason="call_deadline", detail=f"run did not answer within {limit} s")
        raise KernelDiedError(outcome)


def test_an_ncu_that_hangs_is_a_note(built: Built) -> None:
    profiler = NcuProfiler(HangingRunner(), OneArray(), find_ncu=lambda: "ncu", call_deadline_s=0.5)
    found = profiler.profile(built, WORKLOAD)
    (note,) = found.notes
    assert note.startswith("ncu hung and was stopped: run did not answer within 0.5 s. Try ")
    assert HUNG in note


class Patience(HangingRunner):
    """Counts who came to be profiled; hangs as often as it is told to."""

    def __init__(self, hangs: Sequence[bool]) -> None:
        self.asked = 0
        self._hangs = iter(hangs)

    def open(self, *arguments: object, **options: object) -> ProcessSession:  # type: ignore[override]
        self.asked += 1
        if next(self._hangs):
            return super().open(*arguments, **options)
        raise KernelDiedError(Crashed(reason="exited", detail="it ended"))


@pytest.mark.parametrize(
    ("hangs", "asked"), [([True] * 4, 2), ([True, False] * 2, 4), ([False, True, True, True], 3)]
)
def test_a_tool_that_hung_twice_in_a_row_is_not_asked_again(
    built: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hangs: list[bool], asked: int
) -> None:
    """An ncu that hangs costs minutes, and a campaign profiles in every round."""
    script = tmp_path / "ncu"
    script.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)  # no torch to stand in
    runner = Patience(hangs)
    profiler = GpuProfiler(runner, OneArray(), "nvidia")
    notes = [profiler.profile(built, WORKLOAD).notes[0] for _ in hangs]
    assert runner.asked == asked
    assert [note.startswith("not asked again") for note in notes] == [
        turn >= asked for turn in range(4)
    ]
    if asked < 4:
        assert "2 times in a row" in notes[-1]


def test_the_launcher_is_one_word_per_option() -> None:
    words = launcher("/opt/ncu", Path("/tmp/a folder"), ranged=False)
    assert words[0] == "/opt/ncu"
    assert all(word.startswith("--") for word in words[1:])
    assert "--section-folder=/tmp/a folder" in words
    assert "--log-file=/tmp/a folder/ncu.csv" in words
    assert "--profile-from-start=on" in words


def test_what_is_asked_for_gives_every_counter_that_the_stock_sections_give() -> None:
    names, units, values = list(csv.reader(RAW.splitlines()[-3:]))
    kept = [place for place, name in enumerate(names) if name in {"ID", "Kernel Name", *metrics()}]
    few = io.StringIO()
    csv.writer(few, quoting=csv.QUOTE_ALL).writerows(
        [row[place] for place in kept] for row in (names, units, values)
    )
    assert profiled(few.getvalue()) == profiled(RAW)
