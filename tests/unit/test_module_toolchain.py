"""Triton and PyTorch modules: checked without being run, kept as they are."""

from __future__ import annotations

from pathlib import Path

import pytest
from c_candidates import built, failed

from roofsmith.domain.kernel import BuildSpec, Candidate, Signature, SourceFile
from roofsmith.errors import SignatureError
from roofsmith.ports import Toolchain
from roofsmith.testing.toolchain import ToolchainConformance
from roofsmith.toolchains import ModuleToolchain

MODULE = "import triton\n\n\ndef run_kernel(x, y, n):\n    y.copy_(2 * x)\n"


def module(text: str = MODULE, *others: tuple[str, str]) -> Candidate:
    files = (("kernel.py", text), *others)
    return Candidate(language="triton", sources=tuple(SourceFile(path=p, text=t) for p, t in files))


@pytest.fixture
def toolchain(tmp_path: Path) -> ModuleToolchain:
    return ModuleToolchain(tmp_path / "it's a cache")


class TestModules(ToolchainConformance):
    @pytest.fixture
    def toolchain(self, tmp_path: Path) -> Toolchain:
        return ModuleToolchain(tmp_path / "cache")

    def candidate(self) -> Candidate:
        return module()

    def expected(self) -> Signature:
        return Signature(entry="run_kernel", parameters=())

    def broken(self) -> Candidate:
        return module(f"\nerror on purpose\n{MODULE}")

    def nameless(self) -> Candidate:
        return module("def helper(n):\n    return n\n")

    def built_otherwise(self) -> Candidate:
        return module(f"{MODULE}# otherwise\n")


def test_the_module_is_kept_as_it_is_and_read_only(toolchain: ModuleToolchain) -> None:
    made = built(toolchain.build(module(MODULE, ("lib/part.py", "X = 1\n"), ("note.txt", "("))))
    assert made.library.name == "kernel.py"
    assert made.library.read_text() == MODULE
    assert (made.library.parent / "lib" / "part.py").read_text() == "X = 1\n"
    assert made.library.stat().st_mode & 0o222 == 0
    assert made.language == "triton"
    assert made.resources == ()


@pytest.mark.parametrize(
    ("named", "defined", "called"),
    [
        ("solve", ("solve",), "solve"),
        ("solve", ("solve", "run_kernel"), "run_kernel"),
        ("forward", ("solve", "forward"), "forward"),
        ("forward", ("run_kernel",), "run_kernel"),  # as whoever proposes is asked for
    ],
)
def test_an_entry_is_the_named_one_or_a_usual_one(
    named: str, defined: tuple[str, ...], called: str, toolchain: ModuleToolchain
) -> None:
    text = "".join(f"def {one}(x, y, n):\n    y.copy_(2 * x)\n\n\n" for one in defined)
    candidate = module(text).model_copy(update={"entry": named})
    assert toolchain.signature(candidate).entry == called
    assert built(toolchain.build(candidate)).signature.entry == called


@pytest.mark.parametrize("name", ["kernel.py", "part.py"])
def test_a_damaged_copy_is_made_anew(toolchain: ModuleToolchain, name: str) -> None:
    candidate = module(MODULE, ("part.py", "X = 1\n"))
    first = built(toolchain.build(candidate))
    path = first.library.parent / name
    text = path.read_text()
    path.chmod(0o644)
    path.write_text("import os\n")
    second = built(toolchain.build(candidate))
    assert not second.cached
    assert path.read_text() == text
    assert built(toolchain.build(candidate)).cached


def test_nothing_of_it_runs(toolchain: ModuleToolchain, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    built(toolchain.build(module(f"open({str(mark)!r}, 'w')\n{MODULE}")))
    assert not mark.exists()


@pytest.mark.parametrize(
    ("text", "reason", "detail"),
    [
        ("x = (\n", "compile_error", "kernel.py:1: error: '(' was never closed"),
        ("def run_kernel(:\n", "compile_error", "kernel.py:1: error: "),
        ("def run_kernel(x):\nreturn\n", "compile_error", "kernel.py:2: error: "),
        ("return\n", "compile_error", "kernel.py:1: error: 'return' outside function"),
        ("x = " + "(" * 5000 + "\n", "compile_error", "kernel.py:1: error: "),
        ("x = " + "-" * 100_000 + "1\n", "compile_error", "kernel.py:1: error: "),
        ("def custom(x): ...\n", "no_entry", "kernel.py: no function named run_kernel; functions "
         "found: custom (kernel.py:1)"),
        ("class K:\n    def run_kernel(self): ...\n", "no_entry", "functions found: none"),
        ("def f():\n    def run_kernel(): ...\n", "no_entry", "functions found: f"),
        ("async def run_kernel(x): ...\n", "no_entry", "kernel.py:1: run_kernel must be a plain"),
        ("class run_kernel: ...\n", "no_entry", "kernel.py:1: run_kernel must be a plain"),
        ("def run_kernel(x, /, y): ...\n", "no_entry", "takes x by position only"),
    ],
)  # fmt: skip
def test_what_cannot_be_called(
    toolchain: ModuleToolchain, text: str, reason: str, detail: str
) -> None:
    failure = failed(toolchain.build(module(text)))
    assert failure.reason == reason
    assert detail in failure.detail
    assert failure.log.exists()
    with pytest.raises(SignatureError):
        toolchain.signature(module(text))


@pytest.mark.parametrize(
    "text",
    [
        "from other import run_kernel\n",
        "import other as run_kernel\n",
        "run_kernel = lambda **inputs: None\n",
        "run_kernel: object = print\n",
        "if True:\n    def run_kernel(x): ...\n",
        "try:\n    import a\nexcept ImportError:\n    def run_kernel(x): ...\n",
        "with open('x') as f:\n    def run_kernel(x): ...\n",
        "@decorate\ndef run_kernel(*, x, **rest): ...\n",
    ],
)
def test_the_entry_may_be_bound_in_any_way(toolchain: ModuleToolchain, text: str) -> None:
    assert toolchain.signature(module(text)).entry == "run_kernel"
    built(toolchain.build(module(text)))


def test_a_mistake_in_another_file(toolchain: ModuleToolchain) -> None:
    failure = failed(toolchain.build(module(MODULE, ("lib/part.py", "\nx = = 1\n"))))
    assert failure.detail.startswith("lib/part.py:2: error: invalid syntax")


def test_warnings_of_python(toolchain: ModuleToolchain) -> None:
    made = built(toolchain.build(module(MODULE + "pattern = '\\d'\n")))
    (warning,) = made.warnings
    assert warning.startswith("kernel.py:6: ")
    assert built(toolchain.build(module(MODULE + "pattern = '\\d'\n"))).warnings == (warning,)


def test_flags_are_for_compilers(toolchain: ModuleToolchain) -> None:
    failure = failed(toolchain.build(module().with_build(BuildSpec())))
    assert failure.reason == "flag_not_allowed"
    assert "-march=native" in failure.detail
    build = BuildSpec(flags=(), link=(), environment={"PYTHONPATH": "x"})
    assert failed(toolchain.build(module().with_build(build))).reason == "environment_not_allowed"
    build = BuildSpec(flags=(), link=(), compiler="gcc")
    assert failed(toolchain.build(module().with_build(build))).reason == "wrong_compiler"


@pytest.mark.parametrize(
    ("text", "streams", "tuning"),
    [
        (MODULE, False, False),
        (f"import torch\n\nside = torch.cuda.Stream()\n{MODULE}", True, False),
        (f"# replays a CUDAGraph\n{MODULE}", True, False),
        (f"import torch\n\nmade = torch.compile(len)\n{MODULE}", True, False),
        (f"import torch\n\nlayer = torch.nn.LSTM(2, 2)\n{MODULE}", True, False),
        (f"import triton\n\nconfigs = triton.autotune\n{MODULE}", False, True),
        (f"import torch\n\ntorch.backends.cudnn.benchmark = True\n{MODULE}", True, True),
        (f"from time import perf_counter\n{MODULE}", False, True),
    ],
)
def test_whether_streams_and_tuning_are_named_is_known(
    toolchain: ModuleToolchain, text: str, streams: bool, tuning: bool
) -> None:
    twice = [module(text)] * 2  # the second time from the cache
    for candidate in (*twice, module(MODULE, ("other.py", text))):
        made = built(toolchain.build(candidate))
        assert (made.names_streams, made.names_tuning) == (streams, tuning)
