"""A reference without `setup` gets one: what the kernel touches says how large its arrays are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from roofsmith.analysis.extents import Sizes, expression, sizes_of
from roofsmith.api.places import Place
from roofsmith.api.subjects import candidate_from, parse_workloads
from roofsmith.domain.kernel import Built, Signature
from roofsmith.domain.options import Subject
from roofsmith.domain.outcome import BuildFailed
from roofsmith.domain.python_names import python_name
from roofsmith.errors import BadReferenceError, BaselineError, StorageError
from roofsmith.judge.sizes.observed import Extent, Fill, observing
from roofsmith.judge.user_module import buffer_elements
from roofsmith.ports import KernelDiedError, Observer
from roofsmith.store.files import write_file
from roofsmith.store.sources import read_text
from roofsmith.targets.reference_text import (
    EDIT,
    SeenArray,
    guessed_numbers,
    has_setup,
    parameters_of,
    reference_text,
    setup_text,
    with_setup,
)

REFERENCE = "reference.py"
"""Beside a kernel: what is meant where nobody names another."""
_UNSEEN = "the kernel couldn't be watched on small sizes: how many elements has it?"


@dataclass(frozen=True, slots=True)
class WrittenReference:
    """What was written into a reference."""

    subject: Subject
    """With the reference that there is now."""
    note: str = ""
    """What was written, and what somebody has to look at; empty: nothing."""
    is_unfinished: bool = False
    """Whether what it computes has yet to be written."""


def needs_setup(subject: Subject) -> bool:
    """Whether nothing says how large a kernel's arrays are."""
    reference = subject.reference
    return subject.ptr_size is None and (
        reference is None or not has_setup(read_text(reference, "reference"))
    )


def with_written_setup(subject: Subject, place: Place, observer: Observer) -> WrittenReference:
    """Watch a kernel on small sizes; write a `setup` into its reference, or a reference around it.

    Nothing is written where a reference does without, as all arrays are as large as the product of
    the two largest dimensions, and all numbers are dimensions.

    Args:
        subject: the kernel and its workloads; the reference may be missing.
        place: where kernels of its language run.
        observer: hears what happens.

    Raises:
        BadReferenceError: it has other parameters than the kernel.
        BaselineError: the kernel doesn't build.
        StorageError: the reference can't be written.
    """
    candidate = candidate_from(subject.path, subject.flags, subject.entry)
    observer.stage("build", str(subject.path))
    built = place.toolchain.build(candidate)
    if isinstance(built, BuildFailed):
        raise BaselineError(f"{subject.path} doesn't build: {built.detail}", log=built.log)
    if any(p.dtype == "bfloat16" for p in built.signature.parameters):
        return WrittenReference(subject)  # NumPy has no such type
    dims = parse_workloads(subject.workloads)[0].dims
    if subject.reference is not None:
        _require_same_names(subject.reference, built.signature)
    observer.stage("sizes", "of arrays, as the kernel touches them")
    seen = _seen(built, dims, place)
    there = subject.reference
    if there is not None and seen and all(one.doubt == _UNSEEN for one in seen.values()):
        size = next(iter(seen.values())).size
        return WrittenReference(
            subject,
            f"the kernel couldn't be watched on small sizes: each array has {size} elements; where"
            f" that's wrong, write setup({', '.join(dims)}, seed=0) into {there}",
        )
    if there is not None and _does_without(seen, built.signature, dims):
        return WrittenReference(subject)
    text = "" if there is None else read_text(there, "reference")
    is_torch = re.search(r"^import torch$", text, re.MULTILINE) is not None
    setup = setup_text(built.signature.parameters, seen, list(dims), tensors=is_torch)
    if there is None:
        there = subject.path.parent / REFERENCE
        if there.exists():
            return (
                with_written_setup(replace(subject, reference=there), place, observer)
                if (not has_setup(read_text(there, "reference")))
                else WrittenReference(replace(subject, reference=there))
            )
        text = reference_text(built.signature.parameters, setup)
    else:
        text = with_setup(text, setup)
    try:
        write_file(there, text.encode())
    except StorageError:
        if subject.reference is None:
            raise
        return WrittenReference(subject)  # as before it could be watched: arrays of one length
    observer.stage("setup", f"written into {there}")
    marks = [n for n, line in enumerate(text.splitlines(), 1) if EDIT in line]
    look = f"; look at line{'s' * (len(marks) > 1)} {', '.join(map(str, marks))}" if marks else ""
    return WrittenReference(
        replace(subject, reference=there),
        f"wrote setup() into {there}: sizes are those that the kernel touches{look}",
        is_unfinished=subject.reference is None,
    )


def _require_same_names(reference: Path, signature: Signature) -> None:
    """Without `setup`, arguments find a reference's parameters by name.

    Raises:
        BadReferenceError: it has others than the kernel.
    """
    theirs = parameters_of(read_text(reference, "reference"))
    ours = [python_name(p.name) for p in signature.parameters]
    if theirs is not None and (odd := sorted({*theirs} ^ {*ours})):
        raise BadReferenceError(
            f"{reference}: reference({', '.join(theirs)}) and {signature.entry}({', '.join(ours)})"
            f" don't call their arguments the same: {', '.join(odd)}",
            hint="give reference() the kernel's names; a name that Python has for itself ends in _",
        )


def _does_without(seen: Mapping[str, SeenArray], signature: Signature, dims: Sizes) -> bool:
    """Whether arrays have the usual length, and every number is a dimension."""
    numbers = all(p.name in dims for p in signature.parameters if p.role == "size")
    return numbers and all(one.fits and not one.doubt for one in seen.values())


def _seen(built: Built, dims: Sizes, place: Place) -> dict[str, SeenArray]:
    """Every array, by name; those that can't be told are as large as the largest product."""
    arrays = built.signature.arrays
    integers = [p.name for p in arrays if p.role == "input" and "int" in p.dtype]
    for sets in sizes_of(dims):
        whole: dict[str, Fill] = dict.fromkeys(integers, "indices")
        if None in (found := [_touched(built, one, whole, place) for one in sets]):
            continue
        seen = [one for one in found if one is not None]
        known = {p.name: _as_seen([one[p.name] for one in seen], sets) for p in arrays}
        without = {
            driver: _touched(built, sets[0], {**whole, driver: "zeros"}, place)
            for driver in integers
        }
        driven = {
            driver: {name for name, one in less.items() if one.elements < seen[0][name].elements}
            for driver, less in without.items() if less is not None
        }  # fmt: skip
        bytes_ = {p.name for p in arrays if p.name in driven and p.dtype in ("uint8", "int8")}
        for name in bytes_:
            full = [_touched(built, one, {**whole, name: "most"}, place) for one in sets]
            if None not in full:
                more = [one for one in full if one is not None]
                for other in driven.pop(name):
                    known[other] = _as_seen([one[other] for one in more], sets)
        return _driven(known, driven, dims)
    size = " * ".join(sorted(dims, key=lambda name: dims[name])[-2:])
    return {p.name: SeenArray(size, _UNSEEN, True, p.role == "output") for p in arrays}


def _touched(
    built: Built, dims: Sizes, fills: Mapping[str, Fill], place: Place
) -> dict[str, Extent] | None:
    """On one set of sizes; None where the kernel crashes, or doesn't end."""
    parameters = built.signature.parameters
    given = {p.name: dims[p.name] for p in parameters if p.role == "size" and p.name in dims}
    scalars = {**given, **guessed_numbers(parameters, dims)}
    try:
        with observing(built, place.isolation) as process:
            return process.touched(scalars, fills)
    except KernelDiedError:
        return None


def _as_seen(ones: list[Extent], sets: tuple[Sizes, ...]) -> SeenArray:
    elements = [one.elements for one in ones]
    found, doubt = expression(elements, sets), ""
    if not any(elements):
        found, doubt = None, "the kernel touched none of it on small sizes"
    elif any(one.is_negative for one in ones):
        doubt = "the kernel goes in front of it: indices below zero"
    elif found is None:
        touched = (
            f"{count} for {', '.join(f'{k}={v}' for k, v in one.items())}"
            for count, one in zip(elements, sets, strict=True)
        )
        doubt = f"no plain expression fits what the kernel touches: {'; '.join(touched)}"
    fits = all(n == buffer_elements(one, None) for n, one in zip(elements, sets, strict=True))
    first, size = ones[0], found or " * ".join(sets[0])
    return SeenArray(size, doubt, first.is_read_first, first.is_written, fits=fits)


def _driven(
    known: dict[str, SeenArray], driven: Mapping[str, set[str]], dims: Sizes
) -> dict[str, SeenArray]:
    """Arrays that integers of others lead into have sizes that no other size names.

    Integers in an array of one more than a dimension say where rows begin; those of others are
    indices. Dimensions are given out in that order, the largest first.
    """
    depends = {name for names in driven.values() for name in names}
    told = " ".join(one.size for name, one in known.items() if name not in depends)
    left = [name for name in dims if name not in told.replace("(", " ").replace(")", " ").split()]
    left.sort(key=lambda name: -dims[name])
    found = dict(known)
    begins = {driver for driver in driven if known[driver].size in {f"{name} + 1" for name in dims}}
    for driver in sorted(driven, key=lambda one: (one not in begins, -len(driven[one]))):
        nearer = set().union(*(
            names for other, names in driven.items() if names < driven[driver] and other != driver
        ))  # fmt: skip
        mine = driven[driver] - nearer
        if not mine:
            continue
        size = left.pop(0) if left else max(dims, key=lambda name: dims[name])
        doubt = f"its size is a guess: integers of {driver} lead into it"
        for name in mine:
            found[name] = replace(known[name], size=size, doubt=doubt)
        holds = f"{'up to' if driver in begins else 'below'} {size}"
        found[driver] = replace(found[driver], holds=holds)
    return found
