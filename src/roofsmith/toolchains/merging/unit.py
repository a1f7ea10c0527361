"""Two kernels of C, C++, CUDA or HIP in one translation unit.

    the system's headers, with what decides how they are read
    the new kernel, its names its own
    the old kernel, its names its own, and behind it the entry that chooses

In C every name of file scope is renamed by a macro that holds over its kernel only. In C++, and in
CUDA and HIP, each kernel lies in a namespace of its own, which leaves members (`threadIdx.x`),
overloads and operators alone; functions with C linkage, which namespaces don't keep apart, are
renamed there, too. Macros that a kernel defines end with it, and whatever they hid is back.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from roofsmith.domain.dispatch import Dispatch, Listed, Threshold
from roofsmith.domain.kernel import BuildSpec, Candidate, Signature, SourceFile
from roofsmith.errors import SignatureError
from roofsmith.ports import DimensionSource, Unmergeable
from roofsmith.toolchains.builder import units
from roofsmith.toolchains.flags import joined
from roofsmith.toolchains.merging.directives import (
    changes_options,
    includes_alone,
    inlined,
    switches,
    touched_macros,
    without_includes,
)
from roofsmith.toolchains.merging.names import FileScope, file_scope
from roofsmith.toolchains.signature import read_signature

_COMPILED = frozenset({".c", ".cc", ".cpp", ".cxx", ".c++", ".C", ".cu", ".hip"})
"""Suffixes of files that some toolchain compiles on their own."""


@dataclass(frozen=True, slots=True)
class _Part:
    prefix: str
    """Begins its names in the merged file: `split5_old`."""
    candidate: Candidate
    """With its own includes inlined."""
    macros: tuple[tuple[str, str], ...]
    scope: FileScope

    @property
    def cpp(self) -> bool:
        return self.candidate.language != "c"

    @property
    def text(self) -> str:
        return self.candidate.kernel.text

    @property
    def entry(self) -> str:
        return f"{self.prefix}_{self.candidate.entry}"

    @property
    def renamed(self) -> tuple[str, ...]:
        return self.scope.c_names if self.cpp else self.scope.names

    @property
    def touched(self) -> tuple[str, ...]:
        """Macros that mean something else while this kernel is read."""
        own = touched_macros(self.text, cpp=self.cpp)
        return tuple(dict.fromkeys((*(name for name, _ in self.macros), *own)))


def merge_units(
    old: Candidate,
    new: Candidate,
    dispatch: Dispatch,
    sights: Mapping[str, DimensionSource],
    signature: Signature,
) -> Candidate | Unmergeable:
    """One candidate that holds both; see `ports.Merger`."""
    joint = joint_build(old.build, new.build)
    if isinstance(joint, str):
        return Unmergeable(joint)
    if why := _conflict(old, new):
        return Unmergeable(why)
    try:
        parts = _parts(old, new, joint, dispatch)
        names = [p.name for p in read_signature(old).parameters]
    except SignatureError as error:
        return Unmergeable(f"a kernel can't be read: {error.message}")
    if why := _unfit(parts):
        return Unmergeable(why)
    places = [parameter.name for parameter in signature.parameters]
    sizes = {dim: names[places.index(sight.argument)] for dim, sight in sights.items()}
    text = _merged(*parts, dispatch, sizes, names)
    kernel = SourceFile(path=old.kernel.path, text=text)
    return old.model_copy(update={"sources": (kernel, *_beside(old, new)), "build": joint.build})


def _parts(
    old: Candidate, new: Candidate, joint: JointBuild, dispatch: Dispatch
) -> tuple[_Part, _Part]:
    taken = old.kernel.text + new.kernel.text
    stem = f"split{dispatch.splits}"
    while f"{stem}_" in taken:
        stem += "x"
    return (
        _part(f"{stem}_old", old, joint.build, joint.old_macros),
        _part(f"{stem}_new", new, joint.build, joint.new_macros),
    )


def _part(
    prefix: str, candidate: Candidate, joint: BuildSpec, macros: tuple[tuple[str, str], ...]
) -> _Part:
    files = {source.path: source.text for source in candidate.sources}
    text = inlined(candidate.kernel.path, files, cpp=candidate.language != "c")
    whole = candidate.with_kernel_text(text)
    flags = (*joint.flags, *(f"-D{name}={value}" for name, value in macros))
    read = whole.with_build(joint.model_copy(update={"flags": flags}))
    return _Part(prefix, whole, macros, file_scope(read))


def _conflict(old: Candidate, new: Candidate) -> str | None:
    """Why their files can't lie side by side."""
    alone = {path for candidate in (old, new) for path in units(candidate, _COMPILED)[1:]}
    if alone and old.language != "c":
        return f"{min(alone)} is compiled on its own, and links with one of them only"
    texts = {source.path: source.text for source in old.sources[1:]}
    for source in new.sources[1:]:
        if alone and texts.get(source.path, "") != source.text:
            return f"{source.path} differs, and {min(alone)} is compiled on its own"
    missing = texts.keys() - {source.path for source in new.sources}
    return f"only one of them has {min(missing)}" if alone and missing else None


def _beside(old: Candidate, new: Candidate) -> tuple[SourceFile, ...]:
    """Files of both, for whoever changes the kernel next: the merged one holds what it needs."""
    known = {source.path for source in old.sources}
    return (*old.sources[1:], *(s for s in new.sources[1:] if s.path not in known))


def _unfit(parts: Sequence[_Part]) -> str | None:
    for part in parts:
        if not part.scope.entry_parameters:
            return f"no body of {part.candidate.entry} could be read"
        if part.cpp and part.scope.reopens_std:
            return "a kernel adds to namespace std, which stays outside"
    return None


def _merged(
    old: _Part, new: _Part, dispatch: Dispatch, sizes: Mapping[str, str], names: Sequence[str]
) -> str:
    heads = [_head(part) for part in (old, new)]
    blocks = [
        f"/* Two kernels: {dispatch.sentence}, as for sizes that were not judged. */",
        switches(heads, cpp=old.cpp),
        *dict.fromkeys(heads),
        _section(new, f"Round {dispatch.splits}'s kernel", ""),
        _section(old, "The kernel before it", _entry(old, new, dispatch, sizes, names)),
    ]
    return "\n\n".join(block for block in blocks if block.strip()) + "\n"


def _head(part: _Part) -> str:
    """The headers that a kernel includes, read as it has them read."""
    lines = includes_alone(part.text, cpp=part.cpp)
    if not lines:
        return ""
    macros = (*(name for name, _ in part.macros), *touched_macros(lines, cpp=part.cpp))
    return _around(tuple(dict.fromkeys(macros)), _definitions(part.macros), lines)


def _section(part: _Part, title: str, behind: str) -> str:
    """A kernel whose names are its own, and what stands behind it in its scope."""
    entry = part.candidate.entry
    others = [name for name in part.renamed if name != entry]
    body = _requalified(without_includes(part.text, cpp=part.cpp).strip("\n"), part)
    kernel = _around([entry], f"#undef {entry}\n#define {entry} {part.entry}\n", body, "")
    inner = f"{kernel}\n\n{behind}" if behind else kernel
    if part.cpp:
        inner = f"namespace {part.prefix} {{\n\n{inner}\n\n}}"
        inner += f"\nusing {part.prefix}::{entry};" if behind else ""
    whole = _around(
        part.touched,
        _definitions(part.macros),
        "\n".join(f"#define {name} {part.prefix}_{name}" for name in others),
        _with_options_back(f"\n{inner}\n", part),
        "\n".join(f"#undef {name}" for name in others),
    )
    return f"/* ---- {title} ---- */\n{whole}"


def _requalified(text: str, part: _Part) -> str:
    """A text whose `::name` finds its own names where they are now."""
    if not (part.cpp and part.scope.names):
        return text
    names = "|".join(map(re.escape, part.scope.names))
    return re.sub(rf"(?<![\w>)\]:])::(?=\s*({names})\b)", f"::{part.prefix}::", text)


def _with_options_back(text: str, part: _Part) -> str:
    """A kernel's text, with the options that it changes for the rest of the file set back."""
    if not changes_options(part.text, cpp=part.cpp):
        return text
    return f"#pragma GCC push_options\n{text}\n#pragma GCC pop_options"


def _around(macros: Sequence[str], *blocks: str) -> str:
    """Blocks in which macros mean something of their own, and behind which what they did before."""
    before = (f'#pragma push_macro("{name}")' for name in macros)
    behind = (f'#pragma pop_macro("{name}")' for name in macros)
    return "\n".join([*before, *(block for block in blocks if block), *behind])


def _definitions(macros: Sequence[tuple[str, str]]) -> str:
    return "\n".join(f"#undef {name}\n#define {name} {value}" for name, value in macros)


def _entry(
    old: _Part, new: _Part, dispatch: Dispatch, sizes: Mapping[str, str], names: Sequence[str]
) -> str:
    call = f"({', '.join(names)})"
    scope = f"{new.prefix}::" if new.cpp else ""
    linkage = 'extern "C" ' if old.cpp else ""
    shown = (
        '__attribute__((visibility("default"))) '
        if any(flag.startswith("-fvisibility") for flag in old.candidate.build.flags)
        else ""
    )
    return (
        f"{linkage}{shown}void {old.candidate.entry}{old.scope.entry_parameters}\n"
        "{\n"
        f"    if ({condition(dispatch, sizes)})\n"
        f"        {scope}{new.entry}{call};\n"
        "    else\n"
        f"        {old.entry}{call};\n"
        "}"
    )


def condition(dispatch: Dispatch, sizes: Mapping[str, str]) -> str:
    """Where the new kernel runs, as an expression of C.

    Args:
        sizes: the parameter of each dimension, by its name.
    """
    match dispatch.rule:
        case Threshold(dims=dims, side=side, bound=bound):
            sign = ">=" if side == "at_least" else "<="
            product = " * ".join(f"(long long){sizes[dim]}" for dim in dims)
            parts = [f"{product} {sign} {bound}LL"]
        case Listed(points=points):
            one = (
                " && ".join(f"{sizes[dim]} == {size}" for dim, size in point.items())
                for point in points
            )
            return " || ".join(f"({point})" for point in one)
    for dim, (low, high) in dispatch.within.items():
        parts.append(
            f"{sizes[dim]} == {low}"
            if low == high
            else f"{sizes[dim]} >= {low} && {sizes[dim]} <= {high}"
        )
    return " && ".join(parts)


_DEFINITION = re.compile(r"-D([A-Za-z_]\w*)(?:=(.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class JointBuild:
    """How both are built in one file."""

    build: BuildSpec
    old_macros: tuple[tuple[str, str], ...]
    """What the flags defined for the old kernel alone, now defined in the file."""
    new_macros: tuple[tuple[str, str], ...]


def joint_build(old: BuildSpec, new: BuildSpec) -> JointBuild | str:
    """The build that gives each kernel what it was built with; why there is none, else.

    Macros that only one of them was given are defined in the file, around it. Flags that only the
    new one has are given to both; the dispatch is judged as a whole, so if that changes the old
    kernel for the worse, it shows.
    """
    if old.compiler != new.compiler:
        return f"they are built by different compilers, {old.compiler} and {new.compiler}"
    if old.environment != new.environment:
        return (
            "they run under different environment variables,"
            f" {_spelled(old.environment)} and {_spelled(new.environment)}"
        )
    olds, news = joined(old.flags), joined(new.flags)
    old_macros, new_macros = _only_in(olds, news), _only_in(news, olds)
    old_rest, new_rest = _less(olds, old_macros), _less(news, new_macros)
    if not _holds_in_order(new_rest, old_rest):
        lost = [flag for flag in old_rest if flag not in new_rest] or list(old_rest)
        return f"they are built with different flags: the new one not with {' '.join(lost)}"
    link = (*old.link, *(flag for flag in new.link if flag not in old.link))
    build = new.model_copy(update={"flags": new_rest, "link": link})
    return JointBuild(build, _defined(old_macros), _defined(new_macros))


def _only_in(flags: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    return tuple(flag for flag in flags if _DEFINITION.fullmatch(flag) and flag not in others)


def _less(flags: Sequence[str], taken: Sequence[str]) -> tuple[str, ...]:
    return tuple(flag for flag in flags if flag not in taken)


def _holds_in_order(flags: Sequence[str], wanted: Sequence[str]) -> bool:
    """Whether `wanted` is what is left of `flags` when some are taken away."""
    rest = iter(flags)
    return all(flag in rest for flag in wanted)


def _defined(flags: Sequence[str]) -> tuple[tuple[str, str], ...]:
    found = (_DEFINITION.fullmatch(flag) for flag in flags)
    return tuple((f[1], f[2] if f[2] is not None else "1") for f in found if f)


def _spelled(environment: dict[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in environment.items()) or "none"
