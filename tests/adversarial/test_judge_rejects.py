"""Kernels that are wrong, broken or hostile: each is data, with a kind and a reason."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import psutil
import pytest
from judge_bench import HONEST, Bench, bound_of, command_lines, marked, needs_gcc, undisturbed

from kinds import another, one_of_each
from roofsmith.domain.outcome import Passed
from roofsmith.domain.values import content_id
from roofsmith.judge.host.lineup import HostBench
from roofsmith.judge.sandbox.enclosure import state_of
from roofsmith.testing.observer import SilentObserver

pytestmark = needs_gcc

HEAD = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n"
OPEN = "void solve(const float *x, float *y, int n) {\n"
LOOP = "    for (int i = 0; i < n; i++) y[i] = x[i] * x[i] + 1.0f;\n"


def kernel(body: str, *, after: str = "", before: str = "") -> str:
    """An honest kernel that does something else as well."""
    return f"{HEAD}{before}{OPEN}{body}{LOOP}{after}}}\n"


def by_reason(case: tuple[str, str]) -> str:
    return case[1]


WRONG = {
    "wrong by a little": (
        HEAD + OPEN + "for (int i = 0; i < n; i++) y[i] = x[i] * x[i] + 1.001f;}",
        "wrong_output",
    ),
    "one element wrong": (kernel("", after="y[n / 2] += 0.5f;"), "wrong_output"),
    "constant": (
        HEAD + OPEN + "for (int i = 0; i < n; i++) y[i] = 2.0f;}",
        "wrong_output",
    ),
    "zeros": (HEAD + OPEN + "memset(y, 0, n * sizeof(float));}", "wrong_output"),
    "infinite": (kernel("", after="y[0] = 1.0f / 0.0f;"), "nan_output"),
    "half unwritten": (
        HEAD + OPEN + "for (int i = 0; i < n / 2; i++) y[i] = x[i] * x[i] + 1.0f;}",
        "skipped_work",
    ),
    "last element unwritten": (
        HEAD + OPEN + "for (int i = 0; i < n - 1; i++) y[i] = x[i] * x[i] + 1.0f;}",
        "skipped_work",
    ),
    "tail of odd lengths dropped": (
        HEAD + OPEN + "for (int i = 0; i < n / 8 * 8; i++) y[i] = x[i] * x[i] + 1.0f;}",
        "skipped_work",
    ),
    "nothing": (HEAD + OPEN + "(void)x; (void)y; (void)n;}", "skipped_work"),
    "writes behind": (kernel("", after="y[n] = 0.0f;"), "out_of_bounds"),
    "writes before": (kernel("", after="y[-1] = 0.0f;"), "out_of_bounds"),
    "writes behind the input": (kernel("", after="((float *)x)[n] = 0.0f;"), "out_of_bounds"),
    "writes before the input": (kernel("", after="((float *)x)[-1] = 0.0f;"), "out_of_bounds"),
    "adds to what it finds": (
        HEAD + OPEN + "for (int i = 0; i < n; i++) y[i] += x[i] * x[i] + 1.0f;}",
        "nan_output",
    ),
    "alters its input": (kernel("", after="((float *)x)[n / 2] += 1.0f;"), "input_altered"),
    "squares its input in place": (
        HEAD + OPEN + "float *w = (float *)x; for (int i = 0; i < n; i++)"
        " { w[i] *= w[i]; y[i] = w[i] + 1.0f; }}",
        "input_altered",
    ),
    "remembers its first answer": (
        HEAD + "static float *kept; static int length;\n" + OPEN
        + "if (kept && length == n) { memcpy(y, kept, n * sizeof(float)); return; }\n" + LOOP
        + "kept = realloc(kept, n * sizeof(float)); length = n;"
        " memcpy(kept, y, n * sizeof(float));}",
        "memoised_result",
    ),
    "remembers by address": (
        HEAD + "static const float *seen; static float *kept;\n" + OPEN
        + "if (seen == x) { memcpy(y, kept, n * sizeof(float)); return; }\n" + LOOP
        + "seen = x; kept = realloc(kept, n * sizeof(float));"
        " memcpy(kept, y, n * sizeof(float));}",
        "memoised_result",
    ),
    "skips every second call": (
        HEAD + "static int calls;\n" + OPEN + "if (calls++ % 2) return;\n" + LOOP + "}",
        "skipped_work",
    ),
}  # fmt: skip


@pytest.mark.rule("correct-first")
@pytest.mark.parametrize("wrong", one_of_each(WRONG, by_reason))
def test_wrong_results_are_rejected_before_anything_is_timed(
    wrong: tuple[str, str], squares: Bench
) -> None:
    text, reason = wrong
    found = squares.check(text).outcome
    assert (found.kind, getattr(found, "reason", None)) == ("incorrect", reason), found.detail
    assert "n=10" in found.detail


CRASHES = {
    "null pointer": ("*(volatile int *)0 = 1;", "signal_sigsegv"),
    "wild write": ("y[1L << 40] = 1.0f;", "signal_sigsegv"),
    "divides by zero": ("volatile int zero = 0; y[0] = (float)(n / zero);", "signal_sigfpe"),
    "illegal instruction": ("__builtin_trap();", "signal_sigill"),
    "abort": ("abort();", "signal_sigabrt"),
    "kills itself": ("kill(getpid(), 9);", "signal_sigkill"),
    "exit 0": ("exit(0);", "exited"),
    "exit 3": ("_exit(3);", "exited"),
    "no stack left": ("volatile char big[1L << 34]; big[0] = 1;", "signal_sigsegv"),
    "closes every descriptor": ("for (int fd = 0; fd < 1024; fd++) close(fd);", "exited"),
}


@pytest.mark.parametrize("crash", one_of_each(CRASHES, by_reason))
def test_crashes_are_outcomes_with_their_signal(crash: tuple[str, str], squares: Bench) -> None:
    body, reason = crash
    found = squares.check(kernel(body, before="#include <signal.h>\n")).outcome
    assert (found.kind, getattr(found, "reason", None)) == ("crashed", reason), found.detail


def test_what_a_crashing_kernel_printed_is_kept(squares: Bench) -> None:
    found = squares.check(kernel('fputs("row 7 is odd\\n", stderr); abort();')).outcome
    assert found.kind == "crashed"
    assert "row 7 is odd" in found.detail
    assert found.log is not None
    assert "row 7 is odd" in found.log.read_text()
    found.log.unlink()


def test_memory_that_cannot_be_had(squares: Bench) -> None:
    body = "char *p = malloc(1000000000000); if (!p) abort(); memset(p, 1, 1000000000000); free(p);"
    found = squares.check(kernel(body)).outcome
    assert (found.kind, getattr(found, "reason", None)) == ("crashed", "signal_sigabrt")


def test_endless_kernel_is_killed_at_its_deadline(
    squares: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HostBench, "first_deadline_s", 0.3)
    found = squares.check(kernel("for (volatile int i = 0;; i++) {}")).outcome
    assert (found.kind, getattr(found, "reason", None)) == ("timed_out", "call_deadline")


def test_kernel_that_ignores_signals_is_killed_too(
    squares: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HostBench, "first_deadline_s", 0.3)
    before = "#include <signal.h>\n"
    body = "for (int s = 1; s < 32; s++) signal(s, SIG_IGN); for (;;) sleep(1000);"
    assert squares.check(kernel(body, before=before)).outcome.kind == "timed_out"


def test_prints_without_end_are_cut_off(squares: Bench, scratch: Path) -> None:
    body = (
        "char line[4096]; memset(line, 'x', sizeof line);"
        " for (int i = 0; i < 25600; i++) if (write(1, line, sizeof line) < 0) break;"
    )
    found = squares.check(kernel(body)).outcome
    assert found.kind == "crashed"
    assert found.reason == "too_much_output"
    sizes = [path.stat().st_size for path in scratch.rglob("*") if path.is_file()]
    assert max(sizes, default=0) <= 16 * 1024**2
    log = getattr(found, "log", None)
    if log is not None:
        log.unlink()


def test_garbage_on_the_channel(squares: Bench) -> None:
    body = 'for (int fd = 3; fd < 64; fd++) if (write(fd, "garbage garbage", 15) < 0) continue;'
    found = squares.check(kernel(body)).outcome
    assert (found.kind, getattr(found, "reason", None)) == ("cheated", "verdict_forged")


def test_forged_answers_do_not_pass(squares: Bench) -> None:
    """A kernel that answers in the worker's place, and leaves the work undone."""
    forge = (
        'const char *said = "{\\"times_ns\\":[1]}"; unsigned size = strlen(said);'
        " for (int fd = 3; fd < 64; fd++)"
        " if (write(fd, &size, 4) == 4 && write(fd, said, size) < 0) continue; return;"
    )
    found = squares.check(HEAD + OPEN + forge + "}").outcome
    assert found.kind in ("cheated", "incorrect")


def test_answering_twice_is_forgery_though_all_is_right(squares: Bench) -> None:
    forge = (
        'const char *said = "{\\"times_ns\\":[1]}"; unsigned size = strlen(said);'
        " for (int fd = 3; fd < 64; fd++)"
        " if (write(fd, &size, 4) == 4 && write(fd, said, size) < 0) continue;"
    )
    found = squares.check(kernel("", after=forge)).outcome
    assert (found.kind, getattr(found, "reason", None)) == ("cheated", "verdict_forged")


@pytest.mark.parametrize(
    "escape",
    [
        "setsid(); if (fork()) _exit(0);",
        another(""),
        another("setpgid(0, 0);"),
        another("setsid();"),
    ],
)
def test_children_do_not_outlive_the_judgement(escape: str, squares: Bench) -> None:
    mark = uuid.uuid4().hex
    body = f"if (fork() == 0) {{ {escape} sleep(600); _exit(0); }}"
    squares.check(kernel(body), OMP_SAMPLE_MARK=mark)
    _, left = psutil.wait_procs(marked(mark), timeout=60)  # dying takes a moment
    for process in left:
        process.kill()
    assert not left


TOUCHES = {
    "signals the judge": "kill(getppid(), 0) == 0",
    "signals everybody": "kill(-1, 0) == 0",
    "traces the judge": "ptrace(PTRACE_SEIZE, getppid(), 0, 0) == 0",
}


@pytest.mark.skipif(os.uname().machine not in ("x86_64", "aarch64"), reason="no filter here")
@pytest.mark.parametrize(
    "name", ["signals everybody", "traces the judge", another("signals the judge")]
)
def test_other_processes_cannot_be_touched(name: str, squares: Bench) -> None:
    before = "#include <signal.h>\n#include <sys/ptrace.h>\n#include <sys/wait.h>\n"
    tried = f'if ({TOUCHES[name]}) {{ fputs("it could", stderr); abort(); }}'
    waits = "if (getpid() != worker) _exit(0); "
    text = kernel(f"int worker = getpid(); {tried} {waits} (void)wait(0);", before=before)
    found = squares.check(text).outcome
    assert isinstance(found, Passed), found.detail


@pytest.mark.rule("no-less-work")
def test_cheating_only_when_timed_is_caught_by_verified_timed_calls(squares: Bench) -> None:
    """Honest for as long as a check before the timing would look; then it stops working."""
    text = HEAD + "static int calls;\n" + OPEN + "if (++calls > 60) return;\n" + LOOP + "}"
    assert isinstance(squares.check(text).outcome, Passed)
    judged = squares.compare(text)
    assert judged.verdict == "rejected"
    assert (judged.outcome.kind, getattr(judged.outcome, "reason", None)) == (
        "incorrect",
        "skipped_work",
    )


def test_crash_while_timed_is_a_crash(squares: Bench) -> None:
    text = HEAD + "static int calls;\n" + OPEN + "if (++calls > 12) abort();\n" + LOOP + "}"
    judged = squares.compare(text)
    assert judged.verdict == "rejected"
    assert judged.outcome.kind == "crashed"


@pytest.mark.rule("physics")
@pytest.mark.timing
def test_impossibly_fast_is_rejected(squares: Bench) -> None:
    labels = [workload.label for workload in squares.target.workloads]
    judged = squares.compare(HONEST, bounds=[bound_of(label, 1.0) for label in labels])
    undisturbed(judged)
    assert judged.verdict == "rejected"
    assert (judged.outcome.kind, getattr(judged.outcome, "reason", None)) == (
        "cheated",
        "below_floor",
    )
    assert "floor of 1 s" in judged.outcome.detail


def test_library_that_does_not_load(squares: Bench, tmp_path: Path) -> None:
    broken = tmp_path / "kernel.so"
    broken.write_bytes(b"not a library")
    what_it_is = {"library": broken, "library_sha256": content_id(broken.read_bytes())}
    built = squares.built(HONEST).model_copy(update=what_it_is)
    found = squares.judge().measure(built, SilentObserver(), timed=False).outcome
    assert (found.kind, getattr(found, "reason", None)) == ("crashed", "load_failed")


def test_library_that_ends_the_process_while_loading(squares: Bench) -> None:
    text = HEAD + "__attribute__((constructor)) static void first(void) { _exit(5); }\n" + HONEST
    found = squares.check(text).outcome
    assert found.kind == "crashed"
    assert "code 5" in found.detail


def test_worker_knows_nothing_of_the_users_environment(
    squares: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "hush")
    body = 'if (getenv("SECRET_TOKEN") || getenv("HOME")) abort();'
    assert isinstance(squares.check(kernel(body)).outcome, Passed)


def test_nothing_is_left_behind(squares: Bench, scratch: Path) -> None:
    """No processes and no files, after a kernel that passes and one that crashes."""
    assert isinstance(squares.check(HONEST).outcome, Passed)
    crashed = squares.check(kernel('puts("last words"); fflush(stdout); abort();')).outcome
    assert crashed.kind == "crashed"
    own = psutil.Process()
    worker = "roofsmith.judge.host.worker"
    assert not [line for line in command_lines(own.children()) if worker in line]
    folders = [p for p in scratch.iterdir() if p.is_dir() and "worker" in p.name]
    assert not folders
    assert crashed.log is not None
    assert crashed.log.parent == scratch
    crashed.log.unlink()


def test_descriptors_are_given_back(squares: Bench) -> None:
    """But for a few places more that are kept for draws."""
    squares.check(HONEST)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for text in 3 * (HONEST, kernel("abort();"), WRONG["zeros"][0]):
        squares.check(text)
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + 8


def test_worker_dies_with_its_parent(squares: Bench, scratch: Path) -> None:
    """A judge that is killed in the middle of its work."""
    built = squares.built(HONEST).model_dump_json()
    killed = subprocess.run(
        [sys.executable, "-c", KILLED_JUDGE, built], stdout=subprocess.PIPE, check=False,
        env={**os.environ, "TMPDIR": str(scratch)},
    )  # fmt: skip
    assert killed.returncode == -signal.SIGKILL
    pid, until = int(killed.stdout), time.monotonic() + 60
    while state_of(pid) not in "ZX":
        if time.monotonic() > until:
            os.kill(pid, signal.SIGKILL)
            pytest.fail("the worker outlived its parent")
        time.sleep(0.02)


KILLED_JUDGE = """
import os, sys
from roofsmith.domain.kernel import Built
from roofsmith.judge.host.process import WorkerProcess
worker = WorkerProcess(Built.model_validate_json(sys.argv[1]), threads=1)
worker.wait_until_loaded()
print(worker.pid, flush=True)
os.kill(os.getpid(), 9)
"""


def test_a_library_that_was_exchanged_is_not_loaded(squares: Bench) -> None:
    built = squares.built(HONEST + "/* to be exchanged */\n")
    built.library.parent.chmod(0o755)
    built.library.chmod(0o644)
    built.library.write_bytes(built.library.read_bytes() + b"\0")
    found = squares.judge().measure(built, SilentObserver(), timed=False).outcome
    assert found.kind == "cheated"
    assert found.reason == "binary_mismatch"
    assert str(built.library) in found.detail
