"""Writes a `target.yaml` that people like to edit."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

from roofsmith.analysis.family_guess import function_names, guess_family
from roofsmith.analysis.flops import FAMILIES
from roofsmith.domain.kernel import BuildSpec, Language, default_build, with_openmp
from roofsmith.domain.target import (
    HOST_LANGUAGES,
    Goal,
    StopPolicy,
    Tolerance,
    default_keep,
    plain_name,
)
from roofsmith.domain.workload import Workload
from roofsmith.errors import TargetError
from roofsmith.store.files import write_file
from roofsmith.store.sources import language_of, own_files, read_text
from roofsmith.targets.file import load_text
from roofsmith.targets.place import FILE_NAME

_PLAIN = re.compile(r"(?:-|\.{0,2}/)?[A-Za-z0-9_][A-Za-z0-9_./=+-]*")
_GENERIC = frozenset({"kernel", "main", "naive", "solution", "solve"})
"""File names that say nothing: the folder's is taken instead."""
_WIDTH = 96
_HEAD = """\
# What roofsmith may change, what the result must equal, and what it is judged on.
# Paths are relative to this file.

"""
_HOST_KEYS = ("# threads:  # processors that kernels may use; without a number, all\n",)
_GPU_KEYS = (
    "# timing: kernel  # the device's time; launch: calls as fast as the host can launch them\n",
    "# tf32: false  # true lets kernel and reference do float32 products in TF32\n",
    "# ceilings: measured  # datasheet: floor and goal from the product's page instead\n",
)
_DEFAULTS = """
# Below are the defaults; remove a `#` to change one.

"""


def init_target(
    kernel: Path,
    reference: Path,
    workloads: Sequence[Workload],
    *,
    name: str | None = None,
    family: str | None = None,
    entry: str = "solve",
    build: BuildSpec | None = None,
    keys: Mapping[str, object] | None = None,
    includes: Sequence[Path] = (),
    directory: Path | None = None,
    gpu_wiki: Path | None = None,
    guesses: bool = True,
) -> str:
    """The text of a target file for a kernel and a reference.

    Args:
        kernel: the naive, correct kernel.
        reference: the reference, a Python file.
        workloads: at least one.
        name: of the target; the kernel's file name by default.
        family: operator family; by default guessed from names, and marked so, if it may be.
        entry: the kernel's function.
        build: how it is built; as its language usually is by default.
        keys: further keys of the target.
        includes: files that it needs to build, besides those beside it that it includes.
        directory: where the file will lie, for relative paths; beside the kernel by default.
        gpu_wiki: folder of Markdown that has the word on hardware.
        guesses: whether names may say the family.

    Raises:
        TargetError: a file can't be used, or the workloads don't go together.
    """
    directory = kernel.parent if directory is None else directory
    kernel_text = read_text(kernel, "kernel")
    read_text(reference, "reference")
    language = language_of(kernel, kernel_text)
    usual = default_build(language)
    build = build or with_openmp(usual, language, kernel_text)
    needed = [_relative(path, directory) for path in (*own_files(kernel), *includes)]
    names = [kernel.stem, *function_names(kernel_text), _folder_name(kernel)]
    text = "".join(
        [
            _HEAD,
            _line(f"name: {scalar(name or _name(kernel))}"),
            _line(f"kernel: {scalar(_relative(kernel, directory))}", f"holds {entry}(...)"),
            _line(f"entry: {scalar(entry)}") if entry != "solve" else "",
            _includes_line(tuple(dict.fromkeys(needed))) if needed else "",
            _line(f"reference: {scalar(_relative(reference, directory))}", "says what is right"),
            _family_line(family, names if guesses else ()),
            _line(f"wiki: {{path: {scalar(str(gpu_wiki.absolute()))}}}") if gpu_wiki else "",
            *(_line(f"{key}: {value}") for key, value in (keys or {}).items()),
            "\n",
            _line("workloads:", "`class: <name>` groups those that behave alike"),
            *(f"  - {_flow(workload)}\n" for workload in workloads),
            _build_lines(build) if build != usual else "",
            _DEFAULTS,
            _defaults(build, usual, language),
        ]
    )
    load_text(text, directory / FILE_NAME)
    return text


def write_target(path: Path, text: str, *, force: bool = False) -> Path:
    """Write a target file, into a directory as `target.yaml`; its path.

    Raises:
        TargetError: there is one already and `force` isn't given.
        StorageError: it can't be written.
    """
    if path.is_dir():
        path = path / FILE_NAME
    if path.exists() and not force:
        raise TargetError(f"{path} exists already", hint="--force replaces it")
    write_file(path, text.encode("utf-8"))
    return path


def _name(kernel: Path) -> str:
    return plain_name(_folder_name(kernel) if kernel.stem in _GENERIC else kernel.stem)


def _folder_name(kernel: Path) -> str:
    return Path(os.path.abspath(kernel)).parent.name  # noqa: PTH100 - the name as typed


def _line(content: str, comment: str = "") -> str:
    return f"{content:<28} # {comment}\n" if comment else f"{content}\n"


def _family_line(family: str | None, names: Sequence[str]) -> str:
    if family is not None:
        return _line(f"family: {scalar(family)}", "decides which recipes apply")
    guess = guess_family(names)
    if guess is None:
        known = _line("# family: ", f"not recognised; one of {', '.join(FAMILIES)}")
        return known + _line("#", "with none, and no flops() in the reference, only bytes count")
    return _line(f"family: {guess[0]}", f"a guess, from the name {guess[1]!r}; correct it if wrong")


def _flow(workload: Workload) -> str:
    pairs = [f"{name}: {size}" for name, size in workload.dims.items()]
    if workload.config_class is not None:
        pairs.append(f"class: {scalar(workload.config_class)}")
    return "{" + ", ".join(pairs) + "}"


def _includes_line(names: Sequence[str]) -> str:
    listed = ", ".join(scalar(name) for name in names)
    return _line(f"includes: [{listed}]", "what it needs to build")


def _build_lines(build: BuildSpec) -> str:
    flags = ", ".join(scalar(flag) for flag in build.flags)
    why = "    # the kernel uses OpenMP" if "-fopenmp" in build.flags else ""
    return f"\nbuild:\n  flags: [{flags}]{why}\n"


def changed_build(began: BuildSpec, build: BuildSpec) -> str:
    """What a target's `build` has to say of a kernel that is built in another way; empty: as is."""
    lines = [
        f"  {key}: {_plain(value)}\n"
        for key in ("compiler", "flags", "link", "environment")
        if (value := getattr(build, key)) != getattr(began, key)
    ]
    return "".join(["build:\n", *lines] if lines else [])


def _defaults(build: BuildSpec, usual: BuildSpec, language: Language) -> str:
    keys = _HOST_KEYS if language in HOST_LANGUAGES else _GPU_KEYS
    sections: dict[str, BaseModel] = {} if build != usual else {"build": build}
    sections |= {"tolerance": Tolerance(), "goal": Goal(), "keep": default_keep(language)}
    return "".join((*keys, *commented_defaults(sections | {"stop": StopPolicy()})))


def commented_defaults(sections: Mapping[str, BaseModel]) -> Iterator[str]:
    """Settings with their defaults, by section, as comments that somebody may make lines."""
    for section, model in sections.items():
        yield f"# {section}:\n"
        for key, field in type(model).model_fields.items():
            value = getattr(model, key)
            if value is not None and value != {}:
                yield _commented(key, value, field.description or "")


def _commented(key: str, value: Any, description: str) -> str:
    line = f"#   {key}: {_plain(value)}"
    about = " ".join(description.split(". ")[0].split()).rstrip(".")
    if not about:
        return f"{line}\n"
    one = f"{line}  # {about}"
    return f"{one}\n" if len(one) <= _WIDTH else f"#   # {about}:\n{line}\n"


def _plain(value: Any) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(scalar(item) for item in value) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{scalar(k)}: {scalar(v)}" for k, v in value.items()) + "}"
    return f"{value:g}" if isinstance(value, float) else str(value)


def scalar(text: str) -> str:
    """A text as YAML, quoted only where it must be."""
    if _PLAIN.fullmatch(text) and yaml.safe_dump(text).split("\n")[0] == text:
        return text
    return str(yaml.safe_dump(text, default_style='"', allow_unicode=True, width=2**20)).rstrip(
        "\n"
    )


def _relative(path: Path, directory: Path) -> str:
    return Path(os.path.relpath(path, directory)).as_posix()
