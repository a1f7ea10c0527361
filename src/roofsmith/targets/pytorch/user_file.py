"""In a worker: a user's PyTorch file is imported, and what it holds is found and made."""

from __future__ import annotations

import importlib.util
import inspect
import linecache
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import torch
from torch import nn

from roofsmith.targets.pytorch.program import module_name

GETTERS = frozenset(("get_inputs", "get_init_inputs", "get_workloads"))
USUAL = "Model"
"""What KernelBench's files call theirs."""
EXAMPLE = (
    "def get_inputs(): return [torch.randn(64, 512)]: the tensors that it is called with, in order"
)


class Refused(Exception):  # noqa: N818
    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


@dataclass
class UserFile:
    path: Path
    shown: str
    """As the user named it."""
    module: ModuleType = field(default_factory=lambda: ModuleType("nothing"))

    def load(self) -> None:
        """Import it.

        Raises:
            Refused: it can't be.
        """
        sys.path.insert(0, str(self.path.parent))
        name = module_name(self.path.stem)
        spec = importlib.util.spec_from_file_location(name, self.path)
        assert spec is not None, "it is a .py file"
        assert spec.loader is not None, "so there is a loader"
        sys.modules[name] = self.module = importlib.util.module_from_spec(spec)
        with self.blaming("importing it"):
            spec.loader.exec_module(self.module)

    def line_of(self, error: BaseException | None = None) -> str:
        """`model.py:12`, where its code raised, or is now; the file alone where it isn't."""
        frames = (
            traceback.extract_stack()
            if error is None
            else traceback.extract_tb(error.__traceback__)
        )
        for frame in reversed(frames):
            if Path(frame.filename).parent == self.path.parent:
                shown = Path(self.shown).with_name(Path(frame.filename).name)
                return f"{shown}:{frame.lineno}"
        return self.shown

    def source_of(self, place: str) -> str:
        """The text of a line such as `model.py:12`; empty where there is none."""
        name, _, number = place.rpartition(":")
        if not number.isdigit():
            return ""
        file = self.path.with_name(Path(name).name)
        return linecache.getline(str(file), int(number)).strip()

    @contextmanager
    def blaming(self, doing: str) -> Iterator[None]:
        """Turn what its code raises into a refusal with the line."""
        try:
            yield
        except Refused:
            raise
        except ModuleNotFoundError as error:
            place = self.line_of(error)
            raise Refused(
                f"{place}: {error.name} isn't installed",
                f"install it for the Python that roofsmith runs in: {sys.executable} -m pip"
                f" install {(error.name or '').partition('.')[0]}",
            ) from error
        except SystemExit as error:
            raise Refused(f"{self.line_of(error)}: {doing} exits", "it has to return") from error
        except MemoryError as error:
            raise Refused(f"{self.line_of(error)}: {doing}: not enough memory") from error
        except Exception as error:  # user code may raise anything
            raise self.refusal(error, doing) from error

    def refusal(self, error: BaseException, doing: str) -> Refused:
        place, text = self.line_of(error), str(error).strip().partition("\n")[0]
        kind = type(error).__name__
        lowered = f"{kind} {error}".lower()
        if "allocate memory" in lowered:
            return Refused(f"{place}: {doing}: not enough memory", "make its sizes smaller")
        if any(word in lowered for word in ("cuda", "hip", "xpu", "mps")):
            return Refused(
                f"{place}: it asks for a device that isn't here: {text}",
                "leave the device out: tensors are made where the kernel runs",
            )
        return Refused(f"{place}: {doing} raises {kind}: {text}", "it has to run by itself first")

    def found(self, name: str | None) -> str:
        """The name of the function or module that is meant.

        Raises:
            Refused: there is none, or several.
        """
        own = [
            key
            for key, value in vars(self.module).items()
            if not key.startswith("_") and key not in GETTERS and self._is_own(value)
        ]
        if name is not None:
            if not callable(getattr(self.module, name, None)):
                raise Refused(f"{self.shown} has no function or module {name}", _one_of(own))
            return name
        modules = [key for key in own if _is_module(getattr(self.module, key))]
        if USUAL in modules:
            return USUAL
        for names in (modules, [key for key in own if key not in modules]):
            if len(names) == 1:
                return names[0]
            if names:
                raise Refused(
                    f"{self.shown} holds several: {', '.join(names)}",
                    f"say which one: --from-pytorch {self.shown}:{names[-1]}",
                )
        raise Refused(
            f"{self.shown} holds no function and no nn.Module",
            "it is a Python file that defines what is computed, in PyTorch",
        )

    def _is_own(self, value: Any) -> bool:
        if isinstance(value, nn.Module):
            return True
        is_kind = inspect.isfunction(value) or _is_module(value)
        return is_kind and value.__module__ == self.module.__name__

    def getter(self, name: str) -> Callable[[], Any] | None:
        """One of the functions that say what it is called with."""
        value = getattr(self.module, name, None)
        return value if callable(value) else None

    def given(self) -> Any:
        """What `get_inputs` gives.

        Raises:
            Refused: there is no such function, or it raises.
        """
        getter = self.getter("get_inputs")
        if getter is None:
            raise Refused(
                f"{self.shown} has no get_inputs(), so nobody knows the shapes", f"add {EXAMPLE}"
            )
        with self.blaming("get_inputs()"):
            return getter()


def _one_of(names: list[str]) -> str | None:
    return f"it holds {', '.join(names)}" if names else None


def _is_module(value: Any) -> bool:
    return isinstance(value, nn.Module) or (
        isinstance(value, type) and issubclass(value, nn.Module)
    )


@dataclass
class Callee:
    """A function, or a module with its weights."""

    kind: Literal["function", "module", "class"]
    function: Callable[..., Any]
    weights: dict[str, torch.Tensor]
    """By dotted name."""
    held: tuple[str, ...] = ()
    init_inputs: Literal["", "*", "**"] = ""
    """How what `get_init_inputs` gives was passed on."""

    def __call__(self, weights: dict[str, torch.Tensor], args: Any) -> Any:
        """Call it with other weights, and what `get_inputs` gives."""
        positional, named = arguments(args)
        if isinstance(self.function, nn.Module):
            return torch.func.functional_call(self.function, weights, positional, named)
        return self.function(*positional, **named)


def arguments(given: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What a call gets of what `get_inputs` gives."""
    if isinstance(given, dict):
        return (), given
    return (tuple(given) if isinstance(given, (list, tuple)) else (given,)), {}


def made(file: UserFile, name: str, free_bytes: int) -> Callee:
    """The callee of a file; its weights are counted before they are drawn.

    Raises:
        Refused: it can't be made, or doesn't fit.
    """
    value = getattr(file.module, name)
    if not _is_module(value):
        return Callee("function", value, {})
    if isinstance(value, nn.Module):
        return Callee("module", value, *_weights(value))
    getter = file.getter("get_init_inputs")
    with file.blaming("get_init_inputs()"):
        positional, named = ((), {}) if getter is None else arguments(getter())
    stars: Literal["", "*", "**"] = "" if getter is None else "**" if named else "*"
    needed = inspect.signature(value).parameters.values()
    empty = inspect.Parameter.empty
    lacking = [p.name for p in needed if p.default is empty and p.kind < p.VAR_POSITIONAL]
    if getter is None and lacking:
        raise Refused(
            f"{file.shown}: {name} is made with {', '.join(lacking)}, and nobody says what they"
            " are",
            "add def get_init_inputs(): return [512]: the arguments of its __init__, in order",
        )
    _require_room(file, lambda: value(*positional, **named), free_bytes)
    torch.manual_seed(0)
    with file.blaming(f"{name}(...)"):
        module = value(*positional, **named)
    return Callee("class", module, *_weights(module), stars)


def _require_room(file: UserFile, make: Callable[[], nn.Module], free_bytes: int) -> None:
    """See that a module fits, by one without numbers."""
    try:
        with torch.device("meta"):
            module = make()
    except (Exception, SystemExit):  # noqa: BLE001  what computes while it is made needs numbers
        return
    tensors = (*module.parameters(), *module.buffers())
    size = sum(one.numel() * one.element_size() for one in tensors)
    if size > free_bytes:
        raise Refused(
            f"{file.shown}: the module has {size / 1e9:.3g} GB of weights, and"
            f" {free_bytes / 1e9:.3g} GB fit here with the copies that a judge needs",
            "make a smaller one in get_init_inputs(): a layer in place of the model, say",
        )


def _weights(module: nn.Module) -> tuple[dict[str, torch.Tensor], tuple[str, ...]]:
    """Tensors of a module by dotted name, and which were plain attributes: buffers from now on."""
    held = []
    for prefix, part in list(module.named_modules()):
        for key, value in list(vars(part).items()):
            if isinstance(value, torch.Tensor):
                delattr(part, key)
                part.register_buffer(key, value)
                held.append(f"{prefix}.{key}" if prefix else key)
    named = (*module.named_parameters(), *module.named_buffers())
    return {key: value.detach() for key, value in named}, tuple(held)


def is_name(text: str) -> bool:
    """Whether Python and C take it for the name of an argument."""
    return text.isidentifier() and text.isascii() and text not in _WORDS.split()


_WORDS = """
    abs acos and as asin asm assert async atan auto await bool break case catch cbrt ceil
    char class const continue cos cosh def default del delete do double elif else enum erf
    erfc except exp exp2 expm1 extern fabs False finally float floor fma fmax fmin fmod for
    free friend from gamma global goto I if import in index INFINITY inline int is isinf
    isnan j0 j1 jn lambda log log10 log1p log2 long main malloc memcpy namespace NAN new
    None nonlocal not NULL operator or pass pow private public raise reference register
    restrict return round seed setup short signbit signed sin sinh sizeof solve sqrt static
    struct switch tan tanh template this throw torch True trunc try typedef typename union
    unsigned using virtual void volatile while with xor y0 y1 yield
"""
"""Words of Python and C, functions of math.h, and names that references have."""
