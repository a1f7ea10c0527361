"""`roofsmith listing`: assembly, PTX and SASS, from wherever a language keeps its code."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from repository_bench import git, needs_git
from triton_kernels import module
from typer.testing import CliRunner, Result

from roofsmith.api import Subject
from roofsmith.api import listing as api_listing
from roofsmith.cli.root import cli
from roofsmith.config import Settings
from roofsmith.cuda_programs import find_program
from roofsmith.domain.modes import CodeKind
from roofsmith.domain.outcome import Passed
from roofsmith.errors import MachineError, UsageError
from roofsmith.ports import Evaluation, Measured, Scope
from roofsmith.testing.observer import SilentObserver
from roofsmith.toolchains import disassembly
from roofsmith.toolchains.disassembly import kept_kinds, listing

C = "void solve(const float *x, float *y, int N) { for (int i = 0; i < N; i++) y[i] = x[i]; }"
MODULE = "def run_kernel(x, y): ...\n"

needs_objdump = pytest.mark.skipif(
    shutil.which("gcc") is None or shutil.which("objdump") is None,
    reason="gcc or objdump is not installed",
)


def ran(*words: object) -> Result:
    return CliRunner().invoke(cli, ["listing", *map(str, words)])


def keep(folder: Path, *names: str) -> None:
    """As Triton does, a folder per kernel."""
    for number, name in enumerate(names):
        place = folder / "c" / "triton" / f"hash{number}" / name
        place.parent.mkdir(parents=True)
        place.write_text(f"code of {name}")


# -- the command ----------------------------------------------------------------------------


@needs_objdump
def test_a_kernel_of_the_host_needs_no_reference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROOFSMITH_CACHE", str(tmp_path / "cache"))
    (tmp_path / "k.c").write_text(C)
    shown = ran(tmp_path / "k.c")
    assert shown.exit_code == 0, shown.output
    assert "<solve>:" in shown.stdout
    out = tmp_path / "k.s"
    written = ran(tmp_path / "k.c", "--kind", "asm", "--out", out, "--json")
    assert written.exit_code == 0, written.output
    document = json.loads(written.stdout)
    assert document["kind"] == "asm"
    assert document["file"] == str(out)
    assert out.read_text() == document["text"]
    assert "<solve>:" in document["text"]


@needs_objdump
def test_a_kernel_that_does_not_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROOFSMITH_CACHE", str(tmp_path / "cache"))
    (tmp_path / "k.c").write_text(C.replace("y[i] =", "z[i] ="))
    failed = ran(tmp_path / "k.c")
    assert failed.exit_code == 1
    assert "doesn't build" in failed.output


def test_a_file_that_can_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = api_listing.ListedKernel("c" * 8, "c", "asm", "nop\n")
    monkeypatch.setattr("roofsmith.api.listed", lambda *_, **__: found)
    (tmp_path / "k.c").write_text(C)
    failed = ran(tmp_path / "k.c", "--out", tmp_path / "no" / "k.s")
    assert failed.exit_code == 2
    assert "can't write" in failed.output


@pytest.mark.parametrize("kind", ["ptx", "sass"])
def test_the_host_has_no_code_of_a_gpu(tmp_path: Path, kind: str) -> None:
    (tmp_path / "k.c").write_text(C)
    failed = ran(tmp_path / "k.c", "--kind", kind)
    assert failed.exit_code == 2
    assert "try: --kind asm" in failed.output


CU = """\
__global__ void doubled(float *y) { y[threadIdx.x] *= 2.0f; }
extern "C" void solve(float *y, int N) { doubled<<<1, N>>>(y); }
"""
needs_cuda_programs = pytest.mark.skipif(
    any(find_program(name) is None for name in ("nvcc", "cuobjdump")),
    reason="nvcc or cuobjdump is not installed",
)


@needs_cuda_programs
@pytest.mark.slow
def test_a_cuda_kernel_needs_no_gpu_to_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROOFSMITH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(api_listing, "machine_of", raises)
    (tmp_path / "k.cu").write_text(CU)
    here = ran(tmp_path / "k.cu")
    assert here.exit_code == 2
    assert "try: --arch sm_90, or another: that needs no GPU; else get one" in here.output
    shown = ran(tmp_path / "k.cu", "--arch", "sm_80", "--json")
    assert shown.exit_code == 0, shown.output
    document = json.loads(shown.stdout)
    assert (document["kind"], document["notes"]) == ("sass", [])
    assert "EXIT" in document["text"]
    assert ".target\tsm_80" in document["text"]


def raises(*_: object) -> object:
    raise MachineError("no NVIDIA GPU can be used here", hint="get one")


@needs_cuda_programs
def test_what_nvcc_does_not_know_yet_is_listed_as_ptx(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROOFSMITH_CACHE", str(tmp_path / "cache"))
    (tmp_path / "k.cu").write_text(CU)
    sass = ran(tmp_path / "k.cu", "--arch", "sm_990")
    assert sass.exit_code == 2
    assert "built as PTX" in sass.stderr
    assert "try: --kind ptx" in sass.stderr
    ptx = ran(tmp_path / "k.cu", "--arch", "sm_990", "--kind", "ptx")
    assert ptx.exit_code == 0, ptx.output
    assert ".visible .entry" in ptx.stdout
    assert "registers, spills and shared memory are not known" in ptx.stderr


@pytest.mark.parametrize(
    ("name", "text", "arch", "advice"),
    [
        ("k.cu", CU, "h100", "try: --arch sm_90"),
        ("k.cu", CU, "gfx942", "try: --arch sm_90"),
        ("k.hip", CU, "sm_90", "try: --arch gfx942"),
        ("k.c", C, "sm_90", "try: leave it out"),
        ("k.py", MODULE, "sm_90", "try: leave it out"),
    ],
)
def test_an_architecture_that_can_not_be_chosen(
    tmp_path: Path, name: str, text: str, arch: str, advice: str
) -> None:
    (tmp_path / name).write_text(text)
    failed = ran(tmp_path / name, "--arch", arch)
    assert failed.exit_code == 2
    assert advice in failed.output


def test_a_module_has_to_run_and_so_needs_a_reference(tmp_path: Path) -> None:
    (tmp_path / "k.py").write_text(MODULE)
    failed = ran(tmp_path / "k.py")
    assert failed.exit_code == 2
    assert "--ref is needed" in failed.output


# -- what Triton keeps ----------------------------------------------------------------------


def test_ptx_is_what_triton_kept(tmp_path: Path) -> None:
    keep(tmp_path, "softmax.ptx", "scale.ptx")
    text = listing(module(tmp_path), "ptx", tmp_path)
    assert text.splitlines() == [
        "// softmax, hash0", "code of softmax.ptx", "// scale, hash1", "code of scale.ptx",
    ]  # fmt: skip


def test_sass_is_read_from_its_cubins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(tmp_path, "softmax.cubin")
    monkeypatch.setattr(disassembly, "sass", lambda path: f"EXIT of {path.name}")
    text = listing(module(tmp_path, "torch"), "sass", tmp_path)
    assert text == "// softmax, hash0\nEXIT of softmax.cubin"


def test_assembly_of_amd(tmp_path: Path) -> None:
    keep(tmp_path, "softmax.amdgcn")
    assert "code of softmax.amdgcn" in listing(module(tmp_path), "asm", tmp_path)
    assert kept_kinds("c", tmp_path) == ("asm",)
    with pytest.raises(UsageError, match="no ptx") as caught:
        listing(module(tmp_path), "ptx", tmp_path)
    assert caught.value.hint == "there is asm: --kind asm"


def test_links_are_not_followed(tmp_path: Path) -> None:
    keep(tmp_path, "softmax.ptx")
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "c" / "triton" / "hash0" / "other.ptx").symlink_to(tmp_path / "secret")
    assert "secret" not in listing(module(tmp_path), "ptx", tmp_path)


@pytest.mark.parametrize("kind", ["asm", "ptx", "sass"])
def test_nothing_was_kept(tmp_path: Path, kind: CodeKind) -> None:
    with pytest.raises(UsageError, match=f"no {kind} of this kernel was kept") as caught:
        listing(module(tmp_path), kind, tmp_path)
    assert "PyTorch's own" in str(caught.value)


# -- a module, run by a stand-in ------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "expected"), [(("a.ptx", "a.cubin"), "sass"), (("a.amdgcn",), "asm")]
)
def test_what_the_device_runs_is_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...], expected: str
) -> None:
    """A module is run first, on a GPU that stands in."""
    (tmp_path / "k.py").write_text(MODULE)
    (tmp_path / "r.py").write_text("def reference(x, y): y.copy_(x)\n")

    def evaluate_baseline(scope: Scope) -> Evaluation:
        assert scope.alone == "check"
        keep(tmp_path, *names)
        return Evaluation(measured=Measured(outcome=Passed(), timings=(), errors=()))

    @contextmanager
    def open_target(*_: object) -> Iterator[object]:
        toolchain = SimpleNamespace(build=lambda _: module(tmp_path))
        machine = SimpleNamespace(compiled_dir=tmp_path, toolchain=toolchain)
        yield SimpleNamespace(evaluate_baseline=evaluate_baseline, machine=machine)

    monkeypatch.setattr(api_listing, "open_target", open_target)
    monkeypatch.setattr(disassembly, "sass", lambda path: f"EXIT of {path.name}")
    subject = Subject(tmp_path / "k.py", tmp_path / "r.py", ("N=8",))
    settings = Settings(tmp_path / "cache", tmp_path)
    found = api_listing.listed(subject, None, settings, SilentObserver())
    assert found.kind == expected
    assert "a" in found.text


# -- what a repository's commands build -----------------------------------------------------


def repository(folder: Path, build: str, benchmark: str, files: dict[str, str]) -> Path:
    command = {
        "editable": ["k.c"], "build": build, "benchmark": benchmark, "metric": "us", "unit": "us",
        "rows": ["n"],
    }  # fmt: skip
    texts = {"k.c": C, "target.yaml": yaml.safe_dump({"name": "k", "command": command}), **files}
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "start")
    return folder


@needs_git
@needs_objdump
def test_what_a_repository_builds_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROOFSMITH_CACHE", str(tmp_path / "cache"))
    build = "mkdir -p lib && gcc -c -o lib/k.o k.c && gcc -shared -o lib/k.so lib/k.o"
    shown = ran(repository(tmp_path / "repo", build, "exit 1", {}), "--json")
    assert shown.exit_code == 0, shown.output
    text = json.loads(shown.stdout)["text"]
    assert text.startswith("// lib/k.so\n")
    assert "<solve>:" in text
    assert "k.o\n" not in text


@needs_git
def test_what_a_repository_compiles_when_it_runs_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROOFSMITH_CACHE", str(tmp_path / "cache"))
    script = (
        'test "$CUTE_DSL_KEEP" = ptx,cubin && test "$FLYDSL_DUMP_IR" = 1 || exit 1\n'
        'echo "wgmma.mma_async" > "$CUTE_DSL_DUMP_DIR/k.ptx"\n'
        'echo "v_mfma_f32" > "$FLYDSL_DUMP_DIR/k.s"\necho n,us; echo 1,2\n'
    )
    place = repository(tmp_path / "repo", "true", "sh bench.sh", {"bench.sh": script})
    shown = ran(place)
    assert shown.stdout == "// compiled/k.s\nv_mfma_f32\n\n", shown.output
    assert "wgmma.mma_async" in ran(place, "--kind", "ptx").stdout
    none = ran(place, "--kind", "sass")
    assert none.exit_code == 2
    assert "left code to list" in none.stderr
