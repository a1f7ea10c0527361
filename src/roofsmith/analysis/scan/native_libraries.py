"""Where a C, C++, CUDA or HIP file leaves its work to a library, or loads one.

Names are all that a source shows, and a name can be put together: macros that paste are expanded,
assembly is read, and what is left over is seen in the built library (`toolchains/custom_code.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tree_sitter import Node

from roofsmith.analysis.scan.native_operators import tensor_calls
from roofsmith.analysis.scan.operators import is_computing
from roofsmith.analysis.scan.rules import Remarks
from roofsmith.analysis.scan.syntax import (
    NAMES,
    header_of,
    is_asm,
    is_outermost,
    line_of,
    nodes_of,
    root_of,
    text_of,
    without_arguments,
)

_BLAS = (
    r"[sdcz]s?(asum|axpb?y|copy|dot[cu]?|gbmv|gemm(3m|t|tr)?|gemv|ger[cu]?|hemm|hemv|herk|her2k?"
    r"|nrm2|scal|swap|symm|symv|syrk|syr2k?|trmm|trmv|trsm|trsv|tbmv|tpmv|omatcopy|imatcopy"
    r"|gesv[dx]?|getr[fsi]|geqrf|gels[dsy]?|geev|gesdd|potr[fsi]|posv|pbtrf|gtsv|pttrf|sytrf"
    r"|syev[dr]?|heev[dr]?|orgqr|ormqr|ungqr|unmqr|trtr[is]|lacpy|lange|laswp)_"
)
"""BLAS and LAPACK as Fortran spells them."""
_VECTOR_MATH = (
    r"vm?[sdcz](Abs|Acosh?|Add|Arg|Asinh?|Atan[2h]?|Cbrt|Ceil|Conj|Copysign|Cosh?|Div|Erfc?(Inv)?"
    r"|Exp(2|10|m1|Int1)?|Floor|Fma[xn]?|Fmin|Fmod|Frac|Hypot|InvCbrt|InvSqrt|Inv|LGamma|LinearFrac"
    r"|Ln|Log(10|1p|2|b)|Mul(ByConj)?|NextAfter|Pow(3o2|2o3|x|r)?|Remainder|Rint|Round|SinCos|Sinh?"
    r"|Sqrt?|Sub|Tanh?|TGamma|Trunc)I?(_\d+)?"
)
"""MKL's vector mathematics, such as vsExp and vmdLn."""
_NAMESPACES = (
    "at|torch|c10|aten|thrust|cub|rocprim|hipcub|Eigen|arma|blaze|dnnl|oneapi|tvm"
    "|ruy|fbgemm|gemmlowp|mkl|matx|raft|cuvs|std::linalg|xt|pocketfft|dlib|Fastor"
    "|ips4o|viennacl|flashinfer|mgpu|deep_gemm|cutlass::reference|ck::tensor_operation::device"
    "|boost::compute|boost::sort|boost::numeric|boost::math|tensorflow|cudnn_frontend"
)
LIBRARY = re.compile(
    r"(cu(blas|dnn|dss|sparse|solver|fft|tensor|rand)|hip(blas|dnn|fft|rand|solver|sparse|tensor)"
    r"|roc(blas|fft|rand|solver|sparse)|miopen|rccl|nccl|nvpl_|armpl_|cblas_|catlas_|clblast|LAPACK"
    r"|fftwf?l?q?_|mkl_|MKL_|Dfti|vsl[A-Z]|dnnl_|openblas|bli_|blasfeo_|flame_|FLA_|libxsmm_"
    r"|libxs_|ipp[scimr][A-Z_]|npp[sicdi]*[A-Z]|gsl_|vDSP_|BNNS|Sleef_|__svml_|__vml"
    r"|amd_v[rs]|aocl_|xnn_|pffft_|kiss_fft|arm_(mat|dot|cfft|rfft)_|gemmlowp|magma_|plasma_|PLASMA_"
    r"|aoti_torch_(cpu|cuda|call|proxy)_)\w*"
    rf"|({_NAMESPACES})::.*|{_BLAS}|{_VECTOR_MATH}"
)
"""What computes. Templates that a kernel is put together from, such as CUTLASS, are source."""
_PARTS = re.compile(
    r"(hip)?cub::(?!Device|Dispatch|Agent|detail|hip|rocprim).*|rocprim::(block|warp)_\w+(::\w+)*"
    r"|(cu|hip)rand(4|_\w+)?|(cu|hip)randState\w*|(cu|hip)randStatePhilox\w*"
)
"""What a block, a warp or a thread does within a kernel of one's own, and its random numbers."""
_HOLDS_LIBRARY = re.compile(_NAMESPACES)
_RENAMES = re.compile(rf"(using\s+namespace\s+|namespace\s+\w+\s*=\s*)(::)?({_NAMESPACES})\b")
"""What makes names of a library look like any others."""
_HEADER = re.compile(
    r"(cu(blas|dnn|dss|sparse|solver|fft|tensor|rand)|hip(blas|dnn|fft|solver|sparse|tensor)"
    r"|roc(blas|fft|solver|sparse)|miopen|cblas|clblast|mkl|lapack|fftw|ATen/|torch/|c10/|thrust/"
    r"|cub/|Eigen/|unsupported/Eigen|eigen3/|armadillo|blaze/|blis|libxsmm|dnnl|oneapi/|ipp[scim_.]"
    r"|npp[is_.]|matx|raft/|cuvs/|xtensor|pocketfft|dlib/|Fastor/|ips4o|viennacl/|boost/compute|boost/sort|flashinfer/"
    r"|moderngpu|deep_gemm|cutlass/util/reference/"
    r"|ipps|gsl/gsl_|arm_math|armpl|nvpl_|sleef|magma|boost/numeric|boost/math|openblas)"
)
_HEADER_OF_PARTS = re.compile(
    r"(hip)?cub/(?!device/|agent/agent_|detail/|backend/).*|rocprim/(block|warp)/.*"
    r"|(cu|hip)rand_(kernel|mtgp32\w*|philox\w*)\.h"
)
"""Of these: what holds such parts. `cub/cub.cuh` holds the rest as well, but under its name."""
LOADS = re.compile(
    r"dl(m?open|v?sym|info|func|addr1?)|dl_iterate_phdr|__libc_dl\w+|_dl_(?!find_object)\w+|_r_debug"
    r"|_rtld_global\w*|link_map|_DYNAMIC|_GLOBAL_OFFSET_TABLE_|(cu|hip)(Module|Library)Load\w*"
    r"|(cu|hip)Link(Create|Add|Complete)\w*|cudaLibraryLoad\w*|(nv|hip)rtc\w*"
    r"|Py(Import|Run|Eval|Number|Object|Module|Code)_\w+|\w+::module_?::import"
    r"|(py|pybind11)::(eval\w*|exec|globals)"
)
"""What brings code in while a kernel runs, or finds code that others brought, such as Python's."""
_CARRIES = re.compile(r"\.incbin\b|\.deplibs\b|llvm_dependent_libraries")
"""Assembly that puts files into the library, or names libraries to the linker."""
_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(embed\b|pragma[ \t]+comment[ \t]*\([ \t]*lib)", re.M)
_WORD = re.compile(r"[A-Za-z_]\w*(?:::\w+)*")
_PARAMETERS = re.compile(r"([A-Za-z_]\w*)\(([\w\s,.]*)\)")
_METHOD = re.compile(r"(?:\.|->)\s*(\w+)\s*\(")
_SPLICED = re.compile(r"\w\\\n\w")
_ROUNDS, _MOST_TEXT = 4, 2**20
"""Of expanding macros within macros."""


def library_calls_native(
    path: str,
    text: str,
    *,
    plain_c: bool = False,
    definitions: Sequence[str] = (),
    allowed: Callable[[str], bool] | None = None,
) -> Remarks:
    """Uses of libraries that do a kernel's work, and ways to load one.

    Args:
        path: of the file, for the remarks.
        text: its content.
        plain_c: whether it is read as C.
        definitions: of macros on the command line, such as `N=4` and `CAT(a,b)=a##b`.
        allowed: what it may name all the same, as C++ that binds a kernel to Python has to name
            tensors; then what it does with these is looked at, too.
    """
    found = _Found(path, allowed)
    macros = _Macros()
    for definition in definitions:
        name, _, body = definition.partition("=")
        macros.bodies[name.strip()] = body
        _read_macro(name, body, 1, f"-D{definition}", macros, found)
    _read(root_of(text, plain_c=plain_c), macros, found)
    if _SPLICED.search(text):  # words that go on behind the line's end are read as one
        _read(root_of(text.replace("\\\n", ""), plain_c=plain_c), macros, found)
    for match in _DIRECTIVE.finditer(text):
        found.library(_line_at(text, match.start()), match[0])
    _expanded(text, macros.expanding, found)
    return found.remarks


@dataclass(frozen=True, slots=True)
class _Macros:
    """Of a file and its command line."""

    bodies: dict[str, str] = field(default_factory=dict)
    """By name."""
    expanding: dict[str, tuple[tuple[str, ...], str]] = field(default_factory=dict)
    """Parameters and bodies of those that are expanded where they are used."""


class _Found:
    """Collects uses of libraries but for what is allowed."""

    def __init__(self, path: str, allowed: Callable[[str], bool] | None) -> None:
        self.remarks = Remarks(path)
        self.with_tensors = allowed is not None
        self._allowed = allowed or (lambda _: False)

    def library(self, line: int, detail: str) -> None:
        """One more, unless it is allowed."""
        if not self._allowed(detail):
            self.remarks.add("library_call", line, detail)

    def name(self, line: int, name: str, spelled: str = "") -> None:
        """A name, if it is a library's; `spelled` is what stands there."""
        if is_foreign(name):
            self.library(line, spelled or name)


def _read(root: Node, macros: _Macros, found: _Found) -> None:
    """What the syntax tree of a text shows."""
    for node in nodes_of(root):
        if node.type in NAMES and is_outermost(node):
            found.name(line_of(node), text_of(node))
        elif node.type == "preproc_include":
            _included(node, macros.bodies, found)
        elif node.type in ("preproc_def", "preproc_function_def"):
            _definition(node, macros, found)
        elif node.type in ("using_declaration", "namespace_alias_definition"):
            if renamed := _RENAMES.match(text_of(node)):
                found.library(line_of(node), renamed[0])
        elif is_asm(node):
            _assembly(node, found)
        elif node.type == "string_content" and (carried := _CARRIES.search(text_of(node))):
            found.library(line_of(node), carried[0])
    if found.with_tensors:
        for name, line in tensor_calls(root):
            found.library(line, name)


def is_foreign(name: str) -> bool:
    """Whether a name is a library's that computes, or that of a way to load one."""
    plain = without_arguments(name)
    if _PARTS.fullmatch(plain):
        return False
    return bool(LIBRARY.fullmatch(plain) or LOADS.fullmatch(plain))


def is_library_header(header: str) -> bool:
    """Whether a header's name is that of a library that computes."""
    return bool(_HEADER.match(header)) and not _HEADER_OF_PARTS.fullmatch(header)


def _included(node: Node, macros: Mapping[str, str], found: _Found) -> None:
    """A header, also one that a macro names; nobody needs a macro that can't be read here."""
    header, path = header_of(node), node.child_by_field_name("path")
    if path is not None and path.type not in ("string_literal", "system_lib_string"):
        spelled, rounds = header, 0
        while header in macros and rounds < _ROUNDS:
            header, rounds = macros[header].strip(), rounds + 1
        if header[:1] not in ('"', "<") or is_library_header(header.strip('<>"')):
            which = f", which is {header}" if rounds else ""
            found.library(line_of(node), f"#include {spelled}{which}")
    elif is_library_header(header):
        found.library(line_of(node), f"#include {header}")


def _line_at(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _definition(node: Node, macros: _Macros, found: _Found) -> None:
    """A macro of the file; its body isn't parsed, since it need not be whole."""
    parts = [node.child_by_field_name(part) for part in ("name", "parameters", "value")]
    name, parameters, value = ("" if part is None else text_of(part) for part in parts)
    body = value.replace("\\\n", "")
    macros.bodies[name] = body
    _read_macro(name + parameters, body, line_of(node), "", macros, found)


def _read_macro(
    head: str, body: str, line: int, spelled: str, macros: _Macros, found: _Found
) -> None:
    """What a macro stands for; what it is used with may make a name of it."""
    for word in _WORD.findall(body):
        found.name(line, word, spelled)
    stands_for = body.strip()
    is_operator = found.with_tensors and is_computing(stands_for)
    if is_operator or _HOLDS_LIBRARY.fullmatch(stands_for):
        found.library(line, spelled or f"#define {head} {stands_for}")
    if carried := _CARRIES.search(body):
        found.library(line, carried[0])
    match = _PARAMETERS.fullmatch(head.strip())
    if match is None:
        return
    for method in _METHOD.findall(body):
        if found.with_tensors and is_computing(method):
            found.library(line, spelled or f".{method}()")
    parameters = tuple(part.strip() for part in match[2].split(","))
    if "##" in body or _names_what_it_is_given(body, parameters):
        macros.expanding[match[1]] = parameters, body


def _names_what_it_is_given(body: str, parameters: Sequence[str]) -> bool:
    """Whether a parameter is a method or a namespace there, or a part of one."""
    names = "|".join(re.escape(name) for name in parameters if name)
    where = rf"(\.|->|::)\s*({names})\b|\b({names})\s*::"
    return bool(names) and re.search(where, body) is not None


def _assembly(node: Node, found: _Found) -> None:
    """Calls and files that assembly names. Strings beside each other are one."""
    strings = [n for n in nodes_of(node) if n.type in ("string_content", "raw_string_content")]
    said = "".join(text_of(part) for part in strings)
    for word in re.findall(r"[A-Za-z_]\w*", said):
        found.name(line_of(node), word, f'asm "{word}"')
    if carried := _CARRIES.search(said):
        found.library(line_of(node), f'asm "{carried[0]}"')


def _expanded(text: str, macros: Mapping[str, tuple[tuple[str, ...], str]], found: _Found) -> None:
    """Names that macros make of what they are given, from the inside out."""
    if not macros:
        return
    use = re.compile(rf"\b({'|'.join(map(re.escape, macros))})\s*\(([^()]*)\)")
    for _ in range(_ROUNDS):
        for match in use.finditer(text):
            for word in _pasted(match, macros):
                if found.with_tensors and is_computing(word):
                    found.library(_line_at(text, match.start()), word)
                found.name(_line_at(text, match.start()), word)
        text = use.sub(lambda match: " ".join(_pasted(match, macros)), text)
        if len(text) > _MOST_TEXT:
            return


def _pasted(
    match: re.Match[str], macros: Mapping[str, tuple[tuple[str, ...], str]]
) -> Iterator[str]:
    """The words of a macro's body with its arguments in it."""
    parameters, body = macros[match[1]]
    arguments = [part.strip() for part in match[2].split(",")]
    given = dict(zip(parameters, arguments, strict=False))
    if "..." in parameters:
        given["__VA_ARGS__"] = ",".join(arguments[len(parameters) - 1 :])
    filled = re.sub(r"[A-Za-z_]\w*", lambda word: given.get(word[0], word[0]), body)
    yield from _WORD.findall(re.sub(r"\s*##\s*", "", filled))
