"""Where a C, C++, CUDA or HIP file leaves its work to a library, or loads one.

Names are all that a source shows, and a name can be put together: macros that paste are expanded,
assembly is read, and what is left over is seen in the built library (`toolchains/custom_code.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from tree_sitter import Node

from roofsmith.analysis.scan.operators import is_computing
from roofsmith.analysis.scan.rules import Remarks
from roofsmith.analysis.scan.syntax import (
    NAMES,
    header_of,
    is_asm,
    is_outermost,
    is_too_deep,
    line_of,
    nodes_of,
    root_of,
    text_of,
    without_arguments,
)

_ON_DEVICE = re.compile(r"__(global|device)__\b")
_OF_NUMBERS = frozenset((
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "ceil", "clamp", "copysign",
    "cos", "cosh", "div", "erf", "erfc", "exp", "exp2", "expm1", "floor", "fmax", "fmin", "fmod",
    "frexp", "gcd", "greater", "greater_equal", "hypot", "inner_product", "lcm", "ldexp", "lerp",
    "less", "less_equal", "lgamma", "log10", "log1p", "log2", "logical_and", "logical_not",
    "logical_or", "nextafter", "norm", "not_equal", "pow", "remainder", "round", "rsqrt",
    "signbit", "sin", "sinh", "sqrt", "tan", "tanh", "trunc", "unique",
))  # fmt: skip
"""Functions of C and C++, which hosts work out sizes with."""


def tensor_calls(root: Node) -> Iterator[tuple[str, int]]:
    """Calls on the host that compute with tensors, as far as names tell, with their lines."""
    nodes = tuple(nodes_of(root))
    own = {name for node in nodes if (name := _defined(node)) is not None}
    for node in nodes:
        if node.type != "call_expression" or _is_on_device(node):
            continue
        function = node.child_by_field_name("function")
        if function is None:
            continue
        name = _plain(function.children[-1]) if function.type == "field_expression" else ""
        if name == "attr":  # of a Python object, by its name
            name = text_of(node).rpartition('"')[0].rpartition('"')[2]
        if is_computing(name) or name == "backward":
            yield f".{name}()", line_of(node)
        elif function.type in ("identifier", "template_function"):
            name = _plain(function)
            if name not in own | _OF_NUMBERS and is_computing(name.removesuffix("_out")):
                yield name, line_of(node)


def _plain(node: Node) -> str:
    """A name without `template` before it and what it is made for behind it."""
    return without_arguments(text_of(node)).strip()


def _defined(node: Node) -> str | None:
    """The function that is defined or declared here, in a namespace of the file's own."""
    if node.type != "function_declarator":
        return None
    name = node.child_by_field_name("declarator")
    return None if name is None else text_of(name)


def _is_on_device(node: Node) -> bool:
    around: Node | None = node
    while around is not None:
        if around.type in ("function_definition", "lambda_expression"):
            head = (part for part in around.children if part.type != "compound_statement")
            if any(_ON_DEVICE.search(text_of(part)) for part in head):
                return True
        around = around.parent
    return False


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
_PARAMETERS = re.compile(r"([\w\s,.]*)\)\s*")
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
    reader = _Reader(path, allowed)
    for definition in definitions:
        name, _, body = definition.partition("=")
        reader.macro(name.strip(), body, 1, f"-D{definition}")
    reader.read(root_of(text, plain_c=plain_c))
    if _SPLICED.search(text):  # words that go on behind the line's end are read as one
        reader.read(root_of(text.replace("\\\n", ""), plain_c=plain_c))
    for match in _DIRECTIVE.finditer(text):
        reader.library(_line_at(text, match.start()), match[0])
    reader.expand(text)
    return reader.remarks


class _Reader:
    """Collects uses of libraries but for what is allowed, and the macros that may name some."""

    def __init__(self, path: str, allowed: Callable[[str], bool] | None) -> None:
        self.remarks = Remarks(path)
        self._with_tensors = allowed is not None
        self._allowed = allowed or (lambda _: False)
        self._bodies: dict[str, str] = {}
        self._expanding: dict[str, tuple[tuple[str, ...], str]] = {}

    def library(self, line: int, detail: str) -> None:
        """One more, unless it is allowed."""
        if not self._allowed(detail):
            self.remarks.add("library_call", line, detail)

    def read(self, root: Node) -> None:
        """What the syntax tree of a text shows."""
        if is_too_deep(root):
            self.remarks.add("unreadable", 1, "nested too deeply")
            return
        for node in nodes_of(root):
            line = line_of(node)
            if node.type in NAMES and is_outermost(node):
                self._name(line, text_of(node))
            elif node.type == "preproc_include":
                self._included(node)
            elif node.type in ("preproc_def", "preproc_function_def"):
                self._definition(node)
            elif node.type in ("using_declaration", "namespace_alias_definition"):
                if renamed := _RENAMES.match(text_of(node)):
                    self.library(line, renamed[0])
            elif is_asm(node):
                self._assembly(node)
            elif node.type == "string_content" and (carried := _CARRIES.search(text_of(node))):
                self.library(line, carried[0])
        if self._with_tensors:
            for name, line in tensor_calls(root):
                self.library(line, name)

    def macro(self, head: str, body: str, line: int, spelled: str = "") -> None:
        """What a macro stands for; what it is used with may make a name of it."""
        name, _, rest = head.partition("(")
        self._bodies[name] = body
        for word in _WORD.findall(body):
            self._name(line, word, spelled)
        stands_for = body.strip()
        if self._computes(stands_for) or _HOLDS_LIBRARY.fullmatch(stands_for):
            self.library(line, spelled or f"#define {head} {stands_for}")
        if carried := _CARRIES.search(body):
            self.library(line, carried[0])
        if (match := _PARAMETERS.fullmatch(rest)) is None:
            return
        for method in filter(self._computes, _METHOD.findall(body)):
            self.library(line, spelled or f".{method}()")
        parameters = tuple(part.strip() for part in match[1].split(","))
        if "##" in body or _names_what_it_is_given(body, parameters):
            self._expanding[name] = parameters, body

    def expand(self, text: str) -> None:
        """Names that macros make of what they are given, from the inside out."""
        use = re.compile(rf"\b({'|'.join(map(re.escape, self._expanding))})\s*\(([^()]*)\)")
        for _ in range(_ROUNDS if self._expanding else 0):
            for match in use.finditer(text):
                for word in self._pasted(match):
                    if self._computes(word):
                        self.library(_line_at(text, match.start()), word)
                    self._name(_line_at(text, match.start()), word)
            text = use.sub(lambda match: " ".join(self._pasted(match)), text)
            if len(text) > _MOST_TEXT:
                return

    def _pasted(self, match: re.Match[str]) -> list[str]:
        """The words of a macro's body with its arguments in it."""
        parameters, body = self._expanding[match[1]]
        arguments = [part.strip() for part in match[2].split(",")]
        given = dict(zip(parameters, arguments, strict=False))
        if "..." in parameters:
            given["__VA_ARGS__"] = ",".join(arguments[len(parameters) - 1 :])
        filled = re.sub(r"[A-Za-z_]\w*", lambda word: given.get(word[0], word[0]), body)
        return _WORD.findall(re.sub(r"\s*##\s*", "", filled))

    def _computes(self, name: str) -> bool:
        return self._with_tensors and is_computing(name)

    def _name(self, line: int, name: str, spelled: str = "") -> None:
        """A name, if it is a library's; `spelled` is what stands there."""
        if is_foreign(name):
            self.library(line, spelled or name)

    def _included(self, node: Node) -> None:
        """A header, also one that a macro names; nobody needs a macro that can't be read here."""
        header, path = header_of(node), node.child_by_field_name("path")
        spelled, rounds = header, 0
        is_plain = path is None or path.type in ("string_literal", "system_lib_string")
        while not is_plain and header in self._bodies and rounds < _ROUNDS:
            header, rounds = self._bodies[header].strip(), rounds + 1
        is_hidden = not is_plain and header[:1] not in ('"', "<")
        if is_hidden or is_library_header(header.strip('<>"')):
            which = f", which is {header}" if rounds else ""
            self.library(line_of(node), f"#include {spelled}{which}")

    def _definition(self, node: Node) -> None:
        """A macro of the file; its body isn't parsed, since it need not be whole."""
        parts = [node.child_by_field_name(part) for part in ("name", "parameters", "value")]
        name, parameters, value = ("" if part is None else text_of(part) for part in parts)
        self.macro(name + parameters, value.replace("\\\n", ""), line_of(node))

    def _assembly(self, node: Node) -> None:
        """Calls and files that assembly names. Strings beside each other are one."""
        strings = [n for n in nodes_of(node) if n.type in ("string_content", "raw_string_content")]
        said = "".join(text_of(part) for part in strings)
        for word in re.findall(r"[A-Za-z_]\w*", said):
            self._name(line_of(node), word, f'asm "{word}"')
        if carried := _CARRIES.search(said):
            self.library(line_of(node), f'asm "{carried[0]}"')


def is_foreign(name: str) -> bool:
    """Whether a name is a library's that computes, or that of a way to load one."""
    plain = without_arguments(name)
    if _PARTS.fullmatch(plain):
        return False
    return bool(LIBRARY.fullmatch(plain) or LOADS.fullmatch(plain))


def is_library_header(header: str) -> bool:
    """Whether a header's name is that of a library that computes."""
    return bool(_HEADER.match(header)) and not _HEADER_OF_PARTS.fullmatch(header)


def _line_at(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _names_what_it_is_given(body: str, parameters: Sequence[str]) -> bool:
    """Whether a parameter is a method or a namespace there, or a part of one."""
    names = "|".join(re.escape(name) for name in parameters if name)
    where = rf"(\.|->|::)\s*({names})\b|\b({names})\s*::"
    return bool(names) and re.search(where, body) is not None
