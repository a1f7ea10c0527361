"""How kernels that schedules write stand beside those of the cards for whole operator families.

    python benchmarks/schedule_families.py --output benchmarks/results/schedule-families.json

Renders, for each target below, what the family's card and the schedule's make of the same naive
kernel, checks both against the reference and times them on the same inputs in random turns, the L2
written over before each call (`gpu_side_by_side.py`). Each target has a process of its own. What is
finished is written at once; the same command goes on with what its file lacks. `--render FOLDER`
only writes the kernels, and needs no GPU.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from result_file import Made, made_now, mean_interval, say, write
from roofsmith.domain.arrays import ArraySpec
from roofsmith.domain.description import WorkloadDescription
from roofsmith.domain.device import Device
from roofsmith.domain.kernel import MODULE_LANGUAGES, Candidate, Signature, SourceFile
from roofsmith.domain.profile import Bottleneck, Profile
from roofsmith.domain.target import Target
from roofsmith.domain.values import Value
from roofsmith.machine.choice import source_for
from roofsmith.proposers.cards import Card, CardContext, all_cards
from roofsmith.targets.file import load_target
from roofsmith.toolchains.dispatch import Toolchains

ROOT = Path(__file__).resolve().parents[1]
STAND_IN = Device(
    kind="nvidia", name="NVIDIA H200", cores=132, arch="sm_90",
    limits={"max_shared_bytes_per_block": 232448},
)  # fmt: skip
"""For which kernels are rendered where no GPU is."""
TURNS, TURNS_S = 60, 2.5
"""Whichever comes first, but five turns at least. Chosen."""
PATIENCE_S = 90.0
"""For one target: builds, checks, turns. Chosen."""
NEAR = {"float16": 2e-2, "bfloat16": 2e-2, "float32": 2e-3}
"""Largest difference over the largest value that tells the same work from other work. Chosen."""


@dataclass(frozen=True)
class Pair:
    """A target, and the cards that stand side by side."""

    target: str
    family: str
    schedule: str = "triton-schedule"


PAIRS = {
    "grouped-gemm": Pair("benchmarks/gpu_cases/grouped_gemm", "triton-grouped-gemm"),
    "attention": Pair("examples/triton/attention", "triton-attention"),
    "attention-tf32": Pair("examples/triton/attention/tf32.yaml", "triton-attention"),
    "causal-attention": Pair("benchmarks/gpu_cases/causal_attention", "triton-attention"),
    "fp8-quantisation": Pair("benchmarks/gpu_cases/fp8_quantisation", "triton-quantisation"),
    "cuda-attention": Pair("examples/cuda/attention", "attention-3xtf32", "cuda-schedule"),
}


class Kernel(Value):
    """What a card made of the naive kernel."""

    text: str = ""
    flags: tuple[str, ...] = ()
    why: str = ""
    """There is none."""


class Way(Value):
    """A card's kernel on one workload."""

    card: str
    times_us: tuple[float, ...] = ()
    """In the turns that all of a workload's ways share."""
    median_us: float | None = None
    error: float | None = None
    """Largest difference from the reference's result, over that one's largest value."""
    failed: str | None = None


class Workload(Value):
    """Both kernels on the same inputs."""

    dims: dict[str, int]
    ways: tuple[Way, ...]
    ratio: float | None = None
    """The family's time over the schedule's; above 1 the schedule's is faster."""
    interval: tuple[float, float] | None = None
    """95% bounds for the mean of turns' ratios, by Student's t of their logarithms."""


class Compared(Value):
    """A target."""

    name: str
    family: str
    schedule: str
    workloads: tuple[Workload, ...] = ()
    failed: tuple[str, ...] = ()


class ScheduleFamilies(Value):
    """A result file."""

    made: Made
    torch: str
    triton: str
    compared: tuple[Compared, ...] = ()

    def with_one(self, found: Compared) -> ScheduleFamilies:
        """With a target's newest state."""
        kept = (one for one in self.compared if one.name != found.name)
        return self.model_copy(update={"compared": (*kept, found)})


def main() -> None:
    """Compare what the command line asks for."""
    options = parsed(sys.argv[1:])
    if options.one is not None:
        print(compared(options.one, options.rendered).model_dump_json())
        return
    if options.render is not None:
        for name in options.names or list(PAIRS):
            rendered_all(name, options.render)
        return
    run(options)


def parsed(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    made = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    made.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(PAIRS)}")
    made.add_argument("--output", type=Path, default=Path("schedule-families.json"))
    made.add_argument("--budget-s", type=float, default=240.0, help="no target starts later")
    made.add_argument("--render", type=Path, help="only write the kernels into this folder")
    made.add_argument("--one", help=argparse.SUPPRESS)
    made.add_argument("--rendered", type=Path, help=argparse.SUPPRESS)
    options = made.parse_args(arguments)
    unknown = {*options.names, *([options.one] if options.one else [])} - PAIRS.keys()
    if unknown:
        made.error(f"no target is called {', '.join(sorted(unknown))}")
    return options


def run(options: argparse.Namespace) -> None:
    """Every target that was asked for and isn't in the file yet."""
    with tempfile.TemporaryDirectory() as folder:
        names = options.names or list(PAIRS)
        program = [sys.executable, str(Path(__file__).resolve()), "--render", folder]
        renders = {name: subprocess.Popen([*program, name]) for name in names}
        _run(options, renders, Path(folder))


def _run(options: argparse.Namespace, renders: Mapping[str, Any], folder: Path) -> None:
    """The kernels of all are written side by side; they are timed one after the other."""
    result, begin = earlier(options.output), time.monotonic()
    known = {card.id for card in all_cards()}
    for name in options.names or list(PAIRS):
        pair = PAIRS[name]
        if any(one.name == name and one.workloads for one in result.compared):
            say(f"{name}: is in {options.output}")
            continue
        if missing := {pair.family, pair.schedule} - known:
            say(f"{name}: no card is called {', '.join(sorted(missing))}")
            continue
        if time.monotonic() - begin > options.budget_s:
            say(f"{name}: no time is left")
            continue
        renders[name].wait()
        found = in_process(name, folder)
        write(result := result.with_one(found), options.output)
        print("\n".join(lines(found)), flush=True)


def earlier(path: Path) -> ScheduleFamilies:
    """What the file holds already, if it is of this GPU."""
    import torch
    import triton

    result = ScheduleFamilies(
        made=made_now(source_for("triton").environment()),
        torch=torch.__version__,
        triton=triton.__version__,
    )
    if not path.exists():
        return result
    known = ScheduleFamilies.model_validate_json(path.read_text(encoding="utf-8"))
    if known.made.environment.device.name != result.made.environment.device.name:
        raise SystemExit(f"{path} is of another GPU: name another file with --output")
    return known


def in_process(name: str, folder: Path) -> Compared:
    """A target in a process that may crash."""
    pair = PAIRS[name]
    command = [sys.executable, str(Path(__file__).resolve()), "--one", name]
    command += ["--rendered", str(folder)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
    except subprocess.TimeoutExpired:
        why = f"killed after {PATIENCE_S:.0f} s"
        return Compared(name=name, family=pair.family, schedule=pair.schedule, failed=(why,))
    if done.returncode != 0:
        why = done.stderr.strip()[-600:]
        return Compared(name=name, family=pair.family, schedule=pair.schedule, failed=(why,))
    return Compared.model_validate_json(done.stdout.splitlines()[-1])


def lines(found: Compared) -> Iterator[str]:
    """A target in words."""
    yield from (f"{found.name}: {why}" for why in found.failed)
    for one in found.workloads:
        sizes = ", ".join(f"{name}={size}" for name, size in one.dims.items())
        ways = "; ".join(
            f"{way.card} {way.failed or f'{way.median_us} us, off by {way.error:.1e}'}"
            for way in one.ways
        )
        ratio = "" if one.ratio is None or one.interval is None else (
            f" -> {one.ratio:.3f}x [{one.interval[0]:.3f}, {one.interval[1]:.3f}]"
        )  # fmt: skip
        yield f"{found.name} {sizes}: {ways}{ratio}"


# -- kernels -------------------------------------------------------------------------------------


def context_of(target: Target, device: Device, folder: Path) -> CardContext:
    """What cards are told in the first round, without a measurement."""
    source = SourceFile(path=target.kernel.path, text=target.kernel.text)
    candidate = Candidate(language=target.language, sources=(source,), build=target.build)
    signature = Signature(entry="run_kernel", parameters=())
    if target.language not in MODULE_LANGUAGES:
        signature = Toolchains(Path(tempfile.gettempdir())).signature(candidate)
    return CardContext(
        candidate=candidate,
        signature=signature,
        device=device,
        threads=1,
        family=target.family,
        dims=tuple(dict(one.dims) for one in target.workloads),
        bounds=(),
        descriptions={one.label: described(target, one.dims, folder) for one in target.workloads},
        profile=Profile(tool="none", workload=target.workloads[0].label),
        bottleneck=Bottleneck(
            kind="unknown", confidence=0.0, evidence=("nothing was run",), roofline_fraction=0.1
        ),
        times_s={},
        tf32=target.tf32,
        target=target,
    )


def described(target: Target, dims: Mapping[str, int], folder: Path) -> WorkloadDescription:
    """Arrays and numbers that `setup` makes."""
    import torch

    _, maker = modules(target, folder)
    given = maker.setup(**dims, seed=1)
    arrays, scalars = [], {}
    for name, value in given["inputs"].items():
        if isinstance(value, torch.Tensor):
            role = "output" if name in given["outputs"] else "input"
            dtype = str(value.dtype).removeprefix("torch.")
            arrays.append(ArraySpec(name, role, dtype, tuple(value.shape)))  # type: ignore[arg-type]
        else:
            scalars[name] = value
    return WorkloadDescription(tuple(arrays), scalars, None, None, None, None)


def modules(target: Target, folder: Path) -> tuple[Any, Any]:
    """The reference, and what has `setup`: the reference, too, or the naive kernel."""
    from gpu_side_by_side import module

    path = folder / f"truth_{Path(target.truth.path).name}"
    path.write_text(target.truth.text, encoding="utf-8")
    reference = module(path)
    if hasattr(reference, "setup"):
        return reference, reference
    path = folder / f"naive_{Path(target.kernel.path).name}"
    path.write_text(target.kernel.text, encoding="utf-8")
    return reference, module(path)


def rendered(name: str, context: CardContext) -> dict[str, Kernel]:
    """By card its kernel, or why there is none."""
    cards = {card.id: card for card in all_cards()}
    found: dict[str, Kernel] = {}
    for one in (PAIRS[name].family, PAIRS[name].schedule):
        made = kernel_of(cards[one], context) if one in cards else "there is no such card"
        found[one] = (
            Kernel(why=made)
            if isinstance(made, str)
            else Kernel(text=made.kernel.text, flags=made.build.flags)
        )
    return found


def kernel_of(card: Card, context: CardContext) -> Candidate | str:
    """What a card makes of the naive kernel."""
    try:
        change = card.apply(context)
    except Exception as error:  # noqa: BLE001 - a card's failure is a result
        return f"{type(error).__name__}: {error}"[:300]
    return "it doesn't apply" if change is None else change.candidate


def rendered_all(name: str, folder: Path) -> None:
    """Write a target's kernels into a folder, and what they are built with."""
    folder.mkdir(parents=True, exist_ok=True)
    import torch

    has_gpu = torch.cuda.is_available()
    device = source_for("triton").environment().device if has_gpu else STAND_IN
    with tempfile.TemporaryDirectory() as own:
        target = load_target(ROOT / PAIRS[name].target)
        for card, made in rendered(name, context_of(target, device, Path(own))).items():
            path = folder / f"{name}_{card}.json"
            path.write_text(made.model_dump_json(), encoding="utf-8")
            if made.why:
                say(f"{name}: {card}: {made.why}")
                continue
            path.with_suffix(Path(target.kernel.path).suffix).write_text(made.text)
            say(f"{name}: {card}: {len(made.text.splitlines())} lines")


# -- times ---------------------------------------------------------------------------------------


def compared(name: str, kernels: Path) -> Compared:
    """Both cards' kernels on all workloads of a target; needs a GPU."""
    pair = PAIRS[name]
    with tempfile.TemporaryDirectory() as own:
        folder = Path(own)
        target = load_target(ROOT / pair.target)
        made = {
            card: Kernel.model_validate_json((kernels / f"{name}_{card}.json").read_text())
            for card in (pair.family, pair.schedule)
        }
        failed = tuple(f"{card}: {one.why}" for card, one in made.items() if one.why)
        paths: dict[str, tuple[Path, tuple[str, ...]]] = {}
        for card, one in made.items():
            if not one.why:
                path = folder / f"{card.replace('-', '_')}{Path(target.kernel.path).suffix}"
                path.write_text(one.text, encoding="utf-8")
                paths[card] = path, one.flags
        workloads = tuple(
            timed(modules(target, folder), dict(one.dims), paths) for one in target.workloads
        )
    return Compared(
        name=name, family=pair.family, schedule=pair.schedule, workloads=workloads, failed=failed
    )


def timed(
    loaded: tuple[Any, Any],
    dims: dict[str, int],
    paths: Mapping[str, tuple[Path, tuple[str, ...]]],
) -> Workload:
    """Every kernel on the same inputs, in random turns."""
    import torch

    import gpu_side_by_side as side

    reference, maker = loaded
    given = maker.setup(**dims, seed=1)
    inputs, outputs = given["inputs"], given["outputs"]
    torch.backends.cuda.matmul.allow_tf32 = False
    before = {name: inputs[name].clone() for name in outputs}
    reference.reference(**inputs)
    expected = {name: inputs[name].float().clone() for name in outputs}
    ways, calls = {}, {}
    for card, (path, flags) in paths.items():
        try:
            call = side.kernel(path, inputs, flags)
            for name in outputs:
                inputs[name].copy_(before[name])
            call()
            torch.cuda.synchronize()
            error = side.error_of(inputs, expected)
            ways[card] = Way(card=card, error=error)
            if not error <= max(NEAR.get(str(inputs[n].dtype)[6:], 1e-1) for n in outputs):
                ways[card] = Way(card=card, error=error, failed=f"off by {error:.1e}")
                continue
            for _ in range(side.WARM_CALLS):
                call()
            torch.cuda.synchronize()
            calls[card] = call
        except Exception as error:  # noqa: BLE001 - a kernel's failure is a result
            ways[card] = Way(card=card, failed=f"{type(error).__name__}: {error}"[:400])
    side.TURNS, side.TURNS_S = TURNS, TURNS_S
    times = side.in_turns(calls)
    for card, found in times.items():
        update = {"times_us": tuple(found), "median_us": median(found)}
        ways[card] = ways[card].model_copy(update=update)
    workload = Workload(dims=dims, ways=tuple(ways.values()))
    if len(times) < 2:
        return workload
    family, schedule = (times[card] for card in paths)
    logs = [math.log(one / other) for one, other in zip(family, schedule, strict=True)]
    low, high = mean_interval(logs)
    ratio = math.exp(sum(logs) / len(logs))
    return workload.model_copy(update={"ratio": ratio, "interval": (math.exp(low), math.exp(high))})


if __name__ == "__main__":
    main()
