"""Asks PyTorch and Triton whether they see a GPU; prints one JSON object.

Run as a program, in a process of its own: importing torch takes seconds, and a library that doesn't
fit the driver may end the process.
"""

from __future__ import annotations

import json
import os


def main() -> None:
    """Print the answer alone: what libraries print goes to stderr."""
    out = os.dup(1)
    os.dup2(2, 1)
    with os.fdopen(out, "w") as answers:
        answers.write(json.dumps(answer()))


def answer() -> dict[str, object]:
    """`torch` and `triton`: what is wrong, or None; `arch_list`: what torch was built for."""
    found: dict[str, object] = {"torch": None, "triton": None, "arch_list": []}
    try:
        import torch

        if torch.cuda.is_available():
            found["arch_list"] = torch.cuda.get_arch_list()
        else:
            found["torch"] = "torch.cuda.is_available() is False"
    except Exception as error:  # noqa: BLE001 - whatever a broken installation raises is the answer
        found["torch"] = _said(error)
        return found
    try:
        from triton.backends import backends

        active = [name for name, backend in backends.items() if backend.driver.is_active()]
        if not active:
            found["triton"] = f"none of its backends ({', '.join(backends)}) is active"
    except Exception as error:  # noqa: BLE001 - as above
        found["triton"] = _said(error)
    return found


def _said(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}".rstrip(": ")


if __name__ == "__main__":
    main()
