"""Which kernel `roofsmith demo` takes."""

from __future__ import annotations

import pytest

from roofsmith.api import demonstration as demo
from roofsmith.api.subjects import bundled_example
from roofsmith.errors import MachineError
from roofsmith.machine.frameworks import TorchBuild
from roofsmith.targets.file import load_target


class Device:
    def __init__(self, error=None):
        self.error = error

    def device(self):
        if self.error is not None:
            raise self.error


@pytest.fixture
def gpu_machine(tmp_path, monkeypatch):
    """A machine with everything; what a test takes away is asked for by name."""
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidiactl").touch()
    parts = {
        "torch_build": lambda: TorchBuild("2.11", cuda="13.0"), "triton_version": lambda: "3.6",
        "find_program": lambda name: name, "source_for": lambda language, root: Device(),
    }  # fmt: skip

    def made(**changed):
        for name, part in (parts | changed).items():
            monkeypatch.setattr(demo, name, part)
        return tmp_path

    return made


def test_a_gpu_is_taken_with_triton_else_with_nvcc(gpu_machine):
    for changed, language in (({}, "triton"), ({"triton_version": lambda: None}, "cuda")):
        choice = demo.choose_demo(root=gpu_machine(**changed))
        with bundled_example(choice.example) as path:
            assert load_target(path).language == language
    assert demo.choose_demo(cpu=True, root=gpu_machine()).example == "softmax"


@pytest.mark.parametrize(
    "changed",
    [
        {"torch_build": lambda: None},
        {"torch_build": lambda: TorchBuild("2.11")},
        {"triton_version": lambda: None, "find_program": lambda name: None},
        {"source_for": lambda language, root: Device(MachineError("it hangs"))},
    ],
)
def test_without_what_a_gpu_needs_processors_are_taken(gpu_machine, changed):
    choice = demo.choose_demo(root=gpu_machine(**changed))
    assert choice.example == "softmax"
    assert "GPU" in choice.line


def test_without_a_driver_nothing_of_torch_is_looked_at(tmp_path):
    assert demo.choose_demo(root=tmp_path).example == "softmax"
