"""Where a C, C++, CUDA or HIP file leaves its work to a library, or loads one.

Names are all that a source shows, and a name can be put together: macros that paste are expanded,
assembly is read, and what is left over is seen in the built library (`toolchains/custom_code.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from tree_sitter import Node

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
LIBRARY = re.compile(
    r"(cu(blas|dnn|dss|sparse|solver|fft|tensor|rand)|hip(blas|dnn|fft|rand|solver|sparse|tensor)"
    r"|roc(blas|fft|rand|solver|sparse)|miopen|rccl|nccl|nvpl_|armpl_|cblas_|catlas_|clblast|LAPACK"
    r"|fftwf?l?q?_|mkl_|MKL_|Dfti|vsl[A-Z]|dnnl_|openblas|bli_|blasfeo_|flame_|FLA_|libxsmm_"
    r"|libxs_|ipp[scimr][A-Z_]|gsl_|vDSP_|BNNS|Sleef_|__svml_|__vml|amd_v[rs]|aocl_|xnn_"
    r"|pffft_|kiss_fft|arm_(mat|dot|cfft|rfft)_|gemmlowp|magma_|plasma_|PLASMA_)\w*"
    r"|(at|torch|c10|aten|thrust|cub|rocprim|hipcub|Eigen|arma|blaze|dnnl|oneapi|tvm"
    r"|ruy|fbgemm|gemmlowp|mkl|boost::numeric|boost::math|tensorflow|cudnn_frontend)::.*"
    rf"|{_BLAS}|{_VECTOR_MATH}"
)
"""What computes. Templates that a kernel is put together from, such as CUTLASS, are source."""
_HEADER = re.compile(
    r"(cu(blas|dnn|dss|sparse|solver|fft|tensor|rand)|hip(blas|dnn|fft|solver|sparse|tensor)"
    r"|roc(blas|fft|solver|sparse)|miopen|cblas|clblast|mkl|lapack|fftw|ATen/|torch/|c10/|thrust/"
    r"|cub/|Eigen/|unsupported/Eigen|eigen3/|armadillo|blaze/|blis|libxsmm|dnnl|oneapi/|ipp[scim_.]"
    r"|ipps|gsl/gsl_|arm_math|armpl|nvpl_|sleef|magma|boost/numeric|boost/math|openblas)"
)
LOADS = re.compile(
    r"dl(m?open|v?sym|info|func|addr1?)|dl_iterate_phdr|__libc_dl\w+|_dl_(?!find_object)\w+|_r_debug"
    r"|_rtld_global\w*|link_map|_DYNAMIC|_GLOBAL_OFFSET_TABLE_|(cu|hip)(Module|Library)Load\w*"
    r"|(cu|hip)Link(Create|Add|Complete)\w*|cudaLibraryLoad\w*|(nv|hip)rtc\w*"
)
"""What brings code in while a kernel runs, or finds code that others brought."""
_CARRIES = re.compile(r"\.incbin\b|\.deplibs\b|llvm_dependent_libraries")
"""Assembly that puts files into the library, or names libraries to the linker."""
_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(embed\b|pragma[ \t]+comment[ \t]*\([ \t]*lib)", re.M)
_WORD = re.compile(r"[A-Za-z_]\w*(?:::\w+)*")
_PARAMETERS = re.compile(r"([A-Za-z_]\w*)\(([\w\s,.]*)\)")
_ROUNDS, _MOST_TEXT = 4, 2**20
"""Of expanding macros within macros."""


def library_calls_native(
    path: str, text: str, *, plain_c: bool = False, definitions: Sequence[str] = ()
) -> Remarks:
    """Uses of libraries that do a kernel's work, and ways to load one.

    Args:
        path: of the file, for the remarks.
        text: its content.
        plain_c: whether it is read as C.
        definitions: of macros on the command line, such as `N=4` and `CAT(a,b)=a##b`.
    """
    found = Remarks(path)
    pasting: dict[str, tuple[tuple[str, ...], str]] = {}
    for definition in definitions:
        name, _, body = definition.partition("=")
        _read_macro(name, body, 1, f"-D{definition}", pasting, found)
    for node in nodes_of(root_of(text, plain_c=plain_c)):
        if node.type in NAMES and is_outermost(node):
            name = text_of(node)
            if _is_foreign(name):
                found.add("library_call", line_of(node), name)
        elif node.type == "preproc_include":
            header = header_of(node)
            if _HEADER.match(header):
                found.add("library_call", line_of(node), f"#include {header}")
        elif node.type in ("preproc_def", "preproc_function_def"):
            _definition(node, pasting, found)
        elif is_asm(node):
            _assembly(node, found)
        elif node.type == "string_content" and (carried := _CARRIES.search(text_of(node))):
            found.add("library_call", line_of(node), carried[0])
    for match in _DIRECTIVE.finditer(text):
        found.add("library_call", _line_at(text, match.start()), match[0])
    _expanded(text, pasting, found)
    return found


def _is_foreign(name: str) -> bool:
    return bool(LIBRARY.fullmatch(name) or LOADS.fullmatch(name))


def _line_at(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _definition(
    node: Node, pasting: dict[str, tuple[tuple[str, ...], str]], found: Remarks
) -> None:
    """A macro of the file; its body isn't parsed, since it need not be whole."""
    parts = [node.child_by_field_name(part) for part in ("name", "parameters", "value")]
    name, parameters, value = ("" if part is None else text_of(part) for part in parts)
    body = value.replace("\\\n", "")
    _read_macro(name + parameters, body, line_of(node), "", pasting, found)


def _read_macro(
    head: str,
    body: str,
    line: int,
    spelled: str,
    pasting: dict[str, tuple[tuple[str, ...], str]],
    found: Remarks,
) -> None:
    """What a macro stands for; one that pastes is kept, to be expanded where it is used."""
    for word in _WORD.findall(body):
        if _is_foreign(word):
            found.add("library_call", line, spelled or word)
    if carried := _CARRIES.search(body):
        found.add("library_call", line, carried[0])
    match = _PARAMETERS.fullmatch(head.strip())
    if match is not None and "##" in body:
        pasting[match[1]] = tuple(part.strip() for part in match[2].split(",")), body


def _assembly(node: Node, found: Remarks) -> None:
    """Calls and files that assembly names. Strings beside each other are one."""
    strings = [n for n in nodes_of(node) if n.type in ("string_content", "raw_string_content")]
    said = "".join(text_of(part) for part in strings)
    for word in re.findall(r"[A-Za-z_]\w*", said):
        if _is_foreign(word):
            found.add("library_call", line_of(node), f'asm "{word}"')
    if carried := _CARRIES.search(said):
        found.add("library_call", line_of(node), f'asm "{carried[0]}"')


def _expanded(
    text: str, pasting: Mapping[str, tuple[tuple[str, ...], str]], found: Remarks
) -> None:
    """Names that macros paste together, from the inside out."""
    if not pasting:
        return
    use = re.compile(rf"\b({'|'.join(map(re.escape, pasting))})\s*\(([^()]*)\)")
    for _ in range(_ROUNDS):
        for match in use.finditer(text):
            for word in _pasted(match, pasting):
                if _is_foreign(word):
                    found.add("library_call", _line_at(text, match.start()), word)
        text = use.sub(lambda match: " ".join(_pasted(match, pasting)), text)
        if len(text) > _MOST_TEXT:
            return


def _pasted(
    match: re.Match[str], pasting: Mapping[str, tuple[tuple[str, ...], str]]
) -> Iterator[str]:
    """The words of a macro's body with its arguments in it."""
    parameters, body = pasting[match[1]]
    arguments = [part.strip() for part in match[2].split(",")]
    given = dict(zip(parameters, arguments, strict=False))
    if "..." in parameters:
        given["__VA_ARGS__"] = ",".join(arguments[len(parameters) - 1 :])
    filled = re.sub(r"[A-Za-z_]\w*", lambda word: given.get(word[0], word[0]), body)
    yield from _WORD.findall(re.sub(r"\s*##\s*", "", filled))
