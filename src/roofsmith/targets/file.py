"""Reads `target.yaml` and every file that it names."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roofsmith.domain.kernel import SourceFile, default_build
from roofsmith.domain.returning import called_in_place, returning_entry
from roofsmith.domain.target import Target, default_keep, plain_name
from roofsmith.errors import TargetError
from roofsmith.store.sources import (
    candidate_names,
    imported_files,
    language_of,
    read_text,
    source_file,
)
from roofsmith.targets.command import load_command
from roofsmith.targets.format_choice import chosen_format
from roofsmith.targets.place import target_path
from roofsmith.targets.schema import TargetFile, explained, located, over, places, validate
from roofsmith.yaml_document import YamlDocument, parse_yaml

MAX_YAML_BYTES = 256 * 1024
START_FROM = "`roofsmith init` writes a target to start from"


@dataclass(frozen=True, slots=True)
class LoadedTarget:
    """A target, and where it came from."""

    target: Target
    kernel_path: Path
    """The user's kernel file, absolute: what a lineage is opened for."""


def load_target(path: Path, *, overrides: Mapping[str, Any] | None = None) -> Target:
    """The target in a yaml file, its sources read by value.

    Args:
        path: the file, or a directory with a `target.yaml`.
        overrides: replace what the file says, by dotted key (`stop.max_iterations`); a value of
            None replaces nothing.

    Raises:
        TargetError: the file, a value in it or a file that it names can't be used; with the line.
    """
    return load_target_file(path, overrides=overrides).target


def load_target_file(path: Path, *, overrides: Mapping[str, Any] | None = None) -> LoadedTarget:
    """As `load_target`, and where the files lie."""
    path = target_path(path)
    text = read_text(path, "target", limit_bytes=MAX_YAML_BYTES)
    return load_text(text, path, overrides=overrides)


def load_text(text: str, path: Path, *, overrides: Mapping[str, Any] | None = None) -> LoadedTarget:
    """As `load_target_file`, for text that would stand in the file at `path`."""
    document = parse_yaml(text.removeprefix("\ufeff"), path, TargetError, start_from=START_FROM)
    folder = Path(os.path.abspath(path.parent))  # noqa: PTH100 - keeps links
    if "command" in document.data:
        target, kernel_path = load_command(document, folder, overrides or {})
        return LoadedTarget(target, kernel_path)
    file = validate(document, overrides or {}, TargetFile)
    kernel_path = Path(os.path.normpath(folder / file.kernel))
    with located(document, "kernel"):
        kernel_text = read_text(kernel_path, "kernel")
        language = file.language or language_of(kernel_path, kernel_text)
    with located(document, "reference"):
        reference_path = folder / file.reference
        reference, *beside = reference_sources(reference_path, but=[kernel_path])
    with located(document, "entry" if file.entry != "solve" else "kernel"):
        called = called_in_place(kernel_text, language, reference.text, file.entry)
    texts = [called, *_include_texts(document, file, folder)]
    with located(document, "includes" if file.includes else "kernel"):
        names = candidate_names([kernel_path, *(folder / name for name in file.includes)])
        kernel, *includes = map(source_file, names, texts)
    with located(document, "format"):
        chosen = chosen_format(file.format, kernel_path.parent, [kernel.path])
    with explained(document, overrides or {}):
        target = Target(
            name=file.name or plain_name(folder.name),
            language=language,
            kernel=kernel,
            includes=tuple(includes),
            reference=reference,
            reference_files=tuple(beside),
            workloads=file.workloads,
            weights=file.weights,
            family=file.family,
            entry="solve" if returning_entry(called) else file.entry,
            build=over(default_build(language), file.build),
            threads=file.threads,
            ptr_size=file.ptr_size,
            timing=file.timing,
            tf32=file.tf32,
            custom_only=file.custom_only,
            ceilings=file.ceilings,
            tolerance=file.tolerance,
            format=chosen,
            goal=file.goal,
            keep=over(default_keep(language), file.keep),
            stop=file.stop,
            held_out=file.held_out,
            notes=file.notes,
            branch=file.branch,
            definition=file.definition,
            **places(file, document, folder),
        )
    return LoadedTarget(target, kernel_path)


def reference_sources(path: Path, *, but: Sequence[Path] = ()) -> tuple[SourceFile, ...]:
    """A reference, and the files beside it that it imports.

    Args:
        path: of the reference.
        but: a module kernel is loaded as what it is.

    Raises:
        TargetError: one can't be read.
    """
    text = read_text(path, "reference")
    left_out = [os.path.abspath(one) for one in but]  # noqa: PTH100 - keeps links
    files = [one for one in imported_files(path, text) if os.path.abspath(one) not in left_out]  # noqa: PTH100
    beside = (source_file(one.name, read_text(one, "import", may_be_empty=True)) for one in files)
    return (source_file(path.name, text), *beside)


def _include_texts(document: YamlDocument, file: TargetFile, folder: Path) -> list[str]:
    texts = []
    for index, name in enumerate(file.includes):
        with located(document, "includes", index):
            texts.append(read_text(folder / name, "include", may_be_empty=True))
    return texts
