"""Counts how often a frame of certain files is on the main thread's stack, in a process that it
was imported into at its start; nothing of roofsmith is there."""

import atexit
import importlib
import json
import os
import sys
import threading
import time
from functools import cache
from pathlib import Path

_EVERY_S = 0.002  # chosen: hundreds of samples in a second
_SAID = os.environ.get("ROOFSMITH_FRAMES", "")
"""JSON: `files`, absolute paths; `folder`, which the counts go into."""


@cache
def _real(name: str) -> str:
    return str(Path(name).resolve())


def _watch(files: frozenset[str], counts: list[int]) -> None:
    main = threading.main_thread().ident
    while True:
        time.sleep(_EVERY_S)
        frame = sys._current_frames().get(main or 0)
        counts[0] += 1
        while frame is not None:
            if _real(frame.f_code.co_filename) in files:
                counts[1] += 1
                break
            frame = frame.f_back


def _begin() -> None:
    told = json.loads(_SAID)
    counts = [0, 0]
    sys.setswitchinterval(_EVERY_S)

    def write() -> None:
        Path(told["folder"], str(os.getpid())).write_text(json.dumps(counts))

    atexit.register(write)
    threading.Thread(target=_watch, args=(frozenset(told["files"]), counts), daemon=True).start()


def _give_way() -> None:
    here = Path(__file__).resolve().parent
    sys.path[:] = [path for path in sys.path if Path(path).resolve() != here]
    sys.modules.pop("sitecustomize", None)
    try:
        importlib.import_module("sitecustomize")
    except ImportError:
        sys.modules["sitecustomize"] = sys


if _SAID:
    _begin()
    _give_way()
