"""What a compiler may see, what it becomes of when its judge dies: with real compilers."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from c_candidates import built, candidate
from cuda_kernels import H100, cuda, needs_nvcc
from cuda_kernels import SCALE as CUDA_SCALE
from waiting import wait_until

from roofsmith import landlock
from roofsmith.domain.kernel import Built, Language
from roofsmith.domain.outcome import BuildFailed
from roofsmith.scratch import kernel_boot, pid_namespace
from roofsmith.testing.toolchain import SCALE
from roofsmith.toolchains import CToolchain, CudaToolchain, limits
from roofsmith.toolchains.cache import BuildCache
from roofsmith.toolchains.compiler_files import CompilerFiles, files_for
from roofsmith.toolchains.compilers import compiler_environment
from roofsmith.toolchains.limits import CompilerLimits, Finished, run_limited

CPP = '#include <vector>\n#include <algorithm>\n#include <cmath>\nextern "C" {\n' + SCALE + "}\n"
SECRET = "c0ffee-1s-n0t-f0r-kernels"


def _has_landlock() -> bool:
    try:
        return landlock.version() > 0
    except landlock.NoLandlockError:
        return False


needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
needs_landlock = pytest.mark.skipif(not _has_landlock(), reason="the kernel has no Landlock")


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file of the user's that no command line names; what is in it is an error in C."""
    path = tmp_path / "home" / "id_rsa"
    path.parent.mkdir()
    path.write_text(f'#error {SECRET}\n"{SECRET}"\n')
    return path


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "a cache"


def no_secret(result: Built | BuildFailed, cache: Path) -> BuildFailed:
    """A build that failed, and holds the secret neither in what it says nor in what it left."""
    assert isinstance(result, BuildFailed), result
    assert SECRET not in result.model_dump_json()
    left = [path for path in cache.rglob("*") if path.is_file()]
    assert left
    assert not [path for path in left if SECRET.encode() in path.read_bytes()]
    return result


# -- what a candidate's source names ---------------------------------------------------------------

STEALING = {
    "incbin": '__asm__(".incbin \\"{path}\\"");',
    "incbin in a section": '__asm__(".pushsection .rodata\\n.incbin \\"{path}\\"\\n.popsection");',
    "assembler's include": '__asm__(".include \\"{path}\\"");',
    "include": '#include "{path}"',
    "include by macro": '#define F "{path}"\n#include F',
    "include of a system's header": "#include <{path}>",
    "initializer": 'const char *word =\n#include "{path}"\n;',
    "embed": 'const char word[] = {{\n#embed "{path}"\n}};',
}


@needs_gcc
@needs_landlock
class TestSecrets:
    @pytest.mark.parametrize(
        ("way", "language"), [*((way, "c") for way in STEALING), ("include", "cpp")]
    )
    def test_files_elsewhere_are_not_read(
        self, cache: Path, secret: Path, way: str, language: Language
    ) -> None:
        stealing = STEALING[way].format(path=secret)
        kernel = SCALE if language == "c" else CPP
        asked = candidate(f"{stealing}\n{kernel}", language=language)
        no_secret(CToolchain(cache).build(asked), cache)

    def test_nor_by_a_way_that_begins_in_the_workspace(self, cache: Path, secret: Path) -> None:
        up = "../" * 3 + f"{secret.parent.name}/{secret.name}"
        for line in (f'#include "{up}"', f'__asm__(".incbin \\"{up}\\"");'):
            no_secret(CToolchain(cache).build(candidate(f"{line}\n{SCALE}")), cache)

    def test_nor_are_other_candidates_sources(self, cache: Path) -> None:
        other = built(CToolchain(cache).build(candidate(f"// mine\n{SCALE}")))
        theirs = other.library.parent / "src" / "kernel.c"
        assert theirs.is_file()
        asked = candidate(f'#include "{theirs}"\n')
        result = CToolchain(cache).build(asked)
        assert isinstance(result, BuildFailed)
        assert "Permission denied" in result.detail

    def test_nor_are_other_processes_command_lines(self, cache: Path) -> None:
        told = f"/proc/{os.getpid()}/cmdline"
        asked = candidate(f'__asm__(".incbin \\"{told}\\"");\n{SCALE}')
        assert isinstance(CToolchain(cache).build(asked), BuildFailed)

    def test_has_include_can_not_tell_what_is_in_it(self, cache: Path, secret: Path) -> None:
        asking = f'#if __has_include("{secret}")\n#include "{secret}"\n#else\n#error no\n#endif\n'
        no_secret(CToolchain(cache).build(candidate(f"{asking}{SCALE}")), cache)

    def test_nothing_is_written_elsewhere(self, tmp_path: Path) -> None:
        outside = tmp_path / "outside"
        finished = run(tmp_path, "/bin/sh", "-c", f'echo x > "{outside}"')
        assert finished.returncode != 0
        assert not outside.exists()


@needs_nvcc
@needs_landlock
@pytest.mark.parametrize("way", ["incbin", "include", "initializer"])
def test_nvcc_reads_no_files_elsewhere(cache: Path, secret: Path, way: str) -> None:
    stealing = STEALING[way].format(path=secret)
    asked = cuda(f"{stealing}\n{CUDA_SCALE}")
    no_secret(CudaToolchain(cache, H100).build(asked), cache)


# -- what honest kernels need ----------------------------------------------------------------------

OPENMP = "#include <omp.h>\n" + SCALE.replace("for", "\n#pragma omp parallel for\nfor", 1)
MATH = SCALE + "#include <math.h>\ndouble grow(double x) { return exp(x) + cbrt(x); }\n"


@needs_gcc
class TestHonest:
    @pytest.mark.parametrize(
        ("text", "flags", "link"),
        [
            (OPENMP, ("-O3", "-fopenmp", "-march=native"), ("-fopenmp",)),
            (MATH, ("-O2", "-ffast-math"), ("-lm",)),
            (SCALE, ("-O2", "-flto"), ()),
            (SCALE, ("-O2", "-flto=auto", "-g"), ()),
            (SCALE, ("-O2", "-pipe", "-g3", "-fsanitize=undefined"), ()),
            ("#include <immintrin.h>\n#include <pthread.h>\n" + SCALE, ("-O2", "-pthread"), ()),
        ],
    )
    def test_c(self, cache: Path, text: str, flags: tuple[str, ...], link: tuple[str, ...]) -> None:
        built(CToolchain(cache).build(candidate(text, flags=flags, link=link)))

    @pytest.mark.parametrize("flags", [("-O2", "-std=c++20", "-fopenmp"), ("-O2", "-flto", "-g")])
    def test_cpp(self, cache: Path, flags: tuple[str, ...]) -> None:
        built(CToolchain(cache).build(candidate(CPP, language="cpp", flags=flags)))

    def test_headers_and_units_of_its_own(self, cache: Path) -> None:
        asked = candidate(
            f'#include "parts/beside.h"\n#include <named.h>\n{SCALE}int more(void);\n'
            "int twice(void) { return 2 * more() + BESIDE + NAMED; }\n",
            ("parts/beside.h", "#define BESIDE 1\n"),
            ("in clude/named.h", "#define NAMED 1\n"),
            ("more.c", "int more(void) { return 3; }\n"),
            flags=("-O1", "-Iin clude", "-I/usr/include"),
        )
        built(CToolchain(cache).build(asked))

    def test_a_compiler_in_a_folder_of_its_own(
        self, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A script that reads what lies beside its `bin`, as a link to it on PATH finds it."""
        tool = tmp_path / "tool kit" / "bin" / "gcc"
        tool.parent.mkdir(parents=True)
        settings = tool.parent.parent / "etc" / "flags"
        settings.parent.mkdir()
        settings.write_text("-DSET=1")
        tool.write_text(f'#!/bin/sh\nexec {shutil.which("gcc")} $(cat "{settings}") "$@"\n')
        tool.chmod(0o755)
        links = tmp_path / "links"
        links.mkdir()
        (links / "gcc").symlink_to(tool)
        monkeypatch.setenv("PATH", f"{links}:{os.environ['PATH']}")
        built(CToolchain(cache).build(candidate(f"int set[SET];\n{SCALE}")))

    def test_a_host_without_landlock_compiles_as_well(
        self, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        package = tmp_path / "elsewhere" / "roofsmith"
        (package / "toolchains").mkdir(parents=True)
        (package / "__init__.py").touch()
        (package / "landlock.py").write_text(
            "class NoLandlockError(Exception): ...\n"
            "def allow_only(*_, **__): raise NoLandlockError('Function not implemented')\n"
        )
        supervisor = package / "toolchains" / "supervisor.py"
        shutil.copy(limits._SUPERVISOR, supervisor)
        monkeypatch.setattr(limits, "_SUPERVISOR", supervisor)
        built(CToolchain(cache).build(candidate()))
        outside = tmp_path / "outside"
        assert run(tmp_path, "/bin/sh", "-c", f'echo x > "{outside}"').returncode == 0


@needs_nvcc
@pytest.mark.slow
def test_nvcc_finds_its_headers_and_libraries(cache: Path) -> None:
    text = "#include <cuda_fp16.h>\n#include <cmath>\n#include <cooperative_groups.h>\n"
    asked = cuda(text + CUDA_SCALE)
    flags = (*asked.build.flags, "-lineinfo", "-Xcompiler", "-fopenmp")
    build = asked.build.model_copy(update={"flags": flags})
    built(CudaToolchain(cache, H100).build(asked.model_copy(update={"build": build})))


# -- what the supervisor promises ------------------------------------------------------------------


def run(folder: Path, *command: str, **environment: str) -> Finished:
    work = folder / "work"
    (work / "tmp").mkdir(parents=True, exist_ok=True)
    return run_limited(
        command,
        directory=work,
        environment={**compiler_environment(work / "tmp"), **environment},
        limits=CompilerLimits(deadline_s=60.0, memory_bytes=4 * 1024**3),
        log=work / "log",
    )


class TestSupervisor:
    @pytest.mark.parametrize("code", [0, 3])
    def test_exit_codes_are_the_command_s(self, tmp_path: Path, code: int) -> None:
        assert run(tmp_path, "/bin/sh", "-c", f"exit {code}").returncode == code

    @pytest.mark.parametrize("name", ["KILL", "SEGV", "PIPE", "TERM"])
    def test_signals_are_the_command_s(self, tmp_path: Path, name: str) -> None:
        """PIPE and XFSZ, too, which Python ignores, and its children with it."""
        finished = run(tmp_path, "/bin/sh", "-c", f"kill -{name} $$; exit 5")
        assert finished.returncode == -getattr(signal, f"SIG{name}")

    def test_the_environment_is_what_was_given(self, tmp_path: Path) -> None:
        finished = run(tmp_path, "/usr/bin/env", STRANGE="\udcff and a\nline")
        given = {**compiler_environment(tmp_path / "work" / "tmp"), "STRANGE": "\ufffd and a\nline"}
        assert sorted(finished.output.splitlines()) == sorted(
            "\n".join(f"{name}={value}" for name, value in given.items()).splitlines()
        )

    def test_one_descriptor_is_added(self, tmp_path: Path) -> None:
        """The one that hangs up when the last of the group is gone."""
        script = (
            "import os\n"
            "for number in range(99):\n"
            "    try: os.fstat(number)\n"
            "    except OSError: continue\n"
            "    print(number)\n"
        )
        finished = run(tmp_path, sys.executable, "-I", "-S", "-c", script)
        assert len(finished.output.split()) == 4, finished.output

    def test_limits_are_set(self, tmp_path: Path) -> None:
        finished = run(tmp_path, "/bin/sh", "-c", "ulimit -c; ulimit -t; ulimit -v; ulimit -f")
        assert finished.output.split() == ["0", "61", str(4 * 1024**2), str(1024**2)]

    def test_a_program_that_is_not_there(self, tmp_path: Path) -> None:
        finished = run(tmp_path, "/nowhere/gcc")
        assert (finished.returncode, finished.output) == (
            127,
            "/nowhere/gcc: error: No such file or directory\n",
        )


# -- which files a command may see -----------------------------------------------------------------


def files(*arguments: str, **environment: str) -> CompilerFiles:
    return files_for(
        ["/usr/bin/gcc", *arguments], Path("/project/src"), {"HOME": "/home/me", **environment}
    )


@pytest.mark.parametrize(
    ("arguments", "readable"),
    [
        (("-I/data/cutlass/include",), "/data/cutlass/include"),
        (("-isystem", "/data/include"), "/data/include"),
        (("--include-path=/data/include",), "/data/include"),
        (("-L/data/cuda/lib64",), "/data/cuda/lib64"),
        (("-include", "/data/defer.h"), "/data/defer.h"),
        (("-include=/data/defer.h",), "/data/defer.h"),
        (("/data/in put.c",), "/data/in put.c"),
        (("-I/data/link/../..",), "/"),
    ],
)
def test_what_the_command_line_names(arguments: tuple[str, ...], readable: str) -> None:
    assert (readable in files(*arguments).readable) == (readable != "/")


@pytest.mark.parametrize(
    "word",
    ["-DX=/data/x", "-D/data/x", "--define-macro=/data/x", "-Wl,/data/x", "-fplugin=/data/x",
     "--compiler-options=-DX=/data/x", "-fdebug-prefix-map=/data/x=/data/x", "-I.", "-Idata/x"],
)  # fmt: skip
def test_other_words_name_nothing(word: str) -> None:
    assert files(word) == files()


def test_the_output_s_folder_and_temporary_ones_may_be_written_to() -> None:
    found = files("-o", "/project/kernel.so", "--keep-dir=/project/kept", TMPDIR="/project/tmp")
    assert set(found.writable) == {"/project/kept", "/project", "/project/tmp"}


@pytest.mark.parametrize("folder", ["/home/me", "/home", "/", "/tmp", "", "bin"])
def test_folders_that_hold_everything_are_not_opened(folder: str) -> None:
    found = files(f"-I{folder}", PATH=f"{folder}:/usr/bin", LD_LIBRARY_PATH=folder)
    assert not {folder, "/home/me", "/home", "/", "/tmp", ""} & set(found.readable)


@pytest.mark.parametrize("name", ["LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH", "CUDA_HOME"])
def test_folders_that_the_user_s_environment_names(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "/apps/mpfr")
    assert "/apps/mpfr" in files().readable


class TestHomes:
    """Where a compiler lies that the user has installed for himself."""

    @pytest.fixture
    def home(self, tmp_path: Path) -> Path:
        return tmp_path

    def install(self, home: Path, place: str, text: str = "#!/bin/sh\n") -> CompilerFiles:
        program = home / place
        program.parent.mkdir(parents=True)
        program.write_text(text)
        program.chmod(0o755)
        environment = {"HOME": str(home), "PATH": f"{program.parent}:/usr/bin"}
        return files_for([str(program)], home / "work", environment)

    def test_a_folder_of_its_own_is_visible(self, home: Path) -> None:
        found = self.install(home, "conda/bin/gcc")
        assert str(home / "conda") in found.readable

    @pytest.mark.parametrize("place", ["bin/gcc", ".local/bin/gcc"])
    def test_of_the_user_s_own_its_parts_are(self, home: Path, place: str) -> None:
        found = self.install(home, place)
        top = (home / place).parent.parent
        assert {str(top / "bin"), str(top / "lib"), str(home / place)} <= set(found.readable)
        assert not {str(home), str(top), str(top / "share")} & set(found.readable)

    def test_the_host_compiler_of_nvcc(self, home: Path) -> None:
        self.install(home, "gcc-12/bin/g++")
        environment = {"HOME": str(home), "PATH": "/usr/bin"}
        for chosen in (home / "gcc-12" / "bin", home / "gcc-12" / "bin" / "g++"):
            found = files_for(["nvcc", f"-ccbin={chosen}"], home / "work", environment)
            assert str(home / "gcc-12") in found.readable

    def test_ccache_keeps_its_folder(self, home: Path) -> None:
        found = self.install(home, "wrap/bin/gcc", '#!/bin/sh\nexec ccache gcc "$@"\n')
        assert f"{home}/.config/ccache" in found.readable
        assert any("ccache" in place for place in found.writable)
        assert self.install(home, "plain/bin/gcc").writable == ()


# -- a judge that is killed ------------------------------------------------------------------------

SLOW = (
    "#define A y = y * x + 1.0f;\n"
    + "".join(f"#define {chr(66 + i)} " + f"{chr(65 + i)} " * 16 + "\n" for i in range(4))
    + "float slow(float x) { float y = x; E return y; }\n"
    + SCALE
)
"""Sixteen to the fourth statements: nothing to a preprocessor, seconds to a compiler."""

BUILDS = """
import sys
from pathlib import Path
import test_compiler_walls as here
toolchain = here.CToolchain(Path(sys.argv[1]), at_once=2)
toolchain.build_all([here.candidate(here.SLOW, flags=("-O1", f"-DT={n}")) for n in range(2)])
"""


def processes_in(folder: Path) -> list[str]:
    """What runs in a folder, by its program's name."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if str(folder) in str((entry / "cwd").readlink()):
                found.append((entry / "comm").read_text().strip())
        except OSError:
            continue
    return found


@needs_gcc
class TestKilled:
    def test_compilers_end_and_workspaces_go(self, cache: Path) -> None:
        path = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
        judge = subprocess.Popen(
            [sys.executable, "-c", BUILDS, str(cache)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
        )
        wait_until(lambda: processes_in(cache).count("cc1") == 2)
        BuildCache(cache)
        assert len([*cache.glob("work-*")]) == 2, "its owner lives"
        judge.kill()
        judge.wait()
        killed = time.monotonic()
        wait_until(lambda: not processes_in(cache))
        assert time.monotonic() - killed < 10
        BuildCache(cache)
        assert not [*cache.glob("work-*")]

    @pytest.mark.parametrize(
        ("boot", "space", "stays"),
        [(None, None, False), ("0123abcd-77", None, True), (None, 17, True)],
    )
    def test_workspaces_of_other_machines_stay(
        self, cache: Path, boot: str | None, space: int | None, stays: bool
    ) -> None:
        """A number that is no process's here may be one's there; after an hour it is nobody's."""
        dead = subprocess.Popen(["true"])
        dead.wait()
        owner = f"{boot or kernel_boot()}.{space or pid_namespace()}.{dead.pid}"
        left = cache / f"work-{owner}-abc_1"
        left.mkdir(parents=True)
        BuildCache(cache)
        assert left.exists() == stays
        if stays:
            os.utime(left, (0, 0))
            BuildCache(cache)
            assert not left.exists()

    def test_those_of_the_living_stay(self, cache: Path) -> None:
        with BuildCache(cache).workspace() as mine:
            BuildCache(cache)
            assert mine.is_dir()
        assert not mine.exists()
