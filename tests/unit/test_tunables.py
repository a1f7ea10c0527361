"""Tunables of kernels that nobody has seen: what is found, what is left alone, what edits do."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofsmith.domain.kernel import BuildSpec, Candidate, Language, SourceFile
from roofsmith.proposers.tunables import (
    Found,
    Setting,
    Tunable,
    apply,
    declared_tunables,
    find_tunables,
)
from roofsmith.proposers.tunables_sites import around, schedules, thread_counts

ISA = ("avx2", "fma")


def kernel(text: str, *flags: str, language: Language = "c", **environment: str) -> Candidate:
    name = "solve.c" if language == "c" else "solve.cpp"
    return Candidate(
        language=language,
        sources=(SourceFile(path=name, text=text),),
        build=BuildSpec(flags=("-O3", "-march=native", *flags), environment=environment),
    )


def found_in(text: str, *flags: str, threads: int = 4, **environment: str) -> Found:
    return find_tunables(kernel(text, *flags, **environment), threads=threads, isa=ISA)


def in_source(text: str, threads: int = 4) -> dict[str, Tunable]:
    found = found_in(text, threads=threads)
    return {t.name: t for t in (*found.of("declared"), *found.of("found"))}


def solve(body: str, head: str = "") -> str:
    return f"{head}\nvoid solve(const float *a, float *out, int N) {{\n{body}\n}}\n"


def used_as_step(name: str) -> str:
    return f"  for (int i = 0; i < N; i += {name}) out[i] = a[i];"


class TestDeclared:
    @pytest.mark.parametrize(
        "declaration",
        [
            "// tune: BM = 64 [16, 32, 64, 128]\n#define BM 64",
            "/* tune: BM = 64 [16, 32, 64, 128] */\n#define BM 64",
            "/* Block sizes.\n * tune: BM = 64 [16, 32, 64, 128]\n */\n#define BM 64",
            "#define BM 64 // tune: BM = 64 [16, 32, 64, 128]",
            "#define BM (64) /* tune: BM = 64 [16,32,64,128,] */",
            "#define BM 0x40u // tune: BM = 64 [16, 32, 64, 128]",
            "static const int BM = 64; // tune: BM = 64 [16, 32, 64, 128]",
            "enum { OTHER, BM = 64 }; // tune: BM = 64 [16, 32, 64, 128]",
            "#ifndef BM\n// tune: BM = 64 [16, 32, 64, 128]\n#define BM 64\n#endif",
        ],
    )
    def test_every_spelling_is_read_with_its_list(self, declaration: str) -> None:
        text = solve("  out[0] = BM;", declaration)
        tunable = in_source(text)["BM"]
        assert (tunable.kind, tunable.current) == ("declared", 64)
        assert tunable.choices == (16, 32, 64, 128)
        assert declared_tunables(kernel(text)) == ("BM",)

    def test_definition_and_declaration_change_together(self) -> None:
        text = solve("", "// tune: BM = 64 [16, 64]\n#define BM 64ul // not 64 [16]")
        changed = apply(kernel(text), {"BM": 16}).kernel.text
        assert changed == solve("", "// tune: BM = 16 [16, 64]\n#define BM 16ul // not 64 [16]")

    def test_a_value_outside_the_list_is_still_a_choice(self) -> None:
        tunable = in_source(solve("", "#define BM 48 // tune: BM = 64 [16, 64]"))["BM"]
        assert tunable.current == 48
        assert tunable.choices == (16, 48, 64)

    @pytest.mark.parametrize(
        "text",
        [
            "// tune: KB = 64 [16, 64]",
            "\n#define KB 64 // tune: KB in 16..64",
            "// We tune: BM = 64 [16] by hand.\n#define BM 64",
        ],
    )
    def test_a_line_without_a_definition_or_a_list_declares_nothing(self, text: str) -> None:
        assert not found_in(solve("", text)).of("declared")

    def test_a_declaration_belongs_to_the_definition_below_it(self) -> None:
        text = (
            "// tune: T = 4 [2, 4]\n#define T 4\nvoid f(float *p) {\n"
            "  // tune: T = 8 [8, 16]\n  const int T = 8;\n  p[T] = 0;\n}\n"
        )
        found = in_source(text)
        assert found["T@2"].choices == (2, 4)
        assert found["T@5"].choices == (8, 16)

    def test_what_it_leaves_out_is_no_tunable(self) -> None:
        text = solve(used_as_step("PARTS"), "#define PARTS 8")
        assert "PARTS" in in_source(text)
        assert set(in_source("#define T 4 // tune: T = 4 [2, 4]\n" + text)) == {"T"}


class TestConstants:
    @pytest.mark.parametrize(
        "definition",
        [
            "#define TILE 32",
            "#define TILE (32) // elements",
            "static const unsigned long TILE = 32ul;",
            "enum { TILE = 32 };",
            "#ifndef TILE\n#define TILE 32\n#endif",
        ],
    )
    @pytest.mark.parametrize(
        "use",
        [
            used_as_step("TILE"),
            "  for (int i = 0; i + TILE <= N; i++) out[i] = a[i];",
            "  float block[4 * TILE]; out[0] = block[0];",
            "  int i = 0; while (i + TILE < N) i++;",
            "  float *p = malloc(TILE * sizeof(float)); out[0] = p[0];",
            "  int step = TILE / 2; for (int i = 0; i < N; i += step) out[i] = a[i];",
        ],
    )
    def test_structural_ones_are_found(self, definition: str, use: str) -> None:
        tunable = in_source(solve(use, definition))["TILE"]
        assert tunable.kind == "constant"
        assert tunable.current == 32
        assert set(tunable.choices) >= {8, 16, 32, 64, 128}

    def test_one_that_sizes_blocks_through_macros_is_found(self) -> None:
        head = "#define VL 8\n#define MR (6 * VL)\n#define EACH(i) for (int i = 0; i < MR; i++)"
        assert "VL" in in_source(solve("  EACH(i) out[i] = a[i];", head))

    def test_a_local_one_is_found_by_its_uses_in_its_own_block(self) -> None:
        other = "void f(float *p) { const int U = 4; p[0] *= U; }\n"
        text = other + solve("  const int U = 8;\n" + used_as_step("U"))
        assert {n: t.current for n, t in in_source(text).items()} == {"U@4": 8}

    @pytest.mark.parametrize(
        ("definition", "body"),
        [
            ("#define KERNEL_H", used_as_step("1")),
            ("#ifndef KERNEL_H\n#define KERNEL_H 1\n#endif", used_as_step("1")),
            ("#define _POSIX_C_SOURCE 200809L", used_as_step("1")),
            ("#define API_VERSION 3", used_as_step("API_VERSION")),
            ("#define BIAS 127", "  out[0] = a[0] * BIAS;"),
            ("static const int LOG2E_BITS = 23;", "  out[0] = (float)(1 << LOG2E_BITS);"),
            ("#define SCALE 2.5f", used_as_step("1")),
            ("static const float EIGHT = 8;", used_as_step("EIGHT")),
            ("#define FIRST 0", "  for (int i = FIRST; i < N; i++) out[i] = a[i];"),
            ("int tile = 64;", used_as_step("tile")),
            ("#define MODE 010", used_as_step("MODE")),
        ],
    )
    def test_others_are_left_alone(self, definition: str, body: str) -> None:
        assert in_source(solve(body, definition)) == {}

    def test_a_flag_counts_where_if_reads_its_value(self) -> None:
        head = "#define PREFETCH 0\n#if PREFETCH && defined(X)\n#endif"
        assert in_source(solve("", head))["PREFETCH"].choices == (0, 1)
        assert in_source(solve("", "#define X 0\n#ifdef X\n#endif")) == {}

    def test_a_step_of_one_can_grow(self) -> None:
        assert in_source(solve(used_as_step("U"), "#define U 1"))["U"].choices == (1, 2, 4)

    def test_a_thread_count_stays_within_the_processors(self) -> None:
        body = "#pragma omp parallel for num_threads(NT)\n" + used_as_step("1")
        assert in_source(solve(body, "#define NT 2"), threads=6)["NT"].choices == (1, 2, 3, 4, 6)

    def test_the_command_line_overrides_the_file(self) -> None:
        text = solve(used_as_step("T"), "#ifndef T\n#define T 8 // tune: T = 8 [8, 16]\n#endif")
        candidate = kernel(text, "-DT=16")
        (tunable,) = find_tunables(candidate, threads=1).of("declared")
        assert (tunable.current, tunable.where, tunable.choices) == (16, "build", (8, 16))
        changed = apply(candidate, {"T": 8})
        assert changed.kernel == candidate.kernel
        assert changed.build.flags == ("-O3", "-march=native", "-DT=8")


class TestPragmasAndClauses:
    def test_unroll_factors_in_every_spelling(self) -> None:
        pragmas = ("GCC unroll 4", "unroll 4", "unroll(4)", "clang loop unroll_count(4)")
        body = "".join(f"#pragma {p}\n{used_as_step('1')}\n" for p in pragmas)
        found = in_source(solve(body))
        assert [t.where for t in found.values()] == [f"solve.c:{n}" for n in (3, 5, 7, 9)]
        assert all(t.kind == "unroll" and t.choices == (1, 2, 4, 8, 16) for t in found.values())

    def test_openmp_clauses_also_on_continued_lines(self) -> None:
        pragma = "#pragma omp parallel for \\\n    num_threads(2) schedule(dynamic, 8)\n"
        candidate = kernel(solve(pragma + used_as_step("1")))
        found = find_tunables(candidate, threads=4)
        threads, schedule = found.of("found")
        assert (threads.where, threads.choices) == ("solve.c:4", (1, 2, 4))
        assert schedule.current == "dynamic, 8"
        changed = apply(candidate, {schedule.name: "guided", threads.name: 4})
        assert "    num_threads(4) schedule(guided)\n" in changed.kernel.text

    def test_what_is_no_plain_number_is_left_alone(self) -> None:
        body = "#pragma omp parallel for num_threads(n) schedule(static, N / 4)\n"
        assert in_source(solve(body + used_as_step("1"))) == {}

    def test_thread_calls(self) -> None:
        found = in_source(solve("  omp_set_num_threads(3);"))
        assert found["num_threads@3"].choices == (1, 2, 3, 4)

    def test_comments_and_strings_hold_no_tunables(self) -> None:
        body = '  // #pragma GCC unroll 4\n  puts("#pragma GCC unroll 4"); /* #define T 4 */'
        assert in_source(solve(body)) == {}


class TestBuild:
    def flags(self, *flags: str, isa: tuple[str, ...] = ISA) -> dict[str, Tunable]:
        found = find_tunables(kernel(solve(""), *flags), threads=2, isa=isa)
        return {t.name: t for t in found.of("build")}

    def test_levels_are_read_from_the_last_flag_that_decides(self) -> None:
        found = self.flags("-O2", "-funroll-loops", "-fno-unroll-loops", "-fno-math-errno")
        assert found["-O"].current == "-O2"
        assert found["-funroll-loops"].current == "off"
        assert found["float-math"].current == "no-errno"

    def test_vector_widths_are_those_of_the_device(self) -> None:
        assert "-mprefer-vector-width" not in self.flags(isa=("sse2",))
        assert self.flags()["-mprefer-vector-width"].choices == ("none", "256")
        wide = self.flags(isa=("avx2", "avx512f"))["-mprefer-vector-width"]
        assert wide.choices == ("none", "256", "512")

    def test_no_choice_assumes_that_numbers_are_finite(self) -> None:
        candidate = kernel(solve(""), "-fopenmp")
        for tunable in find_tunables(candidate, threads=2, isa=(*ISA, "avx512f")).tunables:
            for choice in tunable.choices:
                flags = apply(candidate, {tunable.name: choice}).build.flags
                assert not {"-ffast-math", "-ffinite-math-only", "-Ofast"} & set(flags)
                assert "-fno-tree-vectorize" not in flags

    def test_reassociation_gives_up_what_gcc_asks_for(self) -> None:
        flags = apply(kernel(solve("")), {"float-math": "reassociate"}).build.flags
        assert {"-fassociative-math", "-fno-signed-zeros", "-fno-trapping-math"} <= set(flags)

    def test_an_author_who_chose_loose_rules_keeps_them(self) -> None:
        assert "float-math" not in self.flags("-ffast-math")
        assert "-O" not in self.flags("-Ofast")

    def test_a_combination_of_ones_own_is_a_choice(self) -> None:
        found = self.flags("-fassociative-math")["float-math"]
        assert found.current == found.choices[0]
        assert "-fassociative-math" in str(found.current)

    def test_threads_are_a_tunable_where_openmp_is_on(self) -> None:
        assert "env:OMP_NUM_THREADS" not in self.flags()
        assert self.flags("-fopenmp")["env:OMP_NUM_THREADS"].choices == (1, "unset")
        found = found_in(solve(""), "-fopenmp", threads=4, OMP_NUM_THREADS="2")
        omp = next(t for t in found.of("build") if t.kind == "environment")
        assert (omp.current, omp.choices) == (2, (1, 2, 4))


class TestChoices:
    @given(st.integers(1, 1 << 28))
    def test_they_hold_the_value_and_are_few_and_positive(self, value: int) -> None:
        choices = around(value, lowest=1)
        assert value in choices
        assert 2 <= len(choices) <= 5
        assert choices[0] >= 1
        assert list(choices) == sorted(set(choices))

    @given(st.integers(1, 4096), st.integers(0, 8))
    def test_divisibility_by_a_vector_width_is_kept(self, odd: int, exponent: int) -> None:
        value = (2 * odd + 1) << exponent
        assert all(choice % (1 << exponent) == 0 for choice in around(value, lowest=1))

    @given(st.integers(1, 1024), st.integers(1, 1024))
    def test_thread_counts_end_at_all_processors(self, threads: int, current: int) -> None:
        counts = thread_counts(threads, current)
        assert {1, threads, current} <= set(counts)
        assert max(counts) == max(threads, current)

    def test_schedules_do_not_repeat_the_current_one(self) -> None:
        assert schedules("static , 4")[0] == "static , 4"
        assert "dynamic,4" not in schedules("dynamic, 4")


# -- properties of edits over generated kernels --------------------------------------------------

_PIECES = (
    "#define BM {v} // tune: BM = {v} [16, 32, 64]",
    "/* größe */ static const int KC = {v};",
    "enum {{ FIRST, NR = {v} }};\r",
    "#ifndef PF\n#define PF 1\n#endif\n#if PF\n#endif",
    "#define VL {v}u\n#define WIDE (VL*2)",
)
_BODIES = (
    "for (int i = 0; i < N; i += BM) {{ float t[KC]; t[0] = 0; }}",
    "#pragma GCC unroll {v}\nfor (int j = 0; j + WIDE < NR; j++) out[j] = a[j];",
    "#pragma omp parallel for num_threads(2) schedule(static, {v})\nfor (int i = 0; i < N; i++);",
    "const int KC = {v}; for (int k = 0; k < KC; k++) out[k] = 64;",
    "while (N > KC) N -= NR; /* tune: nothing */",
)
_FLAGS = ("-fopenmp", "-funroll-loops", "-fno-math-errno", "-fno-signed-zeros", "-DBM=32", "-g",
          "-mprefer-vector-width=256", "-O2")  # fmt: skip


@st.composite
def candidates(draw: st.DrawFn) -> Candidate:
    values = st.sampled_from([2, 3, 4, 6, 8, 16, 24, 64, 100])
    pieces = draw(st.lists(st.sampled_from(_PIECES), unique=True))
    bodies = draw(st.lists(st.sampled_from(_BODIES), max_size=4))
    head = "\n".join(piece.format(v=draw(values)) for piece in pieces)
    body = "\n".join("{ " + b.format(v=draw(values)) + "\n}" if b[0] != "#"
                     else b.format(v=draw(values)) for b in bodies)  # fmt: skip
    flags = draw(st.lists(st.sampled_from(_FLAGS), unique=True))
    environment = draw(st.sampled_from([{}, {"OMP_NUM_THREADS": "2"}]))
    return kernel(solve(body, head), *flags, **environment)


@st.composite
def assigned(draw: st.DrawFn) -> tuple[Candidate, Found, dict[str, Setting]]:
    candidate = draw(candidates())
    found = find_tunables(candidate, threads=4, isa=(*ISA, "avx512f"))
    chosen = draw(st.lists(st.sampled_from(found.tunables), unique=True))
    return candidate, found, {t.name: draw(st.sampled_from(t.choices)) for t in chosen}


class TestEdits:
    @given(candidates())
    def test_current_values_are_the_identity(self, candidate: Candidate) -> None:
        found = find_tunables(candidate, threads=4, isa=ISA)
        assert apply(candidate, found.current) == candidate

    @given(assigned())
    @settings(max_examples=200)
    def test_assigned_values_are_found_again(
        self, case: tuple[Candidate, Found, dict[str, Setting]]
    ) -> None:
        candidate, found, assignment = case
        again = find_tunables(apply(candidate, assignment), threads=4, isa=(*ISA, "avx512f"))
        assert again.current == {**found.current, **assignment}

    @given(assigned(), st.randoms(use_true_random=False))
    @settings(max_examples=200)
    def test_edits_commute(self, case: tuple[Candidate, Found, dict[str, Setting]], rng) -> None:
        candidate, _, assignment = case
        at_once = apply(candidate, assignment)
        names = list(assignment)
        rng.shuffle(names)
        one_by_one = candidate
        for name in names:
            one_by_one = apply(one_by_one, {name: assignment[name]})
        assert one_by_one.id == at_once.id

    @given(assigned())
    def test_nothing_else_changes(self, case: tuple[Candidate, Found, dict[str, Setting]]) -> None:
        candidate, found, assignment = case
        changed = apply(candidate, assignment)
        old, new = (c.kernel.text.split("\n") for c in (candidate, changed))
        lines = {
            int(t.where.split(":")[1]) for t in found.tunables
            if t.name in assignment and t.where != "build"
        }  # fmt: skip
        different = {
            n for n, pair in enumerate(zip(old, new, strict=True), 1) if len(set(pair)) > 1
        }
        assert different <= lines

    def test_back_and_forth_gives_every_byte_again(self) -> None:
        text = "/* ärgerlich */\r\n#define T 8\t// tune: T = 8 [8, 16]\r\n" + solve("")
        candidate = kernel(text)
        assert apply(apply(candidate, {"T": 16}), {"T": 8}) == candidate

    def test_an_unknown_name_is_an_error_that_names_it(self) -> None:
        with pytest.raises(KeyError, match=r"solve\.c has no tunable NOPE"):
            apply(kernel(solve("")), {"NOPE": 1})


def test_cpp_constants_are_found() -> None:
    text = (
        "static constexpr int T = 16;\nnamespace { constexpr unsigned U{4}; }\n"
        'extern "C" void solve(const float *a, float *out, int N) {\n'
        "  constexpr int V = 8;\n"
        "  for (int i = 0; i < N; i += T) for (int j = 0; j < V; ++j) out[i + j] = a[i + j];\n}\n"
    )
    found = find_tunables(kernel(text, language="cpp"), threads=1).of("found")
    assert {t.name: t.current for t in found} == {"T": 16, "V": 8}


def test_a_file_that_does_not_parse_still_gives_what_can_be_read() -> None:
    text = "#define T 8 // tune: T = 8 [8, 16]\nvoid solve(float *out, int N) { for (int i = {{{ \n"
    assert in_source(text)["T"].choices == (8, 16)


@given(
    st.text(alphabet="#define const int TUNE:=[]{}()/*\n0123456789'\"pragma unroll\\", max_size=80)
)
def test_no_text_makes_it_fail(text: str) -> None:
    candidate = kernel(text)
    found = find_tunables(candidate, threads=2)
    assert apply(candidate, found.current) == candidate


def test_other_files_of_the_candidate_are_not_edited() -> None:
    header = SourceFile(path="sizes.h", text="#define T 8 // tune: T = 8 [8, 16]\n")
    candidate = kernel(solve(used_as_step("T")))
    candidate = candidate.model_copy(update={"sources": (*candidate.sources, header)})
    assert not find_tunables(candidate, threads=1).of("declared")
