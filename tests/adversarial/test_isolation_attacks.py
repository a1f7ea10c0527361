"""Kernels that compute what they should, and try to get out on the way.

Each attack is an expression in C that is true if it got through; the kernel traps then. So every
one is `crashed` without walls, which shows that it works, and `passed` within them.
"""

from __future__ import annotations

import os
import resource
import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from judge_bench import HONEST, Bench, command_lines, needs_gcc

import roofsmith
from kinds import another, one_of_each
from roofsmith.domain.comparison import Judgement
from roofsmith.domain.isolation import IsolationMode
from roofsmith.domain.workload import ConfigClass
from roofsmith.judge.host.arena import Arena
from roofsmith.judge.host.lineup import HostBench
from roofsmith.judge.host.process import WorkerProcess
from roofsmith.judge.parent import ProcessJudge
from roofsmith.judge.sandbox.inside import FILTER, LANDLOCK, TASKS
from roofsmith.judge.sandbox.isolation import isolate, probe
from roofsmith.judge.sandbox.process_memory import REACH
from roofsmith.namespaces import MOUNT, NETWORK, PROCESS, USER
from roofsmith.ports import KernelDiedError, Measured
from roofsmith.testing.observer import SilentObserver

pytestmark = needs_gcc

HEAD = """
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
void solve(const float *x, float *y, int n);
static int reads(const char *path) {
    char byte;
    int file = open(path, O_RDONLY);
    int got = file >= 0 && read(file, &byte, 1) == 1;
    if (file >= 0) close(file);
    return got;
}
static int writes(const char *path) {
    int file = open(path, O_WRONLY | O_CREAT, 0600);
    if (file >= 0) close(file);
    return file >= 0;
}
static const char *own_library(void) {
    Dl_info found;
    return dladdr((void *)solve, &found) ? found.dli_fname : "";
}
static int connects(int family, const void *address, socklen_t size) {
    int end = socket(family, SOCK_STREAM, 0);
    int through = end >= 0 && connect(end, address, size) == 0;
    if (end >= 0) close(end);
    return through;
}
static int connects_inet(int port) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return connects(AF_INET, &to, sizeof to);
}
static int connects_unix(const char *name, int abstract) {
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    strcpy(to.sun_path + abstract, name);
    return connects(AF_UNIX, &to, offsetof(struct sockaddr_un, sun_path) + abstract + strlen(name));
}
static int forks(void) {
    int child = fork();
    if (child == 0) _exit(0);
    if (child > 0) waitpid(child, 0, 0);
    return child > 0;
}
static int runs_program(void) {
    int child = vfork();
    if (child == 0) { execl("/bin/true", "true", (char *)0); _exit(9); }
    int status = 0;
    if (child > 0) waitpid(child, &status, 0);
    return child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
static int leaves_shared_memory(const char *name) {
    int memory = shm_open(name, O_CREAT | O_RDWR, 0600);
    if (memory >= 0) close(memory);
    return memory >= 0;
}
static int leaves_segment(void) {
    int segment = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
    if (segment >= 0) shmctl(segment, IPC_RMID, 0);
    return segment >= 0;
}
static int fills_disk(void) {
    static char block[1 << 20];
    long wrote = 0;
    for (int i = 0; i < 12; i++) {
        char name[32];
        sprintf(name, "filler%d", i);
        int file = open(name, O_WRONLY | O_CREAT, 0600);
        for (int j = 0; file >= 0 && j < 10; j++) wrote += write(file, block, sizeof block) > 0;
        if (file >= 0) close(file);
    }
    return wrote > 100;
}
static void *waits(void *gate) { pthread_mutex_lock(gate); pthread_mutex_unlock(gate); return 0; }
static int starts_threads(int most) {
    static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    static pthread_t threads[8192];
    pthread_attr_t small;
    int started = 0;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 16384);
    pthread_mutex_lock(&gate);
    while (started < most && !pthread_create(&threads[started], &small, waits, &gate)) started++;
    pthread_mutex_unlock(&gate);
    for (int i = 0; i < started; i++) pthread_join(threads[i], 0);
    return started == most;
}
static int pins(int process) {
    cpu_set_t set;
    return sched_getaffinity(process, sizeof set, &set) == 0
        && sched_setaffinity(process, sizeof set, &set) == 0;
}
static int reads_memory(int process, void *there) {
    char byte;
    struct iovec own = {&byte, 1}, theirs = {there, 1};
    return process_vm_readv(process, &own, 1, &theirs, 1, 0) == 1;
}
static int is_woken(void) {
    struct sigevent wake = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGCONT};
    timer_t timer;
    return timer_create(CLOCK_MONOTONIC, &wake, &timer) == 0;
}
static int traces(int process) {
    if (ptrace(PTRACE_SEIZE, process, 0, 0) != 0) return 0;
    ptrace(PTRACE_INTERRUPT, process, 0, 0);
    waitpid(process, 0, __WALL);
    ptrace(PTRACE_DETACH, process, 0, 0);
    return 1;
}
"""

BODY = """
void solve(const float *x, float *y, int n) {
    static int tried = 0;
    if (!tried && (tried = 1, %s)) __builtin_trap();
    for (int i = 0; i < n; i++) y[i] = x[i] * x[i] + 1.0f;
}
"""


@dataclass(frozen=True)
class Attack:
    """An expression that is true if it got through."""

    text: str
    """With `{judge}` for the judge's number, `{place}` for a folder of its user's, and so on."""
    stopped_by: tuple[str, ...]
    """Layers each of which is enough."""
    proven: bool = True
    """Whether it is tried without walls, too: not where it would do harm."""


FILES = (LANDLOCK, MOUNT)
MEMORY = (LANDLOCK, USER, PROCESS)
ATTACKS = {
    "environment of the judge": Attack('reads("/proc/{judge}/environ")', MEMORY),
    "memory map of the judge": Attack('reads("/proc/{judge}/maps")', MEMORY),
    "memory of the judge": Attack("reads_memory({judge}, (void *){address})", MEMORY),
    "descriptors of the judge": Attack('reads("/proc/{judge}/fd/{descriptor}")', MEMORY),
    "tracing the judge": Attack("traces({judge})", (FILTER, LANDLOCK, PROCESS), proven=False),
    "signal to the judge": Attack("kill({judge}, SIGCONT) == 0", (FILTER, PROCESS)),
    "processors of the judge": Attack("pins({judge})", (PROCESS,)),
    "priority of the judge": Attack("setpriority(PRIO_PROCESS, {judge}, 0) == 0", (PROCESS,)),
    "limits of the judge": Attack(
        "prlimit({judge}, RLIMIT_CORE, &(struct rlimit){{0, {core}}}, 0) == 0", (PROCESS, FILTER)
    ),
    "surviving the judge": Attack("prctl(PR_SET_PDEATHSIG, 0) == 0", (FILTER,)),
    "closing its memory to the judge": Attack("prctl(PR_SET_DUMPABLE, 0) == 0", (FILTER,)),
    "being woken by a timer": Attack("is_woken()", (FILTER,)),
    "being woken by a descriptor": Attack("fcntl(1, F_SETSIG, SIGCONT) == 0", (FILTER,)),
    "timers that interrupt others": Attack("timerfd_create(CLOCK_MONOTONIC, 0) >= 0", (FILTER,)),
    "writing back everybody's files": Attack("syncfs(1) == 0", (FILTER,)),
    "splitting the kernel's map of memory": Attack("syscall(447, 0) >= 0", (FILTER,), False),
    "reading the user's files": Attack('reads("{place}/secret")', (LANDLOCK,)),
    "writing the user's files": Attack('writes("{place}/secret")', FILES),
    "writing new files": Attack('writes("{place}/new")', FILES),
    "writing in /tmp": Attack('writes("{tmp}/roofsmith-attack-{judge}")', FILES),
    "writing in /dev/shm": Attack('writes("/dev/shm/roofsmith-attack-{judge}")', FILES),
    "emptying files": Attack('truncate("{place}/secret", 0) == 0', FILES),
    "removing files": Attack('unlink("{place}/victim") == 0', FILES),
    "changing modes": Attack('chmod("{place}/secret", 0777) == 0', (FILTER, MOUNT)),
    "changing times": Attack('utimensat(AT_FDCWD, "{place}/secret", 0, 0) == 0', (FILTER, MOUNT)),
    "writing its library": Attack("writes(own_library())", FILES),
    "replacing its library": Attack('rename(own_library(), "{place}/moved") == 0', FILES, False),
    "writing into the judge's code": Attack('writes("{package}/judge/parent.py")', FILES),
    "preloading into other processes": Attack('writes("/etc/ld.so.preload")', FILES, False),
    "kernel settings": Attack('writes("/proc/sys/kernel/core_pattern")', FILES, False),
    "network": Attack("connects_inet({port})", (NETWORK, FILTER)),
    "local sockets": Attack('connects_unix("{place}/socket", 0)', (FILTER,)),
    "abstract sockets": Attack('connects_unix("roofsmith-{judge}", 1)', (NETWORK, FILTER)),
    "starting processes": Attack("forks()", (FILTER,)),
    "running programs": Attack("runs_program()", (FILTER,)),
    "shared memory that stays": Attack(
        'leaves_shared_memory("/roofsmith-attack-{judge}")', FILES
    ),
    "System V memory that stays": Attack("leaves_segment()", (FILTER,)),
    "namespaces of its own": Attack("unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0", (FILTER,), False),
    "filling the disk": Attack("fills_disk()", FILES),
    "exhausting processes": Attack("starts_threads(4096)", (TASKS,)),
}  # fmt: skip
PROVEN = {name: attack for name, attack in ATTACKS.items() if attack.proven}


def by_walls(attack: Attack) -> tuple[str, ...]:
    return attack.stopped_by


@dataclass(frozen=True)
class Surroundings:
    """What attacks aim at."""

    place: Path
    names: dict[str, object]

    def kernel(self, attack: Attack) -> str:
        return HEAD + BODY % attack.text.format(**self.names)


@pytest.fixture(scope="module")
def surroundings() -> Iterator[Surroundings]:
    """Files, sockets and a process such as attacks look for."""
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="place-", dir="/tmp")))
        secret = place / "secret"
        secret.write_text("what the reference knows")
        (place / "victim").touch()
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        for name in (str(place / "socket"), f"\0roofsmith-{os.getpid()}"):
            listener = stack.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(name)
            listener.listen()
        held = stack.enter_context(secret.open("rb"))
        names = {
            "judge": os.getpid(), "place": place, "tmp": "/tmp", "port": tcp.getsockname()[1],
            "address": hex(id(place)), "descriptor": held.fileno(),
            "core": resource.getrlimit(resource.RLIMIT_CORE)[1],
            "package": Path(roofsmith.__file__).parent,
        }  # fmt: skip
        yield Surroundings(place, names)
        for folder in ("/tmp", "/dev/shm"):
            Path(folder, f"roofsmith-attack-{os.getpid()}").unlink(missing_ok=True)


def judge_within(bench: Bench, mode: IsolationMode, threads: int = 1) -> ProcessJudge:
    walls = HostBench(bench.oracle, bench.target.tolerance, threads, isolation=isolate(mode))
    labels = tuple(workload.label for workload in bench.target.workloads)
    classes = (ConfigClass(name="all", workloads=labels, reason="a test"),)
    return ProcessJudge(bench.target, walls, classes, ())


def judged(bench: Bench, text: str, mode: IsolationMode) -> Measured:
    """Examine a kernel within the walls of a mode."""
    return judge_within(bench, mode).measure(bench.built(text), SilentObserver(), timed=False)


def compared(bench: Bench, text: str, mode: IsolationMode) -> Judgement:
    """Judge a kernel against an honest one, within the walls of a mode, on all processors."""
    built = bench.built(text), bench.built(HONEST)
    every = len(os.sched_getaffinity(0))
    return judge_within(bench, mode, every).compare(*built, SilentObserver())


@pytest.mark.parametrize("attack", one_of_each(ATTACKS, by_walls))
def test_walls_hold(attack: Attack, squares: Bench, surroundings: Surroundings) -> None:
    if all(probe()[layer] is not None for layer in attack.stopped_by):
        pytest.skip(f"this host grants none of {', '.join(attack.stopped_by)}")
    found = judged(squares, surroundings.kernel(attack), "standard")
    assert found.outcome.kind == "passed", found.outcome.detail


@pytest.mark.parametrize("attack", one_of_each(PROVEN, by_walls))
def test_attack_gets_through_where_there_are_no_walls(
    attack: Attack, squares: Bench, surroundings: Surroundings
) -> None:
    found = judged(squares, surroundings.kernel(attack), "none")
    assert getattr(found.outcome, "reason", None) in ("signal_sigill", "signal_sigtrap")


def test_running_out_of_turn_is_seen_where_nothing_forbids_it(squares: Bench) -> None:
    """A timer whose signal is pending when a stop drops it never runs out again: it's set anew."""
    burns = """
    static timer_t timer;
    static const struct itimerspec often = {{0, 300000}, {0, 300000}};
    static void woken(int number) { (void)number; }
    static void *burn(void *unused) { for (;;) timer_settime(timer, 0, &often, 0); return unused; }
    static int start(void) {
        struct sigevent wake = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGCONT};
        pthread_t thread;
        signal(SIGCONT, woken);
        if (timer_create(CLOCK_MONOTONIC, &wake, &timer)) abort();
        pthread_create(&thread, 0, burn, 0);
        return 0;
    }"""
    outcome = compared(squares, HEAD + burns + BODY % "start()", "none").outcome
    assert outcome.kind == "cheated", outcome.detail
    assert outcome.reason == "ran_out_of_turn"


@pytest.mark.timing
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one processor only")
def test_processors_that_were_not_given_are_seen(squares: Bench) -> None:
    widens = """
    #define SECONDS(clock) (clock_gettime(clock, &now), now.tv_sec + 1e-9 * now.tv_nsec)
    static volatile int is_over;
    static void *burn(void *unused) { while (!is_over); return unused; }
    static int uses_two(void) {
        struct timespec now;
        cpu_set_t all;
        pthread_t thread;
        memset(&all, 255, sizeof all);
        sched_setaffinity(0, sizeof all, &all);
        pthread_create(&thread, 0, burn, 0);
        double wall = SECONDS(CLOCK_MONOTONIC), own = SECONDS(CLOCK_PROCESS_CPUTIME_ID);
        double spent = 0, gain = 0;
        while (gain < spent / 4 + 100e-3 && spent < 3) {
            spent = SECONDS(CLOCK_MONOTONIC) - wall;
            gain = SECONDS(CLOCK_PROCESS_CPUTIME_ID) - own - spent;
        }
        is_over = 1;
        pthread_join(thread, 0);
        return gain < spent / 4 + 100e-3;
    }"""
    outcome = judged(squares, HEAD + widens + BODY % "uses_two()", "none").outcome
    if getattr(outcome, "reason", None) == "signal_sigill":
        pytest.skip("other processes left it no second processor")
    assert outcome.kind == "cheated", outcome.detail
    assert outcome.reason == "extra_processors"


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one processor only")
def test_who_has_one_processor_keeps_it_and_is_told_otherwise(squares: Bench) -> None:
    """OpenMP's runtime ends a process whose threads it can't bind."""
    if probe()[FILTER] is not None:
        pytest.skip(f"no system call filter here: {probe()[FILTER]}")
    moves = """
    static int moves(void) {
        cpu_set_t all, mine;
        memset(&all, 255, sizeof all);
        if (sched_setaffinity(0, sizeof all, &all)) return 1;
        if (pthread_setaffinity_np(pthread_self(), sizeof all, &all)) return 1;
        return sched_getaffinity(0, sizeof mine, &mine) || CPU_COUNT(&mine) != 1;
    }"""
    outcome = judged(squares, HEAD + moves + BODY % "moves()", "standard").outcome
    assert outcome.kind == "passed", outcome.detail


@pytest.mark.parametrize("name", [r"a) R 1 (\x9b", another(r"\xff\xfe"), another(r"\xe2\x82")])
def test_threads_may_have_any_names(name: str, squares: Bench) -> None:
    named = f"""
    static int is_refused(void) {{ return prctl(PR_SET_NAME, "{name}", 0, 0, 0); }}"""
    outcome = judged(squares, HEAD + named + BODY % "is_refused()", "standard").outcome
    assert outcome.kind == "passed", outcome.detail


def test_memory_that_its_arrays_no_longer_have(squares: Bench) -> None:
    if probe()[REACH] is not None:
        pytest.skip(f"no memory access here: {probe()[REACH]}")
    walls = isolate("standard")
    worker = WorkerProcess(squares.built(HONEST), threads=1, isolation=walls)
    arena = Arena(squares.oracle.describe(squares.target.workloads[0]).arrays, 1)
    try:
        worker.wait_until_loaded()
        number = worker.map(arena)
        worker.pause()
        worker.put(number, arena, [0])
        worker._private_at[number] = 4096
        with pytest.raises(KernelDiedError) as died:
            worker.take(number, arena, [0])
    finally:
        worker.close()
        arena.close()
    assert died.value.outcome.reason == "memory_gone"


def test_two_gigabytes_of_output_are_cut_off(squares: Bench) -> None:
    noise = """static int prints(void) {
        static char line[1 << 20];
        memset(line, 'x', sizeof line);
        for (int i = 0; i < 2048; i++) { fwrite(line, sizeof line, 1, stdout); fflush(stdout); }
        return 0;
    }"""
    before = psutil.disk_usage(tempfile.gettempdir()).used
    outcome = judged(squares, HEAD + noise + BODY % "prints()", "standard").outcome
    assert outcome.kind == "crashed"
    assert outcome.reason == "too_much_output"
    assert outcome.log is not None
    assert outcome.log.stat().st_size < 1024**2
    outcome.log.unlink()
    # Others write to that disk as well, but hardly as much as this kernel wants to.
    assert psutil.disk_usage(tempfile.gettempdir()).used - before < 3 * 2**29


def test_log_of_a_noisy_crash_keeps_its_ends(squares: Bench) -> None:
    noise = """static int prints(void) {
        for (int i = 0; i < 100000; i++) fprintf(stderr, "line %d\\n", i);
        return 1;
    }"""
    outcome = judged(squares, HEAD + noise + BODY % "prints()", "standard").outcome
    assert outcome.kind == "crashed"
    assert outcome.log is not None
    kept = outcome.log.read_text()
    outcome.log.unlink()
    assert kept.startswith("line 0\n")
    assert kept.endswith("line 99999\n")
    assert len(kept) < 200_000


def test_nothing_is_left_behind(squares: Bench, surroundings: Surroundings) -> None:
    for name in ("exhausting processes", "filling the disk", "starting processes"):
        judged(squares, surroundings.kernel(ATTACKS[name]), "standard")
    mine = psutil.Process().children(recursive=True)
    assert not [line for line in command_lines(mine) if "judge.worker" in line]
