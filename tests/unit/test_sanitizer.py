"""compute-sanitizer: what it prints, how it is started, and every way in which it can fail.

The texts in `golden/sanitizer` are composed after NVIDIA's guide, but `racecheck_2025_h200`, which
is what compute-sanitizer 2025.3.1 printed of the corpus's `shared_race`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from process_runner import ProcessRunner, ProcessSession
from tool_stand_ins import OneArray, seen, small_library, stand_in

from roofsmith.domain.inspection import (
    Clean,
    Defect,
    Inspection,
    InspectionFound,
    SanitizerTool,
    ToolReport,
    Unavailable,
)
from roofsmith.domain.kernel import Built, Candidate
from roofsmith.domain.outcome import BuildFailed, TimedOut
from roofsmith.domain.workload import Workload
from roofsmith.errors import BadReferenceError, ToolMissingError
from roofsmith.ports import Arguments, KernelDiedError
from roofsmith.profilers.proof import Proof, defective
from roofsmith.profilers.sanitizer import TOOLS, SanitizerInspector
from roofsmith.profilers.sanitizer_output import MAX_DEFECTS, read, where
from roofsmith.report.inspections import inspection_lines
from roofsmith.toolchains.signature import read_signature


class Sighted(Proof):
    """Every tool sees what there is."""

    def doubt(self, tool: SanitizerTool, run: object) -> None:  # type: ignore[override]
        return None


def no_build(candidate: Candidate) -> Built | BuildFailed:
    raise AssertionError(candidate)


SIGHTED = Sighted(no_build)
GOLDEN = Path(__file__).parent.parent / "golden" / "sanitizer"
WORKLOAD = Workload(dims={"n": 4})


def golden(name: str) -> str:
    return (GOLDEN / f"{name}.txt").read_text()


def defects(tool: SanitizerTool, text: str) -> tuple[Defect, ...]:
    report = read(tool, text).report
    assert isinstance(report, InspectionFound), report
    return report.defects


def reason(tool: SanitizerTool, text: str) -> str:
    report = read(tool, text).report
    assert isinstance(report, Unavailable), report
    return report.reason


# -- what it prints -------------------------------------------------------------------------


def test_a_defect_has_kernel_and_line_and_is_named_once() -> None:
    write, shared = defects("memcheck", golden("memcheck"))
    assert (write.kind, write.kernel, write.source, write.times) == (
        "Invalid __global__ write of size 4 bytes", "overflow", "kernel.cu:7", 2,
    )  # fmt: skip
    assert "thread (255,0,0) in block (3,0,0)" in write.detail
    assert "1 bytes after the nearest allocation" in write.detail
    assert (shared.kernel, shared.source, shared.times) == ("tail<(int)8>", "kernel.cu:19", 1)


def test_older_versions_put_the_line_before_the_kernel() -> None:
    write, load = defects("memcheck", golden("memcheck_2021"))
    assert (write.kernel, write.source) == ("unaligned_kernel", "memcheck_demo.cu:6")
    assert "misaligned" in write.detail
    assert "libcuda" not in write.detail
    assert (load.kernel, load.source) == ("cub::Reduce<(int)4>", None)


def test_a_race_as_it_was_recorded() -> None:
    (race,) = defects("racecheck", golden("racecheck_2025_h200"))
    assert (race.kernel, race.source) == ("softmax_rows", "s.cu:21")
    assert "Write access" in race.kind


def test_a_race_is_an_error_and_a_warning_is_not() -> None:
    reading = read("racecheck", golden("racecheck"))
    (race,) = defects("racecheck", golden("racecheck"))
    assert reading.warnings == 1
    assert (race.kernel, race.source) == ("sum", "kernel.cu:41")
    assert "kernel.cu:51" in race.detail
    assert read("racecheck", golden("racecheck_warnings")).report == Clean(tool="racecheck")
    assert read("racecheck", golden("racecheck_warnings")).warnings == 1


def test_older_races() -> None:
    (race,) = defects("racecheck", golden("racecheck_2021"))
    assert (race.kernel, race.source) == ("convolution", "/src/convolution.cu:123")


def test_uninitialised_reads() -> None:
    (load,) = defects("initcheck", golden("initcheck"))
    assert (load.kernel, load.source) == ("accumulate", "kernel.cu:12")
    assert load.kind == "Uninitialized __global__ memory read of size 4 bytes"


@pytest.mark.parametrize("tool", TOOLS)
def test_clean_is_only_what_was_seen_to_its_end(tool: SanitizerTool) -> None:
    text = golden("clean_racecheck" if tool == "racecheck" else "clean")
    assert read(tool, text).report == Clean(tool=tool)
    cut = "\n".join(text.splitlines()[:1])
    assert "without a summary" in reason(tool, cut)
    assert "without a summary" in reason(tool, "")


@pytest.mark.parametrize("number", range(1, 7))
def test_what_was_found_counts_though_the_rest_is_missing(number: int) -> None:
    lines = golden("memcheck").splitlines()
    report = read("memcheck", "\n".join(lines[: number + 1])).report
    assert report.kind == ("unavailable" if number == 1 else "found")


@pytest.mark.parametrize(
    ("name", "meaning"),
    [
        ("no_injection", "lacks its own libraries"),
        ("not_attached", "could not hook into"),
        ("unsupported_device", "doesn't support this GPU"),
    ],
)
def test_its_own_trouble_is_no_defect(name: str, meaning: str) -> None:
    assert meaning in reason("memcheck", golden(name))


def test_errors_without_a_kernel_are_not_held_against_one() -> None:
    text = (
        "========= COMPUTE-SANITIZER\n"
        "========= Host API memory access error at host access to 0x7f14c9e00200\n"
        "========= ERROR SUMMARY: 1 error\n"
    )
    assert "counted 1 errors, but named no kernel: Host API" in reason("initcheck", text)
    text = "========= COMPUTE-SANITIZER\n========= Internal Sanitizer Error: out of handles\n"
    assert "Internal Sanitizer Error: out of handles" in reason("memcheck", text)


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("k(int *)+0x70 in a.cu:3", ("k", "a.cu:3")),
        ("k():0x160 in memcheck_demo.cu:6", ("k", "memcheck_demo.cu:6")),
        ("k(int *)+0x70", ("k", None)),
        ("k+0x70 in a.cu:3 [4 hazards]", ("k", "a.cu:3")),
        ("0x3c8 in ./a.cu:42:ns::k(int*,int*)", ("ns::k", "./a.cu:42")),
        ("0x3c8 in void ns::k<(int)2>(int*)", ("ns::k<(int)2>", None)),
        ("0x460 in myapp.cu:41", (None, "myapp.cu:41")),
    ],
)
def test_places(place: str, expected: tuple[str | None, str | None]) -> None:
    assert where(place) == expected


@given(st.lists(st.sampled_from([*"=at0xkby(): +in.cu:1", "========= ", "\n", "Error: ", "Race"])))
def test_any_text_is_read(pieces: list[str]) -> None:
    text = "".join(pieces)
    for tool in TOOLS:
        report = read(tool, text).report
        assert report.tool == tool
        if isinstance(report, InspectionFound):
            assert 1 <= len(report.defects) <= MAX_DEFECTS


# -- how it is started ----------------------------------------------------------------------

BODY = """
tool = next(o for o in options if o.startswith("--tool=")).removeprefix("--tool=")
log = next(o for o in options if o.startswith("--log-file=")).removeprefix("--log-file=")
code = run()
Path(log).write_text(Path({golden!r}, {texts!r}[tool] + ".txt").read_text())
sys.exit(code)
"""
ALL_CLEAN = {"memcheck": "clean", "racecheck": "clean_racecheck", "initcheck": "clean"}


def inspector(folder: Path, body: str, runner: object | None = None) -> SanitizerInspector:
    program = stand_in(folder, "compute-sanitizer", body)
    return SanitizerInspector(
        runner or ProcessRunner(), OneArray(), SIGHTED, find_program=lambda: program
    )  # type: ignore[arg-type]


def printing(**texts: str) -> str:
    return BODY.format(golden=str(GOLDEN), texts=ALL_CLEAN | texts)


def test_one_run_under_every_tool(tmp_path: Path) -> None:
    found = inspector(tmp_path, printing()).inspect(small_library(tmp_path), WORKLOAD)
    assert found.reports == tuple(Clean(tool=tool) for tool in TOOLS)
    assert found.failure is None
    runs = seen(tmp_path)
    assert sorted(run[0] for run in runs) == sorted(f"--tool={tool}" for tool in TOOLS)
    for run in runs:
        assert "--destroy-on-device-error=kernel" in run
        assert "--error-exitcode=86" in run
        assert ("--report-api-errors=no" in run) == (run[0] == "--tool=memcheck")


def test_what_one_tool_finds_fails_the_kernel(tmp_path: Path) -> None:
    body = printing(racecheck="racecheck", initcheck="initcheck")
    found = inspector(tmp_path, body).inspect(small_library(tmp_path), WORKLOAD)
    assert [report.kind for report in found.reports] == ["clean", "found", "found"]
    assert found.failure.reason == "sanitizer_racecheck"
    assert "kernel.cu:41" in found.failure.detail
    assert "and 1 more" in found.failure.detail
    assert any("1 warnings" in note for note in found.notes)
    lines = list(inspection_lines(found))
    assert "memcheck: clean" in lines
    assert "racecheck: Race reported between Write access in sum at kernel.cu:41" in lines


# -- whether its silence means anything -----------------------------------------------------


def test_a_tool_that_finds_nothing_in_a_defective_kernel_is_blind(tmp_path: Path) -> None:
    library = small_library(tmp_path)
    tried: list[str] = []

    def build(candidate: Candidate) -> Built:
        tried.append(candidate.sources[0].path)
        return library

    blind = replace(inspector(tmp_path, printing()), proof=Proof(build))
    found = blind.inspect(library, WORKLOAD)
    assert [report.kind for report in found.reports] == ["unavailable"] * 3
    assert all("the worker" in why for why in unavailable(found))
    assert sorted(tried) == ["initcheck.cu", "memcheck.cu", "racecheck.cu"]
    assert len(seen(tmp_path)) == 6


def test_what_a_blind_tool_finds_counts(tmp_path: Path) -> None:
    body = printing(memcheck="memcheck")
    proved = replace(inspector(tmp_path, body), proof=Proof(lambda kernel: small_library(tmp_path)))
    found = proved.inspect(small_library(tmp_path), WORKLOAD)
    assert [report.kind for report in found.reports] == ["found", "unavailable", "unavailable"]


def broken(candidate: Candidate) -> Built | BuildFailed:
    raise ToolMissingError("nvcc is gone")


DEFECT = Defect(kind="race", kernel="reverse", source=None, detail="")
CLEAN = Clean(tool="racecheck")


@pytest.mark.parametrize(
    ("report", "doubt"),
    [
        (InspectionFound(tool="racecheck", defects=(DEFECT,)), None),
        (CLEAN, "it found nothing in a kernel that has a defect of its kind (racecheck.cu)"),
        (Unavailable(tool="racecheck", reason="out of memory"), "unknown: out of memory"),
    ],
)
def test_a_tool_is_believed_that_finds_what_is_there(
    report: ToolReport, doubt: str | None, tmp_path: Path
) -> None:
    proof, ran = Proof(lambda kernel: small_library(tmp_path)), 0

    def run(built: Built, given: Arguments) -> ToolReport:
        nonlocal ran
        ran += 1
        return report

    for _ in range(2):
        said = proof.doubt("racecheck", run)
        assert said is None if doubt is None else doubt in str(said)
    # Who sees is believed from then on; who doesn't may see the next time.
    assert ran == (1 if doubt is None else 2)


def test_without_a_defective_kernel_nothing_is_known() -> None:
    assert "nvcc is gone" in str(Proof(broken).doubt("memcheck", lambda built, given: CLEAN))
    failed = Proof(lambda kernel: BuildFailed(reason="compile_error", detail="no"))
    assert "didn't build" in str(failed.doubt("memcheck", lambda built, given: CLEAN))


@pytest.mark.parametrize("tool", TOOLS)
def test_defective_kernels_take_what_they_are_given(tool: SanitizerTool) -> None:
    names = [parameter.name for parameter in read_signature(defective(tool)).parameters]
    assert names == ["x", "y", "N"]


# -- how it fails ---------------------------------------------------------------------------


def unavailable(found: Inspection) -> list[str]:
    assert found.failure is None
    return [r.reason for r in found.reports if isinstance(r, Unavailable)]


def test_without_compute_sanitizer(tmp_path: Path) -> None:
    blind = SanitizerInspector(ProcessRunner(), OneArray(), SIGHTED, find_program=lambda: None)
    found = blind.inspect(small_library(tmp_path), WORKLOAD)
    assert len(unavailable(found)) == 3
    assert "not installed" in unavailable(found)[0]
    assert sum("not installed" in line for line in inspection_lines(found)) == 1


def test_a_program_that_cannot_be_started(tmp_path: Path) -> None:
    broken = SanitizerInspector(
        ProcessRunner(), OneArray(), SIGHTED, find_program=lambda: str(tmp_path / "gone")
    )
    found = broken.inspect(small_library(tmp_path), WORKLOAD)
    assert all("can't be started" in why for why in unavailable(found))
    assert len(unavailable(found)) == 3


def test_a_program_that_refuses(tmp_path: Path) -> None:
    body = "log = next(o for o in options if '--log-file' in o).split('=')[1]\n"
    body += f"Path(log).write_text(Path({str(GOLDEN)!r}, 'unsupported_device.txt').read_text())\n"
    body += "sys.exit(255)"
    found = inspector(tmp_path, body).inspect(small_library(tmp_path), WORKLOAD)
    assert len(unavailable(found)) == 3
    assert "doesn't support this GPU" in unavailable(found)[0]


def test_a_program_that_dies_without_a_word(tmp_path: Path) -> None:
    found = inspector(tmp_path, "sys.exit(1)").inspect(small_library(tmp_path), WORKLOAD)
    assert len(unavailable(found)) == 3
    assert "survive" in unavailable(found)[0]


class HangingRunner:
    """Loses patience with every worker under a launcher; may have it write a report before."""

    def __init__(self, report: str = "") -> None:
        self.report = report
        self.deadlines_s: set[float] = set()

    @contextmanager
    def open(
        self,
        built: Built,
        arguments: Arguments,
        *,
        threads: int,
        call_deadline_s: float = 60.0,
        launcher: Sequence[str] = (),
    ) -> Iterator[ProcessSession]:
        self.deadlines_s.add(call_deadline_s)
        if launcher and self.report:
            (log,) = [word for word in launcher if word.startswith("--log-file=")]
            Path(log.removeprefix("--log-file=")).write_text(self.report)
        raise KernelDiedError(TimedOut(reason="call_deadline", detail="run did not answer"))
        yield  # a context manager must be able to give something


def test_a_tool_that_hangs(tmp_path: Path) -> None:
    runner = HangingRunner()
    found = inspector(tmp_path, "", runner).inspect(small_library(tmp_path), WORKLOAD)
    assert all("it hung and was stopped" in why for why in unavailable(found))
    assert found.repeatable is None
    assert runner.deadlines_s == {60.0}


def test_findings_of_a_kernel_that_hung_count(tmp_path: Path) -> None:
    runner = HangingRunner(golden("memcheck"))
    found = inspector(tmp_path, "", runner).inspect(small_library(tmp_path), WORKLOAD)
    assert found.failure.reason == "sanitizer_memcheck"


class NoInputs(OneArray):
    def inputs(self, workload: Workload, seed: int) -> dict[str, NDArray[np.generic] | int]:
        raise BadReferenceError("setup raises")


def test_a_reference_without_inputs(tmp_path: Path) -> None:
    blind = SanitizerInspector(ProcessRunner(), NoInputs(), SIGHTED)
    assert "setup raises" in unavailable(blind.inspect(small_library(tmp_path), WORKLOAD))[0]


# -- does it repeat itself ------------------------------------------------------------------


class ScriptedRunner:
    """Gives the next of these outputs to every session."""

    def __init__(self, *outputs: Sequence[float]) -> None:
        self._outputs = iter(outputs)

    @contextmanager
    def open(self, built: Built, arguments: Arguments, **_: object) -> Iterator[ScriptedRunner]:
        yield self

    def call(self, times: int) -> tuple[float, ...]:
        return (1e-6,) * times

    def outputs(self) -> dict[str, NDArray[np.generic]]:
        return {"y": np.array(next(self._outputs), np.float32)}


@pytest.mark.parametrize(
    ("first", "second", "repeats"),
    [
        ((1, 2), (1, 2), True),
        ((1, 2), (1, 2.5), False),
        ((np.nan,), (np.nan,), True),
        ((0.0,), (-0.0,), False),
    ],
)
def test_bits_decide(
    tmp_path: Path, first: tuple[float, ...], second: tuple[float, ...], repeats: bool
) -> None:
    runner = ScriptedRunner(first, second)
    one = SanitizerInspector(runner, OneArray(), SIGHTED, find_program=lambda: None)  # type: ignore[arg-type]
    found = one.inspect(small_library(tmp_path), WORKLOAD)
    assert found.repeatable is repeats
    assert found.failure is None
    assert ("differ in y" in found.notes[0]) != repeats
