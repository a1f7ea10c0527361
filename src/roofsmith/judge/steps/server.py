"""The reference's side while steps of training are run: draws inputs, and looks at outputs.

Nothing that a candidate could read holds what is right: it is computed when outputs have arrived.
"""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roofsmith.analysis.skew import skewed, spelled
from roofsmith.domain.kernel import Signature
from roofsmith.job_limits import granted
from roofsmith.judge.host.arena import Arena
from roofsmith.judge.host.array_messages import from_json
from roofsmith.judge.host.reference import Reference
from roofsmith.judge.user_module import Complaint, load_baseline, load_module

LARGEST_ROW_ERROR = 0.25
"""Of a row's own size. A judgement has shown that results are as exact as they should be; here they
are those of other inputs, or of other rows, or they aren't, and then all digits are wrong."""
HONEST_FACTOR = 100.0
"""Multiple of the reference's own error in the declared precision, where that is larger."""
STALE_FACTOR = 30.0
"""How much nearer to an earlier call's result than to its own an output has to be to be that one's:
sums of many numbers differ little from draw to draw. An honest result is never, unless its error is
larger than what the draws differ by, and then all elements would have to agree by chance."""
FEWEST_STALE = 4
"""Elements that would have to."""
REMEMBERED = 4
"""Earlier calls that a wrong result is compared with."""
AT_ONCE = 2**16
"""Elements, so that what is made of them stays in a cache. Chosen."""

Array = NDArray[np.float64]
Numbers = NDArray[np.generic]


class _Right:
    """What is right of an output, and what errors of its rows are measured by: a row's size, or the
    size of all rows if that is larger."""

    def __init__(self, values: Array) -> None:
        columns = values.shape[-1] if values.ndim > 1 else 1
        self._rows = values.reshape(-1, columns)
        self._step = max(AT_ONCE // columns, 1)
        squares = np.zeros(len(self._rows))
        with np.errstate(all="ignore"):
            for at in range(0, len(self._rows), self._step):
                some = self._rows[at : at + self._step]
                known = np.where(np.isfinite(some), some, 0.0)
                squares[at : at + self._step] = (known**2).mean(axis=1)
            scale = np.sqrt(np.maximum(squares, squares.mean() if len(squares) else 0.0))
        self._scale = np.where(scale > 0, scale, 1.0)

    def error_of(self, out: Numbers, enough: float = np.inf) -> float:
        """Worst error of a row over what it is measured by; of one that is as large as `enough`,
        any that is. Infinite where one of them isn't finite and the other is."""
        worst, outs = 0.0, out.reshape(self._rows.shape)
        for at in range(0, len(outs), self._step):
            part = slice(at, at + self._step)
            one, right = outs[part].astype(np.float64, copy=False), self._rows[part]
            with np.errstate(all="ignore"):
                same = (one == right) | (np.isnan(one) & np.isnan(right))
                off = np.where(same, 0.0, one - right)
                errors = np.sqrt((off**2).mean(axis=1)) / self._scale[part]
            worst = max(worst, float(errors.max()) if np.isfinite(errors).all() else 1e308)
            if worst >= enough:
                break
        return min(worst, 1e308)


class StepsServer:
    """Answers the parent's messages about one reference on the host or on a device."""

    def __init__(self, reference: Any = None) -> None:
        """Nothing is drawn yet.

        Args:
            reference: that is loaded already; None: `load` follows.
        """
        self.path = ""
        self._reference = reference
        self._arena: Arena | None = None
        self._values: dict[str, Any] = {}
        self._outputs: set[str] = set()
        self._truths: list[dict[str, _Right]] = []

    def load(self, message: dict[str, Any]) -> dict[str, Any]:
        """Import the reference."""
        self.path = message["path"]
        module = load_module(Path(self.path), message["extensions"])
        signature = Signature.model_validate(message["signature"])
        if message["device"] is None:  # PyTorch maps far more addresses than it uses
            limit = granted(resource.RLIMIT_AS, message["memory_bytes"])
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
            self._reference = Reference(module, signature, message["ptr_size"])
        else:
            from roofsmith.judge.gpu.reference import GpuReference

            baseline = None
            if message["kernel"]:
                folders = (message["kernel_extensions"], message["extensions"])
                baseline = load_baseline(Path(message["kernel"]), *folders)
            self._reference = GpuReference(
                module, baseline, signature, message["ptr_size"], tf32=message["tf32"],
                device=message["device"],
            )  # fmt: skip
        return {}

    def describe(self, message: dict[str, Any]) -> dict[str, Any]:
        """Arrays and numbers of a workload, in the order of its arguments."""
        described: dict[str, Any] = self._reference.describe(message["dims"])
        return described

    def map(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Take the memory that arrays are exchanged in; bfloat16 lies in it as its bits."""
        specs = from_json(message["arrays"])
        self._arena = Arena(specs, 1, fds[0])
        return {}

    def done(self, message: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG002
        """Forget all steps."""
        if self._arena is not None:
            self._arena.close()
        self._arena, self._values, self._outputs, self._truths = None, {}, set(), []
        return {}

    def draw(self, message: dict[str, Any]) -> dict[str, Any]:
        """New inputs, but for those that are kept; rows dealt unevenly, if there are groups."""
        values, self._outputs = self._reference.inputs(message["dims"], message["seed"])
        values.update({name: self._values[name] for name in message["keep"]})
        dealt = self._dealt(values, message["seed"]) if message["skew"] else {}
        for name, numbers in dealt.items():
            values[name][:] = _like(numbers, values[name])
        self._values = values
        for name, value in values.items():
            if not isinstance(value, (int, float)):
                self._bytes(name)[:] = _bytes_of(value)
        return {"skewed": spelled(dealt)}

    def check(self, message: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG002
        """What is wrong with the outputs that lie in the memory; nothing if they are right."""
        truth = {name: _Right(value) for name, value in self._expected(exact=True).items()}
        wrong = next(
            filter(None, (self._wrong(name, right) for name, right in truth.items())), None
        )
        self._truths = [*self._truths, truth][-REMEMBERED:]
        return {"wrong": wrong}

    def answer(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        if message["op"] == "map":
            return self.map(message, fds)
        operations = {
            "load": self.load, "describe": self.describe, "draw": self.draw, "check": self.check,
            "done": self.done,
        }  # fmt: skip
        return operations[message["op"]](message)

    def _dealt(self, values: dict[str, Any], seed: int) -> dict[str, list[int]]:
        whole = {
            name: [int(v) for v in value.tolist()]
            for name, value in values.items()
            if name not in self._outputs and _is_integer_vector(value)
        }
        return skewed(whole, seed)

    def _wrong(self, name: str, right: _Right) -> dict[str, Any] | None:
        """What is wrong with an output, and whether it is the right one of an earlier call."""
        out, allowed = self._output(name), LARGEST_ROW_ERROR
        error = right.error_of(out)
        if self._is_stale(name, out, error):
            return {"output": name, "error": error, "earlier": True}
        if error <= allowed:
            return None
        honest = right.error_of(self._expected(exact=False)[name])
        allowed = max(allowed, HONEST_FACTOR * honest)
        if error <= allowed:
            return None
        again = any(old[name].error_of(out) <= allowed for old in self._truths)
        return {"output": name, "error": error, "earlier": again}

    def _is_stale(self, name: str, out: Numbers, error: float) -> bool:
        """Whether an output is an earlier call's, however little that differs from its own."""
        enough = error / STALE_FACTOR
        return out.size >= FEWEST_STALE and any(
            old[name].error_of(out, enough) < enough for old in self._truths
        )

    def _expected(self, *, exact: bool) -> dict[str, Array]:
        found = self._reference.expect(self._values, self._outputs, exact=exact)
        return {name: _as_float64(value) for name, value in found.items()}

    def _bytes(self, name: str) -> NDArray[np.uint8]:
        if self._arena is None:
            raise Complaint("nothing was mapped")
        view: NDArray[np.uint8] = self._arena.view(0, name).reshape(-1).view(np.uint8)
        return view

    def _output(self, name: str) -> Numbers:
        """What a kernel left in an output, as numbers."""
        value, raw = self._values[name], self._bytes(name)
        if isinstance(value, np.ndarray):
            return raw.copy().view(value.dtype).reshape(value.shape)
        import torch

        bits = torch.from_numpy(raw.copy()).view(value.dtype).reshape(value.shape)
        return _as_float64(bits)


def _is_integer_vector(value: Any) -> bool:
    if isinstance(value, (int, float)) or len(value.shape) != 1:
        return False
    return str(value.dtype).rpartition(".")[2] in ("int8", "uint8", "int32", "int64", "int16")


def _like(numbers: list[int], value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return np.asarray(numbers, dtype=value.dtype)
    return value.new_tensor(numbers)


def _bytes_of(value: Any) -> NDArray[np.uint8]:
    if isinstance(value, np.ndarray):
        return np.ascontiguousarray(value).reshape(-1).view(np.uint8)
    import torch

    raw: NDArray[np.uint8] = value.contiguous().cpu().reshape(-1).view(torch.uint8).numpy()
    return raw


def _as_float64(value: Any) -> Array:
    if isinstance(value, np.ndarray):
        return value.astype(np.float64)
    numbers: Array = value.detach().cpu().double().numpy()
    return numbers
