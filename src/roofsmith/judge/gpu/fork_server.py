"""Imports torch and Triton once, then forks a worker whenever the parent asks for one.

A cold import of both takes seconds, a fork milliseconds. Nothing here touches the device: CUDA
can't be used on both sides of a fork. Started as a process of its own, never imported.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import socket
import sys
from typing import Any, NoReturn

from roofsmith.judge.wire import WireError, receive, send
from roofsmith.privileges import die_with_parent

EXIT_CRASHED = 70
"""Exit code of a worker that raised what no worker should (EX_SOFTWARE of sysexits.h)."""


def start(message: dict[str, Any], channel: socket.socket, theirs: int) -> int:
    """Fork a worker at one end of a channel; its process id."""
    pid = os.fork()
    if pid == 0:
        channel.close()
        become_worker(message, theirs)
    os.close(theirs)
    return pid


def become_worker(message: dict[str, Any], channel: int) -> NoReturn:
    """The child: a session, a folder, an environment and an output of its own."""
    code = EXIT_CRASHED
    try:
        die_with_parent()
        os.setsid()
        os.chdir(message["cwd"])
        log = os.open(message["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.environ.clear()
        os.environ.update(message["environment"])
        importlib.import_module(message["module"]).serve(socket.socket(fileno=channel))
        code = 0
    except WireError:
        code = 0
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def reap(pid: int) -> int | None:
    """The exit code of a worker that has ended, negative for a signal; None while it runs."""
    try:
        ended, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return 0
    return os.waitstatus_to_exitcode(status) if ended else None


def warm_up() -> None:
    """Import and work out beforehand what every worker would on its first call.

    Triton hashes its own installation (0.3 s) and loads its second language (0.1 s); both are kept
    for the life of a process. Where a version has them in other places, workers do it themselves.
    """
    for module in ("roofsmith.judge.gpu.worker", "torch", "triton", "triton.experimental.gluon"):
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    for module in ("triton.runtime.cache", "triton.compiler.compiler"):
        with contextlib.suppress(ImportError, AttributeError):
            importlib.import_module(module).triton_key()


def main() -> None:
    """Entry of the process: the channel's descriptor is the first argument."""
    die_with_parent()
    channel = socket.socket(fileno=int(sys.argv[1]))
    channel.setblocking(True)
    warm_up()
    codes: dict[int, int] = {}
    try:
        while True:
            message, fds = receive(channel)
            if message["op"] == "exit":
                return
            if message["op"] == "fork":
                send(channel, {"pid": start(message, channel, fds[0])})
                continue
            pid = message["pid"]
            if pid not in codes and (code := reap(pid)) is not None:
                codes[pid] = code
            send(channel, {"code": codes.get(pid)})
    except WireError:
        return


if __name__ == "__main__":
    main()
