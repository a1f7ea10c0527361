"""Commands that a repository's own build files give: how it is built, tested and measured.

Makefile, CMakeLists.txt, Cargo.toml, meson.build, setup.py and pyproject.toml, and scripts that
are called like a test or a benchmark. They are proposals, for `init` to try in a clean checkout.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

Key = Literal["build", "test", "benchmark"]

_MAKEFILES: Final = ("GNUmakefile", "makefile", "Makefile")
_READ: Final = ("CMakeLists.txt", "Cargo.toml", "meson.build", "setup.py", "pyproject.toml")
_MAX_BYTES: Final = 1 << 20
_BENCH: Final = re.compile(r"(?:^|[/_.-])(?:run[_-]?)?(?:bench\w*|perf)(?=$|[/_.-])", re.IGNORECASE)
_TEST: Final = re.compile(r"(?:^|[/_.-])(?:run[_-]?)?(?:tests?|check)(?=$|[/_.-])", re.IGNORECASE)
_RULE: Final = re.compile(r"^([^\s:#=][^:#=\n]*?)\s*::?(?!=)[^\n]*\n((?:\t[^\n]*\n|\n)*)", re.M)
_ASSIGNED: Final = re.compile(r"^(\w+)\s*[:?]?:?=\s*([^\n#$]*?)\s*(?:#.*)?$", re.M)
_COMPILED: Final = re.compile(r"ext_modules|Extension\(|cythonize|CMakeExtension")
_BACKENDS: Final = re.compile(r"scikit_build_core|mesonpy|maturin|py_build_cmake|setuptools_rust")
_PROGRAM: Final = re.compile(r"(?:add_executable|executable)\s*\(\s*'?([\w.-]+)")
_SITE: Final = ".roofsmith-site"
"""Where a package is installed within its checkout, and nowhere else."""


@dataclass(frozen=True, slots=True)
class Proposed:
    command: str
    source: str


Proposals = dict[Key, list[Proposed]]
"""By key, the likeliest first."""


def proposals(folder: Path, files: Iterable[str], said: Mapping[str, object]) -> Proposals:
    """Commands for the keys that nobody said, as far as they are needed.

    A build is, where the benchmark is guessed, too, or test or benchmark begin with a program that
    git doesn't track: commands run in a clean checkout.
    """
    tracked = sorted(files)
    missing = _unbuilt(said, tracked)
    found: Proposals = defaultdict(list)
    for key, proposed in _all(folder, tracked, missing):
        is_needed = "benchmark" not in said or (key == "build" and missing is not None)
        if key not in said and is_needed and proposed not in found[key]:
            found[key].append(proposed)
    return {key: some for key, some in found.items() if some}


def _unbuilt(said: Mapping[str, object], tracked: Collection[str]) -> str | None:
    """A program that a command begins with, and nobody has built."""
    for key in ("benchmark", "test"):
        words = str(said.get(key, "")).split()
        program = posixpath.normpath(words[0]) if words else ""
        if words and "/" in words[0] and not words[0].startswith("/") and program not in tracked:
            return program
    return None


def _all(
    folder: Path, tracked: Collection[str], missing: str | None
) -> Iterator[tuple[Key, Proposed]]:
    texts = {
        path: (folder / path).read_text(errors="replace")[:_MAX_BYTES]
        for path in sorted(tracked, key=lambda path: (path.count("/"), path))
        if path in _MAKEFILES or posixpath.basename(path) in _READ
    }
    for path in _MAKEFILES:
        if path in texts:
            yield from _of(path, _makefile(texts[path], missing))
            break
    if "CMakeLists.txt" in texts:
        yield from _of("CMakeLists.txt", _cmake(texts))
    if "Cargo.toml" in texts:
        yield from _of("Cargo.toml", _cargo(texts["Cargo.toml"], tracked))
    if "meson.build" in texts:
        yield from _of("meson.build", _meson(texts))
    setup = next((path for path in ("setup.py", "pyproject.toml") if path in texts), None)
    both = "".join(texts.get(path, "") for path in ("setup.py", "pyproject.toml"))
    yield from _python(setup, both, tracked)
    for path in tracked:
        if path.endswith(".sh"):
            key = _key_of(path.removesuffix(".sh"))
            if key is not None:
                yield key, Proposed(f"sh {shlex.quote(path)}", path)


def _of(source: str, found: Iterator[tuple[Key, str]]) -> Iterator[tuple[Key, Proposed]]:
    for key, command in found:
        yield key, Proposed(command, source)


def _makefile(text: str, missing: str | None) -> Iterator[tuple[Key, str]]:
    """Targets that are called like what they do; one that is a program is run once it is built."""
    known = dict(_ASSIGNED.findall(text))
    expanded = re.sub(r"\$[({](\w+)[)}]", lambda name: known.get(name[1], name[0]), text + "\n")
    rules = {
        target: recipe
        for targets, recipe in _RULE.findall(expanded.replace("\\\n", " "))
        for target in targets.split()
        if not target.startswith(".")
    }
    for target, recipe in rules.items():
        key = _key_of(target)
        if key is None or "clean" in target:
            continue
        if re.search(rf"-o\s*(?:\$@|{re.escape(target)}(?!\S))", recipe):
            yield "build", f"make {target}"
            yield key, f"./{target}"
        else:
            yield key, f"make -s {target}"
    if missing in rules:
        yield "build", f"make {missing}"
    if rules:
        yield "build", "make"


def _cmake(texts: Mapping[str, str]) -> Iterator[tuple[Key, str]]:
    configure = "cmake -S . -B build -DCMAKE_BUILD_TYPE=Release"
    yield "build", f"{configure} && cmake --build build -j"
    if any(re.search(r"add_test|include\s*\(\s*CTest", text) for text in texts.values()):
        yield "test", "ctest --test-dir build --output-on-failure"
    yield from _programs(texts, "CMakeLists.txt")


def _meson(texts: Mapping[str, str]) -> Iterator[tuple[Key, str]]:
    yield "build", "meson setup build --buildtype=release && meson compile -C build"
    if any(re.search(r"^\s*test\s*\(", text, re.M) for text in texts.values()):
        yield "test", "meson test -C build --print-errorlogs"
    yield from _programs(texts, "meson.build")


def _programs(texts: Mapping[str, str], name: str) -> Iterator[tuple[Key, str]]:
    """Programs that build files in any folder name, where out-of-tree builds leave them."""
    for path, text in texts.items():
        if posixpath.basename(path) == name:
            for program in _PROGRAM.findall(text):
                place = posixpath.join("./build", posixpath.dirname(path), program)
                if (key := _key_of(program)) is not None:
                    yield key, place


def _cargo(text: str, tracked: Collection[str]) -> Iterator[tuple[Key, str]]:
    yield "build", "cargo build --release"
    yield "test", "cargo test --release -q"
    if "[[bench]]" in text or any(path.startswith("benches/") for path in tracked):
        yield "benchmark", "cargo bench -q"
    for path in tracked:
        found = re.fullmatch(r"(src/bin|examples)/([\w-]+)(?:/main)?\.rs", path)
        if found and _key_of(found[2]) == "benchmark":
            kind = "bin" if found[1] == "src/bin" else "example"
            yield "benchmark", f"cargo run --release -q --{kind} {found[2]}"


def _python(
    setup: str | None, text: str, tracked: Collection[str]
) -> Iterator[tuple[Key, Proposed]]:
    """Scripts and tests, with the checkout's own package before an installed one."""
    path = (
        "src" if any(name.startswith("src/") and name.endswith(".py") for name in tracked) else "."
    )
    source = setup or "its name"
    if _BACKENDS.search(text):
        install = "python3 -m pip install -q --no-deps --no-build-isolation --target"
        yield "build", Proposed(f"{install} {_SITE} .", source)
        path = _SITE
    elif _COMPILED.search(text) and setup == "setup.py":
        yield "build", Proposed("python3 setup.py -q build_ext --inplace", source)
    python = f"PYTHONPATH={path} python3"
    scripts = [name for name in tracked if name.endswith(".py") and not _is_module_of(name)]
    if "pytest-benchmark" in text:
        yield "benchmark", Proposed(f"{python} -m pytest -q --benchmark-only", source)
    for name in sorted(scripts, key=lambda name: (name.count("/"), name)):
        if _key_of(name.removesuffix(".py")) == "benchmark":
            yield "benchmark", Proposed(f"{python} {shlex.quote(name)}", name)
    tests = [name for name in tracked if re.search(r"(?:^|/)(?:test_\w+|\w+_test)\.py$", name)]
    if tests:
        yield "test", Proposed(f"{python} -m pytest -q", source if setup else tests[0])


def _is_module_of(name: str) -> bool:
    return posixpath.basename(name).startswith(("__", "test_", "conftest"))


def _key_of(name: str) -> Key | None:
    """What a target, program or script is called like; `benchmarks/sum.py` is by its folder."""
    last = posixpath.basename(name)
    if _BENCH.search(last) or (_BENCH.search(name) and not _TEST.search(last)):
        return "benchmark"
    return "test" if _TEST.search(last) else None
