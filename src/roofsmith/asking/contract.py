"""What a change may be, in the language of the kernel, and how kernels are timed. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from roofsmith.domain.command import CommandSpec
from roofsmith.domain.comparison import ErrorReport
from roofsmith.domain.dialects import DIALECTS
from roofsmith.domain.kernel import MODULE_LANGUAGES, Signature
from roofsmith.domain.returning import returning_entry
from roofsmith.domain.target import HOST_LANGUAGES, Target

_ONE = "Change one thing, so that the measurement says what it brought."
_ALONE = (
    "No state from call to call: nothing computed in one call may be used in another. No files, no"
    " processes, no network, no clock of your own."
)
_WRITTEN = "Every output must be written completely, on every call; inputs must stay as they were."
_LIBRARIES = (
    "The target demands custom code: no library may do the work (BLAS, cuDNN, torch operators)."
)


def contract_of(target: Target, signature: Signature | None = None) -> str:
    """What whoever proposes a change has to keep to, a rule per line."""
    if target.command is not None:
        rules = _of_repository(target.command)
    elif target.language in MODULE_LANGUAGES:
        rules = _of_module(target, signature)
    else:
        rules = _of_library(target, signature)
    return "\n".join(f"- {rule}" for rule in rules)


def exactness_of(errors: Sequence[ErrorReport]) -> str:
    """How exact each output has to be, and how exact the kernel that holds is, a line per output.

    Args:
        errors: of the kernel that holds, over workloads and draws; the tightest budget counts.
    """
    outputs = dict.fromkeys(error.output for error in errors)
    return "\n".join(
        f"- {_exactness(name, [one for one in errors if one.output == name])}" for name in outputs
    )


def _exactness(output: str, errors: Sequence[ErrorReport]) -> str:
    norm = min(error.norm_budget for error in errors)
    element = min(error.element_budget for error in errors)
    if not norm and not element:
        return f"`{output}` must be what the reference computes, exactly."
    reached = [max(e.norm_error for e in errors), max(e.element_error for e in errors)]
    return (
        f"`{output}` may be off the reference in float64 by {norm:.2g} of its norm, and in any"
        f" element by {element:.2g} of its row's scale (the larger of the element and the root mean"
        " square of its row along the last axis); the kernel that holds is off by"
        f" {reached[0]:.2g} and {reached[1]:.2g}."
    )


def timing_of(target: Target, threads: int) -> str:
    """How a kernel's time comes about, a fact per line."""
    if target.command is not None:
        facts = _runs(target.command)
    elif target.language in HOST_LANGUAGES:
        facts = _segments(threads)
    else:
        facts = _queued(target)
    band, budget = target.keep.noise_band, target.keep.judge_budget_s
    facts += (
        f"`faster` means that the interval of the paired ratio lies above {1 + band:g}, twice: the"
        " second measurement runs in fresh processes, and it is the one that counts. Smaller gains"
        f" are a tie. About {budget:g} s are measured.",
        "A class or the whole that gets slower, or a workload that loses"
        f" {target.keep.veto_slowdown:.0%} or more, vetoes. Who aims at one class names it.",
    )
    facts += (_SLOW_REFERENCE,) if target.command is None else ()
    return "\n".join(f"- {fact}" for fact in facts)


def _of_library(target: Target, signature: Signature | None) -> tuple[str, ...]:
    linkage = 'extern "C" void' if target.language != "c" else "void"
    place = "" if target.language in ("c", "cpp") else " Pointers are to device memory."
    return (
        _ONE,
        f"Define `{linkage} {target.entry}(...)` with the same parameters, by type, in the same"
        f" order; it is neither static nor renamed.{place}",
        *_parameters(signature),
        "`const` pointers are inputs. What any other pointer is, the reference shows: an output,"
        " an input that it changes, or scratch that holds garbage before the call and may hold any"
        f" after it. {_WRITTEN}",
        "Arrays are contiguous, aligned to 64 bytes, and don't overlap. Outputs hold garbage before"
        " the call, unless the reference reads them.",
        *(_host_threads() if target.language in ("c", "cpp") else _device(target)),
        _ALONE,
        *_custom(target),
    )


def _host_threads() -> tuple[str, ...]:
    return (
        "Threads: OpenMP, std::thread and pthreads are fine. `solve` returns once all of its work"
        " is done, so join threads or wait at a barrier: what is written later is missing from the"
        " outputs. Leave affinities alone, and start no processes.",
        "A pool that is made in the first call and kept may be static; its threads may sleep or"
        " spin between calls. Starting threads anew in every call costs tens of microseconds.",
        "Static scratch memory is fine, and so are tables that depend on no input: a buffer that is"
        " allocated once. What is read from it must have been written in the same call. One process"
        " runs all workloads in turn, so a buffer has to grow with the sizes; addresses of arrays"
        " change from call to call and mean nothing.",
        "Flags are those of the kernel that holds now, whatever rounds that were rolled back had,"
        " with `-fopenmp` where the source has an OpenMP pragma. `flags` replaces all of them, that"
        " one too: -O, -f, -m, -std, -D, -U, -I, -l and -L are allowed.",
    )


def _device(target: Target) -> tuple[str, ...]:
    return (
        "Launch in the default stream, and have it wait for streams of your own (an event) before"
        " `solve` returns. `cudaDeviceSynchronize()` or HIP's at its end isn't needed, and is put"
        " off; a call that waits for the device in another way can't be queued, and its time"
        " includes launching then.",
        "Static device buffers for scratch are fine, if a call reads nothing from them that it"
        " didn't write. Allocating memory in every call is slow.",
        "Flags are those of the kernel that holds now, whatever rounds that were rolled back had;"
        " `flags` replaces all of them. The architecture is chosen by the toolchain.",
        _precision(target),
    )


def _of_module(target: Target, signature: Signature | None) -> tuple[str, ...]:
    what = "Triton" if target.language == "triton" else "PyTorch"
    if (dialect := DIALECTS.get(target.language)) is not None:
        what = dialect.label
    return (
        _ONE,
        f"Define `run_kernel(**inputs)` in {what}: it takes the inputs by the names that the"
        " reference's `setup` gives them, returns nothing and fills the outputs in place.",
        *_returned(target.kernel.text),
        *_parameters(signature),
        f"Leave `setup` as it is, where the file has one. {_WRITTEN}",
        "Work in the current stream. `@triton.autotune` is fine; what it tries before a"
        " configuration is chosen isn't timed.",
        "Buffers for scratch may be kept in the module, if a call reads nothing from them that it"
        " didn't write.",
        _precision(target),
        _ALONE,
        *_custom(target),
    )


def _returned(text: str) -> tuple[str, ...]:
    name = returning_entry(text)
    if name is None:
        return ()
    return (
        f"Here the file's last lines are such a `run_kernel`, which calls `{name}`: change"
        f" `{name}` and what it uses, and leave those lines as they are, or out.",
    )


def _precision(target: Target) -> str:
    """What the judge holds against a narrower type: the results, never the instructions."""
    own = (
        "The reference may multiply float32 in TF32, and so may you."
        if target.tf32
        else "TF32 products of float32 are too far off as a rule."
    )
    return (
        f"{own} What counts is the budget of errors, on all inputs that the judge draws: single"
        " values of 2^20 times the usual size and more among them, if the reference bears them."
        " Products that are split into several bfloat16 parts are fine while they stay within it. A"
        " type of a smaller range than the declared one, such as float16, overflows there, and is"
        " wrong. What rounded inputs lose is found where a long sum averages it out, too."
    )


def _of_repository(spec: CommandSpec) -> tuple[str, ...]:
    commands = {
        "build": spec.build,
        "test": spec.test,
        "benchmark": spec.benchmark,
        "profile": spec.profile.command if spec.profile is not None else None,
    }
    said = "; ".join(f"{name}: `{text}`" for name, text in commands.items() if text)
    gate = f" Of every row of the benchmark `{spec.gate}` must hold." if spec.gate else ""
    return (
        _ONE,
        f"Edit or add files that match {', '.join(f'`{one}`' for one in spec.editable)}; everything"
        f" else at commit {spec.commit[:12]} is frozen, and who changes it is rejected.",
        f"These run, frozen, in a checkout of the candidate's own: {said}.{gate}",
        "Compiler flags are those that the repository's own build gives.",
    )


def _parameters(signature: Signature | None) -> tuple[str, ...]:
    if signature is None or not signature.parameters:
        return ()
    roles = {"size": "by value"}
    named = ", ".join(
        f"`{p.name}` ({roles.get(p.role, p.role)}, {p.dtype})" for p in signature.parameters
    )
    return (f"In order: {named}.",)


def _custom(target: Target) -> tuple[str, ...]:
    return (_LIBRARIES,) if target.custom_only else ()


_SLOW_REFERENCE = (
    "The reference runs for every check and for what timed calls compute, beside the seconds that"
    " are measured: a slow one makes each round slow."
)
_PAIRS = (
    "Candidate and incumbent run interleaved, in processes of their own: pairs on the same inputs,"
    " in random order, so a slow moment of the machine hits both."
)


def _segments(threads: int) -> tuple[str, ...]:
    count = "1 processor" if threads == 1 else f"{threads} processors"
    return (
        f"{_PAIRS} {count} may be used, and OMP_NUM_THREADS says so.",
        "A segment is as many calls as take about 2 ms (1 to 32), each timed by itself, on arrays"
        " of its own with fresh inputs; they are copied in, outputs too, right before. If those of"
        " all its calls don't fit the last-level cache, twice that cache is read then, and all is"
        " cold; if they fit, they lie where copying left them. Pages exist, huge ones where the"
        " system grants them.",
        "Between segments the process is stopped, with all its threads. Where a call takes less"
        " than 5 ms, one that isn't counted comes first, on other arrays; then the process is"
        " stopped again, and arrays are copied in. So the first counted call finds a pool that"
        " sleeps, unless it spins that long, and pays for waking it.",
        "A gain is confirmed by the judge's own clock on long segments (5 to 10 ms, at most 512"
        " calls or 512 MiB), from waking the process to having stopped it: what threads still do"
        " when calls have returned counts there. What is gained by what stays warm from call to"
        " call, or by work before or after `solve`, is missing.",
        "OpenMP threads are bound, each to a processor of its own. What threads of the"
        " candidate waited for a processor counts as its time, and of the incumbent's time it is"
        " taken off before a gain counts: have no more threads at work, spinning ones too, than"
        " there are processors.",
    )


def _queued(target: Target) -> tuple[str, ...]:
    how = (
        "All calls of a segment are queued before the first one begins: the time is the device's"
        " own, and cheaper launching gains nothing."
        if target.timing == "kernel"
        else "Calls follow each other as fast as the host can launch them; launching counts."
    )
    return (
        _PAIRS,
        how,
        "A segment is as many calls as take about 1 ms (1 to 192), each on arrays of its own with"
        " fresh inputs; three times the L2 cache is written before, so that inputs are cold. Three"
        " calls that aren't counted come first, or one where a call takes more than 5 ms.",
        "A gain is confirmed by the judge's own clock on long segments (5 to 25 ms, at most 512"
        " calls), from when inputs are there to having seen the outputs.",
    )


def _runs(spec: CommandSpec) -> tuple[str, ...]:
    better = "less" if spec.direction == "lower" else "more"
    last = (
        " The mean kernel time of its profiler has the last word on a gain."
        if spec.profile is not None
        else ""
    )
    return (
        "Runs of the whole benchmark of candidate and incumbent alternate; what counts is"
        f" `{spec.metric}` as it prints it, of which {better} is better.{last}",
        "What it reports is its own word: the judge looks at the clock of whole runs beside it.",
    )
