"""The process in which a reference is read: walls first, then foreign code.

Started as `python -m`, never imported. Takes `ask.json` from a folder, leaves `answer.json` there.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import site
import sys
import traceback
from pathlib import Path
from typing import Any

import roofsmith
from roofsmith import landlock
from roofsmith.job_limits import granted
from roofsmith.namespaces import NETWORK, USER, enter
from roofsmith.privileges import die_with_parent, drop_capabilities, forbid_new_privileges

READABLE = (*landlock.PROGRAMS, "/proc", "/sys", "/etc/passwd", "/etc/nsswitch.conf")
_MISSING = ("ModuleNotFoundError", "ImportError")


def main() -> None:
    die_with_parent()
    folder = Path(sys.argv[1])
    ask = json.loads((folder / "ask.json").read_text(encoding="utf-8"))
    _confine(folder, ask["memory_bytes"])
    answer = _answer(folder, ask)
    (folder / "answer.json").write_text(json.dumps(answer), encoding="utf-8")
    sys.stdout.flush()
    os._exit(0)  # threads of foreign code must not keep it alive


def _confine(folder: Path, memory_bytes: int) -> None:
    """As far as this machine grants it: no network, no files but libraries and the folder."""
    limit = granted(resource.RLIMIT_AS, memory_bytes)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    os.environ.update(HOME=str(folder), TMPDIR=str(folder), CUDA_VISIBLE_DEVICES="")
    with contextlib.suppress(OSError):
        enter((USER, NETWORK), 0)
    drop_capabilities()
    forbid_new_privileges()
    with contextlib.suppress(landlock.NoLandlockError):
        places = {sys.prefix, sys.base_prefix, *site.getsitepackages(), *filter(None, sys.path)}
        places.add(str(Path(roofsmith.__file__).parent.parent))
        landlock.allow_only((*READABLE, *sorted(places)), (str(folder),))


def _answer(folder: Path, ask: dict[str, Any]) -> dict[str, Any]:
    from roofsmith.computation.documents import as_document, as_sizes
    from roofsmith.computation.reading.reader import ReferenceReader
    from roofsmith.computation.reading.subject import RunReference
    from roofsmith.computation.reading.tape import Unreadable

    sys.path.append(str(folder))  # a reference may import what lies beside it

    path = folder / ask["reference"]
    kernel = folder / ask["kernel"] if ask["kernel"] else None
    try:
        subject = RunReference(path, kernel, ask["parameters"], ask["ptr_size"])
        reader = ReferenceReader(subject, ask["workloads"])
        graph = reader.read()
        return {
            "graph": as_document(graph),
            "numbers": reader.ints,
            "sizes": as_sizes(reader.sizes),
            "limits": reader.limits(graph),
        }
    except Unreadable as refusal:
        return {"refusal": str(refusal)}
    except Exception as error:  # noqa: BLE001 - user code may raise anything
        traceback.print_exc()
        return {"refusal": _told(error, path)}


def _told(error: Exception, path: Path) -> str:
    own = [frame for frame in traceback.extract_tb(error.__traceback__)
           if frame.filename == str(path)]  # fmt: skip
    at = f" ({path.name}:{own[-1].lineno}: {own[-1].line})" if own else ""
    name = type(error).__name__
    cure = f"; install it for {sys.executable}" if name in _MISSING else ""
    return f"it raises {name}: {error}{at}{cure}"


if __name__ == "__main__":
    main()
