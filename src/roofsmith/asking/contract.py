"""What a change may be, in the language of the kernel. Pure."""

from __future__ import annotations

from roofsmith.domain.kernel import MODULE_LANGUAGES
from roofsmith.domain.target import Target

_NATIVE = (
    "Change one thing. Define `solve` with the same parameters in the same order; `const` pointers "
    "are inputs, the others are outputs that must be written completely. No state between calls, "
    "no files, no processes."
)
_MODULE = (
    "Change one thing. Define `run_kernel(**inputs)`, which fills the outputs in place, and keep "
    "the parameters' names. No state between calls, no files, no processes."
)


def contract_of(target: Target) -> str:
    """What whoever proposes a change has to keep to."""
    spec = target.command
    if spec is not None:
        return (
            f"Change one thing, in editable files only: {', '.join(spec.editable)}. Everything"
            f" else in the repository at {spec.commit[:12]} is frozen: a candidate that changes it"
            " is rejected."
        )
    return _MODULE if target.language in MODULE_LANGUAGES else _NATIVE
