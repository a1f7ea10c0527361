"""A process of the judge's that starts a worker's calls, hears of their end, and stops the worker.

Beside others that compute, whoever is woken gets a processor at once if it has had little of it so
far, and waits for a few milliseconds if not. The judge draws, writes and compares, so it would hear
late; this process does nothing else, and in a session of its own, which many systems share
processors out by. Standard library only; started by `judge.host.listening`.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
import time
from typing import Any

from roofsmith.judge.timing.schedstat import own_waiting_s, ran_s, waited_s
from roofsmith.judge.wire import WireError, receive, send
from roofsmith.privileges import die_with_parent
from roofsmith.time_slices import ask_for_slices

JUDGE_SLICE_S = 0.1e-3
"""For how long the scheduler lets the judge run beside others. Chosen: the least there is, so that
who is woken by it waits for it, and not the other way round."""


def attend(worker: socket.socket, asked: dict[str, Any]) -> dict[str, float]:
    """Send a worker its message, wait for an answer to begin, and stop it with all its threads.

    Args:
        worker: the judge's end of its channel, of which nothing is read.
        asked: `message` for it, its `pid`, `processors` to run on here, and the `deadline_s` for
            its answer.

    Returns:
        `wall_s` from the message to having stopped it; `waited_s`: how long its threads, or this
        one once there was an answer, waited for a processor; `stopped_at` and `ran_s`, what it had
        of processors by then.
    """
    pid = asked["pid"]
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, asked["processors"])
    waited, late = waited_s(pid), own_waiting_s()
    time.sleep(0)
    begin = time.perf_counter()
    with contextlib.suppress(WireError):  # the judge hears of it
        send(worker, asked["message"])
    now = own_waiting_s()
    if not select.select([worker], [], [], 0)[0]:
        late = now  # who isn't answered yet has missed nothing so far
        select.select([worker], [], [], asked["deadline_s"])
    ran = ran_s(pid)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGSTOP)
    stopped_at = time.perf_counter()
    waited = max(waited_s(pid) - waited, 0.0) + own_waiting_s() - late
    return {
        "wall_s": stopped_at - begin,
        "waited_s": waited,
        "stopped_at": stopped_at,
        "ran_s": ran,
    }


def main() -> None:
    """Attend to one worker after another until the judge hangs up."""
    die_with_parent()
    channel = socket.socket(fileno=int(sys.argv[1]))
    channel.setblocking(True)
    ask_for_slices(JUDGE_SLICE_S)
    while True:
        try:
            asked, fds = receive(channel)
            with socket.socket(fileno=fds[0]) as worker:
                send(channel, attend(worker, asked))
        except (WireError, IndexError):
            sys.exit(0)
