"""Port `Tracer` for repositories: steps with a file of theirs that says how to call the kernel."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from roofsmith.domain.command import CommandSpec
from roofsmith.domain.kernel import Built, Signature, SourceFile
from roofsmith.domain.target import Target
from roofsmith.domain.transfer import KeptValue, Trace
from roofsmith.domain.values import content_id
from roofsmith.domain.workload import Workload
from roofsmith.domain.yardstick import ENTRY
from roofsmith.judge.sandbox.isolation import Isolation
from roofsmith.overfitting.trace.tracer import StepTracer


class CommandTracer:
    """Calls `run_kernel` of `command.transfer` in a candidate's checkout.

    The file is frozen. Its `setup` and `reference` run in the reference's process, which can't
    import anything of the repository: `run_kernel` imports the kernel when it is called.
    """

    def __init__(
        self,
        target: Target,
        spec: CommandSpec,
        *,
        threads: int,
        cache_dir: Path | None = None,
        isolation: Isolation | None = None,
    ) -> None:
        """Nothing starts yet; for the arguments see `StepTracer`."""
        self._target = target
        self._spec = spec
        self._threads = threads
        self._cache_dir = cache_dir
        self._isolation = isolation

    def trace(
        self, built: Built, workload: Workload, kept_values: Sequence[KeptValue]
    ) -> Trace | str:
        """Some steps with the kernel of a checkout; why not, where that can't be."""
        if self._spec.transfer is None:
            return "the target names no command.transfer, which would say how to call the kernel"
        path = built.library / self._spec.transfer
        try:
            source = path.read_bytes()
            hook = SourceFile(path=path.name, text=source.decode())
        except (OSError, UnicodeDecodeError) as error:
            return f"{self._spec.transfer} can't be read in the checkout: {error}"
        called = self._target.model_copy(
            update={
                "language": "torch", "entry": ENTRY, "kernel": hook, "reference": hook,
                "command": None, "workloads": (workload,),
            }
        )  # fmt: skip
        signature = Signature(entry=ENTRY, parameters=())
        module = built.model_copy(
            update={
                "language": "torch", "library": path, "library_sha256": content_id(source),
                "signature": signature,
            }
        )  # fmt: skip
        tracer = StepTracer(
            called, signature, threads=self._threads,
            device="cuda" if self._spec.device == "gpu" else "cpu",
            cache_dir=self._cache_dir, isolation=self._isolation, root=built.library,
        )  # fmt: skip
        return tracer.trace(module, workload, kept_values)
