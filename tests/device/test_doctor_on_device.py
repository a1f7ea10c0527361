"""doctor on a machine with a real GPU: `pytest -m device -n0 -rsP` on this file prints it all."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from gpu_bench import environment_or_skip

from roofsmith.api import examine, settings
from roofsmith.machine.nvidia import ask_cuda
from roofsmith.machine.nvml import ask_nvml

pytestmark = pytest.mark.device

EXAMPLES = Path(__file__).parents[2] / "examples"
PROGRAM = "import sys; from roofsmith.cli import main; sys.argv[0] = 'roofsmith'; main()"


def doctor(*arguments: str) -> tuple[int, dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "doctor", *arguments, "--json"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    found = json.loads(done.stdout)
    for check in found["checks"]:
        print(" | ".join(f"{check[key]}" for key in sorted(check)))
    return done.returncode, found


def test_this_gpu_is_named_and_its_settings_are_read() -> None:
    device = environment_or_skip().device
    code, found = doctor()
    checks = {check["name"]: check for check in found["checks"]}
    assert code == 0, found["checks"]
    assert device.name in checks["NVIDIA GPU"]["detail"]
    assert "runs CUDA up to" in checks["driver"]["detail"]
    assert "MHz" in checks["clocks"]["detail"]
    assert " W" in checks["power"]["detail"]
    assert "°C" in checks["heat"]["detail"]
    late = [check for check in found["checks"] if "in time" in check["detail"]]
    assert late == []


@pytest.mark.parametrize("target", ["cuda/softmax", "triton/softmax"])
def test_its_targets_are_ready(target: str) -> None:
    environment_or_skip()
    for package in ("torch", "triton"):
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    code, found = doctor(str(EXAMPLES / target))
    assert (code, found["ready"]) == (0, True), found["readiness"]


def test_looking_leaves_the_settings_as_they_were() -> None:
    environment_or_skip()
    uuid = str(ask_cuda()["uuid"])
    before = ask_nvml(uuid)
    examine(settings())
    after = ask_nvml(uuid)
    assert before is not None
    assert after is not None
    for name in ("mig", "persistence", "compute_mode", "power_limit_w", "application_clock_hz"):
        assert getattr(before, name) == getattr(after, name), name
