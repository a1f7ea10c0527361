"""Every exception roofsmith raises, and nothing else.

A candidate's failure is data (`roofsmith.domain.outcome`); an exception means that roofsmith, its
input or its environment is at fault.

    RoofsmithError
    ├── UsageError              the caller's input can't be used           exit 2
    │   ├── TargetError         a target file or its parts
    │   ├── SignatureError      a kernel without a readable `solve`
    │   ├── BadReferenceError   the reference raises, hangs or contradicts the kernel
    │   ├── UnknownNameError    no wiki page, or no fact of it, is called so
    │   └── AmbiguousNameError  several are
    ├── MachineError            a tool, permission or resource is missing  exit 2
    │   ├── ToolMissingError
    │   ├── CampaignBusyError   another process holds the campaign directory
    │   ├── NoIdleGpuError      every GPU is in use, or the one that was leased is gone
    │   │   └── DeviceFailedError   it is listed, and fails whoever computes on it
    │   └── StorageError        disk full, read-only directory, git refuses
    ├── RenderingError          a report can't be rendered; records are whole  exit 2
    ├── LedgerError             a ledger that can't be trusted             exit 1
    └── BaselineError           the user's own kernel doesn't pass         exit 1

Every message says what happened and where; `hint` says what to try next; `log` names a file that
holds the whole output of the command that failed, if there is one.
"""

from __future__ import annotations

from pathlib import Path


class RoofsmithError(Exception):
    """Base of all errors that roofsmith raises on purpose."""

    exit_code = 2

    def __init__(self, message: str, *, hint: str | None = None, log: Path | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.log = log

    def __str__(self) -> str:
        """The message, the log's path and the hint, a line each."""
        lines = [self.message]
        if self.log is not None:
            lines.append(f"log: {self.log}")
        if self.hint is not None:
            lines.append(f"try: {self.hint}")
        return "\n".join(lines)


class UsageError(RoofsmithError):
    """The caller's input can't be used."""


class TargetError(UsageError):
    """A target file, or a file or value that it names, is wrong."""


class SignatureError(UsageError):
    """A kernel has no `solve` whose signature follows the contract."""


class BadReferenceError(UsageError):
    """The reference raises, hangs, is not deterministic, or contradicts the kernel's signature."""


class UnknownNameError(UsageError):
    """Nothing in the hardware wiki is called so."""


class AmbiguousNameError(UsageError):
    """Several things in the hardware wiki are called so."""


class MachineError(RoofsmithError):
    """Something that this machine should provide is missing."""


class NoGpuError(MachineError):
    """This machine has no GPU at all."""


class ToolMissingError(MachineError):
    """A program that is needed here is not installed."""


class CampaignBusyError(MachineError):
    """Another process is working in this campaign directory."""


class NoIdleGpuError(MachineError):
    """No GPU was idle for as long as one may wait, or the one that was leased is gone."""


class DeviceFailedError(NoIdleGpuError):
    """The GPU is listed, but fails or doesn't answer: not even the reference can compute on it."""


class StorageError(MachineError):
    """A campaign's files can't be written or read: disk full, read-only, git refuses."""


class RenderingError(RoofsmithError):
    """Files of a campaign can't be rendered, which is a fault of roofsmith; its records are whole.

    The first failure is the cause of the exception, so that `--debug` shows where it is.
    """


class LedgerError(RoofsmithError):
    """A ledger is broken, was edited, or doesn't belong to this campaign."""

    exit_code = 1


class BaselineError(RoofsmithError):
    """The kernel to be optimized doesn't build, isn't correct, or can't be timed as it stands."""

    exit_code = 1
