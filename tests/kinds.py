"""Of many cases that one guard answers, `make test` runs one and `make test-all` every one."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, TypeVar

import pytest

Case = TypeVar("Case")


def one_of_each(
    cases: Mapping[str, Case],
    kind: Callable[[Case], Hashable],
    marks: Callable[[Case], Iterable[pytest.MarkDecorator]] = lambda case: (),
) -> list[Any]:
    """All of them for `parametrize`; who isn't the first of its kind, as written, is `whole`."""
    seen: set[Hashable] = set()
    chosen = []
    for name, case in cases.items():
        more = [pytest.mark.whole] if kind(case) in seen else []
        seen.add(kind(case))
        chosen.append(pytest.param(case, id=name, marks=[*marks(case), *more]))
    return chosen


def another(*values: object) -> Any:
    """One more case for `parametrize`, of a kind that a case beside it stands for."""
    return pytest.param(*values, marks=pytest.mark.whole)
