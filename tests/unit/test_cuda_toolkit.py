"""Which nvcc is used, and what it is asked to build for. These compilers only answer questions."""

from __future__ import annotations

from pathlib import Path

import pytest
from cuda_machines import fake_nvcc, without_cuda

from roofsmith.errors import MachineError
from roofsmith.toolchains import cuda_toolkit
from roofsmith.toolchains.compilers import Compiler
from roofsmith.toolchains.cuda_toolkit import (
    Architecture,
    Toolkit,
    architecture_for,
    check_driver,
    find_toolkit,
)


def toolkit(release: tuple[int, int], *architectures: int) -> Toolkit:
    return Toolkit(
        compiler=Compiler("nvcc", Path("/cuda/bin/nvcc"), "nvcc"),
        release=release,
        architectures=architectures,
        root=Path("/cuda"),
        includes=(),
        libraries=(),
    )


SASS = Architecture("sm_90a", "")
CUDA_13 = toolkit((13, 0), 75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121)


@pytest.mark.parametrize(
    ("arch", "name"),
    [
        ("sm_75", "sm_75"), ("sm_80", "sm_80"), ("sm_89", "sm_89"), ("sm_90", "sm_90a"),
        ("sm_100", "sm_100a"), ("sm_103", "sm_103a"), ("sm_120", "sm_120a"), ("sm_90a", "sm_90a"),
    ],
)  # fmt: skip
def test_the_device_decides(arch: str, name: str) -> None:
    found = architecture_for(CUDA_13, arch)
    number = name.removeprefix("sm_")
    assert found.name == name
    assert found.flag == f"-gencode=arch=compute_{number},code=[compute_{number},{name}]"
    assert found.note is None


def test_an_old_compiler_has_no_specific_form() -> None:
    assert architecture_for(toolkit((11, 8), 80, 90), "sm_90").name == "sm_90"


def test_a_relative_serves() -> None:
    found = architecture_for(toolkit((11, 4), 70, 80, 86), "sm_89")
    assert found.name == "sm_86"
    assert found.note is not None
    assert "doesn't know sm_89" in found.note


def test_a_newer_device_compiles_ptx_itself() -> None:
    found = architecture_for(toolkit((11, 4), 70, 80, 86), "sm_90")
    assert (found.name, found.flag) == ("compute_86", "-gencode=arch=compute_86,code=compute_86")
    assert found.note is not None


@pytest.mark.parametrize("arch", ["gfx942", "sm_", "90", ""])
def test_what_is_no_architecture(arch: str) -> None:
    with pytest.raises(MachineError, match="not an NVIDIA architecture"):
        architecture_for(CUDA_13, arch)


@pytest.mark.parametrize("driver", [None, (13, 0), (13, 2), (14, 0)])
def test_drivers_that_will_do(
    driver: tuple[int, int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_toolkit, "driver_release", lambda: driver)
    check_driver(toolkit((13, 1), 90), SASS)


@pytest.mark.parametrize(
    ("driver", "release", "form", "said", "advice"),
    [
        ((12, 9), (13, 1), "sm_90a", "its kernels can't run", "up to 12.x"),
        ((12, 9), (13, 1), "compute_90", "PTX", "up to 12.9"),
        ((13, 0), (13, 1), "compute_90", "its PTX, all that it can make", "up to 13.0"),
    ],
)
def test_drivers_that_are_too_old(
    driver: tuple[int, int],
    release: tuple[int, int],
    form: str,
    said: str,
    advice: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cuda_toolkit, "driver_release", lambda: driver)
    with pytest.raises(MachineError, match=said) as caught:
        check_driver(toolkit(release, 90), Architecture(form, ""))
    assert f"supports CUDA {driver[0]}.{driver[1]}" in caught.value.message
    assert "update the driver" in str(caught.value)
    assert advice in str(caught.value)


def test_ptx_of_an_equal_release_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_toolkit, "driver_release", lambda: (13, 1))
    check_driver(toolkit((13, 1), 90), Architecture("compute_90", ""))


def test_an_architecture_that_was_dropped_is_named_with_those_that_are_known() -> None:
    with pytest.raises(MachineError, match="doesn't build for sm_70 any more") as caught:
        architecture_for(CUDA_13, "sm_70")
    assert "it knows sm_75, sm_80, " in caught.value.message
    assert "set CUDA_HOME" in str(caught.value)


def test_cuda_home_comes_before_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = fake_nvcc(tmp_path / "home", "12.4")
    on_path = fake_nvcc(tmp_path / "path", "11.8")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(on_path.parent))
    found = find_toolkit()
    assert (found.compiler.path, found.release) == (home, (12, 4))
    assert found.architectures == (80, 90)
    monkeypatch.delenv("CUDA_HOME")
    monkeypatch.delenv("CUDA_PATH", raising=False)
    assert find_toolkit().version == "11.8"


def test_the_wheel_is_found_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_cuda(tmp_path, monkeypatch)
    wheel = tmp_path / "pip" / "nvidia" / "cu13"
    fake_nvcc(wheel, "13.0")
    (wheel / "lib").mkdir()
    (wheel / "lib" / "libcudart.so.13").write_bytes(b"")
    found = find_toolkit()
    assert (found.root, found.runtime) == (wheel, wheel / "lib" / "libcudart.so.13")


def test_older_wheels_hold_headers_and_libraries_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_cuda(tmp_path, monkeypatch)
    wheels = tmp_path / "pip" / "nvidia"
    fake_nvcc(wheels / "cuda_nvcc", "12.9")
    (wheels / "cuda_runtime" / "include").mkdir(parents=True)
    (wheels / "cuda_runtime" / "lib").mkdir()
    found = find_toolkit()
    assert found.includes == (wheels / "cuda_runtime" / "include",)
    assert found.libraries == (wheels / "cuda_runtime" / "lib",)


def test_a_compiler_that_makes_no_sense(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_nvcc(tmp_path, "of nothing")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    with pytest.raises(MachineError, match="doesn't say which release"):
        find_toolkit()
