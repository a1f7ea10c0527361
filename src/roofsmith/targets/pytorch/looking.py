"""In a worker: a computation is run on tensors without numbers, to see what it takes and gives."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from roofsmith.targets.pytorch.user_file import Callee, Refused, UserFile

logging.getLogger("torch").setLevel(logging.CRITICAL)  # it tells what may be tried in vain

LOOKS_AT_NUMBERS = (
    "DataDependentOutputException", "DynamicOutputShapeException", "GuardOnDataDependentSymNode",
)  # fmt: skip
SHORT_FLOP, SHORT_BYTES = 2e8, 1e8
"""Of a call that is tried with numbers a few dozen times. Chosen."""


@dataclass(frozen=True)
class Leaf:
    """A tensor that the computation is given."""

    path: str
    tensor: torch.Tensor


@dataclass(frozen=True)
class Returned:
    path: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    same_as: str | None
    """Path of the input that it is, if it is one that was changed in place."""


@dataclass(frozen=True)
class SeenModel:
    returned: tuple[Returned, ...]
    changed: frozenset[str]
    """Paths of inputs that it changed."""
    changed_weights: frozenset[str]
    used_weights: frozenset[str]
    narrow: bool
    """Whether an operator gives floats other than float64."""
    flops: float
    """Of products, convolutions and attention."""
    moved_bytes: int
    """Of the inputs, and of all that is passed between operators: what plain code touches."""

    @property
    def takes_long(self) -> bool:
        """Whether it isn't tried with numbers at these sizes."""
        return self.flops > SHORT_FLOP or self.moved_bytes > SHORT_BYTES


class _Watch(TorchDispatchMode):  # type: ignore[misc]
    def __init__(self, file: UserFile) -> None:
        super().__init__()
        self._file = file
        self.moved_bytes = 0
        self.used: set[int] = set()
        """Ids of tensors that operators got."""
        self.changed: set[int] = set()
        """Ids of those that change though their versions don't tell."""
        self.is_narrow = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded in func.tags and _draws(func, args, kwargs):
            place = self._file.line_of()
            raise Refused(
                f"{place}: `{self._file.source_of(place)}` draws random numbers"
                f" ({func.name().partition('.')[0].replace('::', '.')}), so that no kernel can be"
                " held against it",
                "for dropout, end the module's __init__ with self.eval(); take other random tensors"
                " as inputs",
            )
        self.used.update(map(id, pytree.tree_leaves((args, kwargs))))
        self.changed.update(map(id, _statistics(func, args, kwargs)))
        result = func(*args, **kwargs)
        for one in pytree.tree_leaves(result):
            if isinstance(one, torch.Tensor):
                self.moved_bytes += one.numel() * one.element_size()
                self.is_narrow |= one.is_floating_point() and one.dtype != torch.float64
        return result


def _draws(func: Any, args: Any, kwargs: Any) -> bool:
    """Whether an operator that may draw numbers does: attention without dropout doesn't."""
    name = func.name()
    if "dropout" not in name and "attention" not in name:
        return True
    for index, one in enumerate(func._schema.arguments):
        if one.name in ("dropout_p", "p"):
            value = args[index] if index < len(args) else kwargs.get(one.name, one.default_value)
            return bool(value)
    return False


def _statistics(func: Any, args: Any, kwargs: Any) -> list[Any]:
    """The running statistics that a batch norm in training mode changes."""
    if "batch_norm" not in func.name():
        return []
    names = [one.name for one in func._schema.arguments]
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    if not given.get("training", given.get("train", False)):
        return []
    return [given[name] for name in ("running_mean", "running_var") if name in given]


def leaves(given: Any) -> list[tuple[str, Any]]:
    """What `get_inputs` gives, by path: tensors and numbers."""
    with_paths, _ = pytree.tree_flatten_with_path(given)
    return [(pytree.keystr(path), value) for path, value in with_paths]


class Looker:
    """Runs a computation on fake tensors of any shapes."""

    def __init__(self, file: UserFile, callee: Callee, given: Any) -> None:
        self.file, self._callee, self._given = file, callee, given
        self.inputs = [Leaf(path, one) for path, one in leaves(given) if torch.is_tensor(one)]
        self.sizes: dict[str, tuple[str, int]] = {}
        """Paths of whole numbers that are an input's size: that input's, and the axis."""

    def find_sizes(self, listed: Iterable[Any]) -> None:
        """Find numbers that are a size in each of some other inputs, and differ between them."""
        own = dict(leaves(self._given))
        alike = {
            path: [(one.path, axis) for one in self.inputs for axis in range(one.tensor.dim())]
            for path, one in own.items() if type(one) is int
        }  # fmt: skip
        if not alike:
            return
        others = [own, *(dict(leaves(one)) for one in listed)]
        others = [one for one in others if one.keys() == own.keys()]
        for path, places in alike.items():
            found = [
                (of, axis) for of, axis in places
                if all(torch.is_tensor(one[of]) and one[path] == _size(one[of], axis)
                       for one in others)
            ]  # fmt: skip
            if found and len({one[path] for one in others}) > 1:
                self.sizes[path] = found[0]

    def shapes_of(self, given: Any) -> dict[str, tuple[int, ...]]:
        """The shapes of other inputs, by path.

        Raises:
            Refused: they aren't like those that `get_inputs` gives.
        """
        own, other = (dict(leaves(one)) for one in (self._given, given))
        if own.keys() != other.keys():
            raise Refused("it isn't made of as many tensors and numbers as get_inputs() gives")
        for path, one in own.items():
            is_tensor = torch.is_tensor(one)
            is_nan = str(one) == str(other[path]) == "nan"
            is_same = path in self.sizes or is_nan or (not is_tensor and one == other[path])
            if is_tensor != torch.is_tensor(other[path]) or not (is_tensor or is_same):
                raise Refused(f"{path} is {other[path]!r}, of get_inputs() {one!r}")
            if is_tensor and one.dtype != other[path].dtype:
                raise Refused(f"{path} is of {other[path].dtype}, of get_inputs() {one.dtype}")
        return {leaf.path: tuple(other[leaf.path].shape) for leaf in self.inputs}

    def seen(self, shapes: Mapping[str, tuple[int, ...]], *, exact: bool = False) -> SeenModel:
        """A run on inputs of these shapes, by path.

        Args:
            shapes: of every input.
            exact: whether all floats are given in float64.

        Raises:
            Refused: it can't be run so.
        """

        def kind(one: torch.Tensor) -> torch.dtype:
            return torch.float64 if exact and one.is_floating_point() else one.dtype

        with FakeTensorMode(allow_non_fake_inputs=True) as mode:
            weights = {
                key: mode.from_tensor(one).to(kind(one))
                for key, one in self._callee.weights.items()
            }
            made = {
                leaf.path: torch.empty(shapes[leaf.path], dtype=kind(leaf.tensor))
                for leaf in self.inputs
            }
            before = {path: one._version for path, one in made.items()}
            given = self.with_tensors(made)
            stored = {key: one._version for key, one in weights.items()}
            counter, watch = FlopCounterMode(display=False), _Watch(self.file)
            try:
                with torch.no_grad(), counter, watch:
                    result = self._callee(weights, given)
            except Refused:
                raise
            except Exception as error:  # user code may raise anything
                raise self._refusal(error) from error
            changed = {path for path, one in made.items() if one._version != before[path]}
            return SeenModel(
                tuple(self._returned(result, {path: made[path] for path in changed})),
                frozenset(changed),
                frozenset(
                    k
                    for k, one in weights.items()
                    if one._version != stored[k] or id(one) in watch.changed
                ),
                frozenset(k for k, one in weights.items() if id(one) in watch.used),
                watch.is_narrow,
                float(counter.get_total_flops()),
                watch.moved_bytes + sum(one.nbytes for one in made.values()),
            )

    def works(self, shapes: Mapping[str, tuple[int, ...]]) -> SeenModel | None:
        """The same; None where it can't be run so."""
        with suppress(Refused):
            return self.seen(shapes)
        return None

    def computes(self, shapes: Mapping[str, tuple[int, ...]], below: int | None = None) -> bool:
        """Whether it runs on numbers, too; True where that would take long.

        Args:
            shapes: of every input.
            below: whole numbers that may be at least this are drawn below it.
        """
        if (seen := self.works(shapes)) is None or seen.takes_long:
            return seen is not None
        weights = {key: one.clone() for key, one in self._callee.weights.items()}
        try:
            with torch.no_grad():
                self._callee(weights, self.drawn(shapes, below))
        except Exception:  # noqa: BLE001 - user code may raise anything
            return False
        return True

    def takes_long(self, shapes: Mapping[str, tuple[int, ...]]) -> bool:
        """Whether it runs on inputs of these shapes, and isn't tried with numbers."""
        seen = self.works(shapes)
        return seen is not None and seen.takes_long

    def drawn(self, shapes: Mapping[str, tuple[int, ...]], below: int | None = None) -> Any:
        """What it is called with, of these shapes, in numbers like those that were given."""
        return self.with_tensors(
            {leaf.path: _numbers(leaf.tensor, shapes[leaf.path], below) for leaf in self.inputs}
        )

    def with_tensors(self, made: Mapping[str, torch.Tensor]) -> Any:
        """What it is called with, these tensors in it."""
        sizes = {path: made[of].shape[axis] for path, (of, axis) in self.sizes.items()}
        return pytree.tree_map_with_path(
            lambda path, one: {**made, **sizes}.get(pytree.keystr(path), one), self._given
        )

    def _refusal(self, error: Exception) -> Refused:
        if type(error).__name__ in LOOKS_AT_NUMBERS or ".numpy() is not supported" in str(error):
            place = self.file.line_of(error)
            return Refused(
                f"{place}: `{self.file.source_of(place)}` looks at the numbers in a tensor, and a"
                " kernel's steps can't depend on them",
                "write it without: torch.where(condition, a, b) in place of `if`, a mask in place"
                " of a selection",
            )
        return self.file.refusal(error, "calling it")

    def _returned(self, result: Any, changed: Mapping[str, torch.Tensor]) -> list[Returned]:
        found = []
        for path, one in leaves(result):
            if not isinstance(one, torch.Tensor):
                continue
            if one.is_sparse or one.is_nested or one.is_complex():
                kind = "sparse" if one.is_sparse else "nested" if one.is_nested else "complex"
                raise Refused(f"{self.file.shown}: a result is {kind}", "return plain tensors")
            same = [key for key, given in changed.items() if _is_same(one, given)]
            found.append(Returned(path, one.dtype, tuple(one.shape), next(iter(same), None)))
        if not found and not changed:
            raise Refused(
                f"{self.file.shown}: it returns no tensor and changes none of its inputs",
                "return what it computes",
            )
        return found


def _size(one: torch.Tensor, axis: int) -> int | None:
    return one.shape[axis] if axis < one.dim() else None


def _numbers(like: torch.Tensor, shape: tuple[int, ...], below: int | None) -> torch.Tensor:
    """Some in the range of others; the largest is among them."""
    if like.dtype == torch.bool:
        return torch.rand(shape) < 0.5
    if like.is_floating_point() or like.numel() == 0:
        return torch.randn(shape).to(like.dtype)
    low, high = int(like.min()), int(like.max()) + 1
    if below is not None and high > below > low:
        high = below
    made = torch.randint(low, high, shape, dtype=like.dtype)
    made.reshape(-1)[:1] = high - 1
    return made


def _is_same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors are all of the same memory in the same order."""
    return bool(
        one.untyped_storage()._cdata == other.untyped_storage()._cdata
        and one.shape == other.shape
        and one.stride() == other.stride()
        and one.storage_offset() == other.storage_offset()
        and one.dtype == other.dtype
    )
