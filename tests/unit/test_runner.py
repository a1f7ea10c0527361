from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import numpy as np
import psutil
import pytest

from roofsmith.domain.kernel import Built, Candidate, SourceFile
from roofsmith.judge.host.runner import WorkerRunner
from roofsmith.ports import KernelDiedError
from roofsmith.toolchains.c import CToolchain

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")

ADD = """
static int calls;
void solve(const float *x, double *y, short k, long n) {
    calls++;
    for (long i = 0; i < n; i++) y[i] = x[i] + k + calls * 100;
}
"""


@pytest.fixture(scope="module")
def toolchain(tmp_path_factory: pytest.TempPathFactory) -> CToolchain:
    return CToolchain(tmp_path_factory.mktemp("builds"))


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def built(toolchain: CToolchain, text: str = ADD) -> Built:
    source = SourceFile(path="kernel.c", text=text)
    found = toolchain.build(Candidate(language="c", sources=(source,)))
    assert isinstance(found, Built), found
    return found


def arguments() -> dict[str, np.ndarray | int]:
    return {"x": np.arange(5, dtype=np.float32), "y": np.zeros(5), "k": -2, "n": 5}


def test_calls_and_outputs(toolchain: CToolchain) -> None:
    with WorkerRunner().open(built(toolchain), arguments(), threads=1) as session:
        times = session.call(3)
        assert len(times) == 3
        assert all(time > 0 for time in times)
        outputs = session.outputs()
        assert list(outputs) == ["y"]
        assert np.array_equal(outputs["y"], np.arange(5) - 2 + 300)
        session.call(1)
        assert np.array_equal(outputs["y"], np.arange(5) - 2 + 300)  # a copy, not a view
        assert np.array_equal(session.outputs()["y"], np.arange(5) - 2 + 400)


def test_numbers_of_every_kind_arrive(toolchain: CToolchain) -> None:
    text = """
        #include <stdbool.h>
        void solve(float a, double *y, bool b, double c, unsigned char d) {
            y[0] = a; y[1] = b; y[2] = c; y[3] = d;
        }
    """
    given = {"a": 0.1, "y": np.zeros(4), "b": True, "c": -0.1, "d": 200}
    with WorkerRunner().open(built(toolchain, text), given, threads=1) as session:
        session.call(1)
        assert session.outputs()["y"].tolist() == [float(np.float32(0.1)), 1.0, -0.1, 200.0]


def test_the_arguments_stay_as_they_were(toolchain: CToolchain) -> None:
    given = arguments()
    with WorkerRunner().open(built(toolchain), given, threads=1) as session:
        session.call(1)
    assert np.array_equal(given["y"], np.zeros(5))


def test_the_worker_ends_with_the_block(toolchain: CToolchain, scratch: Path) -> None:
    with WorkerRunner().open(built(toolchain), arguments(), threads=1) as session:
        assert psutil.Process(session.pid).is_running()
        pid = session.pid
    assert not psutil.pid_exists(pid)
    assert list(scratch.iterdir()) == []


def test_a_crash_says_how(toolchain: CToolchain) -> None:
    crashing = "#include <stdlib.h>\n" + ADD.replace("calls++;", "abort();")
    with WorkerRunner().open(built(toolchain, crashing), arguments(), threads=1) as session:
        with pytest.raises(KernelDiedError) as caught:
            session.call(1)
        assert caught.value.outcome.reason == "signal_sigabrt"


def test_a_call_past_its_deadline(toolchain: CToolchain) -> None:
    endless = ADD.replace("calls++;", "for (volatile int i = 0;; i++) {}")
    opened = WorkerRunner().open(
        built(toolchain, endless), arguments(), threads=1, call_deadline_s=0.2
    )
    with opened as session, pytest.raises(KernelDiedError) as caught:
        session.call(1)
    assert caught.value.outcome.kind == "timed_out"


def test_a_library_that_does_not_load(toolchain: CToolchain, tmp_path: Path) -> None:
    gone = built(toolchain).model_copy(update={"library": tmp_path / "gone.so"})
    with (
        pytest.raises(KernelDiedError) as caught,
        WorkerRunner().open(gone, arguments(), threads=1),
    ):
        pass
    assert caught.value.outcome.reason == "load_failed"


def test_a_launcher_starts_the_worker(toolchain: CToolchain) -> None:
    launcher = ("/usr/bin/env", "OMP_SCHEDULE=static")
    reads = "#include <stdlib.h>\n#include <string.h>\n" + ADD.replace(
        "calls++;",
        'const char *s = getenv("OMP_SCHEDULE"); if (!s || strcmp(s, "static")) abort();',
    )
    with WorkerRunner().open(
        built(toolchain, reads), arguments(), threads=1, launcher=launcher
    ) as session:
        assert len(session.call(1)) == 1
