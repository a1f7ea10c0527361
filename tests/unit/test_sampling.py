"""What becomes of a failure while pairs are timed."""

from __future__ import annotations

from roofsmith.domain.outcome import Crashed, Unstable
from roofsmith.judge.timing.sampling import CANDIDATE, INCUMBENT, blame


def test_an_incumbents_failure_decides_nothing_and_a_candidates_is_its_own() -> None:
    died = Crashed(reason="signal_sigsegv", detail="killed")
    assert blame(CANDIDATE, died) == died
    found = blame(INCUMBENT, died)
    assert (found.kind, found.reason) == ("unstable", "incumbent_failed")
    assert "killed" in found.detail


def test_what_is_nobodys_fault_keeps_its_name() -> None:
    busy = Unstable(reason="device_busy", detail="somebody else is at work")
    assert blame(INCUMBENT, busy) == blame(CANDIDATE, busy) == busy
