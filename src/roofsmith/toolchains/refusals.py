"""What no toolchain would build, known from the build spec alone: no compiler or GPU is needed."""

from __future__ import annotations

from typing import assert_never

from roofsmith.domain.kernel import Candidate
from roofsmith.toolchains import flags, hip, module, nvcc_flags


def refusal(candidate: Candidate) -> tuple[str, str] | None:
    """Why a candidate's flags are not allowed, as (reason code, sentence); None if they are."""
    match candidate.language:
        case "c" | "cpp":
            return flags.refusal(candidate.build)
        case "cuda":
            return nvcc_flags.refusal(candidate.build)
        case "hip":
            return hip.refused_flag(candidate.build)
        case "triton" | "torch":
            return module.refused_flag(candidate.build)
        case "command":  # its own commands build it
            return None
        case _:
            assert_never(candidate.language)
