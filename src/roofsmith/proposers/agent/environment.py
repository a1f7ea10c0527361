"""What an agent's command finds in its environment. Pure."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

_DROPPED = ("GIT_", "ROOFSMITH_", "PYTHON", "XDG_RUNTIME_DIR")
"""Beginnings of variables that are this process's own, or would lead somebody's git elsewhere."""
_OWN = ("VIRTUAL_ENV", "CONDA_PREFIX", "LD_PRELOAD", "LD_LIBRARY_PATH", "CDPATH", "OLDPWD")
_PACKAGES = Path(__file__).parents[3]


def agent_environment(
    environment: Mapping[str, str], home: str, temporary: str, tools: str, given: Mapping[str, str]
) -> dict[str, str]:
    """The environment of an agent's command.

    Args:
        environment: this process's.
        home: the agent's; the user's own settings folders stay only with the user's own home.
        temporary: a folder of its own.
        tools: the folder of what it may run of roofsmith.
        given: what it is told beside.
    """
    is_users = home == environment.get("HOME")
    kept = {
        name: value
        for name, value in environment.items()
        if not name.startswith(_DROPPED)
        and name not in _OWN
        and (is_users or not name.startswith("XDG_"))
    }
    kept["PATH"] = os.pathsep.join([tools, _path(environment.get("PATH", os.defpath))])
    return kept | {
        "HOME": home,
        "TMPDIR": temporary,
        "TMP": temporary,
        "TEMP": temporary,
        "GIT_TERMINAL_PROMPT": "0",
        **given,
    }


def _path(path: str) -> str:
    """A search path without the folders that roofsmith itself is in, and without relative ones."""
    own = [_PACKAGES]
    if sys.prefix != sys.base_prefix:
        own.append(Path(sys.prefix))
    kept = [
        entry
        for entry in path.split(os.pathsep)
        if entry.startswith("/") and not any(Path(entry).is_relative_to(folder) for folder in own)
    ]
    return os.pathsep.join(kept) or os.defpath
