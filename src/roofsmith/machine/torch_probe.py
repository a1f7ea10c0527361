"""Asks PyTorch and Triton whether they see a GPU; prints a JSON object of each.

Run as a program, in a process of its own: importing torch takes seconds, and a library that doesn't
fit the driver may end the process.
"""

from __future__ import annotations

import json
import os


def main() -> None:
    """Print the answers alone, each as soon as it is known: what libraries print goes to stderr."""
    out = os.dup(1)
    os.dup2(2, 1)
    with os.fdopen(out, "w") as answers:
        seen = torch_sees()
        print(json.dumps(seen), file=answers, flush=True)
        if seen["torch"] is None:
            print(json.dumps({"triton": triton_lacks()}), file=answers, flush=True)


def torch_sees() -> dict[str, object]:
    """`torch`: what is wrong with it, or None; `arch_list`: what it was built for."""
    try:
        import torch

        if torch.cuda.is_available():
            return {"torch": None, "arch_list": torch.cuda.get_arch_list()}
    except Exception as error:  # noqa: BLE001 - whatever a broken installation raises is the answer
        return {"torch": _said(error), "arch_list": []}
    return {"torch": "torch.cuda.is_available() is False", "arch_list": []}


def triton_lacks() -> str | None:
    """What is wrong with Triton; None if one of its backends is active."""
    try:
        from triton.backends import backends

        if any(backend.driver.is_active() for backend in backends.values()):
            return None
    except Exception as error:  # noqa: BLE001 - as above
        return _said(error)
    return f"none of its backends ({', '.join(backends)}) is active"


def _said(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}".rstrip(": ")


if __name__ == "__main__":
    main()
