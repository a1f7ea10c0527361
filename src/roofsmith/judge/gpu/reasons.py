"""What errors of a GPU's driver and runtime are called in an outcome, and what to do about them."""

from __future__ import annotations

from roofsmith.domain.outcome import Crashed, Failure, Incorrect

DEVICE_REASONS = {
    "illegaladdress": "illegal_address",
    "misalignedaddress": "misaligned_address",
    "illegalinstruction": "illegal_instruction",
    "assert": "assertion",
    "launchtimeout": "device_timeout",
    "launchoutofresources": "out_of_resources",
    "cooperativelaunchtoolarge": "out_of_resources",
    "outofmemory": "out_of_device_memory",
    "memoryallocation": "out_of_device_memory",
    "nobinaryforgpu": "wrong_architecture",
    "nokernelimagefordevice": "wrong_architecture",
    "invaliddevicefunction": "wrong_architecture",
    "unsupportedptxversion": "driver_too_old",
    "insufficientdriver": "driver_too_old",
    "nodevice": "no_device",
}
"""Reason codes by the names of errors, as `_plain` spells them: CUDA's driver, its runtime and HIP
have a name of their own each for the same error, under the same number."""
REFUSED_LAUNCHES = {"invalidvalue": "launch_refused", "invalidconfiguration": "launch_refused"}
"""Further ones of the runtime, which returns them from a launch and lets the program go on."""
OTHER_DEVICE_REASON = "device_error"
"""Of every other error; the driver's name for it is in the detail."""

ADVICE = {
    "illegal_address": "`roofsmith kernel check KERNEL --sanitize` names the kernel and the line"
    " of CUDA code; for Triton and PyTorch, `compute-sanitizer python` around a script of your own"
    " does",
    "misaligned_address": "a vector of 16 bytes, such as float4, must lie at a multiple of 16",
    "illegal_instruction": "look for __trap() and for code that must not be reached, such as the"
    " end of a function that should return a value; or inline PTX that this device doesn't have",
    "assertion": "what it printed has the line and the condition: mend what breaks it, or the"
    " condition",
    "device_timeout": "a GPU that drives a display ends kernels after seconds: a smaller workload,"
    " more and shorter launches, or a GPU without a display",
    "device_error": "`roofsmith kernel check KERNEL --sanitize` shows whether it is the kernel,"
    " if it is CUDA; if others fail, too, `nvidia-smi -q` and Xid in `dmesg` say what is wrong with"
    " the device",
    "out_of_resources": "fewer threads per block, registers (__launch_bounds__, -maxrregcount) or"
    " shared memory; in Triton smaller blocks, fewer num_stages or num_warps",
    "out_of_device_memory": "the judge keeps several copies of a workload's arrays; allocate less,"
    " or choose a smaller workload",
    "wrong_architecture": "build for this device's own architecture",
    "driver_too_old": "update the driver, or build with a CUDA toolkit no newer than it",
    "no_device": "nvidia-smi and CUDA_VISIBLE_DEVICES say which devices this process sees",
    "launch_refused": "more than 1024 threads per block, a grid of 0, or more dynamic shared memory"
    " than was asked for: above 48 KiB with cudaFuncSetAttribute("
    "cudaFuncAttributeMaxDynamicSharedMemorySize), up to what the device has",
}
"""What to try, by reason code."""


def device_reason(name: str) -> str:
    """The reason code of an error that a driver, a runtime or HIP has this name for."""
    return DEVICE_REASONS.get(_plain(name), OTHER_DEVICE_REASON)


def device_failure(name: str, said: str, refused: object = None) -> Crashed:
    """What an error of the device came to.

    Args:
        name: the driver's name for it.
        said: what happened, for people.
        refused: error that the runtime returned to the candidate before, which went on: where that
            explains it, as an allocation that failed explains an illegal address, it is the reason.
    """
    reason = device_reason(name)
    earlier = _refusal(refused)
    if earlier is not None and earlier != reason:
        reason, said = earlier, f"{said}, after {refused} from the runtime"
    return Crashed(reason=reason, detail=_advised(reason, said))


def attributed(failure: Failure | None, refused: object) -> Failure | None:
    """A wrong output whose cause is known: a launch or an allocation that the runtime refused.

    `<<<...>>>` doesn't say so itself, and a kernel that never ran leaves its outputs as they were.
    An error alone is no failure: who tries a launch, is refused and does it another way is right.
    """
    reason = _refusal(refused)
    if not isinstance(failure, Incorrect) or reason is None:
        return failure
    said = f"the runtime refused a launch or a call with {refused}; then {failure.detail}"
    return Crashed(reason=reason, detail=_advised(reason, said), log=failure.log)


def _refusal(name: object) -> str | None:
    """The reason code of what a worker says the runtime refused; None for anything else."""
    if not isinstance(name, str):
        return None
    return (DEVICE_REASONS | REFUSED_LAUNCHES).get(_plain(name))


def _advised(reason: str, said: str) -> str:
    return f"{said} ({ADVICE[reason]})" if reason in ADVICE else said


def _plain(name: str) -> str:
    """CUDA_ERROR_NO_DEVICE, cudaErrorNoDevice and hipErrorNoDevice in one spelling."""
    for prefix in ("CUDA_ERROR_", "cudaError", "hipError"):
        name = name.removeprefix(prefix)
    return name.replace("_", "").lower()
