"""What was looked at before a candidate was kept, as records hold it now and held it before."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from roofsmith.domain.campaign import Round
from roofsmith.domain.finding import Unsourced
from roofsmith.domain.inspection import Clean, Inspection
from roofsmith.domain.transfer import TransferCheck
from roofsmith.engine.loop import Engine
from roofsmith.testing.engine import FakeWorld, fake_idea, fake_target
from roofsmith.testing.judge import FakeKernels

INSPECTION = Inspection(workload="n=1", reports=(Clean(tool="memcheck"),))
TRANSFER = TransferCheck(bucket="K1", untraced="no device")


def a_round() -> dict[str, Any]:
    target = fake_target()
    here = FakeWorld(target, FakeKernels(), [fake_idea(target, "idea")])
    return Engine(here.parts(), "test").run().rounds[0].model_dump(mode="json")


def older(finding: Inspection | TransferCheck) -> dict[str, Any]:
    return finding.model_dump(mode="json", exclude={"kind"})


def test_a_round_says_which_finding_is_of_what() -> None:
    unsourced = Unsourced(numbers=("228 KB",))
    document = a_round() | {
        "findings": [one.model_dump(mode="json") for one in (INSPECTION, TRANSFER, unsourced)]
    }
    found = Round.model_validate(document)
    assert (found.inspection, found.transfer) == (INSPECTION, TRANSFER)
    assert found.findings[2] == unsourced
    assert Round.model_validate_json(found.model_dump_json()) == found


def test_an_older_ledger_has_a_field_for_each() -> None:
    document = a_round()
    del document["findings"]
    both = document | {"inspection": older(INSPECTION), "transfer": older(TRANSFER)}
    assert Round.model_validate(both).findings == (INSPECTION, TRANSFER)
    one = document | {"inspection": None, "transfer": older(TRANSFER)}
    assert Round.model_validate(one).findings == (TRANSFER,)
    assert Round.model_validate(document | {"inspection": None}).findings == ()
    assert Round.model_validate(document).findings == ()


def test_what_is_no_finding_is_refused() -> None:
    for wrong in ({"inspection": "clean"}, {"findings": [{"kind": "hearsay"}]}):
        with pytest.raises(ValidationError):
            Round.model_validate(a_round() | wrong)
