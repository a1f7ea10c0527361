"""Where programs of the CUDA toolkit are looked for, and that the record names what is used."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from cuda_machines import fake_nvcc, script, without_cuda, wrapping

from roofsmith.cuda_programs import find_nvcc, find_program, toolkit_root
from roofsmith.errors import MachineError, ToolMissingError
from roofsmith.machine import gpu_tools
from roofsmith.profilers.ncu import find_ncu
from roofsmith.profilers.sanitizer import find_compute_sanitizer
from roofsmith.toolchains.cuda_toolkit import find_toolkit
from roofsmith.toolchains.disassembly import sass


@pytest.fixture(autouse=True)
def nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_cuda(tmp_path, monkeypatch)


PLACES: tuple[tuple[str, str], ...] = (
    ("beside nvcc", "path/{}"),
    ("in the toolkit that a script on PATH starts", "toolkit/bin/{}"),
    ("in its folder of the sanitizer", "toolkit/compute-sanitizer/{}"),
    ("in the usual toolkit", "usual/bin/{}"),
    ("in a wheel of CUDA 13", "pip/nvidia/cu13/bin/{}"),
    ("in a wheel of its own", "pip/nvidia/cuda_sanitizer_api/bin/{}"),
)


@pytest.mark.parametrize("name", ["ncu", "cuobjdump", "nvdisasm", "compute-sanitizer"])
@pytest.mark.parametrize("place", [place for _, place in PLACES], ids=[what for what, _ in PLACES])
def test_every_program_is_looked_for_in_the_same_places(
    tmp_path: Path, place: str, name: str
) -> None:
    wrapping(fake_nvcc(tmp_path / "toolkit", "13.0"), tmp_path / "path")
    assert find_program(name) is None
    program = script(tmp_path / place.format(name))
    assert find_program(name) == program


def test_the_toolkit_that_builds_comes_first(tmp_path: Path) -> None:
    wrapping(fake_nvcc(tmp_path / "toolkit", "13.0"), tmp_path / "path")
    places = ("pip/nvidia/cu13/bin/ncu", "usual/bin/ncu", "toolkit/bin/ncu", "path/ncu")
    for place in places:
        program = script(tmp_path / place)
        assert find_program("ncu") == program


def test_programs_are_found_without_any_nvcc(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = script(tmp_path / "pip" / "nvidia" / "cu13" / "bin" / "cuobjdump")
    assert find_program("cuobjdump") == wheel
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "home"))
    home = script(tmp_path / "home" / "bin" / "cuobjdump")
    assert find_program("cuobjdump") == home


def test_what_packages_of_single_programs_bring(tmp_path: Path) -> None:
    brought = script(tmp_path / "pip" / "triton" / "backends" / "nvidia" / "bin" / "cuobjdump")
    assert find_program("cuobjdump") == brought
    script(tmp_path / "nsight-compute" / "2024.3.2" / "ncu")
    newest = script(tmp_path / "nsight-compute" / "2025.10.1" / "ncu")
    assert find_program("ncu") == newest


def test_what_can_not_be_executed_is_no_program(tmp_path: Path) -> None:
    (tmp_path / "usual" / "bin").mkdir(parents=True)
    (tmp_path / "usual" / "bin" / "ncu").write_text("")
    assert find_program("ncu") is None


@pytest.mark.parametrize("variable", ["CUDA_HOME", "CUDA_PATH"])
def test_a_toolkit_that_is_named_and_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    fake_nvcc(tmp_path / "usual", "13.0")
    monkeypatch.setenv(variable, "/nope")
    with pytest.raises(ToolMissingError, match=f"{variable}=/nope holds no bin/nvcc") as caught:
        find_nvcc()
    assert "or unset it" in str(caught.value)
    assert gpu_tools.find("nvcc") is None


def test_a_toolkit_in_its_usual_place(tmp_path: Path) -> None:
    nvcc = fake_nvcc(tmp_path / "usual", "13.0")
    assert find_nvcc() == nvcc
    assert toolkit_root(nvcc) == tmp_path / "usual"


def test_an_nvcc_that_does_not_say_where_it_is_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("roofsmith.cuda_programs._DRY_RUN_DEADLINE_S", 0.2)
    script(tmp_path / "path" / "nvcc", "while :; do :; done\n")
    with pytest.raises(MachineError, match=r"no answer within 0\.2 s") as caught:
        toolkit_root(find_nvcc())
    assert "run that command by hand" in str(caught.value)
    ncu = script(tmp_path / "usual" / "bin" / "ncu")
    assert find_program("ncu") == ncu  # it profiles, whatever nvcc does


SAYS = "echo 'Cuda compilation tools, release {0}, V{0}.1'\n"


@pytest.mark.parametrize(
    ("tool", "used"),
    [
        ("nvcc", lambda: str(find_toolkit().compiler.path)),
        ("ncu", find_ncu),
        ("compute-sanitizer", find_compute_sanitizer),
    ],
)
def test_the_record_names_what_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: str, used: Callable[[], str]
) -> None:
    """CUDA_HOME's, though another release is on PATH."""
    for place, release in (("path", "11.8"), ("home/bin", "12.4")):
        script(tmp_path / place / tool, SAYS.format(release))
    if tool != "nvcc":
        fake_nvcc(tmp_path / "home", "12.4")
    (tmp_path / "home" / "bin" / "nvcc.profile").write_text("")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "home"))
    assert gpu_tools.find(tool) == used() == str(tmp_path / "home" / "bin" / tool)
    assert "release 12.4" in gpu_tools.versions((tool,))[tool]


def test_what_the_message_says_to_install_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wheels' places, as pip fills them; nvcc is elsewhere."""
    monkeypatch.setenv("PATH", f"{tmp_path / 'path'}:/usr/bin:/bin")
    wrapping(fake_nvcc(tmp_path / "toolkit", "13.0"), tmp_path / "path")
    with pytest.raises(ToolMissingError) as caught:
        sass(tmp_path / "kernel.so")
    assert "pip install nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm" in str(caught.value)
    wheels = tmp_path / "pip" / "nvidia"
    script(wheels / "one" / "bin" / "cuobjdump", "nvdisasm\n")
    script(wheels / "two" / "bin" / "nvdisasm", "echo EXIT\n")
    assert sass(tmp_path / "kernel.so") == "EXIT\n"
