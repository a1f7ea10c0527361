"""Builds are reused as long as what lies outside of the candidate is as it was: real compilers."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest
from c_candidates import built

from roofsmith.domain.kernel import BuildSpec, Candidate, SourceFile
from roofsmith.domain.outcome import BuildFailed
from roofsmith.testing.toolchain import SCALE
from roofsmith.toolchains import CToolchain
from roofsmith.toolchains.surroundings import Surroundings, surroundings

COMPILERS = [
    pytest.param(name, marks=pytest.mark.skipif(shutil.which(name) is None, reason=f"no {name}"))
    for name in ("gcc", "clang")
]


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "it's a cache"


@pytest.fixture
def header(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A library's header that somebody else installs, in a folder that make would have to quote.

    Compilers don't see other folders than the system's, unless the user names them.
    """
    path = tmp_path / "it's #1, for $5" / "factor.h"
    path.parent.mkdir()
    path.write_text("#define FACTOR 2.0f\n")
    monkeypatch.setenv("CPATH", str(tmp_path))
    return path


def scaled(header: Path, *others: tuple[str, str], compiler: str = "gcc") -> Candidate:
    """A kernel that includes a header from outside."""
    files = [("kernel.c", f'#include "{header}"\n{SCALE.replace("2.0f", "FACTOR")}'), *others]
    return Candidate(
        language="c",
        sources=tuple(SourceFile(path=path, text=text) for path, text in files),
        build=BuildSpec.model_validate({"flags": ("-O1",), "compiler": compiler}),
    )


@pytest.mark.parametrize("compiler", COMPILERS)
class TestReuse:
    def test_a_header_that_is_installed_later_is_found(
        self, cache: Path, header: Path, compiler: str
    ) -> None:
        text = header.read_text()
        header.unlink()
        before = CToolchain(cache).build(scaled(header, compiler=compiler))
        assert isinstance(before, BuildFailed)
        assert "factor.h" in before.detail
        assert "factor.h" in before.log.read_text()
        header.write_text(text)
        assert not built(CToolchain(cache).build(scaled(header, compiler=compiler))).cached

    def test_another_header_is_another_library(
        self, cache: Path, header: Path, compiler: str
    ) -> None:
        candidate = scaled(header, compiler=compiler)
        two = built(CToolchain(cache).build(candidate))
        assert built(CToolchain(cache).build(candidate)).cached
        header.write_text("#define FACTOR 3.0f\n")
        three = built(CToolchain(cache).build(candidate))
        assert not three.cached
        assert three.library_sha256 != two.library_sha256
        assert two.library.exists(), "somebody may have it loaded"
        assert built(CToolchain(cache).build(candidate)) == three.model_copy(
            update={"cached": True}
        )

    def test_a_checkout_of_the_same_content_changes_nothing(
        self, cache: Path, header: Path, compiler: str
    ) -> None:
        candidate = scaled(header, compiler=compiler)
        two = built(CToolchain(cache).build(candidate))
        header.write_text("#define FACTOR 3.0f\n")
        built(CToolchain(cache).build(candidate))
        header.write_text("#define FACTOR 2.0f\n")
        again = built(CToolchain(cache).build(candidate))
        assert again.cached
        assert again.library == two.library

    def test_a_header_that_is_gone_is_missed(
        self, cache: Path, header: Path, compiler: str
    ) -> None:
        candidate = scaled(header, compiler=compiler)
        built(CToolchain(cache).build(candidate))
        header.unlink()
        assert isinstance(CToolchain(cache).build(candidate), BuildFailed)

    def test_headers_of_every_source_count(
        self, cache: Path, header: Path, tmp_path: Path, compiler: str
    ) -> None:
        further = tmp_path / "further.h"
        further.write_text("#define FURTHER 1\n")
        other = f'#include "{further}"\nint further(void) {{ return FURTHER; }}\n'
        candidate = scaled(header, ("other.c", other), compiler=compiler)
        built(CToolchain(cache).build(candidate))
        assert built(CToolchain(cache).build(candidate)).cached
        further.write_text("#define FURTHER 2\n")
        assert not built(CToolchain(cache).build(candidate)).cached

    def test_what_changed_meanwhile_says_nothing_of_the_cache(
        self, cache: Path, header: Path, compiler: str
    ) -> None:
        toolchain, candidate = CToolchain(cache), scaled(header, compiler=compiler)
        built(toolchain.build(candidate))
        assert not toolchain.differs(candidate)
        header.write_text("#define FACTOR 3.0f\n")
        assert not toolchain.differs(candidate)


def listed(folder: Path, *paths: Path | str, since_s: float | None = None) -> Surroundings:
    """What compilers that list these paths have read."""
    (folder / "read.txt").write_text("".join(f"{path}\n" for path in paths))
    return surroundings(
        folder, folder / "src", folder / "work", time.time() if since_s is None else since_s
    )


def test_the_builds_own_files_do_not_count(tmp_path: Path, header: Path) -> None:
    own = [tmp_path / "src" / "part.h", tmp_path / "work" / "tmp" / "stub.c"]
    for path in own:
        path.parent.mkdir(parents=True)
        path.write_text("")
    assert listed(tmp_path, *own, "part.h", "../src/part.h") == Surroundings()
    assert listed(tmp_path, *own, header).paths == (str(header),)


def test_only_files_count(tmp_path: Path) -> None:
    assert listed(tmp_path, "/dev/zero", "/dev/stdin", tmp_path, "/nowhere") == Surroundings()


def test_a_compiler_that_lists_nothing(tmp_path: Path) -> None:
    assert surroundings(tmp_path, tmp_path / "src", tmp_path / "work", 0.0).are_as_they_were()


def test_what_changes_during_a_build_is_read_again(tmp_path: Path, header: Path) -> None:
    os.utime(header, (0, 0))  # as git and tar may set it: when it was written is another time
    assert listed(tmp_path, header).are_as_they_were()
    assert not listed(tmp_path, header, since_s=time.time() - 60).are_as_they_were()
