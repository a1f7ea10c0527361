"""Demanding custom code: what sources hide, flags and built libraries show."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from burning_kernels import REFERENCE
from cuda_kernels import H100, cuda, needs_nvcc
from repository_bench import without_ceilings, without_profilers

from roofsmith import api
from roofsmith.api.subjects import candidate_from
from roofsmith.config import Settings
from roofsmith.domain.comparison import Judgement
from roofsmith.domain.dispatch import Dispatch, Threshold
from roofsmith.domain.kernel import BuildSpec, Built, Candidate, Language, SourceFile
from roofsmith.domain.outcome import BuildFailed, Unfit
from roofsmith.domain.target import Target
from roofsmith.errors import BaselineError, UsageError
from roofsmith.evaluator.local import build, build_all
from roofsmith.judge import patience
from roofsmith.ports import DimensionSource
from roofsmith.selftest.samples import CorpusSample, samples
from roofsmith.store.ledger import JsonlLedger
from roofsmith.targets.file import load_target
from roofsmith.testing.observer import SilentObserver
from roofsmith.testing.toolchain import SCALE, FakeToolchain
from roofsmith.toolchains import CToolchain, CudaToolchain
from roofsmith.toolchains.custom_code import CustomCode
from roofsmith.toolchains.elf import imports
from roofsmith.toolchains.merging.merger import merge_sources
from roofsmith.toolchains.signature import read_signature

pytestmark = pytest.mark.slow

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")

OPENMP = """\
#include <math.h>
#include <omp.h>
void solve(const float *x, float *y, int n)
{
    #pragma omp parallel for simd
    for (int i = 0; i < n; i++)
        y[i] = expf(x[i]) + (float)omp_get_num_threads();
}
"""
THREADS = """\
#include <cmath>
#include <stdexcept>
#include <thread>
#include <vector>
thread_local std::vector<float> rows;
static void part(const float *x, float *y, int n)
{
    if (n < 0)
        throw std::runtime_error("fewer than none");
    rows.assign(x, x + n);
    for (int i = 0; i < n; i++)
        y[i] = std::tanh(rows[i]);
}
extern "C" void solve(const float *x, float *y, int n)
{
    std::thread other([&] { try { part(x, y, n); } catch (std::exception &) { y[0] = 0; } });
    other.join();
}
"""
OTHERS = "void neutral(const float *x, float *y, int n) { y[0] = x[0] + n; }"
CALLS = """\
void neutral(const float *x, float *y, int n);
void solve(const float *x, float *y, int n) { neutral(x, y, n); }
"""
SOLVE = "void solve(const float *x, float *y, int n) { y[0] = x[0] + n; }\n"
OPENS = '#include <dlfcn.h>\nvoid *opened(void) { return dlopen("libm.so.6", RTLD_NOW); }\n'


def candidate(text: str, language: Language = "c", **spec: Sequence[str]) -> Candidate:
    suffix = {"triton": "py", "torch": "py", "cuda": "cu"}.get(language, language)
    return Candidate(
        language=language,
        sources=(SourceFile(path=f"kernel.{suffix}", text=text),),
        build=BuildSpec.model_validate({"flags": ("-O1",), "link": (), **spec}),
    )


def rejection(outcome: Built | Unfit | None) -> str:
    """The detail of what was rejected as a library's work."""
    assert not isinstance(outcome, Built)
    assert (outcome.kind, outcome.reason) == ("cheated", "library_call"), outcome
    return outcome.detail


def linked(folder: Path, text: str, *flags: str, language: Language = "c") -> Built:
    """What a compiler makes of a text, whatever a toolchain would have refused of its flags."""
    source, library = folder / "kernel.c", folder / "kernel.so"
    source.write_text(text)
    command = ["gcc", "-O1", "-shared", "-fPIC", str(source), "-o", str(library), *flags]
    subprocess.run(command, check=True)
    made = FakeToolchain().build(candidate(SCALE))
    assert isinstance(made, Built)
    return made.model_copy(update={"library": library, "language": language})


@pytest.fixture(scope="module")
def toolchain(tmp_path_factory: pytest.TempPathFactory) -> CToolchain:
    return CToolchain(tmp_path_factory.mktemp("builds"))


@needs_gcc
class TestHonestBuilds:
    @pytest.mark.parametrize(
        "kernel",
        [
            candidate(SCALE),
            candidate(OPENMP, flags=("-O3", "-fopenmp"), link=("-lm",)),
            candidate(
                OPENMP,
                flags=("-O3", "-ffast-math", "-march=native", "-fopenmp"),
                link=("-Wl,--start-group", "-lm", "-lmvec", "-lpthread", "-Wl,--end-group"),
            ),
            candidate(THREADS, "cpp", flags=("-O2", "-pthread"), link=("-lm",)),
            candidate(THREADS, "cpp", flags=("-O2", "-pthread", "-static-libstdc++")),
            candidate(SCALE, flags=("-O2", "-DN=4", "-DCAT(a,b)=a##b", "-flto")),
        ],
        ids=["plain", "openmp", "libmvec", "threads", "static libstdc++", "macros"],
    )
    def test_runtimes_may_be_used(self, kernel: Candidate, toolchain: CToolchain) -> None:
        made = build(kernel, toolchain, CustomCode())
        assert isinstance(made, Built), made

    @pytest.mark.parametrize(
        "sample", [s for s in samples(("c",)) if not s.is_attack], ids=lambda sample: sample.id
    )
    def test_the_corpus_honest_kernels(self, sample: CorpusSample, toolchain: CToolchain) -> None:
        kernel = candidate_from(sample.path, sample.flags)
        made = build(kernel, toolchain, CustomCode())
        assert isinstance(made, Built), made


@needs_gcc
@pytest.mark.parametrize("language", ["c", "triton"])
def test_a_dispatch_of_two_kernels_is_custom_code(
    language: Language, toolchain: CToolchain
) -> None:
    first, second = SCALE, SCALE.replace("2", "3", 1)
    signature = read_signature(candidate(SCALE))
    if language == "triton":
        text = "import triton\n\ndef run_kernel(x, y, n):\n    y.copy_(x)\n"
        first, second = text, f"{text}\n# another\n"
    large = Threshold(dims=("n",), side="at_least", bound=1000)
    rule = Dispatch(splits=2, rule=large, within={"n": (1, 10_000)}, new=("l",), old=("s",))
    old, new = candidate(first, language), candidate(second, language)
    found = merge_sources(old, new, rule, {"n": DimensionSource("n")}, signature)
    assert isinstance(found, Candidate), found
    assert CustomCode().before_build(found) is None
    if language == "c":
        assert isinstance(build(found, toolchain, CustomCode()), Built)


@needs_nvcc
@pytest.mark.parametrize("runtime", ["shared", "static"])
def test_both_cuda_runtimes_may_be_used(
    runtime: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if runtime == "static":
        monkeypatch.setattr("roofsmith.toolchains.cuda._runtime", lambda _toolkit: ())
    made = build(cuda(), CudaToolchain(tmp_path, H100), CustomCode())
    assert isinstance(made, Built), made
    assert ("dlopen" in {s.name for s in imports(made.library.read_bytes()).symbols}) == (
        runtime == "static"
    )


@needs_nvcc
def test_a_cuda_kernel_that_opens_libraries_is_seen_beside_a_shared_runtime(tmp_path: Path) -> None:
    pasted = '#define P(a, b) a##b\nextern "C" void *P(dlo, pen)(const char *, int);\n'
    text = f'{cuda().kernel.text}\n{pasted}void *opened() {{ return P(dlo, pen)("libm.so.6", 1); }}'
    kernel = cuda().with_kernel_text(text)
    assert "dlopen" in rejection(CustomCode().before_build(kernel))
    made = CudaToolchain(tmp_path, H100).build(kernel)
    assert isinstance(made, Built), made
    assert "loads code" in rejection(CustomCode().after_build(made))


@needs_gcc
class TestForeignBuilds:
    def test_a_library_is_named_with_what_is_taken_from_it(self, tmp_path: Path) -> None:
        (tmp_path / "others.c").write_text(OTHERS)
        other = tmp_path / "libfast.so.3"
        subprocess.run(
            ["gcc", "-shared", "-fPIC", f"-Wl,-soname={other.name}", "others.c", "-o", other.name],
            cwd=tmp_path, check=True,
        )  # fmt: skip
        found = rejection(CustomCode().after_build(linked(tmp_path, CALLS, str(other))))
        assert found == "the built library needs libfast.so.3 (neutral)"

    @pytest.mark.parametrize(
        ("text", "named"),
        [
            (OPENS, "dlopen"),
            ("void *dlsym(void *, void *);\nvoid *f(void) { return dlsym(0, 0); }", "dlsym"),
            ('void *f(void *, int) __asm__("dl" "open");\nvoid *g(void) { return f(0, 1); }',
             "dlopen"),
            ("int dl_iterate_phdr(void *, void *);\nint f(void) { return dl_iterate_phdr(0, 0); }",
             "dl_iterate_phdr"),
        ],
    )  # fmt: skip
    def test_ways_to_load_code_are_seen(self, text: str, named: str, tmp_path: Path) -> None:
        found = rejection(CustomCode().after_build(linked(tmp_path, text + SOLVE)))
        assert found.startswith("the built library loads code, or looks for some")
        assert f"({named})" in found

    def test_a_symbol_that_is_left_to_the_process(self, tmp_path: Path) -> None:
        weak = "extern void neutral(void) __attribute__((weak));\nvoid f(void) { neutral(); }\n"
        found = rejection(CustomCode().after_build(linked(tmp_path, weak + SOLVE, "-Wl,-z,defs")))
        assert found == "the built library takes what the process may have loaded (neutral)"

    def test_what_cannot_be_read_is_rejected(self, tmp_path: Path) -> None:
        made = linked(tmp_path, SOLVE)
        made.library.write_bytes(b"no library")
        assert "can't be read" in rejection(CustomCode().after_build(made))

    def test_damaged_files_are_errors_and_nothing_else(self, tmp_path: Path) -> None:
        whole = linked(tmp_path, OPENS).library.read_bytes()
        assert "dlopen" in {symbol.name for symbol in imports(whole).symbols}
        for at in range(0, 1200, 7):
            for damaged in (whole[:at], whole[:at] + b"\xff\xff" + whole[at + 2 :]):
                try:
                    imports(damaged)
                except ValueError:
                    continue

    def test_a_file_whose_sections_lie_is_rejected(self, tmp_path: Path) -> None:
        """The loader reads no sections: without them, its symbols would go unseen."""
        library = bytearray(linked(tmp_path, OPENS).library.read_bytes())
        library[60:62] = b"\0\0"  # the number of sections, in a 64-bit header
        with pytest.raises(ValueError, match="different symbols"):
            imports(bytes(library))


@pytest.mark.parametrize(
    ("language", "flag"),
    [
        ("c", "-lmkl_rt"), ("c", "-l:libmkl_core.a"), ("cpp", "-lgfortran"), ("hip", "-lrocblas"),
        ("cuda", "-lcublas"), ("cuda", "-lcudart_static"), ("cuda", "--library=cudnn"),
    ],
)  # fmt: skip
def test_links_to_libraries_are_rejected_before_anything_is_built(
    language: Language, flag: str
) -> None:
    group = () if language == "cuda" else ("-Wl,--start-group", "-Wl,--end-group")
    kernel = candidate(SOLVE, language, flags=("-O2", *group, flag))
    assert "from elsewhere" in rejection(CustomCode().before_build(kernel))
    linked_too = candidate(SOLVE, language, link=(flag,))
    assert "from elsewhere" in rejection(CustomCode().before_build(linked_too))


@pytest.mark.parametrize("flag", ["-Dmm=cblas_sgemm", "-D mm=cblas_sgemm", "-DF(x)=cblas_##x"])
def test_macros_of_the_command_line_are_read(flag: str) -> None:
    text = "void mm(void);\nvoid F(sgemm)(void);\n" + SOLVE
    kernel = candidate(text, flags=tuple(flag.split(" ")))
    assert "cblas_sgemm" in rejection(CustomCode().before_build(kernel))


def test_macros_for_the_compiler_of_the_host_are_read() -> None:
    kernel = candidate(SOLVE, "cuda", flags=("-Xcompiler", "-O2,-Dmm=cblas_sgemm"))
    assert "cblas_sgemm" in rejection(CustomCode().before_build(kernel))


def test_what_is_refused_is_not_built() -> None:
    class Counting(FakeToolchain):
        asked: tuple[Candidate, ...] = ()

        def build_all(self, candidates: Sequence[Candidate]) -> tuple[Built | BuildFailed, ...]:
            self.asked = tuple(candidates)
            return super().build_all(candidates)

    class Rule(CustomCode):
        def after_build(self, built: Built) -> None:
            """A fake's library is no ELF file."""

    calls = candidate("void cblas_sgemm(void);\n" + SCALE)
    toolchain = Counting()
    first, second, third = build_all((candidate(SCALE), calls, candidate(SCALE)), toolchain, Rule())
    assert isinstance(first, Built)
    assert "cblas_sgemm" in rejection(second)
    assert isinstance(third, Built)
    assert calls not in toolchain.asked
    assert build_all((calls,), toolchain, Rule()) == (second,)
    assert isinstance(build(calls, toolchain, None), Built)


class Workplace:
    """A folder with kernels and targets."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings = Settings(folder / "cache", folder / "campaigns")
        opens = SCALE + OPENS.replace("dlopen", "P(dlo, pen)").replace(
            "#include <dlfcn.h>", "#define P(a, b) a##b\n#include <dlfcn.h>"
        )
        hidden = f"""{SCALE}
#define FIRST "dl"
#define THEN "open"
void *f(const char *, int) __asm__(FIRST THEN);
void *g(void) {{ return f("libm.so.6", 1); }}
"""
        texts = {"base.c": SCALE, "opens.c": opens, "hidden.c": hidden, "reference.py": REFERENCE}
        for name, text in texts.items():
            (folder / name).write_text(text)
        for name, kernel in (("free", "base.c"), ("custom", "base.c"), ("spoilt", "opens.c")):
            demand = "" if name == "free" else "custom_only: true\n"
            (folder / f"{name}.yaml").write_text(
                f"kernel: {kernel}\nreference: reference.py\nworkloads: [n=4096]\nthreads: 1\n"
                f"keep: {{judge_budget_s: 0.5, error_rate: 0.1}}\n{demand}"
                "stop: {max_iterations: 1}\n"
            )

    def judge(self, name: str, against: str, *, custom_only: bool = False) -> Judgement:
        is_target = against.endswith(".yaml")
        subject = api.Subject(
            path=self.folder / against,
            reference=None if is_target else self.folder / "reference.py",
            workloads=() if is_target else ("n=4096",),
        )
        return api.judge(
            self.folder / name, subject, api.Judging(budget=0.5, custom_only=custom_only),
            self.settings, SilentObserver(),
        )  # fmt: skip


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workplace]:
    place = Workplace(tmp_path_factory.mktemp("workplace"))
    with pytest.MonkeyPatch.context() as patch:
        without_ceilings(patch, place.settings.cache_dir)
        without_profilers(patch, place.folder)
        patch.setattr(patience, "LONGEST_S", 0.5)  # which one is faster is nobody's question
        yield place


@needs_gcc
class TestJudged:
    def test_the_flag_looks_at_what_was_built(self, workplace: Workplace) -> None:
        """The source alone shows nothing: the name is whole only once all is compiled."""
        open_to_all = workplace.judge("hidden.c", "base.c")
        assert open_to_all.outcome.kind == "passed"
        found = workplace.judge("hidden.c", "base.c", custom_only=True)
        assert "loads code" in rejection(found.outcome)  # type: ignore[arg-type]
        assert found.verdict == "rejected"

    @pytest.mark.whole
    def test_a_target_demands_it_as_well(self, workplace: Workplace) -> None:
        assert workplace.judge("opens.c", "free.yaml").outcome.kind == "passed"
        found = workplace.judge("opens.c", "custom.yaml").outcome
        assert "dlopen" in rejection(found)  # type: ignore[arg-type]

    def test_the_other_kernel_may_be_anybodys(self, workplace: Workplace) -> None:
        found = workplace.judge("base.c", "spoilt.yaml", custom_only=True)
        assert found.outcome.kind == "passed"

    @pytest.mark.whole
    def test_check_obeys_the_target(self, workplace: Workplace) -> None:
        spoilt = api.Subject(path=workplace.folder / "spoilt.yaml")
        found = api.check(spoilt, workplace.settings, SilentObserver()).outcome
        assert "dlopen" in rejection(found)  # type: ignore[arg-type]
        custom = api.Subject(path=workplace.folder / "custom.yaml")
        assert api.check(custom, workplace.settings, SilentObserver()).outcome.kind == "passed"


@needs_gcc
class TestCampaigns:
    def test_a_told_kernel_that_calls_a_library_is_rejected(self, workplace: Workplace) -> None:
        directory = workplace.folder / "told"
        plan = api.CampaignPlan(api.Subject(workplace.folder / "custom.yaml"), "none")
        api.optimize(plan, directory, workplace.settings, SilentObserver())
        change = api.SubmittedChange(
            kernel=workplace.folder / "opens.c", hypothesis="a library is faster"
        )
        with api.open_session(directory, workplace.settings, SilentObserver()) as session:
            session.tell(change, api.SessionLimits(max_iterations=5))
        events = JsonlLedger(directory / "ledger.jsonl").events()
        (round_,) = [event for event in events if event.kind == "round"]
        assert "dlopen" in rejection(round_.judgement.outcome)  # type: ignore[arg-type]
        assert api.verify_campaign(directory).findings == ()

    def test_a_baseline_does_its_own_work_too(self, workplace: Workplace) -> None:
        with pytest.raises(BaselineError, match="library_call"):
            api.optimize(
                api.CampaignPlan(api.Subject(workplace.folder / "spoilt.yaml"), "none"),
                workplace.folder / "never", workplace.settings, SilentObserver(),
            )  # fmt: skip


class TestTargets:
    def test_a_target_that_demands_nothing_keeps_its_digest(self, workplace: Workplace) -> None:
        free = load_target(workplace.folder / "free.yaml")
        custom = load_target(workplace.folder / "custom.yaml")
        assert "custom_only" not in free.model_dump(mode="json")
        assert custom.model_dump(mode="json")["custom_only"] is True
        assert free.model_copy(update={"custom_only": True, "name": "custom"}).digest == (
            custom.model_copy(update={"name": "custom"}).digest
        )
        for target in (free, custom):
            assert Target.model_validate_json(target.model_dump_json()) == target

    def test_the_demand_is_yes_or_no(self, workplace: Workplace) -> None:
        (workplace.folder / "wrong.yaml").write_text("kernel: base.c\ncustom_only: 3\n")
        with pytest.raises(UsageError, match="custom_only"):
            load_target(workplace.folder / "wrong.yaml")
