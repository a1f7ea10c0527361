"""The reference's own process while steps of training are run."""

from __future__ import annotations

from roofsmith.judge.host.reference_process import serve
from roofsmith.judge.steps.server import StepsServer

if __name__ == "__main__":
    serve(StepsServer())
