"""The signature reader: what it understands, what it refuses, and how it says so."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofsmith import api
from roofsmith.domain.kernel import BuildSpec, Candidate, Language, SourceFile
from roofsmith.errors import SignatureError
from roofsmith.toolchains import read_signature
from roofsmith.toolchains.gpu_dialect import blank_launches
from roofsmith.toolchains.grammar import blank_comments
from roofsmith.toolchains.signature import entry_in


def candidate(
    text: str,
    *others: tuple[str, str],
    language: Language = "c",
    flags: tuple[str, ...] = (),
    entry: str = "solve",
) -> Candidate:
    suffix = {"cuda": "cu"}.get(language, language)
    files = [(f"kernel.{suffix}", text), *others]
    return Candidate(
        language=language,
        sources=tuple(SourceFile(path=path, text=body) for path, body in files),
        build=BuildSpec(flags=flags),
        entry=entry,
    )


def read(
    text: str,
    *others: tuple[str, str],
    language: Language = "c",
    flags: tuple[str, ...] = (),
    entry: str = "solve",
) -> list[tuple[str, str, str]]:
    signature = read_signature(
        candidate(text, *others, language=language, flags=flags, entry=entry)
    )
    return [(p.name, p.role, p.dtype) for p in signature.parameters]


def refusal(text: str, *others: tuple[str, str], language: Language = "c") -> str:
    with pytest.raises(SignatureError) as caught:
        read(text, *others, language=language)
    return str(caught.value)


class TestParameters:
    @pytest.mark.parametrize(
        ("spelled", "role", "dtype"),
        [
            ("const float *restrict p", "input", "float32"),
            ("float const* p", "input", "float32"),
            ("float *__restrict__ p", "output", "float32"),
            ("float *__restrict p", "output", "float32"),
            ("__const double *p", "input", "float64"),
            ("float * const p", "output", "float32"),
            ("const float * const restrict p", "input", "float32"),
            ("float p[]", "output", "float32"),
            ("const float p[static 16]", "input", "float32"),
            ("const double (*p)", "input", "float64"),
            ("float *__attribute__((aligned(64))) p", "output", "float32"),
            ("float *p __attribute__((aligned(64), nonnull))", "output", "float32"),
            ("volatile float *p", "output", "float32"),
            ("_Float16 *p", "output", "float16"),
            ("const __bf16 *p", "input", "bfloat16"),
            ("int8_t *p", "output", "int8"),
            ("unsigned char *p", "output", "uint8"),
            ("const signed char *p", "input", "int8"),
            ("const uint64_t *p", "input", "uint64"),
            ("unsigned *p", "output", "uint32"),
            ("unsigned const int *p", "input", "uint32"),
            ("const double p[n][m]", "input", "float64"),
            ("double p[restrict 8][4][2]", "output", "float64"),
            ("const float (*restrict p)[m]", "input", "float32"),
            ("const float complex *p", "input", "float32"),
            ("_Complex double *restrict p", "output", "float64"),
        ],
    )
    def test_arrays(self, spelled: str, role: str, dtype: str) -> None:
        assert read(f"void solve({spelled}, float *out) {{}}")[0] == ("p", role, dtype)

    @pytest.mark.parametrize(
        ("spelled", "dtype"),
        [
            ("int n", "int32"), ("const int n", "int32"), ("unsigned n", "uint32"),
            ("short n", "int16"), ("long n", "int64"), ("long long n", "int64"),
            ("unsigned long long int n", "uint64"), ("int long unsigned n", "uint64"),
            ("size_t n", "uint64"), ("ptrdiff_t n", "int64"), ("int16_t n", "int16"),
            ("uint32_t n", "uint32"), ("signed n", "int32"), ("long int n", "int64"),
            ("float n", "float32"), ("const double n", "float64"), ("_Bool n", "bool"),
        ],
    )  # fmt: skip
    def test_numbers_by_value(self, spelled: str, dtype: str) -> None:
        assert read(f"void solve(float *out, {spelled}) {{}}")[1] == ("n", "size", dtype)

    def test_pointers_without_any_const_are_all_outputs(self) -> None:
        assert [role for _, role, _ in read("void solve(float *a, float *b, int n) {}")] == [
            "output", "output", "size",
        ]  # fmt: skip

    def test_typedefs_and_usings_resolve(self) -> None:
        text = """
            typedef float real, *reals;
            typedef const real creal;
            typedef real other;
            void solve(creal *a, const other *b, const reals c, int n) {}
        """
        assert [(r, d) for _, r, d in read(text)[:3]] == [
            ("input", "float32"), ("input", "float32"), ("output", "float32"),
        ]  # fmt: skip
        text = 'using real = double; extern "C" void solve(real *a, const std::size_t n) {}'
        assert read(text, language="cpp") == [("a", "output", "float64"), ("n", "size", "uint64")]

    def test_arrays_that_a_typedef_names(self) -> None:
        text = "typedef double row[4];\nvoid solve(const row *a, row b, row *c) {}"
        assert [role for _, role, _ in read(text)] == ["input", "output", "output"]

    def test_structs_of_one_number_type_are_their_numbers(self) -> None:
        text = """
            typedef struct Body Body;
            typedef float real;
            struct Body { real x, y[3]; };
            typedef struct { struct Body pair[2]; float mass; } Both;
            void solve(const Body *a, const struct Body *b, Both *c) {}
        """
        assert [(r, d) for _, r, d in read(text)] == [
            ("input", "float32"), ("input", "float32"), ("output", "float32"),
        ]  # fmt: skip
        text = 'struct Body { float x, y; };\nextern "C" void solve(Body *a) {}'
        assert read(text, language="cpp") == [("a", "output", "float32")]

    @pytest.mark.parametrize(
        ("spelled", "dtype"),
        [
            ("float4", "float32"), ("double2", "float64"), ("uchar4", "uint8"),
            ("half2", "float16"), ("__nv_bfloat162", "bfloat16"), ("cuDoubleComplex", "float64"),
            ("std::complex<float>", "float32"), ("__nv_fp8_e4m3", "uint8"),
        ],
    )  # fmt: skip
    def test_vectors_are_pointed_to_as_their_numbers(self, spelled: str, dtype: str) -> None:
        text = f'extern "C" void solve(const {spelled} *a, {spelled} *b) {{}}'
        assert read(text, language="cuda") == [("a", "input", dtype), ("b", "output", dtype)]

    def test_another_entry_name(self) -> None:
        text = "void solve(int *a) {}\nvoid softmax(const float *x, float *y) {}"
        assert [name for name, _, _ in read(text, entry="softmax")] == ["x", "y"]


class TestSurroundings:
    def test_comments_strings_prototypes_and_other_functions(self) -> None:
        text = r"""
            /* void solve(int wrong) {} */
            // void solve(int wrong) {}
            static const char *doc = "void solve(int wrong) { \" ";
            void solve(const float *x /* rows, cols */, // a ) here
                       float *y, int n);
            static inline float helper(float v) { return v * '"'; }
            void
            solve // the kernel
            (const float *x, float *y, int n)
            { for (int i = 0; i < n; i++) y[i] = helper(x[i]); }
            int after(void) { return 0; }
        """
        assert [name for name, _, _ in read(text)] == ["x", "y", "n"]

    @pytest.mark.parametrize("language", ["c", "cpp"])
    def test_extern_c_between_ifdefs(self, language: Language) -> None:
        text = """
            #include <stddef.h>
            #ifdef __cplusplus
            extern "C" {
            #endif
            void solve(const float *a, float *b, size_t n) { b[0] = a[n - 1]; }
            #ifdef __cplusplus
            }
            #endif
        """
        assert read(text, language=language)[2] == ("n", "size", "uint64")

    def test_extern_c_on_a_prototype_or_behind_a_macro(self) -> None:
        text = 'extern "C" void solve(float *a);\nvoid solve(float *a) {}'
        assert read(text, language="cpp")
        text = '#define API extern "C" __attribute__((cold))\nAPI void solve(float *a) {}'
        assert read(text, language="cpp")

    def test_macros_in_the_signature(self) -> None:
        text = """
            #if defined(__GNUC__) && !defined(_MSC_VER)
            #  define RESTRICT __restrict__
            #else
            #  define RESTRICT
            #endif
            #define T \\
                double
            #define EXPORT __attribute__((visibility("default")))
            EXPORT void solve(const T *RESTRICT a, T *RESTRICT b, int n) {}
        """
        assert [(r, d) for _, r, d in read(text)[:2]] == [
            ("input", "float64"),
            ("output", "float64"),
        ]

    def test_macros_from_the_flags(self) -> None:
        text = "#ifndef T\n#define T float\n#endif\nvoid solve(T *a) {}"
        assert read(text) == [("a", "output", "float32")]
        assert read(text, flags=("-DT=double",)) == [("a", "output", "float64")]
        assert read(text, flags=("-D", "T=int")) == [("a", "output", "int32")]

    def test_the_branch_that_is_compiled_counts(self) -> None:
        text = """
            #if 0
            void solve(int *old) {}
            #elif WIDTH * 2 >= 8
            void solve(double *wide) {}
            #else
            void solve(float *narrow) {}
            #endif
        """
        assert read(text)[0][0] == "narrow"
        assert read(text, flags=("-DWIDTH=4",))[0][0] == "wide"

    def test_what_only_the_compiler_knows_is_as_the_compiler_says(self) -> None:
        text = """
            #if __STDC_VERSION__ >= 201112L && defined(__AVX512F__)
            #define ARRAY(type) type *restrict
            #else
            #define ARRAY(type) const type *
            #endif
            void solve(ARRAY(float) a, float *b) { b[0] = a[0]; }
        """
        assert [role for _, role, _ in read(text)] == ["input", "output"]
        assert read(text, flags=("-mavx512f",))[0] == ("a", "output", "float32")

    def test_types_from_the_candidates_own_headers(self) -> None:
        header = ("inc/types.h", "#pragma once\ntypedef short real;\n#define R restrict\n")
        text = '#include "inc/types.h"\nvoid solve(real *R a) {}'
        assert read(text, header) == [("a", "output", "int16")]

    @pytest.mark.slow
    def test_headers_that_include_each_other_end(self) -> None:
        text = '#include "a.h"\nvoid solve(float *a) {}'
        others = ("a.h", '#include "b.h"\n'), ("b.h", '#include "a.h"\n#include "kernel.c"\n')
        assert read(text, *others) == [("a", "output", "float32")]

    @pytest.mark.parametrize(
        "broken",
        [
            "int broken(void) { return ; x = = 3 }",
            "static float f(float v) { if (v { return 1; }",
            "int f( {{{",
            "@ $ garbage `",
        ],
    )
    def test_errors_elsewhere_do_not_matter(self, broken: str) -> None:
        text = f"{broken}\nvoid solve(const float *a, float *b, int n) {{ b[0] = a[0]; }}\n"
        assert [role for _, role, _ in read(text)] == ["input", "output", "size"]

    def test_cpp_with_templates_and_namespaces(self) -> None:
        text = """
            namespace impl { template <class T> void run(const T *a, T *b) { b[0] = a[0]; } }
            auto raw = R"x( void solve(int *wrong) { )x";
            extern "C" void solve(const float *__restrict__ a, float *b, int n = 1'000) noexcept
            { impl::run<float>(a, b); }
        """
        assert len(read(text, language="cpp")) == 3


class TestRefusals:
    @pytest.mark.parametrize(
        ("parameter", "why"),
        [
            ("_Float16 alpha", "is a _Float16 by value"),
            ("float complex alpha", "by value"),
            ("float **rows", "pointer to pointers"),
            ("float *rows[4]", "pointer to pointers"),
            ("struct { int a; float b; } *p", "one number type"),
            ("struct params *p", "points to `struct params`"),
            ("struct { int a; } p", "`struct` by value"),
            ("void *p", "points to `void`"),
            ("char *p", "sign differs"),
            ("char c", "sign differs"),
            ("long double *p", "points to `long double`"),
            ("unknown_t *p", "points to `unknown_t`"),
            ("void (*callback)(int)", "function"),
            ("float *", "has no name"),
            ("...", "can't be read"),
            ("float *a int b", "can't be read"),
        ],
    )
    def test_a_parameter_outside_the_contract(self, parameter: str, why: str) -> None:
        message = refusal(f"\n\nvoid solve(float *out,\n  {parameter})\n{{}}")
        assert message.startswith("kernel.c:4: parameter 2 of solve, ")
        assert why in message
        assert "void solve(const T *input" in message

    def test_all_parameters_outside_the_contract_are_named(self) -> None:
        message = refusal("void solve(float **a, int n, void *b) {}")
        assert "parameter 1 of solve" in message
        assert "parameter 3 of solve" in message

    def test_a_reference_in_cpp(self) -> None:
        message = refusal('extern "C" void solve(float *a, const int &n) {}', language="cpp")
        assert "is a reference" in message

    def test_no_output(self) -> None:
        assert "has no output" in refusal("void solve(const float *a, int n) {}")
        assert "has no output" in refusal("void solve(void) {}")

    def test_static(self) -> None:
        assert "kernel.c:1: solve is static" in refusal("static void solve(float *a) {}")
        assert "is static" in refusal("static void solve(float *);\nvoid solve(float *a) {}")

    def test_no_c_linkage(self) -> None:
        message = refusal("namespace {}\nvoid solve(float *a) {}", language="cpp")
        assert 'kernel.cpp:2: solve is not extern "C"' in message

    @pytest.mark.parametrize("returned", ["int ", "unsigned long ", "float *"])
    def test_a_result(self, returned: str) -> None:
        assert f"solve returns `{returned.strip()}`" in refusal(
            f"{returned}solve(float *a) {{ return 0; }}"
        )

    def test_a_missing_entry_lists_what_is_there(self) -> None:
        message = refusal("void softmax(float *a) {}\nstatic int helper(void) { return 1; }")
        assert "no function named solve" in message
        assert "softmax (kernel.c:1), helper (kernel.c:2)" in message
        assert "functions found: none" in refusal("")

    def test_only_a_prototype(self) -> None:
        message = refusal("\nvoid solve(float *a);\nvoid run(float *a) { solve(a); }")
        assert "kernel.c:2: solve is declared but has no body" in message

    def test_definitions_that_differ(self) -> None:
        message = refusal("void solve(double *a) {}\nvoid solve(float *a) {}")
        assert "more than one way: kernel.c:1, kernel.c:2" in message

    @pytest.mark.parametrize("declarator", ["(" * 9999 + "a" + ")" * 9999, "*" * 9999 + "a"])
    def test_a_declarator_without_end(self, declarator: str) -> None:
        message = refusal(f"void solve(float {declarator}) {{}}")
        assert "parameter 1 of solve" in message
        assert len(message) < 1000

    def test_macros_that_explode_are_a_refusal(self) -> None:
        lines = [f"#define M{i + 1} " + f"M{i} " * 50 for i in range(8)]
        message = refusal("\n".join([*lines, "void solve(float *a, M8 b) {}"]))
        assert message.startswith("kernel.c can't be preprocessed")

    def test_files_outside_of_the_candidate_are_not_read(self) -> None:
        message = refusal('void solve(\n#inc\\\nlude "/etc/passwd"\n)\n{}')
        assert "root" not in message


ELEMENTS = {
    "float": "float32", "double": "float64", "int": "int32", "unsigned": "uint32",
    "int64_t": "int64", "uint8_t": "uint8", "_Float16": "float16", "real": "float32",
    "MACRO": "float64", "long long": "int64",
}  # fmt: skip
INTEGERS = {k: v for k, v in ELEMENTS.items() if "int" in v}
SPACE = st.sampled_from(
    [" ", "  ", "\n", "\t", " /* c, ) */ ", " // float *x)\n", " /* \n * solve(\n */ "]
)
PROCESSES = 25
"""Examples that a preprocessor is started for."""
NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,6}_", fullmatch=True)


@st.composite
def arrays(draw: st.DrawFn, name: str) -> tuple[str, tuple[str, str, str]]:
    element = draw(st.sampled_from(sorted(ELEMENTS)))
    const = draw(st.booleans())
    words = [element, "const"] if draw(st.booleans()) else ["const", element]
    base = draw(SPACE).join(words if const else [element])
    gap = draw(SPACE)
    qualifier = draw(st.sampled_from(["", "restrict ", "__restrict__ ", "const ", "RESTRICT "]))
    attribute = draw(st.sampled_from(["", " __attribute__((aligned(64)))"]))
    forms = [f"{base}{gap}*{qualifier}{name}{attribute}", f"{base}{gap}{name}[]{attribute}"]
    role = "input" if const else "output"
    return draw(st.sampled_from(forms)), (name, role, ELEMENTS[element])


@st.composite
def sizes(draw: st.DrawFn, name: str) -> tuple[str, tuple[str, str, str]]:
    element = draw(st.sampled_from(sorted(INTEGERS)))
    const = draw(st.sampled_from(["", "const "]))
    return f"{const}{element}{draw(SPACE)}{name}", (name, "size", INTEGERS[element])


@st.composite
def kernels(draw: st.DrawFn) -> tuple[str, list[tuple[str, str, str]]]:
    names = draw(st.lists(NAMES, min_size=1, max_size=7, unique=True))
    spelled, expected = ["float *out"], [("out", "output", "float32")]
    for name in names:
        text, parameter = draw(st.one_of(arrays(name), sizes(name)))
        spelled.append(text)
        expected.append(parameter)
    order = draw(st.permutations(range(len(spelled))))
    inside = f"{draw(SPACE)},{draw(SPACE)}".join(spelled[i] for i in order)
    declaration = f"void{draw(SPACE)}solve{draw(SPACE)}({draw(SPACE)}{inside}{draw(SPACE)})"
    before = draw(
        st.sampled_from(
            ["", "static int f(int a) { return a; }", "/* solve( */", "struct s { int solve; };"]
        )
    )
    prototype = f"{declaration};\n" if draw(st.booleans()) else ""
    text = (
        "typedef float real;\n#define MACRO double\n#define RESTRICT restrict\n"
        f"{before}\n{prototype}{declaration}{draw(SPACE)}{{ out[0] = 0; }}\n"
    )
    return text, [expected[i] for i in order]


class TestProperties:
    @given(kernels(), st.sampled_from(["c", "cpp"]))
    @settings(max_examples=PROCESSES)
    def test_every_spelling_reads_back(
        self, kernel: tuple[str, list[tuple[str, str, str]]], language: Language
    ) -> None:
        text, expected = kernel
        whole = text if language == "c" else f'extern "C" {{\n{text}}}\n'
        assert read(whole, language=language) == expected

    @settings(max_examples=PROCESSES)
    @given(st.text(alphabet="solvevoidfloat(){}*;,#/\"'\\\n \tR\u00e9_if0", max_size=120))
    @pytest.mark.slow
    def test_any_text_is_read_or_refused(self, text: str) -> None:
        for language in ("c", "cpp"):
            with contextlib.suppress(SignatureError):
                assert any(role == "output" for _, role, _ in read(text, language=language))

    @given(st.text(alphabet="ab/*\"'\\\n R()", max_size=80))
    def test_blanking_keeps_every_line(self, text: str) -> None:
        blanked = blank_comments(text, cpp=True)
        assert len(blanked) == len(text)
        assert [len(line) for line in blanked.split("\n")] == [len(x) for x in text.split("\n")]


KERNELS = r"""
#include <cuda_fp16.h>
#define CHECK(x) do { auto e = (x); if (e != cudaSuccess) abort(); } while (0)
template <int BLOCK, typename T>
__global__ void __launch_bounds__(BLOCK, (2 + 1))
softmax(const T* __restrict__ x, T* __restrict__ y, int n) {
    extern __shared__ __align__(16) unsigned char bytes[];
    __shared__ float part[BLOCK / 32];
#if __CUDA_ARCH__ >= 900
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;\n" ::: "memory");
#endif
    y[threadIdx.x] = x[threadIdx.x] << 1;
}
__device__ __forceinline__ float helper(float a) { return a; }
__constant__ float table[4] = {1, 2, 3, 4};
extern "C" {
__global__ __cluster_dims__(2, 1, 1) void __maxnreg__(128) other(const __grid_constant__ int n) {}
void solve(const half* a, __half *b, int N, size_t M) {
    dim3 grid((N + 127) / 128), block(128);
    softmax<128, half><<<grid, block, 0, (cudaStream_t)0>>>(a, b, N);
    softmax<128><<<dim3(cdiv<1>(N)), 128>>>(a, b, N);
    other<<<
       1, 2
    >>>(N);
    CHECK(cudaDeviceSynchronize());
}
}
"""


class TestGpu:
    @pytest.mark.parametrize("language", ["cuda", "hip"])
    def test_a_file_of_kernels(self, language: Language) -> None:
        assert read(KERNELS, language=language) == [
            ("a", "input", "float16"), ("b", "output", "float16"),
            ("N", "size", "int32"), ("M", "size", "uint64"),
        ]  # fmt: skip

    @pytest.mark.parametrize(
        ("spelled", "dtype"),
        [
            ("half", "float16"), ("__half", "float16"), ("cutlass::half_t", "float16"),
            ("__nv_bfloat16", "bfloat16"), ("nv_bfloat16", "bfloat16"),
            ("__hip_bfloat16", "bfloat16"), ("hip_bfloat16", "bfloat16"), ("float", "float32"),
        ],
    )  # fmt: skip
    def test_element_types(self, spelled: str, dtype: str) -> None:
        text = f'extern "C" void solve(const {spelled}* __restrict__ x, float* y) {{}}'
        assert read(text, language="cuda")[0] == ("x", "input", dtype)

    @pytest.mark.parametrize("element", ["float4", "half2", "__nv_fp8_e4m3"])
    def test_vectors_are_not_passed_by_value(self, element: str) -> None:
        message = refusal(f'extern "C" void solve(float *y, {element} x) {{}}', language="cuda")
        assert f"`{element}` by value" in message

    def test_a_kernel_is_no_entry(self) -> None:
        message = refusal('\nextern "C" __global__ void solve(float *y) {}', language="cuda")
        assert message.startswith("kernel.cu:2: solve is a __global__ function")
        assert "launch the kernel in it" in message

    def test_linkage_is_that_of_cpp(self) -> None:
        assert 'is not extern "C"' in refusal("void solve(float *y) {}", language="cuda")
        guarded = '#ifdef __CUDACC__\nextern "C"\n#endif\nvoid solve(float *y) { k<<<1, 1>>>(y); }'
        assert read(guarded, language="cuda") == [("y", "output", "float32")]

    def test_macros_from_every_spelling_of_a_flag(self) -> None:
        text = 'extern "C" void solve(const T *x, U *y) {}'
        flags = ("--define-macro=T=half", "-D", "U=float")
        assert [d for _, _, d in read(text, language="cuda", flags=flags)] == ["float16", "float32"]

    @pytest.mark.parametrize(
        "text", ["k<<<1, 2", "<<<", "__launch_bounds__(", "a <<< b; >>>", ">>>"]
    )
    def test_broken_launches_end_in_an_error_or_an_answer(self, text: str) -> None:
        whole = f'extern "C" void solve(float *y) {{ {text} }}'
        with contextlib.suppress(SignatureError):
            read(whole, language="cuda")

    @given(st.text(alphabet="<>(){};,k1 \n_", max_size=60))
    def test_lines_keep_their_numbers(self, text: str) -> None:
        blanked = blank_launches(text)
        assert len(blanked) == len(text)
        assert blanked.count("\n") == text.count("\n")


@pytest.mark.parametrize("kind", ["bool", "_Bool"])
def test_a_mask_and_a_switch_may_be_bool(kind: str) -> None:
    assert ("m", "input", "bool") in read(f"void solve(const {kind} *m, float *y, int n) {{}}")
    assert ("causal", "size", "bool") in read(f"void solve(float *y, {kind} causal) {{}}")


@pytest.mark.parametrize(
    ("language", "text", "entry"),
    [
        ("c", "void add(int n, int m, float a[n][m]) {}", "add"),
        ("c", "float x[9]; void scale(float a) {}", "scale"),
        ("c", "static void f(int *a) {} void g(int *a) { f(a); } int main(void) {}", "g"),
        ("c", "void f(int *a) {} void g(int *a) {}", "solve"),
        ("c", "void f(int *a) {} void solve(int *a) {}", "solve"),
        ("c", "int size(int n) {} void f(int a[4]) {}", "f"),
        ("cpp", "template <typename T> static void f(T *a) {} void run(V<float>& a) {}", "run"),
        ("cpp", 'void f(int *a) {} extern "C" void g(int *a) {}', "g"),
    ],
)
def test_the_only_function_there_is_is_meant(language: Language, text: str, entry: str) -> None:
    """Also one that can't be an entry: what is wrong with it is what its author wants to know."""
    assert entry_in(language, text) == entry


def test_every_name_is_found_at_its_home_and_no_module_is_called_like_it() -> None:
    assert "optimize" in api._HOME_OF
    for name in api._HOME_OF:
        assert getattr(api, name) is not None
    modules = {home.rpartition(".")[2] for home in api._HOME_OF.values()}
    assert not modules & set(api._HOME_OF), "its import would take the other's place"


def test_a_name_that_is_not_there_is_no_attribute() -> None:
    assert api.doctor.examine is api.examine
    with pytest.raises(AttributeError, match="has no attribute 'no_such_command'"):
        api.no_such_command  # type: ignore[attr-defined]  # noqa: B018
