"""Pages of `roofsmith serve` in a real Chromium, which is Debian's or whatever is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "unit"))
for needed in ("fastapi", "playwright"):
    pytest.importorskip(needed, reason=f"{needed} is not installed: pip install -e '.[dev]'")

from browsing import LARGEST, Looker, folder_of  # noqa: E402
from test_web import Site, serving  # noqa: E402

CHROMIUMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A browser of its own; it ends with a file's tests, since no other test runs in its loop."""
    from playwright.sync_api import sync_playwright

    found = next((path for name in CHROMIUMS if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("there is no Chromium here: apt-get install chromium")
    sandbox = [] if os.geteuid() else ["--no-sandbox"]  # root can't have one
    with sync_playwright() as play:
        opened = play.chromium.launch(executable_path=found, args=sandbox)
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Campaigns `fine`, `hostile`, `long` and `broken`, and a suite. Nobody changes them."""
    return folder_of(tmp_path_factory.mktemp("campaigns"))


@pytest.fixture(scope="session")
def site(folder: Path) -> Iterator[Site]:
    """One server for all of them, and for what tests put beside them."""
    with serving(folder) as found:
        yield found


@pytest.fixture
def look(browser: Any) -> Iterator[Callable[..., Looker]]:
    """Opens pages; what they asked for, ran and complained of is looked at in the end."""
    opened: list[Looker] = []

    def at(address: str, width: int = 1280, *, dark: bool = False) -> Looker:
        scheme = "dark" if dark else "light"
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=False
        )
        opened.append(Looker(context.new_page()))
        opened[-1].page.goto(address)
        return opened[-1]

    yield at
    for one in opened:
        one.page.context.close()
        assert one.ran == []
        assert one.complaints == []
        assert max(one.sizes.values(), default=0) < LARGEST, one.sizes


@pytest.fixture(scope="session")
def axe(request: pytest.FixtureRequest) -> str:
    """axe-core's script, fetched once by npm; empty where it can't be had."""
    place = request.config.cache.mkdir("axe")  # type: ignore[union-attr]
    script = place / "node_modules" / "axe-core" / "axe.min.js"
    if not script.exists() and shutil.which("npm"):
        npm = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(place)]
        with suppress(subprocess.TimeoutExpired):
            subprocess.run([*npm, "axe-core@4"], capture_output=True, timeout=60, cwd=place)
    return script.read_text() if script.exists() else ""
