"""The server for coding agents, spoken to by the protocol's own client over both transports."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

pytest.importorskip("mcp", reason="the package mcp is not installed")

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from repository_bench import without_profilers
from test_app import FAST, REFERENCE, SLOW, TARGET, require_quiet

from kinds import another
from roofsmith import api, campaign_socket
from roofsmith.cli.root import cli
from roofsmith.domain.answer import Answer
from roofsmith.mcp.answers import MOST_CHARACTERS, as_json, fitting
from roofsmith.testing.observer import RecordingObserver

pytestmark = pytest.mark.slow

TOOLS = {
    "define", "campaign_start", "campaign_brief", "campaign_try", "campaign_submit",
    "campaign_status", "campaign_show", "campaign_report", "judge", "check", "profile", "roofline",
    "cite", "remarks", "experience_recommend",
}  # fmt: skip
TOKEN = "a token of the tests' own"
needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
Alone = Callable[[], AbstractContextManager[None]]


def environment(cache: Path) -> dict[str, str]:
    return {
        **{name: text for name, text in os.environ.items() if name != campaign_socket.SWITCH},
        "ROOFSMITH_CACHE": str(cache),
        "ROOFSMITH_MCP_TOKEN": TOKEN,
        "ROOFSMITH_EXPERIENCE": str(cache / "experience.db"),
    }


@asynccontextmanager
async def over_stdio(here: Path, cache: Path) -> AsyncIterator[Client]:
    command = ["-c", "from roofsmith.cli import main; main()", "mcp"]
    server = StdioServerParameters(
        command=sys.executable, args=command, env=environment(cache), cwd=str(here)
    )
    async with Client(server) as client:
        yield client


@contextmanager
def served(here: Path, cache: Path) -> Iterator[str]:
    """An HTTP server in a process of its own; its URL."""
    command = ["-c", "from roofsmith.cli import main; main()", "mcp", "--http", "127.0.0.1:0"]
    with subprocess.Popen(
        [sys.executable, *command],
        stdout=subprocess.PIPE,
        text=True,
        cwd=here,
        env=environment(cache),
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()
            process.wait(60)


@asynccontextmanager
async def over_http(url: str, token: str = TOKEN) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=300.0) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        yield client


async def called(client: Client, tool: str, **arguments: Any) -> str:
    """The text of a call that succeeds."""
    text, failed = await asked(client, tool, **arguments)
    assert not failed, text
    assert len(text) <= MOST_CHARACTERS
    return text


async def asked(client: Client, tool: str, **arguments: Any) -> tuple[str, bool]:
    """The text of a call, and whether it failed."""
    result = await client.call_tool(tool, arguments)
    text = "".join(part.text for part in result.content if part.type == "text")
    assert "Traceback" not in text
    return text, bool(result.is_error)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    without_profilers(monkeypatch, tmp_path)
    return furnished(tmp_path)


def furnished(folder: Path) -> Path:
    for name, text in (("scale.c", SLOW), ("reference.py", REFERENCE), ("target.yaml", TARGET)):
        (folder / name).write_text(text)
    return folder


# -- without a campaign ---------------------------------------------------------------------


def test_tools_pages_and_errors_over_stdio(here: Path, cache: Path) -> None:
    async def talk() -> None:
        async with over_stdio(here, cache) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert tools.keys() == TOOLS
            answer = tools["campaign_submit"].input_schema["properties"]["answer"]
            assert answer["properties"].keys() == Answer.model_json_schema()["properties"].keys()
            assert "$ref" not in json.dumps(answer)
            pages = {str(page.uri): page for page in (await client.list_resources()).resources}
            assert {uri.rsplit("/", 1)[1] for uri in pages} == {one.name for one in api.skills()}
            [page] = (await client.read_resource("roofsmith://skills/roofsmith")).contents
            assert page.text == api.skill("roofsmith").read()  # type: ignore[union-attr]
            fact = json.loads(await called(client, "cite", product="H100 SXM", metric="bandwidth"))
            assert fact["citation"]
            paper = {"kernel": "target.yaml", "platform": "H20"}
            assert json.loads(await called(client, "roofline", **paper))["plugged_in"] is False
            remarks = json.loads(await called(client, "remarks", kernel="scale.c"))
            assert isinstance(remarks["remarks"], list)
            asked_for = {"operator": "no such operator", "backend": "hip"}
            past = json.loads(await called(client, "experience_recommend", **asked_for))
            assert past == {"worked": [], "failed": []}
            await told_what_to_do(client)

    async def told_what_to_do(client: Client) -> None:
        for tool, arguments in (
            ("campaign_status", {"directory": "nowhere"}),
            ("campaign_brief", {"directory": "nowhere"}),
            ("campaign_start", {"kernel": "nowhere.yaml"}),
            ("check", {"kernel": "scale.c"}),
            ("roofline", {"kernel": "target.yaml", "platform": "H2O"}),
            ("remarks", {"kernel": "nowhere.c"}),
            ("judge", {"candidate": "nowhere.c", "against": "target.yaml"}),
        ):
            text, failed = await asked(client, tool, **arguments)
            assert failed, tool
            assert re.search(r"[A-Z][a-z]+Error: ", text), text

    asyncio.run(talk())
    assert not (here / "campaigns").exists()


def test_only_who_knows_the_token_is_served(here: Path, cache: Path) -> None:
    request = {"jsonrpc": "2.0", "id": 1, "method": "ping"}

    async def talk(url: str) -> None:
        async with over_http(url) as client:
            assert {tool.name for tool in (await client.list_tools()).tools} == TOOLS
        async with httpx2.AsyncClient() as http:
            for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": TOKEN}):
                assert (await http.post(url, json=request, headers=headers)).status_code == 401
                assert (await http.get(url, headers=headers)).status_code == 401
        with pytest.raises(BaseException):  # noqa: B017, PT011 - which one is the client's affair
            async with over_http(url, "wrong") as client:
                await client.list_tools()

    with served(here, cache) as url:
        asyncio.run(talk(url))


@pytest.mark.parametrize("address", ["0.0.0.0:0", "8080", "127.0.0.1", "192.168.0.1:80", "[::]:0"])
def test_other_machines_are_not_served(address: str) -> None:
    assert CliRunner().invoke(cli, ["mcp", "--http", address]).exit_code == 2


def test_a_short_token_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROOFSMITH_MCP_TOKEN", "short")
    assert CliRunner().invoke(cli, ["mcp", "--http", "127.0.0.1:0"]).exit_code == 2


def test_without_the_package_it_says_how_to_get_it() -> None:
    code = "import sys; sys.modules['mcp'] = None; from roofsmith.cli import main; main()"
    command = [sys.executable, "-c", code, "mcp"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "pip install" in result.stderr


def test_long_answers_are_cut_and_say_so() -> None:
    long = "line\n" * MOST_CHARACTERS
    assert len(fitting(long, "elsewhere")) <= MOST_CHARACTERS
    assert "elsewhere" in fitting(long, "elsewhere")
    assert fitting("short", "elsewhere") == "short"
    rows = [{"round": n, "text": "x" * 100} for n in range(1000)]
    found = json.loads(as_json({"rounds": rows, "text": long, "kept": 3}, "elsewhere"))
    assert found["kept"] == 3
    assert set(found["left_out"]["of"]) == {"rounds", "text"}
    assert found["rounds"][-1] == rows[-1]
    assert as_json({"kept": 3}, "elsewhere") == '{\n "kept": 3\n}'


# -- campaigns ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def begun_once(cache: Path, tmp_path_factory: pytest.TempPathFactory, alone: Alone) -> Path:
    """A campaign that a client began with a kernel file; its directory isn't to be changed."""
    there = furnished(tmp_path_factory.mktemp("begun"))

    async def start() -> dict[str, Any]:
        async with over_stdio(there, cache) as client:
            text, failed = await asked(
                client, "campaign_start", kernel="target.yaml", directory="run", max_iterations=9
            )
            if failed:
                require_quiet(text)
            assert not failed, text
            found: dict[str, Any] = json.loads(text)
            return found

    with alone():
        found = asyncio.run(start())
    assert found["directory"] == str(there / "run")
    assert found["baseline"]
    return there / "run"


@pytest.fixture
def begun(begun_once: Path, here: Path) -> Iterator[Path]:
    """A copy of that campaign, with a repository of its own."""
    copied = Path(shutil.copytree(begun_once, here / "run", symlinks=True))
    lineage = copied / "lineage.json"
    lineage.write_text(lineage.read_text().replace(str(begun_once.parent), str(here)))
    yield copied
    campaign_socket.closed(copied)


def change(text: str, **more: object) -> dict[str, object]:
    """An answer to the first brief that replaces the kernel."""
    campaign = more.pop("campaign", None)
    assert isinstance(campaign, Path)
    baseline = api.read_campaign(campaign).baseline
    return {
        "round": 2,
        "statement": "multiply once",
        "rationale": "sixteen times is too often",
        "evidence": ["B1"],
        "answers": baseline.bottleneck.kind,
        "files": {"scale.c": text},
        **more,
    }


@needs_gcc
@pytest.mark.slow
def test_a_campaign_from_brief_to_report(begun: Path, here: Path, cache: Path) -> None:
    run = {"directory": "run"}

    async def talk() -> None:
        async with over_stdio(here, cache) as client:
            brief = await called(client, "campaign_brief", **run)
            assert "B1" in brief
            assert "void solve" in brief
            for answer, reason in (
                (change(SLOW, campaign=begun), "no_change"),
                (change(FAST, campaign=begun, evidence=[]), "uncited"),
                ({"round": "two", "nonsense": True}, "malformed"),
                ("no JSON at all", "malformed"),
                ([1, 2], "malformed"),
            ):
                told = json.loads(await called(client, "campaign_submit", answer=answer, **run))
                assert told["refused"]["reason"] == reason
                assert not told["kept"]
            text, failed = await asked(client, "campaign_submit", answer={"statement": "x"}, **run)
            assert failed, "which round it answers must be said"
            status = json.loads(await called(client, "campaign_status", **run))
            assert (status["refused"], status["rounds"]) == (5, [])
            assert status["held_open"]
            assert status["limits"]["max_iterations"] == 9
            text = await called(
                client, "campaign_submit", answer=change(FAST, campaign=begun), **run
            )
            told = json.loads(text)
            assert told["refused"] is None
            assert told["round"] == 2
            shown = await called(client, "campaign_show", what="round 2", **run)
            assert "evidence" in shown
            assert "-            sum" in await called(client, "campaign_show", what="diff 2", **run)
            await called(client, "campaign_show", what="counters", **run)
            for what in ("round 9", "diff", "everything", "round two", ""):
                assert (await asked(client, "campaign_show", what=what, **run))[1], what
            await called(client, "campaign_report", **run)
            [page] = (await client.read_resource("roofsmith://report/run")).contents
            assert page.text == (begun / "final_report.md").read_text()  # type: ignore[union-attr]
            [page] = (await client.read_resource(f"roofsmith://report/{begun}")).contents

    asyncio.run(talk())
    rounds = api.read_campaign(begun).rounds
    assert [(r.proposer, r.hypothesis.statement) for r in rounds] == [("mcp", "multiply once")]
    assert not api.verify_campaign(begun).findings


@needs_gcc
@pytest.mark.slow
@pytest.mark.parametrize("transport", [another("stdio"), "http"])
def test_a_client_that_is_gone_leaves_a_campaign_to_go_on_with(
    transport: str, begun: Path, here: Path, cache: Path
) -> None:
    async def leave(client: Client) -> None:
        heard = asyncio.Event()

        async def progress(count: float, total: float | None, message: str | None) -> None:
            heard.set()

        answer = {"directory": "run", "answer": change(FAST, campaign=begun)}
        call = client.call_tool("campaign_submit", answer, progress_callback=progress)
        submitted = asyncio.ensure_future(call)
        told = asyncio.ensure_future(heard.wait())
        await asyncio.wait({submitted, told}, return_when=asyncio.FIRST_COMPLETED)
        assert heard.is_set(), "it is told how far the judge is"
        submitted.cancel()
        await asyncio.gather(submitted, return_exceptions=True)

    async def by_stdio() -> None:
        async with over_stdio(here, cache) as client:
            await leave(client)

    async def by_http(url: str) -> None:
        async with over_http(url) as client:
            await leave(client)
        async with over_http(url) as client:
            status: dict[str, Any] = {"running": True}
            while status["running"]:
                status = json.loads(await called(client, "campaign_status", directory="run"))
            assert status["rounds"] == []
            assert "B1" in await called(client, "campaign_brief", directory="run")

    if transport == "stdio":
        asyncio.run(by_stdio())
    else:
        with served(here, cache) as url:
            asyncio.run(by_http(url))
    with api.open_session(begun, api.settings(), RecordingObserver()) as session:
        assert session.ask().brief.incumbent.kernel.text == SLOW
    assert not api.verify_campaign(begun).findings
