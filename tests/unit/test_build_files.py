"""Commands that a repository's own files give are shown and tried, until they work."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from repository_bench import git, needs_git, run, without_ceilings

from roofsmith.api.first_runs import first_runs
from roofsmith.repository.build_files import proposals
from roofsmith.targets.file import load_target

HISTOGRAM = {
    "Makefile": """\
CFLAGS = -O2 -Wall
all: bench t
bench: bench.c src/hist.c src/hist.h
	$(CC) $(CFLAGS) bench.c src/hist.c -o bench -lm
t: test.c src/hist.c src/hist.h
	$(CC) $(CFLAGS) test.c src/hist.c -o t -lm
test: t
	./t
clean:
	rm -f bench t
""",
    "src/hist.h": "void histogram(const unsigned char *p, long n, unsigned *h);\n",
    "src/hist.c": """\
#include "hist.h"
void histogram(const unsigned char *p, long n, unsigned *h) {
    for (int i = 0; i < 256; i++) h[i] = 0;
    for (long i = 0; i < n; i++) h[p[i]]++;
}
""",
    "test.c": '#include "src/hist.h"\nint main(void) { unsigned h[256];'
    ' histogram((const unsigned char *)"aa", 2, h); return h[97] != 2; }\n',
    "bench.c": """\
#include <stdio.h>
#include "src/hist.h"
int main(void) {
    for (int n = 1; n < 4; n++) printf("random n=%d: %.3f GB/s\\n", n * 65536, 1.0 + n / 8.0);
}
""",
}
CMAKE = {
    "CMakeLists.txt": "cmake_minimum_required(VERSION 3.10)\nproject(p C)\nenable_testing()\n"
    "add_subdirectory(perf)\n",
    "perf/CMakeLists.txt": "add_executable(sum_bench bench.c ../sum.c)\n",
    "sum.c": "double sum(void) { return 1.5; }\n",
    "perf/bench.c": "#include <stdio.h>\ndouble sum(void);\n"
    'int main(void) { printf("n,ms\\n64,%g\\n", sum()); }\n',
}


def repository(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "start")
    return folder


@pytest.mark.parametrize(
    ("files", "said", "expected"),
    [
        (HISTOGRAM, {}, ("make bench", "make -s test", "./bench")),
        (HISTOGRAM, {"benchmark": "./bench"}, ("make bench", None, None)),
        (HISTOGRAM, {"benchmark": "python3 bench.py"}, (None, None, None)),
        ({"Makefile": "run-bench: all\n\t./b --csv\nall:\n\tcc b.c\ncheck:\n\t./t\n"}, {},
         ("make", "make -s check", "make -s run-bench")),
        ({"Makefile": "OUT := out/bench_add\n$(OUT): a.c\n\tcc a.c -o $@\n"}, {},
         ("make out/bench_add", None, "./out/bench_add")),
        (CMAKE, {}, ("cmake -S . -B build -DCMAKE_BUILD_TYPE=Release && cmake --build build -j",
                     None, "./build/perf/sum_bench")),
        ({"Cargo.toml": "[package]\n", "benches/sum.rs": ""}, {},
         ("cargo build --release", "cargo test --release -q", "cargo bench -q")),
        ({"meson.build": "executable('bench', 'b.c')\ntest('t', t)\n"}, {},
         ("meson setup build --buildtype=release && meson compile -C build",
          "meson test -C build --print-errorlogs", "./build/bench")),
        ({"setup.py": "setup(ext_modules=[Extension('a', ['a.c'])])", "benchmarks/run_bench.py": "",
          "tests/test_a.py": ""}, {},
         ("python3 setup.py -q build_ext --inplace", "PYTHONPATH=. python3 -m pytest -q",
          "PYTHONPATH=. python3 benchmarks/run_bench.py")),
        ({"pyproject.toml": "[project]\ndependencies = ['pytest-benchmark']\n", "src/p/k.py": "",
          "tests/test_k.py": ""}, {},
         (None, "PYTHONPATH=src python3 -m pytest -q",
          "PYTHONPATH=src python3 -m pytest -q --benchmark-only")),
        ({"run_bench.sh": "", "a.c": ""}, {}, (None, None, "sh run_bench.sh")),
        ({"a.c": "", "workbench.py": ""}, {}, (None, None, None)),
    ],
)  # fmt: skip
def test_build_files_give_commands(
    tmp_path: Path,
    files: dict[str, str],
    said: dict[str, str],
    expected: tuple[str | None, str | None, str | None],
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = proposals(tmp_path, [*files], said)
    first = {key: offers[0].command for key, offers in found.items()}
    assert tuple(first.get(key) for key in ("build", "test", "benchmark")) == expected


@needs_git
@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_init_needs_nothing_but_what_may_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository(tmp_path / "hist", HISTOGRAM))
    without_ceilings(monkeypatch, tmp_path / "cache")
    init = ("init", "--repo", ".", "--editable", "src/hist.c")
    code, _, err = run(*init)
    assert code == 2
    assert "| random n=65536: 1.125 GB/s" in err, "what was printed"
    proposed = re.search(r"--pattern '([^']+)'", " ".join(err.split()))
    assert proposed is not None
    code, out, err = run(*init, "--pattern", proposed[1])
    assert code == 0, err
    for guess in ("build: make bench", "benchmark: ./bench", "test: make -s test"):
        assert f"guessed {guess}, from Makefile" in out
    text = Path("target.yaml").read_text()
    assert "direction: higher" in text
    assert "unit: GB/s" in text
    assert git(Path(), "status", "--short") == "?? target.yaml\n"


@needs_git
@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_the_execution_mode_follows_what_the_build_took(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = {"docs/page.md": "not needed\n", "other.c": "int other;\n"}
    monkeypatch.chdir(repository(tmp_path / "hist", HISTOGRAM | more))
    without_ceilings(monkeypatch, tmp_path / "cache")
    pattern = r"n=(?P<n>\d+): (?P<rate>[\d.]+ GB/s)"
    init = ["init", "--repo", ".", "--editable", "src/hist.c", "--force"]
    init += ["--pattern", pattern, "--quick", "./bench few"]
    _, out, err = run(*init)
    assert "execution mode: repo, since the build took" in out, err
    monkeypatch.setattr(
        "roofsmith.api.init_repository.first_runs",
        lambda *all_: replace(first_runs(*all_), build_s=900.0),
    )
    _, out, err = run(*init)
    assert "execution mode: workspace, since the build took" in out, err
    assert "--workspace tries changes with Makefile, bench.c, src/hist.h, test.c alone" in out
    code, out, err = run(*init, "--workspace")
    assert code == 0, err
    command = load_target(Path()).command
    assert command is not None
    assert command.workspace == ("Makefile", "bench.c", "src/hist.h", "test.c")
    assert command.quick == "./bench few"


@needs_git
@pytest.mark.skipif(shutil.which("cmake") is None, reason="needs cmake")
def test_a_proposal_that_fails_gives_way_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = CMAKE | {"Makefile": "test:\n\tfalse\nbench:\n\tfalse\n"}
    monkeypatch.chdir(repository(tmp_path / "sum", files))
    without_ceilings(monkeypatch, tmp_path / "cache")
    code, out, err = run("init", "--repo", ".", "--editable", "sum.c")
    assert code == 0, err
    assert "guessed benchmark: ./build/perf/sum_bench, from CMakeLists.txt" in out
    assert "not taken: test `make -s test`, from Makefile" in out


@needs_git
def test_init_says_that_nothing_names_a_benchmark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository(tmp_path / "bare", {"a.c": "int a;\n"}))
    code, _, err = run("init", "--repo", ".", "--editable", "a.c")
    assert code == 2
    assert "--benchmark is missing" in err
