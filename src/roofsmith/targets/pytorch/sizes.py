"""In a worker: which sizes of a computation's inputs may be others, and how its results follow."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from roofsmith.targets.pytorch.looking import Looker, SeenModel
from roofsmith.targets.pytorch.program import Axis
from roofsmith.targets.pytorch.user_file import Refused, is_name

Place = tuple[str, int]
"""An input's path, and one of its axes."""
Dims = dict[str, int]

LETTERS = {1: "N", 2: "ND", 3: "BTD", 4: "BCHW", 5: "BCDHW"}
"""Usual names of an array's axes, by how many it has. Chosen."""
HEADS = "BHTD"
"""Of four axes, where three inputs or more have them: queries, keys and values."""
MORE = "MKPQRSUVLEFGXYZ"
MOST_SCALINGS = 40
LARGEST_STEP, LARGEST_SHIFT = 16, 16
"""Of a size such as `(H + 1) // 2`: larger strides and borders of windows are rare. Chosen."""


@dataclass
class Sizes:
    looker: Looker
    named: dict[Place, str] = field(default_factory=dict)
    """The dim of each axis; axes of size 1 have none."""
    given: Dims = field(default_factory=dict)
    """Sizes that the file gives."""
    others: Dims = field(default_factory=dict)
    """Of dims that may be others: another size at which it runs, with the others as given."""

    bounds: dict[str, str] = field(default_factory=dict)
    """Dims that the whole numbers of an input are below, by its path."""

    def settle(self) -> None:
        """Leave the dims that may be others, where there are such: the rest are numbers, as the
        weights' sizes are."""
        if self.others:
            self.named = {place: name for place, name in self.named.items() if name in self.others}
            self.given = {name: size for name, size in self.given.items() if name in self.others}

    def shapes(self, dims: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
        """Of the inputs, by path."""
        return {
            leaf.path: tuple(
                dims[self.named[leaf.path, axis]] if (leaf.path, axis) in self.named else size
                for axis, size in enumerate(leaf.tensor.shape)
            )
            for leaf in self.looker.inputs
        }

    def axes(self, path: str) -> tuple[Axis, ...]:
        """An input's shape in dims."""
        shape = next(leaf.tensor.shape for leaf in self.looker.inputs if leaf.path == path)
        return tuple(self.named.get((path, axis), size) for axis, size in enumerate(shape))

    def of(self, given: Any) -> Dims:
        """The dims of other inputs, like those that `get_inputs` gives.

        Raises:
            Refused: they differ in more than dims.
        """
        shapes = self.looker.shapes_of(given)
        dims = {
            name: shapes[path][axis]
            for (path, axis), name in self.named.items()
            if axis < len(shapes[path])
        }
        for path, wanted in self.shapes({**self.given, **dims}).items():
            if wanted != shapes[path]:
                raise Refused(f"{path or 'it'} has the shape {shapes[path]}, no {wanted}")
        return {name: dims[name] for name in self.given}

    def runs(self, **changed: int) -> SeenModel | None:
        """A run with some dims changed; None where it can't be run so."""
        return self.looker.works(self.shapes({**self.given, **changed}))


def find_sizes(looker: Looker, names: Mapping[str, str]) -> Sizes:
    """The dims of a computation, found by trying which sizes may change alone or together.

    Args:
        looker: runs it.
        names: of the inputs, by path: no dim is called so.
    """
    sizes = Sizes(looker)
    places = {
        (leaf.path, axis): size
        for leaf in looker.inputs
        for axis, size in enumerate(leaf.tensor.shape)
        if size > 1
    }
    ranks = {leaf.path: leaf.tensor.dim() for leaf in looker.inputs}
    left = dict(places)
    found: list[tuple[list[Place], int | None]] = []
    groupings: list[Callable[[Place], object]] = [
        lambda place: place,
        lambda place: (left[place], place[1]),
        lambda place: (left[place], place[1] - ranks[place[0]]),
        lambda place: left[place],
    ]
    bounds: dict[str, Place] = {}
    for in_both_ways, key in itertools.product((True, False), groupings):
        for group in _grouped(left, key):
            tried = _Tried(looker, group, left[group[0]], bounds)
            if (other := tried.other_size(in_both_ways=in_both_ways)) is not None:
                found.append((group, other))
        for group, _ in found:
            for place in group:
                left.pop(place, None)
    found += [(group, None) for group in _grouped(left, lambda place: left[place])]
    order = {place: index for index, place in enumerate(places)}
    found.sort(key=lambda one: order[one[0][0]])
    taken = set(names.values())
    heads = [rank for rank in ranks.values() if rank == len(HEADS)]
    for group, other in found:
        name = _name(group[0], ranks, taken, is_attention=len(heads) > 2)
        taken.add(name)
        sizes.named.update(dict.fromkeys(group, name))
        sizes.given[name] = places[group[0]]
        if other is not None:
            sizes.others[name] = other
    sizes.bounds = {path: sizes.named[place] for path, place in bounds.items()}
    _keep_joint(sizes)
    return sizes


def _grouped(places: Mapping[Place, int], key: Callable[[Place], object]) -> Iterator[list[Place]]:
    groups: dict[object, list[Place]] = {}
    for place in places:
        groups.setdefault(key(place), []).append(place)
    return iter(list(groups.values()))


@dataclass(frozen=True)
class _Tried:
    looker: Looker
    group: Sequence[Place]
    size: int
    bounds: dict[str, Place]
    """Whole numbers that turn out to be below a size, by path of their input: that size's place."""

    def other_size(self, *, in_both_ways: bool) -> int | None:
        """Another size at which it runs; None if there is none.

        Args:
            in_both_ways: whether it has to run at smaller and larger ones.
        """
        works = [other for other in other_sizes(self.size) if self._runs(other)]
        if in_both_ways and len(works) < len(other_sizes(self.size)):
            return None
        return next(iter(works), None)

    def _runs(self, other: int) -> bool:
        shapes = {leaf.path: list(leaf.tensor.shape) for leaf in self.looker.inputs}
        for path, axis in self.group:
            shapes[path][axis] = other
        whole = {path: tuple(shape) for path, shape in shapes.items()}
        indices = [leaf.path for leaf in self.looker.inputs if _may_index(leaf.tensor, self.size)]
        is_known = not indices or other > self.size or not self.looker.takes_long(whole)
        if is_known and self.looker.computes(whole):
            return True
        if not indices or other > self.size or not self.looker.computes(whole, below=other):
            return False
        self.bounds.update((path, self.group[0]) for path in indices if path not in self.bounds)
        return True


def _may_index(tensor: torch.Tensor, size: int) -> bool:
    """Whether its numbers may be indices into so many."""
    if tensor.dtype.is_floating_point or tensor.dtype == torch.bool or not tensor.numel():
        return False
    return int(tensor.min()) >= 0 and size // 2 <= int(tensor.max()) < size


def other_sizes(size: int) -> list[int]:
    """What is tried in place of a size: half of it, where that isn't 1, and twice."""
    return [*([size // 2] if size > 3 else []), 2 * size]


def _keep_joint(sizes: Sizes) -> None:
    """Leave dims that may change together, too."""
    kept: Dims = {}
    for name, other in sizes.others.items():
        if not kept or sizes.runs(**kept, **{name: other}) is not None:
            kept[name] = other
    sizes.others = kept


def _name(place: Place, ranks: Mapping[str, int], taken: set[str], *, is_attention: bool) -> str:
    path, axis = place
    letters = HEADS if is_attention and ranks[path] == len(HEADS) else LETTERS.get(ranks[path], "")
    usual = letters[axis] if axis < len(letters) else ""
    numbered = (f"N{number}" for number in itertools.count(1))
    wanted = itertools.chain([usual], MORE, numbered)
    return next(name for name in wanted if is_name(name) and name not in taken)


def result_shapes(sizes: Sizes, first: SeenModel) -> list[tuple[Axis, ...]]:
    """Shapes of the results, in dims; a dim that they don't follow in a plain way is fixed."""
    while True:
        points = {name: _points(sizes, name) for name in sizes.others}
        joint = sizes.runs(**sizes.others) if sizes.others else first
        assert joint is not None, "sizes that may not change together were left out"
        found, strange = [], set[str]()
        for index, one in enumerate(first.returned):
            axes = []
            for axis, size in enumerate(one.shape):
                values = {
                    name: {d: seen.returned[index].shape[axis] for d, seen in runs.items()}
                    for name, runs in points.items()
                }
                at = joint.returned[index].shape[axis]
                told, movers = _axis(size, values, sizes, at)
                strange |= movers if told is None else set()
                axes.append(size if told is None else told)
            found.append(tuple(axes))
        if not strange:
            sizes.settle()
            return found
        for name in strange:
            del sizes.others[name]


def _points(sizes: Sizes, name: str) -> dict[int, SeenModel]:
    given, other = sizes.given[name], sizes.others[name]
    near = (given + 1, given + 2, given + 3, given - 1, 3 * given, given + other)
    runs = {size: sizes.runs(**{name: size}) for size in {given, other, *near} if size > 1}
    return {size: seen for size, seen in runs.items() if seen is not None}


def _axis(
    size: int, values: Mapping[str, Mapping[int, int]], sizes: Sizes, joint: int
) -> tuple[Axis | None, set[str]]:
    """A result's size in dims, and the dims that it follows; None: in no plain way."""
    movers = {name for name, seen in values.items() if set(seen.values()) != {size}}
    given, others = sizes.given, sizes.others
    if not movers:
        return size, movers
    if len(movers) == 1:
        (name,) = movers
        return _one_dim(name, values[name]), movers
    product, total, rest = 1, "", size
    for name in movers:
        product *= given[name]
    if size % product == 0:
        wanted = size // product
        for name in movers:
            wanted *= others[name]
        if wanted == joint:
            factor = [str(size // product)] if size != product else []
            return " * ".join([*factor, *sorted(movers, key=[*given].index)]), movers
    for name in sorted(movers, key=[*given].index):
        step = (values[name][others[name]] - size) / (others[name] - given[name])
        if step != int(step) or step <= 0:
            return None, movers
        total += (" + " if total else "") + (name if step == 1 else f"{int(step)} * {name}")
        rest -= int(step) * given[name]
        joint -= int(step) * others[name]
    if rest != joint:
        return None, movers
    return (f"{total} {'+' if rest > 0 else '-'} {abs(rest)}" if rest else total), movers


def _one_dim(name: str, seen: Mapping[int, int]) -> str | None:
    """`2 * H`, `(H + 1) // 2`, `H - 2`, for sizes of a result by the dim's."""
    shifts = sorted(range(-LARGEST_SHIFT, LARGEST_SHIFT + 1), key=abs)
    first = next(iter(seen))
    for step, factor, shift in itertools.product(
        range(1, LARGEST_STEP + 1), range(1, LARGEST_STEP + 1), shifts
    ):
        if step == 1 and shift:
            continue
        rest = seen[first] - factor * ((first + shift) // step)
        if all(factor * ((d + shift) // step) + rest == size for d, size in seen.items()):
            inner = name if not shift else f"({name} {'+' if shift > 0 else '-'} {abs(shift)})"
            text = inner if step == 1 else f"{inner} // {step}"
            if factor != 1:
                text = f"{factor} * {text if step == 1 else f'({text})'}"
            return text if not rest else f"{text} {'+' if rest > 0 else '-'} {abs(rest)}"
    # far more than any window, such as D * 1536
    steps = {(size - seen[first], d - first) for d, size in seen.items() if d != first}
    slopes = {rise / run for rise, run in steps}
    if len(slopes) == 1 and (slope := slopes.pop()) == int(slope) > 0:
        rest = seen[first] - int(slope) * first
        text = f"{int(slope)} * {name}"
        return text if not rest else f"{text} {'+' if rest > 0 else '-'} {abs(rest)}"
    return None


def scaled(
    sizes: Sizes, is_too_much: Callable[[SeenModel], bool], dims: Mapping[str, int], seen: SeenModel
) -> Dims:
    """Sizes halved one by one, the largest first, until a call, as it was seen, isn't too much."""
    dims, stuck = dict(dims), set[str]()
    for _ in range(MOST_SCALINGS):
        free = [name for name in sizes.others if name not in stuck and dims[name] > 3]
        if not is_too_much(seen) or not free:
            break
        name = max(free, key=dims.__getitem__)
        smaller = {**dims, name: dims[name] // 2}
        found = sizes.looker.works(sizes.shapes(smaller))
        if found is None:
            stuck.add(name)
        else:
            dims, seen = smaller, found
    return dims


def other_workload(sizes: Sizes, dims: Dims) -> Dims | None:
    """One that differs from another in every dim that may; None if none may."""
    changed = dict(dims)
    for name in sizes.others:
        for other in other_sizes(dims[name]):
            tried = {**changed, name: other}
            if sizes.looker.works(sizes.shapes(tried)) is not None:
                changed = tried
                break
    return changed if changed != dims else None
