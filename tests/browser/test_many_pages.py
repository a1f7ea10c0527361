"""Many campaigns in a browser: found, ticked, held side by side; experiments searched."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from browsing import WIDTHS, Looker, findings
from campaign_builder import softmax_events
from test_many import experiment, named, slower
from test_report_hostile import EVIL
from test_web import Site, serving, written

from roofsmith.experience.database import Database
from roofsmith.store.ledger import JsonlLedger

Look = Callable[..., Looker]
PATHS = ("", "?kernel=softmax", "compare?id={one}&id={two}&id={evil}", "experience",
         "experience?show=latest", "experience/taught")  # fmt: skip


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Repeats of one kernel, a hostile campaign, and a database of experiments."""
    here = tmp_path_factory.mktemp("many")
    for name, factor in (("one", 1), ("two", 3)):
        written(here / name, named(slower(softmax_events(), factor), "softmax-a"))
    written(here / "evil", named(softmax_events(), "scan-d", EVIL, (EVIL,)))
    written(here / "running", named(softmax_events(), "gemm-b")[:3])
    database = f"sqlite:///{here}/experience.db"
    Database(database).add(
        [experiment("taught", "failure", 0.9), experiment("won", "success", 2.0)]
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROOFSMITH_EXPERIENCE", database)
        with serving(here) as found:
            yield found


def address(many: Site, path: str) -> str:
    root = f"{many.address.scheme}://{many.address.netloc}{many.root}/"
    return root + path.format(**many.campaigns())


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("path", PATHS)
def test_a_page_fits_and_runs_nothing_foreign(
    look: Look, many: Site, path: str, width: int
) -> None:
    shown = look(address(many, path), width)
    assert shown.overflow() <= 0
    assert shown.page.locator("#pwned").count() == 0
    assert shown.page.locator("h1").count() == 1


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("path", PATHS)
def test_a_page_can_be_read_by_everybody(
    look: Look, many: Site, axe: str, path: str, dark: bool
) -> None:
    assert findings(look(address(many, path), dark=dark), axe) == []


def test_what_is_ticked_stands_side_by_side_and_what_grows_is_filled_in(
    look: Look, many: Site
) -> None:
    page = look(address(many, "")).page
    page.wait_for_selector("text=live")
    row = page.locator(f"tr[data-campaign='{many.campaigns()['running']}']")
    assert "1 / 1 / 0" in row.inner_text()
    folder = next(
        Path(one["directory"])
        for one in many.document()["campaigns"]  # type: ignore[attr-defined]
        if one["directory"].endswith("/running")
    )
    JsonlLedger(folder / "ledger.jsonl").append(softmax_events()[3])
    page.wait_for_selector("[data-field=counts]:has-text('2 / 2 / 0')")
    for name in ("one", "two"):
        page.locator(f"input[value='{many.campaigns()[name]}']").check()
    page.get_by_text("compare what is ticked").click()
    page.wait_for_selector("h1:has-text('Side by side')")
    assert page.locator("path.band").count() == 2  # over seconds, and over cost
    page.goto(address(many, "experience"))
    page.fill("input[name=q]", "taught")
    page.get_by_role("button", name="show").click()
    page.wait_for_url("**q=taught**")
    assert page.locator("article").count() == 1
