"""What Triton's cache says about the kernels that it compiled, and whose cache it is."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from triton_kernels import compile_kernels, needs_triton

from roofsmith.domain.kernel import Built, Candidate, KernelResources, SourceFile
from roofsmith.judge.gpu.process import GpuWorkerProcess
from roofsmith.toolchains import ModuleToolchain, triton_resources
from roofsmith.toolchains.elf import CubinResources, read_cubin

pytestmark = pytest.mark.slow

METADATA = {
    "hash": "0f5e7c3ab2", "target": {"backend": "cuda", "arch": 90, "warp_size": 32},
    "num_warps": 8, "num_stages": 3, "shared": 16512, "name": "softmax_rows",
    "triton_version": "3.4.0",
}  # fmt: skip
HIP = METADATA | {"target": {"backend": "hip", "arch": "gfx942:xnack-", "warp_size": 64}}


def write(folder: Path, name: str, content: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache as an autotuned kernel, a second one, and another device leave it."""
    cache = tmp_path_factory.mktemp("compiled") / "triton"
    compile_kernels(
        cache,
        "compiled(scale, SM_90, 1024, num_warps=4)",
        "compiled(scale, SM_90, 1024, num_warps=8)",
        "compiled(scale, SM_90, 8192, num_warps=4)",
        "compiled(scale, SM_90, 8192, num_warps=1)",
        "compiled(total, SM_90, 2048, num_warps=4, num_stages=2)",
        "compiled(total, GFX942, 2048, num_warps=4)",
    )
    return cache


def of(cache: Path, name: str, arch: str = "sm_90", **options: int) -> KernelResources:
    (found,) = [
        kernel
        for kernel in triton_resources(cache, arch)
        if kernel.name == name
        and all(getattr(kernel, option) == value for option, value in options.items())
    ]
    return found


@needs_triton
class TestRealCache:
    def test_registers_and_shared_memory(self, real: Path) -> None:
        kernel = of(real, "total")
        assert (kernel.arch, kernel.num_warps, kernel.num_stages) == ("sm_90", 4, 2)
        assert kernel.registers is not None
        assert 8 <= kernel.registers <= 255
        assert kernel.shared_bytes == 16  # a partial sum of each warp
        assert kernel.spilled_registers == kernel.stack_bytes == 0

    def test_spills(self, real: Path) -> None:
        kernel = of(real, "scale", num_warps=1)
        assert kernel.stack_bytes is not None
        assert kernel.spilled_registers == kernel.stack_bytes // 4 > 0

    def test_configurations_are_named_apart(self, real: Path) -> None:
        kernels = [k for k in triton_resources(real, "sm_90") if k.name == "scale"]
        assert [kernel.num_warps for kernel in kernels] == [1, 4, 4, 8]
        one, *same, eight = kernels
        assert one.variant is eight.variant is None
        assert len({kernel.variant for kernel in same}) == 2
        assert len({kernel.registers for kernel in same}) == 2
        hashes = [json.loads(path.read_text())["hash"] for path in real.glob("*/scale.json")]
        assert all(any(h.startswith(k.variant or "?") for h in hashes) for k in same)

    def test_other_devices_kernels_are_left_out(self, real: Path) -> None:
        assert {kernel.arch for kernel in triton_resources(real)} == {"sm_90", "gfx942"}
        assert {kernel.arch for kernel in triton_resources(real, "sm_90")} == {"sm_90"}
        assert triton_resources(real, "sm_80") == ()

    def test_amd(self, real: Path) -> None:
        kernel = of(real, "total", arch="gfx942")
        assert kernel.registers is not None
        assert 4 <= kernel.registers <= 512
        assert kernel.scalar_registers is not None
        assert (kernel.accumulation_registers, kernel.spilled_registers) == (0, 0)
        assert kernel.occupancy_warps == 8
        assert kernel.num_warps == 4

    def test_it_is_what_cuobjdump_says(self, real: Path) -> None:
        spec = importlib.util.find_spec("triton")
        assert spec.origin is not None
        program = Path(spec.origin).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
        if not program.exists():
            pytest.skip("this Triton comes without cuobjdump")
        for cubin in real.glob("*/*.cubin"):
            command = [str(program), "--dump-resource-usage", str(cubin)]
            said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            match = re.search(r"Function (\w+):\s+REG:(\d+) STACK:(\d+)", said)
            expected = CubinResources(int(match[2]), int(match[3]))
            assert read_cubin(cubin.read_bytes()) == {match[1]: expected}

    @given(data=st.data())
    def test_a_damaged_cubin_is_an_error_or_a_reading(
        self, real: Path, data: st.DataObject
    ) -> None:
        cubin = (real / next(real.glob("*/total.cubin"))).read_bytes()
        cut = data.draw(st.integers(0, len(cubin)))
        place = data.draw(st.integers(0, 63))
        damaged = bytearray(cubin[:cut])
        damaged[place : place + 2] = data.draw(st.binary(min_size=2, max_size=2))
        with suppress(ValueError):
            assert all(isinstance(name, str) for name in read_cubin(bytes(damaged)))

    def test_without_the_code_only_the_metadata_is_known(self, real: Path, tmp_path: Path) -> None:
        (metadata,) = [
            json.loads(path.read_text())
            for path in real.glob("*/total.json")
            if (path.parent / "total.cubin").exists()
        ]
        write(tmp_path / "A", "total.json", metadata)
        (kernel,) = triton_resources(tmp_path)
        assert kernel.shared_bytes == 16
        assert kernel.registers is kernel.stack_bytes is kernel.spilled_registers is None
        (tmp_path / "A" / "total.cubin").write_bytes(b"\x7fELF\x02\x01 and no more")
        assert triton_resources(tmp_path) == (kernel,)


def test_metadata_alone(tmp_path: Path) -> None:
    write(tmp_path / "A", "softmax_rows.json", METADATA)
    write(tmp_path / "A", "__grp__softmax_rows.json", {"child_paths": {}})
    write(tmp_path / "B", "softmax_rows.json", METADATA)
    write(tmp_path / "C", "other.json", HIP | {"name": "other"})
    taken = {"num_warps": 8, "num_stages": 3, "shared_bytes": 16512}
    assert triton_resources(tmp_path) == (
        KernelResources(name="other", arch="gfx942", **taken),
        KernelResources(name="softmax_rows", arch="sm_90", **taken),
    )


@pytest.mark.parametrize(
    "content",
    [
        "", "{", "[]", "[" * 100_000, "null", "{}", " " * 2**21,
        METADATA | {"name": 3}, METADATA | {"num_warps": "8"}, METADATA | {"shared": -1},
        METADATA | {"shared": True}, {k: v for k, v in METADATA.items() if k != "num_warps"},
    ],
)  # fmt: skip
def test_what_is_no_metadata_is_passed_over(tmp_path: Path, content: object) -> None:
    write(tmp_path / "A", "kernel.json", content)
    (tmp_path / "A" / "folder.json").mkdir()
    assert triton_resources(tmp_path) == ()


def test_no_cache_no_kernels(tmp_path: Path) -> None:
    assert triton_resources(tmp_path / "none") == ()


@given(target=st.none() | st.integers() | st.dictionaries(st.text(), st.integers()))
def test_a_strange_target_is_no_error(
    tmp_path_factory: pytest.TempPathFactory, target: object
) -> None:
    folder = tmp_path_factory.mktemp("cache")
    write(folder / "A", "kernel.json", METADATA | {"target": target})
    (kernel,) = triton_resources(folder)
    assert kernel.name == "softmax_rows"


@pytest.mark.parametrize("cubin", [b"", b"\x7fELF", Path(sys.executable).read_bytes()[:4096]])
def test_what_is_no_cubin(cubin: bytes) -> None:
    with pytest.raises(ValueError, match="ELF"):
        read_cubin(cubin)


def module(toolchain: ModuleToolchain, text: str) -> Built:
    source = SourceFile(path="kernel.py", text=text)
    made = toolchain.build(Candidate(language="triton", sources=(source,)))
    assert isinstance(made, Built)
    return made


def cache_of_worker(built: Built, compiled: Path) -> Path:
    """The cache that a real worker process was given, by its own environment."""
    process = GpuWorkerProcess(built, api="cuda", cache_dir=compiled, fork_server=None)
    end = time.monotonic() + 120
    with closing(process) as worker:
        while time.monotonic() < end:  # a process that is being replaced by exec shows nothing yet
            with suppress(PermissionError):  # nor one that enters a namespace, to who isn't root
                environment = Path(f"/proc/{worker.pid}/environ").read_bytes()
                if found := re.search(rb"(?:^|\0)TRITON_CACHE_DIR=([^\0]*)", environment):
                    return Path(found[1].decode())
            time.sleep(0.01)
    pytest.fail("the worker was given no cache")


def test_no_candidate_reads_or_feeds_anothers_cache(tmp_path: Path) -> None:
    compiled = tmp_path / "compiled"
    toolchain = ModuleToolchain(tmp_path / "builds", compiled)
    first = module(toolchain, "def run_kernel(x): ...\n")
    second = module(toolchain, "def run_kernel(x): ...  # the same name, another candidate\n")
    caches = [cache_of_worker(built, compiled) for built in (first, second)]
    assert not any(a == b or a in b.parents for a, b in (caches, caches[::-1]))
    write(caches[0] / "A", "softmax_rows.json", METADATA)
    (kernel,) = toolchain.resources(first)
    assert kernel.name == "softmax_rows"
    assert toolchain.resources(second) == ()
    assert cache_of_worker(first, compiled) == caches[0]


FORKS = """
import os
from roofsmith.judge.gpu.fork_server import warm_up

warm_up()
for cache in CACHES:
    pid = os.fork()
    if pid == 0:
        home = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        os.environ.clear()
        os.environ.update(home, TRITON_CACHE_DIR=cache)
        compiled(scale, SM_90, 256, num_warps=4)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
"""


@needs_triton
def test_workers_of_a_warm_server_compile_each_into_their_own(tmp_path: Path) -> None:
    caches = [tmp_path / "first", tmp_path / "second"]
    servers = tmp_path / "servers"
    compile_kernels(servers, f"CACHES = {[str(cache) for cache in caches]}", FORKS)
    first, second = (of(cache, "scale") for cache in caches)
    assert first == second  # the same kernel, and compiled twice
    assert triton_resources(servers) == ()


def test_a_toolchain_without_a_place_for_compiled_kernels_knows_none(tmp_path: Path) -> None:
    toolchain = ModuleToolchain(tmp_path)
    assert toolchain.resources(module(toolchain, "def run_kernel(x): ...\n")) == ()
