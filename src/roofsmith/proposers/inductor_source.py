"""TorchInductor's output code as a module of one's own: plain Triton kernels and their launches.

What tuners chose is written as constants of the module and launch options, where a sweep finds
them. Sizes that the compiler wrote into a kernel are its constants, so that workloads share it.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from roofsmith.domain.compiled_reference import CompiledReference, CompiledWorkload, TunedKernel

_NUMEL = re.compile(r"[xyz]numel|r\d_numel")
_CEIL = re.compile(r"-\(\(([^()]+)\) // -\(([^()]+)\)\)")
_HELPER = re.compile(r"\btriton_helpers\.(\w+)")
_WORD = re.compile(r"\b[A-Za-z_]\w*\b")
_ATEN = re.compile(r"# Topologically Sorted Source Nodes:.*Original ATen: \[(.*)\]")
_ENTRY = re.compile(r"^def run_kernel\b", re.MULTILINE)
_KNOWN = {"tl", "triton", "libdevice", "math", "pymath", "tl_math", *dir(builtins)}
"""Names that helpers may use and that are imported, or replaced, in every module."""
_IDLE = {
    "args.clear", "assert_size_stride", "assert_alignment", "torch.cuda.set_device",
    "get_raw_stream",
}  # fmt: skip
"""Calls of the output code that a kernel of one's own has no need of."""
_OTHERS = "other_shapes"


class UntranslatableError(Exception):
    """Output code that can't stand on its own; the message says for which part of it."""


def standalone(compiled: CompiledReference, incumbent: str) -> str:
    """A module that runs the compiled kernels on the workloads' shapes, the incumbent on others.

    Raises:
        UntranslatableError: the code calls a library, or what isn't known here.
    """
    module = _Module(compiled.helpers, taken=_top_names(incumbent))
    functions = [module.function(workload) for workload in compiled.workloads]
    first = compiled.workloads[0]
    kept, others = _kept(incumbent)
    parts = [
        kept,
        f"# What follows was made of the reference by TorchInductor (PyTorch {compiled.version}).",
        _imports(module),
        *module.helper_texts(),
        *module.kernels.values(),
        "\n".join(module.constants),
        *functions,
        _table(compiled.workloads),
        _entry(first.parameters, first.shapes, others),
    ]
    return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"


def _kept(incumbent: str) -> tuple[str, str]:
    """The incumbent with its `run_kernel` under another name, and that name's definition."""
    if len(re.findall(r"\brun_kernel\b", incumbent)) == 1 and _ENTRY.search(incumbent):
        return _ENTRY.sub(f"def {_OTHERS}", incumbent), ""
    return incumbent, f"{_OTHERS} = run_kernel\n\n\n"


def _imports(module: _Module) -> str:
    texts = "\n".join([*module.kernels.values(), *module.helper_texts()])
    lines = ["import math as pymath"] if "pymath." in texts else []
    lines += ["import torch", "import triton", "import triton.language as tl"]
    if "libdevice." in texts:
        lines.append("from triton.language.extra import libdevice")
    return "\n".join(line for line in lines if line not in module.taken)


def _table(workloads: Iterable[CompiledWorkload]) -> str:
    lines = [f"    {_key(workload)}: {_name(workload.label)}," for workload in workloads]
    return "\n".join(["MADE_FOR = {", *lines, "}"])


def _key(workload: CompiledWorkload) -> str:
    values = [
        repr(workload.shapes[name] if name in workload.shapes else workload.scalars[name])
        for name in workload.parameters
    ]
    return f"({', '.join(values)},)"


def _entry(parameters: tuple[str, ...], shapes: dict[str, tuple[int, ...]], others: str) -> str:
    key = ", ".join(f"{name}.shape" if name in shapes else name for name in parameters)
    by_name = ", ".join(f"{name}={name}" for name in parameters)
    return (
        f"{others}def run_kernel({', '.join(parameters)}):\n"
        '    """Other shapes than those in `MADE_FOR` go where they went before."""\n'
        f"    MADE_FOR.get(({key},), {_OTHERS})({by_name})"
    )


def _name(label: str) -> str:
    return "run_" + re.sub(r"\W+", "_", label.replace("=", "")).strip("_").lower()


def _top_names(text: str) -> set[str]:
    """Names that a module binds at its top, and its plain imports as they are written."""
    names: set[str] = set()
    for node in ast.parse(text).body:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Import() | ast.ImportFrom():
                names.add(ast.unparse(node))
            case ast.Assign(targets=targets):
                names |= {target.id for target in targets if isinstance(target, ast.Name)}
            case _:
                pass
    return names


@dataclass
class _Module:
    """What was translated so far."""

    helpers: str
    taken: set[str]
    kernels: dict[str, str] = field(default_factory=dict)
    """Text by name."""
    constants: list[str] = field(default_factory=list)
    needed: dict[str, None] = field(default_factory=dict)
    """Helpers that kernels call."""
    launches: int = 0

    def function(self, workload: CompiledWorkload) -> str:
        """One function that launches a workload's kernels."""
        tree = ast.parse(workload.code)
        translation = _Translation(
            self, workload, dict(_kernel_texts(tree)), {k.name: k for k in workload.kernels}
        )
        call = next(
            (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == "call"), None
        )
        if call is None:
            raise UntranslatableError("TorchInductor's output code has no function `call`")
        body = "\n".join(f"    {line}" for line in translation.lines(call.body))
        return f"def {_name(workload.label)}({', '.join(workload.parameters)}):\n{body}"

    def kernel(self, name: str, text: str) -> str:
        """Keep a kernel; its name, which another workload's kernel may have already."""
        plain = text.replace("tl_math.", "tl.math.")
        for helper in _HELPER.findall(plain):
            self.needed[helper] = None
        plain = _HELPER.sub(lambda found: self.called(found.group(1)), plain)
        count = 0
        while True:
            own = name if count == 0 else f"{name}_v{count}"
            named = f"@triton.jit\n{plain}".replace(f"def {name}(", f"def {own}(", 1)
            if own not in self.taken and self.kernels.get(own, named) == named:
                self.kernels[own] = named
                return own
            count += 1

    def called(self, helper: str) -> str:
        return f"{helper}_" if helper in self.taken or hasattr(builtins, helper) else helper

    def helper_texts(self) -> list[str]:
        """Those that are needed, and what they need, in the order of their module."""
        tree = ast.parse(self.helpers)
        known = dict(_definitions(tree))
        wanted, found = list(self.needed), set[str]()
        while wanted:
            name = wanted.pop()
            if name not in known:
                raise UntranslatableError(f"its kernels need {name}, which isn't Triton")
            if name not in found:
                found.add(name)
                wanted += [used for used in _free(known[name]) if used not in _KNOWN]
        return [self._helper(name, known[name], found) for name in known if name in found]

    def _helper(self, name: str, node: ast.stmt, found: set[str]) -> str:
        del name
        first = min((d.lineno for d in getattr(node, "decorator_list", ())), default=node.lineno)
        text = "\n".join(self.helpers.splitlines()[first - 1 : node.end_lineno])
        text = re.sub(r"(?<![\w.])(?:tl_)?math\.", "tl.math.", text)
        return re.sub(
            r"(?<![\w.])[A-Za-z_]\w*\b",
            lambda word: self.called(word.group()) if word.group() in found else word.group(),
            text,
        )


@dataclass(frozen=True)
class _Translation:
    module: _Module
    workload: CompiledWorkload
    texts: dict[str, str]
    tuned: dict[str, TunedKernel]
    own: dict[str, str] = field(default_factory=dict)
    """What the code's arguments are called here."""

    def lines(self, body: list[ast.stmt]) -> Iterator[str]:
        for node in body:
            yield from self._statement(node)

    def _statement(self, node: ast.stmt) -> Iterator[str]:
        match node:
            case ast.With():
                yield from self.lines(node.body)
            case ast.Delete() | ast.Return() | ast.Pass():
                pass
            case ast.Assign(targets=[target], value=ast.Name(id="args")):
                self._bind(target)
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="run"))):
                yield from self._launch(name, node.value, node.lineno)
            case (
                ast.Expr(value=ast.Call(func=called)) | ast.Assign(value=ast.Call(func=called))
            ) if ast.unparse(called) in _IDLE:
                pass
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Name() as value):
                yield f"{name} = {self._tensor(value)}"
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as value):
                yield f"{name} = {self._made(value)}"
            case _:
                raise UntranslatableError(f"its code has `{_short(node)}`")

    def _bind(self, target: ast.expr) -> None:
        names = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
        for name, argument in zip(names, self.workload.arguments, strict=True):
            if argument is None:
                raise UntranslatableError("it takes tensors that `setup` doesn't give")
            self.own[ast.unparse(name)] = argument

    def _made(self, call: ast.Call) -> str:
        """A buffer of its own, or a view."""
        name = ast.unparse(call.func)
        if name == "reinterpret_tensor":
            return self._tensor(call)
        if not name.startswith("empty_strided_"):
            raise UntranslatableError(f"it leaves work to a library: `{_short(call)}`")
        shape, stride, dtype = (ast.unparse(part) for part in call.args[:3])
        first = next(iter(self.workload.shapes))
        return f"torch.empty_strided({shape}, {stride}, dtype={dtype}, device={first}.device)"

    def _tensor(self, node: ast.expr) -> str:
        match node:
            case ast.Name(id=name):
                return self.own.get(name, name)
            case ast.Call(func=ast.Name(id="reinterpret_tensor"), args=[base, shape, stride, *at]):
                name = self._tensor(base)
                offset = ast.unparse(at[0]) if at else "0"
                if offset == "0":  # kernels see addresses alone
                    return name
                start = f"{name}.storage_offset() + {offset}"
                sizes = f"{ast.unparse(shape)}, {ast.unparse(stride)}"
                return f"torch.as_strided({name}, {sizes}, {start})"
            case ast.Constant() | ast.UnaryOp(operand=ast.Constant()):
                return ast.unparse(node)
            case _:
                raise UntranslatableError(f"it passes `{_short(node)}` to a kernel")

    def _launch(self, name: str, call: ast.expr, line: int) -> Iterator[str]:
        assert isinstance(call, ast.Call)
        text, tuned = self.texts.get(name), self.tuned.get(name)
        if text is None or tuned is None:
            raise UntranslatableError(f"nothing is known of its kernel {name}")
        values = [self._tensor(value) for value in call.args]
        text, names = _with_sizes(text, values, set(tuned.options))
        own = self.module.kernel(name, text)
        given = dict(zip(names, values, strict=False))
        given |= {f"_grid_{i}": value for i, value in enumerate(values[len(names) :])}
        constants = dict(self._constants(own, tuned, _parameters(text)))
        words = given | constants
        for assignment in tuned.prefix:
            yield _replaced(assignment, words)
        grid = [_replaced(part, words) for part in tuned.grid]
        while len(grid) > 1 and grid[-1] == "1":
            grid.pop()
        options = [f"{key}={value}" for key, value in constants.items()]
        options += [f"num_warps={tuned.num_warps}", f"num_stages={tuned.num_stages}"]
        if operators := self._operators(line):
            yield f"# {operators}"
        yield f"{own}[({', '.join(grid)},)]("
        yield f"    {', '.join(values[: len(names)])},"
        yield f"    {', '.join(options)},"
        yield ")"

    def _constants(
        self, own: str, tuned: TunedKernel, parameters: list[str]
    ) -> Iterator[tuple[str, str]]:
        """Names of the module's constants for what the tuner chose."""
        number = self.module.launches
        self.module.launches += 1
        for key, value in tuned.options.items():
            if key not in parameters:
                continue
            if type(value) is int and value > 0:
                constant = f"{key.upper()}_{number}"
                self.module.constants.append(f"{constant} = {value}  # of {own}")
                yield key, constant
            else:
                yield key, repr(value)

    def _operators(self, line: int) -> str:
        """What PyTorch calls that which a kernel computes, from the comment before its launch."""
        above = self.workload.code.splitlines()[max(0, line - 4) : line]
        found = [match for text in above if (match := _ATEN.search(text))]
        return found[-1].group(1) if found else ""


def _kernel_texts(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Name and `def` of every Triton kernel, without its decorators."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign(
                targets=[ast.Name(id=name)],
                value=ast.Call(
                    func=ast.Attribute(value=ast.Name(id="async_compile"), attr="triton"),
                    args=[_, ast.Constant(value=str(text)), *_],
                ),
            ):
                functions = [n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef)]
                if len(functions) == 1:  # a template with functions of its own isn't known here
                    lines = text.splitlines()[functions[0].lineno - 1 : functions[0].end_lineno]
                    yield name, "\n".join(lines)
            case _:
                pass


def _parameters(text: str) -> list[str]:
    function = ast.parse(text).body[0]
    assert isinstance(function, ast.FunctionDef)
    return [argument.arg for argument in function.args.args]


def _with_sizes(text: str, values: list[str], options: set[str]) -> tuple[str, list[str]]:
    """A kernel with the sizes that it sets itself as constants, and the names of its arguments.

    Raises:
        UntranslatableError: it is called with another number of arguments.
    """
    function = ast.parse(text).body[0]
    assert isinstance(function, ast.FunctionDef)
    names = [name for name in _parameters(text) if name not in options]
    if len(values) - len(names) not in (0, 3):
        raise UntranslatableError(
            f"{function.name} takes {len(names)} arguments and is given {len(values)}"
        )
    given = dict(zip(names, values, strict=False))
    lines = text.splitlines()
    body = function.body[0].lineno - 1
    head = "\n".join(lines[:body])
    drop = set()
    for node in function.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=size)) if (
                _NUMEL.fullmatch(name) and given.get(name) == str(size)
            ):
                drop.add(node.lineno - 1)
                head = re.sub(rf"\b{name}\b(?!\s*:)", f"{name}: tl.constexpr", head, count=1)
            case _:
                pass
    kept = [line for i, line in enumerate(lines) if i >= body and i not in drop]
    return "\n".join([re.sub(r" : tl\.constexpr", ": tl.constexpr", head), *kept]), names


def _replaced(expression: str, words: dict[str, str]) -> str:
    """With `triton.cdiv` for Inductor's way to round up, and with what names stand for."""
    plain = _CEIL.sub(r"triton.cdiv(\1, \2)", expression)
    return _WORD.sub(lambda word: words.get(word.group(), word.group()), plain)


def _definitions(tree: ast.Module) -> Iterator[tuple[str, ast.stmt]]:
    for node in tree.body:
        match node:
            case ast.FunctionDef(name=name):
                yield name, node
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                yield name, node
            case _:
                pass


def _free(node: ast.stmt) -> set[str]:
    """Names that a definition uses and doesn't bind."""
    names = [n for n in ast.walk(node) if isinstance(n, ast.Name)]
    bound = {n.id for n in names if isinstance(n.ctx, ast.Store)}
    bound |= {n.arg for n in ast.walk(node) if isinstance(n, ast.arg)}
    return {n.id for n in names if isinstance(n.ctx, ast.Load)} - bound


def _short(node: ast.AST) -> str:
    return ast.unparse(node)[:120]
