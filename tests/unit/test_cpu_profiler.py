from __future__ import annotations

import platform
import shutil
from pathlib import Path

import pytest
from profiled_rows import WORKLOAD, BrokenOracle, DyingRunner, RowsOracle

from roofsmith.analysis.instructions import ELSEWHERE, read_objdump
from roofsmith.domain.kernel import BuildSpec, Built, Candidate, SourceFile
from roofsmith.domain.outcome import Crashed
from roofsmith.domain.profile import Profile
from roofsmith.judge.host.runner import WorkerRunner
from roofsmith.ports import KernelDiedError
from roofsmith.profilers import valgrind
from roofsmith.profilers.cpu import CpuProfiler
from roofsmith.profilers.disassembly import Listing, disassemble, read_listing
from roofsmith.profilers.watching import Watcher
from roofsmith.toolchains.c import CToolchain

pytestmark = [
    pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed"),
    pytest.mark.slow,
]

SOFTMAX = """
#include <math.h>
void solve(const float *x, float *y, int N, int D) {
    for (int i = 0; i < N; i++) {
        float sum = 0;
        for (int j = 0; j < D; j++) { y[i * D + j] = expf(x[i * D + j]); sum += y[i * D + j]; }
        for (int j = 0; j < D; j++) y[i * D + j] /= sum;
    }
}
"""
SCALE = """
void solve(const float *x, float *y, int N, int D) {
    for (int i = 0; i < N * D; i++) y[i] = 2.0f * x[i] + 1.0f;
}
"""


COUNTED = """
void solve(const float *x, float *y, int N, int D) {
    volatile float *at = y;
    for (int i = 0; i < N * D; i++) at[i] = ((volatile const float *)x)[i];
}
"""


def build(folder: Path, text: str, *flags: str) -> Built:
    candidate = Candidate(
        language="c",
        sources=(SourceFile(path="kernel.c", text=text),),
        build=BuildSpec(flags=flags or ("-O3", "-march=native")),
    )
    built = CToolchain(folder).build(candidate)
    assert isinstance(built, Built), built
    return built


def profiled(folder: Path, text: str = SOFTMAX, **without: None) -> Profile:
    profiler = CpuProfiler(Watcher(WorkerRunner(), RowsOracle(), 1))
    for tool in without:
        owner = profiler if tool == "find_valgrind" else profiler.watcher
        object.__setattr__(owner, tool, lambda: None)
    return profiler.profile(build(folder, text), WORKLOAD)


def test_perf_counts_what_the_kernel_does(tmp_path: Path) -> None:
    if shutil.which("perf") is None:
        pytest.skip("perf is not installed")
    found = profiled(tmp_path, find_valgrind=None)
    if found.tool != "perf":
        pytest.skip(f"no hardware counters here: {found.notes}")
    instructions = found.get("instructions")
    assert instructions is not None
    # 16384 elements at ten to a hundred instructions each; a worker that waits adds little.
    assert 10 * 16384 < instructions < 100 * 16384
    assert 0 < (found.get("ipc") or 0) < 8
    assert found.workload == "N=256,D=64"
    assert found.get("cycles") is not None


ANSWERING = """#!/bin/sh
while [ $# -gt 0 ]; do case $1 in -o) out=$2;; --control) fifos=${2#fifo:};; esac; shift; done
[ -n "$fifos" ] || exit 1
printf '%s' > "$out"
while read -r word < "${fifos%%,*}"; do echo "$word" > "${fifos#*,}"; done
"""


def answered(folder: Path, csv: str) -> Profile:
    """With a perf that always counts the same."""
    perf = folder / "perf"
    perf.write_text(ANSWERING % csv)
    perf.chmod(0o755)
    profiler = CpuProfiler(
        Watcher(WorkerRunner(), RowsOracle(), 1, lambda: str(perf)), lambda: None
    )
    return profiler.profile(build(folder, SCALE), WORKLOAD)


def test_the_kind_of_core_and_what_was_not_counted_are_notes(tmp_path: Path) -> None:
    csv = "100,,cpu_core/cycles:u/,9,100.00\n<not counted>,,cpu_core/branches:u/,0,0.00\n"
    found = answered(tmp_path, csv)
    assert found.tool == "perf"
    assert found.get("cycles") is not None
    assert [note for note in found.notes if "cpu_core" in note]
    assert [note for note in found.notes if "branches" in note]


def test_events_that_nobody_knows_are_no_profile(tmp_path: Path) -> None:
    found = answered(tmp_path, "100,,r01c2,9,100.00\n")
    assert found.tool == "none"
    assert [note for note in found.notes if "r01c2" in note]


def test_callgrind_stands_in_and_says_so(tmp_path: Path) -> None:
    if shutil.which("valgrind") is None:
        pytest.skip("valgrind is not installed")
    found = profiled(tmp_path, find_perf=None)
    if found.tool != "valgrind":
        pytest.skip(f"valgrind can't run here: {found.notes}")
    instructions = found.get("instructions")
    assert instructions is not None
    assert 10 * 16384 < instructions < 100 * 16384
    assert any("simulated N=256,D=64" in note for note in found.notes)
    assert "perf is not installed" in found.notes


def test_callgrind_counts_the_kernel_alone(tmp_path: Path) -> None:
    """A load and a store of each of 16384 elements, and not what the worker does around them."""
    if shutil.which("valgrind") is None:
        pytest.skip("valgrind is not installed")
    found = profiled(tmp_path, COUNTED, find_perf=None)
    if found.tool != "valgrind":
        pytest.skip(f"valgrind can't run here: {found.notes}")
    assert found.get("data_references") == pytest.approx(2 * 16384, rel=0.02)


@pytest.mark.parametrize("finds", [True, False])
def test_where_perf_counts_nothing_the_simulation_says_the_same(
    tmp_path: Path, finds: bool
) -> None:
    """It is begun at once then."""
    if finds and shutil.which("valgrind") is None:
        pytest.skip("valgrind is not installed")
    profiler = CpuProfiler(Watcher(WorkerRunner(), RowsOracle(), 1), blind=["no counters here"])
    if not finds:
        object.__setattr__(profiler, "find_valgrind", lambda: None)
    found = profiler.profile(build(tmp_path, COUNTED), WORKLOAD)
    assert "no counters here" in found.notes or "perf is not installed" in found.notes
    if not finds:
        assert (found.tool, "valgrind is not installed" in found.notes) == ("none", True)
    elif found.tool == "valgrind":
        assert found.get("data_references") == pytest.approx(2 * 16384, rel=0.02)


def test_without_tools_the_profile_says_why(tmp_path: Path) -> None:
    found = profiled(tmp_path, find_perf=None, find_valgrind=None)
    assert found.tool == "none"
    assert {"perf is not installed", "valgrind is not installed"} <= set(found.notes)


@pytest.mark.parametrize(
    ("watcher", "said"),
    [
        (Watcher(DyingRunner(), RowsOracle(), 1, lambda: "p"), "SIGSEGV"),
        (Watcher(WorkerRunner(), BrokenOracle(), 1, lambda: "p"), "no setup"),
    ],
)
def test_what_fails_is_a_note_never_an_exception(
    tmp_path: Path, watcher: Watcher, said: str
) -> None:
    profiler = CpuProfiler(watcher, lambda: "x")
    found = profiler.profile(build(tmp_path, SCALE), WORKLOAD)
    assert found.tool == "none"
    assert any(said in note for note in found.notes)


def listing(folder: Path, text: str, *flags: str) -> Listing:
    printed = disassemble(build(folder, text, *flags).library)
    if printed is None:
        pytest.skip("objdump is not installed")
    return read_listing(read_objdump(printed))


def test_the_listing_tells_packed_from_scalar(tmp_path: Path) -> None:
    packed = listing(tmp_path, SCALE, "-O3", "-march=native", "-fno-tree-loop-distribution")
    scalar = listing(tmp_path, SCALE, "-O1", "-fno-tree-vectorize")
    assert scalar.vector_share == 0
    assert packed.vector_share != 0


def test_the_listing_names_library_calls_in_loops(tmp_path: Path) -> None:
    found = listing(tmp_path, SOFTMAX, "-O2")
    assert found.calls_in_loops == ("expf",)


def test_without_arithmetic_there_is_no_share() -> None:
    assert read_listing([]).vector_share is None


ARM = """
0000000000000740 <solve>:
     740:\tfmla\tv0.4s, v1.4s, v2.4s
     744:\tfadd\ts0, s1, s2
     748:\tfmul\tv3.4s, v1.4s, v2.4s
     74c:\tbl\t6a0 <expf@plt>
     750:\tb.ne\t740 <solve>  // b.any
     754:\tfadd\ts0, s1, s2
     758:\tret
"""


def test_arm_registers_tell_packed_from_scalar_and_only_loops_count() -> None:
    found = read_listing(read_objdump(ARM))
    assert found == Listing(vector_share=2 / 3, calls_in_loops=("expf",))


REMAINDER = """
0000000000001000 <solve>:
    1000:\tvfmadd231ps (%rdi),%zmm1,%zmm0
    1004:\tjne    1000 <solve>
    1008:\tvfmadd231ss (%rdi),%xmm1,%xmm0
    100c:\tcall   900 <memcpy@plt>
    1010:\tjne    1008 <solve+0x8>
    1014:\tret
"""


def test_a_remainder_loop_counts_as_little_as_it_runs() -> None:
    functions = read_objdump(REMAINDER)
    hot = read_listing(functions, {("solve", 0): 970, ("solve", 8): 10, ELSEWHERE: 20})
    assert (hot.vector_share or 0) > 0.9
    assert hot.calls_in_loops == ()
    calling = read_listing(functions, {("solve", 0): 500, ("solve", 12): 10, ELSEWHERE: 490})
    assert calling.calls_in_loops == ("memcpy",)
    assert read_listing(functions).vector_share is None


def test_one_thread_is_one_busy_processor(tmp_path: Path) -> None:
    if shutil.which("perf") is None:
        pytest.skip("perf is not installed")
    profiler = CpuProfiler(Watcher(WorkerRunner(), RowsOracle(), 2), lambda: None)
    found = profiler.profile(build(tmp_path, SOFTMAX), WORKLOAD)
    used = found.get("processors_used")
    if used is None:
        pytest.skip(f"perf can't watch here: {found.notes}")
    assert 0.1 < used < 1.5  # others on this machine take their share of it
    assert found.get("processors_allowed") == 2


def test_code_without_threads_keeps_one_processor_busy(tmp_path: Path) -> None:
    profiler = CpuProfiler(Watcher(WorkerRunner(), RowsOracle(), 2, lambda: None), lambda: None)
    alone = profiler.profile(build(tmp_path / "1", SOFTMAX), WORKLOAD)
    if disassemble(build(tmp_path / "1", SOFTMAX).library) is None:
        pytest.skip("objdump is not installed")
    assert alone.get("processors_used") == 1
    both = SOFTMAX.replace("    for (int i", "    #pragma omp parallel for\n    for (int i", 1)
    threaded = build(tmp_path / "2", both, "-O3", "-fopenmp")
    assert profiler.profile(threaded, WORKLOAD).get("processors_used") is None


def test_what_valgrind_does_not_know_is_not_held_against_the_kernel() -> None:
    stack = "; it printed: ==1== at 0x4AD4908: run_mod (pythonrun.c:1710)"
    ill = Crashed(reason="signal", detail=f"killed by SIGILL while the kernel ran{stack}")
    assert "not the kernel's fault" in valgrind.told(KernelDiedError(ill))
    segv = Crashed(reason="signal", detail=f"killed by SIGSEGV while the kernel ran{stack}")
    told = valgrind.told(KernelDiedError(segv))
    assert "SIGSEGV" in told
    assert "pythonrun" not in told


def avx512(folder: Path, text: str = SCALE) -> Built:
    if platform.machine() != "x86_64" or shutil.which("objdump") is None:
        pytest.skip("AVX-512 is x86-64's, and objdump finds it")
    built = build(folder, text, "-O3", "-mavx512f", "-mprefer-vector-width=512")
    assert valgrind.knows(built.library) is False
    return built


def test_valgrind_gets_a_build_without_what_it_does_not_know(tmp_path: Path) -> None:
    built = avx512(tmp_path)
    assert built.candidate is not None
    other = CToolchain(tmp_path).build(valgrind.known_to_it(built.candidate))
    assert isinstance(other, Built)
    assert valgrind.knows(other.library)
    if shutil.which("valgrind") is None:
        pytest.skip("valgrind is not installed")
    unseen = Watcher(WorkerRunner(), RowsOracle(), 1, lambda: None)
    found = CpuProfiler(unseen, build=CToolchain(tmp_path).build).profile(built, WORKLOAD)
    assert found.tool == "valgrind"
    assert any(valgrind.KNOWN in note for note in found.notes)


def test_nothing_is_run_that_valgrind_does_not_know(tmp_path: Path) -> None:
    watcher = Watcher(DyingRunner(), RowsOracle(), 1, lambda: None)
    text = '__attribute__((target("avx512f"), optimize("O3,tree-vectorize")))' + SCALE
    for built, make in ((avx512(tmp_path), None), (avx512(tmp_path, text), CToolchain(tmp_path))):
        profiler = CpuProfiler(watcher, lambda: "valgrind", None if make is None else make.build)
        found = profiler.profile(built, WORKLOAD)
        assert found.tool == "none"
        assert [note for note in found.notes if "AVX-512" in note]
        assert not [note for note in found.notes if "SIG" in note]
