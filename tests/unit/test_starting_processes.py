"""Several pairs of real workers start side by side, behind real walls, over a stand-in driver."""

from __future__ import annotations

import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import psutil
import pytest
from driver_here import has_driver
from tool_stand_ins import built_file

from roofsmith.domain.kernel import Built
from roofsmith.domain.target import Tolerance
from roofsmith.judge.correctness.budgets import Budgets
from roofsmith.judge.gpu.forking import ForkServer
from roofsmith.judge.gpu.lineup import GpuLineup
from roofsmith.judge.gpu.process import ONE_QUEUE, server_environment
from roofsmith.judge.gpu.shared import Shared
from roofsmith.judge.gpu.starting import Starter, Workers, start
from roofsmith.judge.sandbox.enclosure import is_stopped, state_of
from roofsmith.judge.sandbox.isolation import isolate
from roofsmith.judge.timing.bench import SideDiedError

pytestmark = [
    pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc"),
    pytest.mark.skipif(has_driver(), reason="this machine has a driver of its own"),
    pytest.mark.slow,
]

DRIVER = """
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#define SAYS_NOTHING(name) int name() { return 0; }
int cuInit(unsigned flags) { usleep(100000); return 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) {
    size_t size = (size_t)64 << 20;
    *context = malloc(size);  /* takes a while to give back */
    memset(*context, 1, size);
    return 0;
}
int cuMemHostAlloc(void **at, size_t size, unsigned flags) { *at = calloc(1, size); return 0; }
int cuMemHostGetDevicePointer_v2(void **device, void *host, unsigned flags) {
    *device = host;
    return 0;
}
#ifndef REGISTERS
#define REGISTERS 0
#endif
int cuMemHostRegister_v2(void *host, size_t size, unsigned flags) { return REGISTERS; }
int cuGetErrorName(int code, const char **name) { *name = "CUDA_ERROR"; return 0; }
SAYS_NOTHING(cuDeviceGet) SAYS_NOTHING(cuCtxSetCurrent) SAYS_NOTHING(cuMemAlloc_v2)
SAYS_NOTHING(cuMemFree_v2) SAYS_NOTHING(cuMemcpyHtoD_v2) SAYS_NOTHING(cuMemcpyDtoH_v2)
SAYS_NOTHING(cuMemsetD8_v2) SAYS_NOTHING(cuCtxSynchronize) SAYS_NOTHING(cuIpcGetMemHandle)
SAYS_NOTHING(cuIpcOpenMemHandle_v2) SAYS_NOTHING(cuEventCreate) SAYS_NOTHING(cuEventRecord)
SAYS_NOTHING(cuEventQuery) SAYS_NOTHING(cuEventSynchronize) SAYS_NOTHING(cuEventElapsedTime)
SAYS_NOTHING(cuStreamWaitValue32_v2) SAYS_NOTHING(cuStreamWriteValue32_v2)
SAYS_NOTHING(cuProfilerStart) SAYS_NOTHING(cuProfilerStop)
"""
SETS = 6


def compiled(source: str, library: Path) -> Path:
    library.with_suffix(".c").write_text(source)
    command = ["gcc", "-shared", "-fPIC", "-o", library, library.with_suffix(".c")]
    subprocess.run(command, check=True)
    return library


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With a driver in it that workers find, and whose device is theirs alone."""
    compiled(DRIVER, tmp_path / "libcuda.so.1")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    return tmp_path


@pytest.fixture
def pair(folder: Path) -> tuple[Built, Built]:
    return tuple(  # type: ignore[return-value]
        built_file(compiled(f"void solve(void) {{ }} int {name};", folder / f"{name}.so"))
        for name in ("old", "new")
    )


def bench(folder: Path, server: ForkServer | None = None) -> Shared:
    return Shared(
        Budgets(Tolerance()), "cuda", folder / "cache", cast(Any, server), None,
        isolate("standard"),
    )  # fmt: skip


def pids(sets: list[Workers]) -> list[int]:
    return [worker.pid for workers in sets for worker in workers]


def test_pairs_are_loaded_stopped_and_gone_when_they_are_buried(
    folder: Path, pair: tuple[Built, Built]
) -> None:
    shared = bench(folder)
    opened = psutil.Process().num_fds()
    started = start(pair, SETS, shared)
    assert len(set(pids(started))) == 2 * SETS
    assert all(is_stopped(pid) for pid in pids(started))
    for workers in started:
        for worker in workers:
            with worker.awake():  # it stood still since, by its processor time
                pass
        shared.end(workers)
    shared.bury()
    assert all(state_of(pid) in ("Z", "X") for pid in pids(started))
    assert psutil.Process().num_fds() == opened


@pytest.mark.parametrize("refuses", [False, True])
def test_calls_can_be_let_go_from_outside_if_the_driver_takes_a_latch(
    folder: Path, pair: tuple[Built, Built], refuses: bool
) -> None:
    if refuses:
        source = "#define REGISTERS 801 /* CUDA_ERROR_NOT_SUPPORTED */" + DRIVER
        compiled(source, folder / "libcuda.so.1")
    shared = bench(folder)
    ((worker,),) = start(pair[:1], 1, shared)
    assert worker.is_latched != refuses
    shared.end([worker])
    shared.bury()


@pytest.mark.parametrize("second_names_streams", [False, True])
def test_all_have_one_queue_unless_a_kernel_of_theirs_has_streams(
    folder: Path, pair: tuple[Built, Built], second_names_streams: bool
) -> None:
    shared = bench(folder)
    kernels = [
        made.model_copy(update={"names_streams": names})
        for made, names in zip(pair, (False, second_names_streams), strict=True)
    ]
    started = start(kernels, 2, shared)
    name, queues = next(iter(ONE_QUEUE.items()))
    given = {psutil.Process(pid).environ().get(name) for pid in pids(started)}
    assert given == {None if second_names_streams else queues}
    shared.end(started[0] + started[1])
    shared.bury()


def test_whose_library_cannot_be_loaded_among_many_is_named(
    folder: Path, pair: tuple[Built, Built]
) -> None:
    source = "void nobody(void); void solve(void) { nobody(); } __attribute__((constructor)) "
    source += "static void begin(void) { nobody(); }"
    broken = built_file(compiled(source, folder / "broken.so"))
    shared = bench(folder)
    with pytest.raises(SideDiedError) as caught:
        start((pair[0], broken), 3, shared)
    assert caught.value.side == 1
    assert "nobody" in caught.value.outcome.detail
    shared.bury()


def test_a_measurement_takes_them_one_after_the_other(
    folder: Path, pair: tuple[Built, Built]
) -> None:
    shared = bench(folder)
    starter = Starter(pair, shared, 3)
    seen = set()
    for _ in range(3):
        with GpuLineup(starter.next(), shared) as lineup:
            seen.update(pids([lineup.workers]))
    starter.close()
    shared.bury()
    assert len(seen) == 6
    assert all(state_of(pid) in ("Z", "X") for pid in seen)


@pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")
def test_forked_workers_that_fail_leave_nobody_behind(folder: Path) -> None:
    """This machine's torch has no device: each says so, and the first one's side is named."""
    (folder / "module.py").write_text("def run_kernel(): pass\n")
    module = built_file(folder / "module.py", "torch")
    with ForkServer(server_environment()) as server:
        shared = bench(folder, server)
        with pytest.raises(SideDiedError) as caught:
            start((module, module), 3, shared)
        assert caught.value.side == 0
        forked = [worker.pid for worker in shared.ending]
        assert len(set(forked)) == 6
        shared.bury()
        assert all(state_of(pid) in ("Z", "X") for pid in forked)
