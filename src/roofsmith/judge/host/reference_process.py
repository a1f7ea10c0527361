"""The reference's own process: draws inputs, computes what is right, counts work.

Holds pristine inputs that no candidate ever saw in its memory, and expected outputs, which are
computed when they are asked for, or ahead. Arrays go out through shared memory that no candidate
maps.
"""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from roofsmith.analysis.tolerance import Budget, Errors
from roofsmith.domain.kernel import Signature
from roofsmith.freed_memory import keep_freed_memory
from roofsmith.job_limits import granted
from roofsmith.judge.correctness.checking import same_bytes
from roofsmith.judge.correctness.conditioning import Usual, as_message, honest, strain
from roofsmith.judge.correctness.distributions import transform
from roofsmith.judge.correctness.exploration import explore
from roofsmith.judge.correctness.long_sums import bounds_of_sums
from roofsmith.judge.correctness.own_draws import figures
from roofsmith.judge.correctness.rounding import jolt
from roofsmith.judge.correctness.shortened_inputs import changed
from roofsmith.judge.correctness.unwritten_outputs import why_unwritten
from roofsmith.judge.host.arena import Arena
from roofsmith.judge.host.arithmetic import HostArithmetic
from roofsmith.judge.host.array_messages import from_json
from roofsmith.judge.host.held_draw import DECLARED, TRUTH, HeldDraw
from roofsmith.judge.host.made_ahead import report, subject_of
from roofsmith.judge.host.reference import Reference, Value
from roofsmith.judge.user_module import Complaint, load_module
from roofsmith.judge.wire import WireError, has_more, receive, send
from roofsmith.privileges import die_with_parent

FORKED_WELL = ("numpy", "scipy")
"""Libraries that work in a forked process: OpenBLAS starts its threads anew there."""


class Answerer(Protocol):
    """What answers the parent: on a CPU, or on a GPU."""

    path: str
    """Of the user's file."""

    def answer(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Do what a message asks."""
        ...


def answering(server: Answerer, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
    """Do what a message asks; whatever user code raises becomes an error message."""
    try:
        return server.answer(message, fds)
    except Complaint as complaint:
        return {"error": str(complaint)}
    except MemoryError as error:
        return {"error": str(error) or "out of memory", "memory": True}
    except Exception as error:  # noqa: BLE001  user code may raise anything; it is reported whole
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if frame.filename == server.path]
        line = own[-1].lineno if own else None
        at = f" (line {line})" if line else ""
        return {
            "error": f"{type(error).__name__}{at}: {error}",
            "raised": type(error).__name__,
            "trace": traceback.format_exc(),
            "function": own[0].name if own else None,
            "memory": type(error).__name__ == "OutOfMemoryError",
        }


class Server:
    """Answers the parent's messages about one reference."""

    def __init__(self) -> None:
        self._reference: Reference | None = None
        self.path = ""
        self._arenas: dict[int, Arena] = {}
        self._drawn: dict[tuple[int, int], HeldDraw] = {}
        self._usual = Usual()
        self._on = HostArithmetic()
        self._steps: Answerer | None = None
        self._may_fork = False
        self._ahead: list[dict[str, Any]] = []
        """Messages that will come, to be worked on when there is nothing else to do."""
        self._is_resting = False
        """Whether that waits: something else is measured."""
        self._reports: socket.socket | None = None
        """Takes word of what was made ahead."""

    @property
    def reference(self) -> Reference:
        """The loaded reference."""
        if self._reference is None:
            raise Complaint("nothing was loaded")
        return self._reference

    def load(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:  # noqa: ARG002
        """Import the reference."""
        limit = granted(resource.RLIMIT_AS, message["memory_bytes"])
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        path = Path(message["path"])
        self.path = str(path)
        before = set(sys.modules)
        module = load_module(path, message["extensions"])
        libraries = {name.partition(".")[0] for name in set(sys.modules) - before}
        self._may_fork = libraries <= {*sys.stdlib_module_names, *FORKED_WELL, module.__name__}
        signature = Signature.model_validate(message["signature"])
        self._reference = Reference(module, signature, message["ptr_size"])
        return {}

    def describe(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:  # noqa: ARG002
        return self.reference.describe(message["dims"])

    def map(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Map an arena that draws and expectations are written to."""
        specs = from_json(message["arrays"])
        self._arenas[message["arena"]] = arena = Arena(specs, message["slots"], fds[0])
        arena.close()  # its descriptor alone
        return {}

    def unmap(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:  # noqa: ARG002
        """Forget an arena and what was drawn into it."""
        self._arenas.pop(message["arena"], None)
        for key in [key for key in self._drawn if key[0] == message["arena"]]:
            del self._drawn[key]
        self._ahead = [job for job in self._ahead if job["arena"] != message["arena"]]
        return {}

    def draw(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:  # noqa: ARG002
        number, slot = message["arena"], message["slot"]
        how = [message[key] for key in ("dims", "seed", "distribution", "free")]
        if (held := self._drawn.get((number, slot))) and held.how == how:
            return {}  # it was made ahead
        if not message.get("ahead"):  # else what follows is to be made of this very draw
            self._ahead = [
                job for job in self._ahead if (job["arena"], job["slot"]) != (number, slot)
            ]
        self._drawn.pop((number, slot), None)
        drawn, outputs = self._inputs(message)
        arena, values = self._arenas[number], dict(drawn)
        for array in arena.layout.arrays:
            value = values.get(array.name)
            if isinstance(value, np.ndarray) and array.is_given:
                if value.shape != array.shape:
                    raise Complaint(
                        f"setup gives {array.name!r} another shape for another seed:"
                        f" {value.shape}, {array.shape}"
                    )
                values[array.name] = place = arena.view(slot, array.name)
                np.copyto(place, value)
        self._drawn[number, slot] = HeldDraw(self.reference, arena, slot, how, values, outputs)
        return {}

    def expect(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:  # noqa: ARG002
        """What the outputs of a slot should be, into the slot's `prefix:` arrays."""
        drawn, other, exact = self._drawn_for(message), message.get("draw"), message["exact"]
        values, outputs = self._inputs(other) if other else (drawn.values, drawn.outputs)
        if (only := message.get("only")) is not None:
            values = {k: values[k] if k in only else v for k, v in drawn.values.items()}
        if message.get("change") is not None:
            with np.errstate(invalid="ignore"):  # outputs hold whatever was there
                values = changed(values, message["change"], self._on)
        results = drawn.expect(values, outputs, exact=exact)
        if message.get("twice"):
            again = self.reference.expect(values, outputs, exact=exact)
            for name, array in results.items():
                if why := why_unwritten(name, array):
                    raise Complaint(why)
                if not same_bytes(array, again[name]):
                    raise Complaint(f"it is not deterministic: {name!r} differs between two calls")
        if values is not drawn.values:
            drawn.hold(TRUTH if exact else DECLARED, results)
        return {}

    def explore(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:  # noqa: ARG002
        """See `judge.correctness.exploration.explore`."""
        with np.errstate(all="ignore"):
            return explore(self.reference, message["dims"], self._on)

    def figures(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:  # noqa: ARG002
        """See `judge.correctness.own_draws.figures`."""
        with np.errstate(all="ignore"):
            return figures(self.reference, message, self._on).model_dump()

    def honest(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:  # noqa: ARG002
        """What honest arithmetic makes of a slot's inputs; the slot holds the truth then."""
        drawn = self._drawn_for(message)
        if "honest" not in drawn.answers:
            with np.errstate(all="ignore"):
                found = honest(drawn, drawn.values, drawn.outputs, self._on, drawn.how[2])
            errors = {name: (one.norm, one.element) for name, one in found.errors.items()}
            drawn.answers["honest"] = {"sound": found.is_sound, "errors": errors}
        return drawn.answers["honest"]

    def strain(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:  # noqa: ARG002
        """How ill-conditioned a slot's inputs are; see `judge.correctness.conditioning.strain`."""
        drawn = self._drawn_for(message)
        if "strain" not in drawn.answers:
            with np.errstate(all="ignore"):
                usual = self._usual.of(message["draw"], self._inputs, self.reference, self._on)
                found = strain(drawn, drawn.values, drawn.outputs, usual, self._on)
            drawn.answers["strain"] = {"strain": as_message(found)}
        return drawn.answers["strain"]

    def sums(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:  # noqa: ARG002
        """See `judge.correctness.long_sums`: the bounds are where the truth was."""
        drawn = self._drawn_for(message)
        if "sums" not in drawn.answers:
            of = drawn.values, drawn.outputs, message["terms"]
            with np.errstate(all="ignore"):
                drawn.answers["sums"] = bounds_of_sums(drawn, *of, self._on)
        drawn.hold(TRUTH, drawn.answers["sums"])
        return {"known": list(drawn.answers["sums"])}

    def jolt(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:  # noqa: ARG002
        """See `judge.correctness.rounding.jolt`; the bounds are arrays of a slot."""
        drawn = self._drawn_for(message)
        drawn.forget()
        bounds = [
            drawn.arena.view(drawn.slot, prefix + message["output"]) for prefix in (DECLARED, TRUTH)
        ]
        norm, element, atol, rtol, own_scale = message["budget"]
        budget = Budget(norm, element, Errors(0.0, 0.0), atol, rtol, own_scale=own_scale)
        of = drawn.values, drawn.outputs, message["which"]
        with np.errstate(all="ignore"):
            return {"jolted": jolt(self.reference, *of, budget, bounds, self._on)}

    def steps(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """A message about steps of training: the reference that is here is lent to them."""
        if self._steps is None:
            from roofsmith.judge.steps.server import StepsServer

            self._steps = StepsServer(self.reference)
        return self._steps.answer(message["step"], fds)

    def fork(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:  # noqa: ARG002
        """Answer on another channel as well, in a process that has loaded the same reference.

        Not where it imports what may have threads: PyTorch's don't live on in a forked process,
        and compute on all processors by themselves.
        """
        with socket.socket(fileno=fds[0]) as channel:
            if not self._may_fork or (os.cpu_count() or 1) < 2:
                return {"pid": 0}
            if (pid := os.fork()) == 0:
                try:
                    die_with_parent()
                    os.close(int(sys.argv[1]))
                    attend(self, channel, self.work_ahead)
                finally:
                    os._exit(0)
        return {"pid": pid}

    def report(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:  # noqa: ARG002
        """Say on a channel of its own what was made ahead."""
        self._reports = socket.socket(fileno=fds[0])
        return {}

    def ahead(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:  # noqa: ARG002
        """Messages that will come, soon or after all others: their answers are remembered with the
        draw. Whoever rested goes on."""
        at = 0 if message["soon"] else len(self._ahead)
        self._ahead[at:at] = message["jobs"]
        self._is_resting = False
        return {}

    def rest(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:  # noqa: ARG002
        """Nothing but what is asked, until more is to be made ahead. Where slots are named, only
        nothing for these, ever."""
        gone = message.get("slots")
        if gone is None:
            self._is_resting = True
            return {}
        self._ahead = [job for job in self._ahead if [job["arena"], job["slot"]] not in gone]
        return {}

    def work_ahead(self) -> bool:
        """Do one thing that will be asked; False if there is none."""
        if self._is_resting or not self._ahead:
            return False
        job = self._ahead.pop(0)
        answer = answering(self, job, [])
        if self._reports is not None and "error" not in answer:  # what is wrong is told when asked
            _, seed, distribution, _ = self._drawn_for(job).how
            where = {key: job[key] for key in ("arena", "slot")}
            told = {"seed": seed, "distribution": distribution, **where, "answer": answer}
            report(self._reports, {**told, "subject": subject_of(job["op"], job)})
        return True

    def answer(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        operations = {
            "load": self.load, "describe": self.describe, "map": self.map, "unmap": self.unmap,
            "draw": self.draw, "expect": self.expect, "explore": self.explore,
            "figures": self.figures, "honest": self.honest, "strain": self.strain,
            "sums": self.sums, "jolt": self.jolt, "steps": self.steps, "fork": self.fork,
            "ahead": self.ahead, "rest": self.rest, "report": self.report,
        }  # fmt: skip
        return operations[message["op"]](message, fds)

    def _drawn_for(self, message: dict[str, Any]) -> HeldDraw:
        """What was drawn into a message's slot."""
        return self._drawn[message["arena"], message["slot"]]

    def _inputs(self, how: dict[str, Any]) -> tuple[dict[str, Value], set[str]]:
        """A draw, from whatever distribution was asked for."""
        values, outputs = self.reference.inputs(how["dims"], how["seed"])
        with np.errstate(all="ignore"):
            made = transform(how["distribution"], values, how["free"], how["seed"], self._on)
        return made, outputs


def serve(server: Answerer, work_ahead: Callable[[], bool] = lambda: False) -> None:
    """Answer on the channel whose descriptor is the first argument, until the parent hangs up."""
    die_with_parent()
    channel = socket.socket(fileno=int(sys.argv[1]))
    attend(server, channel, work_ahead)
    # threads of a user's module must not keep a finished process alive
    sys.stdout.flush()
    os._exit(0)


def attend(server: Answerer, channel: socket.socket, work_ahead: Callable[[], bool]) -> None:
    """Answer on a channel until the parent hangs up.

    Args:
        server: knows the answers.
        channel: to the parent.
        work_ahead: does one thing that will be asked, while nothing is; False if there is none.
    """
    channel.setblocking(True)
    failed: dict[str, Any] | None = None
    with contextlib.suppress(WireError):
        while True:
            while not has_more(channel) and work_ahead():
                pass
            message, fds = receive(channel)
            if message["op"] == "exit":
                return
            answer = answering(server, message, fds)
            if not message.get("told"):
                send(channel, failed or answer)
                failed = None
            elif "error" in answer:
                failed = answer


def main() -> None:
    """Entry of the process."""
    keep_freed_memory()
    server = Server()
    serve(server, server.work_ahead)


if __name__ == "__main__":
    main()
