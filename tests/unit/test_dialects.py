"""Kernel languages that are packages of Python: known by imports, with caches of their own."""

from __future__ import annotations

from pathlib import Path

import pytest
from c_candidates import built

from roofsmith.domain.dialects import DIALECTS
from roofsmith.domain.kernel import MODULE_LANGUAGES, Candidate, Language, SourceFile
from roofsmith.machine.amd import AmdSource
from roofsmith.machine.choice import source_for
from roofsmith.machine.nvidia import NvidiaSource
from roofsmith.store.sources import language_of
from roofsmith.toolchains import ModuleToolchain
from roofsmith.toolchains.disassembly import kept_kinds

EXAMPLES = Path(__file__).parents[2] / "examples"
ENTRY = "\n\ndef run_kernel(x):\n    pass\n"


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("import torch\nimport cutlass\nimport cutlass.cute as cute\n", "cutedsl"),
        ("from cutlass import cute\nimport triton\n", "cutedsl"),
        ("import flydsl.compiler as flyc\n", "flydsl"),
        ("import tilelang.language as T\n", "tilelang"),
        ("import torch\nimport triton\nimport helion\n", "helion"),
        ("from triton.experimental import gluon\n", "gluon"),
        ("from triton.experimental.gluon import language as gl\n", "gluon"),
        ("import triton\nimport triton.experimental\n", "triton"),
        ("import torch\n# import helion\nimport cutlass_library\n", "torch"),
    ],
)
def test_a_module_is_in_what_it_imports(text: str, language: Language) -> None:
    assert language_of(Path("kernel.py"), text) == language


@pytest.mark.parametrize("folder", ["cutedsl/softmax", "cutedsl/sgemm", "gluon", "helion"])
def test_the_examples_are_in_their_languages(folder: str) -> None:
    path = EXAMPLES / folder / "kernel.py"
    assert language_of(path, path.read_text()) == folder.partition("/")[0]


@pytest.mark.parametrize("language", MODULE_LANGUAGES)
def test_what_it_compiles_is_in_a_folder_of_its_own(language: Language, tmp_path: Path) -> None:
    toolchain = ModuleToolchain(tmp_path / "builds", tmp_path / "compiled")
    kernel = SourceFile(path="kernel.py", text=ENTRY)
    one = built(toolchain.build(Candidate(language=language, sources=(kernel,))))
    assert one.environment.keys() == (
        DIALECTS[language].caches.keys() if language in DIALECTS else set()
    )
    own = tmp_path / "compiled" / one.candidate_id
    assert all(Path(folder).is_relative_to(own) for folder in one.environment.values())


def test_what_cute_dsl_was_asked_to_keep_is_listed(tmp_path: Path) -> None:
    assert kept_kinds("id", tmp_path) == ()
    (tmp_path / "id").mkdir()
    (tmp_path / "id" / "launch.sm_90a.ptx").write_text(".visible .entry softmax()")
    assert kept_kinds("id", tmp_path) == ("ptx",)


def test_each_runs_where_its_vendor_is() -> None:
    nowhere = Path("/nonexistent")
    assert isinstance(source_for("flydsl", nowhere), AmdSource)
    assert isinstance(source_for("cutedsl", nowhere), NvidiaSource)
    assert isinstance(source_for("helion", nowhere), NvidiaSource)
