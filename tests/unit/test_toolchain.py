"""The C toolchain with the real compiler: what it builds, refuses, keeps and survives."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from c_candidates import built, candidate, failed, unrolled

from roofsmith.domain.kernel import Candidate, Language
from roofsmith.domain.values import content_id
from roofsmith.errors import MachineError, StorageError, ToolMissingError
from roofsmith.judge.sandbox.enclosure import state_of
from roofsmith.ports import Toolchain
from roofsmith.testing.toolchain import SCALE, FakeToolchain, ToolchainConformance
from roofsmith.toolchains import CToolchain, builder, compiler_versions, compilers
from roofsmith.toolchains import c as c_module
from roofsmith.toolchains import cache as cache_module
from roofsmith.toolchains.elf import loaded

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
needs_clang = pytest.mark.skipif(shutil.which("clang") is None, reason="clang is not installed")


def run_scale(library: Path, values: list[float]) -> list[float]:
    kind = ctypes.c_float * len(values)
    x, y = kind(*values), kind()
    ctypes.CDLL(str(library)).solve(x, y, len(values))
    return list(y)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "it's a cache"


@pytest.fixture
def toolchain(cache: Path) -> CToolchain:
    return CToolchain(cache)


class TestFake(ToolchainConformance):
    @pytest.fixture
    def toolchain(self) -> Toolchain:
        return FakeToolchain()


@needs_gcc
class TestGcc(ToolchainConformance):
    @pytest.fixture
    def toolchain(self, cache: Path) -> Toolchain:
        return CToolchain(cache)


@needs_gcc
class TestGxx(ToolchainConformance):
    @pytest.fixture
    def toolchain(self, cache: Path) -> Toolchain:
        return CToolchain(cache)

    def candidate(self) -> Candidate:
        return candidate(f'extern "C" {{\n{SCALE}}}\n', language="cpp")


@needs_clang
class TestClang(ToolchainConformance):
    @pytest.fixture
    def toolchain(self, cache: Path) -> Toolchain:
        return CToolchain(cache)

    def candidate(self) -> Candidate:
        return candidate(compiler="clang")


@needs_gcc
class TestBuilds:
    def test_the_library_computes(self, toolchain: CToolchain) -> None:
        result = built(toolchain.build(candidate()))
        assert run_scale(result.library, [1.0, -2.5]) == [2.0, -5.0]
        assert content_id(result.library.read_bytes()) == result.library_sha256

    def test_the_command_can_be_typed_again(self, toolchain: CToolchain) -> None:
        result = built(toolchain.build(candidate(flags=("-O2", "-g"))))
        before = result.library.read_bytes()
        assert os.system(result.command) == 0
        assert b"debug" in before
        assert run_scale(result.library, [3.0]) == [6.0]

    def test_debug_information_names_the_sources_that_stay(self, toolchain: CToolchain) -> None:
        result = built(toolchain.build(candidate(flags=("-O1", "-g", "-gdwarf-4"))))
        folder = result.library.parent / "src"
        assert str(folder).encode() in result.library.read_bytes()
        assert (folder / "kernel.c").read_text() == SCALE

    def test_warnings_carry_file_and_line(self, toolchain: CToolchain) -> None:
        text = SCALE.replace("{\n", "{\n    int unused;\n", 1)
        result = built(toolchain.build(candidate(text, flags=("-Wall",))))
        assert result.warnings == ("kernel.c:3:9: unused variable 'unused' [-Wunused-variable]",)
        assert "unused variable" in result.log.read_text()
        again = built(toolchain.build(candidate(text, flags=("-Wall",))))
        assert again.cached
        assert again.warnings == result.warnings

    def test_other_sources_are_compiled_unless_included(self, toolchain: CToolchain) -> None:
        text = (
            '#include "lib/part.h"\n#include "lib/inlined.c"\n'
            "void solve(const float *x, float *y, int n)"
            "{ for (int i = 0; i < n; i++) y[i] = twice(x[i]) + zero(); }\n"
        )
        others = (
            ("lib/part.h", "float twice(float v);\n"),
            ("lib/part.c", '#include "lib/part.h"\nfloat twice(float v) { return v + v; }\n'),
            ("lib/inlined.c", "float zero(void) { return 0; }\n"),
        )
        result = built(toolchain.build(candidate(text, *others)))
        assert run_scale(result.library, [4.0]) == [8.0]

    def test_file_names_are_not_flags(self, toolchain: CToolchain) -> None:
        text = 'float twice(float);\n#include "@x h"\n' + SCALE.replace("2.0f *", "twice")
        text = text.replace("twicex", "twice(x").replace("twice x[i]", "twice(x[i])")
        others = (("-o.c", "float twice(float v) { return 2 * v; }\n"), ("@x h", "\n"))
        assert run_scale(built(toolchain.build(candidate(text, *others))).library, [1.0]) == [2.0]

    def test_openmp_and_math_link(self, toolchain: CToolchain) -> None:
        text = "#include <math.h>\n" + SCALE.replace("    for", "#pragma omp parallel for\n    for")
        text = text.replace("2.0f * x[i]", "expf(x[i])")
        result = built(toolchain.build(candidate(text, flags=("-O2", "-fopenmp"))))
        assert run_scale(result.library, [0.0, 0.0, 0.0]) == [1.0, 1.0, 1.0]

    def test_flags_that_change_no_instruction_leave_what_is_loaded(
        self, toolchain: CToolchain
    ) -> None:
        flags = (("-O2",), ("-O2", "-fno-math-errno"), ("-O0",))
        made = [built(toolchain.build(candidate(flags=one))) for one in flags]
        files = [one.library.read_bytes() for one in made]
        assert len(set(files)) == 3
        first, alike, other = map(loaded, files)
        assert first == alike != other


@needs_gcc
class TestFailures:
    def test_errors_name_the_users_file_and_line(self, toolchain: CToolchain, cache: Path) -> None:
        text = SCALE.replace("y[i] =", "y[i] +=+ z[")
        result = failed(toolchain.build(candidate(text)))
        assert result.reason == "compile_error"
        assert result.detail.startswith("kernel.c:4:")
        assert str(cache) not in result.detail
        assert "error:" in result.log.read_text()

    def test_an_undefined_symbol_is_found_and_located(self, toolchain: CToolchain) -> None:
        text = "float fast_exp(float);\n" + SCALE.replace("2.0f * x[i]", "fast_exp(x[i])")
        for flags in (("-O1",), ("-O1", "-g"), ("-O1", "-flto")):
            result = failed(toolchain.build(candidate(text, flags=flags)))
            assert result.reason == "link_error"
            assert result.detail.startswith("kernel.c:5: undefined reference to `fast_exp`")

    def test_a_missing_library(self, toolchain: CToolchain) -> None:
        result = failed(toolchain.build(candidate(link=("-lno_such_library",))))
        assert result.reason == "link_error"
        assert "-lno_such_library" in result.detail

    def test_a_symbol_defined_twice(self, toolchain: CToolchain) -> None:
        result = failed(toolchain.build(candidate(SCALE, ("other.c", SCALE))))
        assert result.reason == "link_error"
        assert "multiple definition of `solve'" in result.detail

    @pytest.mark.parametrize(
        ("text", "language", "why"),
        [
            ("static " + SCALE, "c", "solve is static"),
            ("inline " + SCALE, "c", "must not be inline"),
            (SCALE, "cpp", 'not extern "C"'),
            ('__attribute__((visibility("hidden"))) ' + SCALE, "c", "hidden"),
            (SCALE.replace("solve", "other"), "c", "functions found: other (kernel.c:1)"),
            ("float solve;\n", "c", "no function named solve"),
        ],
    )
    def test_an_entry_that_nobody_can_call(
        self, toolchain: CToolchain, text: str, language: Language, why: str
    ) -> None:
        result = failed(toolchain.build(candidate(text, language=language)))
        assert result.reason == "no_entry"
        assert why in result.detail

    @pytest.mark.rule("one-entry")
    def test_a_signature_outside_the_contract(self, toolchain: CToolchain) -> None:
        result = failed(toolchain.build(candidate("void solve(float *y, float **x) {}")))
        assert result.reason == "bad_signature"
        assert "kernel.c:1: parameter 2 of solve, `float **x`" in result.detail

    def test_a_flag_that_the_compiler_does_not_know(self, toolchain: CToolchain) -> None:
        result = failed(toolchain.build(candidate(flags=("-march=nonsense",))))
        assert result.reason == "compile_error"
        assert "nonsense" in result.detail

    def test_an_unknown_instruction(self, toolchain: CToolchain) -> None:
        text = SCALE.replace("{\n", '{\n    __asm__("frobnicate");\n', 1)
        result = failed(toolchain.build(candidate(text)))
        assert result.reason == "compile_error"
        assert "frobnicate" in result.detail

    def test_many_errors_are_cut(self, toolchain: CToolchain) -> None:
        text = SCALE + "".join(f"int f{i}(void) {{ return u{i}; }}\n" for i in range(9))
        detail = failed(toolchain.build(candidate(text))).detail
        assert len(detail.splitlines()) == 6
        assert detail.endswith("... and 4 more")

    def test_an_error_that_talks_of_memory_is_still_an_error(self, toolchain: CToolchain) -> None:
        text = "#error out of memory: No space left on device\n" + SCALE
        result = failed(toolchain.build(candidate(text)))
        assert result.reason == "compile_error"
        assert result.detail.startswith("kernel.c:1:2: error: #error out of memory")

    @pytest.mark.parametrize(
        "paths", [("a", "a/b.h"), ("x.h", "x.h"), ("n" * 256 + ".h",), ("new\nline.h",), (".",)]
    )
    def test_source_paths_that_no_folder_can_hold(
        self, toolchain: CToolchain, paths: tuple[str, ...]
    ) -> None:
        result = failed(toolchain.build(candidate(SCALE, *((path, "") for path in paths))))
        assert result.reason == "bad_source_path"


SLOW, ENDLESS = unrolled(16), unrolled(19)
"""2 MB take a compiler many seconds; from 4 MB on nobody begins."""


@needs_gcc
class TestLimits:
    def test_a_compiler_past_its_deadline_is_stopped(self, cache: Path) -> None:
        toolchain = CToolchain(cache, deadline_s=0.4)
        result = failed(toolchain.build(candidate(SLOW)))
        assert result.reason == "compiler_timeout"
        assert "0.4 s" in result.detail
        assert result.log.exists()
        assert not any(path.name.startswith("work-") for path in cache.iterdir())

    def test_what_is_too_much_to_build_is_told_before_anything_is_built(self, cache: Path) -> None:
        result = failed(CToolchain(cache).build(candidate(ENDLESS)))
        assert result.reason == "compiler_timeout"
        assert "too much code to build: " in result.detail
        assert "its macros make more than 4 MB" in result.detail

    def test_a_deadline_goes_by_the_first_build(
        self, cache: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(builder, "LEAST_SHARE", 0.001)
        monkeypatch.setattr(builder, "TIMES_FIRST", 2.0)
        toolchain = CToolchain(cache)
        toolchain.build(candidate(SCALE))
        result = failed(toolchain.build(candidate(SLOW)))
        assert result.reason == "compiler_timeout"
        assert "too much code to build in" in result.detail
        assert "(the first build here took" in result.detail

    def test_a_timeout_is_not_remembered(self, cache: Path) -> None:
        slow_in_any_case = candidate(SLOW)
        failed(CToolchain(cache, deadline_s=0.2).build(slow_in_any_case))
        result = failed(CToolchain(cache, deadline_s=0.3).build(slow_in_any_case))
        assert "0.3 s" in result.detail

    def test_no_compiler_is_left_behind(self, cache: Path) -> None:
        failed(CToolchain(cache, deadline_s=0.4).build(candidate(SLOW)))
        until = time.monotonic() + 60
        while left := _processes_in(cache):  # the last steps of a process's death take a moment
            assert time.monotonic() < until, left
            time.sleep(0.02)

    def test_memory_is_limited(self, cache: Path) -> None:
        toolchain = CToolchain(cache, memory_bytes=256 * 1024**2)
        result = failed(toolchain.build(candidate('#include "/dev/zero"\n' + SCALE)))
        assert result.reason == "compiler_memory"
        assert "0.25 GiB" in result.detail

    def test_standard_input_is_empty(self, toolchain: CToolchain) -> None:
        built(toolchain.build(candidate('#include "/dev/stdin"\n' + SCALE)))

    def test_the_environment_is_scrubbed(
        self, toolchain: CToolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "sneaky.h").write_text("")
        monkeypatch.setenv("CPATH", str(tmp_path))
        result = failed(toolchain.build(candidate('#include "sneaky.h"\n' + SCALE)))
        assert "sneaky.h: No such file" in result.detail


def _processes_in(folder: Path) -> list[str]:
    cwds = [_cwd(entry) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [cwd for cwd in cwds if str(folder) in cwd]


def _cwd(process: Path) -> str:
    try:
        return str((process / "cwd").readlink())
    except OSError:
        return ""


def _build_in_process(cache: Path) -> tuple[str, bool]:
    result = built(CToolchain(cache).build(candidate()))
    return result.library_sha256, result.library.exists()


@needs_gcc
class TestCache:
    def test_failures_are_remembered(self, toolchain: CToolchain, cache: Path) -> None:
        first = failed(toolchain.build(candidate("int x = ;")))
        log = first.log
        log.write_text("marked")
        assert failed(toolchain.build(candidate("int x = ;"))) == first
        assert log.read_text() == "marked"

    def test_failures_are_not_kept(self, toolchain: CToolchain, cache: Path) -> None:
        first = failed(toolchain.build(candidate("int x = ;")))
        first.log.write_text("marked")
        assert failed(CToolchain(cache).build(candidate("int x = ;"))) == first
        assert "error:" in first.log.read_text()

    @pytest.mark.parametrize("name", ["kernel.so", "build.json"])
    @pytest.mark.parametrize("damage", [b"", b"damaged", None])
    def test_a_damaged_build_is_made_anew(
        self, toolchain: CToolchain, name: str, damage: bytes | None
    ) -> None:
        first = built(toolchain.build(candidate()))
        path = first.library.parent / name
        path.unlink()
        if damage is not None:
            path.write_bytes(damage)
        second = built(toolchain.build(candidate()))
        assert not second.cached
        assert second.library_sha256 == first.library_sha256
        assert run_scale(second.library, [1.5]) == [3.0]

    def test_the_entry_is_part_of_the_key(self, toolchain: CToolchain) -> None:
        built(toolchain.build(candidate()))
        renamed = candidate().model_copy(update={"entry": "other"})
        assert failed(toolchain.build(renamed)).reason == "no_entry"

    def test_another_machine_builds_for_itself(
        self, toolchain: CToolchain, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        native = candidate(flags=("-O1", "-march=native"))
        here = built(toolchain.build(native))
        monkeypatch.setattr(c_module, "resolved_target", lambda compiler, flags: "elsewhere")
        assert built(toolchain.build(native)).library != here.library

    def test_another_compiler_version_builds_anew(
        self, toolchain: CToolchain, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        here = built(toolchain.build(candidate()))
        find = c_module.find_compiler
        monkeypatch.setattr(
            c_module,
            "find_compiler",
            lambda build, language: replace(find(build, language), version="gcc 99"),
        )
        assert not built(toolchain.build(candidate())).cached
        assert built(toolchain.build(candidate())).library != here.library

    def test_a_moved_cache_still_serves(self, toolchain: CToolchain, cache: Path) -> None:
        built(toolchain.build(candidate()))
        moved = cache.rename(cache.with_name("moved"))
        result = built(CToolchain(moved).build(candidate()))
        assert result.cached
        assert result.library.is_relative_to(moved)

    def test_processes_at_once_agree(self, cache: Path) -> None:
        with multiprocessing.get_context("spawn").Pool(3) as pool:
            results = pool.map(_build_in_process, [cache] * 6, chunksize=1)
        assert {exists for _, exists in results} == {True}
        assert len({sha256 for sha256, _ in results}) == 1
        assert not list(cache.glob("work-*"))

    def test_a_slower_process_takes_what_is_there(self, toolchain: CToolchain, cache: Path) -> None:
        builds = cache_module.BuildCache(cache)
        first = built(toolchain.build(candidate()))
        folder, record = builds.current(first.library.parent.name)
        with builds.workspace() as workspace:
            late = record.model_copy(update={"build_time_s": 99.0})
            assert builds.publish(workspace, first.library.parent.name, late) == (folder, record)

    def test_what_a_dead_process_left_is_removed(self, cache: Path) -> None:
        left, fresh = cache / "work-left", cache / "work-fresh"
        left.mkdir(parents=True)
        fresh.mkdir()
        os.utime(left, (0, 0))
        CToolchain(cache)
        assert not left.exists()
        assert fresh.exists()

    def test_a_folder_that_is_a_file(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(StorageError, match="can't keep builds under"):
            CToolchain(tmp_path / "file" / "cache")

    def test_a_full_disk(self, toolchain: CToolchain) -> None:
        full = candidate(SCALE, ("big.h", "x" * 10))
        with _file_size_limit(5), pytest.raises(StorageError, match="File too large"):
            toolchain.build(full)
        built(toolchain.build(full))

    @pytest.mark.parametrize(
        ("options", "message"), [("size=100k", "No space left"), ("ro", "Read-only file system")]
    )
    def test_a_small_or_read_only_disk(self, tmp_path: Path, options: str, message: str) -> None:
        mounted = [
            *("unshare", "--user", "--map-root-user", "--mount"),
            *("sh", "-c", 'mount -t tmpfs -o "$1" tmpfs "$2" && shift 2 && exec "$@"', "mounted"),
            *(options, str(tmp_path)),
        ]
        if subprocess.run([*mounted, "true"], check=False, capture_output=True).returncode != 0:
            pytest.skip("no private mounts here")
        script = "import sys, test_toolchain; test_toolchain.build_big(sys.argv[1])"
        result = subprocess.run(
            [*mounted, sys.executable, "-c", script, str(tmp_path / "cache")],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=False,
        )
        assert f"StorageError: can't keep builds under {tmp_path}/cache" in result.stderr
        assert message in result.stderr
        assert "try: " in result.stderr


def build_big(cache: str) -> None:
    """Build a library of half a megabyte."""
    big = "static float big[100000] = {1};\nfloat *get(void) { return big; }\n"
    CToolchain(Path(cache)).build(candidate(SCALE + big))


@contextmanager
def _file_size_limit(size_bytes: int) -> Iterator[None]:
    """No file may grow beyond so many bytes: a full disk without one."""
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)


class TestFlags:
    @pytest.mark.parametrize(
        "flags",
        [
            ("-fplugin=evil.so",), ("-fpass-plugin=evil.so",), ("-wrapper", "sh,-c"),
            ("-B", "/tmp"), ("-B/tmp",), ("@args",), ("-o", "x"), ("-specs=evil",),
            ("--specs=evil",), ("-save-temps",), ("-x", "c"), ("-Wl,-rpath,/tmp",),
            ("-Wl,--dynamic-linker,x",), ("-Wa,-al=x",), ("-Wp,-MD,x",), ("-Xlinker", "x"),
            ("-include", "/etc/passwd"), ("-imacros", "x"), ("-isystem", "/tmp"), ("-I/tmp",),
            ("-I..",), ("-I", "a/../../b"), ("-I/usr/include/../../etc",), ("-fdump-tree-all",),
            ("-fprofile-use=/x",), ("-fprofile-generate",), ("-MD",), ("-MF", "x"), ("-E",),
            ("-S",), ("-c",), ("-fuse-ld=/tmp/ld",), ("-fmodule-mapper=|sh",), ("-mllvm", "-load"),
            ("-v",), ("-###",), ("--help",), ("-T", "script"), ("/etc/passwd",), ("evil.o",),
            ("-L/tmp",), ("-l/tmp/x.so",), ("-Xclang", "-load"), ("-fno-integrated-as",), ("",),
            ("-dumpdir", "x"), ("-fdiagnostics-format=json",), ("-D",), ("-march=a/b",), ("-z",),
        ],
    )  # fmt: skip
    def test_what_could_reach_outside_is_refused(self, cache: Path, flags: tuple[str, ...]) -> None:
        for spec in ({"flags": flags}, {"link": flags}):
            result = failed(CToolchain(cache).build(candidate(**spec)))
            assert result.reason == "flag_not_allowed"
            assert "not allowed" in result.detail

    @needs_gcc
    @pytest.mark.parametrize(
        "flags",
        [
            ("-O3", "-march=native", "-mtune=native", "-mprefer-vector-width=256"),
            ("-Ofast", "-ffast-math", "-fno-math-errno", "-funroll-loops", "-fopenmp", "-flto"),
            ("-std=gnu17", "-g3", "-ggdb", "-Wall", "-Wextra", "-Wno-unused", "-pthread", "-pipe"),
            ("-D", "N=4", "-DM=(1+2)", "-UN", "-I.", "-Iinc", "-I", "/usr/include"),
            ("-Wl,-z,now,-O1", "-Wl,--as-needed", "-static-libgcc", "-O", "-fvisibility=default"),
        ],
    )
    def test_what_chooses_code_is_allowed(self, cache: Path, flags: tuple[str, ...]) -> None:
        built(CToolchain(cache).build(candidate(flags=flags)))

    @pytest.mark.parametrize(
        ("name", "value"),
        [("LD_PRELOAD", "x.so"), ("PYTHONPATH", "."), ("OMP_TOOL_LIBRARIES", "/tmp/x.so")],
    )
    def test_the_workers_environment_stays_its_own(
        self, cache: Path, name: str, value: str
    ) -> None:
        result = failed(CToolchain(cache).build(candidate(environment={name: value})))
        assert result.reason == "environment_not_allowed"
        assert name in result.detail


class TestCompilers:
    def test_no_compiler(self, toolchain: CToolchain, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", "/nowhere")
        with pytest.raises(ToolMissingError, match="gcc or clang not found") as caught:
            toolchain.build(candidate())
        assert "apt-get install gcc g++" in str(caught.value)

    def test_clang_where_only_clang_will_do(
        self, toolchain: CToolchain, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PATH", "/nowhere")
        with pytest.raises(ToolMissingError, match=r"clang\+\+ not found"):
            toolchain.build(candidate(language="cpp", compiler="clang"))

    @needs_gcc
    def test_versions(self) -> None:
        versions = compiler_versions()
        assert versions["gcc"].split()[-1][0].isdigit()
        assert set(versions) <= {"gcc", "g++", "clang", "clang++"}

    def test_one_that_hangs_is_killed_with_its_children_and_not_asked_again(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        child = tmp_path / "child"
        program = tmp_path / "gcc"
        program.write_text(f"#!/bin/sh\nsleep 600 & echo $! >> '{child}'\nwait\n")
        program.chmod(0o755)
        monkeypatch.setattr(compilers, "_QUESTION_DEADLINE_S", 0.5)
        for _ in range(2):
            with pytest.raises(MachineError) as caught:
                compilers.compiler_version(program)
            assert caught.value.message == (
                f"`{program} --version` gave no answer within 0.5 seconds, so it was stopped"
            )
        (started,) = child.read_text().split()
        assert state_of(int(started)) in "ZX"

    def test_one_that_cannot_be_started(self, tmp_path: Path) -> None:
        program = tmp_path / "gcc"
        program.write_text("")
        with pytest.raises(MachineError, match="can't be started: Permission denied"):
            compilers.compiler_version(program)


@needs_gcc
@pytest.mark.parametrize(
    ("made", "named"),
    [
        (candidate(), False),
        (candidate(f"// one cudaStream_t\n{SCALE}"), True),
        (candidate(SCALE, ("own.h", "struct paragraph;\n")), True),
        (candidate(flags=("-O1", "-DPER_THREAD_DEFAULT_STREAM")), True),
    ],
)
def test_whether_streams_are_named_is_known(
    toolchain: CToolchain, made: Candidate, named: bool
) -> None:
    assert built(toolchain.build(made)).names_streams == named
    assert built(toolchain.build(made)).names_streams == named  # from the cache
