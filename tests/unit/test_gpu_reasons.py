"""Errors of a device have one name each, whoever reports them, and say what to do."""

from __future__ import annotations

import pytest

from roofsmith.domain.outcome import Crashed, Failure, Incorrect, TimedOut
from roofsmith.judge.gpu.reasons import (
    ADVICE,
    DEVICE_REASONS,
    OTHER_DEVICE_REASON,
    REFUSED_LAUNCHES,
    attributed,
    device_failure,
    device_reason,
)
from roofsmith.judge.post_mortem import ADVICE as LATE
from roofsmith.judge.post_mortem import late

UNWRITTEN = Incorrect(reason="nan_output", detail="4 elements of 'y' were not written")


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (("CUDA_ERROR_ILLEGAL_ADDRESS", "cudaErrorIllegalAddress", "hipErrorIllegalAddress"),
         "illegal_address"),
        (("CUDA_ERROR_MISALIGNED_ADDRESS", "cudaErrorMisalignedAddress"), "misaligned_address"),
        (("CUDA_ERROR_OUT_OF_MEMORY", "cudaErrorMemoryAllocation", "hipErrorOutOfMemory"),
         "out_of_device_memory"),
        (("CUDA_ERROR_NO_BINARY_FOR_GPU", "cudaErrorNoKernelImageForDevice",
          "hipErrorNoBinaryForGpu"), "wrong_architecture"),
        (("CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "cudaErrorUnsupportedPtxVersion"),
         "driver_too_old"),
        (("CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "cudaErrorLaunchOutOfResources",
          "hipErrorLaunchOutOfResources"), "out_of_resources"),
        (("CUDA_ERROR_LAUNCH_TIMEOUT", "cudaErrorLaunchTimeout", "hipErrorLaunchTimeOut"),
         "device_timeout"),
        (("CUDA_ERROR_NO_DEVICE", "cudaErrorNoDevice", "hipErrorNoDevice"), "no_device"),
        (("CUDA_ERROR_INVALID_VALUE", "CUDA_ERROR_ECC_UNCORRECTABLE", ""), "device_error"),
    ],
)  # fmt: skip
def test_one_reason_for_the_names_of_one_error(names: tuple[str, ...], reason: str) -> None:
    assert {device_reason(name) for name in names} == {reason}


def test_every_reason_says_what_to_try() -> None:
    reasons = {*DEVICE_REASONS.values(), *REFUSED_LAUNCHES.values(), OTHER_DEVICE_REASON}
    assert ADVICE.keys() == reasons
    for name in ("CUDA_ERROR_ASSERT", "cudaErrorLaunchTimeout", "CUDA_ERROR_ECC_UNCORRECTABLE"):
        found = device_failure(name, "run: cuCtxSynchronize")
        assert found.detail.endswith(f"({ADVICE[found.reason]})")


@pytest.mark.parametrize("op", ["finish", "map"])
def test_a_hang_says_what_to_try(op: str) -> None:
    found = late(op, 3.0)
    reason = "call_deadline" if op == "finish" else "worker_deadline"
    assert found.reason == reason
    assert found.detail == f"{op} did not answer within 3 s and was killed ({LATE[reason]})"


def test_an_allocation_that_failed_explains_what_came_after() -> None:
    name, said = "CUDA_ERROR_ILLEGAL_ADDRESS", "run: cuCtxSynchronize"
    alone = device_failure(name, said)
    assert alone.reason == "illegal_address"
    assert "--sanitize" in alone.detail
    after = device_failure(name, said, "cudaErrorMemoryAllocation")
    assert after.reason == "out_of_device_memory"
    assert after.detail.startswith(f"{said}, after cudaErrorMemoryAllocation from the runtime")
    odd: tuple[object, ...] = ("cudaErrorNotReady", "cudaErrorIllegalAddress", None, 7, {})
    for strange in odd:
        assert device_failure(name, said, strange) == alone


@pytest.mark.parametrize(
    ("refused", "reason"),
    [
        ("cudaErrorInvalidValue", "launch_refused"),
        ("hipErrorInvalidConfiguration", "launch_refused"),
        ("cudaErrorLaunchOutOfResources", "out_of_resources"),
        ("cudaErrorUnsupportedPtxVersion", "driver_too_old"),
        ("cudaErrorNoKernelImageForDevice", "wrong_architecture"),
    ],
)
def test_wrong_outputs_after_a_refused_launch_are_its(refused: str, reason: str) -> None:
    found = attributed(UNWRITTEN, refused)
    assert isinstance(found, Crashed)
    assert found.reason == reason
    assert refused in found.detail
    assert UNWRITTEN.detail in found.detail
    assert ADVICE[reason] in found.detail


@pytest.mark.parametrize("failure", [None, TimedOut(reason="call_deadline"), UNWRITTEN])
def test_nothing_else_is_laid_to_a_launch(failure: Failure | None) -> None:
    odd: tuple[object, ...] = (
        None,
        "cudaErrorNotReady",
        "cudaErrorPeerAccessAlreadyEnabled",
        1,
        [],
    )
    for harmless in odd:
        assert attributed(failure, harmless) == failure
    if failure != UNWRITTEN:
        assert attributed(failure, "cudaErrorInvalidValue") == failure
