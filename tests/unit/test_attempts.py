"""What a profile says where no tool gave one."""

from __future__ import annotations

from pathlib import Path

import pytest
from tool_stand_ins import small_library

from roofsmith.domain.kernel import Built
from roofsmith.domain.profile import Profile
from roofsmith.domain.workload import Workload
from roofsmith.errors import BadReferenceError, MachineError, RoofsmithError
from roofsmith.profilers.attempts import first_that_works

WORKLOAD = Workload(dims={"N": 8})


@pytest.mark.parametrize(
    ("error", "note"),
    [
        (BadReferenceError("setup raises"), "no inputs to profile with: setup raises"),
        (
            MachineError("the worker can't be started", hint="free some memory"),
            "it can't be profiled: the worker can't be started; try: free some memory",
        ),
    ],
)
def test_inputs_are_to_blame_only_where_they_are(
    tmp_path: Path, error: RoofsmithError, note: str
) -> None:
    def fails(built: Built, workload: Workload) -> Profile:
        raise error

    found = first_that_works((fails,), small_library(tmp_path), WORKLOAD)
    assert (found.tool, found.notes) == ("none", (note,))
