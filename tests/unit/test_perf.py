from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofsmith.domain.profile import Counter
from roofsmith.profilers import perf
from roofsmith.profilers.perf_output import (
    PerfReading,
    PerfRun,
    counters,
    implausible,
    kind_note,
    multiplexed,
    parse_perf_csv,
    uncounted,
)

GOLDEN = Path(__file__).parent.parent / "golden"


def golden(name: str, calls: int = 20, elapsed_s: float = 0.2) -> PerfRun:
    return PerfRun(parse_perf_csv((GOLDEN / f"perf_{name}.csv").read_text()), calls, elapsed_s)


def by_name(found: tuple[Counter, ...]) -> dict[str, float]:
    return {counter.name: counter.value for counter in found}


def test_counters_are_per_call_of_solve() -> None:
    runs = [golden("zen3_base"), golden("zen3_cache"), golden("zen3_floating_point")]
    found = by_name(counters(runs, 2))
    assert found["cycles"] == pytest.approx(490594470 / 20)
    assert found["ipc"] == pytest.approx(977159773 / 490594470)
    assert found["branch_miss_rate"] == pytest.approx(73886 / 133291988)
    assert found["cache_misses"] == pytest.approx(175725 / 20)
    assert found["dtlb_misses"] == pytest.approx(35091 / 20)
    assert found["flops_per_fp_instruction"] == pytest.approx(335544335 / 532302803)
    assert found["processors_used"] == pytest.approx(0.19752 / 0.2, rel=1e-3)
    assert found["processors_allowed"] == 2
    assert multiplexed(runs) is None


def test_what_isnt_supported_is_absent_never_zero() -> None:
    readings = golden("zen3_last_level").readings
    assert [reading.count for reading in readings] == [None, None]
    found = by_name(counters([golden("zen3_base"), golden("zen3_last_level")], 2))
    assert "llc_miss_rate" not in found
    assert "llc_loads" not in found
    assert "vector_fraction" not in found


def test_what_was_never_scheduled_is_absent() -> None:
    readings = {r.event: r.count for r in golden("not_counted").readings}
    assert readings["dTLB-load-misses"] is None
    assert readings["fp_ret_sse_avx_ops.all"] is None
    assert readings["cycles"] == 86048


def test_multiplexing_is_noted_with_the_least_share() -> None:
    note = multiplexed([golden("zen3_multiplexed")])
    assert note is not None
    assert "74%" in note


def test_counts_beyond_any_processor_are_dropped() -> None:
    run = golden("zen3_multiplexed")
    assert implausible([run]) == ("cache-references",)
    found = by_name(counters([run], 2))
    assert "cache_references" not in found
    assert "cache_miss_rate" not in found
    assert found["cache_misses"] == pytest.approx(237607 / 20)


@pytest.mark.parametrize(
    ("scalar", "packed"),
    [
        ("fp_arith_inst_retired.scalar_single", "fp_arith_inst_retired.256b_packed_single"),
        (
            "fp_ops_retired_by_width.scalar_uops_retired",
            "fp_ops_retired_by_width.pack_512_uops_retired",
        ),
    ],
)
def test_vector_fraction_where_both_widths_are_counted(scalar: str, packed: str) -> None:
    text = f"100,,{scalar}:u,1000,100.00,,\n300,,{packed}:u,1000,100.00,,\n"
    found = by_name(counters([PerfRun(parse_perf_csv(text), 1, 1.0)], 1))
    assert found["vector_fraction"] == pytest.approx(0.75)


@given(st.text())
def test_any_text_can_be_parsed(text: str) -> None:
    assert isinstance(parse_perf_csv(text), tuple)


@given(
    count=st.integers(0, 10**15),
    event=st.sampled_from(["cycles", "fp_arith_inst_retired.scalar_single", "r01c2", "LLC-loads"]),
    modifier=st.sampled_from(["", ":u", ":uk"]),
    percent=st.floats(0.01, 100),
)
def test_readings_survive_the_csv(count: int, event: str, modifier: str, percent: float) -> None:
    (found,) = parse_perf_csv(f"{count},,{event}{modifier},12345,{percent:.2f},1.0,x\n")
    assert found.event == event
    if float(f"{percent:.2f}") > 0:
        assert found.count == count


@given(st.integers(1, 1000), st.floats(1, 1e9))
def test_twice_the_calls_halve_every_count(calls: int, cycles: float) -> None:
    readings = (
        PerfReading("cycles", cycles, 1.0),
        PerfReading("instructions", cycles, 1.0),
    )
    once = by_name(counters([PerfRun(readings, calls, 1.0)], 1))
    twice = by_name(counters([PerfRun(readings, 2 * calls, 1.0)], 1))
    assert twice["cycles"] == pytest.approx(once["cycles"] / 2)
    assert twice["ipc"] == pytest.approx(once["ipc"])


def fake_perf(folder: Path, script: str) -> str:
    program = folder / "perf"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return str(program)


def test_a_perf_that_refuses_says_why_in_its_own_words(tmp_path: Path) -> None:
    program = fake_perf(tmp_path, "echo 'Error:' >&2; echo 'No permission at all' >&2; exit 255")
    with pytest.raises(perf.PerfError, match="No permission at all"):
        perf.count(program, 1, perf.BASE, lambda: None)


def test_a_perf_that_hangs_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pid, deadline_s = tmp_path / "pid", 0.15
    program = fake_perf(tmp_path, f"trap '' INT; echo $$ > '{pid}'; while :; do :; done")
    while not (pid.exists() and pid.read_text()):  # on a busy machine a shell may take that long
        deadline_s *= 2
        monkeypatch.setattr(perf, "ATTACH_DEADLINE_S", deadline_s)
        with pytest.raises(perf.PerfError, match="did not answer"):
            perf.count(program, 1, perf.BASE, lambda: None)
    assert not Path("/proc", pid.read_text().strip()).exists()


def test_a_perf_that_is_no_program_is_an_error_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(perf.PerfError, match="can't be started"):
        perf.count(str(tmp_path / "none"), 1, perf.BASE, lambda: None)


SPIN = """
import sys, threading
def spin():
    for _ in range(200_000): pass
print("ready", flush=True)
for line in sys.stdin:
    thread = threading.Thread(target=spin); thread.start(); thread.join()
    print("done", flush=True)
"""


def test_only_the_work_is_counted_and_later_threads_too() -> None:
    program = shutil.which("perf")
    if program is None:
        pytest.skip("perf is not installed")
    with subprocess.Popen(
        [sys.executable, "-c", SPIN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        process.stdout.readline()

        def work(times: int) -> None:
            for _ in range(times):
                process.stdin.write("go\n")
                process.stdin.flush()
                process.stdout.readline()

        try:
            _, nothing = perf.count(program, process.pid, perf.BASE, lambda: time.sleep(0.01))
            _, once = perf.count(program, process.pid, perf.BASE, lambda: work(1))
        except perf.PerfError as error:
            pytest.skip(f"perf can't count here: {error}")
        finally:
            process.stdin.close()
    counts = {r.event: r.count for r in once}
    if counts.get("instructions") is None:
        pytest.skip("this machine has no hardware counters")
    idle = {r.event: r.count or 0 for r in nothing}
    assert counts["instructions"] > 1_000_000
    assert idle["instructions"] < counts["instructions"] / 10


HYBRID = """\
123456789,,cpu_core/cycles:u/,1000000,100.00,,
345678901,,cpu_core/instructions:u/,1000000,100.00,,
{atom},,cpu_atom/cycles:u/,0,{share},,
<not counted>,,cpu_atom/instructions/u,0,0.00,,
<not supported>,,cpu_core/LLC-loads:u/,0,100.00,,
nan,,branches:u,1000,100.00,,
12.34,msec,task-clock,12340000,100.00,0.999,CPUs utilized
"""


def hybrid(atom: str = "<not counted>", share: str = "0.00") -> list[PerfRun]:
    return [PerfRun(parse_perf_csv(HYBRID.format(atom=atom, share=share)), 10, 0.01)]


def test_counters_are_of_the_kind_of_core_that_ran() -> None:
    found = by_name(counters(hybrid(), 2))
    assert found["cycles"] == pytest.approx(12345678.9)
    assert found["ipc"] == pytest.approx(345678901 / 123456789)
    assert "cpu_core" in (kind_note(hybrid()) or "")
    assert "cpu_atom" not in (kind_note(hybrid()) or "")
    assert kind_note([golden("zen3_base")]) is None


def test_kinds_of_cores_are_not_added_up() -> None:
    both = hybrid("100000000", "40.00")
    assert by_name(counters(both, 2)) == by_name(counters(hybrid(), 2))
    assert {"cpu_core", "cpu_atom"} <= {*(kind_note(both) or "").replace(",", "").split()}
    assert multiplexed(both) is None


def test_what_got_no_number_is_named() -> None:
    assert uncounted(hybrid()) == ("LLC-loads", "branches")
    assert uncounted([golden("zen3_base")]) == ()
